"""MERGE, UPDATE, DELETE and INSERT … REPLACE: from a plan to a commit, again after a conflict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rowmerge.errors import RowsMustStay
from rowmerge.execution.commit import AS_THE_TABLE_SAYS, Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.file_changes import file_changes
from rowmerge.execution.metrics import row_counts, row_metrics
from rowmerge.execution.result import ChangeResult, Timings
from rowmerge.execution.ways import selection
from rowmerge.execution.ways.request import Planned, Request
from rowmerge.execution.ways.way import WayResult
from rowmerge.plan.pruning.file_pruning import everything
from rowmerge.spark.writing.written import discard_on_error
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def change_rows(
    spark: SparkSession, table: Table, plan_for: Callable[[Snapshot], Planned], options: CommitOptions = AS_THE_TABLE_SAYS
) -> ChangeResult:
    """Plan a row-level statement on the newest version, find and write its rows, and commit. Begin again after a conflict.

    Raises CommitConflict, MultipleSourceRowsMatch, RowsMustStay, and errors of planning and of Spark. Nothing is written when it raises.
    """
    timings = Timings()

    def attempt() -> Attempt:
        with timings.measure("plan"):
            snapshot = table.snapshot()
            snapshot.check_writable()
            request = Request(spark, snapshot, plan_for(snapshot), timings.measure)
            _check_updates_allowed(request)
        return _attempt(request, selection.execute(request), timings)

    return commit_with_retry(table, attempt, timings, options)


def _check_updates_allowed(request: Request) -> None:
    blocker = request.snapshot.shape.rewrite_blocker
    if blocker is not None and request.updates_rows:
        raise RowsMustStay(request.plan.table, blocker, "update rows of")


def _attempt(request: Request, result: WayResult, timings: Timings) -> Attempt:
    """Drop, mark or rewrite the files that lost rows, and return the commit of the statement."""
    plan, source = request.plan, result.source
    with discard_on_error(result.written, request.snapshot.shape.filesystem_options), timings.measure("spark"):
        files, copied_rows = file_changes(request.spark, request.snapshot, plan, result.written, result.files)
    counts = row_counts(result.written, files, result.files.whole)
    source_rows = 0 if source is None else source.rows
    change = CommitRequest(
        plan.operation,
        parameters=plan.parameters,
        metrics=row_metrics(plan, counts, files, copied=copied_rows, source_rows=source_rows, timings=timings),
        files=files,
        reads=_reads(request, result),
        definition=None if plan.new_schema is None else TableDefinition(schema=request.table_after.schema),
    )
    return Attempt(request.snapshot, change, counts, files.written)


def _reads(request: Request, result: WayResult) -> Reads:
    """Return what concurrent commits must not have changed. If the statement reads its own table, every row of the version counts."""
    files = result.files
    if request.planned.reads_table:
        return Reads(frozenset(files.listing.paths), everything)
    paths = frozenset(files.candidates.paths)
    return Reads(paths, files.mask, files.columns, result.deciding_rows, result.matching)
