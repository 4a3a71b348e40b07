"""Files that a query reads without a table: what `read_files(…)` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowmerge.commands.names import TableName

FILE_FORMATS = ("parquet", "csv", "json", "orc", "avro", "text")
"""Formats of files that Spark's readers read."""
TABLE_FORMATS = ("delta", "iceberg")
"""Formats of whole tables at a path."""


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
