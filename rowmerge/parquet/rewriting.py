"""Write the live rows of data files into new files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from rowmerge.parquet.data_files import FileMessage, PartitionedWriter, StoredColumns, WriteSpec
from rowmerge.parquet.filesystems import Options, open_data_file
from rowmerge.parquet.fitting import file_columns, from_file


def write_live_rows(
    spec: WriteSpec, deleted_positions: dict[str, BitMap64], partition: dict[str, Any], delete_files: Callable[[list[str], Options], None]
) -> list[FileMessage]:
    """Write files of one partition again without their deleted rows. Return a message for each new file.

    `deleted_positions`: by path, for each of the files; `delete_files`: what deletes the new files after an error.
    """
    writer = PartitionedWriter(spec)
    live_rows = chain.from_iterable(_live_rows(spec, path, deleted, partition) for path, deleted in deleted_positions.items())
    try:
        for rows in live_rows:
            if spec.values_in_files:
                writer.write(rows)  # into partitions by the rows' values: the table's partitioning may have changed since
            else:
                writer.write_partition(partition, rows)
        return writer.close()
    except BaseException:
        delete_files(writer.abort(), spec.filesystem_options)
        raise


def _live_rows(spec: WriteSpec, path: str, deleted: BitMap64, partition: dict[str, Any]) -> Iterator[pa.Table]:
    """Yield the live rows of a file, batch by batch, with the columns of `spec`."""
    stored_columns = spec.older_layouts.get(path, StoredColumns(spec.stored, spec.by_field_id, ()))
    deleted_positions = np.array(deleted.to_array(), dtype=np.int64)
    start = 0
    for batch in _batches(stored_columns, path, spec.filesystem_options):
        # The conversion comes before the filter: Arrow cannot filter every type that others write (string views of delta-rs).
        file_rows = pa.Table.from_batches([batch])
        rows = from_file(file_rows, spec.schema, stored_columns.stored, by_field_id=stored_columns.by_field_id, initial=spec.initial_values)
        if spec.lineage is not None:
            rows = spec.lineage.filled(rows, path, start)
        rows = _with_partition_values(rows, stored_columns.missing_columns, partition)
        yield _without_deleted(rows, start, deleted_positions)
        start += batch.num_rows


def _without_deleted(rows: pa.Table, start: int, deleted_positions: np.ndarray[Any, Any]) -> pa.Table:
    """Return the live rows of a batch. `start`: the position of its first row; `deleted_positions`: sorted positions of the file."""
    first, end = np.searchsorted(deleted_positions, [start, start + rows.num_rows])
    if first == end:
        return rows
    is_live = np.ones(rows.num_rows, dtype=bool)
    is_live[deleted_positions[first:end] - start] = False
    return rows.filter(pa.array(is_live))


def _with_partition_values(rows: pa.Table, names: Sequence[str], partition: dict[str, Any]) -> pa.Table:
    for name in names:
        index = rows.schema.get_field_index(name)
        value = pa.scalar(partition[name], rows.schema.field(index).type)
        rows = rows.set_column(index, rows.schema.field(index), pa.repeat(value, rows.num_rows))
    return rows


def _batches(stored_columns: StoredColumns, path: str, filesystem_options: Options) -> Iterator[pa.RecordBatch]:
    with open_data_file(path, filesystem_options, by_field_id=stored_columns.by_field_id) as source:
        indexes = file_columns(source.schema_arrow, stored_columns.stored, by_field_id=stored_columns.by_field_id)
        columns = [source.schema_arrow.field(index).name for index in indexes if index is not None]
        yield from source.iter_batches(batch_size=131_072, columns=columns)
