"""Masks of the files that belong to partitions, by the partition values in the file listing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from rowmerge.errors import PlanError
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.table.metadata.schema import arrow_schema, backquote
from rowmerge.table.snapshots.files import FileMask
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_partitions_known(snapshot: Snapshot) -> None:
    """Check that the file listing has the partition values of every file.

    Raises:
        PlanError: A file was written before the partitioning changed.
    """
    if snapshot.files().partitions.null_count:
        raise PlanError(
            f"{snapshot.name} has files that were written before its partitioning changed, so the partitions of their rows are unknown. "
            f"Rewrite these files first (OPTIMIZE), or select the rows to replace by a condition: INSERT INTO … REPLACE WHERE."
        )


def partition_mask(spark: SparkSession, snapshot: Snapshot, values: Mapping[str, str]) -> FileMask:
    """Return the mask of the files that have these partition values.

    Args:
        spark: The Spark session that evaluates the values.
        snapshot: The version of the table that contains the files.
        values: The SQL text of each partition value, by exact column name. Empty to select all files.
    """
    if not values:
        return every_file
    check_partitions_known(snapshot)
    # Spark evaluates each value, and the cast gives it the type of its column. Arrow keeps the time zone of an instant, unlike PySpark.
    evaluated_row = spark.range(1).selectExpr(*(f"{text} as {backquote(name)}" for name, text in values.items())).toArrow()
    schema = arrow_schema(snapshot.schema.select(tuple(values)))
    partition = {name: evaluated_row[name].cast(schema.field(name).type)[0].as_py() for name in values}
    return any_partition_mask(snapshot, tuple(values), [partition])


def any_partition_mask(snapshot: Snapshot, columns: Sequence[str], partitions: Iterable[Mapping[str, object]]) -> FileMask:
    """Return the mask of the files whose values in these columns equal those of one of the partitions.

    The mask is false for a file that was written before the partitioning changed, because its partition is unknown.

    Args:
        snapshot: The version of the table that contains the files.
        columns: The names of the partition fields to compare.
        partitions: The values of each partition by the name of the field.
    """
    # Hive-style folders of Delta cannot tell an empty string from NULL.
    null_values = (None,) if snapshot.shape.partition_values_in_files else (None, "", b"")
    key = partial(_comparable_values, columns=columns, null_values=null_values)
    keys = {key(partition) for partition in partitions}
    return lambda listing: pa.array([values is not None and key(values) in keys for values in listing.partitions.to_pylist()], pa.bool_())


def _comparable_values(partition: Mapping[str, object], columns: Sequence[str], null_values: Sequence[object]) -> tuple[object, ...]:
    """Return the values of a partition in these columns. `null_values` become None, and NaN equals NaN, as in Spark."""
    values = (None if partition[column] in null_values else partition[column] for column in columns)
    return tuple("NaN" if value != value else value for value in values)
