"""The hint `/*+ IDEMPOTENCY_KEY('…') */` behind the first word of a statement, or before it."""

from __future__ import annotations

import re

from rowmerge.errors import Unparsable
from rowmerge.sql.lexing.lexer import HINT, Kind, after_space, position, string_value, tokenize

_NAME = "IDEMPOTENCY_KEY"
_ANYWHERE = re.compile(rf"/\*\+[^*]*\b{_NAME}\b", re.IGNORECASE)
_WORD = re.compile(r"\w*")


def idempotency_key(text: str) -> str | tuple[str, int] | None:
    """The key in a statement's hint: `IDEMPOTENCY_KEY('key')`, or `IDEMPOTENCY_KEY('application', 7)`; None without one.

    Other hints are Spark's. Raises Unparsable for one that is written in another way, or in another place.
    """
    anywhere = _ANYWHERE.search(text)
    if anywhere is None:
        return None
    start = _leading_hint(text)
    end = text.find("*/", anywhere.end())
    if start != anywhere.start() or end < 0:
        raise _wrong(text, anywhere.start(), f"{_NAME} stands in a hint behind the first word of the statement, and nowhere else")
    inside = start + len(HINT)
    tokens = tokenize(text[inside:end])
    if _NAME not in tokens.keys:
        return None  # a text in another hint
    at = tokens.keys.index(_NAME)
    kinds = [(token.key or token.kind) for token in tokens[at + 1 : at + 6]]
    if kinds[:3] == ["(", Kind.STRING, ")"]:
        return string_value(tokens[at + 2].text)
    if kinds == ["(", Kind.STRING, ",", Kind.NUMBER, ")"] and tokens[at + 4].text.isdigit():
        return string_value(tokens[at + 2].text), int(tokens[at + 4].text)
    reason = f"{_NAME} takes a text in quotes, and after it a whole number if you like. Write {_NAME}('my key')"
    raise _wrong(text, inside + tokens[at].start, reason)


def _leading_hint(text: str) -> int:
    """The offset of what stands before the first word, or else behind it, space and comments left out."""
    start = after_space(text, over_hints=False)
    word = _WORD.match(text, start)
    return start if word is None or not word.group() else after_space(text, word.end(), over_hints=False)


def _wrong(text: str, offset: int, reason: str) -> Unparsable:
    line, column = position(text, offset)
    return Unparsable(reason, text=text, line=line, column=column)
