"""Statements that change rows: MERGE, UPDATE, DELETE, INSERT, TRUNCATE."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rowmerge.commands.names import SqlText, TableName


class Match(Enum):
    """Which rows a WHEN clause is about."""

    MATCHED = "WHEN MATCHED"
    NOT_MATCHED = "WHEN NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "WHEN NOT MATCHED BY SOURCE"


@dataclass(frozen=True)
class Assignment:
    """`column = value`; `column` is the path as written, unquoted, without the target's alias (`("s", "a")` for `t.s.a`)."""

    column: tuple[str, ...]
    value: SqlText


@dataclass(frozen=True)
class UpdateAction:
    """UPDATE SET. `assignments` is None for `SET *`."""

    assignments: tuple[Assignment, ...] | None


@dataclass(frozen=True)
class DeleteAction:
    """DELETE."""


@dataclass(frozen=True)
class InsertAction:
    """INSERT. `assignments` is None for `INSERT *`; a value of `DEFAULT` is the text DEFAULT."""

    assignments: tuple[Assignment, ...] | None


Action = UpdateAction | DeleteAction | InsertAction


@dataclass(frozen=True)
class When:
    """One WHEN clause; the first one of its kind whose condition is true wins."""

    match: Match
    action: Action
    condition: SqlText | None = None


@dataclass(frozen=True)
class Merge:
    """MERGE INTO. `source` is the relation as written: a name, a name with time travel, or a query in parentheses."""

    target: TableName
    target_alias: str | None
    source: SqlText
    source_alias: str | None
    source_columns: tuple[str, ...]
    on: SqlText
    clauses: tuple[When, ...]
    schema_evolution: bool = False
    with_clause: SqlText | None = None
    """`WITH name AS (…)` before MERGE, when there is one."""


@dataclass(frozen=True)
class Update:
    target: TableName
    alias: str | None
    assignments: tuple[Assignment, ...]
    condition: SqlText | None
    with_clause: SqlText | None = None


@dataclass(frozen=True)
class Delete:
    target: TableName
    alias: str | None
    condition: SqlText | None
    with_clause: SqlText | None = None


class OverwriteMode(Enum):
    """The partitions that OVERWRITE replaces: all of them, or with DYNAMIC only those that get a row."""

    STATIC = "static"
    DYNAMIC = "dynamic"


@dataclass(frozen=True)
class Insert:
    """INSERT INTO / OVERWRITE.

    `columns`: the column list, None when there is none; `by_name`: BY NAME; `partition`: PARTITION (p = 1, q) as (column, value or None);
    `query` is SELECT, VALUES, TABLE or a query in parentheses. As Databricks spells them: `replace_where`: rows for which the condition
    is true leave; `replace_using`: rows whose values of these columns equal (`=`) those of a new row leave; `replace_on`: rows for which
    the condition is true with a new row leave, `alias` and `query_alias` are what it calls table and query.
    """

    target: TableName
    columns: tuple[str, ...] | None
    by_name: bool
    query: SqlText
    overwrite: bool = False
    partition: tuple[tuple[str, SqlText | None], ...] = ()
    replace_where: SqlText | None = None
    replace_using: tuple[str, ...] = ()
    schema_evolution: bool = False
    replace_on: SqlText | None = None
    alias: str | None = None
    query_alias: str | None = None
    if_not_exists: bool = False
    """OVERWRITE only where the partition, all of whose values are given, holds nothing."""
    overwrite_mode: OverwriteMode | None = None
    """None for the mode of the session."""


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE TABLE. `partition`: PARTITION (p = value, …), all partitions when empty."""

    target: TableName
    partition: tuple[tuple[str, SqlText], ...] = ()


RowCommand = Merge | Update | Delete | Insert | Truncate
