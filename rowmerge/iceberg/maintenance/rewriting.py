"""Manifests and position deletes written anew, the data files staying as they are: a snapshot of the operation `replace`.

Models: Iceberg's RewriteManifests and RewritePositionDeleteFiles. Everything is done on the driver, and again when others were faster.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

from rowmerge.errors import CommitStateUnknown, RowmergeError
from rowmerge.iceberg.catalogs.operations import Current, TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates
from rowmerge.iceberg.commits.snapshot_entry import new_snapshot
from rowmerge.iceberg.commits.snapshot_files import ENTRIES_OF_A_MANIFEST, Place, Produced, SnapshotFiles
from rowmerge.iceberg.manifests.content import Content, Entry, Manifest, ManifestContent
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.partition_values import unpartitioned_spec_ids
from rowmerge.iceberg.metadata.refs import MAIN, point_branch_at
from rowmerge.iceberg.snapshots.live_files import LiveFiles, key_of_delete, live_files, scope_of
from rowmerge.table.commits.request import Change
from rowmerge.table.maintenance import RewrittenDeletes, RewrittenManifests
from rowmerge.table.metadata.settings import whole_number
from rowmerge.table.snapshots.files import Positions


@dataclass
class Rewriting(ABC):
    """One such snapshot on its way into a table's metadata."""

    operations: TableOperations
    table: str
    operation: ClassVar[str]
    _files: SnapshotFiles | None = field(default=None, init=False)

    @abstractmethod
    def produce(self, files: SnapshotFiles, parent: IcebergVersion, place: Place) -> Produced | None:
        """Write the files of the snapshot that follows `parent`; None when nothing is to be done."""

    @property
    @abstractmethod
    def metrics(self) -> dict[str, int]:
        """For the history, of the last attempt."""

    def commit(self) -> None:
        """Raises MetadataChanged, CommitStateUnknown, UnsupportedTableFeature, CorruptLog, StorageError."""
        try:
            commit_updates(self.operations, self.table, self.operation, self._updates)
        except CommitStateUnknown:
            raise
        except RowmergeError:
            self._discard()
            raise

    def _updates(self, current: Current) -> tuple[TableUpdate, ...]:
        self._discard()
        metadata = current.metadata
        parent = metadata.current_snapshot()
        if parent is None:
            return ()
        snapshot_id = uuid.uuid4().int >> 65
        self._files = SnapshotFiles(self.operations.storage, metadata, snapshot_id, ())
        made = self.produce(self._files, parent, Place.after(metadata, parent))
        if made is None:
            return ()
        change = Change(self.operation, metrics=self.metrics, data_change=False)
        snapshot = new_snapshot(metadata, change, made, parent, snapshot_id, metadata.current_schema_id)
        return AddSnapshotUpdate(snapshot=snapshot), point_branch_at(metadata, MAIN, snapshot_id)

    def _discard(self) -> None:
        if self._files is not None:
            self._files.discard()


@dataclass
class ManifestRewriting(Rewriting):
    """Manifests of full size (`commit.manifest.target-size-bytes`), each with the files of partitions that are near each other."""

    operation = "REWRITE MANIFESTS"
    done: RewrittenManifests = field(default_factory=RewrittenManifests, init=False)

    @property
    def metrics(self) -> dict[str, int]:
        return {"numManifestsReplaced": self.done.rewritten, "numManifestsCreated": self.done.added}

    def produce(self, files: SnapshotFiles, parent: IcebergVersion, place: Place) -> Produced | None:
        target = max(1, whole_number(files.metadata.properties, "commit.manifest.target-size-bytes", 8 * 1024 * 1024))
        groups: dict[tuple[ManifestContent, int], list[Manifest]] = defaultdict(list)
        for manifest in read_manifest_list(files.storage, parent.manifest_list):
            groups[manifest.content, manifest.spec_id].append(manifest)
        kept: list[Manifest] = []
        added: list[Manifest] = []
        rewritten = 0
        for (content, spec_id), group in groups.items():
            pieces = -(-sum(manifest.length for manifest in group) // target)
            if len(group) == 1 and pieces == 1:
                kept += group
                continue
            rewritten += len(group)
            added += _divided(files, group, content, spec_id, pieces)
        self.done = RewrittenManifests(rewritten, len(added))
        return files.listed([*added, *kept], (), place) if rewritten else None


@dataclass
class DeleteRewriting(Rewriting):
    """One position-delete file for each data file of which several say what is deleted, or one that other data files share.

    What applies to no data file leaves.
    """

    operation = "REWRITE POSITION DELETES"
    done: RewrittenDeletes = field(default_factory=RewrittenDeletes, init=False)

    @property
    def metrics(self) -> dict[str, int]:
        return {"numDeleteFilesRemoved": self.done.rewritten, "numDeleteFilesAdded": self.done.added}

    def produce(self, files: SnapshotFiles, parent: IcebergVersion, place: Place) -> Produced | None:
        unpartitioned = unpartitioned_spec_ids(files.metadata)
        live = live_files(files.storage, parent, unpartitioned)
        own = {key_of_delete(delete): delete for delete in live.deletes if delete.file.content is Content.POSITION_DELETES}
        leaving, staying = set(own), set[str]()
        positions: dict[str, Positions] = {}
        marked = [(path, entry) for path, entry in zip(live.paths, live.data, strict=True) if own and live.position_deletes_of(entry)]
        known = live.deleted_positions([entry for _, entry in marked])
        for path, entry in marked:
            deletes = live.position_deletes_of(entry)
            alone = [delete for delete in deletes if scope_of(delete) is not None]
            if len(alone) == 1 and known.get(path, Positions()) == _said_by(live, alone[0], entry):
                staying.add(key_of_delete(alone[0]))
            elif path in known:
                positions[path] = known[path]
        leaving -= staying
        self.done = RewrittenDeletes()
        if not leaving:
            return None
        by_path = live.by_path(positions)
        written = [made for made in files.delete_files([(by_path[path], rows) for path, rows in positions.items()]) if made is not None]
        self.done = RewrittenDeletes(len(leaving), len(written), _bytes(own[key].file for key in leaving), _bytes(written))
        kept, changed = files.without(live, frozenset(), leaving)
        new = files.delete_manifests(written)
        entries = [*changed, *(entry for manifest in new for entry in read_manifest(files.pending, manifest))]
        return files.listed([*new, *kept], entries, place, [file.path for file in written])


def _divided(files: SnapshotFiles, group: Sequence[Manifest], content: ManifestContent, spec_id: int, pieces: int) -> list[Manifest]:
    """The live files of some manifests in so many new ones, by partition."""
    found = [entry.existing() for entries in read_manifests(files.storage, group) for entry in entries if entry.live]
    found.sort(key=_place)
    size = min(ENTRIES_OF_A_MANIFEST, -(-len(found) // pieces)) or 1
    return [files.manifest(found[start : start + size], content, spec_id) for start in range(0, len(found), size)]


def _place(entry: Entry) -> tuple[Any, ...]:
    return tuple((value is not None, 0 if value is None else value) for value in entry.file.partition)


def _said_by(live: LiveFiles, delete: Entry, entry: Entry) -> Positions:
    """What one delete file takes from a data file."""
    alone = replace(live, data=(entry,), deletes=(delete,), _index={})
    return next(iter(alone.deleted_positions([entry]).values()), Positions())


def _bytes(files: Any) -> int:
    return sum(file.size for file in files)
