"""Snapshots that others committed first: the changes of each to the table, down to the rows that it deleted in files that stay."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.iceberg.deletes.deletion_vectors import read_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import read_position_deletes
from rowmerge.iceberg.manifests.content import Content, Entry, Status
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.refs import ancestors
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions

REPLACE = "replace"
"""The operation of a snapshot that writes the same rows to other files."""


@dataclass(frozen=True)
class ConcurrentCommit:
    """A snapshot of another statement, with the entries of the data files and delete files that it added and removed."""

    snapshot: IcebergVersion
    entries: tuple[Entry, ...]
    storage: Storage

    @property
    def operation(self) -> str:
        summary = self.snapshot.summary
        return "a commit" if summary is None else summary.additional_properties.get("rowmerge.operation", summary.operation.value)

    @property
    def only_moves_rows(self) -> bool:
        """Return whether no row changed, only the files that contain the rows."""
        return self.snapshot.summary is not None and self.snapshot.summary.operation.value == REPLACE

    @property
    def added(self) -> tuple[Entry, ...]:
        """Return the added data files."""
        return self._entries_of(Status.ADDED, Content.DATA)

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """Return the absolute paths of the removed data files."""
        return frozenset(plain_path(entry.file.path) for entry in self._entries_of(Status.DELETED, Content.DATA))

    @property
    def equality_deletes(self) -> tuple[Entry, ...]:
        return self._entries_of(Status.ADDED, Content.EQUALITY_DELETES)

    @cached_property
    def newly_deleted(self) -> dict[str, Positions]:
        """Return the rows that the commit deleted in data files that stay: those of added delete files, without those of replaced ones."""
        in_added = self._positions_in(self._entries_of(Status.ADDED, Content.POSITION_DELETES))
        in_replaced = self._positions_in(self._entries_of(Status.DELETED, Content.POSITION_DELETES))
        deleted = {path: positions - in_replaced.get(path, Positions()) for path, positions in in_added.items()}
        return {path: positions for path, positions in deleted.items() if positions}

    def _entries_of(self, status: Status, content: Content) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.status == status and entry.file.content == content)

    def _positions_in(self, deletes: tuple[Entry, ...]) -> dict[str, Positions]:
        """Return the deleted positions of each data file."""
        by_path: dict[str, Positions] = defaultdict(Positions)
        vectors = [delete.file for delete in deletes if delete.file.format.upper() == "PUFFIN"]
        files = [delete.file for delete in deletes if delete.file.format.upper() != "PUFFIN"]
        for deleted in (read_position_deletes(self.storage, files), read_deletion_vectors(self.storage, vectors)):
            for path, positions in deleted.items():
                by_path[path] |= positions
        return by_path


def concurrent_commits(
    storage: Storage, metadata: TableMetadata, newest_id: int | None, base_id: int | None
) -> list[ConcurrentCommit] | None:
    """Return the snapshots after `base_id` (None: from the first on) up to `newest_id`, oldest first.

    Return None if the remaining snapshots do not lead back to `base_id`. Raises CorruptLog, StorageError.
    """
    snapshots = list(takewhile(lambda snapshot: snapshot.snapshot_id != base_id, ancestors(metadata, newest_id)))
    oldest_parent_id = snapshots[-1].parent_snapshot_id if snapshots else newest_id
    if oldest_parent_id != base_id:
        return None
    if base_id is None and snapshots and not _is_first(storage, snapshots[-1]):
        return None
    return [_read_commit(storage, snapshot) for snapshot in reversed(snapshots)]


def _is_first(storage: Storage, snapshot: IcebergVersion) -> bool:
    """Return whether a snapshot without a parent has no file of an older one. Some writers remove the parent when it expires."""
    manifests = read_manifest_list(storage, snapshot.manifest_list)
    return all(manifest.added_snapshot_id == snapshot.snapshot_id and manifest.existing_files == 0 for manifest in manifests)


def _read_commit(storage: Storage, snapshot: IcebergVersion) -> ConcurrentCommit:
    manifests = read_manifest_list(storage, snapshot.manifest_list)
    own_manifests = [manifest for manifest in manifests if manifest.added_snapshot_id == snapshot.snapshot_id]
    entries = [entry for manifest in own_manifests for entry in read_manifest(storage, manifest)]
    changes = (entry for entry in entries if entry.status != Status.EXISTING and entry.snapshot_id == snapshot.snapshot_id)
    return ConcurrentCommit(snapshot, tuple(changes), storage)
