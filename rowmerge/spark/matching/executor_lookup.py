"""Look up the keys of a source in data files that executors read. Each task reads several files."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rowmerge.parquet import lookup_tasks
from rowmerge.parquet.data_files import StoredColumns
from rowmerge.parquet.filesystems import Options
from rowmerge.parquet.key_lookup import LookedUpFile
from rowmerge.parquet.lookup_tasks import LookupSpec, TaskFile
from rowmerge.parquet.source_keys import NumpyArray, SourceKeys
from rowmerge.spark.executors import bind_for_executors
from rowmerge.spark.failures import translated
from rowmerge.spark.reading.data_files import ADDRESS_FIELDS
from rowmerge.spark.reading.splits import pack
from rowmerge.spark.spark_session import analyses_later
from rowmerge.spark.types import to_spark
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.schema import Struct, arrow_schema, bare
from rowmerge.table.snapshots.files import Positions

_ROWS_PER_TASK, _ROWS_PER_OPEN_FILE, _OPEN_TASKS = 2_000_000, 20_000, 10
"""The minimum number of rows in whose files one task looks up keys, and the number of rows that a task reads while it would open another
file."""
_TASKS_PER_CORE = 3
"""The number of tasks for each core of the cluster, if tasks then have enough rows. Each task loads all keys."""
_KEY_BYTES_PER_ROW = 8
"""The number of bytes of keys that a task loads while it would look up keys in one row. With many keys, a task reads more files."""
_ID_BYTES, _ESTIMATED_BYTES = 8, 64 * 1024 * 1024
"""The size of an id in Spark's estimates, and the estimated size of the rows with a key in bytes (see `rows_on_executors`)."""


def rows_on_executors(spark: SparkSession, files: Sequence[LookedUpFile], columns: Struct, keys: SourceKeys) -> DataFrame:
    """Return the live rows that have a key of the source, with the address of each row. Each job that reads the result looks them up again.

    Spark estimates the size of the result from the number of ids in the range, before the filter. The number of rows with a key is unknown,
    so the estimate is too large for a broadcast. Spark's adaptive execution broadcasts the rows if their actual size is small.

    Args:
        spark: The session of the result.
        files: The data files.
        columns: The columns to return, which include the key columns.
        keys: The keys of the source.

    Returns:
        The columns, followed by FILE and POSITION. FILE is the index of the file in `files` as a string such as "12".
    """
    spec, file_lists = _spec_and_lists(spark, files, arrow_schema(bare(columns)), keys)
    ids_per_list = 1 << max(0, _ESTIMATED_BYTES // _ID_BYTES // len(file_lists)).bit_length()  # a power of two, for a fast filter
    ids = spark.range(0, ids_per_list * len(file_lists), 1, len(file_lists)).where(f"id & {ids_per_list - 1} = 0")
    task = bind_for_executors(lookup_tasks.rows_task, spec, file_lists, ids_per_list, (FILE, POSITION))
    return ids.mapInArrow(task, to_spark(bare(Struct((*columns, *ADDRESS_FIELDS)))))


def positions_on_executors(
    spark: SparkSession,
    table: str,
    files: Sequence[LookedUpFile],
    columns: Struct,
    keys: SourceKeys,
    *,
    with_key_ids: bool,
    max_rows: int | None,
) -> Generator[tuple[LookedUpFile, tuple[Positions, NumpyArray]], None, None]:
    """Yield each file that contains live rows with a key of the source, with the positions of these rows and the ids of their keys.

    Args:
        spark: The session that runs the job.
        table: The name of the table in error messages.
        files: The data files.
        columns: Columns of the table, which include the key columns.
        keys: The keys of the source.
        with_key_ids: Whether to return key ids. Otherwise, their arrays are empty.
        max_rows: The number of rows after which a task stops, None for no limit. If there are more rows, some files are missing.

    Raises:
        MissingDataFile: A data file does not exist.
        UnreadableDataFile: A data file cannot be read.
    """
    spec, file_lists = _spec_and_lists(spark, files, arrow_schema(bare(columns)), keys)
    task = bind_for_executors(lookup_tasks.positions_task, spec, file_lists, max_rows, with_key_ids)
    with translated("", table):
        rows = spark.range(0, len(file_lists), 1, len(file_lists)).mapInArrow(task, "file int, positions binary, key_ids binary").toArrow()
    for row in rows.to_batches(max_chunksize=1):
        index, positions, key_ids = (column[0] for column in row.columns)
        yield files[index.as_py()], (Positions.deserialize(positions.as_py()), np.frombuffer(key_ids.as_py(), dtype=np.int64))


def _spec_and_lists(
    spark: SparkSession, files: Sequence[LookedUpFile], columns: pa.Schema, keys: SourceKeys
) -> tuple[LookupSpec, list[bytes]]:
    """Return the settings of the tasks, and the files of each task as pickled lists (see `rows_task`)."""
    layouts: dict[int, int] = {}  # the index of each object by its id: files of one layout share one object
    stored_columns: list[StoredColumns] = []
    task_files = []
    for index, file in enumerate(files):
        layout = layouts.setdefault(id(file.stored_columns), len(stored_columns))
        if layout == len(stored_columns):
            stored_columns.append(file.stored_columns)
        task_files.append(TaskFile(index, file.path, layout, file.deleted, dict(file.partition), file.row_count, file.size))
    options: Options = files[0].filesystem_options
    spec = LookupSpec(columns, replace(keys, row_values=()), tuple(stored_columns), options)
    weights = [max(file.row_count, _ROWS_PER_OPEN_FILE) for file in files]
    rows_per_task = max(_ROWS_PER_TASK, keys.nbytes // _KEY_BYTES_PER_ROW)
    if not analyses_later(spark):  # Spark Connect does not tell the number of cores
        rows_per_task = max(rows_per_task, sum(weights) // (_TASKS_PER_CORE * spark.sparkContext.defaultParallelism))
    bins = pack(weights, rows_per_task, _OPEN_TASKS)
    return spec, [pickle.dumps([tuple(task_files[index]) for index in bin_]) for bin_ in bins]
