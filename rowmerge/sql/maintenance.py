"""VACUUM."""

from __future__ import annotations

from rowmerge.commands.maintenance import Vacuum
from rowmerge.commands.names import TableName
from rowmerge.sql.cursor import Cursor
from rowmerge.sql.lexer import Kind


def vacuum(cursor: Cursor) -> Vacuum:
    """`VACUUM table [FULL] [RETAIN n HOURS] [DRY RUN]`, each once, in any order."""
    cursor.expect("VACUUM")
    target = _table(cursor)
    hours: float | None = None
    dry_run = full = False
    while not cursor.ended:
        if cursor.sees("LITE"):
            raise cursor.unsupported("VACUUM … LITE is not supported. Leave LITE out: VACUUM looks at every file of the table")
        if cursor.sees("USING", "INVENTORY"):
            raise cursor.unsupported("VACUUM … USING INVENTORY is not supported. Leave it out: VACUUM lists the table's files by itself")
        if hours is None and cursor.accept("RETAIN"):
            hours = _hours(cursor)
            cursor.expect("HOURS")
        elif not dry_run and cursor.accept("DRY", "RUN"):
            dry_run = True
        elif not full and cursor.accept("FULL"):
            full = True
        else:
            raise cursor.expected("RETAIN n HOURS, DRY RUN or the end of the statement")
    return Vacuum(target, hours, dry_run)


def _table(cursor: Cursor) -> TableName:
    if cursor.token().kind is Kind.STRING:
        raise cursor.unsupported("A table is named here, not its path. Give the path a name: CREATE TABLE name USING delta LOCATION 'path'")
    return cursor.table_name()


def _hours(cursor: Cursor) -> float:
    if cursor.sees("-"):
        raise cursor.error("A retention is not negative. Write 0 HOURS or more")
    token = cursor.token()
    try:
        hours = float(token.text) if token.kind is Kind.NUMBER else None
    except ValueError:
        hours = None
    if hours is None:
        raise cursor.expected("a number of hours")
    cursor.at += 1
    return hours
