"""Write outcome rows into data files, in the driver or on executors, and collect the positions of deleted rows.

If a table has a change data feed, the outcome rows also contain the target row before the change. The same task writes the data files and
the change files in `_change_data`, without a second read or a join. If a version has change files, they must contain every changed row. So
inserted rows are then written twice. Rows that are only copied never become change rows. Commits that only append or remove whole files
have no change files, because readers derive their changes from the data files.

The driver writes a small number of outcome rows itself, because the first Python process on an executor starts slowly. If the source has
few rows, the job that counts the rows also returns them. The driver keeps them as a local relation, prunes files by each of their keys, and
writes the inserted rows. The driver also writes up to `FEW_ROWS` changed rows. So a small statement does not run Python on an executor. If
the files are small, one task reads, joins and writes their rows, without a shuffle.
"""

from __future__ import annotations

import math
import pickle
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.errors import StorageError
from rowmerge.errors.environment import unreadable_data_file
from rowmerge.parquet.data_files import StoredColumns, WriteSpec
from rowmerge.parquet.filesystems import UnreadableFile, safe_reason
from rowmerge.parquet.outcomes import OutcomeColumns, OutcomeWriter, message_fields
from rowmerge.parquet.rewriting import FileBin, write_bins
from rowmerge.plan.file_strategy import Bin
from rowmerge.spark.reading.data_files import spark_path
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.reading.stored_columns import initial_values, stored_columns
from rowmerge.spark.types import frame_of
from rowmerge.spark.values.outcomes import moved_rows, outcome_columns, output_column
from rowmerge.spark.writing import sink
from rowmerge.spark.writing.distribution import Gather, distribute_by_file, distribute_rows, divide_by_file, optimized_tasks
from rowmerge.spark.writing.jobs import run_write_job
from rowmerge.spark.writing.specs import change_rows_spec, with_lineage_columns, write_spec
from rowmerge.spark.writing.write_output import WriteOutput, discard_paths, sum_of_tasks
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.shape import Lineage, TableShape
from rowmerge.table.snapshots.files import AddedFile, FileListing, Positions, RowOrigin
from rowmerge.table.snapshots.snapshot import Snapshot

MAX_REWRITE_BYTES = 8 * 1024 * 1024
"""The maximum total size in bytes of the files that the driver rewrites itself."""
_MAX_DRIVER_BINS = 64
"""The maximum number of bins that the driver rewrites itself. Executors rewrite more bins faster."""
_BINS_PER_TASK = 64
"""The number of bins that a task rewrites if their files are small. The start of a task takes as long as the rewrite of a few bins."""
FEW_ROWS = 5_000
"""The maximum number of outcome rows that the driver writes itself."""
ONE_TASK_BYTES, ONE_TASK_ROWS = 4 * 1024 * 1024, 200_000
"""The maximum total size in bytes and the maximum row count of files that one task reads faster than several tasks."""
_MAX_ROW_BYTES = 2_000
"""The maximum average size in bytes of the rows in a file for which the driver may collect FEW_ROWS rows."""


def are_small(files: FileListing) -> bool:
    """Return whether one task reads these files faster than several tasks that then shuffle their results."""
    return files.total_size <= ONE_TASK_BYTES and files.total_records <= ONE_TASK_ROWS


def may_be_few(files: FileListing, *, source_is_few: bool) -> bool:
    """Return whether a first job should test if a statement has only a few outcome rows from these files.

    A statement with few source rows usually has few outcome rows, because most keys match one target row. If there are many, the test ends
    early. A statement without a source is tested only for small files: reading them twice takes less time than Python on an executor.

    Args:
        files: The files that contain the target rows.
        source_is_few: Whether the statement has a source with few rows.
    """
    return files.total_size <= _MAX_ROW_BYTES * files.total_records and (source_is_few or are_small(files))


def write_on_driver(outcomes: pa.Table, spec: WriteSpec, columns: OutcomeColumns, change_spec: WriteSpec | None) -> WriteOutput:
    """Write outcome rows in the same way as a task on an executor, but in this process.

    Args:
        outcomes: The outcome rows: target rows and source rows, each with the action of the statement (see `OutcomeColumns`).
        spec: The settings with which data files are written.
        columns: The columns of the outcome rows.
        change_spec: The settings with which change files are written, None for a table without a change data feed.

    Raises:
        StorageError: A file cannot be written. All written files are then deleted.
    """
    file_writer = OutcomeWriter(columns, spec, change_spec)
    try:
        if outcomes.num_rows:
            file_writer.write(outcomes)
        return sum_of_tasks([message_fields(file_writer.close())])  # the result of one task
    except BaseException as error:
        discard_paths(file_writer.abort(), spec.filesystem_options)
        if isinstance(error, OSError | pa.ArrowException):
            first_line = str(error).splitlines()[0]
            raise StorageError(spec.root, safe_reason(first_line, spec.filesystem_options)) from None
        raise


@dataclass(frozen=True)
class LateValues:
    """The columns that outcome rows lack, because the writer reads the values of updated rows from the target's files.

    Attributes:
        snapshot: The snapshot with the files.
        columns: The names of the columns.
        path_by_file: The path of each file by its name in the column FILE.
        task_count: The number of tasks that read the files of a table without partitions. 0 if the tasks with the rows read them.
    """

    snapshot: Snapshot
    columns: frozenset[str]
    path_by_file: Mapping[str, str]
    task_count: int


@dataclass(frozen=True)
class WriteRequest:
    """The options for writing outcome rows into files of a table.

    Attributes:
        table: The target table.
        gather: How to combine the rows if there are few (see `distribute_rows`).
        distribution: The table's distribution mode for the operation (see `distribute_rows`).
        change_data_location: The folder of change files, None for a table without a change data feed.
        target_rows_may_repeat: Whether several outcome rows can have the same target row. The first of them then provides the change row.
        rows_may_be_few: Whether a first job collects up to FEW_ROWS + 1 rows. If there are at most FEW_ROWS, the driver writes them.
        lineage: The hidden columns of row lineage, None for a table without row lineage.
        row_origins: The row lineage of the files that contain the target rows, by the value in the column FILE.
        late_values: The columns that the writer reads itself, None if outcome rows have all columns. Then no outcome row is an insert.
    """

    table: TableShape
    gather: Gather
    distribution: Distribution | None = None
    change_data_location: str | None = None
    target_rows_may_repeat: bool = False
    rows_may_be_few: bool = False
    lineage: Lineage | None = None
    row_origins: Mapping[str, RowOrigin] = field(default_factory=dict)
    late_values: LateValues | None = None


def write_outcomes(outcomes: DataFrame, request: WriteRequest) -> WriteOutput:
    """Write outcome rows: target rows and source rows, each with the action of the statement (see `OutcomeColumns`).

    The driver writes a small number of rows itself, which takes less time than starting Python on an executor. If there are
    certainly few rows, the caller requests this (Gather.DRIVER). If it only expects few rows (`rows_may_be_few`), a first job tests
    it. Otherwise, executors write the rows, and if the job fails, its files are deleted. `request`: The options for writing the rows.
    """
    base_spec = replace(write_spec(request.table), attempt=str(uuid.uuid4()))  # a UUID in file names identifies the files of a failed job
    # Data files have the hidden columns of row lineage, but change files lack them.
    data_spec = base_spec if request.lineage is None else with_lineage_columns(base_spec, request.lineage, request.row_origins)
    if request.late_values is not None:
        data_spec = _with_late_values(outcomes.sparkSession, data_spec, request.late_values)
    change_spec = None if request.change_data_location is None else change_rows_spec(base_spec, request.change_data_location)
    columns = outcome_columns(outcomes, len(request.table.schema))
    if request.rows_may_be_few:
        first_rows = _first_rows(outcomes, columns, request)  # up to FEW_ROWS + 1
        if first_rows.num_rows <= FEW_ROWS:
            return write_on_driver(first_rows, data_spec, columns, change_spec)
    distributed_outcomes = _distribute_outcomes(outcomes, columns, request)
    if request.gather is Gather.DRIVER:
        return write_on_driver(distributed_outcomes.toArrow(), data_spec, columns, change_spec)
    with optimized_tasks(outcomes.sparkSession, request.table):
        return _write_on_executors(distributed_outcomes, data_spec, columns, change_spec)


def _with_late_values(spark: SparkSession, spec: WriteSpec, late_values: LateValues) -> WriteSpec:
    """Return the settings for a writer that reads columns of updated rows from the files of the target."""
    snapshot, names = late_values.snapshot, tuple(name for name in spec.names if name in late_values.columns)
    return replace(
        spec,
        late_columns=names,
        path_by_file=dict(late_values.path_by_file),
        stored_columns_by_path=_columns_of_other_layouts(snapshot, spec, list(late_values.path_by_file.values())),
        initial_values=initial_values(spark, snapshot.shape),
    )


def _first_rows(outcomes: DataFrame, columns: OutcomeColumns, request: WriteRequest) -> pa.Table:
    """Return up to FEW_ROWS + 1 outcome rows, in the order in which the driver writes them."""
    rows = outcomes.coalesce(1) if request.gather is Gather.ONE_TASK else outcomes
    first_rows = rows.limit(FEW_ROWS + 1)
    if table_columns := _names_of_table_columns(columns, request):
        first_rows = distribute_rows(first_rows, request.table, table_columns, gather=Gather.DRIVER)
    return first_rows.toArrow()


def _distribute_outcomes(outcomes: DataFrame, columns: OutcomeColumns, request: WriteRequest) -> DataFrame:
    """Divide outcome rows among the tasks that write them. Rows without table columns, such as deletions, are not shuffled."""
    if request.change_data_location is not None and request.target_rows_may_repeat and request.gather is not Gather.ONE_TASK:
        # One task must get all outcome rows of a target row, so that it writes one change row. Other rows may go to any task.
        any_task = F.when(F.col(FILE).isNull(), F.monotonically_increasing_id())
        return outcomes.repartition(F.col(FILE), F.col(POSITION), any_task)
    table_columns = _names_of_table_columns(columns, request)
    if not table_columns:
        return outcomes
    if request.late_values is not None and not request.table.partitioning and request.gather in (Gather.BY_SIZE, Gather.NONE):
        task_count = request.late_values.task_count
        return distribute_by_file(outcomes, request.table, task_count, request.distribution) if task_count else outcomes
    return distribute_rows(outcomes, request.table, table_columns, gather=request.gather, distribution=request.distribution)


def _names_of_table_columns(columns: OutcomeColumns, request: WriteRequest) -> tuple[str, ...]:
    """Return the names of all columns of the table in outcome rows, also of late ones, or none if the rows have no table columns."""
    if request.late_values is not None:
        return tuple(map(output_column, range(len(request.table.schema))))
    return columns.new_columns or columns.old_columns


def _write_on_executors(outcomes: DataFrame, spec: WriteSpec, columns: OutcomeColumns, change_spec: WriteSpec | None) -> WriteOutput:
    """Write outcome rows in a Spark job. If the job fails, the files of its finished tasks are deleted."""
    return sum_of_tasks(run_write_job(outcomes, sink.outcome_sink, spec, columns, change_spec, change_spec=change_spec))


def rewrite_in_order(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, *, file_count: int, partition_count: int, target_size: int
) -> WriteOutput:
    """Rewrite files without their deleted rows, and sort the rows of all files in the table's sort order.

    The job is the same as for rows of a statement, which have an action such as "insert" (outcome rows). Here, all rows have "move".
    If the table has row lineage, rows keep their id and the version of their last change. An old file need not store these for a row. They
    then follow from the row's position and the `origins`: the first row id and the version of each old file.

    Args:
        spark: The session that runs the job.
        snapshot: The snapshot of a table with a sort order.
        files: The files to rewrite.
        file_count: The number of new files.
        partition_count: The number of partitions that the files belong to.
        target_size: The target size of a new file in bytes.
    """
    spec = replace(write_spec(snapshot.shape), attempt=str(uuid.uuid4()), target_file_size=target_size)
    lineage = snapshot.shape.row_lineage
    if lineage is not None:
        origins = snapshot.metadata_columns.row_origins(files.paths)
        spec = with_lineage_columns(spec, lineage, {spark_path(path): origin for path, origin in origins.items()})
    rows = read_snapshot(spark, snapshot, files, with_addresses=lineage is not None, with_lineage=True)
    outcomes = moved_rows(rows, snapshot.schema.names)
    columns = outcome_columns(outcomes, len(snapshot.schema))
    # Each task gets the rows of one new file.
    outcomes_by_file = divide_by_file(outcomes, snapshot.shape, columns.new_columns, file_count=file_count, partition_count=partition_count)
    return _write_on_executors(outcomes_by_file, spec, columns, change_spec=None)


def rewrite_files(
    spark: SparkSession,
    snapshot: Snapshot,
    bins: Sequence[Bin],
    deleted: Mapping[str, Positions],
    *,
    target_size: int | None = None,
    shape: TableShape | None = None,
) -> WriteOutput:
    """Rewrite the files of each bin into one or more files, without their deleted rows. The rows are not sorted.

    The hidden columns of row lineage preserve the ids of the rows and the versions that last changed them.

    Args:
        spark: The session that runs the job.
        snapshot: The snapshot of the table.
        bins: The files to rewrite, in groups.
        deleted: By path, the positions of all deleted rows.
        target_size: The target size of a new file in bytes, None for the table's setting.
        shape: The shape of the new files, which may have other stored names than the snapshot. None for the shape of the snapshot.
    """
    paths = [path for bin_ in bins for path in bin_.paths]
    # A new file contains rows of several files, each sorted separately.
    spec = replace(write_spec(shape or snapshot.shape), is_ordered=False)
    if target_size is not None:
        spec = replace(spec, target_file_size=target_size)
    if snapshot.shape.row_lineage is not None:
        spec = with_lineage_columns(spec, snapshot.shape.row_lineage, snapshot.metadata_columns.row_origins(paths))
    # Old files may identify columns by name instead of field id. They may also lack new columns, which then have their default value.
    columns_by_path = _columns_of_other_layouts(snapshot, spec, paths) if shape is None else _columns_of_old_shape(snapshot, paths)
    initial_value_by_column = initial_values(spark, snapshot.shape)
    rewrite_spec = replace(spec, stored_columns_by_path=columns_by_path, initial_values=initial_value_by_column)
    return rewrite_bins(spark, snapshot.name, rewrite_spec, bins, deleted)


def rewrite_bins(spark: SparkSession, table: str, spec: WriteSpec, bins: Sequence[Bin], deleted: Mapping[str, Positions]) -> WriteOutput:
    """Rewrite files: few bins with up to MAX_REWRITE_BYTES in the driver, to avoid the latency of a job, and others in a job.

    A task gets several bins of about MAX_REWRITE_BYTES in total. The start of a task takes longer than the rewrite of a small file.

    Args:
        spark: The session that runs the job.
        table: The name of the table in error messages.
        spec: The settings with which data files are written.
        bins: The files to rewrite, in groups.
        deleted: By path, the positions of all deleted rows.
    """
    size = sum(bin_.size for bin_ in bins)
    if size <= MAX_REWRITE_BYTES and len(bins) <= _MAX_DRIVER_BINS:
        return _rewrite_on_driver(table, spec, bins, deleted)
    task_count = min(len(bins), max(size // MAX_REWRITE_BYTES, math.ceil(len(bins) / _BINS_PER_TASK)))
    bin_rows = frame_of(spark, _bin_rows(bins, deleted)).repartition(task_count)
    return sum_of_tasks(run_write_job(bin_rows, sink.rewrite_sink, replace(spec, attempt=str(uuid.uuid4()))))


def _bin_rows(bins: Sequence[Bin], deleted: Mapping[str, Positions]) -> pa.Table:
    """Return a table with a row for each bin, as input of `sink.rewrite_sink`. Bitmaps are serialized, and partition values are pickled."""
    schema = pa.schema({"paths": pa.list_(pa.string()), "positions": pa.list_(pa.binary()), "partition": pa.binary(), "size": pa.int64()})
    rows = []
    for bin_ in bins:
        positions = list(_serialized(bin_.paths, deleted).values())
        partition = pickle.dumps(dict(bin_.partition))
        rows.append({"paths": list(bin_.paths), "positions": positions, "partition": partition, "size": bin_.size})
    return pa.Table.from_pylist(rows, schema)


def _rewrite_on_driver(table: str, spec: WriteSpec, bins: Sequence[Bin], deleted: Mapping[str, Positions]) -> WriteOutput:
    """Rewrite files in this process, without their deleted rows. A bin contains files of one partition that are rewritten together.

    Raises MissingDataFile if a file does not exist, and UnreadableDataFile if a file cannot be read. The new files are then deleted.
    """
    file_bins = [FileBin(_serialized(bin_.paths, deleted), bin_.partition, bin_.size) for bin_ in bins]
    try:
        files = write_bins(spec, file_bins, discard_paths)
    except UnreadableFile as error:
        raise unreadable_data_file(table, error.path, error.reason) from error
    return WriteOutput(files=[AddedFile(**vars(file)) for file in files])


def _serialized(paths: Sequence[str], deleted: Mapping[str, Positions]) -> dict[str, bytes]:
    """Return the serialized bitmap of the deleted positions of each path."""
    return {path: deleted.get(path, Positions()).serialize() for path in paths}


def _columns_of_other_layouts(snapshot: Snapshot, spec: WriteSpec, paths: Sequence[str]) -> dict[str, StoredColumns]:
    """Return, by path, the columns of the files that identify columns by name although new files use field ids, or vice versa.

    Such files occur in Iceberg tables to which Parquet files without field ids were added ("Column Projection" in the Iceberg
    specification). A rewrite reads all other files with the columns of `spec`. A layout is a group of files that store columns alike.
    """
    columns_by_path: dict[str, StoredColumns] = {}
    for layout in snapshot.layouts(paths):
        if layout.by_field_id != spec.by_field_id:
            columns_by_path |= dict.fromkeys(layout.paths, stored_columns(snapshot, layout, spec.schema.names))
    return columns_by_path


def _columns_of_old_shape(snapshot: Snapshot, paths: Sequence[str]) -> dict[str, StoredColumns]:
    """Return, by path, the columns of files as the snapshot stores them, although new files have other names or no field ids."""
    spec = write_spec(snapshot.shape)
    return dict.fromkeys(paths, StoredColumns(spec.file_schema, spec.by_field_id, missing_columns=()))
