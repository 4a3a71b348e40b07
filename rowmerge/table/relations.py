"""The names of tables and views, and their descriptions. Clients of a server import these classes, so the imports are few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rowmerge.table.metadata.partitioning import PartitionField, SortField
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Field


@dataclass(frozen=True)
class Relation:
    """A table or a view. `schema` and `name` are in lower case. `format` is `delta` or `iceberg`, or None for a view."""

    schema: str
    name: str
    kind: Literal["table", "view"]
    format: str | None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @staticmethod
    def of_table(schema: str, name: str, format_: str) -> Relation:
        """Return the Relation that represents a table.

        Args:
            schema: The name of the schema, in any capitalization.
            name: The name of the table, in any capitalization.
            format_: `delta` or `iceberg`.
        """
        return Relation(schema.lower(), name.lower(), "table", format_)

    @staticmethod
    def of_view(schema: str, name: str) -> Relation:
        """Return the Relation that represents a view.

        Args:
            schema: The name of the schema, in any capitalization.
            name: The name of the view, in any capitalization.
        """
        return Relation(schema.lower(), name.lower(), "view", None)


@dataclass(frozen=True)
class RelationDescription:
    """The columns, statistics and settings of a relation.

    `modified`: the time of the last change in milliseconds since the epoch. `records`: the number of rows, or None if it is unknown.
    `size`: the total size of all data files in bytes. `files`: the number of data files. `deleted`: the number of deleted rows that data
    files still contain. `text`: the query of a view, or None for a table. For a view, `records`, `files` and `deleted` are None.
    """

    relation: Relation
    columns: tuple[Field, ...]
    location: str
    partition_columns: tuple[str, ...] = ()
    partitioning: tuple[PartitionField, ...] = ()
    ordering: tuple[SortField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    version: int | None = None
    modified: int = 0
    records: int | None = None
    size: int = 0
    text: str | None = None
    rules: Rules = field(default_factory=Rules)
    files: int | None = None
    deleted: int | None = None
