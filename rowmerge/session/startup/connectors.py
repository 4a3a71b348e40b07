"""The connectors with which Spark reads object stores: the package that the embedded Spark adds, and the check of a session.

PySpark comes without them. Metadata and the data files that Arrow reads need none.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from rowmerge.redaction import stop_debug_log
from rowmerge.spark.connectors import connector_coordinate, missing_connector, spark_home
from rowmerge.spark.spark_session import set_hadoop_settings
from rowmerge.storage.configuration import StorageConfiguration, provider_of
from rowmerge.storage.hadoop import S3_SCHEMES, hadoop_settings, register_session

logger = logging.getLogger(__name__)

_PACKAGES = "spark.jars.packages"
_JAR_SETTINGS = (_PACKAGES, "spark.jars", "spark.driver.extraClassPath")
HADOOP_SCHEMES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss")
ANY_S3 = "s3://"
"""Stands for the locations of tables that a server chooses, if they are probably on S3."""
_checked_schemes: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""The schemes for which a session has a connector."""


def warehouse_locations(location: str | None, catalog: Mapping[str, Any] | None, further: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the locations of those warehouses of a session that are in object stores.

    The name of a warehouse on a server of a REST catalog is no location (see `served_locations`).

    Args:
        location: The warehouse folder of the default catalog, or None.
        catalog: The configuration of an Iceberg catalog, or None.
        further: The configurations of the other catalogs.
    """
    locations = [location, *(each.get("warehouse") for each in ((catalog or {}), *further))]
    return [str(each) for each in locations if each and provider_of(str(each))]


def with_connector(settings: Mapping[str, str], locations: Iterable[str]) -> dict[str, str]:
    """Return the settings of a Spark that starts, with the package of the connector for S3 if a warehouse is there.

    The package is not added if the settings, spark-defaults.conf or spark-submit name jars, or if Spark already has the connector.

    Args:
        settings: The settings that the user has chosen.
        locations: The locations of the warehouses.
    """
    home, coordinate = spark_home(), connector_coordinate("s3")
    names_jars = not {*settings, *_default_settings(home)}.isdisjoint(_JAR_SETTINGS) or _submits_jars()
    if "s3" not in {*map(provider_of, locations)} or names_jars or coordinate is None or [*(home / "jars").glob("hadoop-aws-*.jar")]:
        return dict(settings)
    logger.info("Spark gets the package %s, with which it reads S3.", coordinate)
    return {**settings, _PACKAGES: coordinate}


def configure_stores(spark: SparkSession, configuration: StorageConfiguration, locations: Sequence[str]) -> None:
    """Pass the storage options to Spark, and check that it has the connectors for the warehouses. No request is sent to a store.

    Args:
        spark: The session of Spark.
        configuration: The storage options.
        locations: The locations of the warehouses.

    Raises:
        ConfigurationError: A connector is missing.
    """
    stop_debug_log("py4j")  # it logs all settings and options that Spark's JVM receives
    set_hadoop_settings(spark, hadoop_settings(configuration))
    register_session(configuration)
    for location in locations:
        scheme, provider = location.partition("://")[0], provider_of(location)
        schemes = _checked_schemes.setdefault(spark, set())
        if provider is not None and scheme in HADOOP_SCHEMES and scheme not in schemes:
            problem = _find_problem(spark, scheme)
            if provider == "s3" and "No FileSystem" in problem:
                set_hadoop_settings(spark, S3_SCHEMES)
                problem = _find_problem(spark, scheme)
            if problem and location != ANY_S3:
                raise missing_connector(provider, location)
            if not problem:
                schemes.add(scheme)


def _find_problem(spark: SparkSession, scheme: str) -> str:
    """Return what Spark misses to open files with a scheme, or an empty string."""
    try:
        # A connector rejects a location without a bucket before it sends a request. Spark Connect looks for files when columns are read.
        spark.read.schema("x int").parquet(f"{scheme}:///").columns  # noqa: B018
    except Exception as error:  # noqa: BLE001 - Py4J and Spark Connect have their own classes for errors of Java
        problem = re.search(r"ClassNotFoundException|No FileSystem for scheme", str(error))
        return problem[0] if problem else ""
    return ""


def _default_settings(home: Path) -> set[str]:
    """Return the names of the settings in spark-defaults.conf."""
    path = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    lines = path.read_text().splitlines() if path.is_file() else []
    return {re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in lines}


def _submits_jars() -> bool:
    """Return whether spark-submit has started this process, or whether its arguments or the environment name jars."""
    if not {"PYSPARK_GATEWAY_PORT", "SPARK_DIST_CLASSPATH"}.isdisjoint(os.environ):
        return True
    return bool(re.search(r"--(?:jars|packages|driver-class-path)\b|spark\.jars", os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
