"""The ways to execute row-level statements, in order of preference, and the choice between them.

To add a way, write its module and add its `WAY` to `WAYS`.

`rejection_reason` reads metadata only, and EXPLAIN prints the reason that it returns. `run` returns `NotApplicable` if the rows show that
the way does not apply. Then its files are deleted, and the next way runs. Ways do not import each other.
"""

from __future__ import annotations

import logging

from rowmerge.execution.ways import by_keys, join, lookup, single_pass, target_only, write_first
from rowmerge.execution.ways.way import ExecutionResult, RowChangeRequest, Way

logger = logging.getLogger(__name__)

WAYS: tuple[Way, ...] = (target_only.WAY, write_first.WAY, by_keys.WAY, single_pass.WAY, lookup.WAY, join.WAY)
"""All ways in order of preference. The last one applies to every statement."""


def execute(request: RowChangeRequest) -> ExecutionResult:
    """Find and write the rows of a statement with the first way of execution (`Way`) that applies. Nothing is committed.

    A way is an execution strategy, such as a join in Spark or a lookup of keys in Arrow. All ways have the same result. Those that apply to
    fewer statements are faster and come first.

    Args:
        request: The statement on one version of its table.

    Returns:
        The written rows and the files that the statement read.

    Raises:
        AssertionError: No way applies. This cannot happen, because the last one applies to every statement.
    """
    applicable_ways = (way for way in WAYS if way.rejection_reason(request) is None)
    for way in applicable_ways:
        with request.measure("spark"):  # the stage of the statement's timings
            result = way.run(request)
        if isinstance(result, ExecutionResult):
            return result
        # Only the run showed that this way does not apply, for example to a source with too many rows. Delete the files that it wrote.
        logger.debug("%s of %s does not run as %s: %s.", request.plan.operation, request.plan.table, way.name, result.reason)
        result.output.discard(request.snapshot.shape.filesystem_options)  # the options hold the credentials of the store
    raise AssertionError(f"{WAYS[-1].name} applies to every statement")


def explain_ways(request: RowChangeRequest) -> list[str]:
    """Return the lines of EXPLAIN about the execution strategy: each `Way` that may run, followed by the earlier ones that do not apply.

    A way is an execution strategy. The first one that applies runs. If it has a fallback condition, and the condition is true at run time,
    the next one runs instead. So the explanation ends with the first way without such a condition.
    """
    # The reasons against ways wait in `rejection_lines` until the line of the next way that may run.
    lines, rejection_lines = list[str](), list[str]()
    for way in WAYS:
        if (reason := way.rejection_reason(request)) is not None:
            rejection_lines.append(f"    not {way.name}: {reason}")
            continue
        label = "otherwise" if lines else "way"
        if not way.fallback_condition:
            return [*lines, f"  {label}: {way.name}", *rejection_lines]
        lines += [f"  {label}: {way.name}, unless {way.fallback_condition}", *rejection_lines]
        rejection_lines = []
    return lines
