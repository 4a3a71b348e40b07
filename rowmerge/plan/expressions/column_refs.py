"""Where the columns of a SQL expression stand in its text: sqlglot's reading of it, kept only where the positions prove right."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

DIALECT = "spark"
_TAKES_UNIT = {"extract", "timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff"}
_QUERIES = (exp.Query, exp.Values, exp.Table)


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
logging.getLogger("sqlglot").addFilter(lambda record: not _quiet.get())


@dataclass(frozen=True)
class Reference:
    """A dotted name that may be a column, with the fields taken from it (`t.s.a`).

    `starts` and `ends` are the offsets in the text of each part, half open, quotes included. A `t.*` has the part `*` last.
    """

    parts: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    in_query: bool


def tokens_of(text: str) -> list[Token] | None:
    """The tokens of a text, or None when it has none that make sense (an open quote, an open comment)."""
    try:
        with _quietly():
            return sqlglot.tokenize(text, dialect=DIALECT)
    except (SqlglotError, ValueError):
        return None


def parse(text: str) -> exp.Expr | None:
    """An expression's tree, or None when sqlglot cannot parse all of the text as one expression."""
    if any(token.token_type is TokenType.SEMICOLON for token in tokens_of(text) or ()):
        return None
    try:
        with _quietly():
            return sqlglot.parse_one(text, dialect=DIALECT, into=exp.Condition)
    except (SqlglotError, RecursionError, ValueError):
        return None


def references(tree: exp.Expr, text: str) -> list[Reference] | None:
    """All column references of a tree parsed from `text`, in no order; None when one of them has no provable place in the text.

    Lambda variables and the names in `* EXCEPT (…)` are left out.
    """
    found = []
    nodes: list[tuple[exp.Expr, bool, frozenset[str]]] = [(tree, False, frozenset())]
    while nodes:
        node, in_query, variables = nodes.pop()
        if isinstance(node, exp.Star):
            continue
        # sqlglot tells the variables of a lambda from columns only in the same case.
        if isinstance(node, exp.Column) and node.parts[0].name.lower() not in variables:
            reference = _reference(node, text, in_query)
            if reference is None:
                return None
            found.append(reference)
        in_query = in_query or isinstance(node, _QUERIES)
        if isinstance(node, exp.Lambda):
            variables |= {parameter.name.lower() for parameter in node.expressions}
        nodes += [(child, in_query, variables) for child in node.iter_expressions()]
    return found


def mentions(text: str, path: Sequence[str]) -> bool:
    """Whether an expression uses a column or field, one above it, or one inside it; where that cannot be told, whether its name occurs."""
    tree = parse(text)
    found = None if tree is None else references(tree, text)
    if found is None:
        return any(token.text.lower() == path[0].lower() for token in tokens_of(text) or ())
    return any(all(a.lower() == b.lower() for a, b in zip(reference.parts, path, strict=False)) for reference in found)


def rewrite(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """The text with each `[start, end)` replaced; edits must not overlap."""
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def has_query(tree: exp.Expr) -> bool:
    """Whether a subquery stands anywhere in the expression."""
    return tree.find(*_QUERIES) is not None


def unread_names(text: str, tokens: Iterable[Token], read: Iterable[Reference]) -> Iterator[str]:
    """Names among the tokens that the tree does not hold as columns, function names apart.

    sqlglot turns some arguments into keywords (`trunc(d, unit)`), and double quotes are names under
    spark.sql.ansi.doubleQuotedIdentifiers, so a column may hide in either.
    """
    known = {start for reference in read for start in reference.starts}
    listed: list[Token | None] = [None, None, *tokens, None]
    for before, previous, token, following in zip(listed, listed[1:], listed[2:], listed[3:], strict=False):
        if token is None or token.start in known:
            continue
        if token.token_type is TokenType.STRING:
            if text[token.start] == '"':
                yield token.text
        elif token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            called = following is not None and following.token_type is TokenType.L_PAREN
            if not called and not _unit(before, previous):
                yield token.text


@contextmanager
def _quietly() -> Iterator[None]:
    """Without sqlglot's warnings to the user: what it does not understand is for Spark to judge."""
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)


def _unit(before: Token | None, previous: Token | None) -> bool:
    """Whether a name after these two tokens is a unit of time: `INTERVAL 1 day`, `datediff(day, …)`, `extract(day FROM …)`."""
    if previous is None or before is None:
        return False
    if previous.token_type in (TokenType.NUMBER, TokenType.STRING):
        return before.token_type is TokenType.INTERVAL
    return previous.token_type is TokenType.L_PAREN and before.text.lower() in _TAKES_UNIT


def _reference(column: exp.Column, text: str, in_query: bool) -> Reference | None:
    identifiers: list[exp.Expr] = list(column.parts)
    node: exp.Expr = column
    while isinstance(node.parent, exp.Dot) and node.parent.this is node and isinstance(node.parent.expression, exp.Identifier):
        node = node.parent
        identifiers.append(node.expression)
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for part in identifiers:
        start, end = part.meta.get("start"), part.meta.get("end")
        if isinstance(part, exp.Star) and ends:
            start = end = text.find("*", ends[-1])
        if not isinstance(part, exp.Identifier | exp.Star) or start is None or end is None:
            return None
        name = "*" if isinstance(part, exp.Star) else part.name
        if _unquoted(text[start : end + 1]) != name:
            return None
        parts.append(name)
        starts.append(start)
        ends.append(end + 1)
    return Reference(tuple(parts), tuple(starts), tuple(ends), in_query)


def _unquoted(written: str) -> str:
    if len(written) > 1 and written[0] == written[-1] == "`":
        return written[1:-1].replace("``", "`")
    return written
