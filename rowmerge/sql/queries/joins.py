"""The words of joins in a FROM clause."""

from __future__ import annotations

from rowmerge.sql.lexing.cursor import Cursor

_JOIN_KINDS = {
    ("LEFT", "SEMI"): "SEMI",
    ("LEFT", "ANTI"): "ANTI",
    ("LEFT", "OUTER"): "LEFT",
    ("RIGHT", "OUTER"): "RIGHT",
    ("FULL", "OUTER"): "FULL",
    ("INNER",): "INNER",
    ("CROSS",): "INNER",
    ("LEFT",): "LEFT",
    ("RIGHT",): "RIGHT",
    ("FULL",): "FULL",
    ("SEMI",): "SEMI",
    ("ANTI",): "ANTI",
    (): "INNER",
}
"""The kind of a join by the words before JOIN."""
_BEFORE_JOIN = frozenset(word for words in _JOIN_KINDS for word in words) | {"NATURAL"}


def accept_join(cursor: Cursor) -> tuple[str, bool] | None:
    """Step over the words of a join. Return its kind and whether it is natural, or None if no join comes next."""
    start = cursor.index
    is_natural = cursor.accept("NATURAL")
    for words, kind in _JOIN_KINDS.items():
        if cursor.accept(*words, "JOIN"):
            return kind, is_natural
    cursor.index = start
    return None


def begins_join(cursor: Cursor) -> bool:
    """Return whether a join begins at the cursor. `left(s, 2)` is a call."""
    index, keys = cursor.index, cursor.tokens.keys
    while keys[index] in _BEFORE_JOIN:
        index += 1
    return keys[index] == "JOIN"
