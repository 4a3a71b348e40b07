"""The relations of a catalog: tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rowmerge.catalog.names import fold
from rowmerge.table.metadata.schema import Struct


@dataclass(frozen=True)
class Relation:
    """A table or a view. `schema` and `name` are in lower case; `format` is `delta` or `iceberg`, None for a view."""

    schema: str
    name: str
    kind: Literal["table", "view"]
    format: str | None

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @staticmethod
    def of_table(schema: str, name: str, format_: str) -> Relation:
        return Relation(fold(schema), fold(name), "table", format_)

    @staticmethod
    def of_view(schema: str, name: str) -> Relation:
        return Relation(fold(schema), fold(name), "view", None)


@dataclass(frozen=True)
class View:
    """A view's newest definition. The metadata of `columns` has their comments. `version` counts from 1; `modified`: ms since the epoch."""

    relation: Relation
    sql: str
    default_schema: str
    columns: Struct
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    modified: int = 0
