"""Read the rows that each snapshot of an Iceberg table adds, from the manifests that the snapshot has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.errors import VersionNotFound
from rowmerge.iceberg.commits.conflicts import ConcurrentCommit, is_first, read_commit
from rowmerge.iceberg.metadata.partition_values import unpartitioned_spec_ids
from rowmerge.iceberg.metadata.refs import ancestors
from rowmerge.iceberg.snapshots.live_files import LiveFiles
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot, as_iceberg_snapshot
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.appends import Append
from rowmerge.table.snapshots.snapshot import Snapshot

_ADVICE = "Start a new stream with a new checkpoint."


@dataclass(frozen=True)
class IcebergAppends:
    """The rows that each snapshot adds. Implements `rowmerge.table.snapshots.appends.Appends`. `storage`: the storage of the table."""

    storage: Storage

    def versions_after(self, newest: Snapshot, version: int) -> Sequence[int]:
        """Return the ids of the snapshots after a snapshot, as `Appends` defines.

        Args:
            newest: The newest snapshot.
            version: The id of the snapshot before the first result, or 0 for all snapshots.

        Raises:
            VersionNotFound: The snapshot is not an ancestor of the newest one.
        """
        later_ids: list[int] = []
        for snapshot in ancestors(as_iceberg_snapshot(newest).metadata, newest.version):
            if snapshot.snapshot_id == version:
                return later_ids[::-1]
            later_ids.append(snapshot.snapshot_id)
            if version == 0 and snapshot.parent_snapshot_id is None and is_first(self.storage, snapshot):
                return later_ids[::-1]
        if version == newest.version:  # a table without snapshots
            return []
        reason = "it has expired, or the table was rolled back to an older snapshot"
        raise VersionNotFound(f"The snapshot {version} is not in the history of {newest.name}: {reason}. {_ADVICE}")

    def first_version_since(self, newest: Snapshot, timestamp: int) -> int | None:
        snapshots = ancestors(as_iceberg_snapshot(newest).metadata, newest.version)
        later_ids = [snapshot.snapshot_id for snapshot in snapshots if snapshot.timestamp_ms >= timestamp]
        return later_ids[-1] if later_ids else None

    def all_rows(self, newest: Snapshot, version: int) -> Snapshot:
        snapshot = as_iceberg_snapshot(newest)
        return snapshot.with_files(LiveFiles(self.storage)) if version == 0 else snapshot.at(_entry(snapshot, version))

    def read(self, newest: Snapshot, version: int) -> Append:
        snapshot = as_iceberg_snapshot(newest)
        commit = read_commit(self.storage, _entry(snapshot, version))
        added = () if commit.only_moves_rows else commit.added
        live = LiveFiles(self.storage, data=added, unpartitioned_spec_ids=unpartitioned_spec_ids(snapshot.metadata))
        return Append(snapshot.with_files(live), _change_of(commit))


def _entry(snapshot: IcebergSnapshot, version: int) -> IcebergVersion:
    """Return the entry of a snapshot in the metadata. Raises VersionNotFound."""
    entry = snapshot.metadata.snapshot_by_id(version)
    if entry is None:
        raise VersionNotFound(f"The snapshot {version} of {snapshot.name} does not exist, or it has expired. {_ADVICE}")
    return entry


def _change_of(commit: ConcurrentCommit) -> str | None:
    """Return what a snapshot does to older rows, or None if it only adds rows or moves them to other files."""
    if commit.only_moves_rows or not commit.removes_rows:
        return None
    return f"its operation {commit.operation} removes or changes rows"
