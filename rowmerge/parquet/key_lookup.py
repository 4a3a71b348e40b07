"""Use Arrow to look up the keys of a source in data files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.errors.tables import unreadable_data_file
from rowmerge.parquet.calendars import to_gregorian
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.filesystems import Options, UnreadableFile, open_data_file
from rowmerge.parquet.fitting import file_column_indexes, to_table_rows
from rowmerge.parquet.source_keys import FoundRows, NumpyArray, SourceKeys
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.snapshots.files import Positions

MAX_FOUND_ROWS, MAX_FOUND_BYTES = 2_000_000, 256 * 1024 * 1024
"""The maximum number of rows that Arrow passes to Spark, and their maximum size in bytes.

If more rows have a key of the source, Spark reads the table itself.
"""

Result = TypeVar("Result")


class TooManyRows(Exception):
    """Raised when more than MAX_FOUND_ROWS rows have a key of the source, or when the rows take more than MAX_FOUND_BYTES.

    Remedy: No action is needed. Spark joins the whole table instead.
    """


@dataclass(frozen=True)
class LookedUpFile:
    """A data file in which keys are looked up.

    Attributes:
        path: The absolute path.
        stored_columns: The columns that the lookup reads, as the file stores them.
        deleted: The positions of deleted rows in the file.
        partition: By column name, the partition values of columns that the file lacks.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
    """

    path: str
    stored_columns: StoredColumns
    deleted: Positions
    partition: Mapping[str, Any]
    filesystem_options: Options = field(default_factory=dict, repr=False)


class _Columns(NamedTuple):
    """The columns to read. `schema`: Their schema in the table. `file_schema`: Their schema in a file."""

    schema: pa.Schema
    file_schema: pa.Schema


class _RowGroupMatches(NamedTuple):
    """The live rows of a row group that have a key of the source.

    Attributes:
        group: The index of the row group in the file.
        start: The position in the file of the first row of the row group.
        key_table: The key columns of all rows of the row group.
        indexes: The indexes of the matching rows within the row group. The position in the file is `start` plus the index.
        key_ids: The id of the key of each matching row (see `FoundRows`).
    """

    group: int
    start: int
    key_table: pa.Table
    indexes: NumpyArray
    key_ids: NumpyArray


def read_rows_with_keys(table: str, files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> pa.Table:
    """Return the live rows that have a key of the source, with the address of each row: its file and its position in the file.

    Args:
        table: The name of the table in error messages.
        files: The data files to read.
        columns: The table's columns to return, which include the key columns.
        keys: The keys of the source.

    Returns:
        The columns, followed by FILE and POSITION. FILE is the index of the file in `files` as a string such as "12". A path would take
        much more memory, because each row repeats it.

    Raises:
        MissingDataFile: A data file does not exist.
        UnreadableDataFile: A data file cannot be read.
        TooManyRows: More than MAX_FOUND_ROWS rows match, or they take more than MAX_FOUND_BYTES.
    """
    matching_rows: list[pa.Table] = []
    with closing(map_files(table, files, lambda file: _find_rows(file, columns, keys))) as matches_by_file:
        for file_index, row_groups in enumerate(matches_by_file):
            for rows, positions in row_groups:
                matching_rows.append(_with_addresses(rows, str(file_index), positions))
            _raise_if_too_many(matching_rows)
    if not matching_rows:
        return _with_addresses(columns.empty_table(), "", np.zeros(0, dtype=np.int64))
    return pa.concat_tables(matching_rows)


def _raise_if_too_many(tables: Sequence[pa.Table]) -> None:
    """Raise TooManyRows if the tables together have more than MAX_FOUND_ROWS rows or MAX_FOUND_BYTES bytes."""
    row_count, byte_count = sum(rows.num_rows for rows in tables), sum(rows.nbytes for rows in tables)
    if row_count > MAX_FOUND_ROWS or byte_count > MAX_FOUND_BYTES:
        raise TooManyRows


def map_files(table: str, files: Sequence[LookedUpFile], read: Callable[[LookedUpFile], Result]) -> Generator[Result, None, None]:
    """Apply `read` to files in several threads, and yield the results in the order of the files.

    Args:
        table: The name of the table in error messages.
        files: The data files. Files on a local disk are read by one thread for each core, and others by at least STORE_THREADS threads.
        read: A function that reads one file. It may raise UnreadableFile.

    Raises:
        MissingDataFile: A data file does not exist.
        UnreadableDataFile: A data file cannot be read.
    """
    cores = os.cpu_count() or 1
    threads = cores if all(file.path.startswith("file:") for file in files) else max(cores, STORE_THREADS)
    try:
        with closing(map_in_batches(read, files, threads)) as results:
            yield from results
    except UnreadableFile as error:
        raise unreadable_data_file(table, error.path, error.reason) from error


def _find_rows(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys) -> list[tuple[pa.Table, NumpyArray]]:
    """Return the matching rows and their positions in the file, for each row group that contains matching rows."""
    key_columns = _select(columns, file.stored_columns, keys.names)
    other_columns = _select(columns, file.stored_columns, set(columns.names).difference(keys.names))
    rows_by_group = []
    with open_data_file(file.path, file.filesystem_options, by_field_id=file.stored_columns.by_field_id) as source:
        for matches in _matching_rows(source, file, key_columns, keys):
            tables = [matches.key_table, _read_row_group(source, matches.group, other_columns, file)]
            rows = _take_rows(tables, pa.array(matches.indexes), columns)
            rows_by_group.append((rows, matches.indexes + matches.start))
    return rows_by_group


def _take_rows(tables: Sequence[pa.Table], indexes: pa.Array, columns: pa.Schema) -> pa.Table:
    """Return the rows at the indexes. Each of the `columns` is in one of the tables, which contain different columns of the same rows."""
    arrays: dict[str, pa.ChunkedArray] = {}
    for table in tables:
        arrays |= {name: table[name].take(indexes) for name in table.column_names}
    return pa.Table.from_arrays([arrays[name] for name in columns.names], schema=columns)


def find_positions(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys, *, with_key_ids: bool) -> tuple[Positions, NumpyArray]:
    """Return the positions of the live rows of a file that have a key of the source.

    The position of a row is its index in the file. The key id of a row is a number that two rows share if their keys are equal.

    Args:
        file: The data file.
        columns: Columns of the table, which include the key columns.
        keys: The keys of the source.
        with_key_ids: Whether to return key ids. A statement may delete so many rows that the ids of their keys do not fit into memory.

    Returns:
        The positions, and the key id of each row in the order of the positions. If `with_key_ids` is false, the array of ids is empty.
    """
    key_columns = _select(columns, file.stored_columns, keys.names)
    positions = Positions()
    key_ids = [np.zeros(0, dtype=np.int64)]  # `np.concatenate` needs at least one array
    with open_data_file(file.path, file.filesystem_options, by_field_id=file.stored_columns.by_field_id) as source:
        for matches in _matching_rows(source, file, key_columns, keys):
            positions.update((matches.start + matches.indexes).astype(np.uint64))  # positions in the file
            if with_key_ids:
                key_ids.append(matches.key_ids)
    return positions, np.concatenate(key_ids)


def _matching_rows(source: pq.ParquetFile, file: LookedUpFile, key_columns: _Columns, keys: SourceKeys) -> Iterator[_RowGroupMatches]:
    """Yield the live rows that have a key of the source, for each row group that contains such rows.

    A live row is a row that is not deleted by a deletion vector or a delete file. One lookup covers a batch of row groups, because each
    lookup hashes the values of the source again. The matching rows of the batch are then divided by row group.
    """
    deleted_positions = np.array(file.deleted.to_array(), dtype=np.int64)
    row_counts = [source.metadata.row_group(group).num_rows for group in range(source.num_row_groups)]
    starts = np.cumsum([0, *row_counts]).tolist()  # the position in the file of the first row of each row group
    for groups in _batches(row_counts, keys.min_rows_at_once):
        key_tables = [_read_row_group(source, group, key_columns, file) for group in groups]
        indexes_in_batch, key_ids = keys.find_rows(pa.concat_tables(key_tables))
        live_matches = FoundRows(indexes_in_batch + starts[groups[0]], key_ids)  # the row groups of a batch are adjacent
        if len(deleted_positions):  # most files have no deleted rows, and the filter copies the arrays
            is_live = ~np.isin(live_matches.indexes, deleted_positions)
            live_matches = FoundRows(live_matches.indexes[is_live], live_matches.key_ids[is_live])
        for group, key_table in zip(groups, key_tables, strict=True):
            matches = _matches_of_row_group(live_matches, group, starts[group], key_table)
            if len(matches.indexes):
                yield matches


def _matches_of_row_group(matches: FoundRows, group: int, start: int, key_table: pa.Table) -> _RowGroupMatches:
    """Return those of the matching rows of a batch that belong to one row group.

    Args:
        matches: The matching rows of the batch. Their indexes are ascending positions in the file, so a row group has a slice of them.
        group: The index of the row group in the file.
        start: The position in the file of the first row of the row group.
        key_table: The key columns of the row group.
    """
    first, end = np.searchsorted(matches.indexes, (start, start + key_table.num_rows))
    return _RowGroupMatches(group, start, key_table, indexes=matches.indexes[first:end] - start, key_ids=matches.key_ids[first:end])


def _batches(row_counts: Sequence[int], min_rows: int) -> Iterator[list[int]]:
    """Yield the indexes of row groups in batches that have at least `min_rows` rows, except for the last batch."""
    batch, batch_rows = list[int](), 0
    for group, row_count in enumerate(row_counts):
        batch.append(group)
        batch_rows += row_count
        if batch_rows >= min_rows:
            yield batch
            batch, batch_rows = [], 0
    if batch:
        yield batch


def _select(columns: pa.Schema, stored_columns: StoredColumns, names: Collection[str]) -> _Columns:
    """Return the columns with these names. `columns`: Their schema in the table. `stored_columns`: The columns of the file."""
    pairs = zip(columns, stored_columns.file_schema, strict=True)
    selected = [(column, file_column) for column, file_column in pairs if column.name in names]
    return _Columns(pa.schema([column for column, _ in selected]), pa.schema([file_column for _, file_column in selected]))


def _read_row_group(source: pq.ParquetFile, group: int, columns: _Columns, file: LookedUpFile) -> pa.Table:
    """Return columns of a row group. A column that the file lacks contains the partition value, or NULL if there is none.

    Args:
        source: The open data file.
        group: The index of the row group in the file.
        columns: The columns to return.
        file: The description of the data file, with its partition values.
    """
    by_field_id = file.stored_columns.by_field_id
    file_indexes = file_column_indexes(source.schema_arrow, columns.file_schema, by_field_id=by_field_id)
    column_names = [source.schema_arrow.field(index).name for index in file_indexes if index is not None]
    if column_names:
        file_rows = source.read_row_group(group, column_names, use_threads=len(column_names) > 1)
        file_rows = to_gregorian(file_rows, source.metadata.metadata)
        rows = to_table_rows(file_rows, columns.schema, columns.file_schema, by_field_id=by_field_id)
    else:  # the file has none of the columns, so only its number of rows matters
        row_count = source.metadata.row_group(group).num_rows
        rows = pa.table([pa.nulls(row_count, column.type) for column in columns.schema], schema=columns.schema)
    return _with_partition_values(rows, file)


def _with_partition_values(rows: pa.Table, file: LookedUpFile) -> pa.Table:
    """Return rows of a file, with the partition values in the columns that the file lacks."""
    for index, column in enumerate(rows.schema):
        if column.name in file.stored_columns.missing_columns:
            partition_value = pa.scalar(file.partition.get(column.name), column.type)
            rows = rows.set_column(index, column, pa.repeat(partition_value, rows.num_rows))
    return rows


def _with_addresses(rows: pa.Table, file: str, positions: NumpyArray) -> pa.Table:
    """Append the columns FILE and POSITION to rows of one file."""
    files = pa.repeat(pa.scalar(file, pa.string()), rows.num_rows)
    return rows.append_column(FILE, files).append_column(POSITION, pa.array(positions, pa.int64()))
