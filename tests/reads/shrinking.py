"""Make a failing query and the script of its tables smaller, as long as the query still fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_CLAUSES = ("where", "having", "order", "limit", "distinct", "with_", "group", "joins")
MOST_ATTEMPTS = 150


def shrink_query(text: str, fails: Callable[[str], bool], most_attempts: int = MOST_ATTEMPTS) -> str:
    """Return a smaller query that still fails. The result is the text itself if no smaller query fails.

    Args:
        text: A query that fails.
        fails: Whether a query fails.
        most_attempts: The greatest number of queries to run.
    """
    attempts, has_changed, tried = 0, True, {text}
    while has_changed:
        has_changed = False
        for candidate in sorted(set(_smaller_queries(text)) - tried, key=len):
            if attempts == most_attempts:
                return text
            tried.add(candidate)
            attempts += 1
            if fails(candidate):
                text, has_changed = candidate, True
                break
    return text


def shrink_script(statements: Sequence[str], fails: Callable[[Sequence[str]], bool], most_attempts: int = 30) -> list[str]:
    """Return a part of the statements with which a query still fails.

    Args:
        statements: The statements that create and fill tables.
        fails: Whether a query fails after some of the statements. False if one of them fails.
        most_attempts: The greatest number of parts to try.
    """
    remaining, size, attempts = list(statements), max(1, len(statements) // 3), 0
    while attempts < most_attempts:
        start = 0
        while start < len(remaining) and attempts < most_attempts:
            part = [*remaining[:start], *remaining[start + size :]]
            attempts += 1
            if fails(part):
                remaining = part
            else:
                start += size
        if size == 1:
            break
        size = max(1, size // 2)
    return remaining


def tables_in(text: str, names: Sequence[str]) -> list[str]:
    """Return the names that occur as words in a text."""
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)]


def _smaller_queries(text: str) -> Iterator[str]:
    """Yield queries with one part less."""
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return
    for number, _ in enumerate(tree.walk()):
        for change in (*_replacements(tree, number), *_removals(tree, number)):
            smaller = change.sql("spark")
            if len(smaller) < len(text):
                yield smaller


def _node(tree: exp.Expr, number: int) -> tuple[exp.Expr, exp.Expr]:
    """Return a copy of a tree, and its node with a number in the order of `walk`."""
    copy = tree.copy()
    return copy, next(node for place, node in enumerate(copy.walk()) if place == number)


def _replacements(tree: exp.Expr, number: int) -> Iterator[exp.Expr]:
    """Yield trees in which an operand or a subquery replaces a node."""
    _, node = _node(tree, number)
    if isinstance(node, exp.Query) and number:
        yield node.copy()
    if isinstance(node, exp.Connector | exp.Not | exp.SetOperation | exp.Paren | exp.Coalesce | exp.Case):
        for name in ("this", "expression"):
            copy, target = _node(tree, number)
            operand = target.args.get(name)
            if isinstance(operand, exp.Expr):
                if target is copy:
                    yield operand
                else:
                    target.replace(operand.copy())
                    yield copy


def _removals(tree: exp.Expr, number: int) -> Iterator[exp.Expr]:
    """Yield trees without a clause, a join, a column or a member of a list."""
    _, node = _node(tree, number)
    for name in _CLAUSES:
        if isinstance(node, exp.Select) and node.args.get(name):
            copy, target = _node(tree, number)
            target.set(name, None)
            yield copy
    if isinstance(node, exp.Select | exp.In | exp.Values):
        for place in range(len(node.expressions) if len(node.expressions) > 1 else 0):
            copy, target = _node(tree, number)
            target.set("expressions", [item for index, item in enumerate(target.expressions) if index != place])
            yield copy
