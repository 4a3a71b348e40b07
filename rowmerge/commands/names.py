"""Names and pieces of SQL text as they stand in a statement."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.table.metadata.schema import quote

CATALOGS = ("rowmerge", "spark_catalog")
"""Names that may stand before `schema.table` and mean our catalog."""


@dataclass(frozen=True)
class TableName:
    """A table's name as written, unquoted: `("orders",)` or `("analytics", "orders")`."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(quote(part) for part in self.parts)

    @property
    def reference(self) -> tuple[TableName, str] | None:
        """What `db.orders.branch_audit` or `….tag_eod` means where no table is called so: the table, and the name of its branch or tag."""
        kind, _, name = self.parts[-1].partition("_")
        if len(self.parts) < 2 or kind.lower() not in ("branch", "tag") or not name:
            return None
        return TableName(self.parts[:-1]), name


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
