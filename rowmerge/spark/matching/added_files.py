"""Find the files of concurrent commits with rows that a command would have changed or matched."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rowmerge.commands.rows import Match
from rowmerge.errors import MissingDataFile
from rowmerge.plan.row_plan import RowPlan, SourceRows
from rowmerge.spark.matching.joins import BOTH, TARGET_ALONE, Join, joined_rows
from rowmerge.spark.reading.scan import read_snapshot, spark_path
from rowmerge.spark.source.source import Source
from rowmerge.spark.values.outcomes import condition_of
from rowmerge.table.metadata.engine_columns import FILE
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot


def files_with_relevant_rows(spark: SparkSession, snapshot: Snapshot, plan: RowPlan, source: Source | None, files: FileListing) -> pa.Array:
    """Return True for each file with a row that the plan would change, or that keeps a source row from being inserted.

    The files need not belong to the snapshot, but have its schema. None of their rows is deleted.
    """
    try:
        target = read_snapshot(spark, snapshot, files, addresses=True)
        relevant = _relevant_rows(plan, target, source).select(F.col(FILE).alias("file")).distinct()
        paths = relevant.toArrow()["file"].to_pylist()
    except (PySparkException, MissingDataFile):
        # The command is planned again, meets the same error, and reports it.
        return pa.repeat(pa.scalar(True), len(files))
    return pa.array([spark_path(path) in paths for path in files.paths], pa.bool_())


def _relevant_rows(plan: RowPlan, target: DataFrame, source: Source | None) -> DataFrame:
    """Return the rows that the plan would change, or that keep a source row from being inserted."""
    unmatched = plan.of(Match.NOT_MATCHED_BY_SOURCE)
    if source is None or plan.on is None:
        rows = target.alias(plan.target.alias)
        conditions = [condition_of(clause) for clause in unmatched]
    else:
        rows = joined_rows(plan, Join("left" if unmatched else "inner", source.broadcastable, False), target, source)
        conditions = [f"{TARGET_ALONE} and {condition_of(clause)}" for clause in unmatched]
        conditions += [f"{BOTH} and {condition_of(clause)}" for clause in plan.of(Match.MATCHED)]
        conditions += [BOTH] if plan.source_rows is SourceRows.UNMATCHED else []
    return rows.where(" or ".join(f"({condition})" for condition in conditions))
