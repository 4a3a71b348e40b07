"""Spark's settings of a session that say what a statement means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
CHECKSUM_MISMATCH = "spark.databricks.delta.checksum.mismatch.fatal"
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


def case_sensitive(spark: SparkSession) -> bool:
    """Whether names that differ in case alone are two names."""
    return _setting(spark, "spark.sql.caseSensitive", "false") == "true"


def overwrites_dynamically(spark: SparkSession) -> bool:
    """Whether INSERT OVERWRITE of a partitioned table replaces only partitions that get rows.

    Otherwise `PARTITION (p)` without a value replaces every partition, as in Spark.
    """
    return _setting(spark, OVERWRITE_MODE, "static") == "dynamic"


def may_evolve(spark: SparkSession, snapshot: Snapshot) -> bool:
    """Whether statements that do not say so may add to the table's schema: by Delta's setting of the session, or the table's property."""
    return snapshot.settings.evolves_schema or _setting(spark, AUTO_MERGE, "false") == "true"


def is_checksum_mismatch_fatal(spark: SparkSession) -> bool:
    """Whether a version of a Delta table that does not fit its checksum file is an error, by Delta's setting, rather than a warning."""
    return _setting(spark, CHECKSUM_MISMATCH, "true") != "false"


def _setting(spark: SparkSession, key: str, default: str) -> str:
    return str(spark.conf.get(key, default)).strip().lower()
