"""Names, file sources and pieces of SQL text in a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowmerge.table.metadata.schema import quote

CATALOGS = ("rowmerge", "spark_catalog")
"""Names of the engine's catalog, which can precede `schema.table`."""
FILE_FORMATS = ("parquet", "csv", "json", "orc", "avro", "text")
"""Formats of files that Spark can read without other packages."""
TABLE_FORMATS = ("delta", "iceberg")
"""Formats of whole tables at a path."""


@dataclass(frozen=True)
class TableName:
    """The parts of a table's name in a statement, without quotes: `("orders",)` or `("analytics", "orders")`."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(quote(part) for part in self.parts)

    @property
    def reference(self) -> tuple[TableName, str] | None:
        """Return the table and the branch or tag that the name can mean, or None: `db.orders` and `audit` for `db.orders.branch_audit`.

        As in Iceberg on Spark, the name means a branch or tag if there is no table of this name.
        """
        kind, _, name = self.parts[-1].partition("_")
        if len(self.parts) < 2 or kind.lower() not in ("branch", "tag") or not name:
            return None
        return TableName(self.parts[:-1]), name


def qualifier_size(column: Sequence[str], table: Sequence[str]) -> int:
    """Return the number of parts before a column's name that qualify the column by a table: 2 for `analytics.orders.id`.

    The qualifier can be the table's name or its last parts, in any case. The result is 0 without such a qualifier.

    Args:
        column: The parts of the column's name as the statement has it.
        table: The parts of the table's name or alias.
    """
    column_parts, table_parts = [part.lower() for part in column], [part.lower() for part in table]
    for size in range(min(len(table), len(column) - 1), 0, -1):
        if column_parts[:size] == table_parts[-size:]:
            return size
    return 0


@dataclass(frozen=True)
class SqlText:
    """A piece of the user's SQL, character for character, with the line and the column of its first character, both from 1.

    Expressions, queries and relations stay text, because Spark parses and validates them.
    """

    text: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class FileSource:
    """The files at a path, which can be a pattern of Hadoop's file systems, or the table in the folder at the path.

    `schema` has the columns as DDL text, None to infer them from the files. `name` qualifies the columns and is used in messages.
    `options` are those of Spark's reader, by name, or `versionAsOf` and `timestampAsOf` of a table.
    """

    path: str
    format: str
    schema: str | None = None
    name: TableName | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def display_name(self) -> str:
        """Return the name of the files for messages."""
        return self.path if self.name is None else f"{'.'.join(self.name.parts)} ({self.path})"
