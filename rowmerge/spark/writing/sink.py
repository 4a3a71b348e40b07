"""The code that runs on executors: the one writer of every row-level command.

Executors get it by value, with the modules that `rowmerge.spark.writing.executors` lists. They need pyarrow, numpy and pyroaring, and not
this package. The input is outcome rows. The output is data files, statistics and bitmaps of deleted positions. Files get their final names
at once, and none is renamed. Files of a failed statement belong to no version.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark import TaskContext

from rowmerge.parquet.data_files import FileMessage, WriteSpec, delete_written
from rowmerge.parquet.outcomes import OutcomeColumns, OutcomeTask, TaskMessage, message_fields
from rowmerge.parquet.rewriting import write_live_rows

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

MESSAGE_SCHEMA = pa.schema([("message", pa.binary())])
_BUFFERING_TASKS, _MAX_BUFFERED_BYTES = 64, 1024 * 1024
"""The tasks that may return rows to the driver, and the bytes of rows that each of them returns at most."""


@dataclass(frozen=True)
class SourceMessage:
    """The result of one task over rows of a source.

    `written`: the fields of `message_fields`, None for a task that gave up. `keys`, `rows`: the keys of the task's rows, and the rows that
    the task did not write, each as an Arrow stream, None for none.
    """

    written: dict[str, Any] | None
    keys: bytes | None
    rows: bytes | None


def outcome_sink(spec: WriteSpec, columns: OutcomeColumns, changes: WriteSpec | None) -> BatchFunction:
    """Return the mapInArrow function over outcome rows. `changes`: how change rows are written, None for a table without them."""

    def sink(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = OutcomeTask(columns, spec, changes)
        with _delete_on_error(task, spec):
            for batch in batches:
                if batch.num_rows:
                    task.write(pa.Table.from_batches([batch]))
            message = task.close()
        yield _message_batch(message_fields(message))

    return sink


def source_sink(spec: WriteSpec, columns: OutcomeColumns, key_names: tuple[str, ...], most_keys: int) -> BatchFunction:
    """Return the mapInArrow function over new rows that also have the keys of their source rows, under `key_names`.

    A task with few rows returns them to the driver, which writes the rows of several tasks together. The n-th task returns up to
    `most_keys` / n keys and gives up if it has more rows. So all keys of evenly filled tasks are returned, and the keys of many tasks come
    to a few times `most_keys` at most.
    """

    def sink(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_index = TaskContext.get().partitionId()  # type: ignore[union-attr]
        outcome_task = OutcomeTask(columns, spec, None)
        task = _SourceTask(outcome_task, key_names, most_keys // (task_index + 1), may_buffer=task_index < _BUFFERING_TASKS)
        with _delete_on_error(outcome_task, spec):
            for batch in batches:  # also after the task gave up: Spark fails a task that leaves input unread
                task.take(pa.Table.from_batches([batch]))
            if task.has_too_many_rows:
                delete_written(outcome_task.abort(), spec.filesystem_options)
                message = SourceMessage(None, None, None)
            else:
                message = task.close()
        yield _message_batch(vars(message))

    return sink


class _SourceTask:
    """Collect the keys of new rows, and buffer the rows while they are few; write them once they are many."""

    def __init__(self, outcome_task: OutcomeTask, key_names: tuple[str, ...], max_rows: int, *, may_buffer: bool) -> None:
        self._outcome_task, self._key_names, self._max_rows, self._may_buffer = outcome_task, list(key_names), max_rows, may_buffer
        self._row_count = 0
        self._keys: list[pa.Table] = []
        self._buffer: list[pa.Table] = []

    @property
    def has_too_many_rows(self) -> bool:
        return self._row_count > self._max_rows

    def take(self, rows: pa.Table) -> None:
        """Add a batch of rows, unless there are already too many. Once the buffer was full, all rows are written."""
        self._row_count += rows.num_rows
        if self.has_too_many_rows or not rows.num_rows:
            return
        self._keys.append(rows.select(self._key_names))
        self._buffer.append(rows.drop_columns(self._key_names))
        if self._may_buffer and sum(table.nbytes for table in self._buffer) <= _MAX_BUFFERED_BYTES:
            return
        self._may_buffer = False
        for table in self._buffer:
            self._outcome_task.write(table)
        self._buffer = []

    def close(self) -> SourceMessage:
        """Finish the files, and return the message with the keys and the buffered rows."""
        return SourceMessage(message_fields(self._outcome_task.close()), _arrow_stream(self._keys), _arrow_stream(self._buffer))


def rewrite_sink(spec: WriteSpec) -> BatchFunction:
    """Return the mapInArrow function that writes files again without their deleted rows. Its input has one row for each bin of files."""

    def sink(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = TaskMessage()
        for batch in batches:
            for bin_row in batch.to_pylist():
                message.files += _rewrite_bin(spec, **bin_row)
        yield _message_batch(message_fields(message))

    return sink


def _rewrite_bin(spec: WriteSpec, paths: list[str], positions: list[bytes], partition: bytes) -> list[FileMessage]:
    """Write the live rows of a bin's files into new files. `positions`: for each path, the serialized bitmap of its deleted rows."""
    deleted_positions = {path: BitMap64.deserialize(bitmap) for path, bitmap in zip(paths, positions, strict=True)}
    return write_live_rows(spec, deleted_positions, pickle.loads(partition), delete_written)


@contextmanager
def _delete_on_error(task: OutcomeTask, spec: WriteSpec) -> Iterator[None]:
    try:
        yield
    except BaseException:
        delete_written(task.abort(), spec.filesystem_options)
        raise


def _message_batch(fields: dict[str, Any]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([pickle.dumps(fields)], pa.binary())], schema=MESSAGE_SCHEMA)


def _arrow_stream(tables: list[pa.Table]) -> bytes | None:
    if not tables:
        return None
    whole, stream = pa.concat_tables(tables), pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, whole.schema) as writer:
        writer.write_table(whole)
    return bytes(stream.getvalue())
