"""Fix the time of a statement: all rules that ask for it get the same, however many jobs and attempts the statement takes."""

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
    """Return the rules as they are at a moment (microseconds since the epoch), for a table of these columns."""
    checks = tuple(replace(check, expression=at_moment(check.expression, microseconds, columns)) for check in rules.checks)
    defaults = {name: at_moment(text, microseconds) for name, text in rules.defaults.items()}
    return replace(rules, checks=checks, defaults=defaults)


def at_moment(text: str, microseconds: int, columns: Collection[str] = ()) -> str:
    """Return an expression with each call of `current_timestamp()` or a similar function replaced by its value at a moment.

    Days are those of the session's zone. A function name without brackets may instead be one of these columns.
    """
    if not any(name in text.lower() for name in _FUNCTIONS):
        return text
    column_names = {column.lower() for column in columns}
    tokens = tokens_of(text) or []
    edits = []
    for index, token in enumerate(tokens):
        last = _call_end(tokens, index, column_names) if _is_function_name(token, text) else None
        if last is not None:
            edits.append((token.start, last + 1, _FUNCTIONS[token.text.lower()].format(microseconds)))
    return rewrite(text, edits)


def _call_end(tokens: list[Token], index: int, column_names: Collection[str]) -> int | None:
    """Return the offset of the last character of a call without arguments, or None if the name is no such call."""
    if index > 0 and tokens[index - 1].token_type is TokenType.DOT:
        return None
    next_types = [token.token_type for token in tokens[index + 1 : index + 3]]
    if next_types == [TokenType.L_PAREN, TokenType.R_PAREN]:
        return tokens[index + 2].end
    name = tokens[index].text.lower()
    is_bare_call = name in _WITHOUT_BRACKETS and name not in column_names and TokenType.L_PAREN not in next_types[:1]
    return tokens[index].end if is_bare_call else None


def _is_function_name(token: Token, text: str) -> bool:
    return token.token_type is not TokenType.STRING and text[token.start] != "`" and token.text.lower() in _FUNCTIONS
