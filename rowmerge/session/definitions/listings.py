"""DESCRIBE and SHOW for schemas, tables, views and columns, and descriptions for `Session`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rowmerge.commands.definitions import (
    Describe,
    Detail,
    ListingCommand,
    ShowCatalogs,
    ShowColumns,
    ShowProperties,
    ShowSchemas,
    ShowTables,
)
from rowmerge.commands.listings import TableListing
from rowmerge.commands.names import TABLE_FORMATS, FileSource, TableName
from rowmerge.session.answers import frames, relation_rows
from rowmerge.session.answers.description import describe, describe_snapshot
from rowmerge.session.definitions.table_listings import catalog_entry, table_listing_rows
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.reading.file_sources import absolute, read_file_source, size_and_age
from rowmerge.spark.types import schema_of
from rowmerge.table.relations import Relation, RelationDescription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def describe_relation(context: SessionContext, name: TableName) -> RelationDescription:
    """Return the description of a view, or of a table's newest version.

    Args:
        context: The session.
        name: The name of the table or view in the statement.

    Raises:
        TableNotFound: No table or view has this name.
        SchemaNotFound: The catalog has no such schema.
    """
    return describe(context.catalog, context.names.existing_relation(name))


def describe_files(context: SessionContext, source: FileSource) -> RelationDescription:
    """Return the description of files, or of the newest version of a table at a path. No rows are read.

    Args:
        context: The session.
        source: The path and the format of the files or of the table.

    Raises:
        FilesNotFound: There are no files or no table at the path.
    """
    # Messages name the files by the name that the caller gave them, or by the path, which has no schema.
    name_parts = (source.path,) if source.name is None else source.name.parts
    schema = name_parts[-2] if len(name_parts) > 1 else ""
    relation = Relation(schema, name_parts[-1], kind="table", format=source.format)
    if source.format in TABLE_FORMATS:
        return describe_snapshot(relation, context.table_at_path(source).snapshot())
    columns = schema_of(read_file_source(context.spark, source)).fields
    size, modified = size_and_age(context.spark, source)
    return RelationDescription(relation, columns, absolute(source.path), modified=modified, size=size)


def listing_rows(context: SessionContext, command: ListingCommand) -> DataFrame:
    """Return the rows of a DESCRIBE or SHOW statement.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        TableNotFound: No table or view has the name.
        SchemaNotFound: The catalog has no such schema.
        TableError: The statement asks for the history or the detail of a view.
    """
    spark, names = context.spark, context.names
    if isinstance(command, TableListing):
        return table_listing_rows(context, command)
    match command:
        case Describe(name, Detail.HISTORY, limit):
            return frames.describe_history(spark, names.table(name).history(limit))
        case Describe(name, Detail.DETAIL):
            return relation_rows.describe_detail(spark, describe_relation(context, name), names.table(name).snapshot())
        case Describe(name) if names.is_temporary_view(name):
            return spark.sql(f"describe {'extended ' if command.detail is Detail.EXTENDED else ''}{name}")
        case Describe(name, detail):
            is_extended = detail is Detail.EXTENDED
            description = describe_relation(context, name)
            entry = catalog_entry(context, description) if is_extended else None
            return relation_rows.describe_columns(spark, replace(description, relation=names.in_catalog(description.relation)), entry)
        case ShowCatalogs(like):
            catalogs = [name for name in names.catalog_names if frames.matches_pattern(name, like)]
            return frames.text_column(spark, "catalog", catalogs)
        case ShowSchemas(like, catalog_name):
            _, catalog, _ = names.catalog_of(names.schema if catalog_name is None else names.within(catalog_name).schema)
            return frames.text_column(spark, "namespace", [schema for schema in catalog.schemas() if frames.matches_pattern(schema, like)])
        case ShowTables():
            return _show_relations(context, command)
        case ShowProperties():
            return _show_properties(context, command)
        case ShowColumns(name):
            return frames.text_column(spark, "col_name", [column.name for column in describe_relation(context, name).columns])


def _show_properties(context: SessionContext, command: ShowProperties) -> DataFrame:
    """Return the rows of SHOW TBLPROPERTIES. If the table lacks the property that the statement names, the row contains its default."""
    description, key = describe_relation(context, command.name), command.key
    if key is None or key in description.properties:
        pairs = [(name, value) for name, value in sorted(description.properties.items()) if key in (None, name)]
    elif description.text is not None:
        pairs = [(key, f"View does not have property: {key}")]
    else:
        pairs = [(key, context.names.table(command.name).snapshot().settings.registry.text_of_missing(key))]
    return frames.show_properties(context.spark, pairs)


def _show_relations(context: SessionContext, command: ShowTables) -> DataFrame:
    """Return the rows of SHOW TABLES (with views), SHOW VIEWS or SHOW TABLE EXTENDED. Raise SchemaNotFound for a missing schema."""
    catalog, schema = context.catalog, context.names.schema_of(command.schema or context.names.schema)
    context.names.check_schema(schema)
    relations = [relation for relation in catalog.relations(schema) if frames.matches_pattern(relation.name, command.like)]
    if command.views:
        relations = [relation for relation in relations if relation.kind == "view"]
    if command.extended:
        descriptions = [describe(catalog, relation) for relation in relations]
        entries = [(replace(each, relation=context.names.in_catalog(each.relation)), catalog_entry(context, each)) for each in descriptions]
        return relation_rows.show_relations_extended(context.spark, entries)
    relations = [context.names.in_catalog(relation) for relation in relations]
    return frames.show_relations(context.spark, relations, "viewName" if command.views else "tableName")
