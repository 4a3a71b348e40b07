"""UPDATE, DELETE, INSERT, TRUNCATE, and the WITH list that may stand before a row-level statement."""

from __future__ import annotations

import itertools
import re
from typing import TypedDict

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Assignment, Delete, Insert, Merge, Truncate, Update
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import alias, begins_query, expression, last_expression, query_follows, until_comma, with_list
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.sql.statements.columns import properties
from rowmerge.sql.statements.merge import assignment, merge

_NO_JOIN = "{verb} from another table is not supported. Use MERGE INTO … USING the other table ON … WHEN MATCHED THEN {verb}"
_OVERWRITE_MODES = ("partitionoverwritemode", "overwrite-mode")
"""The option of Delta's writer, and of Iceberg's."""


def with_statement(cursor: Cursor) -> Merge | Update | Delete | Insert | None:
    """`WITH …` before a row-level statement; None where WITH begins a query."""
    if not with_list(cursor):
        return None
    clause = cursor.slice(0)
    match cursor.key():
        case "MERGE":
            return merge(cursor, clause)
        case "INSERT":
            return insert(cursor)
        case "FROM":
            return from_statement(cursor)
        case "UPDATE" if cursor.token(1).is_name:
            return update(cursor, clause)
        case "DELETE" if cursor.token(1).is_name:
            return delete(cursor, clause)
    return None


def update(cursor: Cursor, with_clause: SqlText | None = None) -> Update:
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
    return Update(target, name, tuple(assignments), _where(cursor, "the assignments"), with_clause)


def delete(cursor: Cursor, with_clause: SqlText | None = None) -> Delete:
    """`DELETE FROM table [[AS] alias] [WHERE condition]`."""
    cursor.expect("DELETE", "FROM")
    target = cursor.table_name()
    name = alias(cursor)
    if cursor.sees("USING"):
        raise cursor.unsupported(_NO_JOIN.format(verb="DELETE"))
    return Delete(target, name, _where(cursor, "the table"), with_clause)


def truncate(cursor: Cursor) -> Truncate | None:
    """`TRUNCATE TABLE table [PARTITION (column = value, …)]`."""
    cursor.expect("TRUNCATE", "TABLE")
    target = cursor.table_name()
    partition = []
    for name, value in _partition(cursor):
        if value is None:
            raise cursor.error(f"TRUNCATE TABLE … PARTITION needs a value for `{name}`. Write {name} = …, or leave it out")
        partition.append((name, value))
    cursor.finish("the partition" if partition else "the table")
    return Truncate(target, tuple(partition))


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
    dynamic = _dynamic(cursor, how)
    name = _target_alias(cursor)
    partition = _partition(cursor)
    if_not_exists = _if_not_exists(cursor, how, partition)
    columns, by_name = _columns(cursor)
    replaced = _replaced(cursor, how, partition)
    if name is not None and "replace_on" not in replaced:
        raise cursor.error(f"The alias `{name}` is for REPLACE ON. Leave it out, or write REPLACE ON and a condition")
    query, query_alias = _query(cursor, verb, takes_alias="replace_on" in replaced)
    return Insert(
        target,
        columns,
        by_name,
        query,
        how == "OVERWRITE",
        partition,
        schema_evolution=evolution,
        alias=name,
        query_alias=query_alias,
        if_not_exists=if_not_exists,
        dynamic=dynamic,
        **replaced,
    )


def from_statement(cursor: Cursor) -> Insert | None:
    """`FROM …` is a query; Hive's `FROM … INSERT …`, which writes one query into several tables, is refused."""
    keys = cursor.tokens.keys
    for at, (key, following) in enumerate(itertools.pairwise(keys)):
        if key == "INSERT" and following in ("INTO", "OVERWRITE"):
            reason = "INSERT after FROM is not supported. Write one INSERT INTO … SELECT … FROM … for each table"
            raise cursor.unsupported(reason, cursor.tokens[at])
    return None


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


def _dynamic(cursor: Cursor, how: str) -> bool | None:
    """`WITH ('partitionOverwriteMode' = 'dynamic')` after the name of a table that is overwritten; Iceberg's name for it will do too."""
    if not cursor.sees("WITH", "("):
        return None
    start = cursor.token()
    cursor.at += 1
    given = properties(cursor, "The option")
    others = [name for name in given if name.lower() not in _OVERWRITE_MODES]
    if others or how == "INTO":
        name = (others or list(given))[0]
        raise cursor.unsupported(f"The option `{name}` of INSERT {how} is not supported. Leave it out", start)
    chosen = {value.lower() for value in given.values()}
    if chosen not in ({"dynamic"}, {"static"}):
        raise cursor.error(f"`{next(iter(given))}` is dynamic or static. Set it to one of them", start)
    return chosen == {"dynamic"}


def _columns(cursor: Cursor) -> tuple[tuple[str, ...] | None, bool]:
    """Read `[(columns)] [BY NAME]`. Return the columns, None without a list, and whether BY NAME stands there."""
    if cursor.sees("DEFAULT", "VALUES"):
        raise cursor.unsupported("INSERT … DEFAULT VALUES is not supported. Write VALUES (DEFAULT, …)")
    if cursor.accept("BY", "NAME"):
        return None, True
    columns = cursor.identifiers("a column's name") if cursor.sees("(") and not begins_query(cursor) else None
    return columns, cursor.accept("BY", "NAME")


class _Replaced(TypedDict, total=False):
    replace_where: SqlText
    replace_using: tuple[str, ...]
    replace_on: SqlText


def _replaced(cursor: Cursor, how: str, partition: tuple[tuple[str, SqlText | None], ...]) -> _Replaced:
    """`REPLACE WHERE condition`, `REPLACE USING (columns)` or `REPLACE ON condition`, when one stands here."""
    if not cursor.accept("REPLACE"):
        return {}
    kind = cursor.accept_any("WHERE", "USING", "ON")
    if not kind:
        raise cursor.expected("WHERE, USING or ON")
    if how == "OVERWRITE":
        raise cursor.error(f"REPLACE {kind} goes with INSERT INTO. Write INSERT INTO instead of INSERT OVERWRITE")
    if partition:
        raise cursor.error(f"REPLACE {kind} and PARTITION do not go together. Select the partition's values, without PARTITION")
    if kind == "USING":
        return {"replace_using": cursor.identifiers("a column's name")}
    condition = expression(cursor, f"a condition after REPLACE {kind}", query_follows)
    return {"replace_where": condition} if kind == "WHERE" else {"replace_on": condition}


def _target_alias(cursor: Cursor) -> str | None:
    """`[AS] name` before REPLACE ON: a plain name there would else be the beginning of something."""
    if cursor.accept("AS"):
        return cursor.identifier("an alias")
    after = [cursor.key(ahead) for ahead in range(1, 4)]
    if cursor.token().is_name and (after[0] == "REPLACE" or after == ["BY", "NAME", "REPLACE"]):
        return cursor.identifier("an alias")
    return None


def _query_alias(cursor: Cursor) -> str | None:
    """The name after `(query)` at the end of the statement, which is taken off."""
    if not cursor.sees("("):
        return None
    start = cursor.at
    cursor.skip_group()
    end = cursor.at
    name = None
    if cursor.accept("AS") or (cursor.token().is_name and cursor.token(1).kind is Kind.END):
        name = cursor.identifier("an alias")
    if name is not None:
        cursor.finish("the query's alias")
        cursor.tokens = cursor.tokens.between(0, end)
    cursor.at = start
    return name


def _if_not_exists(cursor: Cursor, how: str, partition: tuple[tuple[str, SqlText | None], ...]) -> bool:
    if not cursor.sees("IF", "NOT", "EXISTS"):
        return False
    if how == "INTO":
        raise cursor.error("IF NOT EXISTS goes with INSERT OVERWRITE … PARTITION (column = value). For new rows only, use MERGE INTO")
    if not partition or any(value is None for _, value in partition):
        raise cursor.error("IF NOT EXISTS needs PARTITION (column = value, …) before it, with a value for every column")
    cursor.at += 3
    return True


def _query(cursor: Cursor, verb: int, takes_alias: bool) -> tuple[SqlText, str | None]:
    """Read the query to the end of the statement, which begins with INSERT at token `verb`. Return it, and the alias after it."""
    if not begins_query(cursor):
        raise cursor.expected("a query (SELECT, VALUES, TABLE, WITH, FROM or a query in parentheses)")
    query_alias = _query_alias(cursor) if takes_alias else None
    return _query_after_with_list(cursor, verb), query_alias


def _query_after_with_list(cursor: Cursor, verb: int) -> SqlText:
    """Read the query, and put the WITH list that stands before INSERT before it. Each character stays on its line and column.

    The text between the two becomes spaces. If the query has a WITH list of its own, the two lists become one.
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
    return SqlText(text[first:header] + blank + body, *tokens.place(first))
