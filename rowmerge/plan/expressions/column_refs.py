"""The columns of a SQL expression and their positions in its text. sqlglot finds them, and each position is compared with the text."""

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
_FUNCTIONS_OF_UNITS = {"extract", "timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff"}
_QUERIES = (exp.Query, exp.Values, exp.Table)


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
logging.getLogger("sqlglot").addFilter(lambda record: not _quiet.get())


@dataclass(frozen=True)
class Reference:
    """A dotted name that may be a column, with the fields that are read from it (`t.s.a`).

    `starts` and `ends` are the offsets of each part in the text, half open, with the quotes. `t.*` has the last part `*`.
    """

    parts: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    in_query: bool


def tokens_of(text: str) -> list[Token] | None:
    """Return the tokens of a text, or None if it cannot be divided into tokens (an open quote, an open comment)."""
    try:
        with _quietly():
            return sqlglot.tokenize(text, dialect=DIALECT)
    except (SqlglotError, ValueError):
        return None


def parse(text: str) -> exp.Expr | None:
    """Return an expression's tree, or None if sqlglot cannot parse the whole text as one expression."""
    if any(token.token_type is TokenType.SEMICOLON for token in tokens_of(text) or ()):
        return None
    try:
        with _quietly():
            return sqlglot.parse_one(text, dialect=DIALECT, into=exp.Condition)
    except (SqlglotError, RecursionError, ValueError):
        return None


def references(tree: exp.Expr, text: str) -> list[Reference] | None:
    """Return the column references of a tree parsed from `text`, in no order, or None if the position of one in the text is uncertain.

    Lambda variables and the names in `* EXCEPT (…)` are left out.

    Args:
        tree: The tree of an expression, or of an operand in it.
        text: The text of the whole expression, to which the positions in the tree refer.
    """
    column_references = [_reference(column, text, in_query) for column, in_query in _columns(tree)]
    return None if None in column_references else [reference for reference in column_references if reference is not None]


def _columns(tree: exp.Expr) -> Iterator[tuple[exp.Column, bool]]:
    """Yield the columns of a tree, and whether each is in a subquery."""
    nodes: list[tuple[exp.Expr, bool, frozenset[str]]] = [(tree, False, frozenset())]
    while nodes:
        node, in_query, variables = nodes.pop()
        if isinstance(node, exp.Star):
            continue
        # sqlglot tells the variables of a lambda from columns only in the same case.
        if isinstance(node, exp.Column) and node.parts[0].name.lower() not in variables:
            yield node, in_query
        in_query = in_query or isinstance(node, _QUERIES)
        if isinstance(node, exp.Lambda):
            variables |= {parameter.name.lower() for parameter in node.expressions}
        nodes += [(child, in_query, variables) for child in node.iter_expressions()]


def mentions(text: str, path: Sequence[str]) -> bool:
    """Return whether an expression uses a column or field, a struct around it, or a field inside it.

    If the columns of the expression are uncertain, every token with the name of the column counts.

    Args:
        text: The SQL text of the expression.
        path: The name of a column, and of the fields inside it, in any case.
    """
    tree = parse(text)
    column_references = None if tree is None else references(tree, text)
    if column_references is None:
        return any(token.text.lower() == path[0].lower() for token in tokens_of(text) or ())
    return any(all(a.lower() == b.lower() for a, b in zip(reference.parts, path, strict=False)) for reference in column_references)


def rewrite(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with the edits applied.

    Args:
        text: The text.
        edits: The start and the end of each replaced range, half open, and its replacement. Ranges must not overlap.
    """
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def has_query(tree: exp.Expr) -> bool:
    """Return whether an expression has a subquery."""
    return tree.find(*_QUERIES) is not None


def has_column_outside_tree(text: str, tokens: Sequence[Token], tree_references: Iterable[Reference], columns: Iterable[str]) -> bool:
    """Return whether an expression may use one of these columns although sqlglot's tree has no column node at that place.

    In `trunc(d, unit)`, for example, sqlglot parses `unit` as a keyword, but it can be a column. `"a"` is a string for sqlglot, but a
    column under spark.sql.ansi.doubleQuotedIdentifiers.

    Args:
        text: The SQL text of the expression.
        tokens: The tokens of the text, or those of an operand in it.
        tree_references: The references of the column nodes in sqlglot's tree.
        columns: The names of the columns, in any case.
    """
    lower_columns = {column.lower() for column in columns}
    reference_starts = set[int]().union(*(reference.starts for reference in tree_references))
    other_indexes = [index for index, token in enumerate(tokens) if token.start not in reference_starts]
    return any(tokens[index].text.lower() in lower_columns and _may_be_name(text, tokens, index) for index in other_indexes)


def _may_be_name(text: str, tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token can be the name of a column, rather than a string, a keyword, a function or a unit of time.

    Text in double quotes can be a name, because it depends on a setting of Spark whether it is a string.
    """
    token = tokens[index]
    if token.token_type is TokenType.STRING:
        return text[token.start] == '"'
    if token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
        return False
    is_function = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.L_PAREN
    return not is_function and not _is_time_unit(tokens, index)


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress sqlglot's warnings to the user. Spark validates what sqlglot does not understand."""
    outer_setting = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(outer_setting)


def _is_time_unit(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a name is a unit of time: `INTERVAL 1 day`, `datediff(day, …)`, `extract(day FROM …)`."""
    if index < 2:
        return False
    second_previous, previous = tokens[index - 2], tokens[index - 1]
    if previous.token_type in (TokenType.NUMBER, TokenType.STRING):
        return second_previous.token_type is TokenType.INTERVAL
    return previous.token_type is TokenType.L_PAREN and second_previous.text.lower() in _FUNCTIONS_OF_UNITS


def _reference(column: exp.Column, text: str, in_query: bool) -> Reference | None:
    """Return the reference of a column and of the fields that are read from it, or None if its position in the text is uncertain."""
    identifiers = _identifiers(column)
    spans: list[tuple[int, int]] = []
    for identifier in identifiers:
        span = _span(identifier, text, spans[-1][1] if spans else None)
        if span is None:
            return None
        spans.append(span)
    starts, ends = zip(*spans, strict=True)
    return Reference(tuple(identifier.name for identifier in identifiers), starts, ends, in_query)


def _identifiers(column: exp.Column) -> list[exp.Expr]:
    """Return the identifiers of a column's name, and those of the fields that are read from the column with dots."""
    identifiers: list[exp.Expr] = list(column.parts)
    node: exp.Expr = column
    while isinstance(node.parent, exp.Dot) and node.parent.this is node and isinstance(node.parent.expression, exp.Identifier):
        node = node.parent
        identifiers.append(node.expression)
    return identifiers


def _span(identifier: exp.Expr, text: str, previous_end: int | None) -> tuple[int, int] | None:
    """Return the offsets of a name in the text, half open, or None if another name is there."""
    start, last = identifier.meta.get("start"), identifier.meta.get("end")
    if isinstance(identifier, exp.Star) and previous_end is not None:
        start = last = text.find("*", previous_end)
    if not isinstance(identifier, exp.Identifier | exp.Star) or start is None or last is None:
        return None
    return (start, last + 1) if _unquoted(text[start : last + 1]) == identifier.name else None


def _unquoted(identifier: str) -> str:
    """Return the name of an identifier with or without backquotes."""
    if len(identifier) > 1 and identifier[0] == identifier[-1] == "`":
        return identifier[1:-1].replace("``", "`")
    return identifier
