"""The data files of one snapshot and the delete files that apply to them ("Scan Planning" in the Iceberg specification).

Snapshots that have a manifest in common share its content (`ManifestFiles`). So opening the next snapshot reads only new manifests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, cast

import pyarrow as pa
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.concurrency import map_concurrently
from rowmerge.iceberg.avro.maps import MapSequence
from rowmerge.iceberg.deletes.deletion_vectors import read_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import read_position_delete_file, referenced_path
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, Entry, Manifest, ManifestContent
from rowmerge.iceberg.manifests.manifest_files import cache_key_of, read_manifest, read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions

_MAX_SEQUENCE_NUMBER = 2**63 - 1
"""The highest possible sequence number."""
ManifestKey = tuple[object, ...]
"""The key of a manifest: the result of `cache_key_of`."""
_Partition = tuple[Any, ...]
"""A partition, in the form of `ContentFile.partition_key`."""


@dataclass(frozen=True, eq=False)
class ManifestFiles:
    """The live files of a manifest. Snapshots that share the manifest share this object.

    `path`: the path of the manifest; empty if the files come from several manifests.
    """

    entries: tuple[Entry, ...]
    path: str = ""
    _computed: dict[Hashable, Any] = field(default_factory=dict)

    def compute_once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return the cached value for a key. The first call with a key computes the value.

        Args:
            key: A key that identifies the computation.
            compute: A function that computes the value. It may use only the files of this manifest, because several snapshots share it.
        """
        if key not in self._computed:
            self._computed[key] = compute()
        return self._computed[key]

    def maps(self, metric: str) -> MapSequence:
        """Return a metric of the files from the cache: a map from field ids to values for each file.

        Args:
            metric: The name of an attribute of `ContentFile`, for example `null_counts`.
        """
        type_ = pa.binary() if metric in ("lower", "upper") else pa.int64()
        maps = self.compute_once(("maps", metric), lambda: MapSequence([getattr(entry.file, metric) for entry in self.entries], type_))
        return cast(MapSequence, maps)


@dataclass(frozen=True)
class LiveFiles:
    """The manifest entries of live data files and delete files, in the order of the manifests, with the paths as in the manifests."""

    storage: Storage
    manifests: tuple[Manifest, ...] = ()
    data: tuple[Entry, ...] = ()
    deletes: tuple[Entry, ...] = ()
    unpartitioned_spec_ids: frozenset[int] = frozenset()
    """The ids of partition specs without partition fields. Their equality deletes apply to every data file."""
    files_by_key: Mapping[ManifestKey, ManifestFiles] = field(default_factory=dict)
    """The live files of each manifest, by the result of `cache_key_of` for the manifest."""

    def with_data(self, data: Iterable[Entry]) -> LiveFiles:
        """Return these live files with other data files, which are not grouped by manifest."""
        return LiveFiles(self.storage, data=tuple(data), deletes=self.deletes, unpartitioned_spec_ids=self.unpartitioned_spec_ids)

    @cached_property
    def paths(self) -> list[str]:
        """Return the absolute paths of the data files, in the order of `data`."""
        return [plain_path(entry.file.path) for entry in self.data]

    @property
    def data_by_manifest(self) -> list[ManifestFiles]:
        """Return `data` grouped by manifest, or in a single group if the manifests are unknown. Each group has at least one file."""
        data_manifests = [manifest for manifest in self.manifests if manifest.content is ManifestContent.DATA]
        groups = [self.files_by_key.get(cache_key_of(manifest)) for manifest in data_manifests]
        nonempty_groups = [group for group in groups if group is not None and group.entries]
        is_complete = sum(len(group.entries) for group in nonempty_groups) == len(self.data)
        return nonempty_groups if is_complete else [ManifestFiles(self.data)]

    def entries_of(self, manifest: Manifest) -> tuple[Entry, ...]:
        """Return the entries of live files in a manifest. Read the manifest only if it is not cached. Raises CorruptLog, StorageError."""
        files = self.files_by_key.get(cache_key_of(manifest))
        return tuple(entry for entry in read_manifest(self.storage, manifest) if entry.live) if files is None else files.entries

    def by_path(self, paths: Collection[str]) -> dict[str, Entry]:
        """Return the entries of the data files with these absolute paths, by path. Omit paths that are not live."""
        entries = self._entries_by_path if paths else {}
        return {path: entries[path] for path in paths if path in entries}

    def position_deletes_of(self, entry: Entry) -> list[Entry]:
        """Return the position-delete files, or the one deletion vector, that may apply to a data file."""
        index = self._deletes_index
        path = plain_path(entry.file.path)
        vector = index.vectors.get(path)
        if vector is not None and vector.sequence_number >= entry.sequence_number:
            return [vector]  # A deletion vector replaces the position-delete files of its data file.
        candidates = [*index.by_file.get(path, ()), *index.by_partition.get(entry.file.partition_key, ())]
        return [delete for delete in candidates if delete.sequence_number >= entry.sequence_number]

    def equality_deletes_of(self, entry: Entry) -> list[Entry]:
        """Return the equality-delete files that apply to a data file.

        They have a higher sequence number than the data file. They have the same partition, or a spec without partition fields.
        """
        index = self._deletes_index
        candidates = [*index.equality_everywhere, *index.equality.get(entry.file.partition_key, ())]
        return [delete for delete in candidates if delete.sequence_number > entry.sequence_number]

    def deleted_positions(self, entries: Sequence[Entry]) -> dict[str, Positions]:
        """Return the deleted positions of data files, by path. Omit files without deleted rows. Raises CorruptLog, StorageError."""
        deletes_by_path = {plain_path(entry.file.path): self.position_deletes_of(entry) for entry in entries}
        # A deletion vector is the only delete of its data file.
        vectors = [deletes[0].file for deletes in deletes_by_path.values() if deletes and _is_vector(deletes[0])]
        delete_files = {path: deletes for path, deletes in deletes_by_path.items() if deletes and not _is_vector(deletes[0])}
        positions_by_path = read_deletion_vectors(self.storage, vectors) | self._positions_in_files(delete_files)
        return {path: positions for path, positions in positions_by_path.items() if positions}

    def _positions_in_files(self, deletes: Mapping[str, Sequence[Entry]]) -> dict[str, Positions]:
        """Return the deleted positions by data file. Read each delete file once.

        `deletes`: the position-delete files that apply to each data file, by the path of the data file.
        """
        files = {key_of_delete(delete): delete.file for delete in chain.from_iterable(deletes.values())}
        contents = map_concurrently(lambda file: read_position_delete_file(self.storage, file), list(files.values()))
        positions_by_key = dict(zip(files, contents, strict=True))
        positions: dict[str, Positions] = defaultdict(Positions)
        for path, file_deletes in deletes.items():
            for delete in file_deletes:
                positions[path] |= positions_by_key[key_of_delete(delete)].get(path, Positions())
        return positions

    def deleted_positions_in(self, deletes: Sequence[Entry], entry: Entry) -> Positions:
        """Return the positions of the rows in a data file that the given delete files delete.

        Args:
            deletes: Position-delete files or deletion vectors, which may also apply to other data files.
            entry: The entry of the data file.

        Raises:
            CorruptLog: A delete file is missing or malformed.
            StorageError: The store fails.
        """
        live = LiveFiles(self.storage, data=(entry,), deletes=tuple(deletes))
        return live.deleted_positions([entry]).get(plain_path(entry.file.path), Positions())

    def deleted_count(self, entry: Entry) -> int:
        """Return the number of rows that position deletes remove from a data file. A row in two lists counts twice if other rows remain."""
        deletes = self.position_deletes_of(entry)
        listed_count = sum(delete.file.records for delete in deletes)
        if all(map(_is_vector, deletes)) or (listed_count < entry.file.records and not any(map(is_shared, deletes))):
            return listed_count
        # A manifest has only the total row count of a delete file that applies to several data files.
        return sum(len(positions) for positions in self.deleted_positions([entry]).values())

    def exact_deleted_counts(self, entries: Sequence[Entry]) -> list[int | None]:
        """Return the number of deleted rows of each data file, or None for a file to which equality deletes apply.

        The row count of a deletion vector is exact. Position-delete files are read, because they can contain a position twice.

        Raises:
            CorruptLog: A delete file is missing or malformed.
            StorageError: The store fails.
        """
        deletes_by_path = {plain_path(entry.file.path): self.position_deletes_of(entry) for entry in entries}
        counts = {path: deletes[0].file.records if deletes else 0 for path, deletes in deletes_by_path.items()}
        with_files = [path for path, deletes in deletes_by_path.items() if deletes and not _is_vector(deletes[0])]
        positions = self._positions_in_files({path: deletes_by_path[path] for path in with_files})
        counts |= {path: len(positions.get(path, ())) for path in with_files}
        return [None if self.equality_deletes_of(entry) else counts[plain_path(entry.file.path)] for entry in entries]

    def dangling_shared_deletes(self, removed_paths: Collection[str], added_sequence_number: int) -> set[str]:
        """Return the keys of shared delete files that the next snapshot can omit, because they do not apply to any of its data files.

        A shared delete file may apply to all data files of its partition ("Scan Planning" in the Iceberg specification). Equality deletes
        of a partition spec without fields may apply to all data files of the table. But a delete file never applies to newer data files,
        which have higher sequence numbers. So it is dangling if all data files of its partition, or of the table, are newer.

        Args:
            removed_paths: The absolute paths of the data files that the next snapshot removes.
            added_sequence_number: The sequence number of the data files that the next snapshot adds; UNASSIGNED if the commit assigns it.
        """
        shared_deletes = list(filter(is_shared, self.deletes))
        if not shared_deletes or not removed_paths:
            return set()
        # The commit assigns the sequence number of the next snapshot, which is higher than all existing numbers.
        added_number = _MAX_SEQUENCE_NUMBER if added_sequence_number == UNASSIGNED else added_sequence_number
        lowest_numbers = self._lowest_sequence_numbers(removed_paths)
        dangling_keys = set()
        for delete in shared_deletes:
            # If no data file remains to which it may apply, the highest number stands for: every remaining data file is newer.
            lowest_number = lowest_numbers.get(self._partition_of_shared(delete), _MAX_SEQUENCE_NUMBER)
            if _is_dangling(delete, lowest_number, added_number):
                dangling_keys.add(key_of_delete(delete))
        return dangling_keys

    def _lowest_sequence_numbers(self, removed_paths: Collection[str]) -> dict[_Partition | None, int]:
        """Return the lowest sequence number of the remaining data files in each partition, and with the key None that of the table."""
        lowest_numbers: dict[_Partition | None, int] = {}
        remaining_entries = [entry for path, entry in zip(self.paths, self.data, strict=True) if path not in removed_paths]
        for entry in remaining_entries:
            for scope in (entry.file.partition_key, None):
                lowest_numbers[scope] = min(lowest_numbers.get(scope, _MAX_SEQUENCE_NUMBER), entry.sequence_number)
        return lowest_numbers

    def _partition_of_shared(self, delete: Entry) -> _Partition | None:
        """Return the partition to whose data files a shared delete file may apply, or None if it may apply to the entire table."""
        applies_to_table = delete.file.content is Content.EQUALITY_DELETES and delete.file.spec_id in self.unpartitioned_spec_ids
        return None if applies_to_table else delete.file.partition_key

    @cached_property
    def _entries_by_path(self) -> dict[str, Entry]:
        return dict(zip(self.paths, self.data, strict=True))

    @cached_property
    def _deletes_index(self) -> _DeletesIndex:
        return _DeletesIndex.of(self.deletes, self.unpartitioned_spec_ids)


@dataclass
class _DeletesIndex:
    """An index of delete files by the data file, or the partition, to which they apply."""

    vectors: dict[str, Entry] = field(default_factory=dict)
    by_file: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    by_partition: dict[_Partition, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    equality: dict[_Partition, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    equality_everywhere: list[Entry] = field(default_factory=list)

    @classmethod
    def of(cls, deletes: Iterable[Entry], unpartitioned_spec_ids: frozenset[int]) -> _DeletesIndex:
        """Return the index of delete files. Equality deletes of an unpartitioned spec apply to all data files."""
        index = cls()
        for delete in deletes:
            if delete.file.content is not Content.EQUALITY_DELETES:
                index._add_position_deletes(delete)
            elif delete.file.spec_id in unpartitioned_spec_ids:
                index.equality_everywhere.append(delete)
            else:
                index.equality[delete.file.partition_key].append(delete)
        return index

    def _add_position_deletes(self, delete: Entry) -> None:
        """Add a position-delete file or a deletion vector, by its data file or by its partition."""
        path = scope_of(delete)
        if path is None:
            self.by_partition[delete.file.partition_key].append(delete)
        elif _is_vector(delete):
            self.vectors[path] = delete
        else:
            self.by_file[path].append(delete)


def live_files(
    storage: Storage, snapshot: IcebergVersion | None, unpartitioned_spec_ids: frozenset[int], previous: LiveFiles | None = None
) -> LiveFiles:
    """Return the live data files and delete files of a snapshot, from its manifest list and manifests.

    Args:
        storage: The store that contains the table.
        snapshot: The snapshot's entry in the table metadata; None for a table without snapshots.
        unpartitioned_spec_ids: The ids of the partition specs without partition fields.
        previous: The live files of another snapshot, whose manifests are not read again; None to read all manifests.

    Raises:
        CorruptLog: The manifest list or a manifest is missing or malformed.
        StorageError: The store fails.
    """
    manifests = () if snapshot is None else read_manifest_list(storage, snapshot.manifest_list)
    return files_of_manifests(storage, manifests, unpartitioned_spec_ids, {} if previous is None else previous.files_by_key)


def files_of_manifests(
    storage: Storage,
    manifests: Sequence[Manifest],
    unpartitioned_spec_ids: frozenset[int],
    cached_files: Mapping[ManifestKey, ManifestFiles],
) -> LiveFiles:
    """Return the live data files and delete files of manifests.

    Args:
        storage: The store that contains the table.
        manifests: The manifests, as the manifest list describes them.
        unpartitioned_spec_ids: The ids of the partition specs without partition fields.
        cached_files: The live files of manifests that are not read again, by the result of `cache_key_of` for the manifest.

    Raises:
        CorruptLog: A manifest is missing or malformed.
        StorageError: The store fails.
    """
    files_by_key = _files_by_key(storage, manifests, cached_files)
    entries: dict[ManifestContent, list[Entry]] = defaultdict(list)
    for manifest in manifests:
        entries[manifest.content] += files_by_key[cache_key_of(manifest)].entries
    data, deletes = tuple(entries[ManifestContent.DATA]), tuple(entries[ManifestContent.DELETES])
    return LiveFiles(storage, tuple(manifests), data, deletes, unpartitioned_spec_ids, files_by_key)


def _files_by_key(
    storage: Storage, manifests: Sequence[Manifest], cached_files: Mapping[ManifestKey, ManifestFiles]
) -> dict[ManifestKey, ManifestFiles]:
    """Return the live files of each manifest, by its `cache_key_of`. Read only the manifests that are not in `cached_files`."""
    files_by_key = {key: cached_files[key] for key in map(cache_key_of, manifests) if key in cached_files}
    new_manifests = [manifest for manifest in manifests if cache_key_of(manifest) not in cached_files]
    for manifest, entries in zip(new_manifests, read_manifests(storage, new_manifests), strict=True):
        live_entries = tuple(entry for entry in entries if entry.live)
        files_by_key[cache_key_of(manifest)] = ManifestFiles(live_entries, plain_path(manifest.path))
    return files_by_key


def scope_of(delete: Entry) -> str | None:
    """Return the path of the only data file to which a delete file applies, or None if it may apply to several data files."""
    return referenced_path(delete.file)


def is_shared(delete: Entry) -> bool:
    """Return whether a delete file may apply to several data files."""
    return scope_of(delete) is None


def key_of_delete(delete: Entry) -> str:
    """Return a unique key of a delete file or deletion vector. One file may contain several vectors."""
    return f"{delete.file.path}#{delete.file.content_offset}"


def _is_dangling(delete: Entry, lowest_in_scope: int, added_number: int) -> bool:
    """Return whether a shared delete file applies to no data file of the next snapshot, because all of them are newer.

    `lowest_in_scope`: the lowest sequence number of the remaining data files to which the delete file may apply. `added_number`: the
    sequence number of the data files that the next snapshot adds.
    """
    if delete.file.content is Content.EQUALITY_DELETES:
        # Equality deletes apply only to data files with a lower sequence number.
        return delete.sequence_number <= min(lowest_in_scope, added_number)
    # Position deletes also apply to data files with the same sequence number, but never to files that a later snapshot adds.
    return delete.sequence_number < lowest_in_scope


def _is_vector(delete: Entry) -> bool:
    return delete.file.format.upper() == "PUFFIN"
