"""The grammar of ALTER TABLE … CREATE, REPLACE and DROP BRANCH or TAG, as in Iceberg's SQL extensions."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.maintenance import DropReference, SetReference
from rowmerge.commands.names import TableName
from rowmerge.sql.lexing.cursor import Cursor

_UNITS = {"DAYS": 86_400_000, "HOURS": 3_600_000, "MINUTES": 60_000}
"""The number of milliseconds in each unit of time."""


def parse_drop_reference(cursor: Cursor, table: TableName, kind: str) -> DropReference:
    """Parse `[IF EXISTS] name` after DROP BRANCH or DROP TAG.

    Args:
        cursor: The cursor after BRANCH or TAG.
        table: The name of the table.
        kind: BRANCH or TAG.

    Raises:
        Unparsable: The text does not follow the grammar.
    """
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.identifier(f"the name of a {kind.lower()}")
    cursor.expect_end("the name")
    return DropReference(table, name, kind == "TAG", if_exists)


def parse_set_reference(cursor: Cursor, table: TableName, verb: str, kind: str) -> SetReference:
    """Parse `[IF NOT EXISTS] name [AS OF VERSION id] [RETAIN …] [WITH SNAPSHOT RETENTION …]` after CREATE BRANCH and similar keywords.

    A branch or tag is a named reference to a snapshot. RETAIN limits the age of the reference. SNAPSHOT RETENTION determines which older
    snapshots of a branch expire ("Snapshot Retention Policy" in the Iceberg specification).

    Args:
        cursor: The cursor after BRANCH or TAG.
        table: The name of the table.
        verb: CREATE, CREATE OR REPLACE or REPLACE.
        kind: BRANCH or TAG.

    Raises:
        Unparsable: The text does not follow the grammar.
        UnsupportedStatement: A tag has WITH SNAPSHOT RETENTION.
    """
    if_not_exists = verb == "CREATE" and cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier(f"the name of a {kind.lower()}")
    version = cursor.integer("the id of a snapshot after AS OF VERSION") if cursor.accept("AS", "OF", "VERSION") else None
    max_age = _parse_duration(cursor) if cursor.accept("RETAIN") else None
    min_snapshots, max_snapshot_age = _parse_snapshot_retention(cursor, kind)
    cursor.expect_end("the retention" if max_age or min_snapshots or max_snapshot_age else "the name")
    # CREATE OR REPLACE may create a new branch or tag, and replace an old one.
    creates, replaces = "CREATE" in verb, "REPLACE" in verb
    reference = SetReference(table, name, tag=kind == "TAG", create=creates, replace=replaces, if_not_exists=if_not_exists)
    return replace(reference, version=version, max_age=max_age, min_snapshots=min_snapshots, max_snapshot_age=max_snapshot_age)


def _parse_snapshot_retention(cursor: Cursor, kind: str) -> tuple[int | None, int | None]:
    """Parse `[WITH SNAPSHOT RETENTION [n SNAPSHOTS] [n DAYS]]` of a branch. Return the number of snapshots, and the age in milliseconds."""
    if not cursor.accept("WITH", "SNAPSHOT", "RETENTION"):
        return None, None
    if kind == "TAG":
        raise cursor.unsupported("A tag keeps one snapshot, so SNAPSHOT RETENTION is not allowed. Leave it out")
    if cursor.key(1) != "SNAPSHOTS":
        return None, _parse_duration(cursor)
    min_snapshots = cursor.integer("a number of snapshots")
    cursor.expect("SNAPSHOTS")
    return min_snapshots, None if cursor.at_end else _parse_duration(cursor)


def _parse_duration(cursor: Cursor) -> int:
    """Parse `n DAYS|HOURS|MINUTES`, and return the duration in milliseconds."""
    return cursor.integer("a number of days, hours or minutes") * _UNITS[cursor.expect_any("DAYS, HOURS or MINUTES")]
