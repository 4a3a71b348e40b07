"""From the rows that a command takes away to what becomes of their files: dropped, marked, or written again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowmerge.errors import RowsMustStay
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.plan.bins import bins_to_rewrite
from rowmerge.plan.file_strategy import Strategy, strategy
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.reading.scan import deleted_rows, spark_path
from rowmerge.spark.writing.write import Rewrite, rewrite_files
from rowmerge.spark.writing.written import Written
from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.snapshots.files import FileChanges, ListedFile, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def file_changes(spark: SparkSession, snapshot: Snapshot, plan: RowPlan, written: Written, files: TargetFiles) -> tuple[FileChanges, int]:
    """Return the changes of the target's files, and the number of rows that rewriting copied.

    Raises RowsMustStay, and what reading deleted rows and rewriting raise.
    """
    removed: list[str] = list(files.whole.paths)
    marked: dict[str, Positions] = {}
    rewritten: dict[str, Positions] = {}
    touched = written.touched_files(files.to_read)
    before = deleted_rows(spark, snapshot, [file.path for file in touched if file.deleted]) if touched else {}
    copied = 0
    for file in touched:
        path, new = file.path, written.positions[spark_path(file.path)]
        old = before.get(path, Positions())
        gone = new | old
        match _strategy(snapshot, plan, file, len(gone), len(gone) - len(old)):
            case Strategy.DROP:
                removed.append(path)
            case Strategy.MARK:
                marked[path] = gone
            case Strategy.REWRITE:
                rewritten[path] = gone
            case Strategy.KEEP:
                pass
    added = list(written.files)
    if rewritten:
        bins = bins_to_rewrite([file for file in touched if file.path in rewritten], snapshot.settings.target_file_size)
        rewrites = [Rewrite({path: rewritten[path] for path in b.paths}, b.partition, b.size) for b in bins]
        again = rewrite_files(spark, snapshot, rewrites)
        copied = sum(new_file.records for new_file in again.files)
        added += again.files
        removed += rewritten
    return FileChanges(tuple(added), tuple(removed), marked, tuple(written.change_rows)), copied


def _strategy(snapshot: Snapshot, plan: RowPlan, file: ListedFile, deleted: int, newly: int) -> Strategy:
    stays = snapshot.shape.rewrite_blocker
    mode = snapshot.settings.write_mode(plan.operation) if stays is None else WriteMode.MERGE_ON_READ
    chosen = strategy(
        mode, can_mark=snapshot.shape.supports_merge_on_read, records=file.records, deleted=deleted, newly_deleted=newly, size=file.size
    )
    if stays is not None and chosen is Strategy.REWRITE:
        raise RowsMustStay(plan.table, stays, "rewrite files of")
    return chosen
