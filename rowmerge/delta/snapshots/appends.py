"""Read the rows that each version of a Delta table adds, from the commits in the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.log.history import version_at
from rowmerge.delta.log.log_files import LogListing, list_log, read_commits
from rowmerge.delta.log.ndjson import commit_info, file_actions, non_file_actions
from rowmerge.delta.snapshots.opening import without_dropped_table
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, as_delta_snapshot
from rowmerge.errors import CorruptLog, VersionNotFound
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.appends import Append
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class DeltaAppends:
    """The rows that each version adds. Implements `rowmerge.table.snapshots.appends.Appends`.

    `storage`: the storage of the table. `open_version`: returns the version with a number.
    """

    storage: Storage
    open_version: Callable[[int], DeltaSnapshot]

    def versions_after(self, newest: Snapshot, version: int) -> Sequence[int]:
        """Return the versions after a version, as `Appends` defines.

        Args:
            newest: The newest version of the table.
            version: The version before the first result.

        Raises:
            VersionNotFound: A later version was cleaned, or the newest version is an older one.
        """
        if version < newest.version:
            self._check_commits(newest, version + 1)
        elif version > newest.version:
            reason = f"the newest version is {newest.version}. The log was restored or replaced. Start a new stream with a new checkpoint."
            raise VersionNotFound(f"{newest.name} has no version {version}: {reason}")
        return range(version + 1, newest.version + 1)

    def first_version_since(self, newest: Snapshot, timestamp: int) -> int | None:
        snapshot, listing = as_delta_snapshot(newest), without_dropped_table(self.storage, list_log(self.storage))
        # Timestamps are whole milliseconds, so the previous version is the newest one at or before the preceding millisecond.
        previous = version_at(self.storage, listing, snapshot.protocol, snapshot.metadata, timestamp - 1)
        first = listing.continuous_commits.start if previous is None else previous + 1
        return first if first <= newest.version else None

    def all_rows(self, newest: Snapshot, version: int) -> Snapshot:
        return as_delta_snapshot(newest).with_files(self.open_version(version).state.files)

    def read(self, newest: Snapshot, version: int) -> Append:
        snapshot = as_delta_snapshot(newest)
        try:
            ((_, document),) = read_commits(self.storage, [version])
        except CorruptLog:
            self._check_commits(newest, version)
            raise
        info = commit_info(non_file_actions(document))  # which also checks the actions
        actions = file_actions([document], snapshot.metadata.stored_partition_columns)
        added, removed = (_with_data_change(files) for files in (actions.adds, actions.removes))
        files = snapshot.with_files(LiveFiles.of(added.drop_columns("document_index")))
        if not removed.num_rows:
            return Append(files)
        return Append(files, f"its operation {info.get('operation') or 'of another writer'} removes or changes rows")

    def _check_commits(self, newest: Snapshot, first: int) -> None:
        """Raise VersionNotFound if the log has no longer all commits from a version on."""
        listing: LogListing = list_log(self.storage, since=first)
        oldest = listing.continuous_commits.start
        if not 0 <= first <= newest.version:
            raise VersionNotFound(f"{newest.name} has no version {first}: the newest version is {newest.version}. Choose an older version.")
        if first < oldest or first not in listing.commits:
            reason = f"the log was cleaned, and its oldest commit is that of version {oldest}"
            advice = "Start a new stream with a new checkpoint. Increase delta.logRetentionDuration if streams may pause for long."
            raise VersionNotFound(f"The rows that version {first} of {newest.name} added are not available: {reason}. {advice}")


def _with_data_change(files: pa.Table) -> pa.Table:
    """Return the file actions that add or remove rows, without those that only move rows to other files."""
    return files.filter(pc.fill_null(files["dataChange"], True))
