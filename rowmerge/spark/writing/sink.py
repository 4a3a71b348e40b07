"""What runs on executors: the one writer of every row-level command.

Sent to the executors by value together with data_files.py: they need pyarrow, numpy and pyroaring there, and not this package.

The input is outcome rows. The output is data files, statistics and bitmaps of deleted positions. Files get their final names at once, and
none is renamed. Files of a failed statement belong to no version.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark import TaskContext

from rowmerge.parquet.data_files import FileMessage, HeldColumns, PartitionedWriter, WriteSpec, delete_written
from rowmerge.parquet.filesystems import Options, filesystem_of, without_secrets
from rowmerge.parquet.fitting import file_columns, from_file, has_field_ids
from rowmerge.parquet.lineage import CHANGED_IN, ROW_ID, FilesLineage, with_lineage

MESSAGE_SCHEMA = pa.schema([("message", pa.binary())])
NONE, UPDATE, DELETE, INSERT, MOVE = 0, 1, 2, 3, 4
UNREADABLE = "rowmerge cannot read"
_HANDING_TASKS, _HANDED_OVER = 64, 1024 * 1024
"""The first tasks hand over rows of so many bytes at most."""


class UnreadableFile(Exception):
    """Raised when an executor cannot read a data file.

    Remedy: None is needed. The text travels through Spark to the driver, which raises `MissingDataFile` or `UnreadableDataFile`.

    `reason` is None for a missing file.
    """

    def __init__(self, path: str, reason: str | None) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{UNREADABLE} {json.dumps([path, reason])}")


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


@dataclass(frozen=True)
class SourceMessage:
    """What one task did with rows of a source: what `message_fields` has of it, the keys of its rows and the rows that it did not write,
    each as an Arrow stream, None for none. `written` is None for a task that gave up."""

    written: dict[str, Any] | None
    keys: bytes | None
    rows: bytes | None


def outcome_sink(
    spec: WriteSpec, columns: OutcomeColumns, changes: WriteSpec | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The mapInArrow function over outcome rows. `changes`: how files of change rows are written, None where the table keeps none."""

    def sink(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = OutcomeTask(columns, PartitionedWriter(spec), None if changes is None else PartitionedWriter(changes))
        try:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                if table.num_rows:
                    task.take(table)
            message = task.close()
        except BaseException:
            delete_written(task.abort(), spec.filesystem_options)
            raise
        yield pa.record_batch([pa.array([pickle.dumps(message_fields(message))], pa.binary())], schema=MESSAGE_SCHEMA)

    return sink


def source_sink(
    spec: WriteSpec, columns: OutcomeColumns, keys: tuple[str, ...], most_keys: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The mapInArrow function over rows that are all new, with the `keys` of the source rows that they are made of, which messages tell.

    A task with few rows hands them over, for the driver to write together with those of others. The n-th task tells the n-th part of
    `most_keys`, so that all of evenly filled tasks are told and of many tasks a few times as many at most; one with more rows gives up.
    """

    def sink(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = TaskContext.get().partitionId()  # type: ignore[union-attr]
        task = OutcomeTask(columns, PartitionedWriter(spec), None)
        known: list[pa.Table] = []
        held: list[pa.Table] = []
        rows, holds = 0, number < _HANDING_TASKS
        try:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                rows += table.num_rows
                if rows > most_keys // (number + 1) or not table.num_rows:
                    continue  # all input must be taken in, or Spark calls the task failed
                known.append(table.select(keys))
                held.append(table.drop_columns(list(keys)))
                if not holds or sum(part.nbytes for part in held) > _HANDED_OVER:
                    holds = False
                    for part in held:
                        task.take(part)
                    held = []
            if rows > most_keys // (number + 1):
                delete_written(task.abort(), spec.filesystem_options)
                told = SourceMessage(None, None, None)
            else:
                told = SourceMessage(message_fields(task.close()), _stream(known), _stream(held))
        except BaseException:
            delete_written(task.abort(), spec.filesystem_options)
            raise
        yield pa.record_batch([pa.array([pickle.dumps(vars(told))], pa.binary())], schema=MESSAGE_SCHEMA)

    return sink


def _stream(tables: list[pa.Table]) -> bytes | None:
    """An Arrow stream of tables of one schema, None for none."""
    if not tables:
        return None
    whole, stream = pa.concat_tables(tables), pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, whole.schema) as writer:
        writer.write_table(whole)
    return bytes(stream.getvalue())


def rewrite_sink(spec: WriteSpec) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The mapInArrow function over (paths, positions, partition) rows: the files of each row written again as `rewrite` does."""

    def sink(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = TaskMessage()
        for batch in batches:
            for row in batch.to_pylist():
                bitmaps = [BitMap64.deserialize(bitmap) for bitmap in row["positions"]]
                deleted = dict(zip(row["paths"], bitmaps, strict=True))
                message.files += rewrite(spec, deleted, pickle.loads(row["partition"]), delete_written)
        yield pa.record_batch([pa.array([pickle.dumps(message_fields(message))], pa.binary())], schema=MESSAGE_SCHEMA)

    return sink


def message_fields(message: TaskMessage) -> dict[str, Any]:
    """The message as builtins: a class sent by value could not be unpickled as the driver's own."""
    return {name: [vars(file) for file in value] if isinstance(value, list) else value for name, value in vars(message).items()}


def rewrite(
    spec: WriteSpec, deleted: dict[str, BitMap64], partition: dict[str, Any], delete: Callable[[list[str], Options], None]
) -> list[FileMessage]:
    """Files of one partition written together, one after the other, without their deleted rows; row order kept.

    Where the files hold what divides rows, it is looked at anew: the table may be divided otherwise since they were written.
    `delete` deletes what was written before a failure.
    """
    writer = PartitionedWriter(spec)
    try:
        for path, positions in deleted.items():
            for rows in _live_rows(spec, path, positions, partition):
                if spec.values_in_files:
                    writer.write(rows)
                else:
                    writer.write_partition(partition, rows)
        return writer.close()
    except BaseException:
        delete(writer.abort(), spec.filesystem_options)
        raise


def _live_rows(spec: WriteSpec, path: str, deleted: BitMap64, partition: dict[str, Any]) -> Iterator[pa.Table]:
    held = spec.others.get(path, HeldColumns(spec.stored, spec.by_field_id, ()))
    gone = np.array(deleted.to_array(), dtype=np.int64)
    start = 0
    for batch in _batches(held, path, spec.filesystem_options):
        low, high = np.searchsorted(gone, [start, start + batch.num_rows])
        keep = np.ones(batch.num_rows, dtype=bool)
        keep[gone[low:high] - start] = False
        # First in our types: Arrow cannot filter every type that others write (string views of delta-rs).
        rows = from_file(pa.Table.from_batches([batch]), spec.schema, held.stored, by_field_id=held.by_field_id, initial=spec.initial)
        if spec.lineage is not None:
            rows = _placed(spec.lineage, path, rows, start)
        start += batch.num_rows
        for name in held.outside:
            column = spec.schema.field(name)
            rows = rows.set_column(
                spec.schema.get_field_index(name), column, pa.repeat(pa.scalar(partition[name], column.type), rows.num_rows)
            )
        yield rows if high == low else rows.filter(pa.array(keep))


def _placed(lineage: FilesLineage, path: str, rows: pa.Table, start: int) -> pa.Table:
    """Rows of a file from a position on, with all that they take along from there."""
    paths = pa.repeat(pa.scalar(path, pa.string()), rows.num_rows)
    positions = pa.array(np.arange(start, start + rows.num_rows, dtype=np.int64))
    held = (rows[ROW_ID].combine_chunks(), rows[CHANGED_IN].combine_chunks())
    return with_lineage(rows, *lineage.moved(paths, positions, held))


def _batches(held: HeldColumns, path: str, filesystem_options: Options) -> Iterator[pa.RecordBatch]:
    with opened(path, filesystem_options, by_field_id=held.by_field_id) as source:
        places = file_columns(source.schema_arrow, held.stored, by_field_id=held.by_field_id)
        columns = [source.schema_arrow.field(place).name for place in places if place is not None]
        yield from source.iter_batches(batch_size=131_072, columns=columns)


@contextmanager
def opened(path: str, filesystem_options: Options, *, by_field_id: bool) -> Iterator[pq.ParquetFile]:
    """A data file for reading. Raises UnreadableFile, also for what goes wrong while it is read."""
    filesystem, inner = filesystem_of(path, filesystem_options)
    try:
        with filesystem.open_input_file(inner) as stream:
            source = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
            if by_field_id and not has_field_ids(source.schema_arrow):
                raise UnreadableFile(path, "its columns have no field ids")
            yield source
    except FileNotFoundError as error:
        raise UnreadableFile(path, None) from error
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFile(path, without_secrets(str(error), filesystem_options)) from error


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
