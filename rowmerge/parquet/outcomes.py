"""Write the outcome rows of one task into data files, and collect the positions of the target rows that are updated or deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.parquet.bitmaps import PositionSet
from rowmerge.parquet.data_files import FileMessage, WriteSpec, with_lineage
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.parquet.filesystems import UnreadableFile
from rowmerge.parquet.rewriting import values_at

_FILE, _POSITION = "__rowmerge_file", "__rowmerge_position"
"""The names of the columns with the addresses of collected rows."""
_MAX_PENDING_BYTES, _MAX_VALUE_BYTES = 128 * 1024 * 1024, 64 * 1024 * 1024
"""The maximum size in bytes of the rows that a task collects before it reads their late columns, and of the late columns that it collects
before it writes the rows."""
NONE, UPDATE, DELETE, INSERT, MOVE = 0, 1, 2, 3, 4
UNMATCHED_UPDATE, UNMATCHED_DELETE = 5, 6
"""The actions of WHEN NOT MATCHED BY SOURCE. They are counted separately, and otherwise do the same as UPDATE and DELETE."""


@dataclass(frozen=True)
class OutcomeColumns:
    """The names of the columns of outcome rows: target rows and source rows, each with the action of the statement.

    Columns of the table are renamed in outcome rows, because PySpark cannot pass columns with dots or backquotes in their names to a
    function. Every column except `action` is optional.

    Attributes:
        action: The column with the action, an int8: 0 nothing, 1 update, 2 delete, 3 insert, 4 move to another file unchanged.
            For a target row without a match, 5 is an update and 6 a delete.
        file: The column with the path of the data file that contains the target row.
        position: The column with the position of the target row in the data file.
        lineage: The columns with the row lineage that the data file stores: the id of the target row, and the version of its last change.
        source: The column with the ordinal of the source row.
        new_columns: The columns with the row after the change, in the table's order. The columns that the writer itself reads are left out
            (`WriteSpec.late_columns`).
        old_columns: The columns with the row before the change, in the table's order.
    """

    action: str
    file: str | None = None
    position: str | None = None
    lineage: tuple[str, str] | None = None
    source: str | None = None
    new_columns: tuple[str, ...] = ()
    old_columns: tuple[str, ...] = ()


@dataclass
class TaskMessage:
    """The result of one task. Positions and ordinals are serialized 64-bit roaring bitmaps.

    Attributes:
        files: The written data files.
        change_rows: The written change files.
        positions: By path of a data file, the positions of the target rows that are updated or deleted.
        read_positions: By path of a data file, the positions of the matched target rows that stay unchanged.
        repeated_count: The number of updates and deletes of a target row that the task had already updated or deleted.
        source_ordinals: The ordinals of the source rows among the outcome rows, None if there are none.
        updated: The number of updated rows.
        inserted: The number of inserted rows.
        unmatched_updated: The number of updated rows that match no source row.
        unmatched_deleted: The number of deleted rows that match no source row.
    """

    files: list[FileMessage] = field(default_factory=list)
    change_rows: list[FileMessage] = field(default_factory=list)
    positions: dict[str, bytes] = field(default_factory=dict)
    read_positions: dict[str, bytes] = field(default_factory=dict)
    repeated_count: int = 0
    source_ordinals: bytes | None = None
    updated: int = 0
    inserted: int = 0
    unmatched_updated: int = 0
    unmatched_deleted: int = 0


def message_fields(message: TaskMessage) -> dict[str, Any]:
    """Return the message as built-in types, because the driver cannot unpickle instances of classes that executors received by value."""
    return {name: [vars(file) for file in value] if isinstance(value, list) else value for name, value in vars(message).items()}


class OutcomeWriter:
    """The writer of the outcome rows of one task. It writes files, and collects the positions of target rows."""

    def __init__(self, columns: OutcomeColumns, spec: WriteSpec, change_spec: WriteSpec | None) -> None:
        self._columns, self._writer = columns, PartitionedWriter(spec)
        self._change_writer = None if change_spec is None else PartitionedWriter(change_spec)
        self._message = TaskMessage()
        self._replaced_positions: dict[str, PositionSet] = {}
        self._read_positions: dict[str, PositionSet] = {}
        self._source_ordinals: PositionSet | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0

    def write(self, table: pa.Table) -> None:
        """Write the new rows of a batch of outcome rows, and collect the positions of target rows.

        An outcome row has a target row, a source row or both, and the action of the statement (0 to 6). For example, it says: delete the
        row at position 7 of the file f, which the source row with the ordinal 3 matches. `OutcomeColumns` describes the columns.

        Two kinds of positions are collected: of target rows that are updated or deleted, and of matched target rows that stay unchanged.

        Args:
            table: The outcome rows. There must be at least one.
        """
        actions = self._count_unmatched_rows(table[self._columns.action].combine_chunks())
        self._message.updated += _count(pc.equal(actions, UPDATE))
        self._message.inserted += _count(pc.equal(actions, INSERT))
        if self._columns.source is not None:  # the ordinal of a source row is its number in the source
            ordinals = pc.drop_null(table[self._columns.source]).to_numpy()
            self._source_ordinals = self._source_ordinals or PositionSet()
            self._source_ordinals.add(ordinals.astype(np.uint64))
        if self._columns.file is not None:  # only then, the batch has positions of target rows
            self._collect_unchanged_matches(table, actions)
            self._collect_replaced_rows(table, actions)
        self._write_new_rows(table, actions)

    def _count_unmatched_rows(self, actions: pa.Array) -> pa.Array:
        """Count the actions of WHEN NOT MATCHED BY SOURCE, and return the array with UPDATE and DELETE in their place."""
        if pc.max(actions).as_py() < UNMATCHED_UPDATE:
            return actions
        is_update, is_delete = pc.equal(actions, UNMATCHED_UPDATE), pc.equal(actions, UNMATCHED_DELETE)
        self._message.unmatched_updated += _count(is_update)
        self._message.unmatched_deleted += _count(is_delete)
        update, delete = pa.scalar(UPDATE, actions.type), pa.scalar(DELETE, actions.type)
        return pc.if_else(is_update, update, pc.if_else(is_delete, delete, actions))

    def close(self) -> TaskMessage:
        """Finish all files, and return the result of the task."""
        self._write_pending_rows()
        message = self._message
        message.files = self._writer.close()
        if self._change_writer is not None:
            message.change_rows = self._change_writer.close()
        message.positions = {path: positions.serialize() for path, positions in self._replaced_positions.items()}
        message.read_positions = {path: positions.serialize() for path, positions in self._read_positions.items()}
        message.source_ordinals = None if self._source_ordinals is None else self._source_ordinals.serialize()
        return message

    def abort(self) -> list[str]:
        """Close all files, and return their paths for the caller to delete."""
        return self._writer.abort() + ([] if self._change_writer is None else self._change_writer.abort())

    def _collect_unchanged_matches(self, table: pa.Table, actions: pa.Array) -> None:
        """Collect the positions of matched target rows that stay unchanged. The result depends on them: their source rows are skipped."""
        if self._columns.source is None:
            return
        has_source = pc.is_valid(table[self._columns.source].combine_chunks())
        has_target = pc.is_valid(table[self._columns.file].combine_chunks())
        is_read = pc.and_(pc.equal(actions, NONE), pc.and_(has_source, has_target))
        addresses = table.select([self._columns.file, self._columns.position]).filter(is_read)
        for path, _, positions in rows_by_file(addresses):
            self._read_positions.setdefault(path, PositionSet()).add(positions)

    def _collect_replaced_rows(self, table: pa.Table, actions: pa.Array) -> None:
        """Collect the positions of updated and deleted target rows, and write the old values of each target row once, as a change row."""
        is_update = pc.equal(actions, UPDATE)
        is_first_of_position = self._collect_replaced_positions(table, pc.or_(is_update, pc.equal(actions, DELETE)))
        if self._change_writer is not None and self._columns.old_columns:
            change_type = pc.if_else(is_update, "update_preimage", "delete")
            self._write_changes(table.select(self._columns.old_columns), change_type, is_first_of_position)

    def _collect_replaced_positions(self, table: pa.Table, is_replaced: pa.Array) -> pa.Array:
        """Collect the positions of replaced target rows, and return a mask of the outcome rows that are the first to replace a target row.

        A position is the index of a target row in its data file. Several outcome rows may replace one target row, because several source
        rows match it. Only the first of them supplies the old row for the change data feed. The others count as repeated, which is an error
        in most statements. For example, if the rows 1 and 3 of the batch delete the same target row, the mask is true only for row 1.

        Args:
            table: A batch of outcome rows.
            is_replaced: A mask of the rows that update or delete their target row.
        """
        is_first = np.zeros(table.num_rows, dtype=bool)
        replacing_rows = np.flatnonzero(is_replaced.to_numpy(zero_copy_only=False))  # their indexes in `table`
        addresses = table.select([self._columns.file, self._columns.position]).take(pa.array(replacing_rows))
        for path, address_indexes, positions in rows_by_file(addresses):
            rows_of_file = replacing_rows[address_indexes]  # one index in `table` for each of `positions`
            is_first[rows_of_file[self._add_replaced_positions(path, positions)]] = True
        return pa.array(is_first)

    def _add_replaced_positions(self, path: str, positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Add positions in one file. Return the indexes of those that are new, and count the others as repeated."""
        first_indexes = self._replaced_positions.setdefault(path, PositionSet()).add(positions)
        self._message.repeated_count += len(positions) - len(first_indexes)
        return first_indexes

    def _write_new_rows(self, table: pa.Table, actions: pa.Array) -> None:
        """Write the updated, inserted and moved rows into data files, and the updated and inserted rows into files of the change data feed.

        The columns `new_columns` contain the row to write. For other actions, their values are ignored. A moved row is not a change: only a
        compaction moves rows, and it has no change data feed.
        """
        is_written = pc.is_in(actions, value_set=pa.array([UPDATE, INSERT, MOVE], actions.type))
        if not pc.any(is_written).as_py():
            return
        spec, new_rows = self._writer.spec, table.select(self._columns.new_columns)
        # Outcome rows have other names than files.
        data_rows = new_rows.rename_columns([name for name in spec.names if name not in spec.late_columns])
        data_rows = self._with_lineage(data_rows, table, actions)
        if spec.late_columns:
            self._collect_pending_rows(data_rows, table, is_written)
            return
        if not pc.all(is_written).as_py():  # usually, all rows are written, and no copy is necessary
            data_rows = data_rows.filter(is_written)
        self._writer.write(data_rows)
        if self._change_writer is not None:
            change_type = pc.if_else(pc.equal(actions, UPDATE), "update_postimage", "insert")
            self._write_changes(new_rows, change_type, is_written)

    def _collect_pending_rows(self, rows: pa.Table, table: pa.Table, is_written: pa.Array) -> None:
        """Collect new rows without late columns, and their addresses in `table`, until so many rows have arrived that they are written.

        All rows of a file usually arrive in one task, but in several batches. So the late columns of a file are read once.
        """
        assert self._columns.file is not None and self._columns.position is not None
        for name, column in ((_FILE, self._columns.file), (_POSITION, self._columns.position)):
            rows = rows.append_column(name, table[column])
        self._pending.append(rows.filter(is_written))
        self._pending_bytes += self._pending[-1].nbytes
        if self._pending_bytes > _MAX_PENDING_BYTES:
            self._write_pending_rows()

    def _write_pending_rows(self) -> None:
        """Read the late columns of the collected rows, and write the rows of each file in their order there."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending).combine_chunks()
        self._pending, self._pending_bytes = [], 0
        order, values, value_bytes = _order_by_file(rows), list[pa.Table](), 0
        rows, start, end = rows.take(pa.array(order)), 0, 0
        for table in self._late_values(rows):
            values.append(table)
            end, value_bytes = end + table.num_rows, value_bytes + table.nbytes
            if value_bytes > _MAX_VALUE_BYTES:
                self._write_completed_rows(rows.slice(start, end - start), values)
                values, value_bytes, start = [], 0, end
        if values:
            self._write_completed_rows(rows.slice(start, end - start), values)

    def _late_values(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield the late columns of rows, in batches in the order of the rows. The rows of a file are consecutive."""
        spec, addresses = self._writer.spec, rows.select([_FILE, _POSITION])
        encoded_files = pc.dictionary_encode(addresses[_FILE].combine_chunks())
        codes, names = encoded_files.indices.to_numpy(zero_copy_only=False), encoded_files.dictionary.to_pylist()
        positions = addresses[_POSITION].to_numpy().astype(np.int64)
        starts = np.append(np.flatnonzero(np.diff(codes, prepend=-1)), len(codes))
        for start, end in pairwise(starts.tolist()):
            name = names[codes[start]]
            if name not in spec.path_by_file:
                raise UnreadableFile(name, "Spark spells its path in another way than the table")
            path, row_count = spec.path_by_file[name], 0
            for values in values_at(spec, path, positions[start:end]):
                row_count += values.num_rows
                yield values
            if row_count != end - start:  # otherwise, rows of later files would get wrong values
                raise UnreadableFile(path, "it has fewer rows than Spark has read, so it was replaced meanwhile")

    def _write_completed_rows(self, rows: pa.Table, values: Sequence[pa.Table]) -> None:
        """Write collected rows. `values`: their late columns, in the same order."""
        # Arrow selects rows of arrays with many chunks slowly.
        tables = (rows, pa.concat_tables(values).combine_chunks())
        columns = {name: table[name] for table in tables for name in table.column_names}
        hidden_columns = [name for name in rows.column_names if name not in (*self._writer.spec.names, _FILE, _POSITION)]
        self._writer.write(pa.table({name: columns[name] for name in (*self._writer.spec.names, *hidden_columns)}))

    def _with_lineage(self, rows: pa.Table, table: pa.Table, actions: pa.Array) -> pa.Table:
        """Add the hidden columns of row lineage. Updated rows keep their ids. Moved rows also keep the version that last changed them."""
        columns, files_lineage = self._columns, self._writer.spec.lineage
        if files_lineage is None:
            return rows
        assert columns.file is not None and columns.position is not None and columns.lineage is not None
        names = (columns.file, columns.position, *columns.lineage)
        ids, versions = files_lineage.ids_and_versions(*(table[name].combine_chunks() for name in names))
        null = pa.scalar(None, pa.int64())
        keeps_id = pc.is_in(actions, value_set=pa.array([UPDATE, MOVE], actions.type))
        return with_lineage(rows, pc.if_else(keeps_id, ids, null), pc.if_else(pc.equal(actions, MOVE), versions, null))

    def _write_changes(self, rows: pa.Table, change_type: pa.Array, is_written: pa.Array) -> None:
        """Write table rows into change files, with the change type as the last column. `is_written`: A mask of the rows to write."""
        assert self._change_writer is not None
        changes = rows.append_column("type", change_type).filter(is_written)
        if changes.num_rows:
            self._change_writer.write(changes.rename_columns(list(self._change_writer.spec.names)))


def _count(mask: pa.Array) -> int:
    """Return the number of true values in the mask."""
    return pc.sum(mask).as_py() or 0


def _order_by_file(rows: pa.Table) -> np.ndarray[Any, Any]:
    """Return the indexes of collected rows, ordered by file and position."""
    codes = pc.dictionary_encode(rows[_FILE].combine_chunks()).indices.to_numpy(zero_copy_only=False)
    return np.lexsort((rows[_POSITION].to_numpy(), codes))


def rows_by_file(addresses: pa.Table) -> Iterator[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield each path in a table of (path, position), with the indexes of the rows that have this path, and their positions."""
    encoded = pc.dictionary_encode(addresses.column(0).combine_chunks())
    codes, paths = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
    positions, order = addresses.column(1).to_numpy(), np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], range(len(paths) + 1))
    for path, (start, end) in zip(paths, pairwise(ends), strict=True):
        indexes = order[start:end]
        yield path, indexes, positions[indexes].astype(np.uint64)
