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
    """Return the changes of the target's files, and the number of rows that rewriting copied.

    Raises RowsMustStay, and what reading deleted rows and rewriting raise.
    """
    touched = written.touched_files(files.to_read)
    deleted_before = deleted_rows(spark, snapshot, [file.path for file in touched if file.deleted]) if touched else {}
    deleted: dict[Strategy, dict[str, Positions]] = {strategy: {} for strategy in Strategy}
    for file in touched:
        positions = written.positions[spark_path(file.path)] | deleted_before.get(file.path, Positions())
        newly_deleted = len(positions) - len(deleted_before.get(file.path, ()))
        deleted[_strategy(snapshot, plan, file, len(positions), newly_deleted)][file.path] = positions
    rewritten = deleted[Strategy.REWRITE]
    copies = _rewrite(spark, snapshot, [file for file in touched if file.path in rewritten], rewritten)
    changes = FileChanges(
        added=(*written.files, *copies),
        removed=(*files.whole.paths, *deleted[Strategy.DROP], *rewritten),
        deleted=deleted[Strategy.MARK],
        change_rows=tuple(written.change_rows),
    )
    return changes, sum(file.records for file in copies)


def _strategy(snapshot: Snapshot, plan: RowPlan, file: ListedFile, deleted: int, newly_deleted: int) -> Strategy:
    """Return what becomes of a file that loses rows. Raises RowsMustStay if the table forbids to rewrite it."""
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
