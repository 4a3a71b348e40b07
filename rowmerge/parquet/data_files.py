"""Write rows into Parquet files of a target size for each partition, and collect the statistics of the files."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.parquet.filesystems import Options, filesystem_of
from rowmerge.parquet.fitting import conform, to_file_rows
from rowmerge.parquet.leaf_columns import ColumnOptions, SpecialFloats, column_statistics, leaves, row_group_offsets
from rowmerge.parquet.partitions import HashedPaths, PartitionKey, partition_path, random_prefix, split_by_partition

ROW_ID, CHANGED_IN = "__rowmerge_row_id", "__rowmerge_changed_in"
"""The names of the two hidden columns of row lineage: the id of the row, and the version that last changed it."""
_LOCAL_THREADS = 2
"""The number of threads that finish files on a local disk."""
_MAX_BUFFERED_ROW_GROUPS = 4
"""The maximum size of the buffered rows of all partitions together, as a multiple of the size of a row group."""


@dataclass(frozen=True)
class StoredColumns:
    """The columns of `WriteSpec.schema` as an existing file stores them.

    Attributes:
        file_schema: The columns in the order of the table, with the names, field ids and types that they have in the file.
        by_field_id: Whether readers identify the file's columns by field id instead of name.
        missing_columns: The names, in the table, of the columns that the file lacks, because their values are partition values.
    """

    file_schema: pa.Schema
    by_field_id: bool
    missing_columns: tuple[str, ...]


@dataclass(frozen=True)
class FilesLineage:
    """The row lineage of data files: the ids of their rows, and the versions that last changed the rows.

    Both are derived from the file and the position of a row until the row moves to another file. That file then stores the id of the row in
    a hidden column, and for an unchanged row also the version (`TableShape.row_lineage`). See "Row Lineage" in the Iceberg specification
    and "Row Tracking" in the Delta protocol.

    Attributes:
        origins: By path, the id of the first row of a file, and the version that last changed its rows. The id is None if the rows have no
            ids.
    """

    origins: dict[str, tuple[int | None, int]] = field(default_factory=dict)

    def ids_and_versions(self, paths: pa.Array, positions: pa.Array, ids: pa.Array, versions: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the ids of rows, and the versions that last changed them, as two int64 arrays.

        Both are NULL for a row without an id: its file does not store one, and `origins` has no first id for the file.

        Args:
            paths: The path of each row's file, NULL for an inserted row.
            positions: The position of each row in its file.
            ids: The id that the file stores for each row. NULL means the id of the file's first row plus the position.
            versions: The version that the file stores for each row. NULL means the version of the file in `origins`.
        """
        encoded_paths = pc.dictionary_encode(paths)
        origins = [self.origins.get(path, (None, 0)) for path in encoded_paths.dictionary.to_pylist()]
        first_ids = pc.take(pa.array([first_id for first_id, _ in origins], pa.int64()), encoded_paths.indices)
        file_versions = pc.take(pa.array([version for _, version in origins], pa.int64()), encoded_paths.indices)
        row_ids = pc.coalesce(ids, pc.add(first_ids, positions.cast(pa.int64())))
        row_versions = pc.coalesce(versions, file_versions)
        return row_ids, pc.if_else(pc.is_valid(row_ids), row_versions, pa.scalar(None, pa.int64()))

    def fill_row_lineage(self, rows: pa.Table, path: str, start: int) -> pa.Table:
        """Return consecutive rows of one file, with complete hidden columns of row lineage.

        The hidden columns are ROW_ID, the id of the row, and CHANGED_IN, the version that last changed the row. In the input, they are NULL
        where the file does not store a value. The value then follows from the file and the position of the row (`ids_and_versions`).

        Args:
            rows: The rows as read from the file.
            path: The path of the file.
            start: The position of the first row in the file.
        """
        paths = pa.repeat(pa.scalar(path, pa.string()), rows.num_rows)
        positions = pa.array(np.arange(start, start + rows.num_rows, dtype=np.int64))
        stored_ids, stored_versions = rows[ROW_ID].combine_chunks(), rows[CHANGED_IN].combine_chunks()
        return with_lineage(rows, *self.ids_and_versions(paths, positions, stored_ids, stored_versions))


@dataclass(frozen=True)
class WriteSpec:
    """The settings with which data files of a table are written.

    Attributes:
        root: The folder of the table's data files.
        names: The names of the table's columns, in the order of the schema.
        schema: The columns of a data file, under the names that they have in the table.
        file_schema: The same columns, with the names, field ids and types that they have in the file.
        by_field_id: Whether readers identify columns by field id instead of name.
        partition: The partition fields.
        partition_values_in_files: Whether data files also contain the partition columns. If true, partition values and folders have the
            format of Iceberg, otherwise that of Delta.
        bounded_columns: The top-level columns whose bounds and null counts are collected.
        hashed_paths: The form of paths that begin with a hash, None for paths that begin with the folder of the partition.
        target_file_size: The size in bytes at which the writer starts a new file.
        row_group_size: The size of a row group in bytes of Arrow data.
        compression: The codec of Parquet pages.
        compression_level: The level of the codec, None for the codec's default.
        format_version: The version of the Parquet format, as Arrow names it.
        random_prefix_length: The length of the random folder name of each file; None for folders of partitions.
        page_arguments: The arguments of PyArrow's Parquet writer about pages.
        column_options: The dictionaries, statistics and Bloom filters of columns.
        prefix: The prefix of file names.
        attempt: A UUID in the names of all files of one job.
        is_ordered: Whether the rows arrive in the table's sort order.
        stored_columns_by_path: By path, the columns of the existing files that do not identify columns in the same way as new files.
        lineage: The row lineage of the files from which rows come, None for a table without row lineage. If it is set, `schema` and
            `file_schema` end with the hidden columns.
        initial_values: By name in the table, the values of columns for files that lack them, as arrays of one value.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
    """

    root: str
    names: tuple[str, ...]
    schema: pa.Schema
    file_schema: pa.Schema
    by_field_id: bool
    partition: tuple[PartitionKey, ...]
    partition_values_in_files: bool
    bounded_columns: frozenset[str]
    hashed_paths: HashedPaths | None = None
    target_file_size: int = 128 * 1024 * 1024
    row_group_size: int = 64 * 1024 * 1024
    compression: str = "zstd"
    compression_level: int | None = None
    format_version: str = "2.6"
    random_prefix_length: int | None = None
    page_arguments: dict[str, int | str] = field(default_factory=dict)
    column_options: ColumnOptions = field(default_factory=ColumnOptions)
    prefix: str = "part"
    attempt: str = ""
    is_ordered: bool = False
    stored_columns_by_path: dict[str, StoredColumns] = field(default_factory=dict)
    lineage: FilesLineage | None = None
    initial_values: dict[str, pa.Array] = field(default_factory=dict)
    filesystem_options: Options = field(default_factory=dict, repr=False)


@dataclass
class FileMessage:
    """A written file, with the statistics that the driver needs for the table's metadata. Values are plain Python objects.

    Statistics are dictionaries by column name, with a nested dictionary for a column that has fields.

    Attributes:
        path: The absolute path.
        size: The size in bytes.
        records: The number of rows.
        partition: The partition values by field name.
        lower: The lower bounds of the columns.
        upper: The upper bounds of the columns.
        nulls: The null counts of the columns.
        sizes: The compressed sizes of the columns in bytes.
        ordered: Whether the rows are in the table's sort order.
        split_offsets: The offset of each row group in the file, in ascending order.
    """

    path: str
    size: int
    records: int
    partition: dict[str, Any]
    lower: dict[str, Any]
    upper: dict[str, Any]
    nulls: dict[str, Any]
    sizes: dict[str, Any]
    ordered: bool
    split_offsets: tuple[int, ...]


class PartitionedWriter:
    """A writer that divides rows by partition and writes them into Parquet files. One file is open for each partition."""

    def __init__(self, spec: WriteSpec) -> None:
        self.spec = spec
        self._open: dict[Any, RollingFile] = {}
        self._buffered_bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Write rows into files of their partitions. The rows must have all columns of the table."""
        keys, empty_is_null = self.spec.partition, not self.spec.partition_values_in_files
        rows_by_partition = split_by_partition(rows, keys, empty_is_null=empty_is_null) if keys else [({}, rows)]
        for partition, partition_rows in rows_by_partition:
            self.write_partition(partition, partition_rows.select(self.spec.schema.names))

    def write_partition(self, partition: dict[str, Any], rows: pa.Table) -> None:
        """Write rows of one partition. The rows are buffered until they fill a row group, or until all partitions buffer too many bytes.

        Args:
            partition: The partition values by field name.
            rows: The rows of the partition, with the columns of `WriteSpec.schema`.
        """
        if rows.num_rows == 0:
            return
        file = self._file_of(partition)
        bytes_before = file.buffered_bytes
        file.write(conform(rows, self.spec.schema))
        self._buffered_bytes += file.buffered_bytes - bytes_before  # negative if the file has written a row group
        if self._buffered_bytes > _MAX_BUFFERED_ROW_GROUPS * self.spec.row_group_size:
            # The file with the most buffered bytes gets a large row group. Small row groups would make files larger and reads slower.
            fullest = max(self._open.values(), key=lambda file: file.buffered_bytes)
            self._buffered_bytes -= fullest.buffered_bytes
            fullest.flush()

    def _file_of(self, partition: dict[str, Any]) -> RollingFile:
        """Return the open file of a partition, or open one."""
        # A NaN is not equal to itself, so it would not find the file that was opened for it.
        key = tuple("NaN" if value != value else value for value in partition.values())
        if key not in self._open:
            self._open[key] = RollingFile(self.spec, partition)
        return self._open[key]

    def close(self) -> list[FileMessage]:
        """Finish all files in several threads, because a table may have thousands of partitions. Return a message for each file."""
        threads = _LOCAL_THREADS if self.spec.root.startswith("file:") else STORE_THREADS
        return [message for messages in map_in_batches(RollingFile.close, list(self._open.values()), threads) for message in messages]

    def abort(self) -> list[str]:
        """Close all files, and return their paths for the caller to delete."""
        return [path for file in self._open.values() for path in file.abort()]


class RollingFile:
    """A writer of the rows of one partition, which starts a new Parquet file when a file reaches the target size."""

    def __init__(self, spec: WriteSpec, partition: dict[str, Any]) -> None:
        self._spec, self._partition = spec, partition
        self._leaves = list(leaves(pa.struct(list(spec.schema)), pa.struct(list(spec.file_schema))))
        self._pending: list[pa.Table] = []
        self.buffered_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._stream: Any = None
        self._path = ""
        self._special_floats = SpecialFloats()
        self._footers: list[pq.FileMetaData] = []
        self._finished: list[FileMessage] = []

    def write(self, rows: pa.Table) -> None:
        """Add rows to the buffer. Write the buffered rows once they fill a row group."""
        self._pending.append(rows)
        self.buffered_bytes += rows.nbytes
        if self.buffered_bytes >= self._spec.row_group_size:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows as one row group, or as several if they exceed the size of a row group."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        row_groups = max(self.buffered_bytes // self._spec.row_group_size, 1)
        self._pending, self.buffered_bytes = [], 0
        rows_per_group = -(-rows.num_rows // row_groups)  # rounded up
        writer = self._writer_for(SpecialFloats.of(rows), rows_per_group)
        writer.write_table(to_file_rows(rows, self._spec.file_schema), row_group_size=rows_per_group)
        if self._stream.tell() >= self._spec.target_file_size:
            self._finish()

    def _writer_for(self, special_floats: SpecialFloats, rows_per_group: int) -> pq.ParquetWriter:
        """Return the writer of the open file if it may contain NaN and -0.0 in these columns. Otherwise, return one of a new file.

        `rows_per_group`: the number of rows in the next row group, which is the number of values in Bloom filters by default.
        """
        if self._writer is not None and not special_floats <= self._special_floats:
            self._finish()
        if self._writer is None:
            self._stream = self._open_stream()
            self._writer = self._open_writer(special_floats, rows_per_group)
            self._special_floats = special_floats
        return self._writer

    def close(self) -> list[FileMessage]:
        """Write the buffered rows, finish the open file, and return a message for each file of this partition."""
        self.flush()
        if self._writer is not None:
            self._finish()
        return self._finished

    def abort(self) -> list[str]:
        """Close the open file, and return the paths of all files of this partition."""
        paths = [file.path for file in self._finished]
        if self._writer is not None:
            paths.append(self._path)
            for opened in (self._writer, self._stream):
                # The footer cannot be written to a full disk, and a failed writer has no metadata.
                with suppress(OSError, RuntimeError, pa.ArrowException):
                    opened.close()
        return paths

    def _open_stream(self) -> Any:
        """Open a new file in the partition's folder or in a random folder, and keep its path in `_path`."""
        if self._spec.random_prefix_length is None:
            folder = partition_path(self._spec.partition, self._partition, as_hive=not self._spec.partition_values_in_files)
        else:
            folder = random_prefix(self._spec.random_prefix_length)
        unique = f"{self._spec.attempt}-{uuid.uuid4().hex[:12]}" if self._spec.attempt else str(uuid.uuid4())
        name = f"{self._spec.prefix}-{len(self._finished):05d}-{unique}.c000.{self._spec.compression}.parquet"
        hashed_paths = self._spec.hashed_paths
        file_path = "/".join(filter(None, (folder, name))) if hashed_paths is None else hashed_paths.path(folder, name)
        self._path = f"{self._spec.root}/{file_path}"
        filesystem, inner_path = filesystem_of(self._path, self._spec.filesystem_options)
        if self._path.startswith("file:"):
            os.makedirs(os.path.dirname(inner_path), exist_ok=True)
        return filesystem.open_output_stream(inner_path)

    def _open_writer(self, special_floats: SpecialFloats, rows_per_group: int) -> pq.ParquetWriter:
        """Return a Parquet writer for the open stream. Timestamps and decimals are stored in the same way as in files of Spark."""
        return pq.ParquetWriter(
            self._stream,
            self._spec.file_schema,
            compression=self._spec.compression,
            compression_level=self._spec.compression_level,
            version=self._spec.format_version,
            coerce_timestamps="us",
            store_schema=False,
            store_decimal_as_integer=True,
            metadata_collector=self._footers,
            write_page_index=True,  # readers that search for a few keys use it to skip pages
            **self._spec.page_arguments,
            **self._spec.column_options.writer_arguments(self._leaves, special_floats, rows_per_group),
        )

    def _finish(self) -> None:
        """Close the open file, and keep a message for it with the statistics from its footer."""
        assert self._writer is not None
        self._writer.close()  # adds the footer to `_footers`
        size = self._stream.tell()
        self._stream.close()
        footer = self._footers.pop()
        statistics = column_statistics(footer, self._leaves, self._spec.bounded_columns)  # by attribute of `FileMessage`
        message = FileMessage(
            self._path,
            size,
            footer.num_rows,
            self._partition,
            ordered=self._spec.is_ordered,
            split_offsets=row_group_offsets(footer),
            **statistics,
        )
        self._finished.append(message)
        self._writer = None


def with_lineage(rows: pa.Table, row_ids: pa.Array, row_versions: pa.Array) -> pa.Table:
    """Set or append the hidden columns of row lineage: ROW_ID and CHANGED_IN (the row commit version or last updated sequence number).

    Args:
        rows: The rows, with or without the hidden columns.
        row_ids: The id of each row.
        row_versions: The version of the table that last changed each row.
    """
    for name, lineage_column in ((ROW_ID, row_ids), (CHANGED_IN, row_versions)):
        index = rows.schema.get_field_index(name)
        rows = rows.append_column(name, lineage_column) if index < 0 else rows.set_column(index, name, lineage_column)
    return rows


def delete_written(paths: list[str], filesystem_options: Options) -> None:
    """Delete files that a task on an executor wrote. VACUUM deletes files that remain because of an error.

    This function does not use the module `rowmerge.storage.deletion`, which does not exist on executors.

    Args:
        paths: The absolute paths of the files.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
    """
    for path in paths:
        filesystem, inner_path = filesystem_of(path, filesystem_options)
        with suppress(OSError):
            filesystem.delete_file(inner_path)
