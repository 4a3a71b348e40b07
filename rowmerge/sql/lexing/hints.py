"""The hint `/*+ IDEMPOTENCY_KEY('…') */` behind the first word of a statement, or before it."""

from __future__ import annotations

import re

from rowmerge.sql.lexing.lexer import HINT, Kind, Token, skip_space, string_value, tokenize, unparsable

_NAME = "IDEMPOTENCY_KEY"
_NAME_IN_HINT = re.compile(rf"/\*\+[^*]*\b{_NAME}\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")


def idempotency_key(text: str) -> str | tuple[str, int] | None:
    """Return the key in `IDEMPOTENCY_KEY('key')` or `IDEMPOTENCY_KEY('app', 7)`, or None. Raise Unparsable for a wrong place or form."""
    name_in_hint = _NAME_IN_HINT.search(text)
    if name_in_hint is None:
        return None
    hint_start, hint_end = _leading_hint_offset(text), text.find("*/", name_in_hint.end())
    if hint_start != name_in_hint.start() or hint_end < 0:
        reason = f"{_NAME} stands in a hint behind the first word of the statement, and nowhere else"
        raise unparsable(text, name_in_hint.start(), reason)
    return _parse_hint(text, hint_start + len(HINT), hint_end)


def _parse_hint(text: str, start: int, end: int) -> str | tuple[str, int] | None:
    """Return the key in the text of a hint between two offsets, or None if only a string in the hint mentions IDEMPOTENCY_KEY."""
    tokens = tokenize(text[start:end])
    if _NAME not in tokens.keys:
        return None
    index = tokens.keys.index(_NAME)
    arguments = tokens[index + 1 : index + 6]  # with the parentheses and the comma
    match arguments:
        case [Token(key="("), Token(Kind.STRING, key), Token(key=")"), *_]:
            return string_value(key)
        case [Token(key="("), Token(Kind.STRING, app), Token(key=","), Token(Kind.NUMBER, version), Token(key=")")]:
            if version.isdigit():
                return string_value(app), int(version)
    reason = f"{_NAME} takes a text in quotes, and after it a whole number if you like. Write {_NAME}('my key')"
    raise unparsable(text, start + tokens.starts[index], reason)


def _leading_hint_offset(text: str) -> int:
    """Return the offset of the first text that is neither space nor comment, or of the one after it if it is a word."""
    start = skip_space(text, over_hints=False)
    word = _WORD.match(text, start)
    return start if word is None else skip_space(text, word.end(), over_hints=False)
