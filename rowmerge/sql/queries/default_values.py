"""The positions of the keyword DEFAULT, which stands for the default of a column, in an INSERT's query."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, Kind, tokenize
from rowmerge.sql.queries.function_calls import Edit, apply_edits


class DefaultKeyword(NamedTuple):
    """One DEFAULT in a query: its half-open offsets in the text, and the position of its column, counted from 0."""

    position: int
    start: int
    end: int


@dataclass(frozen=True)
class Defaults:
    """The DEFAULT keywords in a query, and the number of rows in the query's VALUES list. A SELECT counts as one row."""

    keywords: tuple[DefaultKeyword, ...]
    rows: int

    def is_default_in_all_rows(self, position: int) -> bool:
        """Return whether all rows have DEFAULT in the column at a position, counted from 0."""
        return sum(1 for keyword in self.keywords if keyword.position == position) == self.rows

    def filled(self, text: str, value: Callable[[int], str]) -> str:
        """Return the query with each DEFAULT replaced.

        Args:
            text: The text of the query that contains the DEFAULT keywords.
            value: A function that returns the SQL text of a column's default. Its argument is the column's position, counted from 0.
        """
        return apply_edits(text, [Edit(keyword.start, keyword.end, value(keyword.position)) for keyword in self.keywords])


def find_defaults(query: str) -> Defaults:
    """Return the DEFAULT keywords that are a whole value in `VALUES (…), (…)` or in an outermost SELECT list, as in Spark."""
    cursor = Cursor(tokenize(query))
    if cursor.accept("SELECT"):
        return Defaults(tuple(_find_in_values(cursor)), rows=1)
    places: list[DefaultKeyword] = []
    rows = 0
    while cursor.accept("," if rows else "VALUES") and not cursor.at_end:
        places += _find_in_row(cursor)
        rows += 1
    return Defaults(tuple(places), rows)


def _find_in_row(cursor: Cursor) -> list[DefaultKeyword]:
    """Step over a row, either `(value, …)` or the value of a single column, and return the row's DEFAULT keywords."""
    if not cursor.accept("("):
        return _find_in_value(cursor, 0)
    places = _find_in_values(cursor)
    cursor.accept(")")
    return places


def _find_in_values(cursor: Cursor) -> list[DefaultKeyword]:
    """Step over `value, …`, and return the DEFAULT keywords among the values."""
    columns = itertools.count()
    values = cursor.comma_separated(lambda: _find_in_value(cursor, next(columns)))
    return [place for places in values for place in places]


def _find_in_value(cursor: Cursor, column: int) -> list[DefaultKeyword]:
    """Step over one value. Return a list with the keyword if the value is DEFAULT, otherwise an empty list."""
    token, following = cursor.token(), cursor.token(1)
    is_default = token.key == "DEFAULT" and (following.kind is Kind.END or following.key in (",", ")", "AS", "FROM"))
    while not cursor.at_end and cursor.key() != "," and cursor.key() not in CLOSING.values():
        cursor.skip_token_or_group()
    return [DefaultKeyword(column, token.start, token.end)] if is_default else []
