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


def precedes_relation(cursor: Cursor, keyword: str, in_from: bool) -> bool:
    """Return whether the token at the cursor precedes a relation: FROM, JOIN, or a comma in a FROM clause.

    The FROM of `DELETE FROM target` and of the comparison `a IS NOT DISTINCT FROM b` does not precede a relation that is read.

    Args:
        cursor: The cursor at the token.
        keyword: The token in upper case, or an empty string for the name of a field, such as `from` in `event.from`.
        in_from: Whether the cursor is in a FROM clause, in which a comma separates relations.
    """
    if keyword == "JOIN":
        return True
    if keyword != "FROM":
        return keyword == "," and in_from
    # The FROM of `IS DISTINCT FROM`, `IS NOT DISTINCT FROM` or `IS ! DISTINCT FROM`.
    is_comparison = cursor.key(-1) == "DISTINCT" and cursor.key(-2) in ("IS", "NOT", "!")
    return cursor.key(-1) != "DELETE" and not is_comparison


def ends_from_clause(cursor: Cursor, keyword: str) -> bool:
    """Return whether the word at the cursor is a keyword that ends a FROM clause rather than an alias.

    For example, the word `order` ends the clause in `FROM sales ORDER BY id`, but is an alias in `FROM sales order` and in
    `FROM sales AS order`.

    Args:
        cursor: The cursor at the word.
        keyword: The word in upper case, or an empty string for the name of a field.
    """
    if cursor.key(-1) == "AS":
        return False
    # GROUP, ORDER and similar words are keywords only before BY, and LATERAL ends the clause only in LATERAL VIEW.
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
