"""The way of a mirror, a MERGE that changes every target row without a match: one outer join reads the source, and nothing keeps it.

Such a source is about as large as the target, and no key of it leaves a file unread, so its keys need not be known first.

The way applies if the source is large and nothing known about the source's files contradicts that. After a conflict, the statement begins
anew and keeps its source, because the rows cannot be checked without the source.
"""

from __future__ import annotations

from rowmerge.execution.ways.row_writing import scan_target, write_join
from rowmerge.execution.ways.way import ExecutionResult, Reason, RowChangeRequest, Way
from rowmerge.spark.matching.joins import changes_all_rows
from rowmerge.spark.source.writing import FEW_BYTES, is_made_of_few_bytes


def why_not_applicable(request: RowChangeRequest) -> Reason | None:
    source = request.planned.source
    if source is None or not changes_all_rows(request.plan):
        return Reason("no clause changes every target row without a match")
    if source.is_kept or source.was_streamed:
        return Reason("an earlier attempt evaluated the source")
    if is_made_of_few_bytes(source.frame):
        return Reason(f"the source reads at most {FEW_BYTES // 1024 // 1024} MiB of files")
    if source.is_broadcastable(request.files.candidates.live_rows):
        return Reason("a source of as many rows as the target can be broadcast")
    return None


def run(request: RowChangeRequest) -> ExecutionResult:
    """Join the target to the source while Spark evaluates it."""
    source = request.source.stream(request.files.candidates.live_rows)
    return write_join(request, request.files, source, scan_target(request, request.files, source))


WAY = Way("single_pass", why_not_applicable, run)
