"""The way of every other MERGE: Spark reads the target's files and joins the source, which is kept."""

from __future__ import annotations

from rowmerge.execution.ways.row_writing import scan_target, write_join
from rowmerge.execution.ways.way import ExecutionResult, Reason, RowChangeRequest, Way


def why_not_applicable(_: RowChangeRequest) -> Reason | None:
    return None


def run(request: RowChangeRequest) -> ExecutionResult:
    """Evaluate the source, leave out files by its keys, and join it to the other files."""
    source = request.source.rows(request.key_pairs)
    files = request.files_for(source)
    return write_join(request, files, source, scan_target(request, files, source))


WAY = Way("join", why_not_applicable, run)
