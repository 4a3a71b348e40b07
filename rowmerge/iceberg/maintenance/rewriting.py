"""Rewrite manifests or position deletes, without the data files, in a snapshot of the operation `replace`.

Models: Iceberg's RewriteManifests and RewritePositionDeleteFiles. The driver does everything, and again after a lost race.
"""

from __future__ import annotations

import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

from rowmerge.errors import CommitStateUnknown, RowmergeError
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates
from rowmerge.iceberg.commits.snapshot_entry import new_snapshot
from rowmerge.iceberg.commits.snapshot_files import MAX_MANIFEST_ENTRIES, Place, Removal, SnapshotFiles, WrittenSnapshot, manifests_by_spec
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry, Manifest
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.partition_values import unpartitioned_spec_ids
from rowmerge.iceberg.metadata.refs import MAIN, point_branch_at
from rowmerge.iceberg.snapshots.live_files import LiveFiles, key_of_delete, live_files, scope_of
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.maintenance import RewrittenDeletes, RewrittenManifests
from rowmerge.table.snapshots.files import Positions


@dataclass
class Rewriting(ABC):
    """One rewriting of a table's metadata files."""

    operations: TableOperations
    table: str
    operation: ClassVar[str]
    metrics: ClassVar[tuple[str, str]]
    """The names of two metrics: how many files were rewritten, and how many were added."""
    done: RewrittenManifests | RewrittenDeletes = field(init=False)
    _files: SnapshotFiles | None = field(default=None, init=False)

    @abstractmethod
    def write(self, files: SnapshotFiles, parent: IcebergVersion, place: Place) -> WrittenSnapshot | None:
        """Write the files of the snapshot that follows `parent`. Return None if there is nothing to rewrite."""

    def commit(self) -> None:
        """Commit the rewriting. Raises MetadataChanged, CommitStateUnknown, UnsupportedTableFeature, CorruptLog, StorageError."""
        try:
            commit_updates(self.operations, self.table, self.operation, self._updates)
        except CommitStateUnknown:
            raise
        except RowmergeError:
            self._discard()
            raise

    def _updates(self, current: CurrentMetadata) -> tuple[TableUpdate, ...]:
        """Write the snapshot that follows the newest metadata, and return the updates that add it. Delete files of the attempt before."""
        self._discard()
        metadata = current.metadata
        parent = metadata.current_snapshot()
        if parent is None:
            return ()
        snapshot_id = uuid.uuid4().int >> 65
        self._files = SnapshotFiles(self.operations.storage, metadata, snapshot_id, ())
        written = self.write(self._files, parent, Place.after(metadata, parent))
        if written is None:
            return ()
        metrics = dict(zip(self.metrics, (self.done.rewritten, self.done.added), strict=True))
        change = CommitRequest(self.operation, metrics=metrics, data_change=False)
        snapshot = new_snapshot(metadata, change, written, parent, snapshot_id, metadata.current_schema_id)
        return AddSnapshotUpdate(snapshot=snapshot), point_branch_at(metadata, MAIN, snapshot_id)

    def _discard(self) -> None:
        if self._files is not None:
            self._files.discard()


@dataclass
class ManifestRewriting(Rewriting):
    """Writes manifests of full size (`commit.manifest.target-size-bytes`), each with the files of neighbouring partitions."""

    operation = "REWRITE MANIFESTS"
    metrics = ("numManifestsReplaced", "numManifestsCreated")
    done: RewrittenManifests = field(default_factory=RewrittenManifests, init=False)

    def write(self, files: SnapshotFiles, parent: IcebergVersion, place: Place) -> WrittenSnapshot | None:
        """Write the manifests of each partition spec anew, except a single one of at most the target size."""
        target_size = max(1, files.target_manifest_size)
        remaining: list[Manifest] = []
        added: list[Manifest] = []
        rewritten = 0
        for group in manifests_by_spec(read_manifest_list(files.storage, parent.manifest_list)):
            manifest_count = math.ceil(sum(manifest.length for manifest in group) / target_size)
            if len(group) == 1 and manifest_count == 1:
                remaining += group
            else:
                rewritten += len(group)
                added += _rewrite_group(files, group, manifest_count)
        self.done = RewrittenManifests(rewritten, len(added))
        return files.write_list([*added, *remaining], (), place) if rewritten else None


@dataclass
class DeleteRewriting(Rewriting):
    """Writes one position-delete file for each data file that has several, or that shares one with other data files.

    Position deletes that apply to no data file are removed.
    """

    operation = "REWRITE POSITION DELETES"
    metrics = ("numDeleteFilesRemoved", "numDeleteFilesAdded")
    done: RewrittenDeletes = field(default_factory=RewrittenDeletes, init=False)

    def write(self, files: SnapshotFiles, parent: IcebergVersion, place: Place) -> WrittenSnapshot | None:
        """Replace the position deletes, except those that are already the only ones of one data file."""
        live = live_files(files.storage, parent, unpartitioned_spec_ids(files.metadata))
        deletes = [delete for delete in live.deletes if delete.file.content is Content.POSITION_DELETES]
        position_deletes = {key_of_delete(delete): delete.file for delete in deletes}
        self.done = RewrittenDeletes()
        if not position_deletes:
            return None
        final_keys, deletions = _plan_rewriting(live)
        removed = {key: file for key, file in position_deletes.items() if key not in final_keys}
        if not removed:
            return None
        added = [file for file in files.delete_files.write(deletions) if file is not None]
        self.done = RewrittenDeletes(len(removed), len(added), _total_size(removed.values()), _total_size(added))
        remaining_manifests, removed_entries = files.rewrite_manifests(live, Removal(frozenset(), frozenset(removed)))
        new_manifests = files.write_delete_manifests(added)
        entries = [*removed_entries, *files.entries_of(new_manifests)]
        return files.write_list([*new_manifests, *remaining_manifests], entries, place, [file.path for file in added])


def _plan_rewriting(live: LiveFiles) -> tuple[frozenset[str], list[tuple[Entry, Positions]]]:
    """Return the keys of the delete files that stay, and the deleted rows of each data file that needs a new one.

    A delete file stays if it is about one data file, and no other delete file deletes more rows of it.
    """
    entries = [entry for entry in live.data if live.position_deletes_of(entry)]
    deleted = live.deleted_positions(entries)
    final_keys: set[str] = set()
    deletions: list[tuple[Entry, Positions]] = []
    for entry in entries:
        positions = deleted.get(plain_path(entry.file.path), Positions())
        own_deletes = [delete for delete in live.position_deletes_of(entry) if scope_of(delete) is not None]
        if len(own_deletes) == 1 and positions == live.positions_in(own_deletes, entry):
            final_keys.add(key_of_delete(own_deletes[0]))
        elif positions:
            deletions.append((entry, positions))
    return frozenset(final_keys), deletions


def _rewrite_group(files: SnapshotFiles, group: Sequence[Manifest], manifest_count: int) -> list[Manifest]:
    """Write the live files of manifests of one partition spec to so many new manifests, sorted by partition."""
    entries = [entry.existing() for entries in read_manifests(files.storage, group) for entry in entries if entry.live]
    entries.sort(key=_partition_order)
    size = min(MAX_MANIFEST_ENTRIES, math.ceil(len(entries) / manifest_count)) or 1
    chunks = [entries[start : start + size] for start in range(0, len(entries), size)]
    return [files.write_manifest(chunk, group[0].content, group[0].spec_id) for chunk in chunks]


def _partition_order(entry: Entry) -> tuple[Any, ...]:
    """Return a sort key of the entry's partition, nulls first."""
    return tuple((value is not None, 0 if value is None else value) for value in entry.file.partition)


def _total_size(files: Iterable[ContentFile]) -> int:
    return sum(file.size for file in files)
