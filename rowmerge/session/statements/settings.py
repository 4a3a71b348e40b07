"""The settings of a Spark session that change the meaning of statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
CHECKSUM_MISMATCH = "spark.databricks.delta.checksum.mismatch.fatal"
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether names that differ only in case are different names."""
    return _setting(spark, "spark.sql.caseSensitive", "false") == "true"


def overwrites_dynamically(spark: SparkSession) -> bool:
    """Return whether INSERT OVERWRITE replaces only partitions that get rows. Otherwise `PARTITION (p)` replaces all, as in Spark."""
    return _setting(spark, OVERWRITE_MODE, "static") == "dynamic"


def may_evolve(spark: SparkSession, snapshot: Snapshot) -> bool:
    """Return whether all statements may add columns to the table: by Delta's setting of the session, or the table's property."""
    return snapshot.settings.evolves_schema or _setting(spark, AUTO_MERGE, "false") == "true"


def is_checksum_mismatch_fatal(spark: SparkSession) -> bool:
    """Return whether, by Delta's setting, a table version that differs from its checksum file is an error, not a warning."""
    return _setting(spark, CHECKSUM_MISMATCH, "true") != "false"


def is_retention_checked(spark: SparkSession) -> bool:
    """Return whether, by Delta's setting, a retention too short for concurrent statements is an error."""
    return _setting(spark, RETENTION_CHECK, "true") == "true"


def is_vacuum_logged(spark: SparkSession) -> bool:
    """Return whether, by Delta's setting, VACUUM adds its start and end to the table's history."""
    return _setting(spark, "spark.databricks.delta.vacuum.logging.enabled", "true") == "true"


def _setting(spark: SparkSession, key: str, default: str) -> str:
    return str(spark.conf.get(key, default)).strip().lower()
