"""What a catalog knows of a name: a relation, and a view's definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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


@dataclass(frozen=True)
class View:
    """A view's newest definition.

    `columns` carry their comments in the fields' metadata; `version` counts from 1; `modified` is in milliseconds since the epoch.
    """

    relation: Relation
    sql: str
    default_schema: str
    columns: Struct
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    modified: int = 0
