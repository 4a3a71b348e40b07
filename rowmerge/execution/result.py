"""The result of a command: its version, the counts of rows and files, the metrics for the table's history, and the timings.

The metrics have Delta's names. Iceberg's snapshot summaries are derived from them, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rowmerge.execution.row_counts import RowCounts
from rowmerge.execution.ways.way import SCAN_STEP, SOURCE_STEP
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.table.snapshots.files import FileChanges, FileListing


@dataclass
class Timings:
    """The seconds that a command spent in each stage, over all attempts: `plan`, `spark`, `commit` and `wait` (between two attempts).

    A compaction after the commit is the stage `compaction`.

    `steps`: the seconds of the steps of the stage `spark`, SOURCE_STEP and SCAN_STEP, over all attempts.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage, except the time that nested blocks add to other stages."""
        start_time, recorded_seconds = time.perf_counter(), sum(self.seconds.values())
        try:
            yield
        finally:
            nested_seconds = sum(self.seconds.values()) - recorded_seconds
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start_time - nested_seconds

    @contextmanager
    def measure_step(self, step: str) -> Iterator[None]:
        """Add the time of the block to a step of the stage `spark`. Steps are not nested."""
        start_time = time.perf_counter()
        try:
            yield
        finally:
            self.steps[step] = self.steps.get(step, 0.0) + time.perf_counter() - start_time


@dataclass(frozen=True)
class ChangeResult:
    """The result of one command.

    Attributes:
        version: The committed version, or the current version if the command changed nothing.
        counts: The counts of changed rows and files.
        timings: The seconds of each stage.
        attempts: The number of times that the command was planned and run.
        rebases: The number of concurrent commits that changed other rows of the same files.
        replayed: Whether an earlier run of the same transaction committed `version`, and this run changed nothing. If the version of the
            transaction is unknown, `version` is the current version.
        result_row: The values of the row that RESTORE or CLONE returns in Delta, by column name.
    """

    version: int
    counts: RowCounts
    timings: Timings
    attempts: int = 1
    rebases: int = 0
    replayed: bool = False
    result_row: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetFileChanges:
    """The file changes of a row-level statement, and the counts that the statement's metrics need.

    A deletion vector is here also a position delete file of Iceberg. A vector that another one of the same file replaces counts as removed
    and as updated, as in Delta.

    Attributes:
        changes: The file changes to commit.
        copied_rows: The number of unchanged rows in rewritten files.
        removed_bytes: The total size of the removed data files.
        vectors_removed: The number of files whose deletion vector is removed or replaced.
        vectors_updated: The number of files whose deletion vector is replaced.
    """

    changes: FileChanges
    copied_rows: int
    removed_bytes: int
    vectors_removed: int
    vectors_updated: int


def row_counts(output: WriteOutput, files: FileChanges, removed_files: FileListing | None = None) -> RowCounts:
    """Return the counts of the rows and files that a statement changed.

    Args:
        output: The rows that the statement wrote, and the positions of the target rows that it updated or deleted.
        files: The file changes to commit.
        removed_files: The files that the statement removed without reading them, or None if there are none.
    """
    rows_of_removed_files = 0 if removed_files is None else removed_files.live_rows
    return RowCounts(
        inserted=output.inserted,
        updated=output.updated,
        # A target row that is changed and not updated is deleted.
        deleted=output.changed_row_count - output.updated + rows_of_removed_files,
        files_added=len(files.added),
        files_removed=len(files.removed),
        files_marked=len(files.deleted),  # `files.deleted`: the deleted rows of each file that stays, by path
        bytes_added=sum(file.size for file in files.added),
    )


def history_metrics(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of RESTORE or CLONE under the names of the table's history: `num_copied_files` becomes `numCopiedFiles`."""
    return {re.sub("_(.)", lambda match: match[1].upper(), name): count for name, count in counts.items()}


def insert_metrics(output: WriteOutput) -> dict[str, int]:
    """Return the metrics of a statement that only adds rows, under Delta's names (DeltaOperations.scala)."""
    size = sum(file.size for file in output.files)
    return {"numFiles": len(output.files), "numOutputRows": output.inserted, "numOutputBytes": size}


def removal_metrics(removed: FileListing) -> dict[str, int]:
    """Return the metrics of files that a statement removes without reading them, under Delta's names (DeltaOperations.scala)."""
    return {"numRemovedFiles": len(removed), "numRemovedBytes": removed.total_size}


def row_metrics(
    plan: RowPlan, output: WriteOutput, counts: RowCounts, files: TargetFileChanges, *, source_rows: int, timings: Timings
) -> dict[str, int]:
    """Return the metrics of a MERGE, UPDATE, DELETE or INSERT … REPLACE, under Delta's names (DeltaOperations.scala).

    Args:
        plan: The plan of the statement.
        output: The rows that the statement wrote, updated and deleted.
        counts: The counts of changed rows and files.
        files: The file changes to commit, with their counts.
        source_rows: The number of source rows, or 0 for a statement without a source.
        timings: The seconds of each stage and step.
    """
    match plan.operation:
        case "MERGE":
            return _merge_metrics(output, counts, files, source_rows) | _times(timings, "materializeSourceTimeMs")
        case "UPDATE":
            changed_rows = {"numUpdatedRows": counts.updated}
        case "DELETE":
            changed_rows = {"numDeletedRows": counts.deleted}
        case _:  # INSERT … REPLACE
            written_rows = {"numOutputRows": counts.inserted + files.copied_rows, "numOutputBytes": counts.bytes_added}
            changed_rows = {"numDeletedRows": counts.deleted, "numFiles": counts.files_added, **written_rows}
    return {
        **changed_rows,
        "numCopiedRows": files.copied_rows,
        "numAddedFiles": counts.files_added,
        "numRemovedFiles": counts.files_removed,
        "numAddedBytes": counts.bytes_added,
        "numRemovedBytes": files.removed_bytes,
        "numAddedChangeFiles": len(files.changes.change_rows),
        "numDeletionVectorsAdded": counts.files_marked,
        "numDeletionVectorsRemoved": files.vectors_removed,
        "numDeletionVectorsUpdated": files.vectors_updated,
        **_times(timings),
    }


def _times(timings: Timings, source_metric: str | None = None) -> dict[str, int]:
    """Return the durations in milliseconds, without planning and the commit, as in Delta.

    The scan is a lookup of target rows before any row is written. A job that finds and writes rows at once belongs to the rewrite.
    `source_metric`: the name of the duration that evaluates the source, or None to add it to the rewrite.
    """
    execution = timings.seconds.get("spark", 0.0)
    scan, source = timings.steps.get(SCAN_STEP, 0.0), timings.steps.get(SOURCE_STEP, 0.0) if source_metric else 0.0
    seconds = {"executionTimeMs": execution, "scanTimeMs": scan, "rewriteTimeMs": execution - scan - source}
    if source_metric is not None:
        seconds[source_metric] = source
    return {name: int(1000 * value) for name, value in seconds.items()}


def _merge_metrics(output: WriteOutput, counts: RowCounts, files: TargetFileChanges, source_rows: int) -> dict[str, int]:
    """Return Delta's metrics of a MERGE, without the durations."""
    return {
        "numSourceRows": source_rows,
        "numTargetRowsInserted": counts.inserted,
        "numTargetRowsUpdated": counts.updated,
        "numTargetRowsMatchedUpdated": counts.updated - output.unmatched_updated,
        "numTargetRowsNotMatchedBySourceUpdated": output.unmatched_updated,
        "numTargetRowsDeleted": counts.deleted,
        "numTargetRowsMatchedDeleted": counts.deleted - output.unmatched_deleted,
        "numTargetRowsNotMatchedBySourceDeleted": output.unmatched_deleted,
        "numTargetRowsCopied": files.copied_rows,
        "numOutputRows": counts.inserted + counts.updated + files.copied_rows,
        "numTargetFilesAdded": counts.files_added,
        "numTargetFilesRemoved": counts.files_removed,
        "numTargetBytesAdded": counts.bytes_added,
        "numTargetBytesRemoved": files.removed_bytes,
        "numTargetChangeFilesAdded": len(files.changes.change_rows),
        "numTargetDeletionVectorsAdded": counts.files_marked,
        "numTargetDeletionVectorsRemoved": files.vectors_removed,
        "numTargetDeletionVectorsUpdated": files.vectors_updated,
    }
