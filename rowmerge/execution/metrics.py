"""What the history tells of a row-level command: Delta's metrics, which Iceberg's summaries are made of, too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rowmerge.execution.result import RowCounts, Timings
from rowmerge.plan.row_plan import Effect, RowPlan
from rowmerge.spark.writing.written import Written
from rowmerge.table.snapshots.files import FileChanges, FileListing


def row_counts(written: Written, files: FileChanges, whole: FileListing | None = None) -> RowCounts:
    """Count the rows and files that a statement changed. `whole`: the files that it removed unread."""
    rows_of_whole_files = 0 if whole is None else whole.live_rows
    return RowCounts(
        inserted=written.inserted,
        updated=written.updated,
        deleted=written.touched - written.updated + rows_of_whole_files,
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
    """Return the metrics of a row-level statement, under Delta's names. `copied`: unchanged rows of rewritten files."""
    execution_time = {"executionTimeMs": int(1000 * timings.seconds.get("spark", 0.0))}
    if plan.operation == "MERGE":
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
            **execution_time,
        }
    is_update = plan.clauses[0].effect is Effect.UPDATE
    rows = {"numUpdatedRows": counts.updated} if is_update else {"numDeletedRows": counts.deleted}
    if plan.operation == "WRITE":
        rows["numOutputRows"] = counts.inserted
    return {
        **rows,
        "numCopiedRows": copied,
        "numAddedFiles": counts.files_added,
        "numRemovedFiles": counts.files_removed,
        "numAddedChangeFiles": len(files.change_rows),
        "numDeletionVectorsAdded": counts.files_marked,
        **execution_time,
    }
