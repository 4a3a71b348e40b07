"""Statements that concern a table as a whole: its name, its location, a table like it, and the identifier fields of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowmerge.commands.names import TableName
from rowmerge.table.metadata.shape import IdentifierChange


@dataclass(frozen=True)
class CreateTableLike:
    """CREATE TABLE [IF NOT EXISTS] name LIKE source [USING …] [TBLPROPERTIES (…)] [LOCATION '…'].

    `format`: the name after USING in lower case, or None for the format of the source. `properties` override those of the source.
    """

    name: TableName
    source: TableName
    format: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class Rename:
    """ALTER TABLE … RENAME TO, or ALTER VIEW … RENAME TO if `view` is true.

    A new name without a schema stays in the schema of the relation.
    """

    name: TableName
    new_name: TableName
    view: bool


@dataclass(frozen=True)
class SetLocation:
    """ALTER TABLE … SET LOCATION '…'."""

    name: TableName
    location: str


@dataclass(frozen=True)
class ChangeIdentifiers:
    """ALTER TABLE … SET IDENTIFIER FIELDS or DROP IDENTIFIER FIELDS, as in Iceberg's SQL extensions."""

    name: TableName
    change: IdentifierChange
