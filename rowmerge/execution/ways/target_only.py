"""The way to execute UPDATE, DELETE and INSERT … REPLACE WHERE: a condition on the target selects the rows, without a join."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rowmerge.commands.rows import Match
from rowmerge.execution.ways.row_writing import (
    add_new_rows,
    columns_without,
    conflicting_file_mask,
    late_columns_of,
    write_changed_rows,
)
from rowmerge.execution.ways.way import ExecutionResult, Reason, RowChangeRequest, Way
from rowmerge.spark.values.outcomes import OutcomeShape, as_boolean, outcome_rows
from rowmerge.spark.writing.write_output import WriteOutput, discard_on_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def why_not_target_only(request: RowChangeRequest) -> Reason | None:
    """Return why the statement needs a join, or None if it has no ON condition."""
    return None if request.plan.on is None else Reason("the statement has an ON condition")


def change_selected_rows(request: RowChangeRequest) -> ExecutionResult:
    """Change the target rows that the condition selects. If there is a source, write its rows, too."""
    source = None if request.planned.source is None else request.materialize_source()
    output = _write_selected_rows(request)
    if source is not None:
        with discard_on_error(output, request.snapshot.shape.filesystem_options):
            add_new_rows(request, output, source)
    return ExecutionResult(output, request.files, source, {}, conflicting_file_mask(request, source))


def _write_selected_rows(request: RowChangeRequest) -> WriteOutput:
    """Update or delete the target rows that the statement's condition selects.

    Plans of all statements consist of the clauses of MERGE. Without an ON condition, no target row has a match. So the plan of an UPDATE or
    DELETE has one clause, WHEN NOT MATCHED BY SOURCE, with the WHERE condition of the statement.
    """
    files = request.files.to_read
    late_columns = late_columns_of(request, files)
    rows = request.read_target(files, columns_without(request.joined_columns, late_columns), with_lineage=True)
    # Spark analyses the outcomes even if there are no files, so that a wrong name is always an error.
    outcomes = _outcomes_of_selected_rows(request, rows.alias(request.plan.target.alias), late_columns)
    return write_changed_rows(request, outcomes, files) if len(files) else WriteOutput()


def _outcomes_of_selected_rows(request: RowChangeRequest, rows: DataFrame, late_columns: frozenset[str]) -> DataFrame:
    """Return, for each target row that the condition selects, its update or deletion as an outcome row (see `outcome_rows`)."""
    (clause,) = request.plan.of(Match.NOT_MATCHED_BY_SOURCE)
    if clause.condition is not None:
        # Apply the condition as a filter. Spark converts IN and EXISTS subqueries of a filter to semi joins, but not those inside a CASE.
        rows = rows.where(as_boolean(clause.condition))
        clause = replace(clause, condition=None)
    writes_change_rows, has_lineage = request.change_data_location is not None, request.lineage is not None
    shape = OutcomeShape(addresses=True, old_values=writes_change_rows, lineage=has_lineage, late_columns=late_columns)
    applies_to_all_rows = "true"  # the SQL guard of the clause
    return outcome_rows(rows, request.plan, [(applies_to_all_rows, clause)], shape)


WAY = Way("target_only", why_not_target_only, change_selected_rows)
