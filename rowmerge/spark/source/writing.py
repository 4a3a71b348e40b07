"""A source whose rows become rows of the table as they are: the job that evaluates it writes them, and tells their keys."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from rowmerge.commands.rows import Match
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.outcomes import OutcomeColumns
from rowmerge.plan.row_plan import RowPlan
from rowmerge.spark.source.keys import can_be_looked_up
from rowmerge.spark.source.source import (
    FEW_TASKS,
    ROWS_OF_A_FILE,
    Source,
    SourceRowsOnce,
    key_names,
    known_keys,
    most_keys_at_once,
    ordinal_array,
    with_keys,
)
from rowmerge.spark.types import has_collation, schema_of
from rowmerge.spark.values.outcomes import new_rows, outcome_columns, output_column
from rowmerge.spark.writing import sink
from rowmerge.spark.writing.distribution import Gather
from rowmerge.spark.writing.executors import shipped
from rowmerge.spark.writing.few_rows import sink_here
from rowmerge.spark.writing.leftovers import discard_attempt
from rowmerge.spark.writing.write import REWRITTEN_HERE, Rewrite, run_rewrites, write_outcomes, write_spec
from rowmerge.spark.writing.written import Written, discard, written_of
from rowmerge.storage.store import local_path
from rowmerge.table.metadata.engine_columns import ACTION, IF_MET, IF_NEW, ORDINAL
from rowmerge.table.metadata.partitioning import Distribution
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import AddedFile, Positions

FEW_BYTES = 4 * 1024 * 1024
"""A source whose files have so many bytes at most has few rows, as a rule: the driver may write them sooner than Python on an executor."""


@dataclass(frozen=True)
class WrittenSource:
    """A source of whose rows only the keys are known still (its frame is the statement's own), and what was written of them."""

    source: Source
    written: Written


def write_source(once: SourceRowsOnce, plan: RowPlan, table: TableShape) -> WrittenSource | None:
    """Write what the plan's one INSERT makes of each source row, met or not, into files of `table`, which divides and orders no rows.

    None where that is no use: keys that cannot be looked up, or too many of them; nothing is left behind then, and the source will be
    evaluated again. What the source's evaluation raises passes through.
    """
    once.was_streamed = True
    assert plan.on is not None and plan.source is not None
    pairs, names = plan.on.keys, key_names(plan.on.keys)
    frame = with_keys(once.frame, once.alias, pairs)
    schema = schema_of(frame)
    fields = schema.fields[-len(pairs) :]
    for pair, key in zip(pairs, fields, strict=True):
        column = table.schema.find(pair.column, case_sensitive=True)
        if column is None or has_collation(Struct((key,))) or not can_be_looked_up(pair.op, key.type, column):
            return None
    outcomes = new_rows(frame.alias(plan.source.alias), plan, plan.of(Match.NOT_MATCHED), told=names)
    spec, columns = replace(write_spec(table), attempt=str(uuid.uuid4())), outcome_columns(outcomes, len(table.schema))
    job = shipped(sink.source_sink, spec, columns, tuple(names), most_keys_at_once(fields))
    try:
        messages = outcomes.mapInArrow(job, "message binary").toArrow()["message"].to_pylist()
        answers = [sink.SourceMessage(**pickle.loads(message)) for message in messages]
        written = Written()
        for answer in answers:
            if answer.written is not None:
                written.add(written_of(answer.written))
        if any(answer.written is None for answer in answers):
            written.discard(spec.filesystem_options)
            return None
        handed = _tables(answer.rows for answer in answers)
        if handed is not None:
            written.add(sink_here(handed, spec, columns, None))
        written.files = _together(once.frame.sparkSession, table.name, spec, written.files)
        known = _tables(answer.keys for answer in answers)
        rows, keys = (0, ()) if known is None else (known.num_rows, known_keys(pairs, fields, known))
    except BaseException:
        discard_attempt(spec)
        raise
    return WrittenSource(Source(once.frame, Struct(schema.fields[: -len(pairs)]), rows, keys), written)


def _tables(streams: Iterator[bytes | None]) -> pa.Table | None:
    """Arrow streams put together; None when there is none."""
    found = [pa.ipc.open_stream(stream).read_all() for stream in streams if stream is not None]
    return pa.concat_tables(found) if found else None


def _together(spark: SparkSession, table: str, spec: WriteSpec, files: Sequence[AddedFile]) -> list[AddedFile]:
    """The files of a table that is called `table`; where many are small, these are written again as few."""
    small = [file for file in files if file.records < ROWS_OF_A_FILE]
    if len(small) <= FEW_TASKS:
        return list(files)
    parts = max(1, min(FEW_TASKS, sum(file.size for file in small) // REWRITTEN_HERE))
    rewrites = []
    for part in range(parts):
        some = small[part::parts]
        rewrites.append(Rewrite({file.path: Positions() for file in some}, {}, sum(file.size for file in some)))
    again = run_rewrites(spark, table, spec, rewrites)
    discard(small, spec.filesystem_options)
    return [file for file in files if file.records >= ROWS_OF_A_FILE] + again.files


def is_made_of_few_bytes(frame: DataFrame) -> bool:
    """Whether what is known of a source's files says that it has few rows. Where there are none, it may be anything."""
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
    """Write the prepared rows of a source (see `rows_either_way`), on the driver. Raises StorageError.

    `matched`: the ordinals of the source rows that match a target row, or None if every row is new whether it matches or not.
    `sources` of the result are the ordinals of the source rows that change their match.
    """
    assert source.prepared is not None
    rows = source.prepared
    names = [output_column(position) for position in range(len(table.schema))]
    columns = OutcomeColumns(ACTION, after=tuple(names))
    if matched is None:
        return sink_here(rows.select([ACTION, *names]), write_spec(table), columns, None)
    is_matched = pc.is_in(rows[ORDINAL], value_set=ordinal_array(matched))
    action = pc.if_else(is_matched, rows[IF_MET], rows[IF_NEW])
    acts = pc.not_equal(action, 0)
    changing = pc.if_else(pc.and_(is_matched, acts), rows[ORDINAL], pa.scalar(None, pa.int64()))
    wanted = rows.select(names).append_column(ACTION, action).append_column(ORDINAL, changing).filter(acts)
    return sink_here(wanted, write_spec(table), replace(columns, source=ORDINAL), None)


def few_files_of(source: Source, table: TableShape) -> bool:
    """Whether the source's tasks write few files: nothing divides or orders the table's rows."""
    return source.makes_few_files and not (table.partitioning or table.ordering)


def write_source_rows(
    rows: DataFrame, source: Source, table: TableShape, *, distribution: Distribution | None, changes_to: str | None = None
) -> Written:
    """Write what was made of source rows alone; see `write_outcomes`."""
    gather = Gather.NOT if not source.broadcastable or few_files_of(source, table) else Gather.BY_SIZE
    gather = gather if source.local is None else Gather.DRIVER
    return write_outcomes(rows, table, gather=gather, changes_to=changes_to, distribution=distribution)
