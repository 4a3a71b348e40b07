"""Write the outcome rows of one task into data files, and collect the positions of the rows that it deletes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowmerge.parquet.data_files import FileMessage, PartitionedWriter, WriteSpec, with_lineage

NONE, UPDATE, DELETE, INSERT, MOVE = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class OutcomeColumns:
    """The names of the columns of outcome rows.

    `action` is an int8: 0 none, 1 update, 2 delete, 3 insert, 4 move unchanged. A frame may lack the others: `file` and `position` of the
    target row, the `lineage` that its file holds (id, and version of its last change), `source`, the ordinal of its source row, and the
    table's columns in their order, `after` and `before` the change. These names are not the table's, because PySpark cannot pass on columns
    whose names have dots or backquotes in them.
    """

    action: str
    file: str | None = None
    position: str | None = None
    lineage: tuple[str, str] | None = None
    source: str | None = None
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


@dataclass
class TaskMessage:
    """The result of one task. `positions`, `reads` and `sources` are serialized 64-bit roaring bitmaps, by file and as a whole."""

    files: list[FileMessage] = field(default_factory=list)
    change_rows: list[FileMessage] = field(default_factory=list)
    positions: dict[str, bytes] = field(default_factory=dict)
    reads: dict[str, bytes] = field(default_factory=dict)
    repeated: int = 0
    sources: bytes | None = None
    updated: int = 0
    inserted: int = 0


def message_fields(message: TaskMessage) -> dict[str, Any]:
    """Return the message as builtins: the driver could not unpickle a class that was sent by value as its own class."""
    return {name: [vars(file) for file in value] if isinstance(value, list) else value for name, value in vars(message).items()}


class OutcomeTask:
    """Write the outcome rows of one task into files, and collect the positions of target rows in bitmaps."""

    def __init__(self, columns: OutcomeColumns, spec: WriteSpec, changes: WriteSpec | None) -> None:
        self._columns, self._writer = columns, PartitionedWriter(spec)
        self._changes = None if changes is None else PartitionedWriter(changes)
        self._message = TaskMessage()
        self._positions: dict[str, BitMap64] = {}
        self._reads: dict[str, BitMap64] = {}
        self._sources = BitMap64()

    def write(self, table: pa.Table) -> None:
        """Write one batch of outcome rows, which is not empty: its new rows and change rows. Collect the rows that it replaces or reads."""
        action = table[self._columns.action].combine_chunks()
        self._message.updated += _count(pc.equal(action, UPDATE))
        self._message.inserted += _count(pc.equal(action, INSERT))
        if self._columns.source is not None:
            self._sources.update(pc.drop_null(table[self._columns.source]).to_numpy())
        if self._columns.file is not None:
            self._collect_reads(table, action)
            self._replace_old_rows(table, action)
        self._write_new_rows(table, action)

    def close(self) -> TaskMessage:
        """Finish all files."""
        message = self._message
        message.files = self._writer.close()
        if self._changes is not None:
            message.change_rows = self._changes.close()
        message.positions = {path: bitmap.serialize() for path, bitmap in self._positions.items()}
        message.reads = {path: bitmap.serialize() for path, bitmap in self._reads.items()}
        message.sources = self._sources.serialize() if self._sources else None
        return message

    def abort(self) -> list[str]:
        """Close all files. Returns their paths, for the caller to delete."""
        return self._writer.abort() + ([] if self._changes is None else self._changes.abort())

    def _collect_reads(self, table: pa.Table, action: pa.Array) -> None:
        """Collect the positions of matched rows that stay unchanged: they keep their source rows from being inserted."""
        if self._columns.source is None:
            return
        has_source = pc.is_valid(table[self._columns.source].combine_chunks())
        has_target = pc.is_valid(table[self._columns.file].combine_chunks())
        is_read = pc.and_(pc.equal(action, NONE), pc.and_(has_source, has_target))
        for path, _, positions in rows_by_file(table.select([self._columns.file, self._columns.position]).filter(is_read)):
            self._reads.setdefault(path, BitMap64()).update(positions)

    def _replace_old_rows(self, table: pa.Table, action: pa.Array) -> None:
        """Collect the positions of updated and deleted rows, and write the old values of each position once, as change rows."""
        is_update = pc.equal(action, UPDATE)
        is_first_of_position = self._collect_positions(table, pc.or_(is_update, pc.equal(action, DELETE)))
        if self._changes is not None and self._columns.before:
            change_type = pc.if_else(is_update, "update_preimage", "delete")
            self._write_changes(table.select(self._columns.before), change_type, is_first_of_position)

    def _collect_positions(self, table: pa.Table, is_replaced: pa.Array) -> pa.Array:
        """Collect the positions of replaced rows. Return True for each row that is the first to replace its position."""
        is_first = np.zeros(table.num_rows, dtype=bool)
        replaced_indexes = np.flatnonzero(is_replaced.to_numpy(zero_copy_only=False))
        addresses = table.select([self._columns.file, self._columns.position]).take(pa.array(replaced_indexes))
        for path, address_indexes, positions in rows_by_file(addresses):
            new_positions = BitMap64(positions) - self._positions.setdefault(path, BitMap64())
            self._positions[path] |= new_positions
            repeated_count = len(positions) - len(new_positions)
            if repeated_count:
                self._message.repeated += repeated_count
                address_indexes = address_indexes[_first_indexes(positions, new_positions)]
            is_first[replaced_indexes[address_indexes]] = True
        return pa.array(is_first)

    def _write_new_rows(self, table: pa.Table, action: pa.Array) -> None:
        """Write the updated, inserted and moved rows into data files, and their new values as change rows."""
        is_written = pc.is_in(action, value_set=pa.array([UPDATE, INSERT, MOVE], action.type))
        if not pc.any(is_written).as_py():
            return
        new_rows = table.select(self._columns.after)
        file_rows = self._with_lineage(new_rows.rename_columns(list(self._writer.names)), table, action)
        if not pc.all(is_written).as_py():
            file_rows = file_rows.filter(is_written)
        self._writer.write(file_rows)
        if self._changes is not None:
            change_type = pc.if_else(pc.equal(action, UPDATE), "update_postimage", "insert")
            self._write_changes(new_rows, change_type, is_written)

    def _with_lineage(self, rows: pa.Table, table: pa.Table, action: pa.Array) -> pa.Table:
        """Add the hidden columns: updated rows keep their ids, and moved rows also the version of their last change."""
        columns, files_lineage = self._columns, self._writer.lineage
        if files_lineage is None:
            return rows
        assert columns.file is not None and columns.position is not None and columns.lineage is not None
        names = (columns.file, columns.position, *columns.lineage)
        paths, positions, stored_ids, stored_versions = (table[name].combine_chunks() for name in names)
        ids, versions = files_lineage.ids_and_versions(paths, positions, (stored_ids, stored_versions))
        null = pa.scalar(None, pa.int64())
        keeps_id = pc.is_in(action, value_set=pa.array([UPDATE, MOVE], action.type))
        return with_lineage(rows, pc.if_else(keeps_id, ids, null), pc.if_else(pc.equal(action, MOVE), versions, null))

    def _write_changes(self, rows: pa.Table, change_type: pa.Array, is_written: pa.Array) -> None:
        """Write rows of the table with their change type, which is the last column of change files."""
        assert self._changes is not None
        changes = rows.append_column("type", change_type).filter(is_written)
        if changes.num_rows:
            self._changes.write(changes.rename_columns(list(self._changes.names)))


def _count(mask: pa.Array) -> int:
    return pc.sum(mask).as_py() or 0


def _first_indexes(positions: np.ndarray[Any, Any], new_positions: BitMap64) -> np.ndarray[Any, Any]:
    """Return the index at which each of the new positions first comes among the positions."""
    distinct_positions, first_indexes = np.unique(positions, return_index=True)
    return first_indexes[np.isin(distinct_positions, np.array(new_positions.to_array(), dtype=np.uint64))]


def rows_by_file(addresses: pa.Table) -> Iterator[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield each path in a table of (path, position), with the indexes of its rows and their positions."""
    if addresses.num_rows == 0:
        return
    encoded = pc.dictionary_encode(addresses.column(0).combine_chunks())
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    positions = addresses.column(1).to_numpy()
    for code, path in enumerate(encoded.dictionary.to_pylist()):
        indexes = np.flatnonzero(codes == code)
        yield path, indexes, positions[indexes].astype(np.uint64)
