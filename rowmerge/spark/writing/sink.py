"""What runs on executors: the one writer of every row-level command.

Sent to the executors by value together with data_files.py: they need pyarrow, numpy and pyroaring there, and not this package.

The input is outcome rows. The output is data files, statistics and bitmaps of deleted positions. Files get their final names at once, and
none is renamed. Files of a failed statement belong to no version.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark import TaskContext

from rowmerge.parquet.data_files import PartitionedWriter, WriteSpec, delete_written
from rowmerge.parquet.outcomes import OutcomeColumns, OutcomeTask, TaskMessage, message_fields
from rowmerge.parquet.rewriting import write_live_rows

MESSAGE_SCHEMA = pa.schema([("message", pa.binary())])
_HANDING_TASKS, _HANDED_OVER = 64, 1024 * 1024
"""The first tasks hand over rows of so many bytes at most."""


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
                message.files += write_live_rows(spec, deleted, pickle.loads(row["partition"]), delete_written)
        yield pa.record_batch([pa.array([pickle.dumps(message_fields(message))], pa.binary())], schema=MESSAGE_SCHEMA)

    return sink
