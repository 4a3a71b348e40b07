"""Statements that define, alter and describe schemas, tables, views, columns and properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rowmerge.commands.listings import TableListing
from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import ExplainedRowCommand
from rowmerge.commands.tables import ChangeIdentifiers, CreateTableLike, Rename, SetLocation
from rowmerge.table.metadata.partitioning import Distribution, PartitionField, SortField


@dataclass(frozen=True)
class CheckConstraint:
    """`[CONSTRAINT name] CHECK (expression)`."""

    name: str | None
    expression: SqlText


@dataclass(frozen=True)
class ColumnDefinition:
    """`name type [NOT NULL] [COMMENT '…'] [DEFAULT …] [GENERATED ALWAYS AS (…)] [[CONSTRAINT …] CHECK (…)]`.

    `type` is the SQL text of the type, in which the names of nested fields keep their quotes. `identity`: whether the column is declared as
    GENERATED … AS IDENTITY. `generated`: the expression of a generated column. `checks`: the CHECK constraints in the column's definition.
    """

    name: str
    type: SqlText
    nullable: bool = True
    comment: str | None = None
    default: SqlText | None = None
    generated: SqlText | None = None
    identity: bool = False
    checks: tuple[CheckConstraint, ...] = ()
    within: tuple[str, ...] = ()
    """The path of the struct to which ADD COLUMN adds a nested field. Empty for a top-level column."""

    @property
    def path(self) -> str:
        """Return the dotted name of the column, including the structs that contain a nested field."""
        return ".".join((*self.within, self.name))


@dataclass(frozen=True)
class CreateTable:
    """CREATE [OR REPLACE] TABLE or REPLACE TABLE.

    `format` is the name after USING in lower case, or None if the statement has no USING clause. `partitioned_by`: partition fields,
    which have a name only if the statement contains AS. A column that PARTITIONED BY (name type) defines is also in `columns`. `query`: the
    query after AS, or None.
    """

    name: TableName
    columns: tuple[ColumnDefinition, ...] = ()
    query: SqlText | None = None
    format: str | None = None
    partitioned_by: tuple[PartitionField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    location: str | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    checks: tuple[CheckConstraint, ...] = ()
    """The CHECK constraints of the table and of its columns."""
    write_order: SetWriteOrder | None = None
    """The sort order of rows in data files, or None if the statement has no WRITE clause."""


@dataclass(frozen=True)
class CloneTable:
    """CREATE [OR REPLACE] TABLE … SHALLOW CLONE source, or [DEEP] CLONE source, which copies the data files.

    At most one of `version`, `timestamp` and `reference` (a branch or tag) selects the cloned snapshot. If all are None, the statement
    clones the newest snapshot.
    """

    name: TableName
    source: TableName
    version: int | None = None
    timestamp: SqlText | None = None
    reference: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    shallow: bool = True


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] [TEMPORARY] VIEW.

    `columns` contains the name and the comment of each column, or is empty if the statement has no column list.
    """

    name: TableName
    query: SqlText
    columns: tuple[tuple[str, str | None], ...] = ()
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class CreateSchema:
    """CREATE SCHEMA [IF NOT EXISTS] name [COMMENT '…'] [WITH DBPROPERTIES (…)]."""

    name: str
    if_not_exists: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DropSchema:
    """DROP SCHEMA [IF EXISTS] name [RESTRICT|CASCADE]."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Drop:
    """DROP TABLE or DROP VIEW."""

    name: TableName
    view: bool
    if_exists: bool = False


@dataclass(frozen=True)
class ReplaceColumns:
    """ALTER TABLE … REPLACE COLUMNS (…)."""

    name: TableName
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True)
class AddColumns:
    """ALTER TABLE … ADD COLUMN[S] (…).

    `positions` maps the path of an added column to the column that it follows, or to None for FIRST.
    """

    name: TableName
    columns: tuple[ColumnDefinition, ...]
    positions: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class AddConstraint:
    """ALTER TABLE … ADD [CONSTRAINT name] CHECK (expression)."""

    name: TableName
    check: CheckConstraint


@dataclass(frozen=True)
class DropConstraint:
    """ALTER TABLE … DROP CONSTRAINT [IF EXISTS] constraint."""

    name: TableName
    constraint: str
    if_exists: bool = False


@dataclass(frozen=True)
class ChangePartitioning:
    """ALTER TABLE … ADD, DROP or REPLACE PARTITION FIELD, as in Iceberg's SQL extensions.

    `dropped` identifies a partition field by its column and transform, or by its name, which is then stored as the column. An added field
    without a name receives one when the statement runs.
    """

    name: TableName
    dropped: PartitionField | None = None
    added: PartitionField | None = None


@dataclass(frozen=True)
class SetWriteOrder:
    """ALTER TABLE … WRITE …: the sort order of new files, which can be empty, and the distribution of rows among tasks.

    If `distribution` is None, the table keeps its distribution.
    """

    name: TableName
    ordering: tuple[SortField, ...] = ()
    distribution: Distribution | None = None


@dataclass(frozen=True)
class RenameColumn:
    """ALTER TABLE … RENAME COLUMN a.b TO c."""

    name: TableName
    column: tuple[str, ...]
    new_name: str


@dataclass(frozen=True)
class DropColumns:
    """ALTER TABLE … DROP COLUMN[S]."""

    name: TableName
    columns: tuple[tuple[str, ...], ...]
    if_exists: bool = False


@dataclass(frozen=True)
class SetDefault:
    """ALTER TABLE … ALTER COLUMN column SET DEFAULT value. If `value` is None, the statement is DROP DEFAULT."""

    name: TableName
    column: str
    value: SqlText | None


@dataclass(frozen=True)
class SetNullable:
    """ALTER TABLE … ALTER COLUMN column DROP NOT NULL, or SET NOT NULL if `nullable` is false."""

    name: TableName
    column: tuple[str, ...]
    nullable: bool


@dataclass(frozen=True)
class ColumnPlace:
    """The position of a column: AFTER another column of the same table or struct, or FIRST if `previous_column` is None."""

    previous_column: str | None

    def __str__(self) -> str:
        return "FIRST" if self.previous_column is None else f"AFTER {self.previous_column}"


@dataclass(frozen=True)
class AlterColumn:
    """ALTER TABLE … ALTER COLUMN … TYPE, FIRST or AFTER, or Hive's CHANGE COLUMN, which can also set a comment.

    A value of None leaves the type, the comment or the place unchanged.
    """

    name: TableName
    column: tuple[str, ...]
    type: SqlText | None = None
    comment: str | None = None
    place: ColumnPlace | None = None


@dataclass(frozen=True)
class SetProperties:
    """ALTER TABLE/VIEW … SET TBLPROPERTIES."""

    name: TableName
    properties: Mapping[str, str]


@dataclass(frozen=True)
class UnsetProperties:
    """ALTER TABLE/VIEW … UNSET TBLPROPERTIES [IF EXISTS] (keys)."""

    name: TableName
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class CommentOn:
    """COMMENT ON TABLE, COMMENT ON COLUMN, or ALTER TABLE … ALTER|CHANGE COLUMN c COMMENT '…'.

    `column` is the path of the column, or None for the comment of the table.
    """

    name: TableName
    comment: str | None
    column: tuple[str, ...] | None = None


@dataclass(frozen=True)
class CommentOnColumns:
    """ALTER TABLE … ALTER COLUMN a COMMENT '…', b.c COMMENT '…'. `comments`: the path and the comment of each column or field."""

    name: TableName
    comments: tuple[tuple[tuple[str, ...], str], ...]


class Detail(Enum):
    """The kind of information that a DESCRIBE statement requests."""

    COLUMNS = "DESCRIBE"
    EXTENDED = "DESCRIBE EXTENDED"
    DETAIL = "DESCRIBE DETAIL"
    HISTORY = "DESCRIBE HISTORY"


@dataclass(frozen=True)
class Describe:
    """DESCRIBE [EXTENDED|DETAIL|HISTORY] name. `limit`: the maximum number of versions in DESCRIBE HISTORY, or None for all."""

    name: TableName
    detail: Detail
    limit: int | None = None


@dataclass(frozen=True)
class ShowSchemas:
    """SHOW SCHEMAS [IN catalog] [LIKE 'pattern']. `catalog`: None for the current catalog."""

    like: str | None = None
    catalog: str | None = None


@dataclass(frozen=True)
class ShowCatalogs:
    """SHOW CATALOGS [LIKE 'pattern']."""

    like: str | None = None


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES, SHOW VIEWS (`views`) or SHOW TABLE EXTENDED (`extended`).

    `schema` is None for the current schema. `like`: the pattern that the names must match, or None for all names.
    """

    schema: str | None = None
    like: str | None = None
    views: bool = False
    extended: bool = False


@dataclass(frozen=True)
class ShowProperties:
    """SHOW TBLPROPERTIES name [('key')]."""

    name: TableName
    key: str | None = None


@dataclass(frozen=True)
class ShowColumns:
    """SHOW COLUMNS IN table [IN schema]."""

    name: TableName


@dataclass(frozen=True)
class UseSchema:
    """USE [SCHEMA] name."""

    name: str


@dataclass(frozen=True)
class Query:
    """A query, or another statement that Spark executes. The engine replaces only the table names, by views of the tables' snapshots."""

    text: str


SchemaCommand = CreateSchema | DropSchema | UseSchema
ColumnCommand = AddColumns | ReplaceColumns | ChangeIdentifiers | RenameColumn | DropColumns | AlterColumn
PropertyCommand = SetProperties | UnsetProperties
ConstraintCommand = AddConstraint | DropConstraint | SetDefault | SetNullable
AlterTable = ColumnCommand | ConstraintCommand | PropertyCommand | CommentOn | CommentOnColumns | ChangePartitioning | SetWriteOrder
ListingCommand = Describe | ShowCatalogs | ShowSchemas | ShowTables | ShowProperties | ShowColumns | TableListing
TableCommand = CreateTable | CloneTable | CreateTableLike | CreateView | Drop | Rename | SetLocation
DefinitionCommand = TableCommand | SchemaCommand | AlterTable | ListingCommand


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [EXTENDED|FORMATTED|…] of a query, of a command that changes rows, or of CREATE TABLE … AS SELECT. Nothing is executed.

    The result for a query contains Spark's plan. The result for a command contains Spark's plan of its query in the mode `mode`, for
    example EXTENDED, if it is not empty.
    """

    command: ExplainedRowCommand | CreateTable | Query
    mode: str = ""
