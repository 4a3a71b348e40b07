"""Names and pieces of SQL text as they stand in a statement."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.table.schema import quote

CATALOGS = ("rowmerge", "spark_catalog")
"""Names that may stand before `schema.table` and mean our catalog."""


@dataclass(frozen=True)
class TableName:
    """A table's name as written, unquoted: `("orders",)` or `("analytics", "orders")`."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(quote(part) for part in self.parts)


@dataclass(frozen=True)
class SqlText:
    """A piece of the user's SQL, character for character, and where it begins (line and column from 1).

    Expressions, queries and relations stay text: Spark is their judge.
    """

    text: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return self.text
