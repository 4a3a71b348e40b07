"""The hint `/*+ IDEMPOTENCY_KEY('…') */` before or after the first word of a statement."""

from __future__ import annotations

import re

from rowmerge.sql.lexing.lexer import HINT, Kind, Token, skip_space, string_value, tokenize, unparsable

_HINT_NAME = "IDEMPOTENCY_KEY"
_NAME_IN_HINT = re.compile(rf"/\*\+[^*]*\b{_HINT_NAME}\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")


def idempotency_key(text: str) -> str | tuple[str, int] | None:
    """Return the idempotency key in the hint of a statement. A table commits a statement with the same key only once.

    Returns:
        The key in `IDEMPOTENCY_KEY('key')`, the application and version in `IDEMPOTENCY_KEY('app', 7)`, or None if there is no such hint.

    Raises:
        Unparsable: The hint has another form, or does not follow the first word of the statement.
    """
    name_in_hint = _NAME_IN_HINT.search(text)
    if name_in_hint is None:
        return None
    hint_start, hint_end = _leading_hint_offset(text), text.find("*/", name_in_hint.end())
    if hint_start != name_in_hint.start() or hint_end < 0:
        reason = f"{_HINT_NAME} is allowed only in a hint directly before or after the first word of the statement"
        raise unparsable(text, name_in_hint.start(), reason)
    return _parse_hint(text, hint_start + len(HINT), hint_end)


def _parse_hint(text: str, start: int, end: int) -> str | tuple[str, int] | None:
    """Return the idempotency key in a hint: a string, or an application and a version, as in Delta's transaction identifiers.

    `start` and `end` are the offsets of the text between `/*+` and `*/`. Return None if the hint has no IDEMPOTENCY_KEY. Raise Unparsable
    if its arguments are not `('key')` or `('app', 7)`.
    """
    tokens = tokenize(text[start:end])
    if _HINT_NAME not in tokens.keys:  # the word is only in a string, as in `HINT('idempotency_key')`
        return None
    name_index = tokens.keys.index(_HINT_NAME)  # `tokens.keys` contains words in upper case
    match tokens[name_index + 1 :]:
        # `*_`: other hints and the END token can follow.
        case [Token(key="("), Token(Kind.STRING, idempotency_text), Token(key=")"), *_]:
            return string_value(idempotency_text)
        case [Token(key="("), Token(Kind.STRING, app), Token(key=","), Token(Kind.NUMBER, number), Token(key=")"), *_] if number.isdigit():
            return string_value(app), int(number)
    reason = f"{_HINT_NAME} takes a string, optionally followed by a whole number. Write {_HINT_NAME}('my key')"
    raise unparsable(text, start + tokens.starts[name_index], reason)


def _leading_hint_offset(text: str) -> int:
    """Return the offset of a hint that precedes the statement or, if there is none, the offset of the text after the first word."""
    start = skip_space(text, over_hints=False)
    word = _WORD.match(text, start)
    return start if word is None else skip_space(text, word.end(), over_hints=False)
