"""The way to execute a large upsert or delete+insert: one job evaluates the source and writes its rows. The matches are looked up later.

Spark evaluates the source once and keeps none of its rows. If the run shows that this way does not apply, its files are deleted, and the
next way keeps the source.

Each source row of an upsert or of dbt's delete+insert becomes a new row, with or without a match. This way applies if the table is neither
partitioned nor ordered, and the source may read more than `FEW_BYTES`.

If an executor is lost, Spark evaluates a part of the source again, perhaps to other rows. Rows of two evaluations must never mix. So if
Spark repeats a task, the files are deleted, and the next way evaluates the source again. Sessions that cannot tell this use the next way,
too.

A task with few rows sends them to the driver, which writes the rows of all such tasks together. If many tasks wrote small files, the files
are merged. If the keys are too many for the driver, a join reads them from the written files. If keys repeat where only one match is
allowed, or a commit conflicts, the files are deleted, and the source is evaluated again and kept.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from rowmerge.commands.rows import Match
from rowmerge.execution.ways.key_matches import (
    INEXACT,
    UNLESS_INEXACT,
    files_with_matches,
    find_matches,
    record_matches,
    requires_one_to_one,
    why_needs_values,
)
from rowmerge.execution.ways.row_writing import conflicting_file_mask, join_and_write, scan_target
from rowmerge.execution.ways.way import (
    SCAN_STEP,
    SOURCE_READS_FEW_BYTES,
    ExecutionResult,
    NotApplicable,
    PlannedStatement,
    Reason,
    RowChangeRequest,
    Way,
)
from rowmerge.plan.expressions.conditions import Condition
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.row_plan import Cardinality, Clause, Effect, RowPlan, SourceRows, inserts_keys
from rowmerge.spark.matching.joins import Join
from rowmerge.spark.matching.key_lookup import KeyMatches
from rowmerge.spark.source.keys import key_ranges
from rowmerge.spark.source.source import Source, SourceRowsOnce
from rowmerge.spark.source.writing import insert_every_source_row, reads_few_bytes, written_keys
from rowmerge.spark.spark_session import analyses_later, setting
from rowmerge.spark.types import schema_of
from rowmerge.spark.writing.write_output import WriteOutput, discard_on_error
from rowmerge.table.metadata.engine_columns import ORDINAL
from rowmerge.table.metadata.schema import Struct, backquote

_WRITTEN = "__rowmerge_written"
"""The alias of the new rows in the join that reads their keys from the written files."""


def why_not_write_first(request: RowChangeRequest) -> Reason | None:
    """Return why the rows of the source cannot be written before their matches in the target are looked up, or None if they can.

    Then one job reads a large source and writes its rows, and Spark need not keep them. This is possible if every source row becomes a new
    row, with or without a match. The matches then only determine which target rows are deleted.
    """
    if (reason := why_needs_values(request)) is not None:  # from here on, the statement has an ON condition and a source
        return reason
    if not request.inserts_every_source_row:
        return Reason("not every source row becomes a new row")
    if any(pair.fields for pair in request.key_pairs):
        # If the keys are too many for the driver, they are read from columns of the written files.
        return Reason("a key is a field of a struct")
    if request.source.was_evaluated:
        # Only the first attempt writes before the lookup. Later attempts keep the source.
        return Reason("an earlier attempt evaluated the source")
    if request.table_after.partitioning or request.table_after.ordering:
        # Each task writes its source rows as it reads them, without the shuffle that brings together the rows of a partition or sorts them.
        return Reason("the table is partitioned or ordered")
    if analyses_later(request.spark):
        return Reason("Spark Connect does not tell whether a task was repeated")
    if setting(request.spark, "spark.speculation", "false") == "true":
        return Reason("Spark repeats slow tasks (spark.speculation)")
    if reads_few_bytes(request.source.frame):
        # The driver writes few rows itself, without Python on an executor.
        return SOURCE_READS_FEW_BYTES
    return None


def write_first(request: RowChangeRequest) -> ExecutionResult | NotApplicable:
    """Write every source row as a new row, then find the target rows that the new rows replace.

    One job evaluates the source, and writes all its rows, so that Spark never keeps a large source in memory. It returns the keys if they
    are not too many for the driver. Otherwise, a join reads them from the files. If the result is NotApplicable, the caller deletes the
    written files. It then executes the statement in another way, which evaluates the source again.
    """
    requires_keys = request.plan.new_schema is not None or not inserts_keys(request.plan)
    source_and_output = insert_every_source_row(request.source, request.plan, request.table_after, requires_keys=requires_keys)
    if source_and_output is None:  # no files remain
        return NotApplicable(Reason("the keys cannot be looked up, or are too many and not in the new rows, or Spark repeated a task"))
    source, output = source_and_output
    with discard_on_error(output, request.snapshot.shape.filesystem_options):
        if source.row_count and not source.keys:
            return _join_written_rows(request, source.row_count, output)
        files = request.files_for(source)
        matches = find_matches(request, files, source)
    if matches is None:  # Arrow cannot compare the keys, or keys repeat: a join must find the matches
        return NotApplicable(INEXACT, output)
    record_matches(request, output, matches)  # the commit deletes the matching target rows
    # The commit calls `conflicting_files` with the files that concurrent commits added. Spark did not keep the rows of the source, so this
    # function looks up only their keys.
    conflicting_files = partial(files_with_matches, request, source)
    # No unchanged target row prevents an insert, because every source row became a new row.
    return ExecutionResult(output, files, source, insert_preventing_rows={}, matching=conflicting_files)


def _join_written_rows(request: RowChangeRequest, row_count: int, output: WriteOutput) -> ExecutionResult | NotApplicable:
    """Find the target rows that the new rows replace, by a join with the keys in the new files. The keys are too many for the driver.

    The join is that of `MERGE … WHEN MATCHED THEN DELETE`, with the new files as its source.

    Args:
        request: The statement.
        row_count: The number of source rows.
        output: The output with all source rows as new rows. It receives the positions of the matching target rows.

    Returns:
        The written rows, or NotApplicable if a source row matches several target rows where only one match is allowed.

    Raises:
        MultipleSourceRowsMatch: Several source rows match one target row, and the statement forbids that.
    """
    rows = written_keys(request.spark, request.snapshot, output.files, request.key_pairs)
    schema = schema_of(rows.drop(ORDINAL))
    source = Source(rows, schema, row_count, keys=(), is_large=True)
    deletes = replace(request, planned=PlannedStatement(_plan_of_deletes(request.plan, schema), SourceRowsOnce(rows, _WRITTEN)))
    if len(request.files.to_read):
        with request.measure_step(SCAN_STEP):
            assert rows.count() == row_count, "the join must read all written rows, otherwise old rows would remain beside the new ones"
            source = replace(source, keys=key_ranges(rows, request.key_pairs, schema.fields, row_count))
            files = deletes.files_for(source)
            target = replace(scan_target(deletes, files, source), join=Join("inner", returns_ordinals=requires_one_to_one(request)))
            matches = join_and_write(deletes, files, source, target).output
        if requires_one_to_one(request) and len(matches.source_ordinals) < matches.changed_row_count:
            # Each of these target rows becomes a new row, but the source row was written once.
            return NotApplicable(INEXACT, output)
        record_matches(request, output, KeyMatches(matches.positions))
    else:
        files = request.files
    return ExecutionResult(output, files, source, insert_preventing_rows={}, matching=conflicting_file_mask(deletes, source))


def _plan_of_deletes(plan: RowPlan, keys: Struct) -> RowPlan:
    """Return the plan that deletes the matching target rows of a MERGE that inserts every source row. `keys`: the columns of its source."""
    assert plan.on is not None
    sources = [f"{_WRITTEN}.{name}" for name in keys.names]
    comparisons = [
        f"{backquote(plan.target.alias)}.{backquote(pair.column)} {pair.op} {source}"
        for pair, source in zip(plan.on.keys, sources, strict=True)
    ]
    # Several source rows may match one target row only in the plan of a DELETE without a condition (`RowPlan.duplicates_allowed`).
    condition = None if plan.duplicates_allowed else "true"
    return replace(
        plan,
        clauses=(Clause(Match.MATCHED, Effect.DELETE, condition),),
        source=Side(_WRITTEN, (), tuple(keys.names)),
        on=Condition(
            " and ".join(comparisons), keys=tuple(replace(key, source=source) for key, source in zip(plan.on.keys, sources, strict=True))
        ),
        source_rows=SourceRows.NONE,
        cardinality=Cardinality.CONDITIONS,  # each match counts in any case, because the only clause fires for each
    )


_FALLBACK_CONDITION = f"the keys are too many for the driver and are not inserted unchanged, Spark repeats a task, {UNLESS_INEXACT}"
WAY = Way("write_first", why_not_write_first, write_first, _FALLBACK_CONDITION)
