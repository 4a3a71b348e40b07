"""What runs on executors: the one writer of every row-level command.

Sent to the executors by value together with data_files.py: they need pyarrow, numpy and pyroaring there, and not this package.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from rowmerge.spark.data_files import FileMessage, PartitionedWriter, WriteSpec, filesystem_of
from rowmerge.spark.fitting import file_columns, from_file

MESSAGE_SCHEMA = pa.schema([("message", pa.binary())])
NONE, UPDATE, DELETE, INSERT = 0, 1, 2, 3


@dataclass
class TaskMessage:
    """What one task did. `positions` and `sources` are serialized 64-bit roaring bitmaps, by file and as a whole."""

    files: list[FileMessage] = field(default_factory=list)
    positions: dict[str, bytes] = field(default_factory=dict)
    repeated: int = 0
    sources: bytes | None = None
    updated: int = 0
    inserted: int = 0


def outcome_sink(spec: WriteSpec, names: tuple[str, str, str, str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The mapInArrow function over outcome rows.

    `names` are the columns of action (int8: 0 none, 1 update, 2 delete, 3 insert), file, position and source ordinal; a column that the
    frame does not have is skipped. All others are the table's columns by position: PySpark cannot hand over columns whose names have
    dots or backquotes in them.
    """

    def sink(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = TaskMessage()
        positions: dict[str, BitMap64] = {}
        sources = BitMap64()
        writer = PartitionedWriter(spec)
        try:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                if table.num_rows == 0:
                    continue
                _take(table, names, message, positions, sources, writer)
            message.files = writer.close()
        except BaseException:
            writer.abort()
            raise
        message.positions = {path: bitmap.serialize() for path, bitmap in positions.items()}
        message.sources = sources.serialize() if sources else None
        yield pa.record_batch([pa.array([pickle.dumps(message_fields(message))], pa.binary())], schema=MESSAGE_SCHEMA)

    return sink


def rewrite_sink(spec: WriteSpec) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The mapInArrow function over (path, positions, partition) rows: each file written again without its deleted rows."""

    def sink(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = TaskMessage()
        for batch in batches:
            for row in batch.to_pylist():
                message.files += rewrite_file(spec, row["path"], BitMap64.deserialize(row["positions"]), pickle.loads(row["partition"]))
        yield pa.record_batch([pa.array([pickle.dumps(message_fields(message))], pa.binary())], schema=MESSAGE_SCHEMA)

    return sink


def message_fields(message: TaskMessage) -> dict[str, Any]:
    """The message as builtins: a class sent by value could not be unpickled as the driver's own."""
    return {**vars(message), "files": [vars(file) for file in message.files]}


def rewrite_file(spec: WriteSpec, path: str, deleted: BitMap64, partition: dict[str, Any]) -> list[FileMessage]:
    """One file without its deleted rows, row order kept."""
    filesystem, inner = filesystem_of(path)
    gone = np.array(deleted.to_array(), dtype=np.int64)
    writer = PartitionedWriter(spec)
    try:
        with filesystem.open_input_file(inner) as opened:
            source = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            places = file_columns(source.schema_arrow, spec.stored, by_field_id=spec.by_field_id)
            columns = [source.schema_arrow.field(place).name for place in places if place is not None]
            start = 0
            for batch in source.iter_batches(batch_size=131_072, columns=columns):
                low, high = np.searchsorted(gone, [start, start + batch.num_rows])
                keep = np.ones(batch.num_rows, dtype=bool)
                keep[gone[low:high] - start] = False
                start += batch.num_rows
                # First in our types: Arrow cannot filter every type that others write (string views of delta-rs).
                rows = from_file(pa.Table.from_batches([batch]), spec.schema, spec.stored, by_field_id=spec.by_field_id)
                writer.write_partition(partition, rows if high == low else rows.filter(pa.array(keep)))
        files = writer.close()
    except BaseException:
        writer.abort()
        raise
    for file in files:
        file.replaces = path
    return files


def _take(
    table: pa.Table,
    names: tuple[str, str, str, str],
    message: TaskMessage,
    positions: dict[str, BitMap64],
    sources: BitMap64,
    writer: PartitionedWriter,
) -> None:
    action_name, file_name, position_name, source_name = names
    action = table[action_name].combine_chunks()
    has = set(table.schema.names)
    if source_name in has:
        sources.update(pc.drop_null(table[source_name]).to_numpy())
    if file_name in has:
        touched = table.select([file_name, position_name]).filter(pc.or_(pc.equal(action, UPDATE), pc.equal(action, DELETE)))
        for path, rows in _by_file(touched, file_name, position_name):
            bitmap = positions.setdefault(path, BitMap64())
            before = len(bitmap)
            bitmap.update(rows)
            message.repeated += len(rows) - (len(bitmap) - before)
    updates = pc.sum(pc.equal(action, UPDATE)).as_py() or 0
    inserts = pc.sum(pc.equal(action, INSERT)).as_py() or 0
    message.updated += updates
    message.inserted += inserts
    if updates + inserts:
        writing = pc.or_(pc.equal(action, UPDATE), pc.equal(action, INSERT))
        rows = table.drop_columns([name for name in names if name in has]).rename_columns(list(writer.names))
        writer.write(rows.filter(writing) if updates + inserts < table.num_rows else rows)


def _by_file(touched: pa.Table, file_name: str, position_name: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    if touched.num_rows == 0:
        return
    encoded = pc.dictionary_encode(touched[file_name].combine_chunks())
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    rows = touched[position_name].to_numpy()
    for code, path in enumerate(encoded.dictionary.to_pylist()):
        yield path, rows[codes == code].astype(np.uint64)
