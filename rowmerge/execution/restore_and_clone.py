"""RESTORE and SHALLOW CLONE: commit the files of a version again, an older one of the table itself or one of another table.

A clone refers to the files of the other table. RESTORE commits files and definition of the older version as a new version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from rowmerge.errors import AlreadyExists, CommitStateUnknown, PlanError
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, RowCounts, Timings, history_metrics
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass
class Clone:
    """One clone of `source`, whose name is `source_name`. `properties` override those of the source.

    After `run`, `counts` holds the columns that CLONE returns in Delta.
    """

    table: Table
    name: str
    source: Snapshot
    source_name: str
    properties: Mapping[str, str]
    options: CommitOptions
    counts: dict[str, int] = field(default_factory=dict)

    def run(self, *, or_replace: bool) -> ChangeResult:
        """Commit the clone as one version. A replaced table keeps its history.

        Raises AlreadyExists without `or_replace`, ConfigurationError and UnsupportedTableFeature for a source that cannot be cloned,
        CommitConflict, CommitStateUnknown.
        """
        if not self.table.exists():
            return self._create()
        if not or_replace:
            raise AlreadyExists(f"The table {self.name} exists already. Add IF NOT EXISTS or OR REPLACE, or drop it first.")
        return commit_with_retry(self.table, self._replacement, Timings(), self.options)

    def _create(self) -> ChangeResult:
        """Commit the clone as the first version of a new table."""
        timings = Timings()
        change, counts = self._change(None)
        with timings.measure("commit"):
            outcome = self.table.create(TableDefinition(properties=self.properties), change)
        match outcome:
            case Committed(version):
                return ChangeResult(version, counts, timings)
            case Conflicted():
                raise AlreadyExists(f"The table {self.name} was made by somebody else just now. Add IF NOT EXISTS or OR REPLACE.")
            case Unknown(reason):
                advice = "Look at SHOW TABLES before you run it again."
                raise CommitStateUnknown(f"It is not known whether {self.name} was created: {reason}. {advice}")

    def _replacement(self) -> Attempt:
        snapshot = self.table.snapshot()
        return Attempt(snapshot, *self._change(snapshot))

    def _change(self, replaced: Snapshot | None) -> tuple[CommitRequest, RowCounts]:
        """Set `counts`, and return the commit of the clone with its counts. `replaced`: the current table that it replaces, if any."""
        source_sizes = _sizes_by_path(self.source)
        replaced_sizes = {} if replaced is None else _sizes_by_path(replaced)
        removed_sizes = [size for path, size in replaced_sizes.items() if path not in source_sizes]
        self.counts = _clone_counts(list(source_sizes.values()), removed_sizes)
        change = CommitRequest(
            "CLONE",
            parameters={"source": self.source_name, "sourceVersion": self.source.version},
            metrics=history_metrics(self.counts),
            definition=None if replaced is None else TableDefinition(properties=self.properties),
            replace=replaced is not None,
            cloned=self.source,
        )
        return change, RowCounts(files_added=len(source_sizes), files_removed=len(removed_sizes))


def _clone_counts(source_sizes: Sequence[int], removed_sizes: Sequence[int]) -> dict[str, int]:
    """Return the columns of CLONE in the order of delta-spark. A shallow clone copies no file."""
    return {
        "source_table_size": sum(source_sizes),
        "source_num_of_files": len(source_sizes),
        "num_removed_files": len(removed_sizes),
        "num_copied_files": 0,
        "removed_files_size": sum(removed_sizes),
        "copied_files_size": 0,
    }


def _sizes_by_path(snapshot: Snapshot) -> dict[str, int]:
    listing = snapshot.files()
    return dict(zip(listing.paths, pc.fill_null(listing.sizes, 0).to_pylist(), strict=True))


def _restore_counts(current: Snapshot, restored: Snapshot) -> dict[str, int]:
    """Return the columns of RESTORE in the order of delta-spark. Files that both versions have are neither removed nor restored."""
    difference = current.difference(restored)
    removed_sizes, restored_sizes = difference.own_sizes, difference.other_sizes
    files_after = restored.files()
    return {
        "table_size_after_restore": files_after.total_size,
        "num_of_files_after_restore": len(files_after),
        "num_removed_files": len(removed_sizes),
        "num_restored_files": len(restored_sizes),
        "removed_files_size": sum(removed_sizes),
        "restored_files_size": sum(restored_sizes),
    }


def restore(
    table: Table,
    parameters: Mapping[str, object],
    *,
    version: int | None,
    timestamp: int | None,
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS,
) -> tuple[ChangeResult, Mapping[str, int]]:
    """Commit an older version as a new one. Return the result, and the columns that RESTORE returns in Delta.

    `timestamp`: in milliseconds since the epoch, instead of a version; `parameters`: those of the history.
    Begins again if another commit comes first. Raises VersionNotFound, PlanError for the current version, MissingDataFile if VACUUM
    deleted a file of the version, CommitConflict.
    """
    counts: dict[str, int] = {}

    def attempt() -> Attempt:
        snapshot = table.snapshot()
        snapshot.check_writable()
        restored = table.snapshot_at(version=version, timestamp=timestamp)
        if restored.version == snapshot.version:
            raise PlanError(f"{snapshot.name} is at version {snapshot.version} now. Restore an earlier one: see DESCRIBE HISTORY.")
        counts.update(_restore_counts(snapshot, restored))
        change = CommitRequest(
            "RESTORE",
            parameters=parameters,
            metrics=history_metrics(counts),
            reads=Reads(frozenset(snapshot.files().paths), every_file),
            restored=restored,
        )
        return Attempt(snapshot, change, RowCounts(files_added=counts["num_restored_files"], files_removed=counts["num_removed_files"]))

    return commit_with_retry(table, attempt, Timings(), options), counts
