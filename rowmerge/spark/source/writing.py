"""Write source rows that become table rows whatever they match: the job that evaluates the source writes them and returns their keys."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from rowmerge.commands.rows import Match
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.outcomes import OutcomeColumns
from rowmerge.plan.expressions.conditions import KeyPair
from rowmerge.plan.file_strategy import Bin
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.source.keys import can_be_looked_up, key_names, known_keys, ordinal_array
from rowmerge.spark.source.source import MAX_UNGATHERED_TASKS, MIN_ROWS_PER_FILE, Source, SourceRowsOnce, most_keys_at_once, with_keys
from rowmerge.spark.types import has_collation, schema_of
from rowmerge.spark.values.outcomes import new_rows, outcome_columns, output_column
from rowmerge.spark.writing import sink
from rowmerge.spark.writing.distribution import Gather
from rowmerge.spark.writing.executors import ship
from rowmerge.spark.writing.write import MAX_REWRITE_BYTES, WriteRequest, rewrite_bins, write_on_driver, write_outcomes, write_spec
from rowmerge.spark.writing.written import Written, discard, discard_attempt, read_task_message
from rowmerge.storage.store import local_path
from rowmerge.table.metadata.engine_columns import ACTION, IF_MET, IF_NEW, ORDINAL
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import AddedFile

FEW_BYTES = 4 * 1024 * 1024
"""A source whose files have up to so many bytes usually has few rows, which the driver may write faster than Python on an executor."""


def write_source(once: SourceRowsOnce, plan: RowPlan, table: TableShape) -> tuple[Source, Written] | None:
    """Write what the plan's one INSERT makes of each source row, matched or not. `table` must not divide or order its rows.

    Of the returned source, only the keys are known, and its frame is the statement's own. Returns None if keys cannot be looked up, or if
    there are too many. Then no file is left, and the caller must evaluate the source again. Errors of the source's evaluation pass through.
    """
    assert plan.on is not None and plan.source is not None
    once.was_streamed = True  # the next attempt must evaluate the source again, and keeps it
    pairs = plan.on.keys
    frame = with_keys(once.frame, once.alias, pairs)
    fields = schema_of(frame).fields
    source_schema, key_schema = Struct(fields[: -len(pairs)]), Struct(fields[-len(pairs) :])
    if not _can_look_up_keys(pairs, key_schema, table.schema):
        return None
    outcomes = new_rows(frame.alias(plan.source.alias), plan, plan.of(Match.NOT_MATCHED), key_names(pairs))
    spec = replace(write_spec(table), attempt=str(uuid.uuid4()))
    columns = outcome_columns(outcomes, len(table.schema))
    job = ship(sink.source_sink, spec, columns, tuple(key_names(pairs)), most_keys_at_once(key_schema.fields))
    try:
        payloads = outcomes.mapInArrow(job, "message binary").toArrow()["message"].to_pylist()
        messages = [sink.SourceMessage(**pickle.loads(payload)) for payload in payloads]
        written = _complete_files(once.frame.sparkSession, table.name, spec, columns, messages)
        if written is None:
            return None
        key_rows = _concatenate(message.keys for message in messages)
        if key_rows is None:
            return Source(once.frame, source_schema, 0, ()), written
        keys = known_keys(pairs, key_schema.fields, key_rows)
    except BaseException:
        discard_attempt(spec)
        raise
    return Source(once.frame, source_schema, key_rows.num_rows, keys), written


def _complete_files(
    spark: SparkSession, table: str, spec: WriteSpec, columns: OutcomeColumns, messages: Sequence[sink.SourceMessage]
) -> Written | None:
    """Write the rows that tasks returned, and merge small files. If a task gave up, delete all files and return None."""
    written = Written()
    task_results = [message.written for message in messages if message.written is not None]
    for task_result in task_results:
        written.add(read_task_message(task_result))
    if len(task_results) < len(messages):
        written.discard(spec.filesystem_options)
        return None
    buffered_rows = _concatenate(message.rows for message in messages)
    if buffered_rows is not None:
        written.add(write_on_driver(buffered_rows, spec, columns, None))
    written.files = _merge_small_files(spark, table, spec, written.files)
    return written


def _can_look_up_keys(pairs: Sequence[KeyPair], key_schema: Struct, table_schema: Struct) -> bool:
    columns = [table_schema.find(pair.column, case_sensitive=True) for pair in pairs]
    keys = zip(pairs, key_schema, columns, strict=True)
    are_comparable = all(column is not None and can_be_looked_up(pair.op, key.type, column) for pair, key, column in keys)
    return are_comparable and not has_collation(key_schema)


def _concatenate(streams: Iterable[bytes | None]) -> pa.Table | None:
    tables = [pa.ipc.open_stream(stream).read_all() for stream in streams if stream is not None]
    return pa.concat_tables(tables) if tables else None


def _merge_small_files(spark: SparkSession, table: str, spec: WriteSpec, files: Sequence[AddedFile]) -> list[AddedFile]:
    """Return the files, after many small ones were written again as few. `table`: the name that errors print."""
    small_files = [file for file in files if file.records < MIN_ROWS_PER_FILE]
    if len(small_files) <= MAX_UNGATHERED_TASKS:
        return list(files)
    rewritten = rewrite_bins(spark, table, spec, _few_bins(small_files), deleted={})
    discard(small_files, spec.filesystem_options)
    return [file for file in files if file.records >= MIN_ROWS_PER_FILE] + rewritten.files


def _few_bins(files: Sequence[AddedFile]) -> list[Bin]:
    """Divide files without partitions among so many bins as may run in tasks of MAX_REWRITE_BYTES or more."""
    count = max(1, min(MAX_UNGATHERED_TASKS, sum(file.size for file in files) // MAX_REWRITE_BYTES))
    groups = [files[index::count] for index in range(count)]
    return [Bin(tuple(file.path for file in group), {}, sum(file.size for file in group)) for group in groups]


def is_made_of_few_bytes(frame: DataFrame) -> bool:
    """Return whether the files that a source reads are local and have up to FEW_BYTES. A source without files counts as small."""
    size = 0
    for path in frame.inputFiles():
        file = local_path(unquote(path))
        if file is None:
            return False  # a request to a store would take longer than it saves
        with suppress(OSError):
            size += file.stat().st_size
        if size > FEW_BYTES:
            return False
    return True


def write_prepared(source: Source, table: TableShape, matched: BitMap64 | None) -> Written:
    """Write the prepared rows of a source (see `rows_either_way`) in the driver. Raises StorageError.

    `matched`: the ordinals of the source rows that match a target row, or None if every row is new whether it matches or not.
    `sources` of the result are the ordinals of the source rows that change their match.
    """
    assert source.prepared is not None
    rows = source.prepared
    names = [output_column(position) for position in range(len(table.schema))]
    columns = OutcomeColumns(ACTION, after=tuple(names))
    if matched is None:
        return write_on_driver(rows.select([ACTION, *names]), write_spec(table), columns, None)
    is_matched = pc.is_in(rows[ORDINAL], value_set=ordinal_array(matched))
    action = pc.if_else(is_matched, rows[IF_MET], rows[IF_NEW])
    has_effect = pc.not_equal(action, 0)
    changing_ordinals = pc.if_else(pc.and_(is_matched, has_effect), rows[ORDINAL], pa.scalar(None, pa.int64()))
    outcomes = rows.select(names).append_column(ACTION, action).append_column(ORDINAL, changing_ordinals).filter(has_effect)
    return write_on_driver(outcomes, write_spec(table), replace(columns, source=ORDINAL), None)


def few_files_of(source: Source, table: TableShape) -> bool:
    """Return whether the source's tasks write few files and no small ones, and nothing divides or orders the table's rows."""
    has_large_tasks = source.tasks <= MAX_UNGATHERED_TASKS and source.rows >= source.tasks * MIN_ROWS_PER_FILE
    return (source.tasks == 1 or has_large_tasks) and not (table.partitioning or table.ordering)


def write_source_rows(
    rows: DataFrame, source: Source, table: TableShape, *, distribution: Distribution | None, changes_to: str | None = None
) -> Written:
    """Write outcome rows that come from source rows alone. `changes_to`: the folder of change rows; see `WriteRequest`."""
    if source.local is not None:
        gather = Gather.DRIVER
    elif not source.broadcastable or few_files_of(source, table):
        gather = Gather.NOT
    else:
        gather = Gather.BY_SIZE
    return write_outcomes(rows, WriteRequest(table, gather, distribution, change_data_location=changes_to))
