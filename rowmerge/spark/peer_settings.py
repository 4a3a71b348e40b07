"""Spark settings of Delta Lake and Iceberg on Spark: those that rowmerge honours, and a warning for all others."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.property_values import BOOLEAN, CODEC, SIZE, WHOLE_NUMBER, Values, choice, enumeration, whole_number
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
PROPERTY_DEFAULTS = "spark.databricks.delta.properties.defaults."
SNAPSHOT_PROPERTIES = "spark.sql.iceberg.snapshot-property."
CODEC_SETTING, LEVEL_SETTING = "spark.sql.iceberg.compression-codec", "spark.sql.iceberg.compression-level"
_RESERVED_PROPERTIES = {"operation", "wap.id", "published-wap-id", "source-snapshot-id", "replace-partitions"}
"""The properties that determine the operation of a snapshot, and whether and how it is published."""
_MODE_PROPERTIES = tuple(f"write.{operation}distribution-mode" for operation in ("", "merge.", "update."))
_OVERRIDES: dict[str, tuple[Values[Any], tuple[str, ...]]] = {
    "spark.sql.iceberg.distribution-mode": (enumeration(Distribution), _MODE_PROPERTIES),
    CODEC_SETTING: (CODEC, ("write.parquet.compression-codec", "write.delete.parquet.compression-codec")),
    LEVEL_SETTING: (whole_number(1, 22), ("write.parquet.compression-level", "write.delete.parquet.compression-level")),
}
"""The settings that override properties of Iceberg tables (SparkWriteConf): their values, and the properties."""
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_VACUUM_LOGGING = "spark.databricks.delta.vacuum.logging.enabled"
OPTIMIZE_SIZE = "spark.databricks.delta.optimize.maxFileSize"
AUTO_COMPACT = "spark.databricks.delta.autoCompact."
OPTIMIZE_WRITE = "spark.databricks.delta.optimizeWrite."
_HONOURED = {
    *_OVERRIDES,
    USER_METADATA,
    OPTIMIZE_SIZE,
    *(AUTO_COMPACT + name for name in ("enabled", "minNumFiles", "maxFileSize", "minFileSize")),
    *(OPTIMIZE_WRITE + name for name in ("enabled", "binSize")),
    "spark.databricks.delta.checksum.mismatch.fatal",
    RETENTION_CHECK,
    "spark.databricks.delta.schema.autoMerge.enabled",
    _VACUUM_LOGGING,
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.write.txnVersion.autoReset.enabled",
}
_HONOURED_PREFIXES = (PROPERTY_DEFAULTS, SNAPSHOT_PROPERTIES)
_PREFIXES = ("spark.databricks.delta.", "spark.databricks.io.skipping.", "spark.sql.iceberg.")
_DEFAULT_BIN_SIZE = 512 * 1024 * 1024
_MAX_GZIP_LEVEL = 9
_SET = re.compile(r"set\s+`?(?P<name>[\w.-]+)`?\s*=", re.IGNORECASE)

T = TypeVar("T")

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


def is_retention_checked(spark: SparkSession) -> bool:
    """Return whether, according to Delta's setting, a retention period that is too short for concurrent statements is an error."""
    return _is_on(spark, RETENTION_CHECK)


def is_vacuum_logged(spark: SparkSession) -> bool:
    """Return whether, according to Delta's setting, VACUUM adds its start and end to the table's history."""
    return _is_on(spark, _VACUUM_LOGGING)


def _is_on(spark: SparkSession, key: str) -> bool:
    """Return whether a setting is true, which is its default."""
    return str(spark.conf.get(key, "true")).strip().lower() == "true"


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

    Spark cannot list settings by a prefix, and returning all settings takes 15 to 20 ms. So a thread reads them while the statement runs.

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
        if name in _RESERVED_PROPERTIES or name.startswith("rowmerge."):
            raise ConfigurationError(f"The setting {SNAPSHOT_PROPERTIES}{name} sets a property of the engine. Choose another name.")
    return properties


def optimize_size(spark: SparkSession) -> int | None:
    """Return the target size in bytes of the files that OPTIMIZE writes into a Delta table. Return None if OPTIMIZE_SIZE is not set.

    Raises:
        ConfigurationError: The value is not a size.
    """
    return _parse_setting(spark, OPTIMIZE_SIZE, SIZE)


def auto_compact_enabled(spark: SparkSession) -> bool | None:
    """Return the setting that turns auto-compaction on or off for all Delta tables. Return None if it is not set.

    The properties of each table then decide.

    Raises:
        ConfigurationError: The value is not one that the property `delta.autoOptimize.autoCompact` accepts.
    """
    value = _parse_setting(spark, f"{AUTO_COMPACT}enabled", choice("true", "false", "auto", "legacy"))
    return None if value is None else value != "false"


@dataclass(frozen=True)
class CompactionLimits:
    """The limits of auto-compaction.

    `min_files`: how many small files a partition has before they are combined. `max_size`: the target size of a combined file in bytes, or
    None for the table's properties. `min_size`: the size in bytes below which a file counts as small, or None for half of the target.
    """

    min_files: int = 50
    max_size: int | None = None
    min_size: int | None = None


def compaction_limits(spark: SparkSession) -> CompactionLimits:
    """Return the limits of auto-compaction from the settings of the session.

    Raises:
        ConfigurationError: A value is not a number or a size.
    """
    min_files = _parse_setting(spark, f"{AUTO_COMPACT}minNumFiles", WHOLE_NUMBER)
    max_size, min_size = (_parse_setting(spark, f"{AUTO_COMPACT}{name}", SIZE) for name in ("maxFileSize", "minFileSize"))
    return CompactionLimits(CompactionLimits.min_files if min_files is None else min_files, max_size, min_size)


def optimize_write_enabled(spark: SparkSession) -> bool | None:
    """Return the setting that turns optimized writes on or off for all Delta tables. Return None if it is not set.

    The property of each table then decides.

    Raises:
        ConfigurationError: The value is neither true nor false.
    """
    return _parse_setting(spark, f"{OPTIMIZE_WRITE}enabled", BOOLEAN)


def optimize_write_bin_size(spark: SparkSession) -> int:
    """Return the size in bytes, in Spark's memory, of the rows of one file of an optimized write. A number without a unit means MiB.

    Raises:
        ConfigurationError: The value is not a size.
    """
    size = _parse_setting(spark, f"{OPTIMIZE_WRITE}binSize", Values(SIZE.description, _mebibytes))
    return _DEFAULT_BIN_SIZE if size is None else size


def _mebibytes(text: str) -> int:
    return SIZE.convert(f"{text}mb" if text.isdigit() else text)


def _parse_setting(spark: SparkSession, name: str, values: Values[T]) -> T | None:
    """Return the value of a setting, or None if it is not set. Raise ConfigurationError if the setting does not allow the value."""
    text = spark.conf.get(name, None)
    if text is None:
        return None
    if not values.allow(text):
        raise ConfigurationError(f"The setting {name} is {text!r}. Set it to {values.description}.")
    return values.convert(text.strip())
