"""Read data files with Arrow: batches contain the live rows of one or several files, with the names and types of the table.

A small file is read with one request, and a large one in parts. Many small files are the main purpose.
Spark's Parquet reader takes about two milliseconds to open a file, and this reader a quarter of one. Executors run this module, and
the driver does if it rewrites several files or looks up keys in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from rowmerge.concurrency import map_ahead
from rowmerge.parquet.calendars import to_gregorian
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.filesystems import MAX_CONTENT_BYTES, Options, UnreadableFile, filesystem_of, read_tables, safe_reason
from rowmerge.parquet.fitting import file_column_indexes, has_field_ids, to_table_rows

PATH, FILE_NAME, DELETED, PARTITION_PREFIX = "path", "file_name", "deleted", "partition "
"""The columns of a list of files: the path, the file's value in the first address column, and the positions of deleted rows as the bytes of
an ascending int64 array, or NULL. A partition column that the files lack is also in the list, under its name with a prefix."""
FILE_INDEX, ROW_POSITION = "\0file index", "\0row position"
"""The names of the address columns of `indexed_files`, which no column of a table has: a row's file index and position."""
_BATCH_ROWS, _BATCH_BYTES = 65_536, 16 * 1024 * 1024
"""A batch of rows is complete when it has one of these numbers of rows and bytes."""


@dataclass(frozen=True)
class SmallFilesSpec:
    """The columns that are read from data files of one layout, and the description of these columns in the files.

    Attributes:
        schema: The columns to read, under the names and with the types of the table.
        stored_columns: The same columns as the files store them.
        initial_values: By name in the table, the values of columns that a file lacks, as arrays of one value. Other values are NULL.
        address_columns: The names of two additional columns, for the name of a row's file and the row's position; empty for none.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
        uses_threads: Whether threads decode the columns of large row groups.
    """

    schema: pa.Schema
    stored_columns: StoredColumns
    initial_values: dict[str, pa.Array] = field(default_factory=dict)
    address_columns: tuple[str, ...] = ()
    filesystem_options: Options = field(default_factory=dict, repr=False)
    uses_threads: bool = False


@dataclass(frozen=True)
class _Piece:
    """Consecutive rows of a file. `index`: the index of the file in the list. `start`: the position of the first row in the file."""

    index: int
    start: int
    rows: pa.Table


def small_files_task(
    spec: SmallFilesSpec, file_lists: Sequence[bytes], ids_per_list: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `DataFrame.mapInArrow` that reads a list of files for each input row.

    Args:
        spec: The columns to read.
        file_lists: The lists of files, each as an Arrow stream of a table with the columns PATH, DELETED and others.
        ids_per_list: The number by which the value of an input row's first column is divided to get the index of its list.
    """

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = pa.ipc.open_stream(file_lists[number // ids_per_list]).read_all()
                yield from read_small_files(spec, files)

    return read


def indexed_files(paths: Sequence[str], deleted_positions: Sequence[np.ndarray[Any, Any]]) -> dict[str, pa.Array]:
    """Return the columns of a list of files for `read_small_files`, in which the name of a file is its index in the list.

    Args:
        paths: The absolute paths.
        deleted_positions: For each file, the positions of its deleted rows, as an ascending int64 array.
    """
    deleted = [positions.tobytes() for positions in deleted_positions]
    return {PATH: pa.array(paths), FILE_NAME: pa.array(range(len(paths)), pa.int64()), DELETED: pa.array(deleted, pa.binary())}


def read_small_files(spec: SmallFilesSpec, files: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of data files, in batches with rows of several files.

    Args:
        spec: The columns to read.
        files: The list of files.

    Raises:
        UnreadableFile: A file is missing or unreadable.
    """
    pending: list[_Piece] = []
    row_count, size = 0, 0
    deleted = [np.frombuffer(positions or b"", dtype=np.int64) for positions in files[DELETED].to_pylist()]
    for piece in _pieces(spec, files[PATH].to_pylist()):
        # Rows of files with one schema are converted together, because the conversion of a column takes a fixed time.
        has_other_schema = bool(pending) and not piece.rows.schema.equals(pending[0].rows.schema, check_metadata=True)
        if has_other_schema or row_count >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield from _live_rows(spec, files, pending, deleted)
            pending, row_count, size = [], 0, 0
        pending.append(piece)
        row_count, size = row_count + piece.rows.num_rows, size + piece.rows.nbytes
    if pending:
        yield from _live_rows(spec, files, pending, deleted)


def _pieces(spec: SmallFilesSpec, paths: Sequence[str]) -> Iterator[_Piece]:
    """Yield all rows of the files, with the columns of the files."""
    # While one file is decoded, threads wait for the bytes of the next files in a remote store.
    is_local = all(path.startswith("file:") for path in paths)
    reader, finder = _ContentReader(spec.filesystem_options), _ColumnFinder(spec)
    contents = map(reader.read, paths) if is_local else map_ahead(reader.read, paths)
    for index, (path, content) in enumerate(zip(paths, contents, strict=True)):
        start = 0
        try:
            for rows in _tables(spec, path, content, finder):
                yield _Piece(index, start, rows)
                start += rows.num_rows
        except (OSError, pa.ArrowException) as error:
            raise UnreadableFile(path, safe_reason(str(error), spec.filesystem_options)) from None


class _ContentReader:
    """A reader of files, which opens each file system once. One request for a small file is faster than one for each part of it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._filesystems: dict[str, tuple[pyarrow.fs.FileSystem, str]] = {}

    def read(self, path: str) -> pa.NativeFile:
        """Return a small file as a reader of its content in memory, and a large file as an open file. Raises UnreadableFile."""
        scheme, authority, key = path.replace("://", "/", 1).split("/", 2)
        root = f"{scheme}://{authority}/"
        try:
            if root not in self._filesystems:
                self._filesystems[root] = filesystem_of(root, self._options)
            filesystem, inner_root = self._filesystems[root]
            file = filesystem.open_input_file(f"{inner_root}{key}")
            return file if file.size() > MAX_CONTENT_BYTES else pa.BufferReader(file.read_buffer())
        except FileNotFoundError:
            raise UnreadableFile(path, None) from None
        except (OSError, pa.ArrowException) as error:
            raise UnreadableFile(path, safe_reason(str(error), self._options)) from None


class _ColumnFinder:
    """A finder of the columns of `SmallFilesSpec` in files. Consecutive files with the same schema need one search."""

    def __init__(self, spec: SmallFilesSpec) -> None:
        self._spec = spec
        self._file_schema = pa.schema([])
        self._columns: list[str] = []

    def find(self, file_schema: pa.Schema) -> list[str]:
        """Return the names of the columns in a file that has this schema."""
        if not self._columns or not file_schema.equals(self._file_schema, check_metadata=True):
            self._file_schema, self._columns = file_schema, self._search(file_schema)
        return self._columns

    def _search(self, file_schema: pa.Schema) -> list[str]:
        stored_columns = self._spec.stored_columns
        indexes = file_column_indexes(file_schema, stored_columns.file_schema, by_field_id=stored_columns.by_field_id)
        columns = [file_schema.field(index).name for index in indexes if index is not None]
        # Without a column, batches would have no number of rows. The conversion ignores an additional column.
        return columns or file_schema.names[:1]


def _tables(spec: SmallFilesSpec, path: str, content: pa.NativeFile, finder: _ColumnFinder) -> Iterator[pa.Table]:
    """Yield the rows of a file with the columns of `spec` that it contains. Raises UnreadableFile if it has no field ids."""
    source = pq.ParquetFile(content, coerce_int96_timestamp_unit="us")
    if spec.stored_columns.by_field_id and not has_field_ids(source.schema_arrow):
        raise UnreadableFile(path, "its columns have no field ids")
    columns, groups = finder.find(source.schema_arrow), range(source.num_row_groups)
    for rows in read_tables(source, columns, groups, batch_rows=_BATCH_ROWS, use_threads=spec.uses_threads):
        yield to_gregorian(rows.replace_schema_metadata(None), source.metadata.metadata)


def _live_rows(
    spec: SmallFilesSpec, files: pa.Table, pieces: Sequence[_Piece], deleted: Sequence[np.ndarray[Any, Any]]
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of pieces that have one schema, with the columns of the table and the address columns.

    `deleted`: the positions of the deleted rows of each of `files`.
    """
    schema, by_field_id = spec.stored_columns.file_schema, spec.stored_columns.by_field_id
    file_rows = pa.concat_tables([piece.rows for piece in pieces]).combine_chunks()
    rows = to_table_rows(file_rows, spec.schema, schema, by_field_id=by_field_id, initial_values=spec.initial_values)
    file_of_row = pa.array(np.repeat([piece.index for piece in pieces], [piece.rows.num_rows for piece in pieces]))
    for name in spec.stored_columns.missing_columns:
        index = rows.schema.get_field_index(name)
        if index >= 0:
            column = rows.schema.field(index)
            rows = rows.set_column(index, column, files[f"{PARTITION_PREFIX}{name}"].take(file_of_row).cast(column.type))
    if spec.address_columns:
        positions = [np.arange(piece.start, piece.start + piece.rows.num_rows, dtype=np.int64) for piece in pieces]
        path_column, position_column = spec.address_columns
        rows = rows.append_column(path_column, files[FILE_NAME].take(file_of_row))
        rows = rows.append_column(position_column, pa.array(np.concatenate(positions)))
    live_rows = _without_deleted(rows, [deleted[piece.index] for piece in pieces], pieces)
    yield from live_rows.combine_chunks().to_batches()


def _without_deleted(rows: pa.Table, deleted: Sequence[np.ndarray[Any, Any]], pieces: Sequence[_Piece]) -> pa.Table:
    """Return rows without those at deleted positions. `deleted`: the positions in the file of each piece."""
    if not any(map(len, deleted)):
        return rows
    is_live = np.ones(rows.num_rows, dtype=bool)
    offset = 0
    for positions, piece in zip(deleted, pieces, strict=True):
        first, end = np.searchsorted(positions, [piece.start, piece.start + piece.rows.num_rows])
        is_live[positions[first:end] - piece.start + offset] = False
        offset += piece.rows.num_rows
    return rows.filter(pa.array(is_live))
