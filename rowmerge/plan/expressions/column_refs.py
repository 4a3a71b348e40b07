"""The columns of a SQL expression and their positions in its text. Each position that sqlglot reports is checked against the text."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

DIALECT = "spark"
_FUNCTIONS_OF_UNITS = {"extract", "timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff"}
_CALLED_WITHOUT_PARENTHESES = {"current_date", "current_time", "current_timestamp", "current_user", "localtime", "session_user", "user"}
_QUERIES = (exp.Query, exp.Values, exp.Table)
_CONTINUED_COMMENT = re.compile(r"--[^\r\n]*\\\n")
"""A comment that goes on in the next line for Spark, because its line ends with a backslash. For sqlglot, the next line is code."""


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
logging.getLogger("sqlglot").addFilter(lambda record: not _quiet.get())


@dataclass(frozen=True)
class Reference:
    """A dotted name that may refer to a column or to a nested field of a column (`t.s.a`).

    `starts` and `ends` are the half-open offsets of each part in the text, including quotes. The last part of `t.*` is `*`. `in_query`:
    whether the name is inside a subquery.
    """

    parts: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    in_query: bool

    @property
    def start(self) -> int:
        return self.starts[0]

    @property
    def end(self) -> int:
        return self.ends[-1]

    def qualifier_end(self, part_count: int) -> int:
        """Return the offset after the first parts of the name, which qualify the column."""
        return self.ends[part_count - 1]


def tokens_of(text: str) -> list[Token] | None:
    """Return the tokens of a SQL text, or None if the text contains an unclosed string or comment."""
    try:
        with _quietly():
            return sqlglot.tokenize(text, dialect=DIALECT)
    except (SqlglotError, ValueError):
        return None


def has_substitution(text: str) -> bool:
    """Return whether Spark may replace a part of a text, also of a string in it, before it parses the text: `${name}` by a setting."""
    return "${" in text


def parse(text: str) -> exp.Expr | None:
    """Return the syntax tree of an expression, or None if sqlglot cannot parse the whole text as one expression, as Spark does."""
    if _CONTINUED_COMMENT.search(text) or any(token.token_type is TokenType.SEMICOLON for token in tokens_of(text) or ()):
        return None
    try:
        with _quietly():
            return sqlglot.parse_one(text, dialect=DIALECT, into=exp.Condition)
    except (SqlglotError, RecursionError, ValueError):
        return None


def references(tree: exp.Expr, text: str) -> list[Reference] | None:
    """Return the column references of a tree parsed from `text`, in no particular order.

    Lambda variables and the names in `* EXCEPT (…)` are left out. Return None if the position of a reference in the text is uncertain.

    Args:
        tree: The tree of an expression, or of an operand in the expression.
        text: The text of the whole expression, to which the positions in the tree refer.
    """
    column_references = [_reference(column, text, in_query) for column, in_query in _columns_with_scope(tree)]
    return None if None in column_references else [reference for reference in column_references if reference is not None]


def _columns_with_scope(tree: exp.Expr) -> Iterator[tuple[exp.Column, bool]]:
    """Yield each column of a tree, and whether the column is in a subquery."""
    nodes: list[tuple[exp.Expr, bool, frozenset[str]]] = [(tree, False, frozenset())]
    while nodes:
        node, in_query, lambda_parameters = nodes.pop()
        if isinstance(node, exp.Star):  # its child nodes are the names in `* EXCEPT (…)`
            continue
        # sqlglot itself distinguishes lambda parameters from columns only if their case is the same.
        if isinstance(node, exp.Column) and node.parts[0].name.lower() not in lambda_parameters:
            yield node, in_query
        in_query = in_query or isinstance(node, _QUERIES)
        if isinstance(node, exp.Lambda):
            lambda_parameters |= {parameter.name.lower() for parameter in node.expressions}
        nodes += [(child, in_query, lambda_parameters) for child in node.iter_expressions()]


def mentions(text: str, path: Sequence[str]) -> bool:
    """Return whether an expression uses a column or field, a struct that contains it, or a field inside it.

    If the columns of the expression are uncertain, every token with the column's name counts as a use.

    Args:
        text: The SQL text of the expression.
        path: The name of a column, followed by the names of nested fields. Case is ignored.
    """
    tree = parse(text)
    column_references = None if tree is None else references(tree, text)
    if column_references is None:
        return any(token.text.lower() == path[0].lower() for token in tokens_of(text) or ())
    return any(_overlap(reference.parts, path) for reference in column_references)


def _overlap(name: Sequence[str], path: Sequence[str]) -> bool:
    """Return whether one dotted name begins with the other: `s.a` overlaps `s` and `s.a.b`, but not `s.b`. Case is ignored."""
    # `zip` ends with the shorter name.
    return all(part.lower() == other_part.lower() for part, other_part in zip(name, path, strict=False))


def rewrite(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Apply edits to SQL text, and return the result.

    Args:
        text: The text to edit.
        edits: The start and end offsets of each replaced half-open range, and the replacement. Ranges must not overlap.
    """
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def with_replacements(text: str, replacements: Mapping[str, str]) -> str:
    """Return a text in which each occurrence of some strings is replaced.

    Args:
        text: The text.
        replacements: The new strings by the replaced ones. No replaced string may occur in another one or in a new string.
    """
    for replaced, replacement in replacements.items():
        text = text.replace(replaced, replacement)
    return text


def has_query(tree: exp.Expr) -> bool:
    """Return whether an expression contains a subquery."""
    return tree.find(*_QUERIES) is not None


def has_column_outside_tree(text: str, tokens: Sequence[Token], tree_references: Iterable[Reference], columns: Iterable[str]) -> bool:
    """Return whether an expression may use one of these columns where sqlglot's tree has no column node.

    sqlglot parses `unit` in `trunc(d, unit)` as a keyword, but Spark reads the column `unit` if the table has one. `"a"` is a string to
    sqlglot, but a column to Spark with spark.sql.ansi.doubleQuotedIdentifiers. If the result is true, sqlglot's tree may have another
    meaning than the expression, so the caller must not analyse the expression with the tree.

    Args:
        text: The SQL text of the expression.
        tokens: The tokens of the whole text, or of an operand in the text.
        tree_references: The references of the column nodes in sqlglot's tree.
        columns: The names of the columns. Case is ignored.
    """
    lower_columns = {column.lower() for column in columns}
    starts_in_column_nodes = {start for reference in tree_references for start in reference.starts}
    tokens_outside = [(index, token) for index, token in enumerate(tokens) if token.start not in starts_in_column_nodes]
    return any(token.text.lower() in lower_columns and _may_be_column_name(text, tokens, index) for index, token in tokens_outside)


def may_hide_column(tree: exp.Expr, text: str, tree_references: Sequence[Reference], columns: Iterable[str]) -> bool:
    """Return whether an expression may use columns that the references of its tree do not contain.

    These are the columns of `has_column_outside_tree`, of stars and of `IDENTIFIER('a')`. A column can also have the name of a function
    without parentheses, such as `current_date`. sqlglot then sees the function, and Spark the column.

    Args:
        tree: The tree of the whole text.
        text: The SQL text of the expression.
        tree_references: The references of the tree.
        columns: The names of the columns that the expression can use. Case is ignored.
    """
    tokens, names = tokens_of(text), {column.lower() for column in columns}
    if tokens is None or tree.find(exp.Star):
        return True
    starts = {start for reference in tree_references for start in reference.starts}
    other_words = {token.text.lower() for token in tokens if token.start not in starts}
    if other_words & ({"identifier"} | _CALLED_WITHOUT_PARENTHESES & names):
        return True
    return has_column_outside_tree(text, tokens, tree_references, names)


def _may_be_column_name(text: str, tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token can be the name of a column, rather than a string, a keyword, a function or a unit of time.

    Text in double quotes can be a name, because a Spark setting decides whether it is a string.
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
    """Suppress sqlglot's warnings, because Spark validates the expressions that sqlglot does not understand."""
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
    """Return the reference for a column and the fields read from it, or None if the column's position in the text is uncertain."""
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
    """Return the identifiers of a column's name and of the fields that dots select from the column."""
    identifiers: list[exp.Expr] = list(column.parts)
    node: exp.Expr = column
    while isinstance(node.parent, exp.Dot) and node.parent.this is node and isinstance(node.parent.expression, exp.Identifier):
        node = node.parent
        identifiers.append(node.expression)
    return identifiers


def _span(identifier: exp.Expr, text: str, previous_end: int | None) -> tuple[int, int] | None:
    """Return the half-open offsets of a name in the text, or None if the text has another name at that position."""
    start, last = identifier.meta.get("start"), identifier.meta.get("end")
    if isinstance(identifier, exp.Star) and previous_end is not None:
        start = last = text.find("*", previous_end)
    if not isinstance(identifier, exp.Identifier | exp.Star) or start is None or last is None:
        return None
    return (start, last + 1) if _unquoted(text[start : last + 1]) == identifier.name else None


def _unquoted(identifier: str) -> str:
    """Return the name of an identifier without the backquotes that may surround it."""
    if len(identifier) > 1 and identifier[0] == identifier[-1] == "`":
        return identifier[1:-1].replace("``", "`")
    return identifier
