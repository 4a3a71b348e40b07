"""The ways in order of preference, and the choice between them.

To add a way, write its module and put its `WAY` into `WAYS`.

`why_not_applicable` reads metadata only, and EXPLAIN prints the reason that it returns. `run` returns `NotApplicable` if the way finds out
late that it does not apply. Then its files are deleted, and the next way runs. Ways do not import each other.
"""

from __future__ import annotations

import logging

from rowmerge.execution.ways import by_keys, join, lookup, single_pass, target_only, write_first
from rowmerge.execution.ways.way import ExecutionResult, RowChangeRequest, Way

logger = logging.getLogger(__name__)

WAYS: tuple[Way, ...] = (target_only.WAY, write_first.WAY, by_keys.WAY, single_pass.WAY, lookup.WAY, join.WAY)
"""The last one applies to every statement."""


def execute(request: RowChangeRequest) -> ExecutionResult:
    """Find and write the rows of a statement by the first way of execution that applies. Nothing is committed."""
    applicable_ways = (way for way in WAYS if way.why_not_applicable(request) is None)
    for way in applicable_ways:
        with request.measure("spark"):
            result = way.run(request)
        if isinstance(result, ExecutionResult):
            return result
        # Only the run could show that this way does not apply (for example, to a source with too many rows). No commit needs its files.
        logger.debug("%s of %s does not run as %s: %s.", request.plan.operation, request.plan.table, way.name, result.reason)
        result.written.discard(request.snapshot.shape.filesystem_options)
    raise AssertionError(f"{WAYS[-1].name} applies to every statement")


def explain_ways(request: RowChangeRequest) -> list[str]:
    """Return the lines of EXPLAIN: the way, why each way before it does not apply, and the alternatives that only a run can choose."""
    lines, rejections = list[str](), list[str]()
    for way in WAYS:
        if (reason := way.why_not_applicable(request)) is not None:
            rejections.append(f"    not {way.name}: {reason}")
            continue
        label = "otherwise" if lines else "way"
        if not way.unless:
            return [*lines, f"  {label}: {way.name}", *rejections]
        lines += [f"  {label}: {way.name}, unless {way.unless}", *rejections]
        rejections = []
    return lines
