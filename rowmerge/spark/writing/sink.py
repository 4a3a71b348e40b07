"""The functions that executors run to write the rows of every row-level command.

Executors get this code by value, with the modules that `rowmerge.spark.writing.executors` lists. They need PyArrow, NumPy and pyroaring,
but not this package. The input is outcome rows. The output is data files, their statistics, and bitmaps of deleted positions. Files are
created under their final names and never renamed. The files of a failed statement do not belong to any version of the table.
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

_BUFFERING_TASKS, _MAX_BUFFERED_BYTES = 64, 1024 * 1024
"""The maximum number of tasks that return rows to the driver, and the maximum size in bytes of the rows that a task returns.

Both limit the memory that the driver needs.
"""


@dataclass(frozen=True)
class SourceMessage:
    """The result of one task that processed source rows. All attributes are None if the task had more keys than the driver accepts.

    Attributes:
        task_message: The fields of the task's `TaskMessage`.
        keys: The keys of the task's rows as a serialized Arrow stream, None for a task without rows.
        rows: The rows that the driver must write, as a serialized Arrow stream, None if the task wrote all its rows.
    """

    task_message: dict[str, Any] | None = None
    keys: bytes | None = None
    rows: bytes | None = None


def outcome_sink(spec: WriteSpec, columns: OutcomeColumns, change_spec: WriteSpec | None) -> BatchFunction:
    """Return the function for `DataFrame.mapInArrow` that writes outcome rows and yields one pickled `TaskMessage`.

    Outcome rows are target rows and source rows, each with the action of the statement (see `OutcomeColumns`).

    Args:
        spec: The settings with which data files are written.
        columns: The columns of the outcome rows.
        change_spec: The settings with which change files are written, None for a table without a change data feed.
    """

    def write_outcomes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = OutcomeTask(columns, spec, change_spec)
        with _delete_on_error(task, spec):
            for batch in batches:
                if batch.num_rows:
                    task.write(pa.Table.from_batches([batch]))
            message = task.close()
        yield _message_batch(message_fields(message))

    return write_outcomes


def source_row_sink(spec: WriteSpec, columns: OutcomeColumns, key_names: tuple[str, ...], max_keys: int) -> BatchFunction:
    """Return the function that executors apply to the rows of a task (`DataFrame.mapInArrow`) to insert source rows.

    The function writes data files and yields one pickled `SourceMessage`: the files and the keys of the rows. A task with few rows returns
    the rows to the driver, which writes the rows of several tasks into one file. A task with too many keys deletes its files.

    Args:
        spec: The settings with which data files are written.
        columns: The columns of the outcome rows.
        key_names: The names of the columns of the outcome rows that contain the keys of the source rows.
        max_keys: The approximate number of keys that the driver accepts. Tasks cannot count each other's rows, so the n-th task returns up
            to `max_keys` / n keys. The total is `max_keys` if the tasks have equally many rows, and otherwise a few times as many at most.
    """

    def write_source_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the source rows of one task, and yield the pickled `SourceMessage`. An empty message means that there are too many keys."""
        task_index = TaskContext.get().partitionId()  # type: ignore[union-attr]
        max_task_keys = max_keys // (task_index + 1)  # the share of this task, see `max_keys` above
        file_writer = OutcomeTask(columns, spec, None)
        key_collector = _SourceTask(file_writer, key_names, max_task_keys, may_buffer=task_index < _BUFFERING_TASKS)
        with _delete_on_error(file_writer, spec):
            for batch in batches:  # even if there are too many keys, because Spark fails a task that leaves input unread
                key_collector.add(pa.Table.from_batches([batch]))
            if key_collector.has_too_many_keys:
                delete_written(file_writer.abort(), spec.filesystem_options)
                message = SourceMessage()
            else:
                message = key_collector.close()
        yield _message_batch(vars(message))

    return write_source_rows


class _SourceTask:
    """The writer of the source rows of one task, which also collects their keys. A small number of rows is buffered for the driver."""

    def __init__(self, file_writer: OutcomeTask, key_names: tuple[str, ...], max_keys: int, *, may_buffer: bool) -> None:
        self._file_writer, self._key_names, self._max_keys, self._may_buffer = file_writer, list(key_names), max_keys, may_buffer
        self._row_count = 0
        self._keys: list[pa.Table] = []
        self._buffer: list[pa.Table] = []

    @property
    def has_too_many_keys(self) -> bool:
        return self._row_count > self._max_keys

    def add(self, rows: pa.Table) -> None:
        """Collect the keys of a batch of rows, and add the rows to the buffer. Write the buffered rows into files if the buffer is full.

        The driver gets the keys of all rows, but only the rows of a task whose rows all fit into the buffer.
        """
        self._row_count += rows.num_rows
        if self.has_too_many_keys or not rows.num_rows:
            return  # if there are too many keys, the task deletes its files and returns no keys
        self._keys.append(rows.select(self._key_names))
        self._buffer.append(rows.drop_columns(self._key_names))
        if self._may_buffer and sum(table.nbytes for table in self._buffer) <= _MAX_BUFFERED_BYTES:
            return
        # Once the buffer is full, the task writes its own files. From then on, it writes each batch immediately.
        self._may_buffer = False
        for table in self._buffer:
            self._file_writer.write(table)
        self._buffer = []

    def close(self) -> SourceMessage:
        """Finish the files, and return a message with the files, the keys and the buffered rows."""
        return SourceMessage(message_fields(self._file_writer.close()), _arrow_stream(self._keys), _arrow_stream(self._buffer))


def rewrite_sink(spec: WriteSpec) -> BatchFunction:
    """Return the function for `DataFrame.mapInArrow` that rewrites files without their deleted rows. Each input row is a bin of files."""

    def rewrite_bins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = TaskMessage()
        for batch in batches:
            for bin_row in batch.to_pylist():
                message.files += _rewrite_bin(spec, **bin_row)
        yield _message_batch(message_fields(message))

    return rewrite_bins


def _rewrite_bin(spec: WriteSpec, paths: list[str], positions: list[bytes], partition: bytes) -> list[FileMessage]:
    """Write the live rows of a bin's files into new files.

    `positions`: For each path, the serialized bitmap of the positions of deleted rows. `partition`: The pickled partition values.
    """
    deleted_positions = {path: BitMap64.deserialize(bitmap) for path, bitmap in zip(paths, positions, strict=True)}
    return write_live_rows(spec, deleted_positions, pickle.loads(partition), delete_written)


@contextmanager
def _delete_on_error(task: OutcomeTask, spec: WriteSpec) -> Iterator[None]:
    """Delete all files of the task if the body of the `with` statement raises an error."""
    try:
        yield
    except BaseException:
        delete_written(task.abort(), spec.filesystem_options)
        raise


def _message_batch(fields: dict[str, Any]) -> pa.RecordBatch:
    """Return a batch of one row with the pickled message of a task."""
    return pa.record_batch([pa.array([pickle.dumps(fields)], pa.binary())], names=["message"])


def _arrow_stream(tables: list[pa.Table]) -> bytes | None:
    """Return the rows of all tables as one serialized Arrow stream, None if there are no tables."""
    if not tables:
        return None
    rows, stream = pa.concat_tables(tables), pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(stream.getvalue())
