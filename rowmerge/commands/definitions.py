"""Statements that define, alter and describe schemas, tables, views, columns and properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import RowCommand
from rowmerge.table.metadata.partitioning import Distribution, PartitionField, SortField


@dataclass(frozen=True)
class CheckConstraint:
    """`[CONSTRAINT name] CHECK (expression)`."""

    name: str | None
    expression: SqlText


@dataclass(frozen=True)
class ColumnDefinition:
    """`name type [NOT NULL] [COMMENT '…'] [DEFAULT …] [GENERATED ALWAYS AS (…)] [[CONSTRAINT …] CHECK (…)]`.

    `type` is the user's text, in which names of nested fields keep their quotes. `identity`: whether the column is GENERATED … AS IDENTITY.
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
    """In ADD COLUMN, the path of the struct that gets the field."""

    @property
    def path(self) -> str:
        """Return the dotted name, with the structs around a field."""
        return ".".join((*self.within, self.name))


@dataclass(frozen=True)
class CreateTable:
    """CREATE [OR REPLACE] TABLE, REPLACE TABLE. `format` is the name after USING in lower case, None without USING.

    `partitioned_by` has the partition fields without names. A column that PARTITIONED BY (name type) defines is also in `columns`.
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
    """The constraints of the table and of its columns."""


@dataclass(frozen=True)
class CloneTable:
    """CREATE [OR REPLACE] TABLE … SHALLOW CLONE source.

    The cloned snapshot is that of `version`, `timestamp` or `reference` (a branch or tag), or the newest one if all three are None.
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


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] [TEMPORARY] VIEW. `columns` has the name and the comment of each column, or is empty without a list."""

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
class AddColumns:
    """ALTER TABLE … ADD COLUMN[S] (…). `positions` maps the path of a column to the column after which it goes, or to None for FIRST."""

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

    `dropped` is the column and the transform of a partition field, or the field's name as a column. An added field without a name gets
    one when the statement runs.
    """

    name: TableName
    dropped: PartitionField | None = None
    added: PartitionField | None = None


@dataclass(frozen=True)
class SetWriteOrder:
    """ALTER TABLE … WRITE …: the sort order, which can be empty, and the distribution of rows over tasks.

    With the `distribution` None, the table keeps its distribution.
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
    """ALTER TABLE … ALTER COLUMN column SET DEFAULT value, or DROP DEFAULT with the value None."""

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
    """The position of a column: FIRST (None), or AFTER another column of the same table or struct."""

    previous_column: str | None

    def __str__(self) -> str:
        return "FIRST" if self.previous_column is None else f"AFTER {self.previous_column}"


@dataclass(frozen=True)
class AlterColumn:
    """ALTER TABLE … ALTER COLUMN … TYPE, FIRST or AFTER. Hive's form, CHANGE COLUMN, can also have a comment. None means no change."""

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
    """COMMENT ON TABLE, COMMENT ON COLUMN, or ALTER TABLE … ALTER|CHANGE COLUMN c COMMENT '…'. `column` is None for the table's comment."""

    name: TableName
    comment: str | None
    column: tuple[str, ...] | None = None


@dataclass(frozen=True)
class CommentOnColumns:
    """ALTER TABLE … ALTER COLUMN a COMMENT '…', b.c COMMENT '…'. `comments` has the path and the comment of each column or field."""

    name: TableName
    comments: tuple[tuple[tuple[str, ...], str], ...]


class Detail(Enum):
    """The form of a DESCRIBE."""

    COLUMNS = "DESCRIBE"
    EXTENDED = "DESCRIBE EXTENDED"
    DETAIL = "DESCRIBE DETAIL"
    HISTORY = "DESCRIBE HISTORY"


@dataclass(frozen=True)
class Describe:
    """DESCRIBE [EXTENDED|DETAIL|HISTORY] name. `limit`: the largest number of versions in DESCRIBE HISTORY, None for all."""

    name: TableName
    detail: Detail
    limit: int | None = None


@dataclass(frozen=True)
class ShowSchemas:
    """SHOW SCHEMAS [LIKE 'pattern']."""

    like: str | None = None


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES, SHOW VIEWS (`views`) or SHOW TABLE EXTENDED (`extended`). `schema` is None for the current schema."""

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
    """A query, or another statement that Spark executes. Only the names of tables in it are replaced, by views of their snapshots."""

    text: str


SchemaCommand = CreateSchema | DropSchema | UseSchema
ColumnCommand = AddColumns | RenameColumn | DropColumns | AlterColumn
PropertyCommand = SetProperties | UnsetProperties
ConstraintCommand = AddConstraint | DropConstraint | SetDefault | SetNullable
AlterTable = ColumnCommand | ConstraintCommand | PropertyCommand | CommentOn | CommentOnColumns | ChangePartitioning | SetWriteOrder
ListingCommand = Describe | ShowSchemas | ShowTables | ShowProperties | ShowColumns
DefinitionCommand = CreateTable | CloneTable | CreateView | Drop | SchemaCommand | AlterTable | ListingCommand


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [EXTENDED|FORMATTED|…] of a command that changes rows, or of CREATE TABLE … AS SELECT. The command is not executed.

    With a `mode`, such as EXTENDED, the result also has Spark's plan of the command's query in this mode.
    """

    command: RowCommand | CreateTable
    mode: str = ""
