"""Decide for each file that loses rows whether it is dropped, marked or rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rowmerge.errors import RowsMustStay
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.plan.bins import bins_to_rewrite
from rowmerge.plan.file_strategy import Strategy, choose_strategy
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.reading.scan import deleted_rows, spark_path
from rowmerge.spark.writing.write import Rewrite, rewrite_files
from rowmerge.spark.writing.written import Written
from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.snapshots.files import AddedFile, FileChanges, ListedFile, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def file_changes(spark: SparkSession, snapshot: Snapshot, plan: RowPlan, written: Written, files: TargetFiles) -> tuple[FileChanges, int]:
    """Rewrite files that lost too many rows. Return the changes of the target's files, and the number of rows that rewriting copied.

    Raises RowsMustStay, and errors of reading deleted rows and of rewriting.
    """
    touched_files = written.touched_files(files.to_read)
    deleted = _deleted_by_strategy(spark, snapshot, plan, written, touched_files)
    rewritten = deleted[Strategy.REWRITE]
    copies = _rewrite(spark, snapshot, [file for file in touched_files if file.path in rewritten], rewritten)
    changes = FileChanges(
        added=(*written.files, *copies),
        removed=(*files.whole.paths, *deleted[Strategy.DROP], *rewritten),
        deleted=deleted[Strategy.MARK],
        change_rows=tuple(written.change_rows),
    )
    return changes, sum(file.records for file in copies)


def _deleted_by_strategy(
    spark: SparkSession, snapshot: Snapshot, plan: RowPlan, written: Written, files: Sequence[ListedFile]
) -> dict[Strategy, dict[str, Positions]]:
    """Choose the strategy of each file that loses rows. Return all deleted positions of the files by strategy and path."""
    deleted: dict[Strategy, dict[str, Positions]] = {strategy: {} for strategy in Strategy}
    deleted_before = deleted_rows(spark, snapshot, [file.path for file in files if file.deleted]) if files else {}
    for file in files:
        file_deleted_before = deleted_before.get(file.path, Positions())
        positions = written.positions[spark_path(file.path)] | file_deleted_before
        newly_deleted = len(positions) - len(file_deleted_before)
        deleted[_strategy(snapshot, plan, file, len(positions), newly_deleted)][file.path] = positions
    return deleted


def _strategy(snapshot: Snapshot, plan: RowPlan, file: ListedFile, deleted: int, newly_deleted: int) -> Strategy:
    """Return whether a file that loses rows is dropped, marked or rewritten. Raises RowsMustStay if the table forbids to rewrite it."""
    blocker = snapshot.shape.rewrite_blocker
    chosen = choose_strategy(
        snapshot.settings.write_mode(plan.operation) if blocker is None else WriteMode.MERGE_ON_READ,
        can_mark=snapshot.shape.supports_merge_on_read,
        records=file.records,
        deleted=deleted,
        newly_deleted=newly_deleted,
        size=file.size,
    )
    if blocker is not None and chosen is Strategy.REWRITE:
        raise RowsMustStay(plan.table, blocker, "rewrite files of")
    return chosen


def _rewrite(spark: SparkSession, snapshot: Snapshot, files: Sequence[ListedFile], deleted: Mapping[str, Positions]) -> Sequence[AddedFile]:
    """Write the live rows of the files into new files, small files of a partition together."""
    if not files:
        return ()
    bins = bins_to_rewrite(files, snapshot.settings.target_file_size)
    rewrites = [Rewrite({path: deleted[path] for path in bin_.paths}, bin_.partition, bin_.size) for bin_ in bins]
    return rewrite_files(spark, snapshot, rewrites).files
