"""`information_schema`: the metadata of the catalog as tables, with the columns of the SQL standard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rowmerge.catalog import Catalog
from rowmerge.commands.names import TableName
from rowmerge.session.answers.description import describe
from rowmerge.session.answers.frames import rows_frame
from rowmerge.session.names.resolver import NameResolver
from rowmerge.table.metadata.schema import DataType, Primitive
from rowmerge.table.relations import Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INFORMATION_SCHEMA = "information_schema"

_TEXT = Primitive("string")
_NAME = ("table_catalog", "table_schema", "table_name")
_ROUTINE = ("routine_catalog", "routine_schema", "routine_name")
TABLES: dict[str, dict[str, DataType]] = {
    "schemata": dict.fromkeys(("catalog_name", "schema_name"), _TEXT),
    "tables": dict.fromkeys((*_NAME, "table_type", "data_source_format"), _TEXT),
    "views": dict.fromkeys((*_NAME, "view_definition"), _TEXT),
    "columns": {
        **dict.fromkeys((*_NAME, "column_name"), _TEXT),
        "ordinal_position": Primitive("integer"),
        **dict.fromkeys(("is_nullable", "data_type", "comment"), _TEXT),
    },
    "routines": dict.fromkeys((*_ROUTINE, "routine_type", "data_type", "routine_body", "routine_definition", "external_language"), _TEXT),
}


def is_information_table(names: NameResolver, name: TableName, default_schema: str) -> bool:
    """Return whether a name refers to a table of `information_schema`.

    Args:
        names: The resolver of names.
        name: The name without the name of the catalog.
        default_schema: The schema of an unqualified name.
    """
    if len(name.parts) > 2 or name.parts[-1].lower() not in TABLES:
        return False
    _, _, schema = names.catalog_of(names.locate(name, default_schema)[0])
    return schema.lower() == INFORMATION_SCHEMA


def information_rows(spark: SparkSession, catalog: Catalog, catalog_name: str, table: str) -> DataFrame:
    """Return the current rows of a table of `information_schema`. For `columns`, this reads the metadata of every table.

    Args:
        spark: The Spark session of the DataFrame.
        catalog: The catalog to describe.
        catalog_name: The name of the catalog in the rows.
        table: The name of the table, a key of TABLES.
    """
    return rows_frame(spark, TABLES[table], _information_schema_rows(catalog, catalog_name, table))


def _information_schema_rows(catalog: Catalog, catalog_name: str, table: str) -> Iterator[Sequence[object]]:
    """Yield the rows of `information_schema.<table>`, schema by schema. `table` is a key of TABLES."""
    for schema in catalog.schemas():
        match table:
            case "schemata":
                yield catalog_name, schema
            case "routines":
                yield from _function_rows(catalog, catalog_name, schema)
            case "tables" | "views" | "columns":
                for relation in catalog.relations(schema):
                    name = (catalog_name, relation.schema, relation.name)
                    yield from ((*name, *row) for row in _relation_rows(catalog, relation, table))


def _relation_rows(catalog: Catalog, relation: Relation, table: str) -> Iterator[Sequence[object]]:
    """Yield the rows of one relation in `tables`, `views` or `columns`, without the columns that name it."""
    match table:
        case "tables":
            kind = "VIEW" if relation.kind == "view" else "BASE TABLE"
            yield kind, None if relation.format is None else relation.format.upper()
        case "views" if relation.kind == "view":
            yield (catalog.view(relation.schema, relation.name).sql,)
        case "columns":
            for position, field in enumerate(describe(catalog, relation).columns, start=1):
                yield field.name, position, "YES" if field.nullable else "NO", field.sql_type, field.comment


def _function_rows(catalog: Catalog, catalog_name: str, schema: str) -> Iterator[Sequence[object]]:
    """Yield the rows of `routines` for the functions of a schema."""
    for name in catalog.functions.names(schema):
        if (function := catalog.functions.get(schema, name)) is not None:
            definition = function.definition
            body = ("EXTERNAL", definition.body, "PYTHON") if definition.language == "python" else ("SQL", definition.body, None)
            yield catalog_name, schema, name, "FUNCTION", definition.returns, *body
