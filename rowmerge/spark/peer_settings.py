"""Spark settings of Delta Lake and Iceberg on Spark: those that rowmerge honours, and a warning for all others."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.property_values import CODEC, SIZE, Values, enumeration, whole_number
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
PROPERTY_DEFAULTS = "spark.databricks.delta.properties.defaults."
SNAPSHOT_PROPERTIES = "spark.sql.iceberg.snapshot-property."
CODEC_SETTING, LEVEL_SETTING = "spark.sql.iceberg.compression-codec", "spark.sql.iceberg.compression-level"
_MODE_PROPERTIES = tuple(f"write.{operation}distribution-mode" for operation in ("", "merge.", "update.", "delete."))
_OVERRIDES: dict[str, tuple[Values[Any], tuple[str, ...]]] = {
    "spark.sql.iceberg.distribution-mode": (enumeration(Distribution), _MODE_PROPERTIES),
    CODEC_SETTING: (CODEC, ("write.parquet.compression-codec", "write.delete.parquet.compression-codec")),
    LEVEL_SETTING: (whole_number(1, 22), ("write.parquet.compression-level", "write.delete.parquet.compression-level")),
}
"""The settings that override properties of Iceberg tables (SparkWriteConf): their values, and the properties."""
OPTIMIZE_SIZE = "spark.databricks.delta.optimize.maxFileSize"
_HONOURED = {
    *_OVERRIDES,
    USER_METADATA,
    OPTIMIZE_SIZE,
    "spark.databricks.delta.checksum.mismatch.fatal",
    "spark.databricks.delta.retentionDurationCheck.enabled",
    "spark.databricks.delta.schema.autoMerge.enabled",
    "spark.databricks.delta.vacuum.logging.enabled",
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.write.txnVersion.autoReset.enabled",
}
_HONOURED_PREFIXES = (PROPERTY_DEFAULTS, SNAPSHOT_PROPERTIES)
_PREFIXES = ("spark.databricks.delta.", "spark.sql.iceberg.")
_MAX_GZIP_LEVEL = 9
_SET = re.compile(r"set\s+`?(?P<name>[\w.-]+)`?\s*=", re.IGNORECASE)

logger = logging.getLogger(__name__)
_reported_names: set[str] = set()
_settings_readers = ThreadPoolExecutor(4, "rowmerge-settings")
"""The threads that read all settings. Spark opens a connection for each thread, so the threads stay."""


def report_ignored_settings(names: Iterable[str]) -> None:
    """Log one warning for each setting of Delta Lake or Iceberg on Spark that has no effect.

    Args:
        names: The names of Spark settings.
    """
    for name in names:
        is_honoured = name in _HONOURED or name.startswith(_HONOURED_PREFIXES) or not name.startswith(_PREFIXES)
        if not is_honoured and name not in _reported_names:
            _reported_names.add(name)
            logger.warning("The setting %s has no effect in rowmerge. docs/sql.md lists the settings that have one.", name)


def report_ignored_set(statement: str) -> None:
    """Log a warning if a statement `SET name = value` sets such a setting. `statement`: the text without comments at its beginning."""
    match = _SET.match(statement.lstrip())
    if match:
        report_ignored_settings([match["name"]])


def user_metadata(spark: SparkSession) -> str | None:
    """Return the text that commits store in the history of a table, or None if the setting USER_METADATA is not set."""
    return spark.conf.get(USER_METADATA, None)


def default_properties(spark: SparkSession) -> dict[str, str]:
    """Return the table properties that new Delta tables get unless a statement sets them, from the settings below PROPERTY_DEFAULTS."""
    settings = spark.conf.getAll
    return {
        f"delta.{name.removeprefix(PROPERTY_DEFAULTS)}": value for name, value in settings.items() if name.startswith(PROPERTY_DEFAULTS)
    }


def with_iceberg_settings(spark: SparkSession, table: Table) -> Table:
    """Return the table for a statement that writes rows: in an Iceberg table, settings of the session override its properties.

    Args:
        spark: The Spark session with the settings.
        table: The table that the statement writes. A Delta table stays as it is.

    Raises:
        ConfigurationError: A setting does not allow its value.
    """
    if table.branches is None:  # a Delta table
        return table
    values = {name: value for name in _OVERRIDES if (value := spark.conf.get(name, None)) is not None}
    for name, value in values.items():
        allowed_values, _ = _OVERRIDES[name]
        if not allowed_values.allow(value):
            raise ConfigurationError(f"The setting {name} is {value!r}. Set it to {allowed_values.description}.")
    if values.get(CODEC_SETTING, "").strip().lower() == "gzip" and int(values.get(LEVEL_SETTING, "1")) > _MAX_GZIP_LEVEL:
        raise ConfigurationError(f"The setting {LEVEL_SETTING} is {values[LEVEL_SETTING]}. Set it to a number from 1 to 9 for gzip.")
    properties = {property_: value.strip() for name, value in values.items() for property_ in _OVERRIDES[name][1]}
    return table.with_write_properties(properties) if properties else table


def begin_snapshot_properties(spark: SparkSession) -> Callable[[], Mapping[str, str]]:
    """Begin to read the settings below SNAPSHOT_PROPERTIES, and return a function that waits for these properties of new snapshots.

    Spark reads only all settings together, which takes 15 to 20 ms. So a thread reads them while the statement runs.

    Args:
        spark: The Spark session with the settings.

    Returns:
        A function that returns the properties by name. It raises ConfigurationError for a name that the engine sets itself.
    """
    return _settings_readers.submit(_snapshot_properties, spark).result


def _snapshot_properties(spark: SparkSession) -> dict[str, str]:
    settings = spark.conf.getAll
    properties = {name.removeprefix(SNAPSHOT_PROPERTIES): settings[name] for name in settings if name.startswith(SNAPSHOT_PROPERTIES)}
    for name in properties:
        if name == "operation" or name.startswith("rowmerge."):
            raise ConfigurationError(f"The setting {SNAPSHOT_PROPERTIES}{name} sets a property of the engine. Choose another name.")
    return properties


def optimize_size(spark: SparkSession) -> int | None:
    """Return the target size in bytes of the files that OPTIMIZE writes into a Delta table. Return None if OPTIMIZE_SIZE is not set.

    Raises:
        ConfigurationError: The value is not a size.
    """
    value = spark.conf.get(OPTIMIZE_SIZE, None)
    if value is None:
        return None
    if not SIZE.allow(value):
        raise ConfigurationError(f"The setting {OPTIMIZE_SIZE} is {value!r}. Set it to {SIZE.description}.")
    return SIZE.convert(value.strip())
