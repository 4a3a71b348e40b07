"""The base class of all errors, and functions for their messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

ADVICE_ON_ENDED_CREDENTIALS = (
    "The credentials have ended. Run the statement again with new ones, which must live longer than its longest job."
)
_ENDED = re.compile("credentials .{0,40}have ended|Expired_?Token|TokenRefreshRequired|Signature not valid in the specified time frame")


class RowmergeError(Exception):
    """Raised when the engine rejects or cannot complete a statement: the base class of all its errors.

    Remedy: Follow the last sentence of the message, which says what to do.

    `message` is the complete message for people. Subclasses add the fields that a program needs.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def reports_ended_credentials(message: str) -> bool:
    """Return whether the message of an error says that the credentials of a store have ended."""
    return bool(_ENDED.search(message))


def suggest_names(name: str, candidates: Sequence[str], most_others: int = 12) -> str:
    """Return a sentence with up to three candidates that resemble `name`. If none does, it has the first `most_others` candidates.

    Without candidates, return an empty string.

    Args:
        name: The unknown name in the statement.
        candidates: The existing names of the same kind, such as the columns of a table.
        most_others: The maximum number of candidates in the sentence if none resembles the name.
    """
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    similar_names = [by_lower[match] for match in get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)]
    if similar_names:
        return f"Did you mean {' or '.join(f'`{similar}`' for similar in similar_names)}?"
    if candidates:
        more = " and others" if len(candidates) > most_others else ""
        return f"There are: {', '.join(f'`{c}`' for c in candidates[:most_others])}{more}."
    return ""


_SHOWN_CHARACTERS = 100
"""The number of characters that are shown on either side of an error's position in a long line."""


def mark_position(text: str, line: int, column: int) -> str:
    """Return a line of a statement with a caret below one column, to end an error message.

    Args:
        text: The text of a statement.
        line: The number of the line, from 1.
        column: The number of the column, from 1.

    Returns:
        Two lines, each after a line break, or an empty string if the text has no such line. A long line is shortened.
    """
    lines = text.split("\n")
    if not text or not 1 <= line <= len(lines):
        return ""
    full_line, index = lines[line - 1].rstrip("\r"), column - 1
    start, end = max(index - _SHOWN_CHARACTERS, 0), index + _SHOWN_CHARACTERS
    prefix, suffix = "…" if start > 0 else "", "…" if end < len(full_line) else ""
    excerpt = f"{prefix}{full_line[start:end]}{suffix}"
    caret_offset = len(prefix) + index - start
    # A tab stays a tab, so that the caret is below its character.
    indent = "".join("\t" if character == "\t" else " " for character in excerpt[:caret_offset])
    return f"\n  {excerpt}\n  {indent.ljust(caret_offset)}^"
