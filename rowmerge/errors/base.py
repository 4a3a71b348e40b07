"""The base class of all errors, and parts of their messages."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


class RowmergeError(Exception):
    """Raised when the engine rejects or cannot complete a statement: the base class of all its errors.

    Remedy: Follow the last sentence of the message, which says what to do.

    `message` is the whole text for a person. Subclasses add the fields that a program needs.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def suggest_names(name: str, candidates: Sequence[str]) -> str:
    """Return a sentence with up to three candidates that resemble `name`, else with the first twelve; empty without candidates."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    similar_names = [by_lower[match] for match in get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)]
    if similar_names:
        return f"Did you mean {' or '.join(f'`{similar}`' for similar in similar_names)}?"
    if candidates:
        more = ", …" if len(candidates) > 12 else ""
        return f"There are: {', '.join(f'`{c}`' for c in candidates[:12])}{more}."
    return ""


_SHOWN = 100
"""Characters of a long line that are shown on either side of the place that an error points to."""


def mark_position(text: str, line: int, column: int) -> str:
    """Return the line of a text with a caret below the column, both counted from 1; empty if the text has no such line."""
    lines = text.split("\n")
    if not text or not 1 <= line <= len(lines):
        return ""
    whole = lines[line - 1].rstrip("\r")
    start, end = max(column - 1 - _SHOWN, 0), column - 1 + _SHOWN
    shown = f"{'…' if start else ''}{whole[start:end]}{'…' if end < len(whole) else ''}"
    before = "".join("\t" if character == "\t" else " " for character in shown[: column - 1 - start + bool(start)])
    return f"\n  {shown}\n  {before.ljust(column - 1 - start + bool(start))}^"
