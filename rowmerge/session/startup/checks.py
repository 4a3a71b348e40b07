"""Checks of an environment, for `dbt debug`: versions, catalog, store, clock and, on a cluster, executors."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from rowmerge.catalog import IcebergCatalog
from rowmerge.catalog.names import normalize_location
from rowmerge.errors import ConfigurationError, RowmergeError, StorageError
from rowmerge.session.startup.catalog_keys import is_warehouse_folder
from rowmerge.session.startup.cluster import check_executors
from rowmerge.session.startup.connectors import configure_stores
from rowmerge.session.startup.embedded import check_java, start_spark
from rowmerge.session.startup.installation import java_executable
from rowmerge.session.startup.store_checks import EnvironmentCheck, ScratchFile, attempt
from rowmerge.spark.executor_checks import executor_reports
from rowmerge.spark.failures import translated
from rowmerge.spark.spark_session import check_pyspark, is_local_mode
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.store import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DISTRIBUTION = "dbt-rowmerge"
_SHOWN_PACKAGES = ("pyspark", "pyarrow", "pyiceberg", "dbt-core")
_OLDEST_JAVA = 17
_SHORT_RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}
_SHORT_TIMEOUTS = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=20)}
"""Limits for a store that does not answer, with which a check fails soon. Storage options override them."""


def check_environment(
    location: str | None = None,
    *,
    catalog: Mapping[str, Any] | None = None,
    catalogs: Sequence[Mapping[str, Any]] = (),
    spark: SparkSession | None = None,
    spark_config: Mapping[str, object] | None = None,
    schema: str = "default",
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[EnvironmentCheck]:
    """Check what a session with these arguments needs, and yield the result of each check: versions, catalog, store, clock, executors.

    Spark starts only for the executors, on a cluster or a Spark Connect server. The checks leave no file in the warehouse. They delete the
    scratch files of earlier checks that were killed.

    Args:
        location: The path or URL of the warehouse folder, or None for the folder that the catalog chooses.
        catalog: The configuration of an Iceberg catalog for pyiceberg.
        catalogs: The configurations of further catalogs, as in `connect`.
        spark: A running Spark session, or None for a session that `connect` would start.
        spark_config: The Spark settings of the session that would start.
        schema: A schema whose tables determine the location to check, if the catalog chooses locations.
        storage_options: Credentials, endpoints and regions of object stores.

    Raises:
        ConfigurationError: The storage options are invalid, or neither a location nor a catalog is specified.
    """
    # Over 40 lines: the signature and the documentation of seven public arguments.
    settings = {} if spark is not None else dict(spark_config or {})
    session_configuration = StorageConfiguration.parse(storage_options or {})
    configuration = replace(
        session_configuration,
        retry_config={**_SHORT_RETRIES, **session_configuration.retry_config},
        client_options={**_SHORT_TIMEOUTS, **session_configuration.client_options},
    )
    if location is None and catalog is None:
        raise ConfigurationError("Neither a location nor a catalog is specified. Specify the folder or URL of a warehouse, or a catalog.")
    yield attempt("versions", partial(_check_versions, needs_java=spark is None and not _remote_address(settings)))
    for further in catalogs:
        yield from _check_further(further, schema, configuration)
    warehouse = location
    if catalog is not None:
        catalog_check, warehouse = _check_catalog(catalog, location, schema, configuration)
        yield catalog_check
    if warehouse is None:
        return
    scratch_file = ScratchFile(Storage(normalize_location(warehouse), configuration))
    try:
        yield from scratch_file.checks(with_conditional_puts=catalog is None)
        if scratch_file.is_written and _has_distant_executors(spark, settings):
            yield attempt("executors", partial(_check_executors, spark, settings, scratch_file, session_configuration))
        if scratch_file.is_written:
            yield scratch_file.deletion()
    finally:
        scratch_file.discard()


def _check_further(settings: Mapping[str, Any], schema: str, configuration: StorageConfiguration) -> Iterator[EnvironmentCheck]:
    """Yield the checks of a further catalog and of its store, whose names end with that of the catalog."""
    warehouse = settings.get("warehouse")
    if not is_warehouse_folder(settings):
        catalog_check, warehouse = _check_catalog(settings, None, schema, configuration)
        yield replace(catalog_check, name=f"{catalog_check.name} {settings.get('name')}")
    if warehouse is None:
        return
    scratch_file = ScratchFile(Storage(normalize_location(str(warehouse)), configuration))
    try:
        for check in scratch_file.checks(with_conditional_puts=is_warehouse_folder(settings)):
            yield replace(check, name=f"{check.name} {settings.get('name')}")
        if scratch_file.is_written:
            yield replace(scratch_file.deletion(), name=f"store delete {settings.get('name')}")
    finally:
        scratch_file.discard()


def _check_versions(*, needs_java: bool) -> str:
    """Return the versions of Java and of the packages. Raise ConfigurationError for a version that rowmerge does not support."""
    check_pyspark()
    problems = []
    with suppress(PackageNotFoundError):  # rowmerge runs from a folder that is not installed
        requirements = map(Requirement, requires(_DISTRIBUTION) or ())
        for requirement in requirements:
            if requirement.marker is None and not requirement.specifier.contains(version(requirement.name), prereleases=True):
                problems.append(f"{requirement.name} has version {version(requirement.name)}, but {requirement} is required")
    if problems:
        raise ConfigurationError(f"{'. '.join(problems)}. Install the packages again: pip install --upgrade {_DISTRIBUTION}.")
    versions = [f"Python {platform.python_version()}"]
    if needs_java:
        versions.append(f"Java {_java_version()}")
    for package in _SHOWN_PACKAGES:
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return ", ".join(versions)


def _java_version() -> str:
    """Return the version that Java reports. Raise ConfigurationError if Java is missing or too old."""
    check_java()
    java = java_executable()
    process = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    reported = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', process.stderr)
    if reported is None:
        raise ConfigurationError(f"{java} -version reports no version. Install Java {_OLDEST_JAVA} or newer, and set JAVA_HOME to it.")
    if int(reported[2]) < _OLDEST_JAVA:
        raise ConfigurationError(f"{java} is Java {reported[1]}. Install Java {_OLDEST_JAVA} or newer, and set JAVA_HOME to it.")
    return reported[1]


def _check_catalog(
    settings: Mapping[str, Any], location: str | None, schema: str, configuration: StorageConfiguration
) -> tuple[EnvironmentCheck, str | None]:
    """List the schemas of a catalog. Return also the location whose store is checked, or None if it is unknown.

    Args:
        settings: The configuration of the catalog.
        location: The location of the warehouse, or None if the catalog chooses the locations of tables.
        schema: A schema whose tables determine the location. If it does not exist, the first schema does.
        configuration: The storage options.
    """
    name, warehouse = "catalog", location or _location_in(settings)
    try:
        catalog = IcebergCatalog(settings, location, partial(Storage, options=configuration))
        schemas = catalog.schemas()
        detail = f"{settings.get('type', 'configured')}, {len(schemas)} schemas"
        if warehouse is None and schemas:
            # A catalog may give each table a folder with a unique name. All are in the folder of the schema.
            table_schema = schema.lower() if schema.lower() in schemas else schemas[0]
            warehouse = catalog.location_of(table_schema, "rowmerge_debug").rpartition("/")[0]
    except RowmergeError as error:
        return EnvironmentCheck(name, "ERROR", error.message), warehouse
    if warehouse is None:
        detail += ". The catalog chooses the locations of tables, and has no schema yet. So the store is not checked."
    return EnvironmentCheck(name, "OK", detail), warehouse


def _location_in(settings: Mapping[str, Any]) -> str | None:
    """Return the warehouse in the configuration of a catalog if it is a location. In some REST catalogs, it is only a name."""
    warehouse = str(settings.get("warehouse", ""))
    return warehouse if warehouse.startswith(("/", "file:")) or "://" in warehouse else None


def _remote_address(settings: Mapping[str, object]) -> str | None:
    """Return the address of the Spark Connect server that `connect` would use, or None for Spark inside this process."""
    address = settings.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    return None if address is None else str(address)


def _has_distant_executors(spark: SparkSession | None, settings: Mapping[str, object]) -> bool:
    """Return whether tasks run in processes of a cluster or a server, rather than in a local Spark."""
    if spark is not None:
        return not is_local_mode(spark)
    return not (_remote_address(settings) or str(settings.get("spark.master", "local"))).startswith("local")


def _check_executors(
    spark: SparkSession | None, settings: Mapping[str, object], scratch_file: ScratchFile, configuration: StorageConfiguration
) -> str:
    """Return the hosts of executors with their versions, and the version of Spark. Start Spark if `spark` is None.

    `configuration`: the storage options that the session keeps after the check, without the short limits of the other checks.

    Raise ConfigurationError if no executor is free, its Python does not fit, or Spark lacks the connector for the store. Raise StorageError
    if an executor cannot read the scratch file.
    """
    session = spark or start_spark(settings, [scratch_file.path])
    check_executors(session)  # it also reports that no executor is free, for which a job would wait without an end
    configure_stores(session, configuration, [scratch_file.path])
    with translated("the job that checks the executors"):
        reports = executor_reports(session, scratch_file.path, scratch_file.content, scratch_file.filesystem_options)
    for host, _, _, problem in reports:
        if problem:
            advice = "Use a warehouse that all executors share: an object store, or a file system that each host mounts at this path"
            raise StorageError(scratch_file.path, f"an executor on {host} cannot read the file: {problem}", f"{advice}.")
    executors = "; ".join(f"{host} (Python {python}, PyArrow {arrow})" for host, python, arrow, _ in reports)
    return f"Spark {session.version}: {executors}"
