"""The way of every other MERGE: Spark reads the target's files and joins the source, which is kept."""

from __future__ import annotations

from rowmerge.execution.ways.request import Request
from rowmerge.execution.ways.row_writing import scan_target, write_join
from rowmerge.execution.ways.way import ExecutionResult, Reason, Way


def why_not_applicable(_: Request) -> Reason | None:
    return None


def run(request: Request) -> ExecutionResult:
    """Evaluate the source, leave out files by its keys, and join it to the other files."""
    source = request.source.rows(request.key_pairs)
    files = request.files_for(source)
    return write_join(request, files, source, scan_target(request, files, source))


WAY = Way("join", why_not_applicable, run)
