"""DESCRIBE of partitions and columns, SHOW PARTITIONS and SHOW CREATE TABLE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from rowmerge.commands import listings as commands
from rowmerge.errors import UnknownColumn
from rowmerge.session.answers import frames, relation_rows
from rowmerge.session.answers.description import describe, describe_snapshot
from rowmerge.session.answers.metadata_answers import answer_from_metadata, resolve_query
from rowmerge.session.answers.relation_rows import CatalogEntry
from rowmerge.session.definitions.create_statements import create_table_text, create_view_text
from rowmerge.session.definitions.partition_listing import find_partition, list_partitions
from rowmerge.session.names.scope import SessionContext
from rowmerge.spark.types import frame_of
from rowmerge.sql import parse_simple_query
from rowmerge.table.metadata.schema import Field, Struct, backquote
from rowmerge.table.relations import Relation, RelationDescription
from rowmerge.table.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATISTICS = ("min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len", "histogram")
"""The rows of Spark's DESCRIBE EXTENDED for a column, after its name, type and comment."""


def table_listing_rows(context: SessionContext, command: commands.TableListing) -> DataFrame:
    """Return the rows of a statement of `rowmerge.commands.listings`.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        TableNotFound: No table or view has the name.
        SchemaNotFound: The catalog has no such schema.
        TableError: The table has no such partition, or the statement does not apply to a view.
        UnknownColumn: The table has no such column or partition field.
    """
    spark, name = context.spark, command.name
    if isinstance(command, commands.DescribeColumn | commands.DescribeAsJson) and context.names.is_temporary_view(name):
        return spark.sql(_describe_temporary_view(command))
    relation = context.names.existing_relation(name)
    match command:
        case commands.DescribeColumn():
            return _describe_column(context, relation, command)
        case commands.DescribeAsJson():
            description = describe(context.catalog, relation)
            entry = catalog_entry(context, description)
            return relation_rows.describe_as_json(spark, replace(description, relation=context.names.in_catalog(relation)), entry)
        case commands.ShowCreateTable():
            return frames.text_column(spark, "createtab_stmt", [_create_text(context, relation)])
        case commands.ShowPartitions():
            partitions = list_partitions(spark, context.names.table(name), command.partition)
            return frames.text_column(spark, "partition", [partition.name for partition in partitions])
        case commands.DescribePartition():
            partition = find_partition(spark, context.names.table(name), command.partition)
            return relation_rows.describe_partition(
                spark, replace(describe(context.catalog, relation), relation=context.names.in_catalog(relation)), partition
            )
        case commands.ShowTablePartition():
            partition = find_partition(spark, context.names.table(name), command.partition)
            return relation_rows.show_partition_extended(spark, context.names.in_catalog(relation), partition)


def _describe_temporary_view(command: commands.DescribeColumn | commands.DescribeAsJson) -> str:
    """Return the statement with which Spark describes a temporary view."""
    if isinstance(command, commands.DescribeAsJson):
        return f"describe extended {command.name} as json"
    return f"describe {'extended ' if command.extended else ''}{command.name} {backquote(command.column)}"


def catalog_entry(context: SessionContext, description: RelationDescription, snapshot: Snapshot | None = None) -> CatalogEntry:
    """Return what the catalog tells about a table or view.

    Args:
        context: The session.
        description: The description of the table or view.
        snapshot: The version of the table, or None to read the newest one.
    """
    relation, (catalog_name, _, _) = description.relation, context.names.catalog_of(description.relation.schema)
    if relation.kind == "view":
        return CatalogEntry(catalog_name, is_managed=True)
    is_managed = context.catalog.is_managed(relation, description.location)
    snapshot = snapshot or context.catalog.open(relation.schema, relation.name).snapshot()
    return CatalogEntry(catalog_name, is_managed, snapshot.details)


def _create_text(context: SessionContext, relation: Relation) -> str:
    """Return the statement that creates a table or a view as it is now."""
    if relation.kind == "view":
        catalog_name, _, _ = context.names.catalog_of(relation.schema)
        return create_view_text(context.catalog.view(relation.schema, relation.name), catalog_name)
    snapshot = context.catalog.open(relation.schema, relation.name).snapshot()
    description = describe_snapshot(relation, snapshot)
    return create_table_text(description, snapshot, catalog_entry(context, description, snapshot))


def _describe_column(context: SessionContext, relation: Relation, command: commands.DescribeColumn) -> DataFrame:
    """Return the rows of DESCRIBE [EXTENDED] for a column of a table or a view. Raise UnknownColumn if there is no such column."""
    description = describe(context.catalog, relation)
    columns = Struct(description.columns)
    column = columns.find(command.column)
    if column is None:
        raise UnknownColumn(command.column, columns.names, where=str(relation))
    statistics: dict[str, str | None] | None = None
    if command.extended:
        statistics = dict.fromkeys(_STATISTICS)
        if relation.kind == "table":
            snapshot = context.catalog.open(relation.schema, relation.name).snapshot()
            statistics |= _column_statistics(context, snapshot, column)
    return relation_rows.describe_column(context.spark, column, statistics)


def _column_statistics(context: SessionContext, snapshot: Snapshot, column: Field) -> dict[str, str | None]:
    """Return the statistics of a column that metadata contain exactly, and the estimated number of distinct values if it is stored."""
    quoted = backquote(column.name)
    values = {name: _answer(snapshot, f"{function}({quoted})") for name, function in (("min", "min"), ("max", "max"), ("valid", "count"))}
    rows, valid = _answer(snapshot, "count(*)"), values.pop("valid")
    distinct = snapshot.distinct_counts.get(column.name)
    fields = Struct(tuple(Field(name, column.type) for name, value in values.items() if value is not None))
    texts: dict[str, str | None] = {}
    if fields:
        frame = frame_of(context.spark, pa.table({field.name: values[field.name] for field in fields}), fields)
        (row,) = frame.selectExpr(*(f"cast({field.name} as string) as {field.name}" for field in fields)).collect()
        texts = row.asDict()
    return {
        **texts,
        "num_nulls": None if rows is None or valid is None else str(rows[0].as_py() - valid[0].as_py()),
        "distinct_count": None if distinct is None else str(distinct),
    }


def _answer(snapshot: Snapshot, aggregate: str) -> pa.ChunkedArray | None:
    """Return the value of an aggregate function over a table, or None if the metadata do not determine it."""
    query = parse_simple_query(f"select {aggregate} from `t`")
    resolved = None if query is None else resolve_query(query, snapshot, case_sensitive=True, time_zone=None)
    answer = None if resolved is None else answer_from_metadata(resolved)
    return None if answer is None else answer.column(0)
