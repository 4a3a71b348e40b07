"""Copy values from data files to new ones: the live rows of rewritten files, and the columns that updated rows keep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.parquet.bitmaps import deserialize
from rowmerge.parquet.calendars import to_gregorian
from rowmerge.parquet.data_files import FileMessage, StoredColumns, WriteSpec
from rowmerge.parquet.dictionaries import text_columns_with_dictionary
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.parquet.filesystems import Options, open_data_file, read_tables
from rowmerge.parquet.fitting import file_column_indexes, to_table_rows
from rowmerge.parquet.partitions import comparable_partition
from rowmerge.parquet.small_files import FILE_INDEX, ROW_POSITION, SmallFilesSpec, indexed_files, read_small_files

_BATCH_ROWS, _MIN_BATCH_ROWS, _BATCH_BYTES = 131_072, 1_024, 32 * 1024 * 1024
"""The maximum and the minimum number of rows of a file that are in memory at the same time, and the size in bytes of wide rows."""
_MAX_SMALL_BIN_BYTES, _MAX_BYTES_TOGETHER = 1024 * 1024, 8 * 1024 * 1024
"""The maximum size in bytes of a small bin, which is the total size of its files, and of all bins whose files are read together."""


class FileBin(NamedTuple):
    """Files of one partition whose live rows are written into the same new files.

    `deleted_positions`: by path of each file, the serialized bitmap of the positions of its deleted rows. `partition`: the partition values
    of the files by name of the field. `size`: the total size of the files in bytes, 0 if it is unknown.
    """

    deleted_positions: Mapping[str, bytes]
    partition: Mapping[str, Any]
    size: int


def write_bins(spec: WriteSpec, bins: Sequence[FileBin], delete_files: Callable[[list[str], Options], None]) -> list[FileMessage]:
    """Rewrite files without their deleted rows, and return a message for each new file.

    A message contains the path and the statistics of a file. The driver and executors call this function, but only the driver has
    rowmerge's module for the deletion of files. So the function that deletes files is an argument. The files of small bins are read and
    converted together.

    Args:
        spec: The settings with which data files are written.
        bins: The files to rewrite.
        delete_files: The function that deletes the new files after an error. It takes paths and the arguments of Arrow's file systems.

    Raises:
        UnreadableFile: A file is missing or unreadable.
    """
    messages, writer = list[FileMessage](), PartitionedWriter(spec)
    try:
        for bins_at_once in _divide(spec, bins):
            for partition, rows in _live_rows_of_bins(spec, bins_at_once):
                if spec.partition_values_in_files:
                    writer.write(rows)  # the partition spec may be newer than the files, so the writer computes the partition of each row
                else:
                    writer.write_partition(dict(partition), rows)
            messages += writer.close()
            writer = PartitionedWriter(spec)
    except BaseException:
        delete_files([*(message.path for message in messages), *writer.abort()], spec.filesystem_options)
        raise
    return messages


def _divide(spec: WriteSpec, bins: Sequence[FileBin]) -> Iterator[Sequence[FileBin]]:
    """Divide bins into groups: small bins of different partitions, whose files are read together, and each of the other bins alone.

    One writer writes a group, so that two bins of one partition would get the same new files.
    """
    group, size, partitions = list[FileBin](), 0, set[Hashable]()
    for bin_ in bins:
        partition = comparable_partition(bin_.partition)
        is_small = 0 < bin_.size <= _MAX_SMALL_BIN_BYTES and _can_read_together(spec, bin_.deleted_positions)
        if group and (not is_small or partition in partitions or size + bin_.size > _MAX_BYTES_TOGETHER):
            yield group
            group, size, partitions = [], 0, set()
        if not is_small:
            yield [bin_]
            continue
        group.append(bin_)
        partitions.add(partition)
        size += bin_.size
    if group:
        yield group


def _can_read_together(spec: WriteSpec, paths: Collection[str]) -> bool:
    """Return whether rows of several files can be converted together.

    The files must store columns in the same way as new files. Row lineage needs the file and the position of each row, so it excludes this.
    """
    return spec.lineage is None and spec.stored_columns_by_path.keys().isdisjoint(paths)


def _live_rows_of_bins(spec: WriteSpec, bins: Sequence[FileBin]) -> Iterator[tuple[Mapping[str, Any], pa.Table]]:
    """Read the files of one bin or of several small bins. Yield their live rows in batches, with the partition values of each bin."""
    paths = [path for bin_ in bins for path in bin_.deleted_positions]
    if len(paths) > 1 and _can_read_together(spec, paths):
        yield from _live_rows_read_together(spec, bins)
        return
    (bin_,) = bins
    # Arrow writes a dictionary as it is. Several files could add up to a large one, and each of many partitions would get a whole one.
    is_divided = spec.partition_values_in_files and spec.partition
    keeps_codes = len(paths) == 1 and not is_divided and "dictionary_pagesize_limit" not in spec.page_arguments
    for path, deleted in bin_.deleted_positions.items():
        for rows in _live_rows(spec, path, deleted, bin_.partition, keeps_codes=keeps_codes):
            yield bin_.partition, rows


def _live_rows_read_together(spec: WriteSpec, bins: Sequence[FileBin]) -> Iterator[tuple[Mapping[str, Any], pa.Table]]:
    """Yield the same as `_live_rows_of_bins`, but convert the rows of several files together."""
    columns = SmallFilesSpec(
        spec.schema,
        StoredColumns(spec.file_schema, spec.by_field_id, missing_columns=()),
        spec.initial_values,
        address_columns=(FILE_INDEX, ROW_POSITION),
        filesystem_options=spec.filesystem_options,
        uses_threads=True,
    )
    bitmap_by_path = [item for bin_ in bins for item in bin_.deleted_positions.items()]
    deleted_positions = [deserialize(bitmap).astype(np.int64) for _, bitmap in bitmap_by_path]
    files = indexed_files([path for path, _ in bitmap_by_path], deleted_positions)
    bin_of_file = np.repeat(range(len(bins)), [len(bin_.deleted_positions) for bin_ in bins])
    for batch in read_small_files(columns, pa.table(files)):
        rows = pa.Table.from_batches([batch])
        bin_of_row = bin_of_file[rows[FILE_INDEX].to_numpy()]
        rows, ends = rows.select(spec.schema.names), np.searchsorted(bin_of_row, range(len(bins) + 1))
        for bin_, (start, end) in zip(bins, pairwise(ends.tolist()), strict=True):
            if start < end:
                yield bin_.partition, rows.slice(start, end - start)


def _live_rows(spec: WriteSpec, path: str, deleted: bytes, partition: Mapping[str, Any], *, keeps_codes: bool) -> Iterator[pa.Table]:
    """Yield the live rows of a file in batches, with the columns that the new file gets.

    Args:
        spec: The settings with which the new file is written.
        path: The path of the file to read.
        deleted: The serialized bitmap of the positions of the deleted rows.
        partition: The partition values of the file by name of the field.
        keeps_codes: Whether text columns that the file stores as codes with a dictionary are read as such.
    """
    # Most files store the columns in the same way as new files. `stored_columns_by_path` contains only the others.
    columns_of_new_files = StoredColumns(spec.file_schema, spec.by_field_id, missing_columns=())
    stored_columns = spec.stored_columns_by_path.get(path, columns_of_new_files)
    deleted_positions = deserialize(deleted).astype(np.int64)
    start = 0
    for file_rows in _tables(stored_columns, path, spec.filesystem_options, keeps_codes=keeps_codes):
        # The conversion comes before the filter: Arrow cannot filter all types of other writers, such as string views of delta-rs.
        rows = to_table_rows(
            file_rows,
            spec.schema,
            stored_columns.file_schema,
            by_field_id=stored_columns.by_field_id,
            initial_values=spec.initial_values,
            keeps_codes=keeps_codes,
        )
        if spec.lineage is not None:
            rows = spec.lineage.fill_row_lineage(rows, path, start)
        rows = _with_partition_values(rows, stored_columns.missing_columns, partition)
        yield _without_deleted(rows, start, deleted_positions)
        start += file_rows.num_rows


def values_at(spec: WriteSpec, path: str, positions: np.ndarray[Any, Any]) -> Iterator[pa.Table]:
    """Yield the columns `spec.late_columns` of rows of a data file, in batches. Row groups without these rows are not read.

    Args:
        spec: The settings with which the new file is written.
        path: The path of the file to read.
        positions: The positions of the rows in the file, in ascending order.

    Raises:
        UnreadableFile: The file is missing or unreadable.
    """
    columns_of_new_files = StoredColumns(spec.file_schema, spec.by_field_id, missing_columns=())
    stored_columns = spec.stored_columns_by_path.get(path, columns_of_new_files)
    all_pairs = zip(spec.schema, stored_columns.file_schema, strict=True)
    pairs = [(column, file_column) for column, file_column in all_pairs if column.name in spec.late_columns]
    schema, file_schema = (pa.schema(columns) for columns in zip(*pairs, strict=True))
    late_columns = StoredColumns(file_schema, stored_columns.by_field_id, missing_columns=())
    for start, file_rows in _batches_with(late_columns, path, spec.filesystem_options, positions):
        first, end = np.searchsorted(positions, [start, start + file_rows.num_rows])
        if first < end:
            rows = to_table_rows(file_rows, schema, file_schema, by_field_id=late_columns.by_field_id, initial_values=spec.initial_values)
            yield rows.take(pa.array(positions[first:end] - start))


def _batches_with(
    stored_columns: StoredColumns, path: str, filesystem_options: Options, positions: np.ndarray[Any, Any]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the batches of the row groups that contain positions, each with the position of its first row. See `values_at`."""
    with open_data_file(path, filesystem_options, by_field_id=stored_columns.by_field_id) as source:
        columns, start = _names_in(source, stored_columns), 0
        for group in range(source.num_row_groups):
            row_count, row_group_bytes = source.metadata.row_group(group).num_rows, source.metadata.row_group(group).total_byte_size
            first_index, end_index = np.searchsorted(positions, [start, start + row_count])
            if first_index < end_index and columns:
                batch_start = start
                batch_rows = min(max(row_count * _BATCH_BYTES // max(row_group_bytes, 1), _MIN_BATCH_ROWS), _BATCH_ROWS)
                for rows in read_tables(source, columns, [group], batch_rows=batch_rows):
                    yield batch_start, to_gregorian(rows, source.metadata.metadata)
                    batch_start += rows.num_rows
            elif first_index < end_index:  # the file has none of the columns, so only its number of rows matters
                yield start, pa.table({"": pa.nulls(row_count)})
            start += row_count


def _without_deleted(rows: pa.Table, start: int, deleted_positions: np.ndarray[Any, Any]) -> pa.Table:
    """Return the live rows of a batch. `start`: The position of the first row. `deleted_positions`: All those of the file, sorted."""
    first, end = np.searchsorted(deleted_positions, [start, start + rows.num_rows])
    if first == end:
        return rows
    is_live = np.ones(rows.num_rows, dtype=bool)
    is_live[deleted_positions[first:end] - start] = False
    return rows.filter(pa.array(is_live))


def _with_partition_values(rows: pa.Table, names: Sequence[str], partition: Mapping[str, Any]) -> pa.Table:
    """Return the rows with the partition values in the columns named `names`."""
    for name in names:
        index = rows.schema.get_field_index(name)
        value = pa.scalar(partition[name], rows.schema.field(index).type)
        rows = rows.set_column(index, rows.schema.field(index), pa.repeat(value, rows.num_rows))
    return rows


def _tables(stored_columns: StoredColumns, path: str, filesystem_options: Options, *, keeps_codes: bool) -> Iterator[pa.Table]:
    """Yield the rows of a file in batches, with those of the stored columns that the file contains. See `_live_rows` for `keeps_codes`."""
    by_field_id, columns_as_codes = stored_columns.by_field_id, text_columns_with_dictionary if keeps_codes else None
    with open_data_file(path, filesystem_options, by_field_id=by_field_id, columns_as_codes=columns_as_codes) as source:
        groups = range(source.num_row_groups)
        for rows in read_tables(source, _names_in(source, stored_columns), groups, batch_rows=_BATCH_ROWS):
            yield to_gregorian(rows, source.metadata.metadata)


def _names_in(source: pq.ParquetFile, stored_columns: StoredColumns) -> list[str]:
    """Return the names that columns have in a file. Columns that the file lacks are left out."""
    schema = source.schema_arrow  # PyArrow converts the schema at each access
    indexes = file_column_indexes(schema, stored_columns.file_schema, by_field_id=stored_columns.by_field_id)
    return [schema.field(index).name for index in indexes if index is not None]
