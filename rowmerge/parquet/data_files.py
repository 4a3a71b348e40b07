"""The settings with which data files are written, the messages about written files, and the row lineage of files."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.parquet.filesystems import Options, filesystem_of, safe_reason
from rowmerge.parquet.leaf_columns import ColumnOptions
from rowmerge.parquet.partitions import HashedPaths, PartitionKey

ROW_ID, CHANGED_IN = "__rowmerge_row_id", "__rowmerge_changed_in"
"""The names of the two hidden columns of row lineage: the id of the row, and the version that last changed it."""
UNWRITABLE = "rowmerge cannot write"


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
        target_file_size: The size in bytes at which the writer starts a new file. The last file of a partition is smaller.
        row_group_size: The size of a row group in bytes of Arrow data.
        compression: The codec of Parquet pages.
        compression_level: The level of the codec, None for the codec's default.
        format_version: The version of the Parquet format, as Arrow names it.
        random_prefix_length: The length of the random folder name of each file; None for folders of partitions.
        page_arguments: The arguments of PyArrow's Parquet writer about pages.
        column_options: The dictionaries, statistics and Bloom filters of columns.
        prefix: The prefix of file names.
        attempt: A UUID in the names of all files of one job.
        marker: The path of a file with this UUID, which tasks read before they write (see `rowmerge.spark.writing.jobs`), or "".
        is_ordered: Whether the rows arrive in the table's sort order.
        stored_columns_by_path: By path, the columns of the existing files that do not identify columns in the same way as new files.
        lineage: The row lineage of the files from which rows come, None for a table without row lineage. If it is set, `schema` and
            `file_schema` end with the hidden columns.
        initial_values: By name in the table, the values of columns for files that lack them, as arrays of one value.
        late_columns: The names of the columns whose values the writer reads from the files of updated rows (`values_at`).
        path_by_file: By the name of each file in outcome rows, the path from which the writer reads `late_columns`.
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
    marker: str = ""
    is_ordered: bool = False
    stored_columns_by_path: dict[str, StoredColumns] = field(default_factory=dict)
    lineage: FilesLineage | None = None
    initial_values: dict[str, pa.Array] = field(default_factory=dict)
    late_columns: tuple[str, ...] = ()
    path_by_file: dict[str, str] = field(default_factory=dict)
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


class UnwritableFile(Exception):
    """Raised when an executor cannot write data files.

    Remedy: No action is needed. Spark passes the error message to the driver, which raises `StorageError`.

    `host`: The name of the executor's host. `path`: The folder or file. `reason`: Why it cannot be written, None if the executor does not
    see the marker of the driver.
    """

    def __init__(self, host: str, path: str, reason: str | None) -> None:
        self.host, self.path, self.reason = host, path, reason
        super().__init__(f"{UNWRITABLE} {json.dumps([host, path, reason])}")


@contextmanager
def writing_task(spec: WriteSpec) -> Iterator[None]:
    """Check that a task sees the folder of the driver, and then write its files in the body of the `with` statement.

    Args:
        spec: The settings with which data files are written.

    Raises:
        UnwritableFile: The folder is another one than that of the driver, or a file cannot be written.
    """
    host = socket.gethostname()
    if spec.marker:
        try:
            is_same_folder = Path(spec.marker.removeprefix("file://")).read_text() == spec.attempt
        except FileNotFoundError:
            is_same_folder = False
        except OSError as error:
            raise UnwritableFile(host, spec.root, str(error)) from error
        if not is_same_folder:
            raise UnwritableFile(host, spec.root, None)
    try:
        yield
    except OSError as error:
        raise UnwritableFile(host, spec.root, safe_reason(str(error), spec.filesystem_options)) from error


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
