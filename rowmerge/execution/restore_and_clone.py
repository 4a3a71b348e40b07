"""RESTORE and CLONE: commit the files of an older version of the table, or of a version of another table.

A shallow clone refers to the files of the other table, and a deep clone copies them. RESTORE commits the files and the definition of the
older version as a new version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow.compute as pc

from rowmerge.errors import AlreadyExists, CommitStateUnknown, PlanError
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, Timings, history_metrics
from rowmerge.execution.row_counts import RowCounts
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.table.commits.copies import FileCopies
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


@dataclass(frozen=True)
class Clone:
    """A clone of `source`, a version of the table `source_name`.

    `table`: the table to create or replace. `name`: its name for messages. `properties`: properties that override those of the source.
    `shallow`: whether the clone refers to the files of the source instead of copying them.
    """

    table: Table
    name: str
    source: Snapshot
    source_name: str
    properties: Mapping[str, str]
    options: CommitOptions
    shallow: bool = True

    def run(self, *, or_replace: bool) -> ChangeResult:
        """Commit the clone as one version, and return the result with the row of CLONE. A replaced table keeps its history.

        Args:
            or_replace: Whether the clone replaces an existing table.

        Raises:
            AlreadyExists: The table exists, and `or_replace` is false.
            ConfigurationError: A clone cannot set one of the properties.
            UnsupportedTableFeature: A clone cannot have a feature of the source.
            CommitConflict: All attempts to replace the table conflict with concurrent commits.
            CommitStateUnknown: The commit may or may not have happened.
        """
        if not self.table.exists():
            return self._create()
        if not or_replace:
            raise AlreadyExists(f"The table {self.name} already exists. Add IF NOT EXISTS or OR REPLACE, or drop it first.")
        return commit_with_retry(self.table, self._plan_replacement, Timings(), self.options)

    def _create(self) -> ChangeResult:
        """Commit the clone as the first version of a new table."""
        timings = Timings()
        commit_request, result_row = self._clone_request(current=None)
        with timings.measure("commit"):
            request = replace(commit_request, user_metadata=self.options.user_metadata)
            outcome = self.table.create(TableDefinition(properties=self.properties), request)
        match outcome:
            case Committed(version):
                return ChangeResult(version, _clone_counts(result_row), timings, result_row=result_row)
            case Conflicted():
                raise AlreadyExists(f"A concurrent statement created the table {self.name}. Add IF NOT EXISTS or OR REPLACE.")
            case Unknown(reason):
                problem = f"It is unknown whether {self.name} was created: {reason}."
                raise CommitStateUnknown(f"{problem} Check SHOW TABLES before you run it again.")

    def _plan_replacement(self) -> Attempt:
        """Return the attempt that replaces the current version of an existing table with the clone."""
        snapshot = self.table.snapshot()
        change, result_row = self._clone_request(current=snapshot)
        replacement = replace(change, definition=TableDefinition(properties=self.properties), replace=True)
        return Attempt(snapshot, replacement, _clone_counts(result_row), result_row=result_row)

    def _clone_request(self, current: Snapshot | None) -> tuple[CommitRequest, dict[str, int]]:
        """Return the commit that adds the files of the source, and the row that CLONE returns in Delta.

        `current`: the current version of an existing table, or None for a new table. The commit removes the files of this version that are
        not files of the source.
        """
        source_sizes = _sizes_by_path(self.source)
        current_sizes = {} if current is None else _sizes_by_path(current)
        copies = FileCopies({}, ()) if self.shallow else self.table.copy_files(self.source, current)
        cloned_paths = {copies.paths.get(path, path) for path in source_sizes}
        removed_sizes = [size for path, size in current_sizes.items() if path not in cloned_paths]
        result_row = clone_result(list(source_sizes.values()), removed_sizes, copies.sizes)
        parameters = {
            "source": self.source_name,
            "sourceVersion": self.source.version,
        }
        copied_paths = None if self.shallow else copies.paths
        # A repeated clone relies on the copies that the table already has.
        reads = Reads(frozenset() if self.shallow else frozenset(cloned_paths & current_sizes.keys()))
        metrics = history_metrics(result_row)
        return CommitRequest("CLONE", parameters, metrics, reads=reads, cloned=self.source, copies=copied_paths), result_row


def _clone_counts(result_row: Mapping[str, int]) -> RowCounts:
    """Return the counts of changed files. A clone adds the files of the source to the table."""
    return RowCounts(files_added=result_row["source_num_of_files"], files_removed=result_row["num_removed_files"])


def clone_result(source_sizes: Sequence[int], removed_sizes: Sequence[int], copied_sizes: Sequence[int]) -> dict[str, int]:
    """Return the row of CLONE, by column name in the order of delta-spark.

    Args:
        source_sizes: The sizes of the files of the source, in bytes.
        removed_sizes: The sizes of the files that a replaced table loses.
        copied_sizes: The sizes of the copies of a deep clone.
    """
    return {
        "source_table_size": sum(source_sizes),
        "source_num_of_files": len(source_sizes),
        "num_removed_files": len(removed_sizes),
        "num_copied_files": len(copied_sizes),
        "removed_files_size": sum(removed_sizes),
        "copied_files_size": sum(copied_sizes),
    }


def _sizes_by_path(snapshot: Snapshot) -> dict[str, int]:
    """Return the size of each live file in bytes, by path. An unknown size is 0."""
    listing = snapshot.files()
    return dict(zip(listing.paths, pc.fill_null(listing.sizes, 0).to_pylist(), strict=True))


def _restore_result(current: Snapshot, restored: Snapshot) -> dict[str, int]:
    """Return the row of RESTORE, by column name in the order of delta-spark.

    Files in both versions count as neither removed nor restored. Sizes are in bytes.
    """
    difference = current.difference(restored)
    removed_sizes, restored_sizes = difference.own_sizes, difference.other_sizes  # files only in `current`, and only in `restored`
    files_after = restored.files()
    return {
        "table_size_after_restore": files_after.total_size,
        "num_of_files_after_restore": len(files_after),
        "num_removed_files": len(removed_sizes),
        "num_restored_files": len(restored_sizes),
        "removed_files_size": sum(removed_sizes),
        "restored_files_size": sum(restored_sizes),
    }


def _restore_attempt(table: Table, parameters: Mapping[str, object], version: int | None, timestamp: int | None) -> Attempt:
    """Return the attempt that commits an older version on top of the newest version.

    Raise PlanError if the older version is the current one, and VersionNotFound if it does not exist.
    """
    current = table.snapshot()
    current.check_writable()
    restored = table.snapshot_at(version=version, timestamp=timestamp)
    if restored.version == current.version:
        raise PlanError(f"{current.name} is already at version {current.version}. Choose an earlier version from DESCRIBE HISTORY.")
    result_row = _restore_result(current, restored)
    counts = RowCounts(files_added=result_row["num_restored_files"], files_removed=result_row["num_removed_files"])
    # Every concurrent change of rows is a conflict, because the restored version would undo it.
    reads = Reads(frozenset(current.files().paths), may_match=every_file)
    commit_request = CommitRequest("RESTORE", parameters=parameters, metrics=history_metrics(result_row), reads=reads, restored=restored)
    return Attempt(current, commit_request, counts, result_row=result_row)


def restore(
    table: Table,
    parameters: Mapping[str, object],
    *,
    version: int | None,
    timestamp: int | None,
    options: CommitOptions = DEFAULT_COMMIT_OPTIONS,
) -> ChangeResult:
    """Run RESTORE: commit an older version of the table as a new version. After a conflict, retry on the newest version.

    Args:
        table: The table to restore.
        parameters: The operation parameters for the table's history.
        version: The version to restore, or None to restore by time.
        timestamp: The time of the version in milliseconds since the epoch, or None to restore by number.
        options: The number of retries, and the transaction of the commit.

    Returns:
        The result of the commit, with the row that RESTORE returns in Delta.

    Raises:
        VersionNotFound: The table does not have this version, or no longer has it.
        PlanError: The version is the current one.
        MissingDataFile: VACUUM deleted a file of the version.
        CommitConflict: All attempts conflict with concurrent commits.
    """
    return commit_with_retry(table, partial(_restore_attempt, table, parameters, version, timestamp), Timings(), options)
