"""The way to execute a MERGE that changes every target row without a match. One outer join reads the source, without keeping its rows.

Such a source is usually about as large as the target, and its keys exclude no files. So the keys are not extracted first.

This way applies if the source may be large. After a conflict, the next attempt keeps the rows of the source. Otherwise the commit could not
compare them with the files of concurrent commits.
"""

from __future__ import annotations

from rowmerge.execution.ways.row_writing import join_and_write, scan_target
from rowmerge.execution.ways.way import SOURCE_READS_FEW_BYTES, ExecutionResult, Reason, RowChangeRequest, Way
from rowmerge.spark.matching.joins import changes_all_rows
from rowmerge.spark.source.writing import reads_few_bytes
from rowmerge.spark.spark_session import detects_other_rows


def why_not_single_pass(request: RowChangeRequest) -> Reason | None:
    """Return why the join cannot read the source in a single pass, or None if it can.

    In a single pass, Spark evaluates the source during the join, and stores none of its rows. Other ways first evaluate the source and
    store its rows, to determine their number and their keys. This saves time if the source is small, or if its keys exclude target files.
    """
    source = request.planned.source
    if source is None:
        return Reason("the statement has no source")
    if not changes_all_rows(request.plan):
        # The keys of the source may exclude files. Only if every target row without a match changes, all files are read in any case.
        return Reason("no clause changes every target row without a match")
    if request.plan.counts_every_match:
        return Reason("the matches of each target row are counted first, which needs the source twice")
    if source.was_evaluated:
        # After a conflict, the source is kept, so that the commit can compare its rows with those of concurrent commits.
        return Reason("an earlier attempt evaluated the source")
    if not detects_other_rows(request.spark):
        # Rows of two evaluations would mix. Other ways keep the rows, and fail if they are lost.
        return Reason("executors can be lost, and this version of Spark does not detect that a query returns other rows the second time")
    if reads_few_bytes(source.frame):
        # A source that reads little may have few rows. It is evaluated first: if it is small, a faster broadcast join follows.
        return SOURCE_READS_FEW_BYTES
    if source.is_broadcastable(request.files.candidates.live_rows):
        # A source that synchronizes the whole target usually has about as many rows. If so many can be broadcast, that join is faster.
        return Reason("a source of as many rows as the target can be broadcast")
    return None


def stream_source_into_join(request: RowChangeRequest) -> ExecutionResult:
    """Join the target to the source while Spark evaluates the source."""
    source = request.source.stream(request.files.candidates.live_rows)
    return join_and_write(request, request.files, source, scan_target(request, request.files, source))


WAY = Way("single_pass", why_not_single_pass, stream_source_into_join)
