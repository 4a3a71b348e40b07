"""UPDATE, DELETE, INSERT, TRUNCATE, and the WITH list that may stand before a row-level statement."""

from __future__ import annotations

import re

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Assignment, Delete, Insert, Merge, Truncate, Update
from rowmerge.sql.cursor import Cursor
from rowmerge.sql.expressions import alias, begins_query, expression, last_expression, query_follows, until_comma, with_list
from rowmerge.sql.lexer import Kind, position
from rowmerge.sql.merge import assignment, merge

_NO_WITH = "WITH before {verb} is not supported. Use MERGE INTO … USING (the query) …, or put the query into the condition"
_NO_JOIN = "{verb} from another table is not supported. Use MERGE INTO … USING the other table ON … WHEN MATCHED THEN {verb}"


def with_statement(cursor: Cursor) -> Merge | Insert | None:
    """`WITH … MERGE` and `WITH … INSERT`; None where WITH begins a query."""
    if not with_list(cursor):
        return None
    clause = cursor.slice(0)
    match cursor.key():
        case "MERGE":
            return merge(cursor, clause)
        case "INSERT":
            return insert(cursor)
        case "UPDATE" | "DELETE" as verb if cursor.token(1).is_name:
            raise cursor.unsupported(_NO_WITH.format(verb=verb))
    return None


def update(cursor: Cursor) -> Update:
    """`UPDATE table [[AS] alias] SET column = value, … [WHERE condition]`."""
    cursor.expect("UPDATE")
    target = cursor.table_name()
    name = alias(cursor)
    cursor.expect("SET")
    assignments = []
    while True:
        column = assignment(cursor, target, name, "a value")
        value = expression(cursor, f"a value for `{'.'.join(column)}`", _assignment_ends)
        assignments.append(Assignment(column, value))
        if not cursor.accept(","):
            break
    if cursor.sees("FROM"):
        raise cursor.unsupported(_NO_JOIN.format(verb="UPDATE"))
    return Update(target, name, tuple(assignments), _where(cursor, "the assignments"))


def delete(cursor: Cursor) -> Delete:
    """`DELETE FROM table [[AS] alias] [WHERE condition]`."""
    cursor.expect("DELETE", "FROM")
    target = cursor.table_name()
    name = alias(cursor)
    if cursor.sees("USING"):
        raise cursor.unsupported(_NO_JOIN.format(verb="DELETE"))
    return Delete(target, name, _where(cursor, "the table"))


def truncate(cursor: Cursor) -> Truncate | None:
    """`TRUNCATE TABLE table`."""
    cursor.expect("TRUNCATE", "TABLE")
    target = cursor.table_name()
    if cursor.sees("PARTITION"):
        raise cursor.unsupported("TRUNCATE TABLE … PARTITION is not supported. Use DELETE FROM … WHERE on the partition's columns")
    cursor.finish("the table")
    return Truncate(target)


def insert(cursor: Cursor) -> Insert | None:
    """`INSERT [WITH SCHEMA EVOLUTION] INTO|OVERWRITE …`, also after a WITH list, which then becomes part of the query.

    None for INSERT OVERWRITE DIRECTORY.
    """
    verb = cursor.at
    cursor.expect("INSERT")
    evolution = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    how = cursor.accept_any("INTO", "OVERWRITE")
    if not how:
        raise cursor.expected("INTO or OVERWRITE")
    if how == "OVERWRITE" and _directory(cursor):
        return None
    if cursor.sees("TABLE") and cursor.token(1).is_name:
        cursor.at += 1
    target = cursor.table_name()
    partition = _partition(cursor)
    _refuse_options(cursor)
    by_name = cursor.accept("BY", "NAME")
    columns = None if by_name or not _sees_columns(cursor) else cursor.identifiers("a column's name")
    by_name = by_name or cursor.accept("BY", "NAME")
    replace_using = _replace_using(cursor, how)
    replace_where = _replace_where(cursor, how)
    if not begins_query(cursor):
        raise cursor.expected("a query (SELECT, VALUES, TABLE, WITH, FROM or a query in parentheses)")
    query = _query(cursor, verb)
    return Insert(target, columns, by_name, query, how == "OVERWRITE", partition, replace_where, replace_using, evolution)


def _assignment_ends(cursor: Cursor) -> bool:
    return until_comma(cursor) or cursor.sees_keyword({"WHERE"}) or (cursor.sees_keyword({"FROM"}) and cursor.key(-1) != "DISTINCT")


def _where(cursor: Cursor, after: str) -> SqlText | None:
    if cursor.ended:
        return None
    if not cursor.accept("WHERE"):
        raise cursor.expected(f"WHERE or the end of the statement after {after}")
    return last_expression(cursor, "a condition after WHERE")


def _directory(cursor: Cursor) -> bool:
    ahead = 1 if cursor.sees("LOCAL", "DIRECTORY") else 0
    after = cursor.token(ahead + 1)
    return cursor.key(ahead) == "DIRECTORY" and (after.kind is Kind.STRING or after.key in ("USING", "OPTIONS", "ROW", "STORED"))


def _partition(cursor: Cursor) -> tuple[tuple[str, SqlText | None], ...]:
    if not cursor.sees("PARTITION", "("):
        return ()
    cursor.at += 1

    def entry() -> tuple[str, SqlText | None]:
        name = cursor.identifier("a partition column")
        return name, expression(cursor, f"a value for `{name}`", until_comma) if cursor.accept_any("=", "==") else None

    return cursor.listed(entry)


def _refuse_options(cursor: Cursor) -> None:
    if cursor.sees("IF", "NOT", "EXISTS"):
        raise cursor.unsupported("INSERT … IF NOT EXISTS is not supported. Use MERGE INTO … WHEN NOT MATCHED THEN INSERT")
    if cursor.sees("WITH", "("):
        raise cursor.unsupported("Options after INSERT INTO … WITH (…) are not supported. Leave them out")
    if cursor.sees("DEFAULT", "VALUES"):
        raise cursor.unsupported("INSERT … DEFAULT VALUES is not supported. Write VALUES (DEFAULT, …)")


def _sees_columns(cursor: Cursor) -> bool:
    """Whether a parenthesis opens a list of columns: not a query."""
    return cursor.sees("(") and not begins_query(cursor)


def _replace_using(cursor: Cursor, how: str) -> tuple[str, ...]:
    if not cursor.sees("REPLACE", "USING"):
        return ()
    if how == "OVERWRITE":
        raise cursor.error("REPLACE USING goes with INSERT INTO. Write INSERT INTO instead of INSERT OVERWRITE")
    cursor.at += 2
    return cursor.identifiers("a column's name")


def _replace_where(cursor: Cursor, how: str) -> SqlText | None:
    if not cursor.sees("REPLACE"):
        return None
    if cursor.sees("REPLACE", "ON"):
        raise cursor.unsupported("INSERT … REPLACE ON is not supported. Use REPLACE USING (columns), REPLACE WHERE, or MERGE INTO")
    if how == "OVERWRITE":
        raise cursor.error("REPLACE WHERE goes with INSERT INTO. Write INSERT INTO instead of INSERT OVERWRITE")
    cursor.expect("REPLACE", "WHERE")
    return expression(cursor, "a condition after REPLACE WHERE", query_follows)


def _query(cursor: Cursor, verb: int) -> SqlText:
    """The query to its end. A WITH list before INSERT is put before it, each character staying on its line and column.

    What stood between the two becomes space; where the query has a WITH list of its own, the two lists become one.
    """
    start = cursor.at
    query = cursor.rest()
    if not verb:
        return query
    text, tokens = cursor.text, cursor.tokens
    first, header, begin = tokens[0].start, tokens[verb].start, tokens[start].start
    body = query.text
    if tokens[start].key == "WITH":
        if tokens[start + 1].key == "RECURSIVE":
            raise cursor.unsupported("WITH RECURSIVE after another WITH list is not supported. Put both into one list", tokens[start])
        body = "," + " " * 3 + body[4:]
    blank = re.sub(r"[^\n\t]", " ", text[header:begin])
    return SqlText(text[first:header] + blank + body, *position(text, first))
