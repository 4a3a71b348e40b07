"""Checks that the conditions and values of row-level statements contain no aggregate, window, generator or random functions."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.expressions import FUNCTION_BY_NAME

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import DeleteAction, Merge, Update
from rowmerge.errors import UnsupportedStatement
from rowmerge.plan.expressions.column_refs import parse, tokens_of
from rowmerge.plan.expressions.conditions import nondeterministic_function

_READS_MANY_ROWS = "{0} reads several rows, but {1} is evaluated for single rows. Compute it in a subquery, or in the source of a MERGE"
_RETURNS_MANY_ROWS = "{0} returns several rows, but {1} must have one value for each row. Use it in a subquery, or in the source of a MERGE"


def check_merge(merge: Merge) -> None:
    """Raise UnsupportedStatement for an expression that is not allowed in the ON condition, a WHEN condition or a value of a MERGE.

    Conditions must satisfy `check_condition`. A value can be nondeterministic, but cannot contain an aggregate, window or generator
    function.
    """
    check_condition(merge.on, "the ON condition")
    for when in merge.clauses:
        if when.condition is not None:
            check_condition(when.condition, f"the condition of {when.match.value}")
        assignments = None if isinstance(when.action, DeleteAction) else when.action.assignments
        for assignment in assignments or ():
            _refuse_multi_row_functions(assignment.value, f"the value of `{'.'.join(assignment.column)}`")


def check_update(update: Update) -> None:
    """Raise UnsupportedStatement for an expression that is not allowed in WHERE or in a value of an UPDATE. See `check_merge`."""
    for assignment in update.assignments:
        _refuse_multi_row_functions(assignment.value, f"the value of `{'.'.join(assignment.column)}`")
    if update.condition is not None:
        check_condition(update.condition, "the WHERE condition")


def check_condition(text: SqlText, description: str) -> None:
    """Raise an error for a condition whose result is not determined by a single row.

    The engine evaluates a condition several times and in any order. The result for a row must therefore always be the same.

    Args:
        text: The SQL text of the condition.
        description: The noun for the condition in the error message, such as `the ON condition`.

    Raises:
        UnsupportedStatement: The condition contains a nondeterministic, aggregate, window or generator function.
    """
    if function := nondeterministic_function(text.text):
        problem = f"{function}() returns another value for each call, so the result of {description} would be uncertain"
        raise UnsupportedStatement(f"{problem}. Compute it in the source first", text=text.text)
    _refuse_multi_row_functions(text, description)


def _refuse_multi_row_functions(text: SqlText, description: str) -> None:
    """Raise UnsupportedStatement for an aggregate, window or generator function outside of subqueries.

    Aggregate and window functions (`sum`, `lag`) read several rows, and generator functions (`explode`) return several rows. The engine
    evaluates a condition or a value for each row separately. `description`: the noun for the expression in the error message.
    """
    tree = parse(text.text)
    if tree is None:  # Spark reports the error
        return
    for node in tree.find_all(exp.Window, exp.AggFunc, exp.UDTF):
        if isinstance(node, exp.Query | exp.Lateral) or node.find_ancestor(exp.Query) is not None:
            continue  # the function is in a subquery, which has rows of its own, as is a LATERAL VIEW, which is a UDTF to sqlglot
        function = node.this if isinstance(node, exp.Window) else node
        reason = _RETURNS_MANY_ROWS if isinstance(node, exp.UDTF) else _READS_MANY_ROWS
        raise UnsupportedStatement(reason.format(f"{_function_name(function, text.text)}()", description), text=text.text)


def _function_name(function: exp.Expr, text: str) -> str:
    """Return a function's name as written in the text, in lower case."""
    for token in tokens_of(text) or ():
        if FUNCTION_BY_NAME.get(token.text.upper()) is type(function):
            return token.text.lower()
    return (function.sql_name() if isinstance(function, exp.Func) else str(function.name) or "a window function").lower()
