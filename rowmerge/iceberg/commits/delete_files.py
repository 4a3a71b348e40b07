"""The delete files that a new snapshot adds: position-delete files, or deletion vectors from format version 3 on."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyiceberg.table.metadata import TableMetadata

from rowmerge.concurrency import map_concurrently
from rowmerge.iceberg.deletes.deletion_vectors import write_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import write_position_deletes
from rowmerge.iceberg.manifests.content import ContentFile, Entry
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.updates import ROW_LINEAGE
from rowmerge.iceberg.snapshots.live_files import LiveFiles, key_of_delete, scope_of
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions

_DeleteKey = tuple[str, frozenset[str]]
"""The path of a data file, and the keys of the delete files that a new one replaces."""


@dataclass(frozen=True)
class WrittenDeletes:
    """New delete files, the keys of the delete files that they replace, and the paths of data files that have no rows left."""

    files: tuple[ContentFile, ...]
    replaced_keys: frozenset[str]
    emptied_paths: frozenset[str]


@dataclass(frozen=True)
class _RowDeletion:
    """The rows of one data file that are deleted in the new snapshot. `deletes`: the delete files that apply to the data file already."""

    path: str
    entry: Entry
    deletes: Sequence[Entry]
    already_deleted: Positions
    newly_deleted: Positions

    @cached_property
    def positions(self) -> Positions:
        return self.newly_deleted | self.already_deleted

    @cached_property
    def own_deletes(self) -> list[Entry]:
        """Return the delete files for this data file alone, which a new delete file replaces. Shared delete files stay."""
        return [delete for delete in self.deletes if scope_of(delete) is not None]

    @property
    def empties_file(self) -> bool:
        return len(self.positions) >= self.entry.file.records

    @property
    def replaced_keys(self) -> frozenset[str]:
        return frozenset(map(key_of_delete, self.own_deletes))

    @property
    def key(self) -> _DeleteKey:
        return self.path, self.replaced_keys


@dataclass
class DeleteFileWriter:
    """Writes the delete files of one snapshot. Later attempts reuse a file whose data file has the same delete files as before.

    `register` gets the absolute path of each file before it is written.
    """

    storage: Storage
    metadata: TableMetadata
    register: Callable[[str], None]
    _written: dict[_DeleteKey, ContentFile | None] = field(default_factory=dict)

    def write_row_deletions(self, live: LiveFiles, deleted: Mapping[str, Positions]) -> WrittenDeletes:
        """Write delete files for rows of live data files, by path. Write none for a data file that has no rows left."""
        deletions = _row_deletions(live, deleted)
        emptied_paths = frozenset(deletion.path for deletion in deletions if deletion.empties_file)
        partial_deletions = [deletion for deletion in deletions if not deletion.empties_file]
        self._write_missing(live, partial_deletions)
        files: list[ContentFile] = []
        replaced_keys: set[str] = set()
        for deletion in partial_deletions:
            file = self._written[deletion.key]
            if file is not None:
                files.append(file)
                replaced_keys |= deletion.replaced_keys
        return WrittenDeletes(tuple(files), frozenset(replaced_keys), emptied_paths)

    def _write_missing(self, live: LiveFiles, deletions: Sequence[_RowDeletion]) -> None:
        """Write the delete files that no earlier attempt has written."""
        unwritten = [deletion for deletion in deletions if deletion.key not in self._written]
        files = self.write([(deletion.entry, self._positions_to_write(live, deletion)) for deletion in unwritten])
        self._written |= zip((deletion.key for deletion in unwritten), files, strict=True)

    def write(self, deletions: Sequence[tuple[Entry, Positions]]) -> list[ContentFile | None]:
        """Write a delete file for each data file, from version 3 on as vectors in one file. None: no rows deleted. Raises StorageError."""
        if self._uses_vectors:
            return self._write_vectors(deletions)
        return map_concurrently(lambda deletion: self._write_position_deletes(*deletion), deletions)

    @property
    def _uses_vectors(self) -> bool:
        return self.metadata.format_version >= ROW_LINEAGE

    def _positions_to_write(self, live: LiveFiles, deletion: _RowDeletion) -> Positions:
        """Return all deleted positions for a deletion vector. A delete file need not repeat those of a shared delete file, which stays."""
        has_shared_deletes = len(deletion.own_deletes) < len(deletion.deletes)
        if self._uses_vectors or not has_shared_deletes:
            return deletion.positions
        in_shared_deletes = deletion.already_deleted - live.positions_in(deletion.own_deletes, deletion.entry)
        return deletion.positions - in_shared_deletes

    def _write_position_deletes(self, entry: Entry, positions: Positions) -> ContentFile | None:
        if not positions:
            return None
        path = f"{self._folder_of(entry)}/00000-{uuid.uuid4()}-deletes.parquet"
        self.register(path)
        return write_position_deletes(self.storage, path, entry.file, positions)

    def _folder_of(self, entry: Entry) -> str:
        """Return the folder of the data file, or the table's data folder if the data file is outside the table's location."""
        folder = plain_path(entry.file.path).rpartition("/")[0]
        return folder if f"{folder}/".startswith(f"{self.storage.location}/") else f"{self.storage.location}/data"

    def _write_vectors(self, deletions: Sequence[tuple[Entry, Positions]]) -> list[ContentFile | None]:
        nonempty = [(entry.file, positions) for entry, positions in deletions if positions]
        if not nonempty:
            return [None] * len(deletions)
        path = f"{self.storage.location}/data/00000-{uuid.uuid4()}-deletes.puffin"
        self.register(path)
        vectors = iter(write_deletion_vectors(self.storage, path, nonempty))
        return [next(vectors) if positions else None for _, positions in deletions]


def _row_deletions(live: LiveFiles, deleted: Mapping[str, Positions]) -> list[_RowDeletion]:
    """Return the deletion of rows of each live data file, by path, together with the rows that are already deleted in the file."""
    entries = live.by_path(deleted)
    already_deleted = live.deleted_positions(list(entries.values()))
    return [
        _RowDeletion(path, entry, live.position_deletes_of(entry), already_deleted.get(path, Positions()), deleted[path])
        for path, entry in entries.items()
    ]
