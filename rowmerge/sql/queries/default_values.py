"""Where an INSERT's query says DEFAULT instead of a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, Kind, tokenize
from rowmerge.sql.queries.function_calls import edited


@dataclass(frozen=True)
class Defaults:
    """The DEFAULTs of a query: (position of the column from 0, start, end) of each in the text, and how many rows spell values out."""

    places: tuple[tuple[int, int, int], ...]
    rows: int

    def everywhere(self, column: int) -> bool:
        """Whether all rows say DEFAULT for this column."""
        return sum(1 for position, _, _ in self.places if position == column) == self.rows

    def filled(self, text: str, value: Callable[[int], str]) -> str:
        """The query with the value of the column at its position in the place of each DEFAULT."""
        return edited(text, [(start, end, value(position)) for position, start, end in self.places])


def find_defaults(query: str) -> Defaults:
    """The DEFAULTs that stand for a whole value in `VALUES (…), (…)` and in the list of an outermost `SELECT …`, as Spark takes them."""
    cursor = Cursor(tokenize(query))
    places: list[tuple[int, int, int]] = []
    rows = 0
    if cursor.accept("VALUES"):
        while not cursor.ended:
            _row(cursor, places)
            rows += 1
            if not cursor.accept(","):
                break
    elif cursor.accept("SELECT"):
        rows = 1
        _items(cursor, places)
    return Defaults(tuple(places), rows)


def _row(cursor: Cursor, places: list[tuple[int, int, int]]) -> None:
    if cursor.accept("("):
        _items(cursor, places)
        cursor.accept(")")
    else:
        _item(cursor, 0, places)


def _items(cursor: Cursor, places: list[tuple[int, int, int]]) -> None:
    position = 0
    _item(cursor, position, places)
    while cursor.accept(","):
        position += 1
        _item(cursor, position, places)


def _item(cursor: Cursor, position: int, places: list[tuple[int, int, int]]) -> None:
    token = cursor.token()
    if (
        token.kind is Kind.WORD
        and token.key == "DEFAULT"
        and (cursor.key(1) in (",", ")", "AS", "FROM") or cursor.token(1).kind is Kind.END)
    ):
        places.append((position, token.start, token.end))
    while not cursor.ended and cursor.key() != "," and cursor.key() not in CLOSING.values():
        if cursor.key() in CLOSING:
            cursor.skip_group()
        else:
            cursor.at += 1
