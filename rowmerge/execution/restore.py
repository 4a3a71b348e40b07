"""RESTORE: an older version becomes the newest, by metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowmerge.errors import PlanError
from rowmerge.execution.commit import AS_THE_TABLE_SAYS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, RowCounts, Timings
from rowmerge.plan.pruning.file_pruning import everything
from rowmerge.table.commits.request import Change, Reads
from rowmerge.table.table import Table


@dataclass
class Restoration:
    """One RESTORE, to a version or to the time in milliseconds since the epoch that `parameters` spells; then `counts` tells of it."""

    table: Table
    version: int | None
    timestamp: int | None
    parameters: Mapping[str, object]
    counts: Mapping[str, int]
    options: CommitOptions

    def _attempt(self) -> Attempt:
        snapshot = self.table.snapshot()
        snapshot.check_writable()
        wanted = self.table.snapshot_at(version=self.version, timestamp=self.timestamp)
        if wanted.version == snapshot.version:
            raise PlanError(f"{snapshot.name} is at version {snapshot.version} now. Restore an earlier one: see DESCRIBE HISTORY.")
        difference = snapshot.difference(wanted)
        files = wanted.files()
        # In the order of delta-spark's result.
        self.counts = {
            "table_size_after_restore": files.total_size,
            "num_of_files_after_restore": len(files),
            "num_removed_files": len(difference.mine),
            "num_restored_files": len(difference.theirs),
            "removed_files_size": sum(difference.mine),
            "restored_files_size": sum(difference.theirs),
        }
        change = Change(
            "RESTORE",
            parameters=self.parameters,
            metrics={_in_history(name): count for name, count in self.counts.items()},
            reads=Reads(frozenset(snapshot.files().paths), everything),
            restored=wanted,
        )
        return Attempt(snapshot, change, RowCounts(files_added=len(difference.theirs), files_removed=len(difference.mine)))

    def run(self) -> ChangeResult:
        """Commit; from the beginning when the table changes meanwhile.

        Raises VersionNotFound, PlanError for the version that is there, MissingDataFile when VACUUM took what the version needs,
        CommitConflict.
        """
        return commit_with_retry(self.table, self._attempt, Timings(), self.options)


def restore(
    table: Table,
    parameters: Mapping[str, object],
    *,
    version: int | None,
    timestamp: int | None,
    options: CommitOptions = AS_THE_TABLE_SAYS,
) -> tuple[ChangeResult, Mapping[str, int]]:
    """Make an older version the newest one; also the counts that RESTORE answers."""
    restoration = Restoration(table, version, timestamp, parameters, {}, options)
    return restoration.run(), restoration.counts


def _in_history(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
