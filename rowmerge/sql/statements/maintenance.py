"""VACUUM, OPTIMIZE, REORG and RESTORE."""

from __future__ import annotations

from rowmerge.commands.maintenance import Optimize, Reorg, Restore, Vacuum
from rowmerge.commands.names import SqlText, TableName
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import expression, time_travel
from rowmerge.sql.lexing.lexer import Kind


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


def optimize(cursor: Cursor) -> Optimize:
    """`OPTIMIZE table [WHERE condition]`."""
    cursor.expect("OPTIMIZE")
    target = _table(cursor)
    if cursor.sees("FULL"):
        raise cursor.unsupported("OPTIMIZE … FULL is for clustered tables, and clustering is not supported. Leave FULL out")
    condition = _where(cursor, frozenset({"ZORDER"}))
    if cursor.sees("ZORDER", "BY"):
        raise cursor.unsupported("OPTIMIZE … ZORDER BY is not supported. Leave ZORDER BY out, or write the table sorted: INSERT … ORDER BY")
    cursor.finish("the table")
    return Optimize(target, condition)


def reorg(cursor: Cursor) -> Reorg:
    """`REORG TABLE table [WHERE condition] APPLY (PURGE)`."""
    cursor.expect("REORG", "TABLE")
    target = _table(cursor)
    condition = _where(cursor, frozenset({"APPLY"}))
    cursor.expect("APPLY", "(")
    if cursor.sees("UPGRADE"):
        raise cursor.unsupported("REORG … APPLY (UPGRADE UNIFORM …) is not supported. Use an engine that writes Iceberg metadata")
    cursor.expect("PURGE", ")")
    cursor.finish("APPLY (PURGE)")
    return Reorg(target, condition)


def restore(cursor: Cursor) -> Restore:
    """`RESTORE [TABLE] table [TO] VERSION AS OF n | TIMESTAMP AS OF time`."""
    cursor.expect("RESTORE")
    if cursor.sees("TABLE") and cursor.token(1).is_name:
        cursor.at += 1
    target = _table(cursor)
    cursor.accept("TO")
    travel = time_travel(cursor)
    if travel is None:
        raise cursor.expected("TO VERSION AS OF a number, or TO TIMESTAMP AS OF a time")
    cursor.finish("the version")
    return Restore(target, travel.version, travel.timestamp, travel.reference)


def _where(cursor: Cursor, before: frozenset[str]) -> SqlText | None:
    if not cursor.accept("WHERE"):
        return None
    return expression(cursor, "a condition after WHERE", lambda here: here.sees_keyword(before))


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
