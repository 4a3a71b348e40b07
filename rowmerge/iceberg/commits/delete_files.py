"""The delete files that a new snapshot adds: position-delete files, or deletion vectors from format version 3 on."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pyiceberg.table.metadata import TableMetadata

from rowmerge.concurrency import map_concurrently
from rowmerge.iceberg.deletes.deletion_vectors import write_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import write_position_deletes
from rowmerge.iceberg.manifests.content import ContentFile, Entry
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.updates import ROW_LINEAGE
from rowmerge.iceberg.snapshots.live_files import LiveFiles, is_shared, key_of_delete
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions


class _DeletionKey(NamedTuple):
    """Identifies a new delete file: the path of its data file, and the old delete files that it replaces, by `key_of_delete`.

    If another commit adds a delete file for the data file, the key differs. So the next attempt then writes a new delete file.
    """

    data_path: str
    replaced_keys: frozenset[str]


@dataclass(frozen=True)
class WrittenDeletes:
    """New delete files, the keys of the delete files that they replace, and the paths of data files without remaining rows."""

    files: tuple[ContentFile, ...]
    replaced_keys: frozenset[str]
    emptied_paths: frozenset[str]


@dataclass(frozen=True)
class _RowDeletion:
    """The rows of one data file that are deleted in the new snapshot.

    `deletes` are the delete files that already apply to the data file.
    """

    path: str
    entry: Entry
    deletes: Sequence[Entry]
    already_deleted: Positions
    positions: Positions
    """The positions of all rows that are deleted in the new snapshot, including those that were deleted earlier."""

    @property
    def empties_file(self) -> bool:
        return len(self.positions) >= self.entry.file.records

    @cached_property
    def own_deletes(self) -> list[Entry]:
        """Return the delete files that apply only to this data file. A new delete file replaces them, but shared delete files stay."""
        return [delete for delete in self.deletes if not is_shared(delete)]

    @cached_property
    def key(self) -> _DeletionKey:
        return _DeletionKey(self.path, frozenset(map(key_of_delete, self.own_deletes)))


@dataclass
class DeleteFileWriter:
    """A writer of the delete files of one snapshot.

    A later attempt of the commit reuses a new delete file if the data file still has the same old delete files.

    `register` is called with the absolute path of each file before the file is written.
    """

    storage: Storage
    metadata: TableMetadata
    register: Callable[[str], None]
    _files_by_key: dict[_DeletionKey, ContentFile | None] = field(default_factory=dict)
    """The delete files that the attempts of the commit have written, or None if shared delete files already delete all of the rows."""

    def write_row_deletions(self, live: LiveFiles, deleted_rows: Mapping[str, Positions]) -> WrittenDeletes:
        """Write the delete files for rows of live data files, or reuse those of earlier attempts of the commit.

        If all rows of a data file are deleted, no delete file is written, because the snapshot removes the data file instead.

        Args:
            live: The live files of the snapshot that the new snapshot follows.
            deleted_rows: The positions of the newly deleted rows, by the absolute path of the data file.

        Raises:
            CorruptLog: An existing delete file is damaged or missing.
            StorageError: A delete file cannot be read or written.
        """
        deletions = _row_deletions(live, deleted_rows)
        emptied_paths = frozenset(deletion.path for deletion in deletions if deletion.empties_file)
        remaining_deletions = [deletion for deletion in deletions if not deletion.empties_file]
        delete_files = self._write_or_reuse(live, remaining_deletions)
        # The key of a new delete file contains the keys of the old delete files that it replaces.
        replaced_keys = frozenset[str]().union(*(key.replaced_keys for key in delete_files))
        return WrittenDeletes(tuple(delete_files.values()), replaced_keys, emptied_paths)

    def _write_or_reuse(self, live: LiveFiles, deletions: Sequence[_RowDeletion]) -> dict[_DeletionKey, ContentFile]:
        """Return the delete file of each deletion. Write those whose key no earlier attempt has written: the same key means the same rows.

        A deletion has no delete file if shared delete files already delete all of its rows.
        """
        new_deletions = [deletion for deletion in deletions if deletion.key not in self._files_by_key]
        new_files = self.write([(deletion.entry, self._positions_to_write(live, deletion)) for deletion in new_deletions])
        self._files_by_key |= zip((deletion.key for deletion in new_deletions), new_files, strict=True)
        files = {deletion.key: self._files_by_key[deletion.key] for deletion in deletions}
        return {key: file for key, file in files.items() if file is not None}

    def write(self, deletions: Sequence[tuple[Entry, Positions]]) -> list[ContentFile | None]:
        """Write the deleted positions of each data file.

        Write position-delete files, or from format version 3 on deletion vectors in one Puffin file.

        Returns:
            The delete file of each data file, or None for a data file without positions.

        Raises:
            StorageError: A delete file cannot be written.
        """
        if self._uses_vectors:
            return self._write_vectors(deletions)
        return map_concurrently(lambda deletion: self._write_position_deletes(*deletion), deletions)

    @property
    def _uses_vectors(self) -> bool:
        return self.metadata.format_version >= ROW_LINEAGE

    def _positions_to_write(self, live: LiveFiles, deletion: _RowDeletion) -> Positions:
        """Return the positions that the new delete file of a data file contains.

        A deletion vector contains all deleted positions. A position-delete file leaves out those of shared delete files, which stay.
        """
        has_shared_deletes = len(deletion.own_deletes) < len(deletion.deletes)
        if self._uses_vectors or not has_shared_deletes:
            return deletion.positions
        in_shared_deletes = deletion.already_deleted - live.deleted_positions_in(deletion.own_deletes, deletion.entry)
        return deletion.positions - in_shared_deletes

    def _write_position_deletes(self, entry: Entry, positions: Positions) -> ContentFile | None:
        if not positions:
            return None
        data_folder, location = plain_path(entry.file.path).rpartition("/")[0], self.storage.location
        # If the data file is outside the table's location, the delete file goes to the table's data folder.
        folder = data_folder if f"{data_folder}/".startswith(f"{location}/") else f"{location}/data"
        path = f"{folder}/00000-{uuid.uuid4()}-deletes.parquet"
        self.register(path)
        return write_position_deletes(self.storage, path, entry.file, positions)

    def _write_vectors(self, deletions: Sequence[tuple[Entry, Positions]]) -> list[ContentFile | None]:
        positions_of_files = [(entry.file, positions) for entry, positions in deletions if positions]
        if not positions_of_files:
            return [None] * len(deletions)
        path = f"{self.storage.location}/data/00000-{uuid.uuid4()}-deletes.puffin"
        self.register(path)
        vectors = iter(write_deletion_vectors(self.storage, path, positions_of_files))
        return [next(vectors) if positions else None for _, positions in deletions]


def _row_deletions(live: LiveFiles, deleted_rows: Mapping[str, Positions]) -> list[_RowDeletion]:
    """Return the deletion of rows in each live data file. `deleted_rows` are the newly deleted positions by the path of the data file."""
    entries = live.by_path(deleted_rows)
    positions_by_path = live.deleted_positions(list(entries.values()))
    deletions = []
    for path, entry in entries.items():
        already_deleted = positions_by_path.get(path, Positions())
        positions = deleted_rows[path] | already_deleted
        deletions.append(_RowDeletion(path, entry, live.position_deletes_of(entry), already_deleted, positions))
    return deletions
