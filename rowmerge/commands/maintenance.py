"""Statements that keep a table in shape: VACUUM, OPTIMIZE, REORG, RESTORE and the procedures."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.procedures import Call


@dataclass(frozen=True)
class Vacuum:
    """VACUUM table [RETAIN n HOURS] [DRY RUN]. `retain_hours`: None for the table's own retention."""

    target: TableName
    retain_hours: float | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Optimize:
    """OPTIMIZE table [WHERE condition], the condition about partition columns."""

    target: TableName
    condition: SqlText | None = None


@dataclass(frozen=True)
class Reorg:
    """REORG TABLE table [WHERE condition] APPLY (PURGE)."""

    target: TableName
    condition: SqlText | None = None


@dataclass(frozen=True)
class Restore:
    """RESTORE TABLE table TO VERSION AS OF n or a branch or tag, or TO TIMESTAMP AS OF an expression."""

    target: TableName
    version: int | None = None
    timestamp: SqlText | None = None
    reference: str | None = None


@dataclass(frozen=True)
class SetReference:
    """ALTER TABLE table CREATE [OR REPLACE] | REPLACE BRANCH | TAG name [AS OF VERSION id] [RETAIN n DAYS] …, as Iceberg spells it.

    `version`: None for the newest snapshot; times in milliseconds. `create`, `replace`: what may be done. `min_snapshots`,
    `max_snapshot_age`: what a branch keeps.
    """

    target: TableName
    name: str
    tag: bool
    create: bool = True
    replace: bool = False
    if_not_exists: bool = False
    version: int | None = None
    max_age: int | None = None
    min_snapshots: int | None = None
    max_snapshot_age: int | None = None


@dataclass(frozen=True)
class DropReference:
    """ALTER TABLE table DROP BRANCH | TAG [IF EXISTS] name."""

    target: TableName
    name: str
    tag: bool
    if_exists: bool = False


MaintenanceCommand = Vacuum | Optimize | Reorg | Restore | Call | SetReference | DropReference
