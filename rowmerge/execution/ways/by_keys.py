"""The way to execute a statement whose keys alone decide the result: Arrow looks up the positions of matches, without a join.

This way applies if the ON condition compares only keys, the clauses read only the source, and an UPDATE sets every column. Then the
statement needs only the positions of target rows. Tables with row ids or change rows need a join. So do statements that require one-to-one
matches if a row matches twice.

Spark keeps the rows of the source. A match may decide whether a row is written. In that case, if the source reads few bytes, the job that
evaluates it returns up to `MAX_PREPARED_ROWS` prepared rows to the driver. Each row has one action for a match and one for no match. The
driver writes the rows that apply, so no Python runs on executors. For a larger source, a second Spark job creates the rows.
"""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap64

from rowmerge.commands.rows import Match
from rowmerge.execution.ways.key_matches import INEXACT, UNLESS_INEXACT, find_matches, record_matches, requires_one_to_one, why_needs_values
from rowmerge.execution.ways.row_writing import add_new_rows, conflicting_file_mask, insert_preventing_rows
from rowmerge.execution.ways.way import ExecutionResult, NotApplicable, RowChangeRequest, Way
from rowmerge.plan.row_plan import values_of_all
from rowmerge.spark.matching.key_lookup import KeyMatches
from rowmerge.spark.source.keys import ordinal_array
from rowmerge.spark.source.source import MAX_KEYS_WITHOUT_JOIN, Prepare, Source
from rowmerge.spark.source.writing import write_prepared_rows, write_source_rows
from rowmerge.spark.values.outcomes import met_or_new_rows, prepare_rows
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.table.snapshots.files import Positions


def write_by_keys(request: RowChangeRequest) -> ExecutionResult | NotApplicable:
    """Look up the target rows that match, and write the rows that the clauses produce from source rows with and without a match."""
    source = request.materialize_source(max_keys=request.max_keys(MAX_KEYS_WITHOUT_JOIN), prepare=_prepare_function(request))
    files = request.files_for(source)
    matches = find_matches(request, files, source)
    if matches is None:
        return NotApplicable(INEXACT)
    output = _write_rows(request, matches, source)
    return ExecutionResult(output, files, source, insert_preventing_rows(request, output, files), conflicting_file_mask(request, source))


def _prepare_function(request: RowChangeRequest) -> Prepare | None:
    """Return the function that converts source rows to table rows before the lookup of matches, or None if rows cannot be prepared.

    The values must not depend on a match, and the table must not be ordered. A rule could reject a row that the statement does not write.
    So rows are prepared only if there is no rule, or if all rows are written.
    """
    values, rules = values_of_all(request.plan), request.plan.rules
    may_reject_unwritten = not request.inserts_every_source_row and bool(rules.checks or rules.generated)
    if values is None or request.table_after.ordering or may_reject_unwritten:
        return None
    return lambda rows, key_names: prepare_rows(rows, request.plan, values, key_names)


def _write_rows(request: RowChangeRequest, matches: KeyMatches, source: Source) -> WriteOutput:
    """Write the new rows, and record the positions of the target rows that the clauses replace or delete."""
    if not request.inserts_every_source_row:
        write = _write_by_clauses if requires_one_to_one(request) else _delete_or_keep_matches
        return write(request, matches, source)
    output = WriteOutput()
    _add_source_rows(request, output, source, matched=None)
    record_matches(request, output, matches)
    return output


def _add_source_rows(request: RowChangeRequest, output: WriteOutput, source: Source, matched: BitMap64 | None) -> None:
    """Write the new rows of the source. Prepared rows are written without Spark. `matched`: see `write_prepared_rows`."""
    if source.prepared_rows is not None:
        output.add(write_prepared_rows(source, request.table_after, matched))
    else:
        add_new_rows(request, output, source)


def _delete_or_keep_matches(request: RowChangeRequest, matches: KeyMatches, source: Source) -> WriteOutput:
    """Delete all matching rows, or keep all of them, and write the new rows of the source."""
    deletes = bool(request.plan.of(Match.MATCHED))
    positions, reads = (matches.positions, {}) if deletes else ({}, matches.positions)
    output = WriteOutput(positions=positions, read_positions=reads, source_ordinals=matches.source_ordinals)
    _add_source_rows(request, output, source, matches.source_ordinals)
    return output


def _write_by_clauses(request: RowChangeRequest, matches: KeyMatches, source: Source) -> WriteOutput:
    """Apply the MATCHED clauses to the source rows with a match, and the NOT MATCHED clauses to the others. Write the resulting rows.

    Each source row matches at most one target row. The clauses read only the source, so the values of target rows are not needed. A target
    row stays unchanged if its source row fulfils no condition of a clause.
    """
    if source.prepared_rows is not None:
        # Each prepared row has its action for a match and for no match, so the driver only chooses one of the two.
        output = write_prepared_rows(source, request.table_after, matches.source_ordinals)
    else:
        output = _apply_clauses_in_spark(request, source, matches.source_ordinals)
    _record_target_positions(matches, output)
    return output


def _apply_clauses_in_spark(request: RowChangeRequest, source: Source, matched_ordinals: BitMap64) -> WriteOutput:
    """Write the rows that the clauses produce from source rows. `matched_ordinals`: the numbers of the source rows with a match."""
    assert request.plan.source is not None
    # A boolean column shows whether a row has a match. By this column, Spark chooses between MATCHED and NOT MATCHED clauses.
    rows_with_match_flag = source.marked(matched_ordinals).alias(request.plan.source.alias)
    # Spark analyses the clauses even if the source is empty, so that a wrong name is always an error.
    clause_results = met_or_new_rows(rows_with_match_flag, request.plan)
    if not source.row_count:
        return WriteOutput()
    return write_source_rows(clause_results, source, request.table_after, distribution=request.distribution)


def _record_target_positions(matches: KeyMatches, output: WriteOutput) -> None:
    """Add the position of each matching target row to `output`: to `positions` if the row changes, otherwise to `read_positions`."""
    changing_ordinals = ordinal_array(output.source_ordinals).to_numpy()
    for path, bitmap in matches.positions.items():
        positions = np.array(bitmap.to_array(), dtype=np.uint64)
        is_changed = np.isin(matches.ordinals_by_path[path], changing_ordinals)
        if is_changed.any():
            output.positions[path] = Positions(positions[is_changed])
        if not is_changed.all():
            output.read_positions[path] = Positions(positions[~is_changed])


WAY = Way("by_keys", why_needs_values, write_by_keys, UNLESS_INEXACT)
