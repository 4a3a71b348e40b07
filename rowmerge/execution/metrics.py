"""What the history tells of a row-level command: Delta's metrics, which Iceberg's summaries are made of, too."""

from __future__ import annotations

import pyarrow as pa

from rowmerge.execution.result import RowChanges, Timings
from rowmerge.plan.row_plan import Effect, RowPlan
from rowmerge.spark.written import Written
from rowmerge.table.files import FileChanges, live_rows


def row_changes(written: Written, files: FileChanges, whole: pa.Table) -> RowChanges:
    """What a command did to rows and files. `whole`: files, as rows of `Snapshot.files()`, that left with all their rows, unread."""
    dropped = live_rows(whole)
    return RowChanges(
        inserted=written.inserted,
        updated=written.updated,
        deleted=written.touched - written.updated + dropped,
        files_added=len(files.added),
        files_removed=len(files.removed),
        files_marked=len(files.deleted),
        bytes_added=sum(file.size for file in files.added),
    )


def row_metrics(
    plan: RowPlan, changes: RowChanges, files: FileChanges, *, copied: int, source_rows: int, timings: Timings
) -> dict[str, int]:
    """Delta's names for them (DeltaOperations.scala). `copied`: rows that were written again as they were."""
    spark_ms = int(1000 * timings.seconds.get("spark", 0.0))
    if plan.operation == "MERGE":
        return {
            "numSourceRows": source_rows,
            "numTargetRowsInserted": changes.inserted,
            "numTargetRowsUpdated": changes.updated,
            "numTargetRowsDeleted": changes.deleted,
            "numTargetRowsCopied": copied,
            "numOutputRows": changes.inserted + changes.updated + copied,
            "numTargetFilesAdded": changes.files_added,
            "numTargetFilesRemoved": changes.files_removed,
            "numTargetChangeFilesAdded": len(files.change_rows),
            "numTargetDeletionVectorsAdded": changes.files_marked,
            "executionTimeMs": spark_ms,
        }
    rows = {"numUpdatedRows": changes.updated} if plan.clauses[0].effect is Effect.UPDATE else {"numDeletedRows": changes.deleted}
    if plan.operation == "WRITE":
        rows["numOutputRows"] = changes.inserted
    return {
        **rows,
        "numCopiedRows": copied,
        "numAddedFiles": changes.files_added,
        "numRemovedFiles": changes.files_removed,
        "numAddedChangeFiles": len(files.change_rows),
        "numDeletionVectorsAdded": changes.files_marked,
        "executionTimeMs": spark_ms,
    }
