"""The time of a statement: current_timestamp() and similar functions return the same value in all jobs and attempts of the statement."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlglot import Token, TokenType

from rowmerge.plan.expressions.column_refs import rewrite, tokens_of
from rowmerge.table.metadata.rules import Rules

_NOW = "timestamp_micros({})"
_TODAY = "cast(timestamp_micros({}) as date)"
_LOCAL = "cast(timestamp_micros({}) as timestamp_ntz)"
_TIME_FUNCTION_TEMPLATES = {"current_timestamp": _NOW, "now": _NOW, "current_date": _TODAY, "curdate": _TODAY, "localtimestamp": _LOCAL}
_WITHOUT_BRACKETS = frozenset({"current_timestamp", "current_date", "localtimestamp"})


def rules_at(rules: Rules, microseconds: int, columns: Collection[str]) -> Rules:
    """Return the rules with calls of `current_timestamp()` and similar functions replaced by constants.

    Args:
        rules: The constraints and defaults of a table.
        microseconds: The time, in microseconds since the epoch.
        columns: The names of the table's columns. If one is named `current_date`, the bare name `current_date` is not replaced.
    """
    checks = tuple(replace(check, expression=replace_time_functions(check.expression, microseconds, columns)) for check in rules.checks)
    defaults = {name: replace_time_functions(text, microseconds) for name, text in rules.defaults.items()}
    return replace(rules, checks=checks, defaults=defaults)


def replace_time_functions(text: str, microseconds: int, columns: Collection[str] = ()) -> str:
    """Return an expression in which each call of `current_timestamp()` or a similar function is replaced by its value at a given time.

    Args:
        text: The SQL text of the expression. Text with an unclosed string or comment is returned unchanged.
        microseconds: The time, in microseconds since the epoch. Dates are those of the session's time zone.
        columns: The columns that the expression can use. If one is named `current_date`, the bare name `current_date` is not replaced.
    """
    if not any(name in text.lower() for name in _TIME_FUNCTION_TEMPLATES):
        return text
    column_names = {column.lower() for column in columns}
    tokens = tokens_of(text) or []
    edits = []
    for index, token in enumerate(tokens):
        call_end = _call_end(tokens, index, column_names) if _is_function_name(token, text) else None
        if call_end is not None:  # None: a field, a column, or a call with arguments
            edits.append((token.start, call_end, _TIME_FUNCTION_TEMPLATES[token.text.lower()].format(microseconds)))
    return rewrite(text, edits)


def _call_end(tokens: list[Token], index: int, column_names: Collection[str]) -> int | None:
    """Return the offset after the call without arguments that begins at token `index`, or None if no such call begins there."""
    if index > 0 and tokens[index - 1].token_type is TokenType.DOT:
        return None
    next_types = [token.token_type for token in tokens[index + 1 : index + 3]]
    if next_types == [TokenType.L_PAREN, TokenType.R_PAREN]:
        return tokens[index + 2].end + 1
    name = tokens[index].text.lower()
    is_bare_call = name in _WITHOUT_BRACKETS and name not in column_names and TokenType.L_PAREN not in next_types[:1]
    return tokens[index].end + 1 if is_bare_call else None


def _is_function_name(token: Token, text: str) -> bool:
    return token.token_type is not TokenType.STRING and text[token.start] != "`" and token.text.lower() in _TIME_FUNCTION_TEMPLATES
