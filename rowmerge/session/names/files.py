"""Files that a query reads in the place of a table: `read_files(…)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.catalog import Relation, TablesByPath
from rowmerge.commands.names import TABLE_FORMATS, FileSource
from rowmerge.session.answers.description import RelationDescription, describe_snapshot
from rowmerge.spark.reading.file_sources import absolute, read_file_source, size_and_age
from rowmerge.spark.types import schema_of
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Files:
    """Reads files, or whole tables by the path of their folder. Every method raises FilesNotFound."""

    spark: SparkSession
    tables: TablesByPath

    def table(self, source: FileSource) -> Table:
        """Open the table whose folder a source of a table format names."""
        return self.tables.open(absolute(source.path), source.format, source.display_name)

    def rows(self, source: FileSource) -> DataFrame:
        """Return the rows of the files that the path lists now."""
        return read_file_source(self.spark, source)

    def describe(self, source: FileSource) -> RelationDescription:
        """Describe files without reading their rows, or the newest version of a table."""
        *schema, name = source.name.parts if source.name is not None else (source.path,)
        relation = Relation(schema[-1] if schema else "", name, "table", source.format)
        if source.format in TABLE_FORMATS:
            return describe_snapshot(relation, self.table(source).snapshot())
        columns = schema_of(self.rows(source)).fields
        size, modified = size_and_age(self.spark, source)
        return RelationDescription(relation, columns, absolute(source.path), modified=modified, size=size)
