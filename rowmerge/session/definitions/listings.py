"""DESCRIBE and SHOW of schemas, tables, views and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.catalog import Relation
from rowmerge.commands.definitions import Describe, Detail, ShowColumns, ShowProperties, ShowSchemas, ShowTables
from rowmerge.commands.names import TableName
from rowmerge.errors import SchemaNotFound
from rowmerge.session.answers import frames
from rowmerge.session.answers.description import RelationDescription, describe
from rowmerge.session.names.context import SessionContext
from rowmerge.table.metadata.schema import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ListingCommand = Describe | ShowSchemas | ShowTables | ShowProperties | ShowColumns


@dataclass(frozen=True)
class Listings:
    """Describes and lists what the catalog holds."""

    context: SessionContext

    def describe(self, name: TableName) -> RelationDescription:
        """Describe a table's newest version, or a view. Raises TableNotFound, SchemaNotFound."""
        return self._describe(self.context.names.existing(name))

    def _describe(self, relation: Relation) -> RelationDescription:
        catalog = self.context.catalog
        return describe(catalog, relation, catalog.location_of(relation.schema, relation.name))

    def rows(self, command: ListingCommand) -> DataFrame:
        """Return the rows of a statement. Raises TableNotFound, SchemaNotFound, TableError for the history of a view."""
        spark, names = self.context.spark, self.context.names
        match command:
            case Describe(name, Detail.HISTORY, limit):
                return frames.describe_history(spark, names.table(name).history(limit))
            case Describe(name, Detail.DETAIL):
                return frames.describe_detail(spark, self.describe(name), names.table(name).snapshot())
            case Describe(name, detail):
                if len(name.parts) == 1 and names.temporary_views.exists(name.parts[0]):
                    return spark.sql(f"describe {name}")
                return frames.describe_columns(spark, self.describe(name), detail is Detail.EXTENDED)
            case ShowSchemas(like):
                return frames.show_names(spark, "namespace", self.context.catalog.schemas(), like)
            case ShowTables():
                return self._show_relations(command)
            case ShowProperties(name, key):
                return frames.show_properties(spark, self.describe(name).properties, key)
            case ShowColumns(name):
                return frames.show_names(spark, "col_name", [column.name for column in self.describe(name).columns], None)

    def _show_relations(self, command: ShowTables) -> DataFrame:
        """Return the rows of SHOW TABLES, which include views, or of SHOW VIEWS or SHOW TABLE EXTENDED. Raise SchemaNotFound."""
        catalog, schema = self.context.catalog, command.schema or self.context.names.schema
        if not catalog.schema_exists(schema):
            raise SchemaNotFound(quote(schema), catalog.schemas())
        relations = [relation for relation in catalog.relations(schema) if frames.matches_pattern(relation.name, command.like)]
        if command.views:
            relations = [relation for relation in relations if relation.kind == "view"]
        if command.extended:
            return frames.show_relations_extended(self.context.spark, [self._describe(relation) for relation in relations])
        return frames.show_relations(self.context.spark, relations, "viewName" if command.views else "tableName")
