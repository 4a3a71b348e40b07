"""Operators and brackets among the tokens of a condition. sqlglot's tree does not contain their positions in the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from sqlglot import Token, TokenType

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_SYMBOLS = {TokenType.EQ: "=", TokenType.NULLSAFE_EQ: "<=>", TokenType.LT: "<", TokenType.LTE: "<=", TokenType.GT: ">", TokenType.GTE: ">="}
_NOT_DISTINCT = [TokenType.IS, TokenType.NOT, TokenType.DISTINCT, TokenType.FROM]


class Operator(NamedTuple):
    """A comparison operator: the index of its first token, and the index of the token after it."""

    op: str
    start: int
    end: int


def top_level_comparisons(tokens: list[Token]) -> list[Operator]:
    """Return the comparison operators outside all brackets, or an empty list if the brackets are unbalanced."""
    top_level_indexes = [index for index, depth in enumerate(_depths(tokens) or ()) if depth == 0]
    operators = [_comparison_operator(tokens, index) for index in top_level_indexes]
    return [operator for operator in operators if operator is not None]


def _comparison_operator(tokens: list[Token], index: int) -> Operator | None:
    """Return the comparison operator that begins at a token, or None."""
    if op := _SYMBOLS.get(tokens[index].token_type):
        return Operator(op, index, index + 1)
    is_distinct_from = [token.token_type for token in tokens[index : index + 4]] == _NOT_DISTINCT
    return Operator("<=>", index, index + 4) if is_distinct_from else None


def _depths(tokens: list[Token]) -> list[int] | None:
    """Return the nesting depth of each token in brackets and CASE … END, or None if they are unbalanced. Brackets enclose themselves."""
    depths, depth = [], 0
    for index, token in enumerate(tokens):
        is_name = follows_dot(tokens, index)
        depth += token.token_type in _OPEN and not is_name
        depths.append(depth)
        depth -= token.token_type in _CLOSE and not is_name
        if depth < 0:
            return None
    return depths if depth == 0 else None


def is_enclosed(tokens: list[Token]) -> bool:
    """Return whether the first and the last token are parentheses that enclose all other tokens."""
    if len(tokens) < 3 or tokens[0].token_type is not TokenType.L_PAREN or tokens[-1].token_type is not TokenType.R_PAREN:
        return False
    return _depths(tokens) is not None and _depths(tokens[1:-1]) is not None


def split_at_and(tokens: list[Token]) -> list[list[Token]] | None:
    """Return the tokens of each operand of the top-level ANDs, or None if brackets are unbalanced or an operand is empty."""
    depths = _depths(tokens)
    if depths is None:
        return None
    # In `s.and`, the keyword is the name of a field.
    keyword_indexes = [index for index, depth in enumerate(depths) if depth == 0 and not follows_dot(tokens, index)]
    borders = [-1, *_and_indexes(tokens, keyword_indexes), len(tokens)]
    operands = [tokens[border + 1 : next_border] for border, next_border in pairwise(borders)]
    return operands if all(operands) else None


def _and_indexes(tokens: list[Token], candidates: Iterable[int]) -> list[int]:
    """Return the candidate indexes at which the token is an AND that joins conditions rather than the AND of a BETWEEN."""
    and_indexes, open_betweens = [], 0
    for index in candidates:
        keyword = tokens[index].token_type
        if keyword is TokenType.BETWEEN:
            open_betweens += 1
        elif keyword is TokenType.AND and open_betweens:
            open_betweens -= 1
        elif keyword is TokenType.AND:
            and_indexes.append(index)
    return and_indexes


def follows_dot(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token follows a dot and is therefore part of a name, even if it is a keyword."""
    return index > 0 and tokens[index - 1].token_type is TokenType.DOT
