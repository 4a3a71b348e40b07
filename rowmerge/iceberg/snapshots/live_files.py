"""The data files of one snapshot and the delete files that apply to each (Iceberg spec, Scan Planning).

Snapshots share `ManifestFiles`, the content of a manifest that both have. The next snapshot reads only manifests that are not shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.concurrency import map_concurrently
from rowmerge.iceberg.deletes.deletion_vectors import read_deletion_vector
from rowmerge.iceberg.deletes.position_deletes import read_position_delete_file, referenced_path
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, Entry, Manifest, ManifestContent
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list, read_manifests, state_of
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions

_NEVER = 2**63 - 1
_Scope = tuple[Any, ...]
"""A partition, as `ContentFile.partition_key` has it."""


@dataclass(frozen=True, eq=False)
class ManifestFiles:
    """The live files of one manifest, which snapshots have in common. `known`: what was made of them before; `path`: the manifest's."""

    entries: tuple[Entry, ...]
    path: str = ""
    known: dict[Hashable, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LiveFiles:
    """`data` are the entries of the data files, in the manifests' order; `deletes` those of delete files; paths as they are told there."""

    storage: Storage
    manifests: tuple[Manifest, ...] = ()
    data: tuple[Entry, ...] = ()
    deletes: tuple[Entry, ...] = ()
    unpartitioned: frozenset[int] = frozenset()
    """The ids of specs without partition fields: their equality deletes apply to every file."""
    read: Mapping[tuple[object, ...], ManifestFiles] = field(default_factory=dict)
    """What `manifests` hold, by `state_of`."""
    _index: dict[str, Any] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The absolute paths of the data files, in the order of `data`."""
        if "paths" not in self._index:
            self._index["paths"] = [plain_path(entry.file.path) for entry in self.data]
        known: list[str] = self._index["paths"]
        return known

    @property
    def data_parts(self) -> list[ManifestFiles]:
        """`data` by manifests, those left out that have no live file."""
        read = (self.read.get(state_of(manifest)) for manifest in self.manifests if manifest.content is ManifestContent.DATA)
        parts = [part for part in read if part is not None and part.entries]
        return parts if sum(len(part.entries) for part in parts) == len(self.data) else [ManifestFiles(self.data)]

    def entries_of(self, manifest: Manifest) -> tuple[Entry, ...]:
        """The live files of one of the manifests. Raises what `read_manifest` does."""
        known = self.read.get(state_of(manifest))
        return tuple(entry for entry in read_manifest(self.storage, manifest) if entry.live) if known is None else known.entries

    def by_path(self, paths: Collection[str]) -> dict[str, Entry]:
        """The entries of these data files."""
        if not paths:
            return {}
        if "by_path" not in self._index:
            self._index["by_path"] = dict(zip(self.paths, self.data, strict=True))
        known: dict[str, Entry] = self._index["by_path"]
        return {path: known[path] for path in paths if path in known}

    def position_deletes_of(self, entry: Entry) -> list[Entry]:
        """The position-delete files, or the one deletion vector, that may apply to a data file."""
        index = self._deletes_index
        path = plain_path(entry.file.path)
        if (vector := index.vectors.get(path)) is not None and vector.sequence_number >= entry.sequence_number:
            return [vector]
        found = [*index.by_file.get(path, ()), *index.by_partition.get(entry.file.partition_key, ())]
        return [delete for delete in found if delete.sequence_number >= entry.sequence_number]

    def equality_deletes_of(self, entry: Entry) -> list[Entry]:
        """The equality-delete files that apply to a data file: younger ones of its partition, and of specs without partitions."""
        index = self._deletes_index
        found = [*index.equality_everywhere, *index.equality.get(entry.file.partition_key, ())]
        return [delete for delete in found if delete.sequence_number > entry.sequence_number]

    def deleted_positions(self, entries: Sequence[Entry]) -> dict[str, Positions]:
        """The positions that position deletes and deletion vectors take from these data files, only of those that have any.

        Raises CorruptLog, MissingDataFile, StorageError.
        """
        wanted = {plain_path(entry.file.path): self.position_deletes_of(entry) for entry in entries}
        files: dict[str, Entry] = {
            key_of_delete(delete): delete for deletes in wanted.values() for delete in deletes if delete.file.format.upper() != "PUFFIN"
        }
        vectors = {path: deletes[0] for path, deletes in wanted.items() if deletes and deletes[0].file.format.upper() == "PUFFIN"}
        paths = frozenset(path for path, deletes in wanted.items() if deletes and path not in vectors)
        read = map_concurrently(lambda delete: read_position_delete_file(self.storage, delete.file), list(files.values()))
        marked = map_concurrently(lambda delete: read_deletion_vector(self.storage, delete.file), list(vectors.values()))
        by_file = dict(zip(files, read, strict=True))
        found = {path: positions for path, positions in zip(vectors, marked, strict=True) if positions}
        for path in paths:
            positions = Positions()
            for delete in wanted[path]:
                positions |= by_file[key_of_delete(delete)].get(path, Positions())
            if positions:
                found[path] = positions
        return found

    def deleted_count(self, entry: Entry) -> int:
        """How many rows position deletes take from a data file, counted twice where two files name one row.

        What a delete file of many data files takes from each is not told by the manifest: that file is read.
        """
        count, unknown = 0, False
        for delete in self.position_deletes_of(entry):
            if delete.file.format.upper() == "PUFFIN" or scope_of(delete) is not None:
                count += delete.file.records
            else:
                unknown = True
        return sum(len(positions) for positions in self.deleted_positions([entry]).values()) if unknown else count

    def outlived(self, gone: Collection[str], data_age: int) -> set[str]:
        """The keys of the delete files about more than one data file that apply to none once the files `gone` are not there any more.

        `data_age`: the sequence number of the rows that come in, UNASSIGNED for that of a new snapshot.
        """
        shared = [delete for delete in self.deletes if scope_of(delete) is None]
        if not shared or not gone:
            return set()
        oldest: dict[Any, int] = {}
        everywhere = _NEVER if data_age == UNASSIGNED else data_age
        new = everywhere
        for path, entry in zip(self.paths, self.data, strict=True):
            if path not in gone:
                scope = entry.file.partition_key
                oldest[scope] = min(oldest.get(scope, _NEVER), entry.sequence_number)
                everywhere = min(everywhere, entry.sequence_number)

        def applies(delete: Entry) -> bool:
            if delete.file.content is not Content.EQUALITY_DELETES:
                return oldest.get(delete.file.partition_key, _NEVER) <= delete.sequence_number
            if delete.file.spec_id in self.unpartitioned:
                return everywhere < delete.sequence_number
            return min(new, oldest.get(delete.file.partition_key, _NEVER)) < delete.sequence_number

        return {key_of_delete(delete) for delete in shared if not applies(delete)}

    @property
    def _deletes_index(self) -> _DeletesIndex:
        if "deletes" not in self._index:
            self._index["deletes"] = _DeletesIndex.of(self.deletes, self.unpartitioned)
        known: _DeletesIndex = self._index["deletes"]
        return known


@dataclass
class _DeletesIndex:
    vectors: dict[str, Entry] = field(default_factory=dict)
    by_file: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    by_partition: dict[_Scope, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    equality: dict[_Scope, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    equality_everywhere: list[Entry] = field(default_factory=list)

    @classmethod
    def of(cls, deletes: Iterable[Entry], unpartitioned: frozenset[int]) -> _DeletesIndex:
        index = cls()
        for delete in deletes:
            partition = delete.file.partition_key
            if delete.file.content is Content.EQUALITY_DELETES:
                if delete.file.spec_id in unpartitioned:
                    index.equality_everywhere.append(delete)
                else:
                    index.equality[partition].append(delete)
            elif (path := scope_of(delete)) is None:
                index.by_partition[partition].append(delete)
            elif delete.file.format.upper() == "PUFFIN":
                index.vectors[path] = delete
            else:
                index.by_file[path].append(delete)
        return index


def live_files(
    storage: Storage, version: IcebergVersion | None, unpartitioned: frozenset[int], before: LiveFiles | None = None
) -> LiveFiles:
    """The live files of a snapshot; manifests that `before`, the files of another one, has too are not read again.

    Raises CorruptLog, StorageError.
    """
    if version is None:
        return LiveFiles(storage)
    manifests = read_manifest_list(storage, version.manifest_list)
    known = {} if before is None else before.read
    unread = [manifest for manifest in manifests if state_of(manifest) not in known]
    found = zip(unread, read_manifests(storage, unread), strict=True)
    new = {
        state_of(manifest): ManifestFiles(tuple(entry for entry in entries if entry.live), plain_path(manifest.path))
        for manifest, entries in found
    }
    read = {state_of(manifest): known.get(state_of(manifest)) or new[state_of(manifest)] for manifest in manifests}
    data, deletes = (
        tuple(entry for manifest in manifests if manifest.content is content for entry in read[state_of(manifest)].entries)
        for content in ManifestContent
    )
    return LiveFiles(storage, manifests, data, deletes, unpartitioned, read)


def scope_of(delete: Entry) -> str | None:
    """The one data file that a position-delete file or a deletion vector is about, None for one that may be about many."""
    return referenced_path(delete.file)


def key_of_delete(delete: Entry) -> str:
    """What no other delete file or deletion vector has: several vectors may be in one file."""
    return f"{delete.file.path}#{delete.file.content_offset}"
