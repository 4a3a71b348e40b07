"""The way of UPDATE, DELETE and INSERT … REPLACE WHERE: a condition on the target alone finds the rows, without a join."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.rows import Match
from rowmerge.execution.ways.row_writing import add_new_rows, matching_files, write_changed_rows
from rowmerge.execution.ways.way import ExecutionResult, Reason, RowChangeRequest, Way
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.spark.values.outcomes import OutcomeShape, boolean, outcome_rows
from rowmerge.spark.writing.written import Written, discard_on_error


def why_not_applicable(request: RowChangeRequest) -> Reason | None:
    return None if request.plan.on is None else Reason("the statement has an ON condition")


def run(request: RowChangeRequest) -> ExecutionResult:
    """Write the rows of the target that the condition selects, and the source's rows if there is a source."""
    source = None if request.planned.source is None else request.source.rows(())
    written = _write_selected_rows(request)
    if source is not None:
        with discard_on_error(written, request.snapshot.shape.filesystem_options):
            add_new_rows(request, written, source)
    return ExecutionResult(written, request.files, source, {}, matching_files(request, source))


def _write_selected_rows(request: RowChangeRequest) -> Written:
    """Write what the statement's one clause about the target makes of the rows that its condition selects."""
    plan, files, has_lineage = request.plan, request.files.to_read, request.lineage is not None
    rows = read_snapshot(request.spark, request.snapshot, files, addresses=True, lineage=has_lineage).alias(plan.target.alias)
    (clause,) = plan.of(Match.NOT_MATCHED_BY_SOURCE)
    if clause.condition is not None:
        # Spark makes semi joins of the IN and EXISTS subqueries of a filter, but not of those inside a CASE.
        rows = rows.where(boolean(clause.condition))
    cases = [("true", replace(clause, condition=None))]
    has_change_rows = request.change_data_location is not None
    outcomes = outcome_rows(rows, plan, cases, OutcomeShape(addresses=True, before=has_change_rows, lineage=has_lineage))
    return write_changed_rows(request, outcomes, files) if len(files) else Written()


WAY = Way("target_only", why_not_applicable, run)
