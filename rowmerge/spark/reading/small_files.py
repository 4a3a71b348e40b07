"""Read many small files as a DataFrame with Arrow, many files per task. Spark's own reader takes much longer to open a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from rowmerge.parquet import small_files
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.small_files import DELETED, FILE_NAME, PARTITION_PREFIX, PATH, SmallFilesSpec
from rowmerge.spark.executors import bind_for_executors
from rowmerge.spark.reading.data_files import ADDRESS_FIELDS, lineage_columns, spark_path
from rowmerge.spark.reading.deleted_rows import deleted_rows
from rowmerge.spark.reading.splits import pack
from rowmerge.spark.reading.stored_columns import initial_values, nullable_schema
from rowmerge.spark.spark_session import setting
from rowmerge.spark.types import to_spark
from rowmerge.table.metadata.schema import Struct, bare
from rowmerge.table.metadata.shape import Lineage
from rowmerge.table.snapshots.files import FileLayout, FileListing, Positions
from rowmerge.table.snapshots.snapshot import Snapshot

SMALL_FILES = "spark.rowmerge.read.smallFilesWithArrow.enabled"
"""The setting of Spark with which a session forbids these reads."""
MIN_FILES = 500
"""The minimum number of small files for which a start of Python on executors is worth its time."""
MAX_FILE_BYTES = 128 * 1024
"""The maximum size of a small file in bytes. Spark does not tell Python which columns a query needs, so Arrow can read more of them. For
larger files, this takes longer than Spark's reader needs to open the file and to read one column."""

_ID_BYTES = 8
"""The size of an id in Spark's estimates. The rows of `mapInArrow` have the estimated size of its input."""
DEFAULT_OPEN_FILE_COST = 128 * 1024
"""The number of bytes that Arrow decodes while it opens a file. By default, a task gets up to 1,024 files, because Spark needs as long to
start a task in Python as Arrow needs to read 150 files."""
_MIN_LISTS = 8
"""The least number of lists into which the default cost divides the files, so that the cores of a machine share them."""


def small_files_mask(spark: SparkSession, files: FileListing) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each file whether Arrow reads it: the small files if there are many of them."""
    is_small: np.ndarray[tuple[int], np.dtype[np.bool_]] = files.sizes.to_numpy() <= MAX_FILE_BYTES
    if is_small.sum() < MIN_FILES or setting(spark, SMALL_FILES, "true") == "false":
        return np.zeros_like(is_small)
    return is_small


def has_arrow_types(columns: Struct) -> bool:
    """Return whether Arrow has the types of all columns. It has none for void and variant."""
    try:
        nullable_schema(columns)
    except ValueError:
        return False
    return True


def read_with_arrow(
    spark: SparkSession,
    snapshot: Snapshot,
    layout: FileLayout,
    files: FileListing,
    columns: Collection[str],
    *,
    with_addresses: bool,
    lineage: Lineage | None,
) -> DataFrame:
    """Return the live rows of files of one layout, with columns of the table, the address and the lineage of each row.

    Args:
        spark: The session of the result.
        snapshot: The snapshot of the table.
        layout: How the files store the columns.
        files: The files.
        columns: The names of the columns to read, at least one.
        with_addresses: Whether to add the columns of ADDRESS_FIELDS.
        lineage: The lineage columns to add, or None.
    """
    pairs = [pair for pair in zip(snapshot.schema, layout.stored_schema, strict=True) if pair[0].name in columns]
    pairs += lineage_columns(lineage, layout)
    schema, file_schema = (Struct(fields) for fields in zip(*pairs, strict=True))
    spec = SmallFilesSpec(
        nullable_schema(schema),
        StoredColumns(nullable_schema(file_schema), layout.by_field_id, layout.missing_columns),
        initial_values=initial_values(spark, snapshot.shape),
        address_columns=tuple(field.name for field in ADDRESS_FIELDS) if with_addresses else (),
        filesystem_options=snapshot.shape.filesystem_options,
    )
    addresses = ADDRESS_FIELDS if with_addresses else ()
    has_deletes = pc.not_equal(files.deleted, 0)
    deleted = deleted_rows(spark, snapshot, files.filter(has_deletes).paths) if pc.any(has_deletes).as_py() else {}
    streams = file_streams(snapshot, layout, files, deleted)
    return _read_lists(spark, spec, bare(Struct((*schema, *addresses))), streams, files.total_size)


def _read_lists(spark: SparkSession, spec: SmallFilesSpec, schema: Struct, streams: Sequence[bytes], total_size: int) -> DataFrame:
    """Return the rows of lists of files. Each list is the work of one task.

    Spark estimates the size of the result from the number of ids in the range, before the filter. By this size, it decides whether to
    broadcast the rows in a join. So the number of ids makes the estimate about equal to the size of the files.
    """
    ids_per_list = 1 << max(0, total_size // _ID_BYTES // len(streams)).bit_length()  # a power of two, for a fast filter
    ids = spark.range(0, ids_per_list * len(streams), 1, len(streams)).where(f"id & {ids_per_list - 1} = 0")
    task = bind_for_executors(small_files.small_files_task, spec, streams, ids_per_list)
    return ids.mapInArrow(task, to_spark(schema))


def file_streams(snapshot: Snapshot, layout: FileLayout, files: FileListing, deleted: Mapping[str, Positions]) -> list[bytes]:
    """Return the lists of files that tasks read, each as an Arrow stream (see `rowmerge.parquet.small_files`).

    Args:
        snapshot: The snapshot that contains the files.
        layout: How the files store the columns.
        files: The files.
        deleted: The positions of deleted rows, by the path of the file.
    """
    return [_arrow_stream(file_list) for file_list in _file_lists(snapshot, layout, files, deleted)]


def _arrow_stream(files: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(files)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _file_lists(snapshot: Snapshot, layout: FileLayout, files: FileListing, deleted: Mapping[str, Positions]) -> list[pa.Table]:
    """Return the lists of files that tasks read, with the columns that `rowmerge.parquet.small_files` describes."""
    paths, sizes = files.paths, files.sizes.to_pylist()
    columns = {
        PATH: pa.array(paths, pa.string()),
        FILE_NAME: pa.array(map(spark_path, paths), pa.string()),
        DELETED: pa.array([_position_bytes(deleted[path]) if path in deleted else None for path in paths], pa.binary()),
    }
    columns |= {f"{PARTITION_PREFIX}{name}": pc.struct_field(files.partitions, [name]) for name in layout.missing_columns}
    table = pa.table(columns)
    splits = snapshot.settings.splits
    open_file_cost = DEFAULT_OPEN_FILE_COST if splits.open_file_cost is None else splits.open_file_cost
    weights = [max(size, open_file_cost) for size in sizes]
    target_size = splits.target_size
    if splits.open_file_cost is None:
        target_size = min(target_size, max(open_file_cost, -(-sum(weights) // _MIN_LISTS)))
    return [table.take(pa.array(bin_)) for bin_ in pack(weights, target_size, splits.planning_lookback)]


def _position_bytes(positions: Positions) -> bytes:
    return np.array(positions.to_array(), dtype=np.int64).tobytes()
