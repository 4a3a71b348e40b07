"""How far an expression, a type, a relation or a WITH list reaches in the user's text; Spark judges what is inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rowmerge.commands.names import SqlText
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.lexer import CLOSING, Kind

QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM"})
# fmt: off
NO_ALIAS = frozenset({
    "ANTI", "CROSS", "EXCEPT", "FULL", "INNER", "INTERSECT", "JOIN", "LATERAL", "LEFT", "NATURAL", "ON", "RIGHT", "SEMI", "SETMINUS",
    "UNION", "USING", "MINUS", "WHERE", "HAVING", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "PIVOT", "UNPIVOT", "TABLESAMPLE", "SELECT",
    "SET", "WHEN",
})
"""Words that end a relation instead of naming it: Spark's strict non-reserved words, and the clauses that may follow."""
_BY = frozenset({"GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"})
_NO_OPERAND = frozenset({
    "AND", "OR", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV", "AS", "THEN", "ELSE", "END", "ASC", "DESC", "ON",
    "USING", "WHERE", "GROUP", "ORDER", "HAVING", "UNION",
})
_AFTER_OPERATOR = frozenset({
    "AND", "OR", "NOT", "IN", "EXISTS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV", "ANY", "ALL", "SOME", "THEN", "ELSE", "WHEN",
    "CASE", "WHERE",
})
_UNITS = frozenset({
    "NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR",
})
# fmt: on
_QUANTITY = (Kind.STRING, Kind.NUMBER)
_SIGNS = ("-", "+")
_BINARY = frozenset(["+", "-", "*", "/", "%", "||", "&", "^", "|", "DIV"])
_INTERVAL_UNITS = _UNITS | {f"{unit}S" for unit in _UNITS}


# ------------------------------------------------------------------ expressions


def expression(cursor: Cursor, what: str, stop: Callable[[Cursor], bool]) -> SqlText:
    """The expression from here to where `stop` is true outside brackets and CASE … END.

    A closing bracket, which would be an enclosing list's, and the end of the statement stop it too.
    """
    start, cases = cursor.at, 0
    while not cursor.ended and cursor.key() not in CLOSING.values():
        if not cases and stop(cursor):
            break
        if cursor.key() in CLOSING:
            cursor.skip_group()
            continue
        if _begins_case(cursor):
            cases += 1
        elif cases and cursor.sees_keyword({"END"}):
            cases -= 1
        cursor.at += 1
        if cursor.key(-1) == "::":
            data_type(cursor)
    if cursor.at == start:
        raise cursor.expected(what)
    return cursor.slice(start)


def until_comma(cursor: Cursor) -> bool:
    return cursor.key() == ","


def until_end(cursor: Cursor) -> bool:
    return cursor.ended


def last_expression(cursor: Cursor, what: str) -> SqlText:
    """The expression that ends the statement."""
    text = expression(cursor, what, until_end)
    cursor.finish(what)
    return text


def value_expression(cursor: Cursor, what: str) -> None:
    """Step over an expression that a name may follow without AS: operands joined by arithmetic operators."""
    while True:
        while cursor.accept_any("-", "+", "~"):
            pass
        _operand(cursor, what)
        while _postfix(cursor):
            pass
        if cursor.key() not in _BINARY:
            return
        cursor.at += 1


def _operand(cursor: Cursor, what: str) -> None:
    token = cursor.token()
    if token.key == "(":
        cursor.skip_group()
    elif _begins_case(cursor):
        cursor.at += 1
        expression(cursor, what, lambda c: c.sees_keyword({"END"}))
        cursor.expect("END")
    elif token.key == "INTERVAL" and (cursor.token(1).kind in _QUANTITY or (cursor.key(1) in _SIGNS and cursor.token(2).kind in _QUANTITY)):
        cursor.at += 1
        _interval(cursor)
    elif token.key == "?" or token.kind in _QUANTITY:
        cursor.at += 1
        while token.kind is Kind.STRING and cursor.token().kind is Kind.STRING:
            cursor.at += 1
    elif token.is_name or (token.key == ":" and cursor.token(1).is_name):
        cursor.at += 1 if token.is_name else 2
        if cursor.token().kind is Kind.STRING:
            cursor.at += 1
    else:
        raise cursor.expected(what)


def _interval(cursor: Cursor) -> None:
    while cursor.token().kind in _QUANTITY or (cursor.key() in _SIGNS and cursor.token(1).kind in _QUANTITY):
        cursor.accept_any(*_SIGNS)
        cursor.at += 1
        if cursor.key() in _INTERVAL_UNITS:
            cursor.at += 1
            if cursor.key() == "TO" and cursor.key(1) in _INTERVAL_UNITS:
                cursor.at += 2


def _postfix(cursor: Cursor) -> bool:
    if cursor.key() in ("(", "["):
        cursor.skip_group()
    elif cursor.key() == "." and cursor.token(1).is_name:
        cursor.at += 2
    elif cursor.accept("::"):
        data_type(cursor)
    else:
        return False
    return True


def _begins_case(cursor: Cursor) -> bool:
    """Whether CASE stands here as the keyword: something that an expression can begin with comes next."""
    if not cursor.sees_keyword({"CASE"}):
        return False
    after = cursor.token(1)
    if after.kind is Kind.WORD:
        return after.key not in _NO_OPERAND
    return after.kind in (Kind.QUOTED, Kind.STRING, Kind.NUMBER) or after.key in ("(", "-", "+", "~", "!", ":", "?")


# ------------------------------------------------------------------ types


def data_type(cursor: Cursor) -> SqlText:
    """A type with everything that belongs to it: `decimal(10, 2)`, `map<string, array<int>>`, `interval day to second`."""
    start = cursor.at
    word = cursor.key()
    cursor.identifier("a type")
    if word == "INTERVAL" and cursor.key() in _UNITS:
        cursor.at += 1
        if cursor.accept("TO"):
            cursor.at += 1
    elif cursor.sees("<"):
        _skip_angles(cursor)
    elif not cursor.accept("<>") and cursor.sees("("):
        cursor.skip_group()
    if cursor.sees("COLLATE"):
        cursor.at += 1
        cursor.path("the name of a collation")
    return cursor.slice(start)


def _skip_angles(cursor: Cursor) -> None:
    opened, depth = cursor.token(), 0
    while not cursor.ended:
        key = cursor.key()
        if key == "(":
            cursor.skip_group()
            continue
        if key in CLOSING.values() or key in CLOSING:
            break
        depth += {"<": 1, ">": -1}.get(key, 0)
        cursor.at += 1
        if not depth:
            return
    raise cursor.error("The < of this type is not closed. Close it with >", opened)


# ------------------------------------------------------------------ queries


def begins_query(cursor: Cursor) -> bool:
    """Whether a query starts here, in parentheses or not."""
    ahead = cursor.parentheses
    word, after = cursor.key(ahead), cursor.token(ahead + 1)
    if word not in QUERY_WORDS or after.kind is Kind.END:
        return False
    if word in ("WITH", "TABLE"):
        return after.is_name
    return after.kind is not Kind.SYMBOL or after.key in ("(", "*", "-", "+", "~", ":", "?", "!", "[")


def query_follows(cursor: Cursor) -> bool:
    """Whether a query starts here that is no part of the expression before it: no subquery, no argument, no IS DISTINCT FROM."""
    before = cursor.token(-1)
    if not begins_query(cursor) or before.key in _AFTER_OPERATOR or before.key == "DISTINCT":
        return False
    if before.kind is Kind.SYMBOL:
        return before.key in CLOSING.values()
    # `f((select 1))` is a call with a subquery, `a = b (select 1)` a condition and its query.
    called = cursor.sees("(") and before.is_name and before.key not in ("NULL", "TRUE", "FALSE", "END")
    return not called or cursor.key(1) in QUERY_WORDS - {"TABLE"}


def with_list(cursor: Cursor) -> bool:
    """Step over `WITH [RECURSIVE] name [(columns)] [AS] (query), …`; False, and not moved, where no such list stands."""
    start = cursor.at
    cursor.expect("WITH")
    if cursor.sees("RECURSIVE") and cursor.token(1).is_name and cursor.key(1) != "AS":
        cursor.at += 1
    while cursor.token().is_name:
        cursor.at += 1
        with_group(cursor)
        if not cursor.sees("("):
            break
        cursor.skip_group()
        if not cursor.accept(","):
            return True
    cursor.at = start
    return False


def with_group(cursor: Cursor) -> None:
    """After a name of a WITH list: step up to the parenthesis of its query, over its columns, depth limit and AS."""
    if cursor.sees("("):
        start = cursor.at
        cursor.skip_group()
        if not (cursor.sees("AS") or cursor.sees("(") or cursor.sees("MAX", "RECURSION")):
            cursor.at = start
            return
    if cursor.accept("MAX", "RECURSION", "LEVEL"):
        cursor.at += 1
    cursor.accept("AS")


# ------------------------------------------------------------------ relations


@dataclass(frozen=True)
class TimeTravel:
    """VERSION AS OF or TIMESTAMP AS OF. `reference`: a version that is no number, the name of a branch or tag."""

    version: int | None = None
    timestamp: SqlText | None = None
    reference: str | None = None


def time_travel(cursor: Cursor) -> TimeTravel | None:
    """`[FOR] VERSION|SYSTEM_VERSION AS OF 3`, `[FOR] TIMESTAMP|SYSTEM_TIME AS OF value` or `@v3`, when one stands here."""
    if cursor.sees("@") and (spelled := _at_sign(cursor)) is not None:
        return spelled
    ahead = 1 if cursor.sees("FOR") else 0
    kind, follow = cursor.key(ahead), (cursor.key(ahead + 1), cursor.key(ahead + 2))
    if kind not in ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME") or follow != ("AS", "OF"):
        return None
    cursor.at += ahead + 3
    start = cursor.at
    if kind in ("TIMESTAMP", "SYSTEM_TIME"):
        value_expression(cursor, f"a time after {kind} AS OF")
        return TimeTravel(timestamp=cursor.slice(start))
    number = cursor.token()
    if number.kind is Kind.STRING:
        text = cursor.string("a version")
    else:
        text = str(cursor.integer(f"a version after {kind} AS OF"))
    return TimeTravel(version=int(text)) if text.isdecimal() else TimeTravel(reference=text)


def _at_sign(cursor: Cursor) -> TimeTravel | None:
    """Delta's short forms `name@v3` and `name@20260131235959000` (yyyyMMddHHmmssSSS)."""
    name, sign, value = cursor.token(-1), cursor.token(), cursor.token(1)
    if name.end != sign.start or sign.end != value.start:
        return None
    digits = value.text
    if digits[:1] in "vV" and digits[1:].isdecimal():
        cursor.at += 2
        return TimeTravel(version=int(digits[1:]))
    if len(digits) == 17 and digits.isdecimal():
        start = cursor.at + 1
        cursor.at += 2
        day, time = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}", f"{digits[8:10]}:{digits[10:12]}:{digits[12:14]}.{digits[14:]}"
        place = cursor.slice(start)
        return TimeTravel(timestamp=SqlText(f"'{day} {time}'", place.line, place.column))
    return None


def relation(cursor: Cursor, what: str) -> SqlText:
    """One relation without its alias: a name with or without time travel, a query in parentheses, VALUES, a table function."""
    start = cursor.at
    if cursor.sees("("):
        cursor.skip_group()
    elif cursor.sees("VALUES") and begins_query(cursor):
        values_list(cursor)
    else:
        cursor.path(what)
        if cursor.sees("("):
            cursor.skip_group()
        else:
            time_travel(cursor)
    sample(cursor)
    return cursor.slice(start)


def values_list(cursor: Cursor) -> None:
    """Step over `VALUES row, row, …`."""
    cursor.expect("VALUES")
    value_expression(cursor, "a row of values")
    while cursor.accept(","):
        value_expression(cursor, "a row of values")


def sample(cursor: Cursor) -> None:
    """Step over `TABLESAMPLE (…) [REPEATABLE (…)]`, when it stands here."""
    if cursor.sees("TABLESAMPLE", "("):
        cursor.at += 1
        cursor.skip_group()
        if cursor.sees("REPEATABLE", "("):
            cursor.at += 1
            cursor.skip_group()


def alias(cursor: Cursor) -> str | None:
    """`[AS] name`, when it stands here."""
    if cursor.accept("AS"):
        return cursor.identifier("an alias")
    if not cursor.token().is_name or ends_relation(cursor):
        return None
    return cursor.identifier("an alias")


def ends_relation(cursor: Cursor) -> bool:
    """Whether the word here is a clause's, rather than the alias of the relation before it."""
    key = cursor.key()
    if key in _BY:
        return cursor.key(1) == "BY"
    if key == "INSERT":
        return cursor.key(1) in ("INTO", "OVERWRITE")
    return key in NO_ALIAS
