"""ALTER TABLE … CREATE, REPLACE and DROP BRANCH and TAG, after Iceberg's SQL extensions."""

from __future__ import annotations

from rowmerge.commands.maintenance import DropReference, SetReference
from rowmerge.commands.names import TableName
from rowmerge.sql.lexing.cursor import Cursor

_UNITS = {"DAYS": 86_400_000, "HOURS": 3_600_000, "MINUTES": 60_000}


def snapshot_reference(cursor: Cursor, table: TableName) -> SetReference | DropReference | None:
    """What comes after the table's name; None for everything else."""
    start = cursor.at
    if cursor.accept("DROP"):
        if kind := cursor.accept_any("BRANCH", "TAG"):
            if_exists = cursor.accept("IF", "EXISTS")
            dropped = DropReference(table, cursor.identifier(f"the name of a {kind.lower()}"), kind == "TAG", if_exists)
            cursor.finish("the name")
            return dropped
    else:
        create = cursor.accept("CREATE")
        replace = cursor.accept("OR", "REPLACE") if create else cursor.accept("REPLACE")
        if (create or replace) and (kind := cursor.accept_any("BRANCH", "TAG")):
            return _set(cursor, table, kind == "TAG", create=create, replace=replace)
    cursor.at = start
    return None


def _set(cursor: Cursor, table: TableName, tag: bool, *, create: bool, replace: bool) -> SetReference:
    if_not_exists = create and not replace and cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier(f"the name of a {'tag' if tag else 'branch'}")
    version = cursor.integer("the id of a snapshot after AS OF VERSION") if cursor.accept("AS", "OF", "VERSION") else None
    max_age = _time(cursor) if cursor.accept("RETAIN") else None
    least = age = None
    if cursor.accept("WITH", "SNAPSHOT", "RETENTION"):
        if tag:
            raise cursor.unsupported("A tag keeps one snapshot, and takes no SNAPSHOT RETENTION. Leave it out")
        if cursor.key(1) == "SNAPSHOTS":
            least = cursor.integer("a number of snapshots")
            cursor.expect("SNAPSHOTS")
        age = _time(cursor) if least is None or not cursor.ended else None
    cursor.finish("the retention" if max_age or least or age else "the name")
    return SetReference(table, name, tag, create, replace, if_not_exists, version, max_age, least, age)


def _time(cursor: Cursor) -> int:
    """`n DAYS | HOURS | MINUTES` in milliseconds."""
    number = cursor.integer("a number of days, hours or minutes")
    unit = cursor.accept_any(*_UNITS)
    if not unit:
        raise cursor.expected("DAYS, HOURS or MINUTES")
    return number * _UNITS[unit]
