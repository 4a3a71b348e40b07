"""The SELECT list of a query, and the windows of its functions, as token ranges of the statement."""

from __future__ import annotations

from collections.abc import Iterator

from rowmerge.commands.queries import Clause, SelectItem
from rowmerge.sql.lexing.lexer import CLOSING, Kind, Tokens

_NOT_BEFORE_ALIAS = frozenset(
    """AND OR NOT IN IS LIKE ILIKE RLIKE REGEXP BETWEEN DIV OVER COLLATE DISTINCT CASE WHEN THEN ELSE INTERVAL DATE TIMESTAMP
    TIMESTAMP_NTZ TIMESTAMP_LTZ FROM EXISTS ANY ALL SOME ESCAPE AT TIME ZONE""".split()
)
"""Words after which a name is an operand rather than an alias."""
_NEVER_ALIAS = frozenset({"END", "NULL", "TRUE", "FALSE"})
_UNITS = frozenset("NANOSECOND MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR".split())
_GENERATORS = frozenset(
    """EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE INLINE_OUTER STACK JSON_TUPLE VARIANT_EXPLODE VARIANT_EXPLODE_OUTER
    SQL_KEYWORDS COLLATIONS""".split()
)
"""Functions that return several columns."""
_WINDOW_CLAUSES = frozenset({"ORDER", "SORT", "ROWS", "RANGE"})


def clause(tokens: Tokens, start: int, end: int) -> Clause:
    """Return the verbatim text of some tokens.

    Args:
        tokens: The tokens of the statement.
        start: The index of the first token.
        end: The index after the last token.
    """
    offset = tokens.starts[start]
    return Clause(tokens.text[offset : tokens.ends[end - 1]], offset)


def split_at_commas(tokens: Tokens, start: int, end: int) -> list[tuple[int, int]]:
    """Return the token ranges between the commas outside brackets. A range can be empty.

    Args:
        tokens: The tokens of the statement.
        start: The index of the first token.
        end: The index after the last token.
    """
    ranges, item_start, index = list[tuple[int, int]](), start, start
    while index < end:
        if tokens.keys[index] in CLOSING:
            index = tokens.closings[index]
        elif tokens.keys[index] == ",":
            ranges.append((item_start, index))
            item_start = index + 1
        index += 1
    return [*ranges, (item_start, end)]


def parse_select_list(tokens: Tokens, start: int, end: int) -> tuple[SelectItem, ...] | None:
    """Parse a SELECT list, or return None if the columns of the list are unknown.

    Args:
        tokens: The tokens of the statement.
        start: The index of the first token of the list.
        end: The index after the last token of the list.
    """
    items = [_select_item(tokens, *item_range) for item_range in split_at_commas(tokens, start, end)]
    known_items = tuple(item for item in items if item is not None)
    return known_items if len(known_items) == len(items) else None


def _select_item(tokens: Tokens, start: int, end: int) -> SelectItem | None:
    """Parse one item. Return None if it is empty, or if it has several columns whose names are unknown, as in `stack(…) AS (a, b)`."""
    keys = tokens.keys
    if start >= end:
        return None
    name_end = _name_end(tokens, start, end)
    if name_end < end and keys[name_end] == "*" and (name_end == start or keys[name_end - 1] == "."):
        return _star(tokens, start, name_end, end)
    if end - start > 2 and keys[end - 2] == "AS" and tokens.is_name(end - 1):
        return SelectItem(clause(tokens, start, end - 2), tokens[end - 1].name)
    if "AS" in _top_level_keys(tokens, start, end):
        return None
    if end - start > 1 and _is_alias(tokens, end - 1):
        return SelectItem(clause(tokens, start, end - 1), tokens[end - 1].name)
    if keys[start] in _GENERATORS and keys[start + 1] == "(":
        return None
    return SelectItem(clause(tokens, start, end), name=_name(tokens, start, end))


def _name(tokens: Tokens, start: int, end: int) -> tuple[str, ...]:
    """Return the parts of the dotted name of which an expression consists, also in parentheses. Empty for any other expression."""
    while tokens.keys[start] == "(" and tokens.closings[start] == end - 1:
        start, end = start + 1, end - 1
    is_name = start < end and _name_end(tokens, start, end) == end
    return tuple(token.name for token in tokens[start:end:2]) if is_name else ()


def _name_end(tokens: Tokens, start: int, end: int) -> int:
    """Return the index after the dotted name at the start of an expression. It is the index of the star in `t.*`."""
    index = start
    while index < end and tokens.is_name(index):
        if index + 1 >= end or tokens.keys[index + 1] != ".":
            return index + 1
        index += 2
    return index


def _star(tokens: Tokens, start: int, star: int, end: int) -> SelectItem | None:
    """Parse `*`, `t.*` or either with EXCEPT (columns). Return None for other text after the star, such as REPLACE or fields in EXCEPT."""
    keys, expression = tokens.keys, clause(tokens, start, star + 1)
    qualifier = tuple(token.name for token in tokens[start:star:2])
    if star + 1 == end:
        return SelectItem(expression, name=qualifier, is_star=True)
    is_exception = keys[star + 1] == "EXCEPT" and keys[star + 2] == "(" and tokens.closings[star + 2] == end - 1
    columns = split_at_commas(tokens, star + 3, end - 1) if is_exception else []
    if not columns or any(last != first + 1 for first, last in columns):
        return None
    return SelectItem(expression, None, qualifier, is_star=True, excluded=tuple(tokens[first].name for first, _ in columns))


def _top_level_keys(tokens: Tokens, start: int, end: int) -> Iterator[str]:
    """Yield the keys of the tokens outside brackets."""
    index = start
    while index < end:
        yield tokens.keys[index]
        index = tokens.closings[index] + 1 if tokens.keys[index] in CLOSING else index + 1


def _is_alias(tokens: Tokens, index: int) -> bool:
    """Return whether the last token of an item is an alias without AS: a name after an operand."""
    if not tokens.is_name(index) or tokens.keys[index] in _NEVER_ALIAS:
        return False
    previous = index - 1
    if tokens.kinds[previous] is Kind.NUMBER:
        return tokens.keys[index].removesuffix("S") not in _UNITS
    if tokens.kinds[previous] is Kind.SYMBOL:
        return tokens.keys[previous] in CLOSING.values()
    return tokens.keys[previous] not in _NOT_BEFORE_ALIAS


def window_partitions(tokens: Tokens, start: int, end: int) -> Iterator[tuple[Clause, ...]]:
    """Yield for each OVER the expressions of its PARTITION BY, or an empty tuple if there are none or they are unknown.

    Args:
        tokens: The tokens of the statement.
        start: The index of the first token in which OVER is searched.
        end: The index after the last token.
    """
    for index in range(start, end):
        if tokens.keys[index] != "OVER" or tokens.keys[index - 1] == ".":
            continue
        is_specification = tokens.keys[index + 1] == "(" and tokens.keys[index + 2] in ("PARTITION", "DISTRIBUTE")
        yield tuple(_partition_expressions(tokens, index + 4, tokens.closings[index + 1])) if is_specification else ()


def _partition_expressions(tokens: Tokens, start: int, end: int) -> Iterator[Clause]:
    """Yield the expressions after PARTITION BY, up to ORDER BY or the frame of the window."""
    list_end = start
    while list_end < end and tokens.keys[list_end] not in _WINDOW_CLAUSES:
        list_end = tokens.closings[list_end] + 1 if tokens.keys[list_end] in CLOSING else list_end + 1
    for first, last in split_at_commas(tokens, start, list_end):
        if first < last:
            yield clause(tokens, first, last)
