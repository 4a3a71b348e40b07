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


@dataclass(frozen=True)
class Delete:
    target: TableName
    alias: str | None
    condition: SqlText | None


@dataclass(frozen=True)
class Insert:
    """INSERT INTO / OVERWRITE.

    `columns`: the column list, None when there is none; `by_name`: BY NAME; `partition`: PARTITION (p = 1, q) as (column, value or None);
    `query` is SELECT, VALUES, TABLE or a query in parentheses. `replace_where`: REPLACE WHERE condition; `replace_using`: REPLACE USING
    (columns), as Databricks spells it: rows of the table whose values of these columns equal (null-safe) those of a new row leave.
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


@dataclass(frozen=True)
class Truncate:
    target: TableName


RowCommand = Merge | Update | Delete | Insert | Truncate
