"""Names, file sources and pieces of SQL text in a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowmerge.table.metadata.schema import quote

CATALOGS = ("rowmerge", "spark_catalog")
"""The names of the engine's catalog, each of which can precede `schema.table`."""
FILE_FORMATS = ("parquet", "csv", "json", "orc", "avro", "text")
"""File formats that Spark can read without additional packages."""
TABLE_FORMATS = ("delta", "iceberg")
"""Table formats that can be read from a path."""


@dataclass(frozen=True)
class TableName:
    """The parts of a table's name in a statement, without quotes: `("orders",)` or `("analytics", "orders")`."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(quote(part) for part in self.parts)

    @property
    def reference(self) -> tuple[TableName, str] | None:
        """Return the table and the branch or tag to which the name can refer: `db.orders` and `audit` for `db.orders.branch_audit`.

        As in Iceberg on Spark, the name refers to a branch or tag only if no table has this name. Return None if the last part of the name
        does not have this form.
        """
        kind, _, name = self.parts[-1].partition("_")
        if len(self.parts) < 2 or kind.lower() not in ("branch", "tag") or not name:
            return None
        return TableName(self.parts[:-1]), name


def count_qualifier_parts(column: Sequence[str], table: Sequence[str]) -> int:
    """Return the number of parts before a column's name that qualify the column by a table: 2 for `analytics.orders.id`.

    The qualifier can be the table's full name or its last parts, without regard to case. Return 0 if the table does not qualify the column.

    Args:
        column: The parts of the column's name as written in the statement.
        table: The parts of the table's name or alias.
    """
    column_parts, table_parts = [part.lower() for part in column], [part.lower() for part in table]
    longest_qualifier = min(len(table_parts), len(column_parts) - 1)
    for part_count in range(longest_qualifier, 0, -1):
        if column_parts[:part_count] == table_parts[-part_count:]:
            return part_count
    return 0


@dataclass(frozen=True)
class SqlText:
    """A verbatim piece of the user's SQL, with the line and the column of its first character, both counted from 1.

    Expressions, queries and relations remain text, because Spark parses and validates them.
    """

    text: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class FileSource:
    """The files at a path, or the Delta or Iceberg table in the folder at the path.

    `path` can be a glob pattern of Hadoop's file systems. `schema` contains the columns as DDL text, or is None to infer them from the
    files. `name` qualifies the columns and appears in messages. `options` contains the options of Spark's reader by name, or `versionAsOf`
    and `timestampAsOf` for a table.
    """

    path: str
    format: str
    schema: str | None = None
    name: TableName | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def display_name(self) -> str:
        """Return the name of the files to show in messages."""
        return self.path if self.name is None else f"{'.'.join(self.name.parts)} ({self.path})"
