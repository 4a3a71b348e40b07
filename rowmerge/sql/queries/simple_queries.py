"""Recognition of queries that metadata may answer: counts, minima, maxima, distinct columns or a limited number of rows of one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rowmerge.errors import RowmergeError
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import alias_follows
from rowmerge.sql.lexing.lexer import Kind, has_double_quotes, skip_space, tokenize

COUNT, MIN, MAX = "COUNT", "MIN", "MAX"
_AGGREGATES = (COUNT, MIN, MAX)
_LONGEST_TEXT = 1_000
"""The maximum length of the text in characters. The search in a longer text would take too long."""
_NAME = r"(?:\w+|`(?:[^`]|``)+`)"
_COLUMN = rf"{_NAME}(?:\s*\.\s*{_NAME}){{0,3}}"
_ITEM = rf"(?:(?:count|min|max)\s*\(\s*(?:\*|'[^'\\]*'|{_COLUMN})\s*\)|\*|{_COLUMN}(?:\s*\.\s*\*)?)(?:\s+(?:as\s+)?{_NAME})?"
_SELECT_LIST = re.compile(rf"select\s+(?:distinct\s+)?{_ITEM}(?:\s*,\s*{_ITEM}){{0,19}}\s+from\s", re.IGNORECASE)
_REQUIRED = re.compile(r"\b(?:count|min|max|distinct|group|limit)\b", re.IGNORECASE)
_REFUSED = re.compile(r"\b(?:join|union|having|over|exists)\b|\(\s*(?:select|with|from)\b", re.IGNORECASE)
"""Patterns that reject most other queries without dividing them into tokens."""
_OTHER_CLAUSES = frozenset(
    """SELECT FROM HAVING WINDOW QUALIFY UNION EXCEPT MINUS INTERSECT SETMINUS SORT CLUSTER DISTRIBUTE LATERAL OFFSET JOIN |>""".split()
)
"""Words after the table that only queries of another kind contain. A column with such a name is not recognized either."""


@dataclass(frozen=True)
class ResultColumn:
    """One column of the result.

    `function`: COUNT, MIN, MAX, or an empty string for a column of the table. `column`: the parts of its name, `("*",)` for all columns, or
    None for `count(*)` and for `count` of a literal that is not NULL. `name`: the name of the result column, or an empty string for a call
    without an alias, which Spark names.
    """

    function: str
    column: tuple[str, ...] | None
    name: str

    @property
    def is_star(self) -> bool:
        return self.column is not None and self.column[-1] == "*"


@dataclass(frozen=True)
class SortKey:
    """One expression of ORDER BY. `index`: the index of the result column."""

    index: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class SimpleQuery:
    """`SELECT [DISTINCT] … FROM table [WHERE …] [GROUP BY …] [ORDER BY …] [LIMIT n]` with columns, COUNT, MIN and MAX only.

    `table`: the name of the table, which has no schema. `alias`: its alias, or None. `condition`: the text after WHERE, or None.
    `keys`: the columns of GROUP BY, or all columns of the result after DISTINCT. `is_grouped`: whether the result has one row for each key.
    """

    columns: tuple[ResultColumn, ...]
    table: str
    alias: str | None
    condition: str | None
    keys: tuple[tuple[str, ...], ...]
    is_grouped: bool
    order: tuple[SortKey, ...]
    limit: int | None

    @property
    def has_aggregates(self) -> bool:
        """Return whether a result column is COUNT, MIN or MAX."""
        return any(column.function for column in self.columns)


def parse_simple_query(text: str) -> SimpleQuery | None:
    """Parse a query of this kind. Return None for any other statement, and for text that Spark or the engine will refuse."""
    try:
        # dbt can put a comment with double quotes before the query.
        text = text[skip_space(text) :]
        if len(text) > _LONGEST_TEXT or _REQUIRED.search(text) is None or _REFUSED.search(text):
            return None
        if _SELECT_LIST.match(text) is None or has_double_quotes(text):
            return None
        cursor = Cursor(tokenize(text))
        query = _parse_query(cursor)
    except RowmergeError:
        return None
    return query if query is not None and cursor.at_end and _is_supported(query) else None


def _is_supported(query: SimpleQuery) -> bool:
    """Return whether all columns outside of COUNT, MIN and MAX are keys, or the query only limits the number of rows."""
    if query.is_grouped:
        return not any(column.is_star for column in query.columns)
    if query.has_aggregates:
        return all(column.function for column in query.columns)
    return query.limit is not None and not query.order


def _parse_query(cursor: Cursor) -> SimpleQuery | None:
    """Parse the clauses of a query in their order. Return None, or stop before the end, if the query is of another kind."""
    cursor.expect("SELECT")
    is_distinct = cursor.accept("DISTINCT")
    columns = cursor.comma_separated(lambda: _parse_result_column(cursor))
    cursor.expect("FROM")
    table = cursor.identifier("a table")
    if is_distinct and any(column.function for column in columns):
        return None
    alias = _parse_table_alias(cursor)
    condition = _parse_condition(cursor) if cursor.accept("WHERE") else None
    keys = tuple(column.column or () for column in columns) if is_distinct else _parse_keys(cursor)
    order = _parse_order(cursor, columns)
    limit = cursor.integer("a number of rows") if cursor.accept("LIMIT") else None
    return SimpleQuery(columns, table, alias, condition, keys, bool(keys), order, limit)


def _parse_result_column(cursor: Cursor) -> ResultColumn:
    """Read a column, a star, or a call of COUNT, MIN or MAX, with its alias."""
    function = cursor.key() if cursor.key() in _AGGREGATES and cursor.key(1) == "(" else ""
    if not function:
        column = _parse_column(cursor)
        return ResultColumn("", column, _parse_alias(cursor) or column[-1])
    cursor.index += 2
    argument = _parse_count_argument(cursor) if function == COUNT else _parse_column(cursor)
    cursor.expect(")")
    return ResultColumn(function, argument, _parse_alias(cursor) or "")


def _parse_count_argument(cursor: Cursor) -> tuple[str, ...] | None:
    """Read the argument of COUNT. Return None for a star and for a literal, which all count rows."""
    if cursor.accept("*"):
        return None
    if cursor.token().kind in (Kind.NUMBER, Kind.STRING):
        cursor.index += 1
        return None
    return _parse_column(cursor)


def _parse_column(cursor: Cursor) -> tuple[str, ...]:
    """Read the dotted name of a column, or a star with or without a qualifier. Raise Unparsable for words that are not names."""
    parts: list[str] = []
    while True:
        if cursor.accept("*"):
            return (*parts, "*")
        if not parts and cursor.key() in ("NULL", "TRUE", "FALSE", "DISTINCT", "ALL"):
            raise cursor.expected("a column")
        parts.append(cursor.identifier("a column"))
        if not cursor.accept("."):
            return tuple(parts)


def _parse_alias(cursor: Cursor) -> str:
    """Read the alias of a result column, or return an empty string if there is none."""
    if cursor.accept("AS") or (cursor.token().is_name and cursor.key() != "FROM"):
        return cursor.identifier("an alias")
    return ""


def _parse_table_alias(cursor: Cursor) -> str | None:
    """Read the alias of the table, or return None if there is none."""
    if not alias_follows(cursor):
        return None
    cursor.accept("AS")
    return cursor.identifier("an alias")


def _parse_condition(cursor: Cursor) -> str:
    """Read the condition after WHERE, up to GROUP BY, ORDER BY, LIMIT or the end. Raise Unparsable if it contains another clause."""
    start = cursor.index
    while not cursor.at_end and not cursor.next_is("LIMIT") and not (cursor.key() in ("GROUP", "ORDER") and cursor.key(1) == "BY"):
        if cursor.key() in _OTHER_CLAUSES:
            raise cursor.expected("a condition")
        cursor.skip_token_or_group()
    return cursor.text_from(start).text


def _parse_keys(cursor: Cursor) -> tuple[tuple[str, ...], ...]:
    """Read GROUP BY and return the names of its columns. Return an empty tuple if there is none."""
    if not cursor.accept("GROUP", "BY"):
        return ()
    return cursor.comma_separated(lambda: _parse_column(cursor))


def _parse_order(cursor: Cursor, columns: Sequence[ResultColumn]) -> tuple[SortKey, ...]:
    """Read ORDER BY with names of result columns. Return an empty tuple if there is none."""
    return cursor.comma_separated(lambda: _parse_sort_key(cursor, columns)) if cursor.accept("ORDER", "BY") else ()


def _parse_sort_key(cursor: Cursor, columns: Sequence[ResultColumn]) -> SortKey:
    """Read a sort key. Raise Unparsable unless it is the name of exactly one result column.

    Spark may compare names with regard to case. So a name in another case is not recognized.
    """
    name = cursor.identifier("the name of a result column")
    indexes = [index for index, column in enumerate(columns) if column.name.lower() == name.lower()]
    if len(indexes) != 1 or columns[indexes[0]].name != name:
        raise cursor.expected("the name of a result column")
    descending = cursor.accept_any("ASC", "DESC") == "DESC"
    # NULL is the least value, so it is first in ascending order.
    nulls_first = cursor.expect_any("FIRST or LAST") == "FIRST" if cursor.accept("NULLS") else not descending
    return SortKey(indexes[0], descending, nulls_first)
