"""The delete files that a new snapshot adds: position-delete files, or deletion vectors from format version 3 on."""

from __future__ import annotations

import uuid
from collections import defaultdict
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
from rowmerge.iceberg.metadata.properties import DeleteFileSettings, IcebergSettings
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

    A later attempt of the commit reuses new delete files if their data files still have the same old delete files.

    `register` is called with the absolute path of each file before the file is written. `write_properties` override those in `metadata`.
    """

    storage: Storage
    metadata: TableMetadata
    register: Callable[[str], None]
    write_properties: Mapping[str, str] = field(default_factory=dict)
    _files_by_group: dict[frozenset[_DeletionKey], WrittenDeletes] = field(default_factory=dict)
    """The delete files that the attempts of the commit have written, by the keys of the deletions that are written together."""

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
        groups = self._group([deletion for deletion in deletions if not deletion.empties_file])
        written_groups = self._write_or_reuse(live, groups)
        replaced_keys = frozenset[str]().union(*(group.replaced_keys for group in written_groups))
        return WrittenDeletes(tuple(file for group in written_groups for file in group.files), replaced_keys, emptied_paths)

    def _group(self, deletions: Sequence[_RowDeletion]) -> list[list[_RowDeletion]]:
        """Return the deletions that are written together: those of each partition, or each one alone (`write.delete.granularity`)."""
        if self._uses_vectors or not self._settings.by_partition:
            return [[deletion] for deletion in deletions]
        groups = defaultdict(list)
        for deletion in deletions:
            groups[deletion.entry.file.spec_id, deletion.entry.file.partition].append(deletion)
        return list(groups.values())

    def _write_or_reuse(self, live: LiveFiles, groups: Sequence[Sequence[_RowDeletion]]) -> list[WrittenDeletes]:
        """Return the delete files of each group. Write those of groups that no earlier attempt has written: equal keys mean equal rows.

        A deletion has no delete file if shared delete files already delete all of its rows. Its old delete files then stay.
        """
        keys = [frozenset(deletion.key for deletion in group) for group in groups]
        new_groups = [(key, group) for key, group in zip(keys, groups, strict=True) if key not in self._files_by_group]
        positions_of_groups = [[(deletion, self._positions_to_write(live, deletion)) for deletion in group] for _, group in new_groups]
        nonempty = [[(deletion, positions) for deletion, positions in group if positions] for group in positions_of_groups]
        new_files = self.write([[(deletion.entry, positions) for deletion, positions in group] for group in nonempty])
        for (key, _), group, files in zip(new_groups, nonempty, new_files, strict=True):
            replaced_keys = frozenset[str]().union(*(deletion.key.replaced_keys for deletion, _ in group))
            self._files_by_group[key] = WrittenDeletes(tuple(files), replaced_keys, emptied_paths=frozenset())
        return [self._files_by_group[key] for key in keys]

    def write(self, groups: Sequence[Sequence[tuple[Entry, Positions]]]) -> list[list[ContentFile]]:
        """Write the deleted positions of groups of data files.

        Write position-delete files, or from format version 3 on deletion vectors in one Puffin file.

        Args:
            groups: Groups of data files of the same partition, each with positions; at least one. Only a group of one data file gets a
                deletion vector. A group may be empty.

        Returns:
            The delete files of each group.

        Raises:
            StorageError: A delete file cannot be written.
        """
        if self._uses_vectors:
            return self._write_vectors(groups)
        return map_concurrently(self._write_position_deletes, groups)

    @cached_property
    def _settings(self) -> DeleteFileSettings:
        return IcebergSettings({**self.metadata.properties, **self.write_properties}).delete_files

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

    def _write_position_deletes(self, group: Sequence[tuple[Entry, Positions]]) -> list[ContentFile]:
        if not group:
            return []
        data_folder, location = plain_path(group[0][0].file.path).rpartition("/")[0], self.storage.location
        # If the data file is outside the table's location, the delete file goes to the table's data folder.
        folder = data_folder if f"{data_folder}/".startswith(f"{location}/") else f"{location}/data"

        def new_path() -> str:
            path = f"{folder}/00000-{uuid.uuid4()}-deletes.parquet"
            self.register(path)
            return path

        return write_position_deletes(self.storage, new_path, [(entry.file, positions) for entry, positions in group], self._settings)

    def _write_vectors(self, groups: Sequence[Sequence[tuple[Entry, Positions]]]) -> list[list[ContentFile]]:
        positions_of_files = [(entry.file, positions) for group in groups for entry, positions in group]
        if not positions_of_files:
            return [[] for _ in groups]
        path = f"{self.storage.location}/data/00000-{uuid.uuid4()}-deletes.puffin"
        self.register(path)
        vectors = iter(write_deletion_vectors(self.storage, path, positions_of_files))
        return [[next(vectors) for _ in group] for group in groups]


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
