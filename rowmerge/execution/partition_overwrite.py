"""INSERT OVERWRITE of the partitions of its rows, in a table with files that were written before the partitioning changed.

A file of the present partitioning belongs to one partition, so it is removed as a whole. An older file may have rows of several partitions.
Its rows of the overwritten partitions are deleted, as by a DELETE. Iceberg on Spark keeps these rows, so a partition would have old and new
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.execution.commit import Attempt
from rowmerge.execution.partition_masks import any_partition_mask
from rowmerge.execution.result import Timings, row_counts, row_metrics
from rowmerge.execution.row_change import change_files
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.plan.pruning.file_pruning import all_of, key_mask
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.matching.partition_rows import rows_of_partitions
from rowmerge.spark.writing.write_output import WriteOutput, discard_on_error
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.metadata.schema import arrow_schema
from rowmerge.table.snapshots.files import FileListing, FileMask
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Partitions = Sequence[Mapping[str, Any]]
"""The values of partitions, each by the name of the partition field."""


def overwrite_partitions(
    spark: SparkSession,
    snapshot: Snapshot,
    plan: RowPlan,
    output: WriteOutput,
    append: CommitRequest,
    timings: Timings,
    *,
    reads_table: bool,
) -> Attempt:
    """Return the attempt that adds the new rows, and removes all other rows of their partitions.

    Args:
        spark: The session that reads and rewrites older files.
        snapshot: The version of the table that the statement changes.
        plan: The plan of the INSERT.
        output: The files with the new rows. The function adds the positions of the deleted rows.
        append: The commit that adds the new rows.
        timings: The seconds of each stage.
        reads_table: Whether the query reads the table.

    Raises:
        RowsMustStay: A feature of the table forbids rewriting a file.
    """
    partitions = [file.partition for file in output.files]
    replaced_mask = any_partition_mask(snapshot, [field.name for field in snapshot.shape.partitioning], partitions)
    with discard_on_error(output, snapshot.shape.filesystem_options), timings.measure("spark"):
        files = _files_to_change(snapshot, partitions, replaced_mask)
        if len(files.to_read):
            output.positions = rows_of_partitions(spark, snapshot, files.to_read, partitions)
        target_changes = change_files(spark, snapshot, plan, output, files)
    counts = row_counts(output, target_changes.changes, files.removable)
    change = replace(
        append,
        parameters={**append.parameters, "mode": "Overwrite"},
        metrics=row_metrics(plan, output, counts, target_changes, source_rows=0, timings=timings),
        files=target_changes.changes,
        reads=append.reads if reads_table else Reads(frozenset(files.candidates.paths), may_match=files.mask),
    )
    return Attempt(snapshot, change, counts, target_changes.changes.new_files)


def _files_to_change(snapshot: Snapshot, partitions: Partitions, replaced_mask: FileMask) -> TargetFiles:
    """Return the files of the partitions, which are removed, and the older files that may have rows of them, which are read."""
    bounds_mask, bound_columns = _bounds_mask(snapshot, partitions)
    listing = snapshot.files(bound_columns)
    is_replaced, is_older = replaced_mask(listing), pc.is_null(listing.partitions)
    is_read = pc.and_(is_older, bounds_mask(listing))
    return TargetFiles(
        listing,
        candidates=listing.filter(pc.or_(is_replaced, is_read)),
        removable=listing.filter(is_replaced),
        to_read=listing.filter(is_read),
        mask=lambda added_files: _conflicting(added_files, replaced_mask),
        columns=(),
    )


def _conflicting(added_files: FileListing, replaced_mask: FileMask) -> pa.Array:
    """Return for each file of concurrent commits whether it may have rows of the partitions. Older partitionings are conflicts."""
    return pc.or_(replaced_mask(added_files), pc.is_null(added_files.partitions))


def _bounds_mask(snapshot: Snapshot, partitions: Partitions) -> tuple[FileMask, tuple[str, ...]]:
    """Return the mask of the files whose bounds admit a row of the partitions, and the columns whose bounds the mask reads.

    Only partition fields that are columns take part, because bounds of other transforms are unknown.
    """
    masks, columns = [], list[str]()
    for field in snapshot.shape.partitioning:
        if field.identity and len(field.column) == 1:
            values = [partition[field.name] for partition in partitions]
            type_ = arrow_schema(snapshot.schema).field(field.column[0]).type
            known_values = pa.array([value for value in values if value is not None], type_)
            mask, bound_columns = key_mask(field.column, "<=>", known_values, None in values, snapshot.schema, ())
            masks.append(mask)
            columns += bound_columns
    return all_of(masks), tuple(columns)
