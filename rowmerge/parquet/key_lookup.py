"""Use Arrow to look up the keys of a source in data files. The driver and executors run this module."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.concurrency import map_ahead
from rowmerge.parquet.bitmaps import deserialize, serialize
from rowmerge.parquet.calendars import to_gregorian
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.filesystems import Options, open_data_file
from rowmerge.parquet.fitting import file_column_indexes, to_table_rows
from rowmerge.parquet.source_keys import FoundRows, NumpyArray, SourceKeys

TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class LookedUpFile:
    """A data file in which keys are looked up.

    Attributes:
        path: The absolute path.
        stored_columns: The columns that the lookup reads, as the file stores them.
        deleted: The positions of deleted rows in the file, as a serialized bitmap, which is empty if there are none.
        partition: By column name, the partition values of columns that the file lacks.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
        row_count: The number of rows including deleted rows, 0 if it is unknown.
    """

    path: str
    stored_columns: StoredColumns
    deleted: bytes
    partition: Mapping[str, Any]
    filesystem_options: Options = field(default_factory=dict, repr=False)
    row_count: int = 0


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


@dataclass(frozen=True)
class LookupSpec:
    """The keys that tasks look up, and the columns of the files in which they look.

    Attributes:
        columns: The table's columns to read, which include the key columns.
        keys: The keys of the source, without the values of the source rows.
        layouts: The columns as files store them. A file of a task has an index in this tuple.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
    """

    columns: pa.Schema
    keys: SourceKeys
    layouts: tuple[StoredColumns, ...]
    filesystem_options: Options = field(default_factory=dict, repr=False)


class TaskFile(NamedTuple):
    """A file of a task. `number`: its index among the files of all tasks. `layout`: the index in `LookupSpec.layouts`."""

    number: int
    path: str
    layout: int
    deleted: bytes
    partition: Mapping[str, Any]


def rows_task(spec: LookupSpec, file_lists: Sequence[bytes], ids_per_list: int, address_columns: tuple[str, str]) -> TaskFunction:
    """Return the function for `DataFrame.mapInArrow` that returns the live rows that have a key of the source, with their addresses.

    Args:
        spec: The keys and the columns.
        file_lists: The files of each task, as pickled lists of the fields of `TaskFile`.
        ids_per_list: The number by which the value of an input row's first column is divided to get the index of its list.
        address_columns: The names of two additional columns: the number of a row's file as a string, and the row's position in the file.
    """

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file, row_groups in _map_task_files(batches, spec, file_lists, ids_per_list, _all_rows):
            for rows, positions in row_groups:
                yield from with_addresses(rows, str(file.number), positions, address_columns).combine_chunks().to_batches()

    return look_up


def _all_rows(file: LookedUpFile, spec: LookupSpec) -> list[tuple[pa.Table, NumpyArray]]:
    return list(find_rows(file, spec.columns, spec.keys))


def positions_task(spec: LookupSpec, file_lists: Sequence[bytes], max_rows: int | None, with_key_ids: bool) -> TaskFunction:
    """Return the function for `DataFrame.mapInArrow` that returns the positions of the live rows that have a key of the source.

    The result has one row for each file with such rows. Its columns are the number of the file, the positions as a serialized bitmap, and
    the bytes of the key ids (POSITIONS_SCHEMA).

    Args:
        spec: The keys and the columns.
        file_lists: The files of each task, as pickled lists of the fields of `TaskFile`.
        max_rows: The number of rows after which a task stops, None for no limit. The driver then has more rows than it accepts.
        with_key_ids: Whether to return the key id of each row, as an int64 array.
    """

    def find_in_file(file: LookedUpFile, spec: LookupSpec) -> tuple[NumpyArray, NumpyArray]:
        return find_positions(file, spec.columns, spec.keys, with_key_ids=with_key_ids)

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        row_count = 0
        for file, (positions, key_ids) in _map_task_files(batches, spec, file_lists, 1, find_in_file):
            if len(positions):
                row = {"file": file.number, "positions": serialize(positions.astype(np.uint64)), "key_ids": key_ids.tobytes()}
                yield pa.RecordBatch.from_pylist([row], POSITIONS_SCHEMA)
            row_count += len(positions)
            if max_rows is not None and row_count > max_rows:
                break

    return look_up


POSITIONS_SCHEMA = pa.schema({"file": pa.int32(), "positions": pa.binary(), "key_ids": pa.binary()})
"""The columns that `positions_task` returns."""


def _map_task_files(
    batches: Iterator[pa.RecordBatch],
    spec: LookupSpec,
    file_lists: Sequence[bytes],
    ids_per_list: int,
    read: Callable[[LookedUpFile, LookupSpec], Any],
) -> Iterator[tuple[TaskFile, Any]]:
    """Apply `read` to the files of a task's input rows, and yield each file with the result. See `rows_task` for the arguments.

    While a task decodes a file in a remote store, threads wait for the bytes of the next files.
    """

    def read_file(file: TaskFile) -> Any:
        return read(LookedUpFile(file.path, spec.layouts[file.layout], file.deleted, file.partition, spec.filesystem_options), spec)

    for batch in batches:
        for number in batch.column(0).to_pylist():
            files = [TaskFile(*fields) for fields in pickle.loads(file_lists[number // ids_per_list])]
            is_local = all(file.path.startswith("file:") for file in files)
            yield from zip(files, map(read_file, files) if is_local else map_ahead(read_file, files), strict=True)


def find_rows(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys) -> Iterator[tuple[pa.Table, NumpyArray]]:
    """Yield the live rows that have a key of the source, and their positions in the file, for each row group that contains such rows.

    Args:
        file: The data file.
        columns: The table's columns to read, which include the key columns.
        keys: The keys of the source.

    Raises:
        UnreadableFile: The file is missing or unreadable.
    """
    key_columns = _select(columns, file.stored_columns, keys.names)
    other_columns = _select(columns, file.stored_columns, set(columns.names).difference(keys.names))
    with open_data_file(file.path, file.filesystem_options, by_field_id=file.stored_columns.by_field_id) as source:
        for matches in _matching_rows(source, file, key_columns, keys):
            tables = [matches.key_table, _read_row_group(source, matches.group, other_columns, file)]
            rows = _take_rows(tables, pa.array(matches.indexes), columns)
            yield rows, matches.indexes + matches.start


def _take_rows(tables: Sequence[pa.Table], indexes: pa.Array, columns: pa.Schema) -> pa.Table:
    """Return the rows at the indexes. Each of the `columns` is in one of the tables, which contain different columns of the same rows."""
    arrays: dict[str, pa.ChunkedArray] = {}
    for table in tables:
        arrays |= {name: table[name].take(indexes) for name in table.column_names}
    return pa.Table.from_arrays([arrays[name] for name in columns.names], schema=columns)


def find_positions(file: LookedUpFile, columns: pa.Schema, keys: SourceKeys, *, with_key_ids: bool) -> tuple[NumpyArray, NumpyArray]:
    """Return the positions of the live rows of a file that have a key of the source.

    The position of a row is its index in the file. The key id of a row is a number that two rows share if their keys are equal.

    Args:
        file: The data file.
        columns: Columns of the table, which include the key columns.
        keys: The keys of the source.
        with_key_ids: Whether to return key ids. A statement may delete so many rows that the ids of their keys do not fit into memory.

    Returns:
        The ascending positions, and the key id of each row in the order of the positions. If `with_key_ids` is false, the array of ids is
        empty.

    Raises:
        UnreadableFile: The file is missing or unreadable.
    """
    key_columns = _select(columns, file.stored_columns, keys.names)
    positions = [np.zeros(0, dtype=np.int64)]  # `np.concatenate` needs at least one array
    key_ids = [np.zeros(0, dtype=np.int64)]
    with open_data_file(file.path, file.filesystem_options, by_field_id=file.stored_columns.by_field_id) as source:
        for matches in _matching_rows(source, file, key_columns, keys):
            positions.append(matches.start + matches.indexes)  # positions in the file
            if with_key_ids:
                key_ids.append(matches.key_ids)
    return np.concatenate(positions), np.concatenate(key_ids)


def _matching_rows(source: pq.ParquetFile, file: LookedUpFile, key_columns: _Columns, keys: SourceKeys) -> Iterator[_RowGroupMatches]:
    """Yield the live rows that have a key of the source, for each row group that contains such rows.

    A live row is a row that is not deleted by a deletion vector or a delete file. One lookup covers a batch of row groups, because each
    lookup hashes the values of the source again. The matching rows of the batch are then divided by row group.
    """
    deleted_positions = deserialize(file.deleted).astype(np.int64) if file.deleted else None
    row_counts = [source.metadata.row_group(group).num_rows for group in range(source.num_row_groups)]
    starts = np.cumsum([0, *row_counts]).tolist()  # the position in the file of the first row of each row group
    for groups in _batches(row_counts, keys.min_rows_at_once):
        key_tables = [_read_row_group(source, group, key_columns, file) for group in groups]
        indexes_in_batch, key_ids = keys.find_rows(pa.concat_tables(key_tables))
        live_matches = FoundRows(indexes_in_batch + starts[groups[0]], key_ids)  # the row groups of a batch are adjacent
        if deleted_positions is not None:  # most files have no deleted rows, and the filter copies the arrays
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


def with_addresses(rows: pa.Table, file: str, positions: NumpyArray, names: tuple[str, str]) -> pa.Table:
    """Append the addresses of rows of one file: the name of the file and the position of each row.

    Args:
        rows: The rows.
        file: The name of the file.
        positions: The position of each row in the file.
        names: The names of the two columns.
    """
    files = pa.repeat(pa.scalar(file, pa.string()), rows.num_rows)
    return rows.append_column(names[0], files).append_column(names[1], pa.array(positions, pa.int64()))
