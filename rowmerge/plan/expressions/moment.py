"""The present of a statement: rules that ask for the time get one and the same, however many jobs and attempts the statement takes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlglot import Token, TokenType

from rowmerge.plan.expressions.column_refs import rewrite, tokens_of
from rowmerge.table.metadata.rules import Rules

_NOW = "timestamp_micros({})"
_TODAY = "cast(timestamp_micros({}) as date)"
_LOCAL = "cast(timestamp_micros({}) as timestamp_ntz)"
_FUNCTIONS = {"current_timestamp": _NOW, "now": _NOW, "current_date": _TODAY, "curdate": _TODAY, "localtimestamp": _LOCAL}
_WITHOUT_BRACKETS = frozenset({"current_timestamp", "current_date", "localtimestamp"})


def rules_at(rules: Rules, microseconds: int, columns: Collection[str]) -> Rules:
    """The rules as they are at a moment (microseconds since the epoch), for a table of these columns."""
    checks = tuple(replace(check, expression=at_moment(check.expression, microseconds, columns)) for check in rules.checks)
    defaults = {name: at_moment(text, microseconds) for name, text in rules.defaults.items()}
    return replace(rules, checks=checks, defaults=defaults)


def at_moment(text: str, microseconds: int, columns: Collection[str] = ()) -> str:
    """An expression with `current_timestamp()` and its kin replaced by what they are at a moment; days are those of the session's zone.

    Without brackets such a word may be one of these columns.
    """
    if not any(name in text.lower() for name in _FUNCTIONS):
        return text
    named = {column.lower() for column in columns}
    listed = [None, *(tokens_of(text) or []), None, None]
    edits = []
    for before, token, opening, closing in zip(listed, listed[1:], listed[2:], listed[3:], strict=False):
        if token is None or not _is_word(token, text) or (before is not None and before.token_type is TokenType.DOT):
            continue
        word, end = token.text.lower(), token.end
        if opening is not None and opening.token_type is TokenType.L_PAREN:
            if closing is None or closing.token_type is not TokenType.R_PAREN:
                continue
            end = closing.end
        elif word not in _WITHOUT_BRACKETS or word in named:
            continue
        edits.append((token.start, end + 1, _FUNCTIONS[word].format(microseconds)))
    return rewrite(text, edits)


def _is_word(token: Token, text: str) -> bool:
    return token.token_type is not TokenType.STRING and text[token.start] != "`" and token.text.lower() in _FUNCTIONS
