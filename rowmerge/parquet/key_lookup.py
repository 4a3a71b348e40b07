"""Look up the keys of a source in data files with Arrow."""

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
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.filesystems import Options, UnreadableFile, open_data_file
from rowmerge.parquet.fitting import file_columns, from_file
from rowmerge.parquet.source_keys import Numbers, SourceKeys
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.snapshots.files import Positions

MAX_FOUND_ROWS, MAX_FOUND_BYTES = 2_000_000, 256 * 1024 * 1024
"""At most so many rows, of so many bytes, go to Spark. If more have a key of the source, Spark reads the table itself."""

Result = TypeVar("Result")


class TooManyRows(Exception):
    """Raised when more than MAX_FOUND_ROWS rows have a key of the source, or when they take more than MAX_FOUND_BYTES.

    Remedy: None is needed. Spark joins the whole table instead.
    """


@dataclass(frozen=True)
class LookedUpFile:
    """A data file. `stored_columns`: its columns of the lookup; `partition`: the values of columns that the file does not hold."""

    path: str
    stored_columns: StoredColumns
    deleted: Positions
    partition: Mapping[str, Any]
    filesystem_options: Options = field(default_factory=dict, repr=False)


class _Columns(NamedTuple):
    """Columns to read: as the table has them, and as a file has them."""

    schema: pa.Schema
    stored: pa.Schema


class _RowGroupMatches(NamedTuple):
    """The matching rows of a row group.

    `start`: the position of the group's first row; `keys`: the key columns of all its rows; `indexes`: the matching rows, counted from
    `start`; `numbers`: the numbers of their keys.
    """

    group: int
    start: int
    keys: pa.Table
    indexes: Numbers
    numbers: Numbers


def read_rows_with_keys(table: str, files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> pa.Table:
    """Return the live rows with a key of the source: `columns`, then FILE, the file's index in `files` as text, and POSITION.

    `table`: the name that errors print. Raises MissingDataFile, UnreadableDataFile, TooManyRows.
    """
    tables: list[pa.Table] = []
    with closing(map_files(table, files, lambda file: _find_rows(file, columns, keys))) as rows_by_file:
        for index, row_groups in enumerate(rows_by_file):
            tables += [_with_addresses(rows, str(index), positions) for rows, positions in row_groups]
            _check_size(tables)
    if not tables:
        return _with_addresses(columns.empty_table(), "", np.zeros(0, dtype=np.int64))
    return pa.concat_tables(tables)


def _check_size(tables: Sequence[pa.Table]) -> None:
    row_count, byte_count = sum(rows.num_rows for rows in tables), sum(rows.nbytes for rows in tables)
    if row_count > MAX_FOUND_ROWS or byte_count > MAX_FOUND_BYTES:
        raise TooManyRows


def map_files(table: str, files: Sequence[LookedUpFile], read: Callable[[LookedUpFile], Result]) -> Generator[Result, None, None]:
    """Yield what `read` returns for each file, in order, with several files at a time. Raises MissingDataFile, UnreadableDataFile."""
    cores = os.cpu_count() or 1
    threads = cores if all(file.path.startswith("file:") for file in files) else max(cores, STORE_THREADS)
    try:
        with closing(map_in_batches(read, files, threads)) as results:
            yield from results
    except UnreadableFile as error:
        raise unreadable_data_file(table, error.path, error.reason) from error


def _find_rows(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys) -> list[tuple[pa.Table, Numbers]]:
    """Return the matching rows of each row group that has some, and their positions."""
    key_columns = _select(columns, file.stored_columns, keys.names)
    other_columns = _select(columns, file.stored_columns, set(columns.names).difference(keys.names))
    rows_by_group = []
    with open_data_file(file.path, file.filesystem_options, by_field_id=file.stored_columns.by_field_id) as source:
        for matches in _matching_rows(source, file, key_columns, keys):
            tables = [matches.keys]
            if len(other_columns.schema):
                tables.append(_read_row_group(source, matches.group, other_columns, file))
            rows = _take_rows(tables, pa.array(matches.indexes), columns)
            rows_by_group.append((rows, matches.indexes + matches.start))
    return rows_by_group


def _take_rows(tables: Sequence[pa.Table], indexes: pa.Array, columns: pa.Schema) -> pa.Table:
    """Return the rows at the indexes. Each of the `columns` is in one of the tables, which hold the same rows."""
    arrays: dict[str, pa.ChunkedArray] = {}
    for table in tables:
        arrays |= {name: table[name].take(indexes) for name in table.column_names}
    return pa.Table.from_arrays([arrays[name] for name in columns.names], schema=columns)


def find_positions(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys, *, with_numbers: bool) -> tuple[Positions, Numbers]:
    """Return the positions of the matching rows, and the number of each row's key if `with_numbers`.

    A statement may delete so many rows that their numbers would not fit into memory.
    """
    key_columns = _select(columns, file.stored_columns, keys.names)
    positions, numbers = Positions(), [np.zeros(0, dtype=np.int64)]
    with open_data_file(file.path, file.filesystem_options, by_field_id=file.stored_columns.by_field_id) as source:
        for matches in _matching_rows(source, file, key_columns, keys):
            positions.update((matches.indexes + matches.start).astype(np.uint64))
            if with_numbers:
                numbers.append(matches.numbers)
    return positions, np.concatenate(numbers)


def _matching_rows(source: pq.ParquetFile, file: LookedUpFile, key_columns: _Columns, keys: SourceKeys) -> Iterator[_RowGroupMatches]:
    """Yield the live rows with a key, for each row group that has some. Several row groups are looked up together."""
    deleted_positions = np.array(file.deleted.to_array(), dtype=np.int64)
    row_counts = [source.metadata.row_group(group).num_rows for group in range(source.num_row_groups)]
    starts = np.cumsum([0, *row_counts]).tolist()
    for groups in _batches(row_counts, keys.min_rows_at_once):
        key_tables = [_read_row_group(source, group, key_columns, file) for group in groups]
        indexes, numbers = keys.find_rows(pa.concat_tables(key_tables))
        positions = indexes + starts[groups[0]]
        if len(deleted_positions):
            is_live = ~np.isin(positions, deleted_positions)
            positions, numbers = positions[is_live], numbers[is_live]
        for group, key_table in zip(groups, key_tables, strict=True):
            start, end = starts[group], starts[group + 1]
            in_group = slice(*np.searchsorted(positions, (start, end)))
            if in_group.start < in_group.stop:
                yield _RowGroupMatches(group, start, key_table, positions[in_group] - start, numbers[in_group])


def _batches(row_counts: Sequence[int], min_rows: int) -> Iterator[list[int]]:
    """Divide the indexes of row groups, in their order, into batches of at least so many rows."""
    batch, rows = list[int](), 0
    for group, row_count in enumerate(row_counts):
        batch.append(group)
        rows += row_count
        if rows >= min_rows:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _select(columns: pa.Schema, stored_columns: StoredColumns, names: Collection[str]) -> _Columns:
    selected = [(column, stored) for column, stored in zip(columns, stored_columns.stored, strict=True) if column.name in names]
    return _Columns(pa.schema([column for column, _ in selected]), pa.schema([stored for _, stored in selected]))


def _read_row_group(source: pq.ParquetFile, group: int, columns: _Columns, file: LookedUpFile) -> pa.Table:
    """Read columns of a row group. A column that the file lacks is NULL or the partition value."""
    file_schema, by_field_id = source.schema_arrow, file.stored_columns.by_field_id
    file_indexes = file_columns(file_schema, columns.stored, by_field_id=by_field_id)
    file_names = [file_schema.field(index).name for index in file_indexes if index is not None]
    row_count = source.metadata.row_group(group).num_rows
    if file_names:
        file_rows = source.read_row_group(group, file_names, use_threads=len(file_names) > 1)
        rows = from_file(file_rows, columns.schema, columns.stored, by_field_id=by_field_id)
    else:
        rows = pa.table([pa.nulls(row_count, column.type) for column in columns.schema], schema=columns.schema)
    for index, column in enumerate(columns.schema):
        if column.name in file.stored_columns.missing_columns:
            partition_value = pa.scalar(file.partition.get(column.name), column.type)
            rows = rows.set_column(index, column, pa.repeat(partition_value, row_count))
    return rows


def _with_addresses(rows: pa.Table, file: str, positions: Numbers) -> pa.Table:
    files = pa.repeat(pa.scalar(file, pa.string()), rows.num_rows)
    return rows.append_column(FILE, files).append_column(POSITION, pa.array(positions, pa.int64()))
