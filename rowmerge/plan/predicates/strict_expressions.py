"""Expressions that are NULL if a column in them is NULL, such as `length(name) + 1`. Files with only NULLs in the column have no match."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from rowmerge.plan.predicates.condition_context import ConditionContext
from rowmerge.plan.predicates.literals import ExactNumber, Null, constant, fits_integer
from rowmerge.plan.predicates.operands import Operand, column_operand

_STRICT = (
    *(exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe, exp.Cast, exp.Abs, exp.Floor, exp.Ceil, exp.Round),
    *(exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Substring, exp.Left, exp.Right),
    *(exp.Year, exp.Month, exp.Day, exp.DayOfMonth, exp.Quarter, exp.WeekOfYear, exp.Hour, exp.Minute, exp.Second, exp.Extract),
    *(exp.TsOrDsToDate, exp.TsOrDsAdd, exp.DateTrunc, exp.TimestampTrunc, exp.TimeToStr, exp.TimeStrToTime, exp.DateDiff, exp.LastDay),
)
"""The functions and operators whose result is NULL if one of their arguments is NULL."""
_WITHOUT_COLUMNS = (exp.Literal, exp.Var, exp.DataType, exp.Interval)
_MAX_NODES = 200
"""The maximum number of nodes in an expression. A longer one has no use here."""


def strict_operands(nodes: Iterable[exp.Expr], context: ConditionContext) -> list[Operand] | None:
    """Return the columns in expressions that are NULL if one of these columns is NULL, or None for any other expressions.

    Args:
        nodes: The syntax trees of the expressions.
        context: The condition that contains them.
    """
    operands: list[Operand] = []
    to_visit = list(nodes)
    for _ in range(_MAX_NODES):
        if not to_visit:
            return operands
        node = to_visit.pop().unnest()
        path = context.path(node)
        literal = constant(node) if path is None else None
        if path is not None:
            operands.append(column_operand(path, context))
        elif isinstance(literal, Null) or _exceeds_long(literal):
            return None
        elif isinstance(node, _STRICT):
            to_visit += node.iter_expressions()
        elif literal is None and not isinstance(node, _WITHOUT_COLUMNS):
            return None
    return None


def _exceeds_long(literal: object) -> bool:
    """Return whether Spark may replace a comparison of a bigint with the literal by TRUE or FALSE, even for NULL."""
    return isinstance(literal, ExactNumber) and not fits_integer(literal.value, 64)
