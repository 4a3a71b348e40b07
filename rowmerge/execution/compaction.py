"""OPTIMIZE and REORG: rewrite data files into fewer files without their deleted rows. No row changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Delete
from rowmerge.errors import PlanError, UnknownColumn, UnsupportedTableFeature
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.plan.file_strategy import Bin, CompactionOptions, bins_to_compact, bins_to_purge
from rowmerge.plan.planner import plan_delete
from rowmerge.spark.failures import translated
from rowmerge.spark.reading.deleted_rows import deleted_rows
from rowmerge.spark.reading.scan import files_where
from rowmerge.spark.types import empty_frame, schema_of
from rowmerge.spark.writing.write import rewrite_files, rewrite_in_order
from rowmerge.table.commits.request import CommitRequest, FeatureStep, Reads
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import AddedFile, FileChanges, FileListing
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ChooseBins = Callable[[FileListing, int], list[Bin]]
"""A function that groups the files of a listing into bins, given the size of a new file in bytes. Each bin becomes one new file."""
_DEFAULT_OPTIONS = CompactionOptions()


@dataclass(frozen=True)
class CompactionStatistics:
    """The counts and sizes of one compaction.

    `considered_files`: the number of files that the condition selects. `bins`: the number of groups of files that were rewritten together.
    `partitions`: the number of partitions with rewritten files. `added_sizes`, `removed_sizes`: the size of each file in bytes.
    `removed_vector_count`: the number of removed files that had deletion vectors. `removed_vector_rows`: the number of deleted rows in
    these files.
    """

    considered_files: int = 0
    bins: int = 0
    partitions: int = 0
    added_sizes: Sequence[int] = ()
    removed_sizes: Sequence[int] = ()
    removed_vector_count: int = 0
    removed_vector_rows: int = 0

    @property
    def metrics(self) -> dict[str, int]:
        """The metrics for the table's history, under Delta's names (DeltaOperations.scala)."""
        sorted_sizes = sorted(self.added_sizes) or [0]
        return {
            "numRemovedFiles": len(self.removed_sizes),
            "numRemovedBytes": sum(self.removed_sizes),
            "numAddedFiles": len(self.added_sizes),
            "numAddedBytes": sum(self.added_sizes),
            "minFileSize": sorted_sizes[0],
            "p25FileSize": sorted_sizes[len(sorted_sizes) // 4],
            "p50FileSize": sorted_sizes[len(sorted_sizes) // 2],
            "p75FileSize": sorted_sizes[len(sorted_sizes) * 3 // 4],
            "maxFileSize": sorted_sizes[-1],
            "numDeletionVectorsRemoved": self.removed_vector_count,
            "numDeletionVectorRowsRemoved": self.removed_vector_rows,
        }


@dataclass
class Compaction:
    """One run of OPTIMIZE or REORG on a table.

    `condition`: a SQL condition on partition columns, or None for the whole table. With `by_bounds`, it may use all columns, and selects
    the files whose column bounds allow a matching row. `target_size`: the size of a new file in bytes, or None for the table's properties.
    `is_auto`: whether the compaction follows another commit, instead of a statement OPTIMIZE. `feature_step`: the removal of a
    table feature that the commit makes, or None. `shape_of`: the function that returns the shape of new files for a version, or None if
    they have the shape of the version.
    """

    spark: SparkSession
    table: Table
    operation: str
    choose_bins: ChooseBins
    condition: str | None
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS
    target_size: int | None = None
    by_bounds: bool = False
    is_auto: bool = False
    feature_step: FeatureStep | None = None
    shape_of: Callable[[Snapshot], TableShape] | None = None
    timings: Timings = field(default_factory=Timings)
    statistics: CompactionStatistics = field(default_factory=CompactionStatistics)

    def run(self) -> tuple[ChangeResult, CompactionStatistics]:
        """Rewrite the files and commit. Retry if a concurrent commit changed one of these files.

        Raises:
            CommitConflict: All attempts conflict with concurrent commits.
            PlanError: The condition uses a column that is not a partition column, and `by_bounds` is false.
            UnsupportedTableFeature: A feature of the table forbids rewriting its files.
        """
        return commit_with_retry(self.table, self._plan_and_rewrite, self.timings, self.options), self.statistics

    def _plan_and_rewrite(self) -> Attempt:
        """Choose the files to rewrite, write their live rows to new files, and return the commit that replaces the files.

        Each attempt replaces `statistics`, so that `run` returns the counts and sizes of the attempt that was committed.
        """
        with self.timings.measure("plan"):
            snapshot = self.table.snapshot()
            snapshot.check_writable()
            snapshot.shape.check_rows_may_move("rewrite files of")
            files = self.selected_files(snapshot)
            target_size = self.target_size or snapshot.settings.for_rewrites.target_file_size or WriteSpec.target_file_size
            bins = self.choose_bins(files, target_size)  # each bin becomes one new file
        self.statistics = CompactionStatistics(considered_files=len(files))
        if not bins and self.feature_step is None:
            return Attempt(snapshot, change=None, counts=RowCounts())
        old_paths = tuple(path for bin_ in bins for path in bin_.paths)
        files.with_paths(old_paths).check_listed_once(snapshot.name)
        with self.timings.measure("spark"):
            new_files, self.statistics = self._rewrite(snapshot, files.with_paths(old_paths), bins, target_size)
        return self._attempt(snapshot, new_files, old_paths)

    def _attempt(self, snapshot: Snapshot, new_files: tuple[AddedFile, ...], old_paths: tuple[str, ...]) -> Attempt:
        """Return the attempt that commits the new files and removes the files from which they were rewritten."""
        change = CommitRequest(
            self.operation,
            parameters=self._parameters(),
            metrics=self.statistics.metrics,
            files=FileChanges(added=new_files, removed=old_paths),
            reads=Reads(frozenset(old_paths)),  # only a concurrent change of these files is a conflict
            feature_step=self.feature_step,
            data_change=False,  # readers of changes skip this commit
        )
        counts = RowCounts(files_added=len(new_files), files_removed=len(old_paths), bytes_added=sum(self.statistics.added_sizes))
        return Attempt(snapshot, change, counts, new_files)

    def _rewrite(
        self, snapshot: Snapshot, files: FileListing, bins: Sequence[Bin], target_size: int
    ) -> tuple[tuple[AddedFile, ...], CompactionStatistics]:
        """Rewrite the files of each bin together, without deleted rows and in the table's write order. `files`: the files of all bins.

        Return the new files, and the statistics with the counts and sizes of the rewrite.
        """
        partition_count = len({tuple(bin_.partition.values()) for bin_ in bins})
        deleted_positions = deleted_rows(self.spark, snapshot, files.paths)
        if snapshot.shape.ordering:
            # A Spark scan excludes the deleted rows itself, and a sort orders the others.
            output = rewrite_in_order(
                self.spark, snapshot, files, file_count=len(bins), partition_count=partition_count, target_size=target_size
            )
        else:
            shape = None if self.shape_of is None else self.shape_of(snapshot)
            output = rewrite_files(self.spark, snapshot, bins, deleted_positions, target_size=target_size, shape=shape)
        statistics = replace(
            self.statistics,
            bins=len(bins),
            partitions=partition_count,
            added_sizes=[file.size for file in output.files],
            removed_sizes=files.sizes.to_pylist(),
            removed_vector_count=len(deleted_positions),
            removed_vector_rows=sum(len(positions) for positions in deleted_positions.values()),
        )
        return tuple(output.files), statistics

    def selected_files(self, snapshot: Snapshot) -> FileListing:
        """Return the files that the condition selects by their partition values or, for other columns, by their column bounds.

        A condition on partition columns is exact. With `by_bounds`, other columns select each file whose minimum and maximum values
        allow a matching row. Raise PlanError for a data column without `by_bounds`, and UnknownColumn if a column does not exist.
        """
        files = snapshot.files()
        if self.condition is None:
            return files
        try:
            # Spark evaluates the condition on rows of partition values, which have no data columns.
            with translated(self.condition, snapshot.name):
                return files_where(self.spark, snapshot, files, self.condition)
        except UnknownColumn as error:
            self._check_may_use_data_column(snapshot, error)
        return self._files_by_bounds(snapshot, self.condition)

    def _check_may_use_data_column(self, snapshot: Snapshot, error: UnknownColumn) -> None:
        """Raise `error` if its column does not exist in the table, and PlanError for a data column that `by_bounds` does not allow."""
        column = error.name.rsplit(".", 1)[-1]  # without the table's name as a qualifier
        if snapshot.schema.find(column) is None:
            raise error
        if not self.by_bounds:
            partition_columns = ", ".join(f"`{name}`" for name in snapshot.partition_columns) or "none"
            raise PlanError(
                f"{self.operation} {snapshot.name} WHERE selects whole partitions, but `{error.name}` is not a partition column "
                f"(partition columns: {partition_columns}). Omit WHERE, or use only partition columns."
            ) from error

    def _files_by_bounds(self, snapshot: Snapshot, condition: str) -> FileListing:
        """Return the files whose partition values and column bounds allow a row for which the condition is true."""
        name = TableName(tuple(snapshot.name.split(".")[-1:]))
        with translated(condition, snapshot.name):
            # Spark reports errors of the condition. A plan ignores a condition that it does not understand.
            schema_of(empty_frame(self.spark, snapshot.schema).alias(name.parts[0]).where(condition))
        plan = plan_delete(Delete(name, None, SqlText(condition)), snapshot)
        files = snapshot.files(plan.bound_columns)
        return files.filter(pc.fill_null(plan.files(files), True))

    def _parameters(self) -> dict[str, object]:
        """Return the operation parameters for the table's history, as delta-spark writes them."""
        predicate = [] if self.condition is None else [self.condition]
        if self.feature_step is not None:
            return {}
        if self.operation == "REORG":
            return {"predicate": predicate, "applyPurge": True}
        return {"predicate": predicate, "zOrderBy": [], "clusterBy": [], "auto": self.is_auto}


def optimize(
    spark: SparkSession,
    table: Table,
    condition: str | None,
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS,
    compaction_options: CompactionOptions = _DEFAULT_OPTIONS,
    *,
    by_bounds: bool = False,
) -> tuple[ChangeResult, CompactionStatistics]:
    """Run OPTIMIZE: rewrite small files and files with many deleted rows into files of the target size.

    Args:
        spark: The Spark session that reads and writes the files.
        table: The table to optimize.
        condition: A SQL condition that selects files, or None for all files. Without `by_bounds`, it uses partition columns only.
        options: The number of retries, and the transaction of the commit.
        compaction_options: The file sizes and counts that determine which files are rewritten.
        by_bounds: Whether the condition may use all columns, and selects files by their column bounds.

    Returns:
        The result of the commit, and the counts and sizes of the rewritten files.

    Raises:
        UnsupportedTableFeature: The table is clustered, or has a feature that forbids rewriting its files.
        PlanError: The condition uses a column that is not a partition column, and `by_bounds` is false.
        CommitConflict: All attempts conflict with concurrent commits.
    """
    snapshot = table.snapshot()
    if snapshot.clustering_columns:
        columns = ", ".join(snapshot.clustering_columns)
        advice = f"It is clustered by {columns}. Optimize it in an engine that supports clustering, or use REORG TABLE … APPLY (PURGE)."
        raise UnsupportedTableFeature(snapshot.name, "clustering", action="optimize", advice=advice)
    choose_bins = partial(bins_to_compact, options=compaction_options)
    return Compaction(spark, table, "OPTIMIZE", choose_bins, condition, options, compaction_options.target_size, by_bounds).run()


def purge(
    spark: SparkSession, table: Table, condition: str | None, options: CommitOptions = DEFAULT_COMMIT_OPTIONS
) -> tuple[ChangeResult, CompactionStatistics]:
    """Run REORG TABLE … APPLY (PURGE): rewrite every file that has deleted rows, without these rows.

    Args:
        spark: The Spark session that reads and writes the files.
        table: The table to purge.
        condition: A SQL condition over partition columns that selects files, or None for all files.
        options: The number of retries, and the transaction of the commit.

    Returns:
        The result of the commit, and the counts and sizes of the rewritten files.
    """
    return Compaction(spark, table, "REORG", bins_to_purge, condition, options).run()
