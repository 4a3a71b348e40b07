"""Use Arrow to look up the keys of a source in data files. The driver and executors run this module."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.parquet.bitmaps import deserialize
from rowmerge.parquet.calendars import to_gregorian
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.filesystems import BYTES_WITHOUT_THREADS, Options, UnreadableFile, as_unreadable_file, open_data_file
from rowmerge.parquet.fitting import column_paths, fields_at, to_table_rows
from rowmerge.parquet.small_files import (
    FILE_INDEX,
    PARTITION_PREFIX,
    ROW_POSITION,
    SmallFilesSpec,
    indexed_files,
    read_small_files,
)
from rowmerge.parquet.source_keys import FoundRows, NumpyArray, SourceKeys

_GROUPS_PER_THREAD, _MAX_FILES_AT_ONCE, _MAX_BYTES_AT_ONCE = 2, 128, 32 * 1024 * 1024
"""The minimum number of groups of files for each thread, the maximum number of open files of all threads, and the maximum size in bytes of
the open files of a thread in a remote store, whose content is in memory, and of the rows of small files that are searched together."""


_MAX_WHOLE_FILE_BYTES, _MAX_WHOLE_FILE_COLUMNS = 256 * 1024, 24
"""The maximum size in bytes of a file of which the lookup reads all needed columns at once, and the maximum number of these columns."""


class AddressedRows(NamedTuple):
    """Rows of one or several files, with their addresses.

    `file_indexes`: the index of each row's file in the list of files. `positions`: the position of each row in its file.
    """

    rows: pa.Table
    file_indexes: NumpyArray
    positions: NumpyArray

    def with_addresses(self, file_numbers: NumpyArray, names: tuple[str, str]) -> pa.Table:
        """Return the rows, followed by the address of each row: the number of its file as a string, and its position in the file.

        Args:
            file_numbers: The number of each file in the list.
            names: The names of the two columns.
        """
        files = pa.array(file_numbers[self.file_indexes]).cast(pa.string())
        return self.rows.append_column(names[0], files).append_column(names[1], pa.array(self.positions, pa.int64()))


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
        size: The size in bytes, 0 if it is unknown.
    """

    path: str
    stored_columns: StoredColumns
    deleted: bytes
    partition: Mapping[str, Any]
    filesystem_options: Options = field(default_factory=dict, repr=False)
    row_count: int = 0
    size: int = 0


class _Columns(NamedTuple):
    """The columns to read. `schema`: Their schema in the table. `file_schema`: Their schema in a file."""

    schema: pa.Schema
    file_schema: pa.Schema


class _RowGroup(NamedTuple):
    """A row group whose key columns are in memory.

    Attributes:
        file_index: The index of the file among the files that are looked up together.
        source: The open file.
        group: The index of the row group in the file.
        start: The position in the file of the first row.
        key_table: The key columns. A struct has only the fields that are keys.
        deleted: The positions of deleted rows in the file, in ascending order, or None if there are none.
    """

    file_index: int
    source: pq.ParquetFile
    group: int
    start: int
    key_table: pa.Table
    deleted: NumpyArray | None


class _RowGroupMatches(NamedTuple):
    """The live rows of a row group that have a key of the source.

    `indexes`: the indexes of the matching rows within the row group. `key_ids`: the id of the key of each of these rows (see `FoundRows`).
    """

    row_group: _RowGroup
    indexes: NumpyArray
    key_ids: NumpyArray

    @property
    def positions(self) -> NumpyArray:
        """The positions of the matching rows in the file."""
        return self.row_group.start + self.indexes


def files_at_once(files: Sequence[LookedUpFile], keys: SourceKeys, threads: int) -> list[Sequence[LookedUpFile]]:
    """Divide files into groups of adjacent files in which keys are looked up together, because each lookup hashes the values of the source.

    Args:
        files: The files in which keys are looked up.
        keys: The keys of the source.
        threads: The number of threads that work on the groups.
    """
    group_count = threads * _GROUPS_PER_THREAD
    min_rows = min(keys.min_rows_at_once, sum(file.row_count for file in files) // group_count)
    max_files = min(max(1, _MAX_FILES_AT_ONCE // threads), math.ceil(len(files) / group_count))
    groups, start, row_count, byte_count = list[Sequence[LookedUpFile]](), 0, 0, 0
    for end, file in enumerate(files, 1):
        row_count, byte_count = row_count + file.row_count, byte_count + (0 if file.path.startswith("file:") else file.size)
        is_full = row_count >= min_rows or byte_count >= _MAX_BYTES_AT_ONCE or end - start == max_files
        if is_full or end == len(files):
            groups.append(files[start:end])
            start, row_count, byte_count = end, 0, 0
    return groups


def find_rows(files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> Iterator[AddressedRows]:
    """Yield the live rows that have a key of the source, for each row group or several small files with such rows.

    Args:
        files: The data files, of which many are open at the same time (see `files_at_once`).
        columns: The table's columns to read, which include the key columns.
        keys: The keys of the source.

    Raises:
        UnreadableFile: A file is missing or unreadable.
    """
    if _are_read_whole(files, columns):
        # A file without a matching row may be unreadable in another column. The lookup in two steps does not read it, or names the file.
        with suppress(UnreadableFile, pa.ArrowException):
            yield from list(_find_rows_of_whole_files(files, columns, keys))
            return
    other_names = set(columns.names).difference(path[0] for path in keys.paths if len(path) == 1)
    for matches in _matching_rows(files, columns, keys):
        row_group, file = matches.row_group, files[matches.row_group.file_index]
        other_columns = _select(columns, file.stored_columns, [(name,) for name in other_names])
        tables = [row_group.key_table, _read_row_group(row_group.source, row_group.group, other_columns, file)]
        with as_unreadable_file(file.path, file.filesystem_options):
            rows = _take_rows(tables, pa.array(matches.indexes), columns)
        yield AddressedRows(rows, np.full(rows.num_rows, row_group.file_index), matches.positions)


def _find_rows_of_whole_files(files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> Iterator[AddressedRows]:
    """Yield the live rows of small files that have a key of the source."""
    for rows, matches in _search_whole_files(files, columns, keys):
        if len(matches.indexes):
            matching_rows = rows.take(pa.array(matches.indexes))
            addresses = (matching_rows[name].to_numpy() for name in (FILE_INDEX, ROW_POSITION))
            yield AddressedRows(matching_rows.select(columns.names), *addresses)


def _are_read_whole(files: Sequence[LookedUpFile], columns: pa.Schema) -> bool:
    """Return whether the lookup reads all columns of these files at once, and searches the rows of all files together.

    The time to open a small file, and to convert its columns, exceeds that to read other columns of rows without a key. Files in a remote
    store are excluded: threads already wait for several of them.
    """
    is_small = all(0 < file.size <= _MAX_WHOLE_FILE_BYTES and file.path.startswith("file:") for file in files)
    have_one_layout = all(file.stored_columns is files[0].stored_columns for file in files)
    return is_small and have_one_layout and len(columns) <= _MAX_WHOLE_FILE_COLUMNS


def _search_whole_files(files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> Iterator[tuple[pa.Table, FoundRows]]:
    """Read small files. Yield tables of their live rows, and the rows of each table that have a key of the source.

    The tables also have FILE_INDEX, the index of a row's file in `files`, and ROW_POSITION, the row's position in the file.
    """
    stored_columns = files[0].stored_columns
    file_list = indexed_files([file.path for file in files], [_deleted_positions(file) for file in files])
    for name in set(stored_columns.missing_columns) & set(columns.names):
        values = [file.partition.get(name) for file in files]
        file_list[f"{PARTITION_PREFIX}{name}"] = pa.array(values, columns.field(name).type)
    options = files[0].filesystem_options
    spec = SmallFilesSpec(columns, stored_columns, address_columns=(FILE_INDEX, ROW_POSITION), filesystem_options=options)
    for rows in _joined_batches(read_small_files(spec, pa.table(file_list)), keys.min_rows_at_once):
        yield rows, keys.find_rows(rows)


def _joined_batches(batches: Iterator[pa.RecordBatch], min_rows: int) -> Iterator[pa.Table]:
    """Yield tables of at least `min_rows` rows, except for the last one. A table of _MAX_BYTES_AT_ONCE may have fewer rows."""
    joined_batches, row_count, byte_count = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        joined_batches.append(batch)
        row_count, byte_count = row_count + batch.num_rows, byte_count + batch.nbytes
        if row_count >= min_rows or byte_count >= _MAX_BYTES_AT_ONCE:
            yield pa.Table.from_batches(joined_batches)
            joined_batches, row_count, byte_count = [], 0, 0
    if joined_batches:
        yield pa.Table.from_batches(joined_batches)


def _take_rows(tables: Sequence[pa.Table], indexes: pa.Array, columns: pa.Schema) -> pa.Table:
    """Return the rows at the indexes. Each of the `columns` is in one of the tables, which contain different columns of the same rows."""
    arrays: dict[str, pa.ChunkedArray] = {}
    for table in tables:
        arrays |= {name: table[name].take(indexes) for name in table.column_names}
    return pa.Table.from_arrays([arrays[name] for name in columns.names], schema=columns)


def find_positions(
    files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys, *, with_key_ids: bool
) -> list[tuple[NumpyArray, NumpyArray]]:
    """Return, for each file, the positions of the live rows that have a key of the source, and the ids of their keys.

    The position of a row is its index in the file. The key id of a row is a number that two rows share if their keys are equal.

    Args:
        files: The data files, of which many are open at the same time (see `files_at_once`).
        columns: Columns of the table, which include the key columns.
        keys: The keys of the source.
        with_key_ids: Whether to return key ids. A statement may delete so many rows that the ids of their keys do not fit into memory.

    Returns:
        For each file, the ascending positions, and the key id of each row in the order of the positions. If `with_key_ids` is false, the
        arrays of ids are empty.

    Raises:
        UnreadableFile: A file is missing or unreadable.
    """
    nothing_matches = np.zeros(0, dtype=np.int64)  # `np.concatenate` needs at least one array
    positions, key_ids = [[nothing_matches] for _ in files], [[nothing_matches] for _ in files]
    for file_index, file_positions, file_key_ids in _find_matches_by_file(files, columns, keys):
        positions[file_index].append(file_positions)
        if with_key_ids:
            key_ids[file_index].append(file_key_ids)
    return [(np.concatenate(arrays), np.concatenate(ids)) for arrays, ids in zip(positions, key_ids, strict=True)]


def _find_matches_by_file(
    files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys
) -> Iterator[tuple[int, NumpyArray, NumpyArray]]:
    """Yield the index of each file that has matching live rows, with the positions and the key ids (see `FoundRows`) of these rows."""
    # Of a struct, the lookup in two steps reads only the fields that are keys.
    if all(len(path) == 1 for path in keys.paths) and _are_read_whole(files, columns):
        with suppress(UnreadableFile, pa.ArrowException):  # the lookup in two steps names the file
            yield from list(_find_matches_in_whole_files(files, columns, keys))
            return
    for matches in _matching_rows(files, columns, keys):
        yield matches.row_group.file_index, matches.positions, matches.key_ids


def _find_matches_in_whole_files(
    files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys
) -> Iterator[tuple[int, NumpyArray, NumpyArray]]:
    """Yield the same as `_find_matches_by_file` for small files."""
    for rows, matches in _search_whole_files(files, columns, keys):
        file_indexes, positions = (rows[name].to_numpy()[matches.indexes] for name in (FILE_INDEX, ROW_POSITION))
        ends = np.searchsorted(file_indexes, range(len(files) + 1))  # the rows of a file follow each other
        for index, (start, end) in enumerate(pairwise(ends)):
            if start < end:
                yield index, positions[start:end], matches.key_ids[start:end]


def _matching_rows(files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys) -> Iterator[_RowGroupMatches]:
    """Yield the live rows that have a key of the source, for each row group that contains such rows.

    A live row is a row that is not deleted by a deletion vector or a delete file. One lookup covers a batch of row groups, because each
    lookup hashes the values of the source again.
    """
    with ExitStack() as open_files:
        batch, row_count = list[_RowGroup](), 0
        for index, file in enumerate(files):
            source = open_files.enter_context(
                open_data_file(file.path, file.filesystem_options, by_field_id=file.stored_columns.by_field_id)
            )
            for row_group in _row_groups(index, file, source, _select(columns, file.stored_columns, keys.paths)):
                batch.append(row_group)
                row_count += row_group.key_table.num_rows
                if row_count >= keys.min_rows_at_once:
                    yield from _matches_of_batch(batch, keys)
                    batch, row_count = [], 0
        if batch:
            yield from _matches_of_batch(batch, keys)


def _row_groups(index: int, file: LookedUpFile, source: pq.ParquetFile, key_columns: _Columns) -> Iterator[_RowGroup]:
    """Yield the row groups of an open file. `index`: see `_RowGroup.file_index`."""
    deleted_positions = _deleted_positions(file) if file.deleted else None
    start = 0
    for group in range(source.num_row_groups):
        key_table = _read_row_group(source, group, key_columns, file)
        yield _RowGroup(index, source, group, start, key_table, deleted_positions)
        start += key_table.num_rows


def _matches_of_batch(batch: Sequence[_RowGroup], keys: SourceKeys) -> Iterator[_RowGroupMatches]:
    """Yield the live rows that have a key of the source, for each row group of a batch that contains such rows."""
    matches = keys.find_rows(pa.concat_tables([row_group.key_table for row_group in batch]))
    starts = [*accumulate((row_group.key_table.num_rows for row_group in batch), initial=0)]  # indexes in the batch
    ends = np.searchsorted(matches.indexes, starts)  # the indexes are ascending, so a row group has a slice of them
    for row_group, start, first, end in zip(batch, starts[:-1], ends[:-1], ends[1:], strict=True):
        indexes, key_ids = matches.indexes[first:end] - start, matches.key_ids[first:end]
        if row_group.deleted is not None:  # most files have no deleted rows, and the filter copies the arrays
            is_live = ~np.isin(row_group.start + indexes, row_group.deleted)
            indexes, key_ids = indexes[is_live], key_ids[is_live]
        if len(indexes):
            yield _RowGroupMatches(row_group, indexes, key_ids)


def _deleted_positions(file: LookedUpFile) -> NumpyArray:
    """Return the positions of the deleted rows of a file, in ascending order."""
    return deserialize(file.deleted).astype(np.int64) if file.deleted else np.zeros(0, dtype=np.int64)


def _select(columns: pa.Schema, stored_columns: StoredColumns, paths: Collection[tuple[str, ...]]) -> _Columns:
    """Return the columns at these paths. `columns`: Their schema in the table. `stored_columns`: The columns of the file."""
    return _Columns(*map(pa.schema, fields_at(columns, stored_columns.file_schema, paths)))


def _read_row_group(source: pq.ParquetFile, group: int, columns: _Columns, file: LookedUpFile) -> pa.Table:
    """Return columns of a row group. A column that the file lacks contains the partition value, or NULL if there is none.

    Args:
        source: The open data file.
        group: The index of the row group in the file.
        columns: The columns to return.
        file: The description of the data file, with its partition values.
    """
    by_field_id = file.stored_columns.by_field_id
    schema = source.schema_arrow  # PyArrow converts the schema at each access
    paths = column_paths(schema, columns.file_schema, by_field_id=by_field_id)
    if not paths:  # the file has none of the columns, so only its number of rows matters
        row_count = source.metadata.row_group(group).num_rows
        rows = pa.table([pa.nulls(row_count, column.type) for column in columns.schema], schema=columns.schema)
        return _with_partition_values(rows, file)
    with as_unreadable_file(file.path, file.filesystem_options):  # several files are open, and the error names this one
        are_threads_faster = len(paths) > 1 and source.metadata.row_group(group).total_byte_size > BYTES_WITHOUT_THREADS
        file_rows = source.read_row_group(group, paths, use_threads=are_threads_faster)
        file_rows = to_gregorian(file_rows, source.metadata.metadata)
        return _with_partition_values(to_table_rows(file_rows, columns.schema, columns.file_schema, by_field_id=by_field_id), file)


def _with_partition_values(rows: pa.Table, file: LookedUpFile) -> pa.Table:
    """Return rows of a file, with the partition values in the columns that the file lacks."""
    for index, column in enumerate(rows.schema):
        if column.name in file.stored_columns.missing_columns:
            partition_value = pa.scalar(file.partition.get(column.name), column.type)
            rows = rows.set_column(index, column, pa.repeat(partition_value, rows.num_rows))
    return rows
