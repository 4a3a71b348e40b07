"""The files of a new snapshot: delete files, manifests, the manifest list."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.concurrency import map_concurrently
from rowmerge.iceberg.commits.pending import PendingFiles
from rowmerge.iceberg.deletes.deletion_vectors import write_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import write_position_deletes
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, ContentFile, Entry, Manifest, ManifestContent, Status
from rowmerge.iceberg.manifests.data_files import content_file
from rowmerge.iceberg.manifests.manifest_files import read_manifest, schema_of_spec, write_manifest, write_manifest_list
from rowmerge.iceberg.manifests.metrics import metrics_modes
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import file_locations
from rowmerge.iceberg.metadata.updates import ROW_LINEAGE, next_row_id
from rowmerge.iceberg.snapshots.live_files import LiveFiles, key_of_delete, scope_of
from rowmerge.storage.deletion import Origin, clean_up
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.settings import whole_number
from rowmerge.table.snapshots.files import AddedFile, Positions

ENTRIES_OF_A_MANIFEST = 20_000
"""About the 8 MB that `commit.manifest.target-size-bytes` wants, for tables with some ten columns."""

_Marking = tuple[str, frozenset[str]]
"""A data file, and the delete files about it alone that a new one stands for."""


@dataclass(frozen=True)
class Produced:
    """What a snapshot is made of. `entries` are those that it adds or removes; `row_ids`: the first id that it gives to rows, and how
    many, from format version 3 on."""

    manifest_list: str
    manifests: tuple[Manifest, ...]
    entries: tuple[Entry, ...]
    row_ids: tuple[int, int] | None = None


@dataclass(frozen=True)
class Place:
    """Where a snapshot goes: its parent's id, its sequence number, and the table's next row id (None before format version 3)."""

    parent: int | None
    sequence_number: int
    first_row_id: int | None = None

    @classmethod
    def after(cls, metadata: TableMetadata, parent: IcebergVersion | None) -> Place:
        """That of the next snapshot of a table."""
        return cls(None if parent is None else parent.snapshot_id, metadata.next_sequence_number(), next_row_id(metadata))


@dataclass
class SnapshotFiles:
    """Writes the files of one snapshot, again for each attempt where the table's newest version became another one; all of them at once,
    when the last of them, the manifest list, is known.

    `metadata`: the table as the snapshot will find it; paths of data files are absolute.
    """

    storage: Storage
    metadata: TableMetadata
    snapshot_id: int
    added: Sequence[AddedFile]
    data_age: int = UNASSIGNED
    """The sequence number of the rows in added files where they are older than the snapshot: of rows that were only moved."""
    commit_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    _written: list[str] = field(default_factory=list)
    _used: frozenset[str] = frozenset()
    _deletes: dict[_Marking, ContentFile | None] = field(default_factory=dict)
    _attempts: int = 0

    def produce(self, live: LiveFiles, removed: Iterable[str], deleted: Mapping[str, Positions], place: Place) -> Produced:
        """The snapshot that follows `live`: files leave, rows of files that stay are deleted, the added files come in.

        Raises StorageError, CorruptLog, ValueError for a path that `live` does not have.
        """
        self._attempts += 1
        marked, superseded, emptied = self._marked(live, deleted)
        gone = frozenset(removed) | emptied
        if unknown := gone - live.by_path(gone).keys():
            raise ValueError(f"{min(unknown)} is no data file of {self.metadata.location}")
        # A delete file that is about one data file has nothing left to say when that file goes.
        dangling = {key_of_delete(entry) for entry in live.deletes if scope_of(entry) in gone} | live.outlived(gone, self.data_age)
        leaving = superseded | dangling
        kept, changed = self.without(live, gone, leaving)
        new = self._added_manifests + self.delete_manifests(marked)
        manifests = self._merged([*new, *kept])
        entries = [*changed, *(entry for manifest in new for entry in read_manifest(self.pending, manifest))]
        return self.listed(manifests, entries, place, [file.path for file in marked])

    def listed(self, manifests: Sequence[Manifest], entries: Sequence[Entry], place: Place, deletes: Sequence[str] = ()) -> Produced:
        """The snapshot that is made of these manifests; `deletes`: the paths of new delete files in them. Raises StorageError."""
        path = f"{self._folder}/snap-{self.snapshot_id}-{self._attempts}-{self.commit_id}.avro"
        self._wrote(path)
        first = place.first_row_id
        following = write_manifest_list(
            self.pending,
            path,
            manifests,
            snapshot_id=self.snapshot_id,
            parent_id=place.parent,
            sequence_number=place.sequence_number,
            format_version=self._format_version,
            first_row_id=first,
        )
        self._used = frozenset([path, *(manifest.path for manifest in manifests), *deletes])
        self.pending.flush()
        row_ids = None if first is None or following is None else (first, following - first)
        return Produced(path, tuple(manifests), tuple(entries), row_ids)

    def discard(self) -> None:
        """Delete all files that were written: no version refers to them. A failure leaves them as orphans."""
        self._clean_up(self._written)

    def discard_superseded(self) -> None:
        """Delete the files of earlier attempts, after the last one is committed. A failure leaves them as orphans."""
        self._clean_up([path for path in self._written if path not in self._used], self._used)

    # ------------------------------------------------------------------ inside

    @cached_property
    def pending(self) -> PendingFiles:
        """The table's storage with the files that were made and not put yet."""
        return PendingFiles(self.storage)

    @property
    def _folder(self) -> str:
        return f"{self.storage.location}/metadata"

    @property
    def _format_version(self) -> int:
        """Of manifests: older tables are written as the version that names every field."""
        return max(self.metadata.format_version, 2)

    def _clean_up(self, paths: Sequence[str], live: Iterable[str] = ()) -> None:
        clean_up(self.storage, [paths], Origin.WRITTEN, locations=file_locations(self.metadata.properties), live=live)

    def _wrote(self, path: str) -> None:
        self._written.append(path)

    def _marked(self, live: LiveFiles, deleted: Mapping[str, Positions]) -> tuple[list[ContentFile], set[str], frozenset[str]]:
        """New delete files, the keys of those that they stand for, and the data files that have no rows left."""
        entries = live.by_path(deleted)
        before = live.deleted_positions(list(entries.values()))
        everything = {path: deleted[path] | before.get(path, Positions()) for path in entries}
        emptied = frozenset(path for path, entry in entries.items() if len(everything[path]) >= entry.file.records)
        own: dict[_Marking, list[Entry]] = {}
        asked: dict[_Marking, tuple[Entry, Positions]] = {}
        for path, entry in entries.items():
            if path in emptied:
                continue
            applying = live.position_deletes_of(entry)
            # A deletion vector stands for everything; a delete file of several data files stays, and need not be said again.
            alone = [delete for delete in applying if scope_of(delete) is not None]
            key = (path, frozenset(map(key_of_delete, alone)))
            own[key] = alone
            if key not in self._deletes:
                known = before.get(path, Positions())
                whole = self._vectors or len(alone) == len(applying)
                shared = Positions() if whole else known - _positions_of(live, alone, entry)
                asked[key] = (entry, everything[path] - shared)
        self._deletes |= dict(zip(asked, self.delete_files(list(asked.values())), strict=True))
        files = [made for key in own if (made := self._deletes[key]) is not None]
        superseded = {key_of_delete(delete) for key, alone in own.items() if self._deletes[key] is not None for delete in alone}
        return files, superseded, emptied

    def delete_files(self, asked: Sequence[tuple[Entry, Positions]]) -> list[ContentFile | None]:
        """Write a delete file for each of these data files, several at a time; None where no row is to be deleted. Raises StorageError.

        From format version 3 on all are deletion vectors in one file.
        """
        if self._vectors:
            return self._deletion_vectors(asked)
        return map_concurrently(lambda rows: self._delete_file(*rows), asked)

    def _delete_file(self, entry: Entry, positions: Positions) -> ContentFile | None:
        """The delete file lies beside its data file, or in the table's folder when that lies elsewhere."""
        if not positions:
            return None
        path = f"{self._folder_of(entry)}/00000-{uuid.uuid4()}-deletes.parquet"
        self._wrote(path)
        return write_position_deletes(self.pending, path, entry.file, positions)

    def _folder_of(self, entry: Entry) -> str:
        folder = plain_path(entry.file.path).rpartition("/")[0]
        return folder if f"{folder}/".startswith(f"{self.storage.location}/") else f"{self.storage.location}/data"

    @property
    def _vectors(self) -> bool:
        return self.metadata.format_version >= ROW_LINEAGE

    def _deletion_vectors(self, asked: Sequence[tuple[Entry, Positions]]) -> list[ContentFile | None]:
        deleted = [(entry.file, positions) for entry, positions in asked if positions]
        if not deleted:
            return [None] * len(asked)
        path = f"{self.storage.location}/data/00000-{uuid.uuid4()}-deletes.puffin"
        self._wrote(path)
        written = iter(write_deletion_vectors(self.pending, path, deleted))
        return [next(written) if positions else None for _, positions in asked]

    def without(self, live: LiveFiles, gone: frozenset[str], leaving: set[str]) -> tuple[list[Manifest], list[Entry]]:
        """The manifests of before, those anew in which a file leaves; and the entries that leave."""
        kept: list[Manifest] = []
        changed: list[Entry] = []
        for manifest in live.manifests:
            if not manifest.may_have_live_files:
                continue
            if not (gone if manifest.content is ManifestContent.DATA else leaving):
                kept.append(manifest)
                continue
            entries = live.entries_of(manifest)
            out = {id(entry) for entry in entries if self._leaves(entry, gone, leaving)}
            if not out:
                kept.append(manifest)
                continue
            anew = [entry.deleted(self.snapshot_id) if id(entry) in out else entry.existing() for entry in entries]
            kept.append(self.manifest(anew, manifest.content, manifest.spec_id))
            changed += [entry for entry in anew if not entry.live]
        return kept, changed

    def _leaves(self, entry: Entry, gone: frozenset[str], leaving: set[str]) -> bool:
        return plain_path(entry.file.path) in gone if entry.file.content == Content.DATA else key_of_delete(entry) in leaving

    @cached_property
    def _added_manifests(self) -> list[Manifest]:
        """Made once: what is in them does not depend on others."""
        ordered = [part.source_id for part in self.metadata.sort_order().fields if part.transform.preserves_order]
        modes = metrics_modes(self.metadata.schema(), self.metadata.properties, ordered)
        files = [content_file(file, self.metadata, modes) for file in self.added]
        parts = [files[start : start + ENTRIES_OF_A_MANIFEST] for start in range(0, len(files), ENTRIES_OF_A_MANIFEST)]
        return [self._of_new(part, ManifestContent.DATA, self.metadata.default_spec_id) for part in parts]

    def delete_manifests(self, files: Sequence[ContentFile]) -> list[Manifest]:
        by_spec: dict[int, list[ContentFile]] = defaultdict(list)
        for file in files:
            by_spec[file.spec_id].append(file)
        return [self._of_new(group, ManifestContent.DELETES, spec_id) for spec_id, group in by_spec.items()]

    def _of_new(self, files: Sequence[ContentFile], content: ManifestContent, spec_id: int) -> Manifest:
        age = self.data_age if content is ManifestContent.DATA else UNASSIGNED
        return self.manifest([Entry.added(file, self.snapshot_id, age) for file in files], content, spec_id)

    def manifest(self, entries: Sequence[Entry], content: ManifestContent, spec_id: int) -> Manifest:
        path = f"{self._folder}/{self.commit_id}-m{len(self._written)}.avro"
        self._wrote(path)
        spec, schema = self.metadata.specs()[spec_id], schema_of_spec(self.metadata, spec_id)
        return write_manifest(
            self.pending,
            path,
            entries,
            content=content,
            spec=spec,
            schema=schema,
            snapshot_id=self.snapshot_id,
            format_version=self._format_version,
        )

    def _merged(self, manifests: list[Manifest]) -> list[Manifest]:
        """Small manifests put together where there are many (`commit.manifest.min-count-to-merge`), the newest first."""
        properties = self.metadata.properties
        if properties.get("commit.manifest-merge.enabled", "true").strip().lower() == "false":
            return manifests
        least = whole_number(properties, "commit.manifest.min-count-to-merge", 100)
        size = whole_number(properties, "commit.manifest.target-size-bytes", 8 * 1024 * 1024)
        groups: dict[tuple[ManifestContent, int], list[Manifest]] = defaultdict(list)
        for manifest in manifests:
            groups[manifest.content, manifest.spec_id].append(manifest)
        result: list[Manifest] = []
        for (content, spec_id), group in groups.items():
            if len(group) < max(least, 2):
                result += group
                continue
            for together in _bins(group, size):
                result.append(together[0] if len(together) == 1 else self._together(together, content, spec_id))
        return result

    def _together(self, manifests: Sequence[Manifest], content: ManifestContent, spec_id: int) -> Manifest:
        entries = []
        for manifest in manifests:
            for entry in read_manifest(self.pending, manifest):
                if entry.snapshot_id == self.snapshot_id and entry.status is not Status.EXISTING:
                    entries.append(entry)
                elif entry.live:
                    entries.append(entry.existing())
        return self.manifest(entries, content, spec_id)


def _positions_of(live: LiveFiles, deletes: Sequence[Entry], entry: Entry) -> Positions:
    """What these delete files take from a data file."""
    some = LiveFiles(live.storage, data=(entry,), deletes=tuple(deletes))
    return some.deleted_positions([entry]).get(plain_path(entry.file.path), Positions())


def _bins(manifests: Sequence[Manifest], size: int) -> list[list[Manifest]]:
    bins: list[list[Manifest]] = [[]]
    filled = 0
    for manifest in manifests:
        if bins[-1] and filled + manifest.length > size:
            bins.append([])
            filled = 0
        bins[-1].append(manifest)
        filled += manifest.length
    return bins
