"""Write the live rows of data files into new files.

Runs on executors, sent there by value (see spark/writing/executors.py), so nothing here may import Spark or a table format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from rowmerge.parquet.data_files import FileMessage, HeldColumns, PartitionedWriter, WriteSpec
from rowmerge.parquet.filesystems import Options
from rowmerge.parquet.fitting import file_columns, from_file
from rowmerge.parquet.lineage import CHANGED_IN, ROW_ID, FilesLineage, with_lineage
from rowmerge.parquet.reading import open_data_file


def write_live_rows(
    spec: WriteSpec, deleted: dict[str, BitMap64], partition: dict[str, Any], delete: Callable[[list[str], Options], None]
) -> list[FileMessage]:
    """Files of one partition written together, one after the other, without their deleted rows; row order kept.

    Where the files hold what divides rows, it is looked at anew: the table may be divided otherwise since they were written.
    `delete` deletes what was written before a failure.
    """
    writer = PartitionedWriter(spec)
    try:
        for path, positions in deleted.items():
            for rows in _live_rows(spec, path, positions, partition):
                if spec.values_in_files:
                    writer.write(rows)
                else:
                    writer.write_partition(partition, rows)
        return writer.close()
    except BaseException:
        delete(writer.abort(), spec.filesystem_options)
        raise


def _live_rows(spec: WriteSpec, path: str, deleted: BitMap64, partition: dict[str, Any]) -> Iterator[pa.Table]:
    held = spec.others.get(path, HeldColumns(spec.stored, spec.by_field_id, ()))
    gone = np.array(deleted.to_array(), dtype=np.int64)
    start = 0
    for batch in _batches(held, path, spec.filesystem_options):
        low, high = np.searchsorted(gone, [start, start + batch.num_rows])
        keep = np.ones(batch.num_rows, dtype=bool)
        keep[gone[low:high] - start] = False
        # First in our types: Arrow cannot filter every type that others write (string views of delta-rs).
        rows = from_file(pa.Table.from_batches([batch]), spec.schema, held.stored, by_field_id=held.by_field_id, initial=spec.initial)
        if spec.lineage is not None:
            rows = _placed(spec.lineage, path, rows, start)
        start += batch.num_rows
        for name in held.outside:
            column = spec.schema.field(name)
            rows = rows.set_column(
                spec.schema.get_field_index(name), column, pa.repeat(pa.scalar(partition[name], column.type), rows.num_rows)
            )
        yield rows if high == low else rows.filter(pa.array(keep))


def _placed(lineage: FilesLineage, path: str, rows: pa.Table, start: int) -> pa.Table:
    """Rows of a file from a position on, with all that they take along from there."""
    paths = pa.repeat(pa.scalar(path, pa.string()), rows.num_rows)
    positions = pa.array(np.arange(start, start + rows.num_rows, dtype=np.int64))
    held = (rows[ROW_ID].combine_chunks(), rows[CHANGED_IN].combine_chunks())
    return with_lineage(rows, *lineage.moved(paths, positions, held))


def _batches(held: HeldColumns, path: str, filesystem_options: Options) -> Iterator[pa.RecordBatch]:
    with open_data_file(path, filesystem_options, by_field_id=held.by_field_id) as source:
        places = file_columns(source.schema_arrow, held.stored, by_field_id=held.by_field_id)
        columns = [source.schema_arrow.field(place).name for place in places if place is not None]
        yield from source.iter_batches(batch_size=131_072, columns=columns)
