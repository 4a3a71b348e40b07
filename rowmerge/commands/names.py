"""Names, files and pieces of SQL text as they stand in a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowmerge.table.metadata.schema import quote

CATALOGS = ("rowmerge", "spark_catalog")
"""Names that may stand before `schema.table` and mean our catalog."""
FILE_FORMATS = ("parquet", "csv", "json", "orc", "avro", "text")
"""Formats of files that Spark's readers read."""
TABLE_FORMATS = ("delta", "iceberg")
"""Formats of whole tables at a path."""


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


def qualifier_size(column: Sequence[str], table: Sequence[str]) -> int:
    """Return how many parts of a column's name, except its last, are the end of a table's name."""
    column_parts, table_parts = [part.lower() for part in column], [part.lower() for part in table]
    for size in range(min(len(table), len(column) - 1), 0, -1):
        if column_parts[:size] == table_parts[-size:]:
            return size
    return 0


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


@dataclass(frozen=True)
class FileSource:
    """The files at a path (Hadoop's patterns are understood), or the table whose folder it is.

    `schema`: columns as DDL writes them; None: as the files say. `name`: what columns may be qualified by, and messages call it. `options`
    are Spark's, by name; of a table `versionAsOf` and `timestampAsOf`.
    """

    path: str
    format: str
    schema: str | None = None
    name: TableName | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def display_name(self) -> str:
        """The name of the files in messages."""
        return self.path if self.name is None else f"{'.'.join(self.name.parts)} ({self.path})"
