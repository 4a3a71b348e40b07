"""The words that introduce and end relations and queries in Spark's grammar."""

from __future__ import annotations

from rowmerge.sql.lexing import expressions
from rowmerge.sql.lexing.cursor import Cursor

ENDS_FROM = frozenset({"WHERE", "HAVING", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "UNION", "EXCEPT", "MINUS", "INTERSECT", "SELECT", "|>"})
_BEFORE_QUERY = frozenset("AS UNION EXCEPT MINUS INTERSECT ALL DISTINCT EXPLAIN EXTENDED FORMATTED COST CODEGEN QUERY".split())


def accept_describe_query(cursor: Cursor) -> bool:
    """Step over DESCRIBE [QUERY], and return whether a query follows."""
    cursor.index += 1
    return (not cursor.next_is("TABLE") and expressions.begins_query(cursor)) or cursor.accept("QUERY")


def begins_table_query(cursor: Cursor, query_start: int) -> bool:
    """Return whether the keyword TABLE begins the query `TABLE name` rather than being part of another clause.

    Args:
        cursor: The cursor at the keyword.
        query_start: The index of the first token of the query in which the cursor is.
    """
    return (cursor.index == query_start or cursor.key(-1) in _BEFORE_QUERY) and cursor.token(1).is_name


def begins_relation(cursor: Cursor, keyword: str, in_from: bool) -> bool:
    """Return whether a relation follows FROM, JOIN or a comma. It does not follow the FROM of DELETE FROM or IS [NOT] DISTINCT FROM.

    Args:
        cursor: The cursor at the keyword.
        keyword: The keyword in upper case, or an empty string for the name of a field.
        in_from: Whether the cursor is in a FROM clause, in which a comma separates relations.
    """
    if keyword != "FROM":
        return keyword == "JOIN" or (keyword == "," and in_from)
    is_comparison = cursor.key(-1) == "DISTINCT" and cursor.key(-2) in ("IS", "NOT", "!")
    return cursor.key(-1) != "DELETE" and not is_comparison


def ends_from(cursor: Cursor, keyword: str) -> bool:
    """Return whether a word is a keyword that ends a FROM clause rather than an alias.

    Args:
        cursor: The cursor at the word.
        keyword: The word in upper case, or an empty string for the name of a field.
    """
    if cursor.key(-1) == "AS":
        return False
    if keyword in expressions.BEFORE_BY or keyword == "LATERAL":
        return cursor.key(1) in ("BY", "VIEW")
    return keyword in ENDS_FROM


def accept_table_keyword(cursor: Cursor) -> bool:
    """Step over TABLE in an argument `TABLE name` or `TABLE(name)`, up to the name. Return whether such an argument comes next."""
    if cursor.key(-1) not in ("(", ",", "=>"):
        return False
    if cursor.accept_before_name("TABLE"):
        return True
    keyword_index = cursor.index
    is_table_argument = cursor.accept("TABLE", "(") and cursor.token().is_name and not expressions.begins_query(cursor)
    if not is_table_argument:
        cursor.index = keyword_index  # an argument such as `TABLE(SELECT …)` is left to the search for queries
    return is_table_argument
