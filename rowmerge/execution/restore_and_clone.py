"""RESTORE and SHALLOW CLONE: commit the files of an older version of the table, or of a version of another table.

A shallow clone refers to the files of the other table. RESTORE commits the files and the definition of the older version as a new version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    """One shallow clone of the version `source` of the table `source_name`. `properties` override the table properties of the source.

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

        Args:
            or_replace: Whether the clone replaces an existing table.

        Raises:
            AlreadyExists: The table exists, and `or_replace` is false.
            ConfigurationError: A clone cannot set one of the properties.
            UnsupportedTableFeature: A clone cannot have a feature of the source.
            CommitConflict: The last attempt to replace the table conflicts, too.
            CommitStateUnknown: The commit may or may not have happened.
        """
        if not self.table.exists():
            return self._create()
        if not or_replace:
            raise AlreadyExists(f"The table {self.name} exists already. Add IF NOT EXISTS or OR REPLACE, or drop it first.")
        return commit_with_retry(self.table, self._replacement, Timings(), self.options)

    def _create(self) -> ChangeResult:
        """Commit the clone as the first version of a new table."""
        timings = Timings()
        change, counts = self._clone_request(None)
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
        """Return the attempt that replaces the current version of an existing table by the clone."""
        snapshot = self.table.snapshot()
        change, counts = self._clone_request(snapshot)
        return Attempt(snapshot, replace(change, definition=TableDefinition(properties=self.properties), replace=True), counts)

    def _clone_request(self, replaced: Snapshot | None) -> tuple[CommitRequest, RowCounts]:
        """Return the commit that adds the files of the source, and its counts. Set `counts` to the columns of CLONE.

        `replaced`: the current version of an existing table, whose other files the commit removes, or None for a new table.
        """
        source_sizes = _sizes_by_path(self.source)
        replaced_sizes = {} if replaced is None else _sizes_by_path(replaced)
        removed_sizes = [size for path, size in replaced_sizes.items() if path not in source_sizes]
        self.counts = _clone_counts(list(source_sizes.values()), removed_sizes)
        change = CommitRequest(
            "CLONE",
            parameters={"source": self.source_name, "sourceVersion": self.source.version},
            metrics=history_metrics(self.counts),
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
    """Return the size of each live file in bytes by path, 0 for an unknown size."""
    listing = snapshot.files()
    return dict(zip(listing.paths, pc.fill_null(listing.sizes, 0).to_pylist(), strict=True))


def _restore_counts(current: Snapshot, restored: Snapshot) -> dict[str, int]:
    """Return the columns of RESTORE in the order of delta-spark. Files in both versions count neither as removed nor as restored."""
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


@dataclass
class _Restoration:
    """One RESTORE. `counts`: the columns of RESTORE for the last attempt."""

    table: Table
    parameters: Mapping[str, object]
    version: int | None
    timestamp: int | None
    counts: dict[str, int] = field(default_factory=dict)

    def attempt(self) -> Attempt:
        """Return the attempt that commits the older version on the newest version. Set `counts`. Raise PlanError."""
        current = self.table.snapshot()
        current.check_writable()
        restored = self.table.snapshot_at(version=self.version, timestamp=self.timestamp)
        if restored.version == current.version:
            raise PlanError(f"{current.name} is at version {current.version} now. Restore an earlier one: see DESCRIBE HISTORY.")
        self.counts = _restore_counts(current, restored)
        row_counts = RowCounts(files_added=self.counts["num_restored_files"], files_removed=self.counts["num_removed_files"])
        metrics, reads = history_metrics(self.counts), Reads(frozenset(current.files().paths), every_file)
        change = CommitRequest("RESTORE", parameters=self.parameters, metrics=metrics, reads=reads, restored=restored)
        return Attempt(current, change, row_counts)


def restore(
    table: Table,
    parameters: Mapping[str, object],
    *,
    version: int | None,
    timestamp: int | None,
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS,
) -> tuple[ChangeResult, Mapping[str, int]]:
    """Run RESTORE: commit an older version of the table as a new version. After a conflict, begin again on the newest version.

    Args:
        table: The table to restore.
        parameters: The operation parameters for the table's history.
        version: The version to restore, or None to restore by time.
        timestamp: The time of the version in milliseconds since the epoch, or None to restore by number.
        options: The number of retries, and the transaction of the commit.

    Returns:
        The result of the commit, and the columns that RESTORE returns in Delta.

    Raises:
        VersionNotFound: The table has no such version any more.
        PlanError: The version is the current one.
        MissingDataFile: VACUUM deleted a file of the version.
        CommitConflict: The last attempt conflicts, too.
    """
    restoration = _Restoration(table, parameters, version, timestamp)
    result = commit_with_retry(table, restoration.attempt, Timings(), options)
    return result, restoration.counts
