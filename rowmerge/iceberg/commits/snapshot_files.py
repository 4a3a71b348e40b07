"""The files of a new snapshot: delete files, manifests, and the manifest list."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from rowmerge.concurrency import run_concurrently
from rowmerge.iceberg.commits.delete_files import DeleteFileWriter
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, ContentFile, Entry, Manifest, ManifestContent, Status
from rowmerge.iceberg.manifests.manifest_files import ManifestHeader, read_manifest, schema_of_spec, write_manifest, write_manifest_list
from rowmerge.iceberg.manifests.metrics import content_file, metrics_modes
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import IcebergSettings, file_locations
from rowmerge.iceberg.metadata.registry import MANIFEST_COUNT, MANIFEST_SIZE, MERGES_MANIFESTS
from rowmerge.iceberg.metadata.updates import ROW_LINEAGE, next_row_id
from rowmerge.iceberg.snapshots.live_files import LiveFiles, key_of_delete, scope_of
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import AddedFile, Positions

MAX_MANIFEST_ENTRIES = 20_000
"""The largest number of entries in a manifest. With ten columns, they take about 8 MB, as in `commit.manifest.target-size-bytes`."""


@dataclass(frozen=True)
class WrittenSnapshot:
    """A snapshot whose files have been put.

    `definition` is the metadata of the table with the definition that the commit sets. `entries` are the files that the snapshot adds or
    removes.
    """

    snapshot_id: int
    definition: TableMetadata
    manifest_list: str
    entries: tuple[Entry, ...]
    first_row_id: int | None = None
    assigned_row_ids: int | None = None
    """The number of row ids that the snapshot assigns, None below format version 3."""


@dataclass(frozen=True)
class Removal:
    """The files that a snapshot removes: data files identified by their absolute paths, and delete files identified by `key_of_delete`."""

    data_paths: frozenset[str]
    delete_keys: frozenset[str]

    def may_affect(self, manifest: Manifest) -> bool:
        return bool(self.data_paths if manifest.content is ManifestContent.DATA else self.delete_keys)

    def includes(self, entry: Entry) -> bool:
        if entry.file.content == Content.DATA:
            return plain_path(entry.file.path) in self.data_paths
        return key_of_delete(entry) in self.delete_keys


class _PendingFile(NamedTuple):
    """A file in memory, and the storage and relative path to which it is put."""

    storage: Storage
    path: str
    data: bytes


class PendingFiles(Storage):
    """A table's storage that keeps new files in memory until `flush`, right before the put of the metadata that refers to them.

    Storages of other locations (`at`) share the files in memory. Listings and deletions ignore these files.
    """

    def __init__(self, storage: Storage, waiting: dict[str, _PendingFile] | None = None) -> None:
        super().__init__(storage.location, storage.configuration)
        self._storage = storage
        self._waiting: dict[str, _PendingFile] = {} if waiting is None else waiting
        """The files in memory by their absolute paths."""

    def at(self, location: str) -> Storage:
        return PendingFiles(self._storage.at(location), self._waiting)

    def get(self, path: str) -> bytes:
        waiting = self._waiting.get(f"{self.location}/{path}")
        return self._storage.get(path) if waiting is None else waiting.data

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return a range of a file's bytes. The file may be in memory.

        Args:
            path: The path of the file.
            start: The offset of the first byte.
            length: The number of bytes.
        """
        waiting = self._waiting.get(f"{self.location}/{path}")
        return self._storage.get_range(path, start, length) if waiting is None else waiting.data[start : start + length]

    def put(self, path: str, data: bytes) -> None:
        """Keep a file in memory until `flush`.

        Args:
            path: The path of the file.
            data: The content of the file.
        """
        self._waiting[f"{self.location}/{path}"] = _PendingFile(self._storage, path, data)

    def flush(self) -> None:
        """Put all files in memory concurrently. Raises StorageError if a file cannot be put."""
        waiting = [self._waiting.pop(path) for path in list(self._waiting)]
        run_concurrently([partial(file.storage.put, file.path, file.data) for file in waiting])


@dataclass
class SnapshotFiles:
    """A writer of the files of one snapshot.

    After a lost race, each further attempt writes the files again. The files are put together with the manifest list.

    `metadata` is the table's metadata before the snapshot, with the new definition if the commit has one. Paths of data files are absolute.
    """

    storage: Storage
    metadata: TableMetadata
    snapshot_id: int
    added: Sequence[AddedFile]
    data_sequence_number: int = UNASSIGNED
    """The sequence number of the rows in added files. It is older than the snapshot if the files contain only moved rows."""
    published: Sequence[ContentFile] = ()
    """Data files of a staged snapshot, which the snapshot publishes."""
    write_properties: Mapping[str, str] = field(default_factory=dict)
    """Properties that override those of the table for new delete files."""
    commit_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self._written_paths: list[str] = []
        self._snapshot_paths: frozenset[str] = frozenset()
        """The paths of the metadata and delete files of the last attempt. `_written_paths` contains those of all attempts."""
        self._attempts = 0
        # A table of format version 1 gets manifests of version 2, which has all fields of version 1.
        self._manifest_version = max(self.metadata.format_version, 2)
        self.pending_files = PendingFiles(self.storage)
        self.delete_files = DeleteFileWriter(self.pending_files, self.metadata, self._written_paths.append, self.write_properties)

    def write_snapshot(
        self,
        newest_metadata: TableMetadata,
        parent: Snapshot | None,
        live: LiveFiles,
        removed_paths: Iterable[str],
        deleted_rows: Mapping[str, Positions],
    ) -> WrittenSnapshot:
        """Write the delete files, manifests and manifest list of the snapshot that follows `parent`.

        Args:
            newest_metadata: The table's metadata to which the snapshot will be committed.
            parent: The preceding snapshot, or None for the first one.
            live: The live files of `parent`.
            removed_paths: The absolute paths of the data files that the snapshot removes.
            deleted_rows: The positions of the rows that the snapshot deletes, by the absolute path of the data file.

        Raises:
            CorruptLog: A manifest or a delete file of `parent` is damaged or missing.
            StorageError: A file cannot be read or put.
            ValueError: A path is not that of a live data file.
        """
        self._attempts += 1
        row_deletes = self.delete_files.write_row_deletions(live, deleted_rows)
        # The snapshot also removes data files without remaining rows (`emptied_paths`), and the old delete files that new ones replace.
        removed_data_paths = row_deletes.emptied_paths.union(removed_paths)
        removal = self._plan_removal(live, removed_data_paths, replaced_delete_keys=row_deletes.replaced_keys)
        remaining_manifests, removed_entries = self.rewrite_manifests(live, removal)
        new_manifests = self._added_manifests + self.write_delete_manifests(row_deletes.files)
        manifests = self._merge_manifests([*new_manifests, *remaining_manifests])  # the newest first
        changed_entries = [*removed_entries, *self.entries_of(new_manifests)]
        return self.put_snapshot(newest_metadata, parent, manifests, changed_entries)

    def put_snapshot(
        self, newest_metadata: TableMetadata, parent: Snapshot | None, manifests: Sequence[Manifest], entries: Sequence[Entry]
    ) -> WrittenSnapshot:
        """Write the manifest list of the snapshot that follows `parent`, and put all files that this attempt has written.

        From format version 3 on, the manifest list also assigns row ids to new rows. The ids start at the table's next row id.

        Args:
            newest_metadata: The table's metadata to which the snapshot will be committed.
            parent: The preceding snapshot, or None for the first one.
            manifests: The manifests of the snapshot.
            entries: The files that the snapshot adds or removes.

        Raises:
            StorageError: A file cannot be put.
        """
        path = self._new_metadata_path(f"snap-{self.snapshot_id}-{self._attempts}-{self.commit_id}")
        # If this commit upgrades the table, `self.metadata` has version 3, and `newest_metadata` still has no next row id.
        first_row_id = (next_row_id(newest_metadata) or 0) if self.metadata.format_version >= ROW_LINEAGE else None
        assigned_row_ids = write_manifest_list(
            self.pending_files,
            path,
            manifests,
            snapshot_id=self.snapshot_id,
            parent_id=None if parent is None else parent.snapshot_id,
            sequence_number=newest_metadata.next_sequence_number(),
            format_version=self._manifest_version,
            first_row_id=first_row_id,
        )
        self._record_snapshot_paths(path, manifests, entries)
        self.pending_files.flush()  # So far, the files of this attempt are in memory.
        return WrittenSnapshot(self.snapshot_id, self.metadata, path, tuple(entries), first_row_id, assigned_row_ids)

    def _record_snapshot_paths(self, manifest_list: str, manifests: Sequence[Manifest], entries: Sequence[Entry]) -> None:
        """Record the files that `discard_superseded` keeps if this attempt is committed. Other code deletes data files."""
        delete_paths = [entry.file.path for entry in entries if entry.file.content is not Content.DATA]
        self._snapshot_paths = frozenset([manifest_list, *(manifest.path for manifest in manifests), *delete_paths])

    def _new_metadata_path(self, name: str) -> str:
        """Return the absolute path of a new metadata file, and record it for `discard`."""
        folder = IcebergSettings(self.metadata.properties).metadata_location(self.storage.location)
        path = f"{folder}/{name}.avro"
        self._written_paths.append(path)
        return path

    def discard(self) -> None:
        """Delete all files that were written, because no snapshot refers to them. If the deletion fails, they remain as orphans."""
        self._try_delete(self._written_paths)

    def discard_superseded(self) -> None:
        """Delete the files of earlier attempts, after the last attempt is committed. If the deletion fails, they remain as orphans."""
        self._try_delete([path for path in self._written_paths if path not in self._snapshot_paths], self._snapshot_paths)

    @property
    def target_manifest_size(self) -> int:
        """Return the size in bytes up to which manifests are merged. Raises ConfigurationError for a malformed table property."""
        return MANIFEST_SIZE.value(self.metadata.properties)

    def _try_delete(self, paths: Sequence[str], live: Iterable[str] = ()) -> None:
        try_delete_files(
            self.storage, [paths], PathOrigin.THIS_PROCESS, locations=file_locations(self.metadata.properties), live_paths=live
        )

    def entries_of(self, manifests: Iterable[Manifest]) -> list[Entry]:
        """Read the entries of manifests, including manifests in memory."""
        return [entry for manifest in manifests for entry in read_manifest(self.pending_files, manifest)]

    def write_manifest(self, entries: Sequence[Entry], content: ManifestContent, spec_id: int) -> Manifest:
        """Write a manifest under a new name, and return its record for the manifest list.

        Args:
            entries: The entries of the manifest, at least one.
            content: Whether the entries are data files or delete files.
            spec_id: The id of the partition spec of all entries.
        """
        path = self._new_metadata_path(f"{self.commit_id}-m{len(self._written_paths)}")
        spec, schema = self.metadata.specs()[spec_id], schema_of_spec(self.metadata, spec_id)
        header = ManifestHeader(content, spec, schema, self._manifest_version)
        return write_manifest(self.pending_files, path, entries, header, self.snapshot_id)

    def write_manifests(
        self, entries: Sequence[Entry], content: ManifestContent, spec_id: int, max_entries: int = MAX_MANIFEST_ENTRIES
    ) -> list[Manifest]:
        """Write entries to as many manifests as necessary, and return their records for the manifest list.

        Args:
            entries: The entries. If there are none, no manifest is written.
            content: Whether the entries are data files or delete files.
            spec_id: The id of the partition spec of all entries.
            max_entries: The largest number of entries in one manifest.
        """
        chunks = [entries[start : start + max_entries] for start in range(0, len(entries), max_entries)]
        return [self.write_manifest(chunk, content, spec_id) for chunk in chunks]

    def write_delete_manifests(self, files: Iterable[ContentFile]) -> list[Manifest]:
        """Write the manifests of new delete files, one for each partition spec."""
        by_spec: dict[int, list[Entry]] = defaultdict(list)
        for file in files:
            by_spec[file.spec_id].append(Entry.added(file, self.snapshot_id))
        return [self.write_manifest(entries, ManifestContent.DELETES, spec_id) for spec_id, entries in by_spec.items()]

    @cached_property
    def _added_manifests(self) -> list[Manifest]:
        """Write the manifests of added data files, once for all attempts, because other commits do not change them."""
        sort_columns = [field.source_id for field in self.metadata.sort_order().fields if field.transform.preserves_order]
        modes = metrics_modes(self.metadata.schema(), self.metadata.properties, sort_columns)
        files = [content_file(file, self.metadata, modes) for file in self.added]
        by_spec: dict[int, list[Entry]] = defaultdict(list)
        for file in (*files, *self.published):
            by_spec[file.spec_id].append(Entry.added(file, self.snapshot_id, self.data_sequence_number))
        return [
            manifest for spec_id, entries in by_spec.items() for manifest in self.write_manifests(entries, ManifestContent.DATA, spec_id)
        ]

    def rewrite_manifests(self, live: LiveFiles, removal: Removal) -> tuple[list[Manifest], list[Entry]]:
        """Rewrite the manifests that contain removed files.

        Args:
            live: The live files of the preceding snapshot.
            removal: The files that this snapshot removes.

        Returns:
            The unchanged and the rewritten manifests, in the order of `live`, and the entries of the removed files. Manifests without live
            files are left out.
        """
        manifests: list[Manifest] = []
        removed_entries: list[Entry] = []
        for manifest in live.manifests:
            if not manifest.may_have_live_files:
                continue
            entries = live.entries_of(manifest) if removal.may_affect(manifest) else ()
            if not any(map(removal.includes, entries)):
                manifests.append(manifest)
                continue
            new_entries = [entry.deleted(self.snapshot_id) if removal.includes(entry) else entry.existing() for entry in entries]
            removed_entries += [entry for entry in new_entries if not entry.live]
            manifests.append(self.write_manifest(new_entries, manifest.content, manifest.spec_id))
        return manifests, removed_entries

    def _plan_removal(self, live: LiveFiles, data_paths: frozenset[str], replaced_delete_keys: frozenset[str]) -> Removal:
        """Return the removal of data files, of replaced delete files, and of delete files that then no longer apply to any data file.

        A delete file is identified by its path and its offset in the file (`key_of_delete`).

        Raises ValueError if a path is not that of a live data file.
        """
        unknown_paths = data_paths - live.by_path(data_paths).keys()
        if unknown_paths:
            raise ValueError(f"{min(unknown_paths)} is not a data file of {self.metadata.location}")
        single_file_keys = {key_of_delete(delete) for delete in live.deletes if scope_of(delete) in data_paths}
        dangling_keys = live.dangling_shared_deletes(data_paths, self.data_sequence_number)
        return Removal(data_paths, replaced_delete_keys | single_file_keys | dangling_keys)

    def _merge_manifests(self, manifests: list[Manifest]) -> list[Manifest]:
        """Merge the manifests of a snapshot that have the same content and partition spec, if there are many of them.

        Each new manifest replaces adjacent manifests, so manifests that are sorted by age stay sorted. Raises ConfigurationError for a
        malformed table property.
        """
        properties = self.metadata.properties
        if not MERGES_MANIFESTS.value(properties):
            return manifests
        min_count = max(MANIFEST_COUNT.value(properties), 2)
        max_size = self.target_manifest_size
        snapshot_manifests: list[Manifest] = []
        for manifests_of_spec in manifests_by_spec(manifests):
            if len(manifests_of_spec) < min_count:
                snapshot_manifests += manifests_of_spec
            else:
                snapshot_manifests += [self._merge_batch(batch) for batch in _batches_of_size(manifests_of_spec, max_size)]
        return snapshot_manifests

    def _merge_batch(self, manifests: Sequence[Manifest]) -> Manifest:
        """Write one manifest with the live entries of manifests of one partition spec, and with the entries that this snapshot removed.

        A single manifest is returned unchanged.
        """
        first, *others = manifests
        if not others:
            return first
        entries = []
        for entry in self.entries_of(manifests):
            # A manifest has the status ADDED or DELETED only for changes of its own snapshot. All other live files are EXISTING.
            is_own_change = entry.snapshot_id == self.snapshot_id and entry.status is not Status.EXISTING
            if is_own_change or entry.live:
                entries.append(entry if is_own_change else entry.existing())
        return self.write_manifest(entries, first.content, first.spec_id)


def manifests_by_spec(manifests: Iterable[Manifest]) -> list[list[Manifest]]:
    """Group manifests by content and partition spec."""
    groups: dict[tuple[ManifestContent, int], list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        groups[manifest.content, manifest.spec_id].append(manifest)
    return list(groups.values())


def _batches_of_size(manifests: Sequence[Manifest], max_size: int) -> list[list[Manifest]]:
    """Divide manifests, in their order, into batches of at most `max_size` bytes, or of one larger manifest."""
    batches: list[list[Manifest]] = [[]]
    batch_size = 0
    for manifest in manifests:
        if batches[-1] and batch_size + manifest.length > max_size:
            batches.append([])
            batch_size = 0
        batches[-1].append(manifest)
        batch_size += manifest.length
    return batches
