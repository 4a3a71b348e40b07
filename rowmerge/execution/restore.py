"""RESTORE: commit the files and the definition of an older version as a new version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowmerge.errors import PlanError
from rowmerge.execution.commit import AS_THE_TABLE_SAYS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.metrics import history_metrics
from rowmerge.execution.result import ChangeResult, RowCounts, Timings
from rowmerge.plan.pruning.file_pruning import everything
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass
class Restoration:
    """One RESTORE to a version, or to a time in milliseconds since the epoch. `parameters` are those of the history.

    After `run`, `counts` holds the columns that RESTORE returns in Delta.
    """

    table: Table
    version: int | None
    timestamp: int | None
    parameters: Mapping[str, object]
    options: CommitOptions
    counts: dict[str, int] = field(default_factory=dict)

    def _attempt(self) -> Attempt:
        """Return the commit that restores the older version on the newest one, and set `counts`."""
        snapshot = self.table.snapshot()
        snapshot.check_writable()
        restored = self.table.snapshot_at(version=self.version, timestamp=self.timestamp)
        if restored.version == snapshot.version:
            raise PlanError(f"{snapshot.name} is at version {snapshot.version} now. Restore an earlier one: see DESCRIBE HISTORY.")
        self.counts = _restore_counts(snapshot, restored)
        change = CommitRequest(
            "RESTORE",
            parameters=self.parameters,
            metrics=history_metrics(self.counts),
            reads=Reads(frozenset(snapshot.files().paths), everything),
            restored=restored,
        )
        row_counts = RowCounts(files_added=self.counts["num_restored_files"], files_removed=self.counts["num_removed_files"])
        return Attempt(snapshot, change, row_counts)

    def run(self) -> ChangeResult:
        """Commit the older version. Begin again if another commit comes first.

        Raises VersionNotFound, PlanError for the current version, MissingDataFile if VACUUM deleted a file of the version,
        CommitConflict.
        """
        return commit_with_retry(self.table, self._attempt, Timings(), self.options)


def _restore_counts(snapshot: Snapshot, restored: Snapshot) -> dict[str, int]:
    """Return the columns of RESTORE in the order of delta-spark."""
    difference = snapshot.difference(restored)
    files = restored.files()
    return {
        "table_size_after_restore": files.total_size,
        "num_of_files_after_restore": len(files),
        "num_removed_files": len(difference.mine),
        "num_restored_files": len(difference.theirs),
        "removed_files_size": sum(difference.mine),
        "restored_files_size": sum(difference.theirs),
    }


def restore(
    table: Table,
    parameters: Mapping[str, object],
    *,
    version: int | None,
    timestamp: int | None,
    options: CommitOptions = AS_THE_TABLE_SAYS,
) -> tuple[ChangeResult, Mapping[str, int]]:
    """Commit an older version as a new one. Return the result, and the columns that RESTORE returns in Delta."""
    restoration = Restoration(table, version, timestamp, parameters, options)
    return restoration.run(), restoration.counts
