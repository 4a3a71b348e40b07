"""The way to execute every other MERGE: Spark keeps the rows of the source, reads the target's files, and joins the two."""

from __future__ import annotations

from rowmerge.execution.ways.row_writing import join_and_write, scan_target
from rowmerge.execution.ways.way import ExecutionResult, RowChangeRequest, Way


def join_source(request: RowChangeRequest) -> ExecutionResult:
    """Evaluate the source, exclude files by its keys, and join the source to the remaining files."""
    source = request.materialize_source()
    files = request.files_for(source)
    return join_and_write(request, files, source, scan_target(request, files, source))


WAY = Way("join", lambda request: None, join_source)  # a join executes every statement
