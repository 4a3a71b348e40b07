"""MERGE, UPDATE, DELETE and INSERT … REPLACE: plan, find and write rows, commit, and retry after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, TargetFileChanges, Timings, row_counts, row_metrics
from rowmerge.execution.ways import selection
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.execution.ways.way import ExecutionResult, PlannedStatement, RowChangeRequest
from rowmerge.plan.file_strategy import Strategy, bins_to_rewrite, choose_strategy, small_files_to_rewrite
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.reading.data_files import spark_path
from rowmerge.spark.reading.deleted_rows import deleted_rows
from rowmerge.spark.source.source import SourceRowsOnce
from rowmerge.spark.writing.write import rewrite_files
from rowmerge.spark.writing.write_output import WriteOutput, discard_on_error
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, FileListing, ListedFile, Positions
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def change_rows(
    spark: SparkSession, table: Table, plan_for: Callable[[Snapshot], PlannedStatement], options: CommitOptions = DEFAULT_COMMIT_OPTIONS
) -> ChangeResult:
    """Plan a row-level statement on the newest version, find and write its rows, and commit. Retry after a conflict.

    Args:
        spark: The Spark session that finds and writes the rows.
        table: The table to change.
        plan_for: The function that plans the statement on a version of the table. It is called once per attempt.
        options: The number of retries, and the transaction of the commit.

    Raises:
        CommitConflict: All attempts conflict with concurrent commits.
        MultipleSourceRowsMatch: Several source rows match one target row.
        RowsMustStay: A feature of the table forbids moving rows to another file.
    """
    timings, sources = Timings(), list[SourceRowsOnce | None]()

    def plan_and_execute() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            snapshot.check_writable()
            request = RowChangeRequest(spark, snapshot, plan_for(snapshot), timings.measure, timings.measure_step)
            sources.append(request.planned.source)
            if request.updates_rows:  # an updated row moves to a new file, which a feature of the table may forbid
                snapshot.shape.check_rows_may_move("update rows of")
        return _rewrite_files_and_build_attempt(request, selection.execute(request), timings)

    def discard_source_rows() -> None:
        if sources and sources[-1] is not None:
            sources[-1].discard_rows()

    return commit_with_retry(table, plan_and_execute, timings, options, discard_source_rows)


def _rewrite_files_and_build_attempt(request: RowChangeRequest, result: ExecutionResult, timings: Timings) -> Attempt:
    """Drop, mark or rewrite the files that lose rows, and return the attempt to commit. A rewrite copies the live rows of a file."""
    plan, snapshot = request.plan, request.snapshot
    with discard_on_error(result.output, snapshot.shape.filesystem_options), timings.measure("spark"):
        target_changes = change_files(request.spark, snapshot, plan, result.output, result.files)
    file_changes = target_changes.changes
    counts = row_counts(result.output, file_changes, result.files.removable)
    source_rows = 0 if result.source is None else result.source.row_count
    commit_request = CommitRequest(
        plan.operation,
        parameters=plan.parameters,
        metrics=row_metrics(plan, result.output, counts, target_changes, source_rows=source_rows, timings=timings),
        files=file_changes,
        reads=_read_set(request, result),
        definition=None if plan.new_schema is None else TableDefinition(schema=request.table_after.schema),
    )
    return Attempt(snapshot, commit_request, counts, file_changes.new_files)


def _read_set(request: RowChangeRequest, result: ExecutionResult) -> Reads:
    """Return the files and rows that the statement read. A concurrent commit that changes them is a conflict."""
    files = result.files
    if request.planned.reads_table:  # every row of the version counts as read
        return Reads(frozenset(files.listing.paths), may_match=every_file)
    paths, unchanged_rows = frozenset(files.candidates.paths), result.insert_preventing_rows
    return Reads(paths, may_match=files.mask, columns=files.columns, rows=unchanged_rows, has_matching_rows=result.matching)


def change_files(spark: SparkSession, snapshot: Snapshot, plan: RowPlan, output: WriteOutput, files: TargetFiles) -> TargetFileChanges:
    """Drop, mark or rewrite each file that loses rows. Return the file changes to commit, with their counts.

    A file that loses all its rows is dropped. A marked file stays, and a deletion vector or a position delete file lists its deleted
    rows. A rewritten file is replaced with a new file that contains its remaining rows.

    Args:
        spark: The Spark session that rewrites files.
        snapshot: The version of the table that the statement changes.
        plan: The plan of the statement.
        output: The new files, and the positions of updated and deleted rows by file.
        files: The files that the statement read, and the files that it removes without reading them.

    Raises:
        RowsMustStay: A feature of the table forbids rewriting a file.
    """
    files_losing_rows = output.touched_files(files.to_read)
    # Each strategy has the positions of the deleted rows by file path.
    deleted_positions = _deleted_by_strategy(spark, snapshot, plan, output, files_losing_rows)
    dropped, marked, rewritten = (deleted_positions[strategy] for strategy in (Strategy.DROP, Strategy.MARK, Strategy.REWRITE))
    # Small files of a partition are rewritten together.
    target_size = snapshot.settings.for_rewrites.target_file_size
    bins = bins_to_rewrite([file for file in files_losing_rows if file.path in rewritten], target_size)
    rewrite_results = rewrite_files(spark, snapshot, bins, rewritten, target_size=target_size).files if bins else []
    file_changes = FileChanges(
        added=(*output.files, *rewrite_results),
        removed=(*files.removable.paths, *dropped, *rewritten),
        deleted=marked,  # the files stay, and these positions become deleted rows
        change_rows=tuple(output.change_rows),
    )
    return _with_counts(file_changes, files.removable, files_losing_rows, copied_rows=sum(file.records for file in rewrite_results))


def _with_counts(
    changes: FileChanges, removable: FileListing, files_losing_rows: Sequence[ListedFile], *, copied_rows: int
) -> TargetFileChanges:
    """Return the file changes with the counts for the statement's metrics. `removable`: the files that are removed without a read."""
    removed_files = [file for file in files_losing_rows if file.path not in changes.deleted]
    vectors_updated = sum(file.deleted > 0 for file in files_losing_rows if file.path in changes.deleted)
    removed_vectors = sum(file.deleted > 0 for file in removed_files) + (pc.sum(pc.greater(removable.deleted, 0)).as_py() or 0)
    return TargetFileChanges(
        changes,
        copied_rows=copied_rows,
        removed_bytes=sum(file.size for file in removed_files) + removable.total_size,
        vectors_removed=vectors_updated + removed_vectors,
        vectors_updated=vectors_updated,
    )


def _deleted_by_strategy(
    spark: SparkSession, snapshot: Snapshot, plan: RowPlan, output: WriteOutput, files: Sequence[ListedFile]
) -> dict[Strategy, dict[str, Positions]]:
    """Choose the strategy for each file that loses rows. Return the positions of all deleted rows, by strategy and file path."""
    earlier_deletions = deleted_rows(spark, snapshot, [file.path for file in files if file.deleted]) if files else {}
    positions = {file.path: output.positions[spark_path(file.path)] | earlier_deletions.get(file.path, Positions()) for file in files}
    newly_deleted = {path: len(rows) - len(earlier_deletions.get(path, ())) for path, rows in positions.items()}
    reduced_files = [file for file in files if newly_deleted[file.path] and len(positions[file.path]) != file.records]
    rewritten_small_files = small_files_to_rewrite(
        reduced_files,
        [file.size for file in output.files],
        snapshot.settings.for_rewrites.target_file_size,
        shares_deletion_files=snapshot.shape.shares_deletion_files,
    )
    deleted: dict[Strategy, dict[str, Positions]] = {strategy: {} for strategy in Strategy}
    for file in files:
        counts = len(positions[file.path]), newly_deleted[file.path]
        strategy = _file_strategy(snapshot, plan, file, *counts, is_rewritten_small_file=file.path in rewritten_small_files)
        deleted[strategy][file.path] = positions[file.path]
    return deleted


def _file_strategy(
    snapshot: Snapshot, plan: RowPlan, file: ListedFile, deleted_count: int, newly_deleted_count: int, *, is_rewritten_small_file: bool
) -> Strategy:
    """Choose whether to drop, mark or rewrite a file that loses rows. Raise RowsMustStay if the table forbids rewriting the file.

    A marked file stays, and a deletion vector (Delta) or a position delete file (Iceberg) lists its deleted rows. `deleted_count`: the
    number of deleted rows after the statement. `newly_deleted_count`: the number of rows that the statement itself deletes.
    `is_rewritten_small_file`: whether mode `auto` rewrites the file because it is small.
    """
    # A feature of the table may forbid moving rows to another file. Then the file must be marked, whatever the table's write mode is, even
    # if it is invalid.
    rows_may_move = snapshot.shape.rewrite_blocker is None
    strategy = choose_strategy(
        snapshot.settings.write_mode(plan.operation) if rows_may_move else WriteMode.MERGE_ON_READ,
        can_mark=snapshot.shape.supports_merge_on_read,
        is_rewritten_small_file=is_rewritten_small_file,
        records=file.records,
        deleted=deleted_count,
        newly_deleted=newly_deleted_count,
        size=file.size,
    )
    if strategy is Strategy.REWRITE:  # also with a blocker, if the table cannot mark rows
        snapshot.shape.check_rows_may_move("rewrite files of")
    return strategy
