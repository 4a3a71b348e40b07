"""Statements that change rows: MERGE, UPDATE, DELETE, INSERT, TRUNCATE."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rowmerge.commands.names import FileSource, SqlText, TableName


class Match(Enum):
    """The rows to which a WHEN clause applies."""

    MATCHED = "WHEN MATCHED"
    NOT_MATCHED = "WHEN NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "WHEN NOT MATCHED BY SOURCE"


@dataclass(frozen=True)
class Assignment:
    """`column = value` in a SET list.

    `column` is the path without quotes and without the target's alias, such as `("s", "a")` for `t.s.a`.
    """

    column: tuple[str, ...]
    value: SqlText


@dataclass(frozen=True)
class UpdateAction:
    """The action UPDATE SET of a WHEN clause. `assignments` is None for `SET *`."""

    assignments: tuple[Assignment, ...] | None


@dataclass(frozen=True)
class DeleteAction:
    """The action DELETE of a WHEN clause."""


@dataclass(frozen=True)
class InsertAction:
    """The action INSERT of a WHEN clause. `assignments` is None for `INSERT *`. A value can be the keyword DEFAULT."""

    assignments: tuple[Assignment, ...] | None


Action = UpdateAction | DeleteAction | InsertAction


@dataclass(frozen=True)
class When:
    """One WHEN clause of a MERGE.

    Among the clauses with the same `match`, the first one whose condition is true applies to a row. A clause without a condition always
    applies.
    """

    match: Match
    action: Action
    condition: SqlText | None = None


@dataclass(frozen=True)
class Merge:
    """MERGE INTO.

    `source` is the text of the source relation: a table name, a table name with time travel, or a query in parentheses. `source_columns`:
    the column names after the source's alias, or empty if there are none.
    """

    target: TableName
    target_alias: str | None
    source: SqlText
    source_alias: str | None
    source_columns: tuple[str, ...]
    on: SqlText
    clauses: tuple[When, ...]
    schema_evolution: bool = False
    with_clause: SqlText | None = None
    """The list `WITH name AS (…)` before MERGE, or None."""


@dataclass(frozen=True)
class Update:
    """UPDATE table [AS alias] SET … [WHERE condition]. `with_clause`: the WITH list before UPDATE, or None."""

    target: TableName
    alias: str | None
    assignments: tuple[Assignment, ...]
    condition: SqlText | None
    with_clause: SqlText | None = None


@dataclass(frozen=True)
class Delete:
    """DELETE FROM table [AS alias] [WHERE condition]. `with_clause`: the WITH list before DELETE, or None."""

    target: TableName
    alias: str | None
    condition: SqlText | None
    with_clause: SqlText | None = None


class OverwriteMode(Enum):
    """The partitions that INSERT OVERWRITE replaces: all partitions or, with DYNAMIC, only those that receive new rows."""

    STATIC = "static"
    DYNAMIC = "dynamic"


@dataclass(frozen=True)
class Insert:
    """INSERT INTO or INSERT OVERWRITE.

    `columns` is the column list, or None if the statement has none. `partition` contains each column of PARTITION (p = 1, q) with its
    value, or None for a dynamic partition column. `query` is SELECT, VALUES, TABLE or a query in parentheses.

    As in Databricks, the statement can also delete existing rows. `replace_where` deletes the rows for which the condition is true.
    `replace_using` deletes the rows whose values in these columns equal (`=`) those of a new row. `replace_on` deletes the rows for which
    the condition is true in combination with a new row. `alias` and `query_alias` are the names of the table and the query in `replace_on`.
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
    """Whether OVERWRITE … PARTITION writes only if the partition is empty. The PARTITION clause then has a value for every column."""
    overwrite_mode: OverwriteMode | None = None
    """The partitions that OVERWRITE replaces, or None to use the mode of the session."""


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE TABLE.

    `partition` contains the columns and values of PARTITION (p = value, …). If it is empty, the statement deletes all rows.
    """

    target: TableName
    partition: tuple[tuple[str, SqlText], ...] = ()


@dataclass(frozen=True)
class DropPartitions:
    """ALTER TABLE … DROP [IF EXISTS] PARTITION (p = value, …), …: the columns and values of each partition."""

    target: TableName
    partitions: tuple[tuple[tuple[str, SqlText], ...], ...]
    if_exists: bool = False


@dataclass(frozen=True)
class CopyInto:
    """COPY INTO target FROM 'path' | (SELECT … FROM 'path') FILEFORMAT = format …, as in Databricks.

    `source`: the folder or the files, their format, and FORMAT_OPTIONS. `select`: the expressions of the SELECT, or None for all columns.
    `alias`: the alias of the path in the SELECT. `columns`: the column list, or None. `by_position`: whether columns are matched by
    position. `files`: the names after FILES, below the path. `pattern`: the glob pattern after PATTERN, below the path. `force`: whether
    files are loaded again. `schema_evolution`: whether new columns are added to the table. `validate`: whether rows are only checked.
    `validated_rows`: the number of rows to check, or None for all.
    """

    target: TableName
    source: FileSource
    select: tuple[str, ...] | None = None
    alias: str | None = None
    columns: tuple[str, ...] | None = None
    by_position: bool = False
    files: tuple[str, ...] = ()
    pattern: str | None = None
    force: bool = False
    schema_evolution: bool = False
    validate: bool = False
    validated_rows: int | None = None


ExplainedRowCommand = Merge | Update | Delete | Insert | Truncate
RowCommand = ExplainedRowCommand | DropPartitions
