"""Spark settings of Delta Lake and Iceberg on Spark: those that rowmerge honours, and a warning for all others."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.property_values import SIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
PROPERTY_DEFAULTS = "spark.databricks.delta.properties.defaults."
OPTIMIZE_SIZE = "spark.databricks.delta.optimize.maxFileSize"
_HONOURED = {
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
_PREFIXES = ("spark.databricks.delta.", "spark.sql.iceberg.")
_SET = re.compile(r"set\s+`?(?P<name>[\w.-]+)`?\s*=", re.IGNORECASE)

logger = logging.getLogger(__name__)
_reported_names: set[str] = set()


def report_ignored_settings(names: Iterable[str]) -> None:
    """Log one warning for each setting of Delta Lake or Iceberg on Spark that has no effect.

    Args:
        names: The names of Spark settings.
    """
    for name in names:
        is_honoured = name in _HONOURED or name.startswith(PROPERTY_DEFAULTS) or not name.startswith(_PREFIXES)
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
