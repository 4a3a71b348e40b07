"""The way to execute a MERGE with keys: Arrow reads the target rows that have a key of the source. Then Spark joins the source to them."""

from __future__ import annotations

from rowmerge.execution.ways.key_matches import why_keys_do_not_find_rows
from rowmerge.execution.ways.row_writing import TargetRows, join_and_write, late_columns_of
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.execution.ways.way import SCAN_STEP, ExecutionResult, NotApplicable, Reason, RowChangeRequest, Way
from rowmerge.plan.row_plan import SourceRows
from rowmerge.spark.matching.driver_lookup import MAX_FOUND_ROWS
from rowmerge.spark.matching.joins import join_of_target_rows, looked_up_target_join
from rowmerge.spark.matching.key_lookup import MAX_KEYS_FOR_PAGE_SKIPPING, rows_by_keys, should_use_page_skipping
from rowmerge.spark.source.source import MAX_LOOKED_UP_KEYS, Source


def why_not_lookup(request: RowChangeRequest) -> Reason | None:
    """Return why Arrow cannot look up the target rows with all columns that the statement needs, or None if it can."""
    if (reason := why_keys_do_not_find_rows(request)) is not None:
        return reason
    if request.plan.source_rows is SourceRows.ALL:
        return Reason("the statement inserts every source row")
    if request.needed_columns is None:
        return Reason("a subquery or an ambiguous name hides which columns the statement needs")
    return None


def look_up_and_write_join(request: RowChangeRequest) -> ExecutionResult | NotApplicable:
    """Look up the target rows that have a key of the source, join the source to them, and write the resulting rows.

    Arrow reads the target rows, and Spark joins them. Return NotApplicable if the keys or the rows show that a Spark scan is faster or
    necessary.
    """
    assert request.needed_columns is not None  # otherwise `why_not_lookup` returns a reason
    source = request.materialize_source(max_keys=request.max_keys(MAX_LOOKED_UP_KEYS))
    if not source.row_count:
        return NotApplicable(Reason("the source has no rows"))
    if should_use_page_skipping(request.snapshot, source, request.needed_columns):
        return NotApplicable(Reason(f"Spark skips pages for up to {MAX_KEYS_FOR_PAGE_SKIPPING} keys"))
    files = request.files_for(source)
    if not len(files.to_read):
        return NotApplicable(Reason("no file can contain a match"))
    # With late columns, a second job inserts new source rows. For a small source, one job with all columns takes less time.
    is_one_job_faster = request.plan.source_rows is SourceRows.UNMATCHED and source.is_broadcastable
    late_columns = frozenset[str]() if is_one_job_faster else late_columns_of(request, files.to_read, source)
    target_rows = _look_up_target_rows(request, files, source, request.needed_columns - late_columns, late_columns)
    if target_rows is None:
        return NotApplicable(Reason("the rows with a key are too many, or Arrow cannot compare or read them as Spark does"))
    return join_and_write(request, files, source, target_rows)


def _look_up_target_rows(
    request: RowChangeRequest, files: TargetFiles, source: Source, columns: frozenset[str], late_columns: frozenset[str]
) -> TargetRows | None:
    """Return the target rows that have a key of the source, or None if Arrow cannot look them up or finds too many."""
    with request.measure_step(SCAN_STEP):
        looked_up_rows = rows_by_keys(request.spark, request.snapshot, files.to_read, source, columns, request.lineage)
    if looked_up_rows is None:
        return None
    join_of_rows = join_of_target_rows if late_columns else looked_up_target_join
    join = join_of_rows(request.plan, broadcasts_target=looked_up_rows.are_few)
    return TargetRows(looked_up_rows.frame, join, looked_up_rows.path_by_file, late_columns)


_FALLBACK_CONDITION = (
    f"the source has at most {MAX_KEYS_FOR_PAGE_SKIPPING} rows and columns beside the keys are needed, "
    f"more than {MAX_FOUND_ROWS:,} target rows have a key, or Arrow cannot compare the keys as Spark does"
)
WAY = Way("lookup", why_not_lookup, look_up_and_write_join, _FALLBACK_CONDITION)
