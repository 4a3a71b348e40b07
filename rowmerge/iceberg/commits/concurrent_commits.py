"""A snapshot that others committed before us: what it did to the table, down to the rows that it deleted in files that stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.iceberg.deletes.deletion_vectors import read_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import read_position_deletes
from rowmerge.iceberg.manifests.content import Content, Entry, Status
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions

REPLACE = "replace"
"""The operation of a snapshot that writes the same rows to other files."""


@dataclass(frozen=True)
class Winner:
    """`entries` are what the snapshot added and removed, of data files and delete files."""

    snapshot: IcebergVersion
    entries: tuple[Entry, ...]
    storage: Storage

    @property
    def version(self) -> int:
        return self.snapshot.snapshot_id

    @property
    def operation(self) -> str:
        summary = self.snapshot.summary
        if summary is None:
            return "a commit"
        return summary.additional_properties.get("rowmerge.operation", summary.operation.value)

    @property
    def replaces(self) -> bool:
        """Whether no row changed, only the files that hold it."""
        return self.snapshot.summary is not None and self.snapshot.summary.operation.value == REPLACE

    @property
    def added(self) -> tuple[Entry, ...]:
        """The data files that came in."""
        return self._of(Status.ADDED, Content.DATA)

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """The absolute paths of the data files that left."""
        return frozenset(plain_path(entry.file.path) for entry in self._of(Status.DELETED, Content.DATA))

    @property
    def equality_deletes(self) -> tuple[Entry, ...]:
        return self._of(Status.ADDED, Content.EQUALITY_DELETES)

    @cached_property
    def newly_deleted(self) -> dict[str, Positions]:
        """The rows that it deleted in data files that stay: those of its delete files, less those of the ones that it replaced.

        Raises CorruptLog, StorageError.
        """
        found = self._positions(self._of(Status.ADDED, Content.POSITION_DELETES))
        for path, positions in self._positions(self._of(Status.DELETED, Content.POSITION_DELETES)).items():
            if path in found:
                found[path] -= positions
        return {path: positions for path, positions in found.items() if positions}

    def _of(self, status: Status, content: Content) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.status == status and entry.file.content == content)

    def _positions(self, deletes: tuple[Entry, ...]) -> dict[str, Positions]:
        found: dict[str, Positions] = defaultdict(Positions)
        vectors = [delete.file for delete in deletes if delete.file.format.upper() == "PUFFIN"]
        files = [delete.file for delete in deletes if delete.file.format.upper() != "PUFFIN"]
        for named in (read_position_deletes(self.storage, files), read_deletion_vectors(self.storage, vectors)):
            for path, positions in named.items():
                found[path] |= positions
        return found


def winners(storage: Storage, metadata: TableMetadata, newest: int | None, since: int | None) -> list[Winner] | None:
    """The snapshots after `since` (None: from the first on) up to `newest`, oldest first.

    None when they do not all follow from it, as far as is kept.

    Raises CorruptLog, StorageError.
    """
    chain = list(_ancestors(metadata, newest, since))
    if chain and (chain[-1] is None or (since is None and not _is_first(storage, chain[-1]))):
        return None
    return [_winner(storage, snapshot) for snapshot in reversed(chain) if snapshot is not None]


def _ancestors(metadata: TableMetadata, newest: int | None, since: int | None) -> Iterator[IcebergVersion | None]:
    """A snapshot and its parents before `since`; ends with None when that is not reached."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    at = newest
    while at != since:
        snapshot = known.get(at) if at is not None else None
        yield snapshot
        if snapshot is None:
            return
        at = snapshot.parent_snapshot_id


def _is_first(storage: Storage, snapshot: IcebergVersion) -> bool:
    """Whether it has no file of an older one: when snapshots expire, some writers take the name of the parent away as well."""
    manifests = read_manifest_list(storage, snapshot.manifest_list)
    return all(manifest.added_snapshot_id == snapshot.snapshot_id and manifest.existing_files == 0 for manifest in manifests)


def _winner(storage: Storage, snapshot: IcebergVersion) -> Winner:
    own = [
        manifest for manifest in read_manifest_list(storage, snapshot.manifest_list) if manifest.added_snapshot_id == snapshot.snapshot_id
    ]
    entries = [entry for manifest in own for entry in read_manifest(storage, manifest)]
    changed = (entry for entry in entries if entry.status != Status.EXISTING and entry.snapshot_id == snapshot.snapshot_id)
    return Winner(snapshot, tuple(changed), storage)
