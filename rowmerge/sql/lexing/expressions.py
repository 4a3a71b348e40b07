"""Functions that find the end of an expression, a type, a relation or a WITH list. Spark validates the contents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rowmerge.commands.names import SqlText
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, Kind

QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM"})
_NO_ALIAS = frozenset(
    """ANTI CROSS EXCEPT FULL INNER INTERSECT JOIN LATERAL LEFT NATURAL ON RIGHT SEMI SETMINUS UNION USING MINUS WHERE HAVING
    LIMIT OFFSET WINDOW QUALIFY PIVOT UNPIVOT TABLESAMPLE SELECT SET WHEN""".split()
)
"""Words after a relation that are not its alias: Spark's strict non-reserved keywords, and the clauses that may follow a relation."""
BEFORE_BY = frozenset({"GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"})
_NO_OPERAND = frozenset(
    """AND OR IN IS LIKE ILIKE RLIKE REGEXP BETWEEN DIV AS THEN ELSE END ASC DESC ON USING WHERE GROUP ORDER HAVING UNION""".split()
)
_AFTER_OPERATOR = frozenset("AND OR NOT IN EXISTS LIKE ILIKE RLIKE REGEXP BETWEEN DIV ANY ALL SOME THEN ELSE WHEN CASE WHERE".split())
_UNITS = frozenset("NANOSECOND MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR".split())
_QUANTITY = (Kind.STRING, Kind.NUMBER)
_SIGNS = ("-", "+")
_BINARY_OPERATORS = frozenset(["+", "-", "*", "/", "%", "||", "&", "^", "|", "DIV"])
_INTERVAL_UNITS = _UNITS | {f"{unit}S" for unit in _UNITS}
_COMPACT_TIMESTAMP = re.compile("(.{4})(..)(..)(..)(..)(..)(...)")
"""Groups for the year, month, day, hour, minute, second and millisecond of yyyyMMddHHmmssSSS."""
_NOT_IN_TYPES = frozenset({"[", "{", *CLOSING.values()})  # in a type, `(` and `)` occur only in pairs, as in decimal(10, 2)


def parse_expression(cursor: Cursor, description: str, ends: Callable[[Cursor], bool]) -> SqlText:
    """Read an expression, and return its text. Spark parses the expression itself.

    The end of the statement and a closing bracket of an enclosing list also end the expression.

    Args:
        cursor: The cursor at the first token of the expression.
        description: The noun for the expression in error messages, such as `a condition after ON`.
        ends: A function that returns whether the expression ends before the next token. It is not called inside brackets and CASE … END.

    Raises:
        Unparsable: The expression is empty, or a bracket is not closed.
    """
    start, open_cases = cursor.index, 0
    while not cursor.at_end and cursor.key() not in CLOSING.values():
        if not open_cases and ends(cursor):
            break
        if _begins_case(cursor):
            open_cases += 1
        elif open_cases and cursor.next_is_keyword("END"):
            open_cases -= 1
        _skip_token_group_or_cast(cursor)
    if cursor.index == start:
        raise cursor.expected(description)
    return cursor.text_from(start)


def _skip_token_group_or_cast(cursor: Cursor) -> None:
    """Step over one token, one group in brackets, or a cast `::type`."""
    if cursor.accept("::"):
        parse_data_type(cursor)
    else:
        cursor.skip_token_or_group()


def at_comma(cursor: Cursor) -> bool:
    """Return whether a comma comes next, which ends an expression in a list."""
    return cursor.key() == ","


def at_end(cursor: Cursor) -> bool:
    """Return whether the statement ends here."""
    return cursor.at_end


def parse_parenthesized_expression(cursor: Cursor, description: str) -> SqlText:
    """Read `(expression)` and return the expression.

    Args:
        cursor: The cursor at the parenthesis.
        description: The noun for the expression in error messages.
    """
    cursor.expect("(")
    text = parse_expression(cursor, description, at_end)
    cursor.expect(")")
    return text


def parse_last_expression(cursor: Cursor, description: str) -> SqlText:
    """Read an expression that extends to the end of the statement.

    Args:
        cursor: The cursor at the first token of the expression.
        description: The noun for the expression in error messages.
    """
    text = parse_expression(cursor, description, at_end)
    cursor.expect_end(description)
    return text


def skip_value_expression(cursor: Cursor, description: str) -> None:
    """Step over operands joined by arithmetic operators. A name after them, such as an alias without AS, is not part of the expression.

    Args:
        cursor: The cursor at the first token of the expression.
        description: The noun for the expression in error messages.
    """
    while True:
        while cursor.accept_any("-", "+", "~"):
            pass
        _skip_operand(cursor, description)
        while _skip_postfix(cursor):
            pass
        if cursor.key() not in _BINARY_OPERATORS:
            return
        cursor.index += 1


def _skip_operand(cursor: Cursor, description: str) -> None:
    """Step over one operand: a group in brackets, a CASE, an interval, a literal, a parameter or a name."""
    kind = cursor.token().kind
    if cursor.next_is("("):
        cursor.skip_group()
    elif _begins_case(cursor):
        _skip_case(cursor, description)
    elif cursor.next_is("INTERVAL") and _is_quantity(cursor, 1):
        _skip_interval(cursor)
    elif kind is Kind.STRING:
        while cursor.token().kind is Kind.STRING:  # Spark joins `'a' 'b'` into one string
            cursor.index += 1
    elif kind is Kind.NUMBER or cursor.next_is("?"):
        cursor.index += 1
    else:
        _skip_name_or_typed_literal(cursor, description)


def _skip_case(cursor: Cursor, description: str) -> None:
    """Step over `CASE … END`."""
    cursor.expect("CASE")
    parse_expression(cursor, description, lambda c: c.next_is_keyword("END"))
    cursor.expect("END")


def _skip_name_or_typed_literal(cursor: Cursor, description: str) -> None:
    """Step over a name, a parameter such as `:name`, or a typed literal such as `DATE '2026-01-31'`."""
    name_offset = 1 if cursor.next_is(":") else 0
    if not cursor.token(name_offset).is_name:
        raise cursor.expected(description)
    cursor.index += name_offset + 1
    if cursor.token().kind is Kind.STRING:
        cursor.index += 1


def _skip_interval(cursor: Cursor) -> None:
    """Step over an interval: `INTERVAL 1 day -2 hours`, `INTERVAL '1-2' year to month`."""
    cursor.expect("INTERVAL")
    while _is_quantity(cursor):
        cursor.accept_any(*_SIGNS)
        cursor.index += 1
        if cursor.accept_any(*_INTERVAL_UNITS) and cursor.key() == "TO" and cursor.key(1) in _INTERVAL_UNITS:
            cursor.index += 2


def _is_quantity(cursor: Cursor, ahead: int = 0) -> bool:
    """Return whether a string or a number comes next, with or without a sign."""
    number = ahead + 1 if cursor.key(ahead) in _SIGNS else ahead
    return cursor.token(number).kind in _QUANTITY


def _skip_postfix(cursor: Cursor) -> bool:
    """Step over arguments, a subscript, a field name or a cast `::type` after an operand. Return whether one of these comes next."""
    if cursor.key() in ("(", "["):
        cursor.skip_group()
    elif cursor.key() == "." and cursor.token(1).is_name:
        cursor.index += 2
    elif cursor.accept("::"):
        parse_data_type(cursor)
    else:
        return False
    return True


def _begins_case(cursor: Cursor) -> bool:
    """Return whether CASE comes next as a keyword rather than as a column name. Only after the keyword can an expression begin."""
    if not cursor.next_is_keyword("CASE"):
        return False
    following = cursor.token(1)
    if following.kind is Kind.WORD:
        return following.key not in _NO_OPERAND
    return following.kind in (Kind.QUOTED, *_QUANTITY) or following.key in ("(", "-", "+", "~", "!", ":", "?")


def parse_data_type(cursor: Cursor) -> SqlText:
    """Read a type with its parameters: `decimal(10, 2)`, `map<string, array<int>>`, `interval day to second`, `string collate x`."""
    start = cursor.index
    is_interval = cursor.next_is("INTERVAL")
    cursor.identifier("a type")  # the name of the type, which can be INTERVAL
    if is_interval and cursor.accept_any(*_UNITS):
        if cursor.accept("TO"):
            cursor.index += 1  # the last unit, as in DAY TO SECOND
    else:
        _skip_type_parameters(cursor)
    if cursor.accept("COLLATE"):
        cursor.path("the name of a collation")
    return cursor.text_from(start)


def _skip_type_parameters(cursor: Cursor) -> None:
    """Step over the parameters of a type if they come next: `(10, 2)`, `<int>`, or the `<>` of a struct without fields."""
    if cursor.next_is("<"):
        _skip_angle_brackets(cursor)
    elif cursor.next_is("("):
        cursor.skip_group()
    else:
        cursor.accept("<>")


def _skip_angle_brackets(cursor: Cursor) -> None:
    """Step over the type parameters from `<`, which comes next, to its `>`, as in `map<string, array<int>>`."""
    opening, depth = cursor.token(), 0
    while not cursor.at_end and cursor.key() not in _NOT_IN_TYPES:
        if cursor.accept("<"):
            depth += 1
        elif cursor.accept(">"):
            depth -= 1
        else:
            cursor.skip_token_or_group()
        if not depth:
            return
    raise cursor.error("The < of this type is not closed. Close it with >", opening)


def begins_query(cursor: Cursor) -> bool:
    """Return whether a query, with or without parentheses, begins here."""
    ahead = cursor.leading_parentheses
    word, following = cursor.key(ahead), cursor.token(ahead + 1)
    if word not in QUERY_WORDS or following.kind is Kind.END:
        return False
    if word in ("WITH", "TABLE"):
        return following.is_name
    return following.kind is not Kind.SYMBOL or following.key in ("(", "*", "-", "+", "~", ":", "?", "!", "[")


def begins_separate_query(cursor: Cursor) -> bool:
    """Return whether a query begins here that is not part of the preceding expression, such as a subquery or an argument."""
    previous = cursor.token(-1)
    if not begins_query(cursor) or previous.key in _AFTER_OPERATOR or previous.key == "DISTINCT":
        return False
    if previous.kind is Kind.SYMBOL:
        return previous.key in CLOSING.values()
    # `f((select 1))` is a call with a subquery, `a = b (select 1)` a condition and its query.
    is_call = cursor.next_is("(") and previous.is_name and previous.key not in ("NULL", "TRUE", "FALSE", "END")
    return not is_call or cursor.key(1) in QUERY_WORDS - {"TABLE"}


def accept_with_list(cursor: Cursor) -> bool:
    """Step over `WITH [RECURSIVE] name [(columns)] [AS] (query), …`. If there is no such list, do not move and return False."""
    start = cursor.index
    cursor.expect("WITH")
    accept_recursive(cursor)
    while cursor.token().is_name:
        cursor.index += 1
        skip_to_with_query(cursor)
        if not cursor.next_is("("):
            break
        cursor.skip_group()
        if not cursor.accept(","):
            return True
    cursor.index = start
    return False


def accept_recursive(cursor: Cursor) -> bool:
    """Step over RECURSIVE after WITH, unless RECURSIVE is the name of the first query."""
    return cursor.key(1) != "AS" and bool(cursor.accept_before_name("RECURSIVE"))


def skip_to_with_query(cursor: Cursor) -> None:
    """Step from the name of a query in a WITH list over its columns, depth limit and AS to the parenthesis that begins the query."""
    if cursor.next_is("("):
        start = cursor.index
        cursor.skip_group()
        if not (cursor.next_is("AS") or cursor.next_is("(") or cursor.next_is("MAX", "RECURSION")):
            cursor.index = start  # the parentheses contain the query
            return
    if cursor.accept("MAX", "RECURSION", "LEVEL"):
        cursor.index += 1
    cursor.accept("AS")


@dataclass(frozen=True)
class TimeTravel:
    """VERSION AS OF or TIMESTAMP AS OF. `reference`: the name of a branch or tag that VERSION AS OF contains instead of a number."""

    version: int | None = None
    timestamp: SqlText | None = None
    reference: str | None = None


def parse_time_travel(cursor: Cursor) -> TimeTravel | None:
    """Read `[FOR] VERSION|SYSTEM_VERSION AS OF 3`, `[FOR] TIMESTAMP|SYSTEM_TIME AS OF value` or `@v3`. Return None if none follows."""
    if cursor.next_is("@"):
        return _parse_at_sign(cursor)
    start = cursor.index
    cursor.accept("FOR")
    kind = cursor.accept_any("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")
    if not kind or not cursor.accept("AS", "OF"):
        cursor.index = start
        return None
    if kind in ("VERSION", "SYSTEM_VERSION"):
        return _parse_version(cursor, kind)
    time_start = cursor.index
    skip_value_expression(cursor, f"a time after {kind} AS OF")
    return TimeTravel(timestamp=cursor.text_from(time_start))


def _parse_version(cursor: Cursor, kind: str) -> TimeTravel:
    """Read the version after AS OF: a number with or without quotes, or the quoted name of a branch or tag."""
    if cursor.token().kind is not Kind.STRING:
        return TimeTravel(version=cursor.integer(f"a version after {kind} AS OF"))
    version = cursor.string("a version")
    return TimeTravel(version=int(version)) if version.isdecimal() else TimeTravel(reference=version)


def _parse_at_sign(cursor: Cursor) -> TimeTravel | None:
    """Read the time travel in Delta's short forms `name@v3` and `name@20260131235959000` (yyyyMMddHHmmssSSS), or return None."""
    name, sign, value = cursor.token(-1), cursor.token(), cursor.token(1)
    is_one_word = name.end == sign.start and sign.end == value.start
    is_version = value.text[:1] in "vV" and value.text[1:].isdecimal()
    is_timestamp = len(value.text) == 17 and value.text.isdecimal()
    if not is_one_word or not (is_version or is_timestamp):
        return None
    cursor.index += 2
    if is_version:
        return TimeTravel(version=int(value.text[1:]))
    timestamp = _COMPACT_TIMESTAMP.sub(r"'\1-\2-\3 \4:\5:\6.\7'", value.text)
    return TimeTravel(timestamp=SqlText(timestamp, *cursor.tokens.place(value.start)))


def parse_relation(cursor: Cursor, description: str) -> SqlText:
    """Read a relation and its TABLESAMPLE, without an alias: a table name with time travel, a query, VALUES or a table function.

    Args:
        cursor: The cursor at the first token of the relation.
        description: The noun for the relation in error messages.
    """
    start = cursor.index
    if cursor.next_is("("):
        cursor.skip_group()
    elif cursor.next_is("VALUES") and begins_query(cursor):
        skip_values_list(cursor)
    else:
        _skip_table_or_function(cursor, description)
    skip_tablesample(cursor)
    return cursor.text_from(start)


def _skip_table_or_function(cursor: Cursor, description: str) -> None:
    """Step over a table's name and time travel, or over a table function and its arguments."""
    cursor.path(description)
    if cursor.next_is("("):
        cursor.skip_group()
    else:
        parse_time_travel(cursor)


def skip_values_list(cursor: Cursor) -> None:
    """Step over `VALUES row, row, …`."""
    cursor.expect("VALUES")
    cursor.comma_separated(lambda: skip_value_expression(cursor, "a row of values"))


def skip_tablesample(cursor: Cursor) -> None:
    """Step over `TABLESAMPLE [BERNOULLI | SYSTEM] (…) [REPEATABLE (…)]` if it comes next."""
    for keyword in ("TABLESAMPLE", "REPEATABLE"):
        if not any(cursor.next_is(keyword, *method, "(") for method in ((), ("BERNOULLI",), ("SYSTEM",))):
            return
        cursor.index += 1 if cursor.key(1) == "(" else 2
        cursor.skip_group()


def parse_alias(cursor: Cursor) -> str | None:
    """Read `[AS] name`, or return None if there is no alias."""
    if not alias_follows(cursor):
        return None
    cursor.accept("AS")
    return cursor.identifier("an alias")


def alias_follows(cursor: Cursor) -> bool:
    """Return whether `[AS] name`, the alias of the preceding relation, comes next rather than a word that begins a clause."""
    key = cursor.key()
    if key in BEFORE_BY:
        return cursor.key(1) != "BY"
    if key == "INSERT":
        return cursor.key(1) not in ("INTO", "OVERWRITE")
    return cursor.token().is_name and key not in _NO_ALIAS and cursor.key(1) != "NEAREST"  # `APPROX NEAREST` follows a joined table
