"""DESCRIBE and SHOW of schemas, tables, views and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def describe_relation(context: SessionContext, name: TableName) -> RelationDescription:
    """Describe a table's newest version, or a view. Raises TableNotFound, SchemaNotFound."""
    return describe(context.catalog, context.names.existing(name))


def listing_rows(context: SessionContext, command: ListingCommand) -> DataFrame:
    """Return the rows of a DESCRIBE or SHOW statement. Raises TableNotFound, SchemaNotFound, TableError for the history of a view."""
    spark, names = context.spark, context.names
    match command:
        case Describe(name, Detail.HISTORY, limit):
            return frames.describe_history(spark, names.table(name).history(limit))
        case Describe(name, Detail.DETAIL):
            return frames.describe_detail(spark, describe_relation(context, name), names.table(name).snapshot())
        case Describe(name, detail):
            if len(name.parts) == 1 and names.temporary_views.exists(name.parts[0]):
                return spark.sql(f"describe {name}")
            return frames.describe_columns(spark, describe_relation(context, name), detail is Detail.EXTENDED)
        case ShowSchemas(like):
            return frames.show_names(spark, "namespace", context.catalog.schemas(), like)
        case ShowTables():
            return _show_relations(context, command)
        case ShowProperties(name, key):
            return frames.show_properties(spark, describe_relation(context, name).properties, key)
        case ShowColumns(name):
            return frames.show_names(spark, "col_name", [column.name for column in describe_relation(context, name).columns], None)


def _show_relations(context: SessionContext, command: ShowTables) -> DataFrame:
    """Return the rows of SHOW TABLES, which include views, or of SHOW VIEWS or SHOW TABLE EXTENDED. Raise SchemaNotFound."""
    catalog, schema = context.catalog, command.schema or context.names.schema
    if not catalog.schema_exists(schema):
        raise SchemaNotFound(quote(schema), catalog.schemas())
    relations = [relation for relation in catalog.relations(schema) if frames.matches_pattern(relation.name, command.like)]
    if command.views:
        relations = [relation for relation in relations if relation.kind == "view"]
    if command.extended:
        return frames.show_relations_extended(context.spark, [describe(catalog, relation) for relation in relations])
    return frames.show_relations(context.spark, relations, "viewName" if command.views else "tableName")
