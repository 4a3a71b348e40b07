"""The readers, writers and functions of the format `rowmerge` that run on executors. Executors get this module by value.

`rowmerge.spark.executors` describes how. So module-level names may only come from PyArrow, PySpark, `rowmerge.parquet` and the standard
library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamArrowWriter, InputPartition, WriterCommitMessage

from rowmerge.parquet.data_files import WriteSpec, delete_written, writing_task
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.parquet.fitting import conform
from rowmerge.parquet.outcomes import TaskMessage, message_fields
from rowmerge.parquet.small_files import SmallFilesSpec, read_small_files
from rowmerge.spark.executors import report

BatchWriter = Callable[[Iterator[pa.RecordBatch]], Iterator[dict[str, Any]]]
"""A function that writes batches and yields the fields of one `TaskMessage`."""
TaskReader = Callable[[bytes], Iterator[pa.RecordBatch]]
"""A function that reads the files of a partition, given its pickled arguments."""

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class ExecutorReader(DataSourceReader):
    """The part of a reader that executors need."""

    def __init__(self, read_task: TaskReader) -> None:
        self._read_task = read_task

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        # For a table without files, Spark adds a partition without a value. In PySpark 4.1, it is None.
        return iter(()) if partition is None or partition.value is None else self._read_task(partition.value)


class ExecutorWriter(DataSourceStreamArrowWriter):
    """The part of a writer that executors need."""

    def __init__(self, write_task: BatchWriter) -> None:
        self._write_task = write_task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return commit_message(next(self._write_task(iterator)))


def commit_message(fields: dict[str, Any]) -> WriterCommitMessage:
    """Return a message whose attributes have built-in types, because executors cannot send instances of classes of rowmerge."""
    message = WriterCommitMessage()
    vars(message).update(fields)
    return message


def read_files(spec: SmallFilesSpec, file_list: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of data files.

    Args:
        spec: The columns to read.
        file_list: The files, as an Arrow stream of a table with the columns that `rowmerge.parquet.small_files` describes.
    """
    return read_small_files(spec, pa.ipc.open_stream(file_list).read_all())


def write_rows(
    spec: WriteSpec, schema: pa.Schema, sources: tuple[int | None, ...], not_null: tuple[tuple[str, ...], ...], shape_id: str
) -> BatchWriter:
    """Return the function that writes the rows of one task into data files.

    Args:
        spec: The settings with which data files are written.
        schema: The columns of the table, in its order.
        sources: For each column of the table, its index in the rows. A column with None becomes NULL.
        not_null: The paths of the columns and fields that must not be NULL.
        shape_id: The digest of the table's shape, which the message returns. The commit compares it with that of the newest version.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        with writing_task(spec):
            message = _write_batches(PartitionedWriter(spec), batches, schema, sources, not_null)
        yield {"report": report(message_fields(message)), "attempt": spec.attempt, "shape_id": shape_id}

    return write


def _write_batches(
    writer: PartitionedWriter, batches: Iterator[pa.RecordBatch], schema: pa.Schema, sources: tuple[int | None, ...], not_null: Any
) -> TaskMessage:
    """Write the rows of a task, and return the files. After an error, delete them. See `write_rows` for the arguments."""
    row_count = 0
    try:
        for batch in batches:
            if batch.num_rows:
                rows = _table_rows(batch, schema, sources)
                _check_not_null(rows, not_null)
                writer.write(rows)
                row_count += rows.num_rows
        return TaskMessage(files=writer.close(), inserted=row_count)
    except BaseException:
        delete_written(writer.abort(), writer.spec.filesystem_options)
        raise


def _table_rows(batch: pa.RecordBatch, schema: pa.Schema, sources: tuple[int | None, ...]) -> pa.Table:
    """Return a batch with the columns of the table. Spark's timestamps have the time zone of the session, but mean the same instants."""
    columns = [
        pa.nulls(batch.num_rows, field.type) if index is None else batch.column(index) for index, field in zip(sources, schema, strict=True)
    ]
    return conform(pa.table(columns, names=schema.names), schema)


def _check_not_null(rows: pa.Table, paths: tuple[tuple[str, ...], ...]) -> None:
    """Raise ValueError if a column or field that must not be NULL is NULL, or a struct around it."""
    for name, *fields in paths:
        column = rows[name]
        if (pc.struct_field(column, fields) if fields else column).null_count:
            raise ValueError(f"A row violates NOT NULL of column `{'.'.join((name, *fields))}`. Filter such rows, or fill in a value.")
