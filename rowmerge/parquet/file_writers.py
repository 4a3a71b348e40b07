"""Divide rows by partition, and write the rows of each partition into Parquet files of the target size."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.parquet.data_files import FileMessage, WriteSpec
from rowmerge.parquet.dictionaries import DEFAULT_BYTES, columns_without_dictionary, decoded_bytes, with_one_dictionary
from rowmerge.parquet.filesystems import filesystem_of, hiding_secrets
from rowmerge.parquet.fitting import conform, to_file_rows
from rowmerge.parquet.leaf_columns import Leaf, SpecialFloats, column_statistics, leaves, row_group_offsets
from rowmerge.parquet.partitions import comparable_partition, partition_path, random_prefix, split_by_partition

_LOCAL_THREADS = 2
"""The number of threads that finish files on a local disk."""
_MAX_BUFFERED_ROW_GROUPS = 4
"""The maximum size of the buffered rows of all partitions together, as a multiple of the size of a row group."""
_FILLED_SHARE, _MAX_FILLED_SHARE = 1.03, 1.08
"""The size to which rows fill a file, and the maximum size to which the last rows of a partition do, as multiples of the target size.

The first is above 1, so that compaction regards files as complete although their compression was only estimated.
"""
_MIN_ROW_GROUP_BYTES = 1024 * 1024
"""The minimum size in memory of the row group of a file whose footer takes more than half of the target size."""
_MAX_ROW_GROUP_SHARE = 1.25
"""The maximum size of the last row group of a file, as a multiple of the size of a row group."""
_FOOTER_BYTES_OF_CHUNK = 165
"""The estimated size of the footer of a file for one column of one row group in bytes, with the page index, until a file is finished."""
_FIRST_COMPRESSION_RATIO, _MIN_COMPRESSION_RATIO = 1.25, 1e-4
"""The assumed compression ratio of the first row group, and the minimum of later ones.

The pages of random values can be larger than the values in memory, because a column of few rows has a dictionary even if it does not help.
"""


class RollingFile:
    """A writer of the rows of one partition, which starts a new Parquet file when a file reaches the target size.

    Row groups of the size that the table sets fill a file up to the last one, which is smaller. Its number of rows follows from the ratio
    between the sizes of earlier row groups in the file and in memory. So files are slightly larger than the target size.
    """

    def __init__(self, spec: WriteSpec, columns: Sequence[Leaf], partition: dict[str, Any]) -> None:
        self._spec, self._leaves, self._partition = spec, columns, partition
        self._pending: list[pa.Table] = []
        self.buffered_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._stream: Any = None
        self._path = ""
        self._special_floats = SpecialFloats()
        self._footers: list[pq.FileMetaData] = []
        self._finished: list[FileMessage] = []
        self._row_group_count = self._written_bytes = 0  # the row groups of the open file, and their size in memory
        self._compression_ratio = _FIRST_COMPRESSION_RATIO
        """The size of the row groups in the open or previous file, divided by their size in memory."""
        self._footer_bytes_of_row_group = _FOOTER_BYTES_OF_CHUNK * len(self._leaves)

    def write(self, rows: pa.Table) -> None:
        """Add rows to the buffer. Write the buffered rows once they fill a row group.

        Text columns may be codes with a dictionary. If one is, it must be so in all calls.
        """
        self._pending.append(rows)
        self.buffered_bytes += decoded_bytes(rows)
        while self.buffered_bytes >= (row_group_bytes := self._bytes_of_next_row_group()):
            self._write_row_group(row_group_bytes)

    def flush(self) -> None:
        """Write the buffered rows as one row group, or as several if they exceed the size of a row group."""
        while self._pending:
            if self._may_end_open_file():
                self._write_row_group(self.buffered_bytes, in_open_file=True)
            else:
                self._write_row_group(self._bytes_of_next_row_group())

    @property
    def _file_size(self) -> int:
        """The size that the open file has after it is closed. The size of its footer is an estimate."""
        return 0 if self._writer is None else self._stream.tell() + self._footer_bytes_of_row_group * self._row_group_count

    @property
    def _is_full(self) -> bool:
        """Whether the open file has the target size, or would exceed it by the footer of another row group, as in wide tables."""
        target, file_size = self._spec.target_file_size, self._file_size
        return file_size >= target or file_size + self._footer_bytes_of_row_group > target * _MAX_FILLED_SHARE

    def _bytes_of_next_row_group(self) -> float:
        """Return the size in memory of the next row group: a whole one or, at the end of a file, one that fills the file."""
        file_size = 0 if self._is_full else self._file_size
        space = self._spec.target_file_size * _FILLED_SHARE - file_size - self._footer_bytes_of_row_group
        row_group_size = self._spec.row_group_size
        # The footer of a wide table can exceed the target size. Its files have one row group, but not one row.
        is_footer_large = file_size == 0 and space < self._spec.target_file_size / 2
        bytes_until_filled = max(space / self._compression_ratio, min(row_group_size, _MIN_ROW_GROUP_BYTES) if is_footer_large else 1)
        # A row group that is slightly larger prevents a small one at the end of the file.
        return bytes_until_filled if bytes_until_filled <= row_group_size * _MAX_ROW_GROUP_SHARE else row_group_size

    def _may_end_open_file(self) -> bool:
        """Return whether the buffered rows fit into the open file, so that the last rows of a partition do not make a small file."""
        if self._writer is None or self.buffered_bytes > self._spec.row_group_size * _MAX_ROW_GROUP_SHARE:
            return False
        return self._file_size + self.buffered_bytes * self._compression_ratio <= self._spec.target_file_size * _MAX_FILLED_SHARE

    def _write_row_group(self, row_group_bytes: float, *, in_open_file: bool = False) -> None:
        """Write the first buffered rows as a row group, into a new file if the open file has the target size.

        Args:
            row_group_bytes: The size of the row group in memory. The other rows stay in the buffer.
            in_open_file: Whether to write into the open file even if it has the target size.
        """
        if self._writer is not None and self._is_full and not in_open_file:
            self._finish()
        buffered_rows = pa.concat_tables(self._pending)
        row_count = buffered_rows.num_rows
        if row_group_bytes < self.buffered_bytes:
            row_count = max(int(row_count * row_group_bytes / self.buffered_bytes), 1)
        rows, other_rows = buffered_rows.slice(0, row_count), buffered_rows.slice(row_count)
        self._pending, other_bytes = ([other_rows], decoded_bytes(other_rows)) if other_rows.num_rows else ([], 0)
        size_in_memory, self.buffered_bytes = self.buffered_bytes - other_bytes, other_bytes
        with hiding_secrets(self._spec.filesystem_options):
            file_rows = to_file_rows(with_one_dictionary(rows), self._spec.file_schema)
            self._writer_for(SpecialFloats.of(rows), file_rows).write_table(file_rows, row_group_size=row_count)
        self._row_group_count += 1
        self._written_bytes += size_in_memory
        self._compression_ratio = max(self._stream.tell() / max(self._written_bytes, 1), _MIN_COMPRESSION_RATIO)

    def _writer_for(self, special_floats: SpecialFloats, rows: pa.Table) -> pq.ParquetWriter:
        """Return the writer of the open file if it may contain NaN and -0.0 in these columns. Otherwise, return one of a new file.

        `rows`: the next row group, with the names and types of the file.
        """
        if self._writer is not None and not special_floats <= self._special_floats:
            self._finish()
        if self._writer is None:
            self._stream = self._open_stream()
            self._writer = self._open_writer(special_floats, rows)
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

    def _open_writer(self, special_floats: SpecialFloats, rows: pa.Table) -> pq.ParquetWriter:
        """Open a Parquet writer on the open stream. It stores timestamps and decimals in the same way as Spark.

        Args:
            special_floats: The columns of the first row group with NaN and -0.0.
            rows: The first row group, with the names and types of the file. Its values decide which columns have dictionaries. Its number
                of rows is the number of values in Bloom filters by default.
        """
        max_dictionary_bytes = int(self._spec.page_arguments.get("dictionary_pagesize_limit", DEFAULT_BYTES))
        useless_dictionaries = columns_without_dictionary(rows, max_dictionary_bytes)
        return pq.ParquetWriter(
            self._stream,
            rows.schema,
            compression=self._spec.compression,
            compression_level=self._spec.compression_level,
            version=self._spec.format_version,
            coerce_timestamps="us",
            store_schema=False,
            store_decimal_as_integer=True,
            metadata_collector=self._footers,
            write_page_index=True,  # readers that search for a few keys use it to skip pages
            **self._spec.page_arguments,
            **self._spec.column_options.writer_arguments(self._leaves, special_floats, useless_dictionaries, rows.num_rows),
        )

    def _finish(self) -> None:
        """Close the open file, and keep a message for it with the statistics from its footer."""
        assert self._writer is not None
        start_of_footer = self._stream.tell()
        with hiding_secrets(self._spec.filesystem_options):
            self._writer.close()  # adds the footer to `_footers`
            size = self._stream.tell()
            self._stream.close()
        self._footer_bytes_of_row_group = (size - start_of_footer) // self._row_group_count
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
        self._writer, self._row_group_count, self._written_bytes = None, 0, 0


class PartitionedWriter:
    """A writer that divides rows by partition and writes them into Parquet files. One file is open for each partition."""

    def __init__(self, spec: WriteSpec) -> None:
        self.spec = spec
        self._leaves = list(leaves(pa.struct(list(spec.schema)), pa.struct(list(spec.file_schema))))
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
        key = comparable_partition(partition)
        if key not in self._open:
            self._open[key] = RollingFile(self.spec, self._leaves, partition)
        return self._open[key]

    def close(self) -> list[FileMessage]:
        """Finish all files in several threads, because a table may have thousands of partitions. Return a message for each file."""
        threads = _LOCAL_THREADS if self.spec.root.startswith("file:") else STORE_THREADS
        return [message for messages in map_in_batches(RollingFile.close, list(self._open.values()), threads) for message in messages]

    def abort(self) -> list[str]:
        """Close all files, and return their paths for the caller to delete."""
        return [path for file in self._open.values() for path in file.abort()]
