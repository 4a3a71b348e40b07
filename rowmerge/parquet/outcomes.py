"""Write the outcome rows of one task into data files, and collect the positions of the rows that it deletes.

Runs on executors, sent there by value (see spark/writing/executors.py), so nothing here may import Spark or a table format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from rowmerge.parquet.data_files import FileMessage, PartitionedWriter
from rowmerge.parquet.lineage import with_lineage

NONE, UPDATE, DELETE, INSERT, MOVE = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class OutcomeColumns:
    """The columns of outcome rows by what they say.

    `action` is an int8: 0 none, 1 update, 2 delete, 3 insert, 4 written elsewhere as it is. The others may be missing from a frame:
    `file` and `position` of the target row, what its file holds of its `lineage` (id, and version of its last change), the ordinal of its
    `source` row, and the table's columns in their order, `after` and `before` the change. Names of ours, not the table's: PySpark cannot
    hand over columns whose names have dots or backquotes in them.
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
    """What one task did. `positions`, `reads` and `sources` are serialized 64-bit roaring bitmaps, by file and as a whole."""

    files: list[FileMessage] = field(default_factory=list)
    change_rows: list[FileMessage] = field(default_factory=list)
    positions: dict[str, bytes] = field(default_factory=dict)
    reads: dict[str, bytes] = field(default_factory=dict)
    repeated: int = 0
    sources: bytes | None = None
    updated: int = 0
    inserted: int = 0


def message_fields(message: TaskMessage) -> dict[str, Any]:
    """The message as builtins: a class sent by value could not be unpickled as the driver's own."""
    return {name: [vars(file) for file in value] if isinstance(value, list) else value for name, value in vars(message).items()}


class OutcomeTask:
    """One task's outcome rows on their way into files and bitmaps."""

    def __init__(self, columns: OutcomeColumns, writer: PartitionedWriter, changes: PartitionedWriter | None) -> None:
        self._columns, self._writer, self._changes = columns, writer, changes
        self._message = TaskMessage()
        self._positions: dict[str, BitMap64] = {}
        self._reads: dict[str, BitMap64] = {}
        self._sources = BitMap64()

    def take(self, table: pa.Table) -> None:
        """One batch of outcome rows, not empty."""
        columns, message = self._columns, self._message
        action = table[columns.action].combine_chunks()
        if columns.source is not None:
            self._sources.update(pc.drop_null(table[columns.source]).to_numpy())
        touched = pc.or_(pc.equal(action, UPDATE), pc.equal(action, DELETE))
        if columns.file is not None:
            self._note_reads(table, action)
            first = self._mark(table, touched)
            if self._changes is not None and columns.before:
                kind = pc.if_else(pc.equal(action, UPDATE), "update_preimage", "delete")
                self._write_changes(table.select(columns.before), kind, first)
        updates = pc.sum(pc.equal(action, UPDATE)).as_py() or 0
        inserts = pc.sum(pc.equal(action, INSERT)).as_py() or 0
        message.updated += updates
        message.inserted += inserts
        moved = pc.sum(pc.equal(action, MOVE)).as_py() or 0
        if written := updates + inserts + moved:
            writing = pc.is_in(action, value_set=pa.array([UPDATE, INSERT, MOVE], action.type))
            rows = table.select(columns.after)
            named = self._with_lineage(rows.rename_columns(list(self._writer.names)), table, action)
            self._writer.write(named.filter(writing) if written < table.num_rows else named)
            if self._changes is not None:
                self._write_changes(rows, pc.if_else(pc.equal(action, UPDATE), "update_postimage", "insert"), writing)

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

    def _note_reads(self, table: pa.Table, action: pa.Array) -> None:
        """Note the positions of rows that met a source row and stay as they are: they keep it from being inserted."""
        if self._columns.source is None:
            return
        both = [pc.is_valid(table[name].combine_chunks()) for name in (self._columns.source, self._columns.file)]
        met = pc.and_(pc.equal(action, NONE), pc.and_(*both))
        for path, _, rows in _by_file(table.select([self._columns.file, self._columns.position]).filter(met)):
            self._reads.setdefault(path, BitMap64()).update(rows)

    def _mark(self, table: pa.Table, touched: pa.Array) -> pa.Array:
        """Note the positions of touched rows; true for those that were not noted before."""
        first = np.zeros(table.num_rows, dtype=bool)
        indexes = np.flatnonzero(touched.to_numpy(zero_copy_only=False))
        addresses = table.select([self._columns.file, self._columns.position]).take(pa.array(indexes))
        for path, chosen, rows in _by_file(addresses):
            fresh = BitMap64(rows) - self._positions.setdefault(path, BitMap64())
            self._positions[path] |= fresh
            if len(fresh) < len(rows):
                self._message.repeated += len(rows) - len(fresh)
                values, index = np.unique(rows, return_index=True)
                chosen = chosen[index[np.isin(values, np.array(fresh.to_array(), dtype=np.uint64))]]
            first[indexes[chosen]] = True
        return pa.array(first)

    def _with_lineage(self, rows: pa.Table, table: pa.Table, action: pa.Array) -> pa.Table:
        """The rows with what they take along: rows that are updated their ids, rows that are only moved both."""
        columns, files = self._columns, self._writer.lineage
        if files is None:
            return rows
        assert columns.file is not None and columns.position is not None and columns.lineage is not None
        held = tuple(table[name].combine_chunks() for name in columns.lineage)
        ids, versions = files.moved(table[columns.file].combine_chunks(), table[columns.position].combine_chunks(), (held[0], held[1]))
        nothing = pa.scalar(None, pa.int64())
        kept = pc.is_in(action, value_set=pa.array([UPDATE, MOVE], action.type))
        return with_lineage(rows, pc.if_else(kept, ids, nothing), pc.if_else(pc.equal(action, MOVE), versions, nothing))

    def _write_changes(self, rows: pa.Table, kind: pa.Array, chosen: pa.Array) -> None:
        """Rows of the table with the type of their change, under the name that stands last in the files."""
        assert self._changes is not None
        typed = rows.append_column("type", kind).filter(chosen)
        if typed.num_rows:
            self._changes.write(typed.rename_columns(list(self._changes.names)))


def _by_file(addresses: pa.Table) -> Iterator[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """The paths in a table of (path, position), each with the indexes of its rows and their positions."""
    if addresses.num_rows == 0:
        return
    encoded = pc.dictionary_encode(addresses.column(0).combine_chunks())
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    rows = addresses.column(1).to_numpy()
    for code, path in enumerate(encoded.dictionary.to_pylist()):
        chosen = np.flatnonzero(codes == code)
        yield path, chosen, rows[chosen].astype(np.uint64)
