"""The functions that executors run to write the rows of every row-level command.

Executors get this code by value, with the modules that `rowmerge.spark.executors` lists. They need PyArrow and NumPy, but not this
package. The input is outcome rows. The output is data files, their statistics, and bitmaps of deleted positions. Files are
created under their final names and never renamed. The files of a failed statement do not belong to any version of the table.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from rowmerge.parquet.data_files import WriteSpec, delete_written, writing_task
from rowmerge.parquet.outcomes import OutcomeColumns, OutcomeWriter, TaskMessage, message_fields
from rowmerge.parquet.partitions import PartitionKey, comparable_partition, split_by_partition
from rowmerge.parquet.rewriting import FileBin, write_bins
from rowmerge.spark.executors import BatchFunction, report

_BUFFERING_TASKS, _MAX_BUFFERED_BYTES = 64, 1024 * 1024
"""The maximum number of tasks that return rows to the driver, and the maximum size in bytes of the rows that a task returns.

Both limit the memory that the driver needs.
"""


@dataclass(frozen=True)
class SourceMessage:
    """The result of one task that processed source rows.

    Attributes:
        row_count: The number of rows.
        task_message: The fields of the task's `TaskMessage`. None if the task had more keys than the driver accepts, and deleted its files.
        keys: The keys of the task's rows as a serialized Arrow stream. None for a task without rows, or with too many keys.
        rows: The rows that the driver must write, as a serialized Arrow stream, None if the task wrote all its rows.
    """

    row_count: int
    task_message: dict[str, Any] | None = None
    keys: bytes | None = None
    rows: bytes | None = None


def outcome_sink(spec: WriteSpec, columns: OutcomeColumns, change_spec: WriteSpec | None) -> BatchFunction:
    """Return the function for `DataFrame.mapInArrow` that writes outcome rows and yields one pickled `TaskMessage`.

    Outcome rows are target rows and source rows, each with the action of the statement, such as UPDATE (see `OutcomeColumns`).

    Args:
        spec: The settings with which data files are written.
        columns: The columns of the outcome rows.
        change_spec: The settings with which change files are written, None for a table without a change data feed.
    """

    def write_outcomes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file_writer = OutcomeWriter(columns, spec, change_spec)
        with writing_task(spec), _delete_on_error(file_writer, spec):
            for batch in batches:
                if batch.num_rows:
                    file_writer.write(pa.Table.from_batches([batch]))
            message = file_writer.close()
        yield _message_batch(message_fields(message))

    return write_outcomes


def source_row_sink(
    spec: WriteSpec, columns: OutcomeColumns, key_names: tuple[str, ...], max_keys: int, requires_keys: bool
) -> BatchFunction:
    """Return the function that executors apply to the rows of a task (`DataFrame.mapInArrow`) to insert source rows.

    The function writes data files and yields one pickled `SourceMessage`: the files and the keys of the rows. A task with few rows returns
    the rows to the driver, which writes the rows of several tasks into one file. A task with too many keys returns none of
    them, but keeps its files unless `requires_keys` is true.

    Args:
        spec: The settings with which data files are written.
        columns: The columns of the outcome rows.
        key_names: The names of the columns of the outcome rows that contain the keys of the source rows.
        max_keys: The approximate number of keys that the driver accepts from all tasks together (see `_max_keys_of_task`).
        requires_keys: Whether a task with too many keys deletes its files, because they are useless without the keys.
    """

    def write_source_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the source rows of one task, and yield its pickled `SourceMessage`."""
        task_index = TaskContext.get().partitionId()  # type: ignore[union-attr]
        max_task_keys = _max_keys_of_task(task_index, max_keys)
        # The first tasks may return a few rows to the driver. Rows of more tasks would take too much of its memory.
        may_buffer = task_index < _BUFFERING_TASKS
        source_writer = _SourceRowWriter(spec, columns, key_names, max_task_keys, may_buffer=may_buffer, requires_keys=requires_keys)
        with writing_task(spec), _delete_on_error(source_writer.file_writer, spec):
            for batch in batches:  # even if there are too many keys, because Spark fails a task that leaves input unread
                source_writer.add(pa.Table.from_batches([batch]))
            message = source_writer.close()
        yield _message_batch(vars(message))

    return write_source_rows


def _max_keys_of_task(task_index: int, max_keys: int) -> int:
    """Return the number of keys that a task may return, if all tasks together may return about `max_keys` keys.

    Tasks cannot count each other's rows. So the first task may return `max_keys` keys, the second a half of this number, the third a third,
    and so on. If the tasks have equally many keys, and `max_keys` in total, all are accepted. The total is at most a few times `max_keys`
    (a harmonic sum).
    """
    return max_keys // (task_index + 1)


class _SourceRowWriter:
    """The writer of the source rows of one task, which also collects their keys.

    If `may_buffer` is true and the rows take little memory, they are not written. The task returns them to the driver instead.
    """

    def __init__(
        self, spec: WriteSpec, columns: OutcomeColumns, key_names: tuple[str, ...], max_keys: int, *, may_buffer: bool, requires_keys: bool
    ) -> None:
        self.file_writer, self._spec = OutcomeWriter(columns, spec, change_spec=None), spec
        self._key_names, self._max_keys, self._may_buffer = list(key_names), max_keys, may_buffer
        self._requires_keys = requires_keys
        self._row_count = 0
        self._keys = _ArrowStream()
        self._buffer: list[pa.Table] = []

    @property
    def _has_too_many_keys(self) -> bool:
        return self._row_count > self._max_keys

    @property
    def _is_useless(self) -> bool:
        """Whether `close` deletes the files, so that further rows need not be written."""
        return self._requires_keys and self._has_too_many_keys

    def add(self, rows: pa.Table) -> None:
        """Collect the keys of a batch of rows, and buffer the rows. If the buffer is full, write the buffered rows into files."""
        self._row_count += rows.num_rows
        if not rows.num_rows or self._is_useless:
            return
        if self._has_too_many_keys:
            self._keys = _ArrowStream()
        else:
            self._keys.write(rows.select(self._key_names))
        self._buffer.append(rows.drop_columns(self._key_names))
        if self._may_buffer and sum(table.nbytes for table in self._buffer) <= _MAX_BUFFERED_BYTES:
            return
        # The rows are too large to return them to the driver. So the task writes the buffered rows now, and later batches immediately.
        self._may_buffer = False
        for table in self._buffer:
            self.file_writer.write(table)
        self._buffer = []

    def close(self) -> SourceMessage:
        """Finish the files, and return a message with the files, the buffered rows, and the keys if they are not too many.

        The files are deleted if they are useless without keys.
        """
        if self._is_useless:
            delete_written(self.file_writer.abort(), self._spec.filesystem_options)
            return SourceMessage(self._row_count)
        message = message_fields(self.file_writer.close())
        rows = _ArrowStream()
        for table in self._buffer:
            rows.write(table)
        return SourceMessage(self._row_count, message, keys=self._keys.close(), rows=rows.close())


def rewrite_sink(spec: WriteSpec) -> BatchFunction:
    """Return the function for `DataFrame.mapInArrow` that rewrites files without their deleted rows. Each input row is a bin of files."""

    def rewrite(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = TaskMessage()
        with writing_task(spec):
            bin_rows = [bin_row for batch in batches for bin_row in batch.to_pylist()]
            message.files += write_bins(spec, [_bin_of(**bin_row) for bin_row in bin_rows], delete_written)
        yield _message_batch(message_fields(message))

    return rewrite


def _bin_of(paths: list[str], positions: list[bytes], partition: bytes, size: int) -> FileBin:
    """Return an input row of `rewrite_sink` as a bin.

    `positions`: the serialized bitmap of the deleted positions in the file of each path. `partition`: the pickled partition values.
    """
    return FileBin(dict(zip(paths, positions, strict=True)), pickle.loads(partition), size)


def address_filter(keys: tuple[PartitionKey, ...], column_names: tuple[str, ...], partitions: list[dict[str, Any]]) -> BatchFunction:
    """Return the function for `DataFrame.mapInArrow` that yields the addresses (file and position) of the rows of partitions.

    Args:
        keys: The partition fields.
        column_names: The names of the table's columns that the partition fields read. The input has them first, then the address.
        partitions: The values of each partition, by the name of the partition field.
    """
    searched_partitions = {comparable_partition(values) for values in partitions}
    address = ["__rowmerge_file", "__rowmerge_position"]

    def filter_addresses(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # A column of the table can have the name `file` or `position`.
            rows = pa.Table.from_batches([batch]).rename_columns([*column_names, *address])
            for values, partition_rows in split_by_partition(rows, keys, empty_is_null=False):
                if comparable_partition(values) in searched_partitions:
                    yield from partition_rows.select(address).rename_columns(["file", "position"]).to_batches()

    return filter_addresses


@contextmanager
def _delete_on_error(file_writer: OutcomeWriter, spec: WriteSpec) -> Iterator[None]:
    """Delete all files of the task if the body of the `with` statement raises an error."""
    try:
        yield
    except BaseException:
        delete_written(file_writer.abort(), spec.filesystem_options)
        raise


def _message_batch(fields: dict[str, Any]) -> pa.RecordBatch:
    """Return a batch of one row with the pickled report of a task."""
    return pa.record_batch([pa.array([pickle.dumps(report(fields))], pa.binary())], names=["message"])


class _ArrowStream:
    """Rows that are copied into one serialized Arrow stream as they arrive.

    PyArrow reads a batch into one buffer. A reference to a few of its columns would keep all of them in memory, so they are copied.
    """

    def __init__(self) -> None:
        self._stream = pa.BufferOutputStream()
        self._writer: pa.RecordBatchStreamWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Append a copy of rows to the stream. All rows of a stream have the same schema."""
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._stream, rows.schema)
        self._writer.write_table(rows)

    def close(self) -> bytes | None:
        """End the stream and return it, or None if it has no rows."""
        if self._writer is None:
            return None
        self._writer.close()
        return bytes(self._stream.getvalue())
