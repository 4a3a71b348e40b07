"""What a command did, in numbers, and where its time went.

The history of a table tells it by Delta's metrics. Iceberg's summaries are made of these, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.writing.written import Written
from rowmerge.table.snapshots.files import FileChanges, FileListing


@dataclass(frozen=True)
class RowCounts:
    """Rows and files of one command. `files_marked` got a deletion vector; `bytes_added` are the new data files'."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    files_marked: int = 0
    bytes_added: int = 0

    @property
    def affected(self) -> int:
        return self.inserted + self.updated + self.deleted


@dataclass
class Timings:
    """Seconds by stage: `plan`, `spark`, `commit`, and `wait` after lost races; a retried command adds up."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage, less the time that nested blocks add to other stages."""
        begun, before = time.perf_counter(), sum(self.seconds.values())
        try:
            yield
        finally:
            nested = sum(self.seconds.values()) - before
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - begun - nested


@dataclass(frozen=True)
class ChangeResult:
    """The version after the command (the one before, when nothing had to change) and what it did.

    `attempts`: how often it was planned and run, more than once after lost races; `rebases`: commits that came first and changed other
    rows of the same files; `replayed`: it was done before under the same transaction, in `version` where that is known, and nothing now.
    """

    version: int
    counts: RowCounts
    timings: Timings
    attempts: int = 1
    rebases: int = 0
    replayed: bool = False


def row_counts(written: Written, files: FileChanges, removed_unread: FileListing | None = None) -> RowCounts:
    """Count the rows and files that a statement changed. `removed_unread`: the files that it removed by metadata alone."""
    rows_removed_unread = 0 if removed_unread is None else removed_unread.live_rows
    return RowCounts(
        inserted=written.inserted,
        updated=written.updated,
        deleted=written.touched - written.updated + rows_removed_unread,
        files_added=len(files.added),
        files_removed=len(files.removed),
        files_marked=len(files.deleted),
        bytes_added=sum(file.size for file in files.added),
    )


def history_metrics(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of RESTORE or CLONE under the names of the history: `num_copied_files` becomes `numCopiedFiles`."""
    return {re.sub("_(.)", lambda match: match[1].upper(), name): count for name, count in counts.items()}


def insert_metrics(written: Written) -> dict[str, int]:
    """Return the metrics of a statement that only adds rows, under Delta's names (DeltaOperations.scala)."""
    size = sum(file.size for file in written.files)
    return {"numFiles": len(written.files), "numOutputRows": written.inserted, "numOutputBytes": size}


def row_metrics(plan: RowPlan, counts: RowCounts, files: FileChanges, *, copied: int, source_rows: int, timings: Timings) -> dict[str, int]:
    """Return the metrics of a MERGE, UPDATE, DELETE or INSERT … REPLACE for the history. `copied`: unchanged rows of rewritten files."""
    execution_time = {"executionTimeMs": int(1000 * timings.seconds.get("spark", 0.0))}
    match plan.operation:
        case "MERGE":
            return _merge_metrics(counts, files, copied, source_rows) | execution_time
        case "UPDATE":
            changed_rows = {"numUpdatedRows": counts.updated}
        case "DELETE":
            changed_rows = {"numDeletedRows": counts.deleted}
        case _:  # INSERT … REPLACE
            changed_rows = {"numDeletedRows": counts.deleted, "numOutputRows": counts.inserted}
    return {
        **changed_rows,
        "numCopiedRows": copied,
        "numAddedFiles": counts.files_added,
        "numRemovedFiles": counts.files_removed,
        "numAddedChangeFiles": len(files.change_rows),
        "numDeletionVectorsAdded": counts.files_marked,
        **execution_time,
    }


def _merge_metrics(counts: RowCounts, files: FileChanges, copied: int, source_rows: int) -> dict[str, int]:
    return {
        "numSourceRows": source_rows,
        "numTargetRowsInserted": counts.inserted,
        "numTargetRowsUpdated": counts.updated,
        "numTargetRowsDeleted": counts.deleted,
        "numTargetRowsCopied": copied,
        "numOutputRows": counts.inserted + counts.updated + copied,
        "numTargetFilesAdded": counts.files_added,
        "numTargetFilesRemoved": counts.files_removed,
        "numTargetChangeFilesAdded": len(files.change_rows),
        "numTargetDeletionVectorsAdded": counts.files_marked,
    }
