"""Statements that define and describe: schemas, tables, views, columns, properties, and what SHOW and DESCRIBE tell of them."""

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

    The type is text (nested names keep their quotes).
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
    """Of ADD COLUMN: the struct that gets the field, as names from the top."""

    @property
    def path(self) -> str:
        return ".".join((*self.within, self.name))


@dataclass(frozen=True)
class CreateTable:
    """CREATE [OR REPLACE] TABLE, REPLACE TABLE. `format` is the name after USING in lower case, None when absent.

    `partitioned_by` are fields as they are written, without names of their own; columns defined inside PARTITIONED BY (name type) are in
    `columns` too.
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
    """Those of the table and of its columns."""


@dataclass(frozen=True)
class CloneTable:
    """CREATE [OR REPLACE] TABLE … SHALLOW CLONE source: the newest version, or `version`, `reference` (a branch or tag), `timestamp`."""

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
    """CREATE [OR REPLACE] [TEMPORARY] VIEW. `columns` are (name, comment)."""

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
    name: str
    if_not_exists: bool = False
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DropSchema:
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
    """ALTER TABLE … ADD COLUMN[S] (…). Positions (FIRST, AFTER x) are (path, None | x) pairs in `positions`."""

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
    """ALTER TABLE … ADD, DROP or REPLACE PARTITION FIELD. `dropped`: what the field is made of, or a column of its name; both as they are
    written. An added field without a name gets one.
    """

    name: TableName
    dropped: PartitionField | None = None
    added: PartitionField | None = None


@dataclass(frozen=True)
class SetWriteOrder:
    """ALTER TABLE … WRITE …: the order, which may be none, and how rows come together; None leaves that as it is."""

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
    """ALTER TABLE … ALTER COLUMN column SET DEFAULT value; DROP DEFAULT is None."""

    name: TableName
    column: str
    value: SqlText | None


@dataclass(frozen=True)
class SetNullable:
    """ALTER TABLE … ALTER COLUMN column DROP NOT NULL; SET NOT NULL when false."""

    name: TableName
    column: tuple[str, ...]
    nullable: bool


@dataclass(frozen=True)
class ColumnPlace:
    """FIRST (None), or AFTER a column beside it."""

    after: str | None

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {self.after}"


@dataclass(frozen=True)
class AlterColumn:
    """ALTER TABLE … ALTER COLUMN … TYPE, FIRST, AFTER; CHANGE COLUMN in Hive's form has a comment too. None: stays as it is."""

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
    name: TableName
    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class CommentOn:
    """COMMENT ON TABLE …, COMMENT ON COLUMN …, ALTER TABLE … ALTER|CHANGE COLUMN c COMMENT '…' (`column` set)."""

    name: TableName
    comment: str | None
    column: tuple[str, ...] | None = None


@dataclass(frozen=True)
class CommentOnColumns:
    """ALTER TABLE … ALTER COLUMN a COMMENT '…', b.c COMMENT '…': several columns and fields at once."""

    name: TableName
    comments: tuple[tuple[tuple[str, ...], str], ...]


class Detail(Enum):
    """Which DESCRIBE."""

    COLUMNS = "DESCRIBE"
    EXTENDED = "DESCRIBE EXTENDED"
    DETAIL = "DESCRIBE DETAIL"
    HISTORY = "DESCRIBE HISTORY"


@dataclass(frozen=True)
class Describe:
    name: TableName
    detail: Detail
    limit: int | None = None


@dataclass(frozen=True)
class ShowSchemas:
    like: str | None = None


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES, SHOW VIEWS or, with all that is known of each, SHOW TABLE EXTENDED."""

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
    name: TableName


@dataclass(frozen=True)
class UseSchema:
    name: str


@dataclass(frozen=True)
class Query:
    """Everything else, queries first of all: goes to Spark as written, our table names bound to snapshots."""

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
    """EXPLAIN [EXTENDED|FORMATTED|…] of a command that changes rows, or makes a table of a query: its plan is printed, nothing is run.

    With a `mode`, Spark's plan of the query in it is printed in that mode too.
    """

    command: RowCommand | CreateTable
    mode: str = ""
