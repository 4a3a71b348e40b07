"""Write table rows that are computed only from source rows, in the job that evaluates the source or in the driver."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession, functions as F

from rowmerge.commands.rows import Match
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.outcomes import NONE, OutcomeColumns
from rowmerge.plan.bounds.bounds import comparison_field
from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.plan.file_strategy import Bin
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.source.keys import can_be_looked_up, key_names, known_keys, ordinal_array, with_keys
from rowmerge.spark.source.source import MAX_UNSHUFFLED_TASKS, MIN_ROWS_PER_FILE, Source, SourceRowsOnce, max_collected_keys
from rowmerge.spark.types import has_collation, schema_of
from rowmerge.spark.values.assignment import store_assignment_sql
from rowmerge.spark.values.nested import SqlValue
from rowmerge.spark.values.outcomes import new_rows, outcome_columns, output_column
from rowmerge.spark.writing import sink
from rowmerge.spark.writing.distribution import Gather
from rowmerge.spark.writing.jobs import RepeatedTask, run_write_job
from rowmerge.spark.writing.specs import write_spec
from rowmerge.spark.writing.write import MAX_REWRITE_BYTES, WriteRequest, rewrite_bins, write_on_driver, write_outcomes
from rowmerge.spark.writing.write_output import WriteOutput, discard, discard_attempt, sum_of_tasks
from rowmerge.storage.store import local_path
from rowmerge.table.metadata.engine_columns import ACTION, IF_MATCHED, IF_UNMATCHED, ORDINAL
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.schema import DataType, Field, Struct, backquote
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import AddedFile, listing_of_new_files
from rowmerge.table.snapshots.snapshot import Snapshot

FEW_BYTES = 4 * 1024 * 1024
"""A source whose input files have at most this total size in bytes usually has few rows. The driver then writes them itself."""


def insert_every_source_row(
    source_rows: SourceRowsOnce, plan: RowPlan, table: TableShape, *, requires_keys: bool
) -> tuple[Source, WriteOutput] | None:
    """Write each source row as a new row of the table, in the job that evaluates the source.

    This is for statements that write a new row for each source row, such as a MERGE whose UPDATE and INSERT set the same values. Each
    source row is written as if it were unmatched, by the clause WHEN NOT MATCHED. The same job returns the keys of the source rows. The
    caller uses them to find and delete the matched target rows, so no join is needed.

    Args:
        source_rows: The source of the statement. The function sets its `was_streamed`, and does not catch errors of its evaluation.
        plan: The plan of the MERGE.
        table: The target table, which has neither partitions nor a sort order.
        requires_keys: Whether the written files are useless without collected keys, because the keys cannot be read from the files.

    Returns:
        The source with its row count, and with its keys if they are not too many for the driver, and the written files. None if the keys
        cannot be looked up, if required keys are too many, or if Spark repeated a task. Then no files remain, and the caller must evaluate
        the source again.
    """
    assert plan.on is not None and plan.source is not None
    source_rows.was_streamed = True  # the rows are not kept, so another attempt must evaluate the source again
    pairs = plan.on.keys
    rows_with_keys = with_keys(source_rows.frame, source_rows.alias, pairs)
    fields = schema_of(rows_with_keys).fields
    source_fields, key_fields = fields[: -len(pairs)], fields[-len(pairs) :]  # `with_keys` appends the key columns
    if not _can_look_up_keys(pairs, Struct(key_fields), table.schema):
        return None
    outcomes = new_rows(rows_with_keys.alias(plan.source.alias), plan, plan.of(Match.NOT_MATCHED), key_names(pairs))
    # The row count and the keys are unknown until the job ends. `_write_and_collect_keys` then replaces these empty values.
    unread_source = Source(source_rows.frame, Struct(source_fields), row_count=0, keys=())
    requires_keys = requires_keys or not _are_keys_stored_unchanged(source_rows, plan, key_fields, table.schema, table.name)
    return _write_and_collect_keys(outcomes, table, unread_source, pairs, key_fields, requires_keys=requires_keys)


def _are_keys_stored_unchanged(source_rows: SourceRowsOnce, plan: RowPlan, key_fields: Sequence[Field], schema: Struct, table: str) -> bool:
    """Return whether the table's columns store the keys of the ON condition, and the values that are inserted for them, unchanged.

    The types must be equal. A cast, a varchar that is cut, or a UUID in another spelling can differ from the key that Spark compares.
    """
    assert plan.on is not None
    (insert,) = plan.of(Match.NOT_MATCHED)
    inserted_values = [
        F.expr(insert.values[pair.column]).alias(name) for pair, name in zip(plan.on.keys, key_names(plan.on.keys), strict=True)
    ]
    value_types = [field.type for field in schema_of(source_rows.frame.alias(source_rows.alias).select(*inserted_values))]
    columns = [schema.find(pair.column, case_sensitive=True) for pair in plan.on.keys]
    keys = zip(key_fields, value_types, columns, strict=True)
    return all(column is not None and key.type == type_ and _stores_unchanged(type_, column, table) for key, type_, column in keys)


def _stores_unchanged(type_: DataType, column: Field, table: str) -> bool:
    value = SqlValue("value", type_)
    return type_ == column.type and store_assignment_sql(value, column, table) == value.sql


def _write_and_collect_keys(
    outcomes: DataFrame, table: TableShape, source: Source, pairs: Sequence[KeyPair], key_fields: Sequence[Field], *, requires_keys: bool
) -> tuple[Source, WriteOutput] | None:
    """Write outcome rows in one job, which also returns the keys of their source rows.

    A task with few rows returns the rows as well, and the driver writes the rows of all such tasks into one file.

    Args:
        outcomes: An inserted row for each source row, with the key columns that `key_names` returns.
        table: The target table.
        source: The source, without keys or a row count.
        pairs: The keys of the ON condition.
        key_fields: The names and types of the key columns.
        requires_keys: See `insert_every_source_row`.

    Returns:
        See `insert_every_source_row`. If the result is None, and after an error, no files remain.
    """
    names, max_keys = tuple(key_names(pairs)), max_collected_keys(key_fields)
    spec = replace(write_spec(table), attempt=str(uuid.uuid4()))
    columns = outcome_columns(outcomes, len(table.schema))
    try:
        fields_by_task = run_write_job(outcomes, sink.source_row_sink, spec, columns, names, max_keys, requires_keys, reads_once=True)
    except RepeatedTask:
        return None
    try:
        messages = [sink.SourceMessage(**fields) for fields in fields_by_task]
        task_results = [message.task_message for message in messages if message.task_message is not None]
        output = sum_of_tasks(task_results)
        if len(task_results) < len(messages):
            # A task without a result had too many required keys, and has deleted its own files. Those of other tasks are deleted here.
            output.discard(spec.filesystem_options)
            return None
        _complete_files(outcomes.sparkSession, table.name, spec, columns, messages, output)
        return _with_collected_keys(source, pairs, key_fields, messages), output
    except BaseException:  # including KeyboardInterrupt, because no files of the job may remain
        discard_attempt(spec)
        raise


def written_keys(spark: SparkSession, snapshot: Snapshot, files: Sequence[AddedFile], pairs: Sequence[KeyPair]) -> DataFrame:
    """Return the keys in written files, in the columns that `key_names` returns, with an ordinal for each row.

    Args:
        spark: The session that reads the files.
        snapshot: The version of the table that the statement changes, which does not have the files.
        files: The files that `insert_every_source_row` wrote.
        pairs: The keys of the ON condition.
    """
    rows = read_snapshot(spark, snapshot, listing_of_new_files(files), {pair.column for pair in pairs})
    keys = [F.col(backquote(pair.column)).alias(name) for pair, name in zip(pairs, key_names(pairs), strict=True)]
    return rows.select(*keys, F.monotonically_increasing_id().alias(ORDINAL))


def _complete_files(
    spark: SparkSession, table: str, spec: WriteSpec, columns: OutcomeColumns, messages: Sequence[sink.SourceMessage], output: WriteOutput
) -> None:
    """Write the rows that tasks returned to the driver, and merge small files. `output`: The files of the tasks, updated in place."""
    buffered_rows = _concatenate(message.rows for message in messages)
    if buffered_rows is not None:
        output.add(write_on_driver(buffered_rows, spec, columns, change_spec=None))
    output.files = _merge_small_files(spark, table, spec, output.files)


def _with_collected_keys(
    source: Source, pairs: Sequence[KeyPair], key_fields: Sequence[Field], messages: Sequence[sink.SourceMessage]
) -> Source:
    """Return the source with the row count from the messages of all tasks, and with its keys if all tasks with rows returned theirs."""
    source = replace(source, row_count=sum(message.row_count for message in messages))
    messages_with_rows = [message for message in messages if message.row_count]
    if not messages_with_rows or any(message.keys is None for message in messages_with_rows):
        return source
    key_rows = _concatenate(message.keys for message in messages_with_rows)
    assert key_rows is not None
    return replace(source, keys=known_keys(pairs, key_fields, key_rows))


def _can_look_up_keys(pairs: Sequence[KeyPair], key_schema: Struct, table_schema: Struct) -> bool:
    """Return whether Arrow can look up all keys of the ON condition in the columns of the table."""
    columns = [comparison_field(table_schema, pair.path) for pair in pairs]
    keys = zip(pairs, key_schema, columns, strict=True)
    are_comparable = all(column is not None and can_be_looked_up(pair, key.type, column) for pair, key, column in keys)
    return are_comparable and not has_collation(key_schema)


def _concatenate(streams: Iterable[bytes | None]) -> pa.Table | None:
    """Return the rows of all serialized Arrow streams. None if there are no streams."""
    tables = [pa.ipc.open_stream(stream).read_all() for stream in streams if stream is not None]
    return pa.concat_tables(tables) if tables else None


def _merge_small_files(spark: SparkSession, table: str, spec: WriteSpec, files: Sequence[AddedFile]) -> list[AddedFile]:
    """Combine small files if there are many, and return all files. `table`: The name of the table in error messages."""
    small_files = [file for file in files if file.records < MIN_ROWS_PER_FILE]
    if len(small_files) <= MAX_UNSHUFFLED_TASKS:
        return list(files)
    rewritten = rewrite_bins(spark, table, spec, _few_bins(small_files), deleted={})
    discard(small_files, spec.filesystem_options)
    return [file for file in files if file.records >= MIN_ROWS_PER_FILE] + rewritten.files


def _few_bins(files: Sequence[AddedFile]) -> list[Bin]:
    """Divide files of an unpartitioned table among at most MAX_UNSHUFFLED_TASKS bins of at least MAX_REWRITE_BYTES each."""
    count = max(1, min(MAX_UNSHUFFLED_TASKS, sum(file.size for file in files) // MAX_REWRITE_BYTES))
    groups = [files[index::count] for index in range(count)]
    return [Bin(tuple(file.path for file in group), {}, sum(file.size for file in group)) for group in groups]


def reads_few_bytes(source_rows: DataFrame) -> bool:
    """Return whether a source reads only local files, with at most FEW_BYTES in total. The total is 0 for a source without files."""
    total_size = 0
    for path in source_rows.inputFiles():
        file = local_path(unquote(path))
        if file is None:
            return False  # a request to a store would take more time than it could save
        with suppress(OSError):  # the read of a missing file raises a better error later
            total_size += file.stat().st_size
        if total_size > FEW_BYTES:
            return False
    return True


def write_prepared_rows(source: Source, table: TableShape, matched: BitMap64 | None) -> WriteOutput:
    """Write the prepared rows of a source in the driver.

    Prepared rows are source rows that Spark converted to table rows before their matches were known (see `prepare_rows`). The columns
    IF_MATCHED and IF_UNMATCHED contain the action of the statement for each case, such as UPDATE and INSERT. A lookup of the keys in the
    target has found the matches. So no further Spark job is needed. For example:

    - A prepared row is (id 1, name "a", ORDINAL 7, IF_MATCHED UPDATE, IF_UNMATCHED INSERT).
    - If the source row 7 matches, the written row is (id 1, name "a", ORDINAL 7, ACTION UPDATE).
    - Otherwise, it is (id 1, name "a", ORDINAL NULL, ACTION INSERT).

    Args:
        source: The source with its prepared rows.
        table: The target table.
        matched: The ordinals of the source rows that match a target row. None to insert all rows, whether they match or not.

    Returns:
        The written files. The `source_ordinals` are the ordinals of the matched source rows whose target row is updated or deleted: the
        caller then deletes these target rows.

    Raises:
        StorageError: A file cannot be written.
    """
    rows = source.prepared_rows
    assert rows is not None
    names = [output_column(position) for position in range(len(table.schema))]
    columns = OutcomeColumns(ACTION, new_columns=tuple(names))
    if matched is None:
        return write_on_driver(rows.select([ACTION, *names]), write_spec(table), columns, change_spec=None)
    is_matched = pc.is_in(rows[ORDINAL], value_set=ordinal_array(matched))
    action = pc.if_else(is_matched, rows[IF_MATCHED], rows[IF_UNMATCHED])
    # An ordinal in an outcome row means that a target row changes, so the ordinal of an unmatched row is NULL.
    ordinal_of_match = pc.if_else(is_matched, rows[ORDINAL], pa.scalar(None, pa.int64()))
    outcomes = rows.select(names).append_column(ACTION, action).append_column(ORDINAL, ordinal_of_match)
    outcomes = outcomes.filter(pc.not_equal(action, NONE))  # rows for which no WHEN clause fires
    return write_on_driver(outcomes, write_spec(table), replace(columns, source=ORDINAL), change_spec=None)


def already_writes_few_files(source: Source, table: TableShape) -> bool:
    """Return whether a source has few tasks, and the table has no partitions or sort order, so that the tasks write a few large files.

    Args:
        source: The source whose rows are written.
        table: The target table.
    """
    has_large_tasks = source.task_count <= MAX_UNSHUFFLED_TASKS and source.row_count >= source.task_count * MIN_ROWS_PER_FILE
    return (source.task_count == 1 or has_large_tasks) and not (table.partitioning or table.ordering)


def write_source_rows(
    rows: DataFrame, source: Source, table: TableShape, *, distribution: Distribution | None, change_data_location: str | None = None
) -> WriteOutput:
    """Write outcome rows that are computed from source rows without a target row, such as the inserted rows of a MERGE.

    An outcome row is a row of the table with the action of the statement, such as INSERT. The size of the source determines where the rows
    are written, and whether they are first combined into fewer tasks (`Gather`). If the driver has the source rows (`Source.local_rows`),
    it writes the files itself. Otherwise, executors do. If the source is small but has many tasks, a shuffle first combines its rows, so
    that there are few files. A source counts as small if Spark could broadcast it.

    Args:
        rows: The outcome rows (see `OutcomeColumns`).
        source: The source, whose size decides how the rows are distributed.
        table: The target table.
        distribution: The table's distribution mode for the operation, None for the mode of inserts.
        change_data_location: The folder of change files, None for a table without a change data feed.
    """
    if source.local_rows is not None:
        gather = Gather.DRIVER  # the driver writes the files
    elif not source.is_broadcastable or already_writes_few_files(source, table):
        gather = Gather.NONE  # each task writes its own rows: a shuffle of a large source would cost much, or would not make fewer files
    else:
        gather = Gather.BY_SIZE  # a shuffle combines the rows of many tasks
    return write_outcomes(rows, WriteRequest(table, gather, distribution, change_data_location=change_data_location))
