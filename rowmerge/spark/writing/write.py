"""Write outcome rows into data files, in the driver or on executors, and collect the positions of deleted rows.

If a table has a change data feed, the outcome rows also hold the target row before the change. The same task writes data files and
`_change_data`, without a second read or a join. A version with change rows must hold all of them, so inserted rows are written twice then.
Copied rows are never written as change rows. Appends and removals of whole files need none, because readers derive changes from files.

The driver writes few outcome rows itself, because the first Python process on an executor starts slowly.
A source of few rows comes to the driver in the job that counts it. The driver keeps it as a local relation, prunes files by each of its
keys, and writes its inserted rows. The driver also writes up to `FEW_ROWS` changed rows. So a small statement runs no Python on an
executor. One task reads, joins and writes small files, without a shuffle.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.errors import StorageError
from rowmerge.errors.tables import unreadable_data_file
from rowmerge.parquet.data_files import CHANGED_IN, ROW_ID, FilesLineage, StoredColumns, WriteSpec
from rowmerge.parquet.filesystems import UnreadableFile, without_secrets
from rowmerge.parquet.outcomes import OutcomeColumns, OutcomeTask, message_fields
from rowmerge.parquet.partitions import PartitionKey
from rowmerge.parquet.rewriting import write_live_rows
from rowmerge.plan.file_strategy import Bin
from rowmerge.spark.reading.scan import lineage_columns, read_snapshot, spark_path
from rowmerge.spark.types import frame_of
from rowmerge.spark.values.outcomes import moved_rows, outcome_columns
from rowmerge.spark.writing import sink
from rowmerge.spark.writing.distribution import Gather, distribute_rows, divide_by_file
from rowmerge.spark.writing.executors import bind_for_executors
from rowmerge.spark.writing.write_output import WriteOutput, discard_attempt, discard_on_error, discard_paths, sum_of_tasks
from rowmerge.table.metadata.engine_columns import FILE, POSITION
from rowmerge.table.metadata.partitioning import BUCKET, VOID, Distribution, PartitionField
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, NESTED_IDS, UUID, Field, Struct, arrow_schema, arrow_type, bare, sql_name, stored_types
from rowmerge.table.metadata.shape import Lineage, TableShape
from rowmerge.table.snapshots.change_feed import CHANGE_TYPE
from rowmerge.table.snapshots.files import AddedFile, FileListing, Positions, RowOrigin
from rowmerge.table.snapshots.snapshot import Snapshot

_MIN_ROW_GROUP_BYTES = 1024 * 1024
"""The bytes of Arrow data in the smallest row group. Statistics of a smaller row group are not worth their place in the footer."""
MAX_REWRITE_BYTES = 8 * 1024 * 1024
"""The total size of files up to which the driver rewrites them itself."""
FEW_ROWS = 5_000
"""The number of outcome rows up to which the driver writes them itself."""
ONE_TASK_BYTES, ONE_TASK_ROWS = 4 * 1024 * 1024, 200_000
"""The total size and row count of files up to which one task reads them faster than several tasks."""
_MAX_ROW_BYTES = 2_000
"""The average bytes of a row in its file up to which the driver may collect FEW_ROWS rows."""


def write_spec(table: TableShape) -> WriteSpec:
    """Return how data files of this table are written, with its properties or the defaults of `WriteSpec`.

    A data file of a Delta table lacks the partition columns (PROTOCOL.md, Data Files). `bounded_columns` has all columns in files: the
    writer collects all bounds, and the commit drops those that the table's properties exclude.
    """
    columns_not_in_files = () if table.partition_values_in_files else tuple(field.column[0] for field in table.partitioning)
    is_in_file = [name not in columns_not_in_files for name in table.schema.names]
    schema = _nullable_schema(Struct(tuple(compress(table.schema, is_in_file))))
    parquet = table.settings.parquet
    target_size = table.settings.target_file_size or WriteSpec.target_file_size
    return WriteSpec(
        root=table.data_location,
        names=table.schema.names,
        schema=schema,
        file_schema=_nullable_schema(Struct(tuple(compress(table.stored_schema, is_in_file)))),
        by_field_id=table.by_field_id,
        partition=tuple(_partition_key(table, field) for field in table.partitioning),
        partition_values_in_files=table.partition_values_in_files,
        is_ordered=bool(table.ordering),
        bounded_columns=frozenset(schema.names),
        target_file_size=target_size,
        row_group_size=parquet.row_group_size or min(WriteSpec.row_group_size, max(target_size, _MIN_ROW_GROUP_BYTES)),
        compression=parquet.codec or WriteSpec.compression,
        compression_level=parquet.level,
        filesystem_options=table.filesystem_options,
    )


def _partition_key(table: TableShape, field: PartitionField) -> PartitionKey:
    """Return how the writer computes the values of a partition field and names its folders.

    The folders of an Iceberg table have the field's name, those of a Delta table the physical name of its column (column mapping).
    """
    if field.transform.name == VOID:  # all values are NULL, also if the source column was dropped
        return PartitionKey(field.name, folder=field.name, source=(), type=pa.null(), transform=str(field.transform))
    source = table.schema.at(field.column, case_sensitive=True)
    file_source = stored_types(table.schema).at(field.column, case_sensitive=True)
    assert source is not None and file_source is not None
    # Spark has a UUID as text, but its bucket is the hash of the 16 bytes in the file.
    is_bucket_of_uuid = field.transform.name == BUCKET and file_source.type == UUID
    type_ = pa.binary(UUID.length) if is_bucket_of_uuid else arrow_type(source.type)
    physical_names = dict(zip(table.schema.names, table.stored_schema.names, strict=True))
    folder = field.name if table.partition_values_in_files else physical_names[field.name]
    return PartitionKey(field.name, folder, source=field.column, type=type_, transform=str(field.transform))


def _nullable_schema(schema: Struct) -> pa.Schema:
    """Return the Arrow schema with all columns nullable. Spark, too, writes NOT NULL columns as optional: later rules may relax them."""
    return arrow_schema(bare(schema, metadata_keys=(FIELD_ID, NESTED_IDS)))


def change_rows_spec(spec: WriteSpec, location: str) -> WriteSpec:
    """Return how change rows are written: like data rows, with the change type as last column (PROTOCOL.md, Change Data Files).

    Args:
        spec: How data files of the table are written.
        location: The folder of change files.
    """
    change_type = pa.field(CHANGE_TYPE, pa.string())
    schema, file_schema = spec.schema.append(change_type), spec.file_schema.append(change_type)
    change_spec = replace(spec, names=(*spec.names, CHANGE_TYPE), schema=schema, file_schema=file_schema)
    return replace(change_spec, root=location, bounded_columns=frozenset(), prefix="cdc")


def _with_lineage(spec: WriteSpec, lineage: Lineage, origins: Mapping[str, RowOrigin]) -> WriteSpec:
    """Add the hidden columns of row lineage. `origins`: by path as the tasks see it, the lineage of the files from which rows come."""
    hidden_columns = ((ROW_ID, lineage.row_id), (CHANGED_IN, lineage.changed_in))
    schema = pa.schema([*spec.schema, *_nullable_schema(Struct(tuple(Field(name, column.type) for name, column in hidden_columns)))])
    file_schema = pa.schema([*spec.file_schema, *_nullable_schema(Struct(tuple(column for _, column in hidden_columns)))])
    files_lineage = FilesLineage({path: (origin.first_row_id, origin.version) for path, origin in origins.items()})
    return replace(spec, schema=schema, file_schema=file_schema, lineage=files_lineage)


def are_small(files: FileListing) -> bool:
    """Return whether one task reads these files faster than several tasks with a shuffle of their results."""
    return files.total_size <= ONE_TASK_BYTES and files.total_records <= ONE_TASK_ROWS


def may_be_few(files: FileListing, *, source_is_few: bool) -> bool:
    """Return whether a first job should test if the outcome rows of these files are few.

    With few source rows, they usually are, because most keys match one row. If not, the test ends early. Without a source, small files are
    worth the test, because reading them twice takes less time than Python on an executor.

    Args:
        files: The files of the target rows.
        source_is_few: Whether the statement has a source, and its rows are few.
    """
    return files.total_size <= _MAX_ROW_BYTES * files.total_records and (source_is_few or are_small(files))


def write_on_driver(outcomes: pa.Table, spec: WriteSpec, columns: OutcomeColumns, change_spec: WriteSpec | None) -> WriteOutput:
    """Write outcome rows like a task on an executor, but in this process.

    Args:
        outcomes: The outcome rows: target rows and source rows, each with the action of the statement (see `OutcomeColumns`).
        spec: How data files are written.
        columns: The columns of the outcome rows.
        change_spec: How files of change rows are written, None for a table without change data feed.

    Raises:
        StorageError: A file cannot be written. All files are then deleted.
    """
    task = OutcomeTask(columns, spec, change_spec)
    try:
        if outcomes.num_rows:
            task.write(outcomes)
        return sum_of_tasks([message_fields(task.close())])
    except BaseException as error:
        discard_paths(task.abort(), spec.filesystem_options)
        if isinstance(error, OSError | pa.ArrowException):
            raise StorageError(spec.root, without_secrets(str(error).splitlines()[0], spec.filesystem_options)) from error
        raise


@dataclass(frozen=True)
class WriteRequest:
    """How outcome rows are written into files of a table.

    Attributes:
        table: The target table.
        gather: See `distribute_rows`.
        distribution: See `distribute_rows`.
        change_data_location: The folder of change rows, None for a table without change data feed.
        may_repeat: Whether several outcome rows can have one target row. The first of them makes the change row.
        may_be_few: Whether to run a first job that collects up to FEW_ROWS + 1 rows. The driver writes up to FEW_ROWS rows itself.
        lineage: The hidden columns of row lineage, None for a table without it.
        origins: The row lineage of the files of target rows, by the text in FILE.
    """

    table: TableShape
    gather: Gather
    distribution: Distribution | None = None
    change_data_location: str | None = None
    may_repeat: bool = False
    may_be_few: bool = False
    lineage: Lineage | None = None
    origins: Mapping[str, RowOrigin] = field(default_factory=dict)


def write_outcomes(outcomes: DataFrame, request: WriteRequest) -> WriteOutput:
    """Write outcome rows: target rows and source rows, each with the action of the statement (see `OutcomeColumns`).

    The driver writes few rows itself, which takes less time than starting Python on an executor. Executors write other rows, and the files
    of a failed job are deleted.

    Args:
        outcomes: The outcome rows.
        request: How they are written.
    """
    table_spec = replace(write_spec(request.table), attempt=str(uuid.uuid4()))  # a UUID in file names, to find the files of a failed job
    # Data files have the hidden columns of row lineage, but change files lack them.
    spec = table_spec if request.lineage is None else _with_lineage(table_spec, request.lineage, request.origins)
    change_spec = None if request.change_data_location is None else change_rows_spec(table_spec, request.change_data_location)
    columns = outcome_columns(outcomes, len(request.table.schema))
    if request.may_be_few:
        first_rows = _first_rows(outcomes, columns, request)  # one row above the limit shows that there are more
        if first_rows.num_rows <= FEW_ROWS:
            return write_on_driver(first_rows, spec, columns, change_spec)
    distributed_outcomes = _distribute_outcomes(outcomes, columns, request)
    if request.gather is Gather.DRIVER:
        return write_on_driver(distributed_outcomes.toArrow(), spec, columns, change_spec)
    return _write_on_executors(distributed_outcomes, spec, columns, change_spec)


def _first_rows(outcomes: DataFrame, columns: OutcomeColumns, request: WriteRequest) -> pa.Table:
    """Return up to FEW_ROWS + 1 outcome rows, in the order in which the driver writes them."""
    rows = outcomes.coalesce(1) if request.gather is Gather.ONE_TASK else outcomes
    first_rows = rows.limit(FEW_ROWS + 1)
    if table_columns := columns.new_columns or columns.old_columns:
        first_rows = distribute_rows(first_rows, request.table, table_columns, gather=Gather.DRIVER)
    return first_rows.toArrow()


def _distribute_outcomes(outcomes: DataFrame, columns: OutcomeColumns, request: WriteRequest) -> DataFrame:
    """Bring outcome rows to the tasks that write them. Rows without columns of the table, such as deletions, stay where they are."""
    if request.change_data_location is not None and request.may_repeat and request.gather is not Gather.ONE_TASK:
        # One task must get all outcome rows of a target row, to write one change row. Rows without a target row may go to any task.
        any_task = F.when(F.col(FILE).isNull(), F.monotonically_increasing_id())
        return outcomes.repartition(F.col(FILE), F.col(POSITION), any_task)
    table_columns = columns.new_columns or columns.old_columns
    if not table_columns:
        return outcomes
    return distribute_rows(outcomes, request.table, table_columns, gather=request.gather, distribution=request.distribution)


def _write_on_executors(outcomes: DataFrame, spec: WriteSpec, columns: OutcomeColumns, change_spec: WriteSpec | None) -> WriteOutput:
    """Write outcome rows by a job. If the job fails, the files of its finished tasks are deleted."""
    try:
        messages = outcomes.mapInArrow(bind_for_executors(sink.outcome_sink, spec, columns, change_spec), "message binary").toArrow()
    except BaseException:
        discard_attempt(spec, change_spec)
        raise
    return _sum_of_messages(messages)


def rewrite_in_order(
    spark: SparkSession, snapshot: Snapshot, files: FileListing, *, file_count: int, partition_count: int, target_size: int
) -> WriteOutput:
    """Rewrite files without their deleted rows, and sort the rows of all files in the table's order.

    The job of row-level statements writes the rows, as outcome rows with the action "move".

    Args:
        spark: The session that runs the job.
        snapshot: The snapshot of a table with a sort order.
        files: The files to rewrite.
        file_count: The number of new files.
        partition_count: The number of partitions that the files belong to.
        target_size: The size of a new file in bytes.
    """
    spec = replace(write_spec(snapshot.shape), attempt=str(uuid.uuid4()), target_file_size=target_size)
    lineage = snapshot.shape.row_lineage
    if lineage is not None:
        origins = snapshot.row_origins(files.paths)
        spec = _with_lineage(spec, lineage, {spark_path(path): origin for path, origin in origins.items()})
    # Row ids follow from the addresses of rows, unless a file stores them.
    rows = read_snapshot(spark, snapshot, files, with_addresses=lineage is not None, with_lineage=True)
    outcomes = moved_rows(rows, snapshot.schema.names)
    columns = outcome_columns(outcomes, len(snapshot.schema))
    outcomes_by_file = divide_by_file(outcomes, snapshot.shape, columns.new_columns, file_count=file_count, partition_count=partition_count)
    return _write_on_executors(outcomes_by_file, spec, columns, change_spec=None)


def rewrite_files(
    spark: SparkSession, snapshot: Snapshot, bins: Sequence[Bin], deleted: Mapping[str, Positions], *, target_size: int | None = None
) -> WriteOutput:
    """Rewrite the files of each bin into one or more files, without their deleted rows. The rows are not sorted.

    Rows keep their ids and the versions of their last changes, in the hidden columns of row lineage.

    Args:
        spark: The session that runs the job.
        snapshot: The snapshot of the table.
        bins: The files to rewrite.
        deleted: By path, the positions of all deleted rows.
        target_size: The size of a new file in bytes, None for the table's setting.
    """
    paths = [path for bin_ in bins for path in bin_.paths]
    spec = replace(write_spec(snapshot.shape), is_ordered=False)  # a new file holds rows of several files, each with an order of its own
    if target_size is not None:
        spec = replace(spec, target_file_size=target_size)
    if snapshot.shape.row_lineage is not None:
        spec = _with_lineage(spec, snapshot.shape.row_lineage, snapshot.row_origins(paths))
    stored_columns = _columns_of_other_layouts(snapshot, spec, paths)
    initial_values = _initial_values(spark, snapshot.shape)
    rewrite_spec = replace(spec, stored_columns_by_path=stored_columns, initial_values=initial_values)
    return rewrite_bins(spark, snapshot.name, rewrite_spec, bins, deleted)


def rewrite_bins(spark: SparkSession, table: str, spec: WriteSpec, bins: Sequence[Bin], deleted: Mapping[str, Positions]) -> WriteOutput:
    """Rewrite files, in the driver up to MAX_REWRITE_BYTES (without the latency of a job), else by a job with a task for each bin.

    Args:
        spark: The session that runs the job.
        table: The name of the table in error messages.
        spec: How data files are written.
        bins: The files to rewrite.
        deleted: By path, the positions of all deleted rows.
    """
    if sum(bin_.size for bin_ in bins) <= MAX_REWRITE_BYTES:
        return _rewrite_on_driver(table, spec, bins, deleted)
    tasks = frame_of(spark, _bin_rows(bins, deleted)).repartition(len(bins))
    return _sum_of_messages(tasks.mapInArrow(bind_for_executors(sink.rewrite_sink, spec), "message binary").toArrow())


def _bin_rows(bins: Sequence[Bin], deleted: Mapping[str, Positions]) -> pa.Table:
    """Return a row for each bin, the input of `sink.rewrite_sink`. Bitmaps are serialized, and partition values are pickled."""
    schema = pa.schema({"paths": pa.list_(pa.string()), "positions": pa.list_(pa.binary()), "partition": pa.binary()})
    rows = []
    for bin_ in bins:
        positions = [deleted.get(path, Positions()).serialize() for path in bin_.paths]
        rows.append({"paths": list(bin_.paths), "positions": positions, "partition": pickle.dumps(dict(bin_.partition))})
    return pa.Table.from_pylist(rows, schema)


def _rewrite_on_driver(table: str, spec: WriteSpec, bins: Sequence[Bin], deleted: Mapping[str, Positions]) -> WriteOutput:
    """Rewrite the files of each bin in this process. After an error, the new files are deleted."""
    output = WriteOutput()
    with discard_on_error(output, spec.filesystem_options):
        for bin_ in bins:
            output.files += _rewrite_bin(table, spec, bin_, deleted)
    return output


def _rewrite_bin(table: str, spec: WriteSpec, bin_: Bin, deleted: Mapping[str, Positions]) -> list[AddedFile]:
    """Write the live rows of a bin's files into new files. Raises MissingDataFile, UnreadableDataFile."""
    deleted_in_bin = {path: deleted.get(path, Positions()) for path in bin_.paths}
    try:
        files = write_live_rows(spec, deleted_in_bin, dict(bin_.partition), discard_paths)
    except UnreadableFile as error:
        raise unreadable_data_file(table, error.path, error.reason) from error
    return [AddedFile(**vars(file)) for file in files]


def _initial_values(spark: SparkSession, table: TableShape) -> dict[str, pa.Array]:
    """Return the default values of columns for files without these columns, as arrays of one value by column name."""
    pairs = zip(table.schema, table.stored_schema, strict=True)
    defaults = {field.name: (field.type, file_field.metadata[INITIAL]) for field, file_field in pairs if INITIAL in file_field.metadata}
    if not table.supports_initial_defaults or not defaults:
        return {}
    literals = ", ".join(f"cast({text} as {sql_name(type_)})" for type_, text in defaults.values())
    values = dict(zip(defaults, spark.sql(f"select {literals}").toArrow().columns, strict=True))
    return {name: values[name].combine_chunks().cast(arrow_type(type_)) for name, (type_, _) in defaults.items()}


def _columns_of_other_layouts(snapshot: Snapshot, spec: WriteSpec, paths: Sequence[str]) -> dict[str, StoredColumns]:
    """Return by path the columns of files that identify columns by name while new files have field ids, or the other way round.

    Such files exist in Iceberg tables that took over Parquet files without field ids ("Column Projection" in the Iceberg specification).
    A rewrite reads them with these columns, and all other files with the columns of `spec`. The columns include the hidden columns of row
    lineage, whose values move to the new files.
    """
    columns_by_path: dict[str, StoredColumns] = {}
    for layout in snapshot.layouts(paths):
        if layout.by_field_id == spec.by_field_id:
            continue
        pairs = zip(snapshot.schema, layout.stored_schema, strict=True)
        file_columns = [file_column for column, file_column in pairs if column.name in spec.schema.names]
        file_columns += [file_column for _, file_column in lineage_columns(snapshot.shape.row_lineage, layout)]
        stored_columns = StoredColumns(_nullable_schema(Struct(tuple(file_columns))), layout.by_field_id, layout.missing_columns)
        columns_by_path |= dict.fromkeys(layout.paths, stored_columns)
    return columns_by_path


def _sum_of_messages(messages: pa.Table) -> WriteOutput:
    """Return the result of a job from the pickled messages of its tasks."""
    return sum_of_tasks(pickle.loads(pickled_message) for pickled_message in messages["message"].to_pylist())
