"""The hint `/*+ IDEMPOTENCY_KEY('…') */` behind the first word of a statement, or before it."""

from __future__ import annotations

import re

from rowmerge.errors import Unparsable
from rowmerge.sql.lexer import Kind, position, string_value, tokenize

_NAME = "IDEMPOTENCY_KEY"
_BETWEEN = r"(?: \s | --(?:\\\n|[^\r\n])* | /\*(?!\+).*?\*/ )*"
_LEADING = re.compile(rf"{_BETWEEN} (?: \w+ {_BETWEEN} )? /\*\+ (?P<hints>.*?) \*/", re.VERBOSE | re.DOTALL)
_ANYWHERE = re.compile(rf"/\*\+[^*]*\b{_NAME}\b", re.IGNORECASE)


def idempotency_key(text: str) -> str | tuple[str, int] | None:
    """The key in a statement's hint: `IDEMPOTENCY_KEY('key')`, or `IDEMPOTENCY_KEY('application', 7)`; None without one.

    Other hints are Spark's. Raises Unparsable for one that is written in another way, or in another place.
    """
    anywhere = _ANYWHERE.search(text)
    if anywhere is None:
        return None
    leading = _LEADING.match(text)
    if leading is None or leading.start("hints") != anywhere.start() + len("/*+"):
        raise _wrong(text, anywhere.start(), f"{_NAME} stands in a hint behind the first word of the statement, and nowhere else")
    tokens = tokenize(leading["hints"])
    at = next(index for index, token in enumerate(tokens) if token.key == _NAME)
    kinds = [(token.key or token.kind) for token in tokens[at + 1 : at + 6]]
    if kinds[:3] == ["(", Kind.STRING, ")"]:
        return string_value(tokens[at + 2].text)
    if kinds == ["(", Kind.STRING, ",", Kind.NUMBER, ")"] and tokens[at + 4].text.isdigit():
        return string_value(tokens[at + 2].text), int(tokens[at + 4].text)
    reason = f"{_NAME} takes a text in quotes, and after it a whole number if you like. Write {_NAME}('my key')"
    raise _wrong(text, leading.start("hints") + tokens[at].start, reason)


def _wrong(text: str, offset: int, reason: str) -> Unparsable:
    line, column = position(text, offset)
    return Unparsable(reason, text=text, line=line, column=column)
