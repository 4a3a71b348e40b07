"""MERGE INTO, as Spark and Delta write it."""

from __future__ import annotations

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Action, Assignment, DeleteAction, InsertAction, Match, Merge, UpdateAction, When
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import alias, expression, relation, until_comma

_NO_INSERT = "INSERT goes with WHEN NOT MATCHED only: the target has this row already. Write UPDATE or DELETE"
_ONLY_INSERT = "WHEN NOT MATCHED takes INSERT only: the target has no such row to change. Write INSERT, or use WHEN NOT MATCHED BY SOURCE"


def merge(cursor: Cursor, with_clause: SqlText | None = None) -> Merge:
    """`MERGE [WITH SCHEMA EVOLUTION] INTO target USING source ON condition WHEN …`."""
    cursor.expect("MERGE")
    evolution = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    target = cursor.table_name("the table to merge into")
    target_alias = alias(cursor)
    cursor.expect("USING")
    source = relation(cursor, "the source of the MERGE")
    source_alias = alias(cursor)
    source_columns = cursor.identifiers("a column's name") if source_alias is not None and cursor.sees("(") else ()
    cursor.expect("ON")
    on = expression(cursor, "a condition after ON", _when)
    clauses: list[When] = []
    while not cursor.ended:
        clauses.append(_clause(cursor, clauses, target, target_alias))
    if not clauses:
        raise cursor.error("A MERGE needs at least one WHEN clause. Add WHEN MATCHED THEN … or WHEN NOT MATCHED THEN …")
    return Merge(target, target_alias, source, source_alias, source_columns, on, tuple(clauses), evolution, with_clause)


def assignment(cursor: Cursor, target: TableName, target_alias: str | None, value: str) -> tuple[str, ...]:
    """The left side of `column = value`, up to and including the sign."""
    column = column_path(cursor, target, target_alias)
    if not cursor.accept_any("=", "=="):
        raise cursor.expected(f"= and {value}")
    return column


def column_path(cursor: Cursor, target: TableName, target_alias: str | None) -> tuple[str, ...]:
    """A column of the target as written, without the target's alias or name before it."""
    path = cursor.path("a column of the target")
    parts = target.parts if target_alias is None else (target_alias,)
    for size in range(len(parts), 0, -1):
        if len(path) > size and [part.lower() for part in path[:size]] == [part.lower() for part in parts[-size:]]:
            return path[size:]
    return path


def _when(cursor: Cursor) -> bool:
    return cursor.sees_keyword({"WHEN"})


def _clause(cursor: Cursor, before: list[When], target: TableName, target_alias: str | None) -> When:
    begin = cursor.token()
    if not cursor.accept("WHEN"):
        raise cursor.expected("WHEN or the end of the statement")
    match = _match(cursor)
    if any(clause.match is match and clause.condition is None for clause in before):
        raise cursor.error(f"Only the last {match.value} clause can go without a condition. Add AND … to the ones before it", begin)
    condition = expression(cursor, "a condition after AND", lambda c: c.sees_keyword({"THEN", "WHEN"})) if cursor.accept("AND") else None
    cursor.expect("THEN")
    return When(match, _action(cursor, match, target, target_alias), condition)


def _match(cursor: Cursor) -> Match:
    negated = bool(cursor.accept_any("NOT", "!"))
    if not cursor.accept("MATCHED"):
        raise cursor.expected("MATCHED" if negated else "MATCHED or NOT MATCHED")
    if not cursor.accept("BY"):
        return Match.NOT_MATCHED if negated else Match.MATCHED
    if not negated:
        raise cursor.error("WHEN MATCHED has no BY. Write WHEN MATCHED, or WHEN NOT MATCHED BY SOURCE", cursor.token(-1))
    side = cursor.accept_any("SOURCE", "TARGET")
    if not side:
        raise cursor.expected("SOURCE or TARGET")
    return Match.NOT_MATCHED if side == "TARGET" else Match.NOT_MATCHED_BY_SOURCE


def _action(cursor: Cursor, match: Match, target: TableName, target_alias: str | None) -> Action:
    begin = cursor.token()
    verb = cursor.accept_any("UPDATE", "DELETE", "INSERT")
    if not verb:
        raise cursor.expected("INSERT" if match is Match.NOT_MATCHED else "UPDATE or DELETE")
    if match is Match.NOT_MATCHED and verb != "INSERT":
        raise cursor.error(_ONLY_INSERT, begin)
    if match is not Match.NOT_MATCHED and verb == "INSERT":
        raise cursor.error(_NO_INSERT, begin)
    if verb == "DELETE":
        return DeleteAction()
    if verb == "INSERT":
        return InsertAction(_insert(cursor, target, target_alias))
    cursor.expect("SET")
    if match is Match.NOT_MATCHED_BY_SOURCE and cursor.sees("*"):
        raise cursor.error("UPDATE SET * needs a source row, and WHEN NOT MATCHED BY SOURCE has none. List the columns: SET column = value")
    return UpdateAction(_update(cursor, target, target_alias))


def _update(cursor: Cursor, target: TableName, target_alias: str | None) -> tuple[Assignment, ...] | None:
    if _star(cursor, "UPDATE SET"):
        return None
    assignments = []
    while True:
        column = assignment(cursor, target, target_alias, "a value")
        value = expression(cursor, f"a value for `{'.'.join(column)}`", lambda c: until_comma(c) or _when(c))
        assignments.append(Assignment(column, value))
        if not cursor.accept(","):
            return tuple(assignments)


def _insert(cursor: Cursor, target: TableName, target_alias: str | None) -> tuple[Assignment, ...] | None:
    if _star(cursor, "INSERT"):
        return None
    if cursor.sees("VALUES"):
        raise cursor.unsupported("INSERT VALUES without column names depends on the columns' order. List them: INSERT (a, b) VALUES (…)")
    columns = cursor.listed(lambda: column_path(cursor, target, target_alias))
    cursor.expect("VALUES")
    opened = cursor.token()
    values = cursor.listed(lambda: expression(cursor, "a value", until_comma))
    if len(columns) != len(values):
        raise cursor.error(f"INSERT names {len(columns)} column(s) and gives {len(values)} value(s). Give each column one value", opened)
    return tuple(map(Assignment, columns, values))


def _star(cursor: Cursor, action: str) -> bool:
    if not cursor.accept("*"):
        return False
    if cursor.sees("EXCEPT"):
        raise cursor.unsupported(f"{action} * EXCEPT is not supported. List the columns instead")
    return True
