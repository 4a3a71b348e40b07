"""What the history tells of a row-level command: Delta's metrics, which Iceberg's summaries are made of, too."""

from __future__ import annotations

import pyarrow as pa

from rowmerge.execution.result import RowCounts, Timings
from rowmerge.plan.row_plan import Effect, RowPlan
from rowmerge.spark.written import Written
from rowmerge.table.files import FileChanges, live_rows


def row_counts(written: Written, files: FileChanges, whole: pa.Table) -> RowCounts:
    """What a command did to rows and files. `whole`: files, as rows of `Snapshot.files()`, that left with all their rows, unread."""
    dropped = live_rows(whole)
    return RowCounts(
        inserted=written.inserted,
        updated=written.updated,
        deleted=written.touched - written.updated + dropped,
        files_added=len(files.added),
        files_removed=len(files.removed),
        files_marked=len(files.deleted),
        bytes_added=sum(file.size for file in files.added),
    )


def row_metrics(plan: RowPlan, counts: RowCounts, files: FileChanges, *, copied: int, source_rows: int, timings: Timings) -> dict[str, int]:
    """Delta's names for them (DeltaOperations.scala). `copied`: rows that were written again as they were."""
    spark_ms = int(1000 * timings.seconds.get("spark", 0.0))
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
            "executionTimeMs": spark_ms,
        }
    rows = {"numUpdatedRows": counts.updated} if plan.clauses[0].effect is Effect.UPDATE else {"numDeletedRows": counts.deleted}
    if plan.operation == "WRITE":
        rows["numOutputRows"] = counts.inserted
    return {
        **rows,
        "numCopiedRows": copied,
        "numAddedFiles": counts.files_added,
        "numRemovedFiles": counts.files_removed,
        "numAddedChangeFiles": len(files.change_rows),
        "numDeletionVectorsAdded": counts.files_marked,
        "executionTimeMs": spark_ms,
    }
