"""The errors that all catalogs raise, and the lookup of a relation to drop."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal

from rowmerge.catalog.catalog import Catalog
from rowmerge.catalog.names import lower_case, quoted_name
from rowmerge.errors import AlreadyExists, SchemaNotFound, TableError, TableNotFound, UnsupportedTableFeature
from rowmerge.table.metadata.schema import quote
from rowmerge.table.relations import Relation


def table_not_found(catalog: Catalog, schema: str, name: str) -> TableNotFound:
    """Return the error for a relation that does not exist. It suggests relations of the schema, or of schemas with similar names.

    Args:
        catalog: The catalog without the relation.
        schema: The name of the schema.
        name: The name of the relation.
    """
    schema, schemas = lower_case(schema), catalog.schemas()
    similar_schemas = [schema] if schema in schemas else get_close_matches(schema, schemas, n=3)
    candidates = [str(relation) for similar_schema in similar_schemas for relation in catalog.relations(similar_schema)]
    return TableNotFound(quoted_name(schema, name), candidates)


def require_relation_to_drop(catalog: Catalog, schema: str, name: str, kind: Literal["table", "view"]) -> Relation:
    """Return the relation that DROP TABLE or DROP VIEW names, and check that it exists and that its kind matches the statement.

    Args:
        catalog: The catalog with the relation.
        schema: The name of the schema.
        name: The name of the relation.
        kind: `table` for DROP TABLE, `view` for DROP VIEW.

    Raises:
        TableNotFound: The relation does not exist.
        TableError: The relation is a view for DROP TABLE, or a table for DROP VIEW.
    """
    relation = catalog.relation(schema, name)
    if relation is None:
        raise table_not_found(catalog, schema, name)
    if relation.kind != kind:
        raise wrong_kind(schema, name, relation.kind, f"Drop it with DROP {relation.kind.upper()}.")
    return relation


def wrong_kind(schema: str, name: str, kind: Literal["table", "view"], advice: str) -> TableError:
    """Return the error for a relation that is a view instead of a table, or a table instead of a view.

    Args:
        schema: The name of the schema.
        name: The name of the relation.
        kind: The actual kind of the relation.
        advice: What to do instead, as a sentence.
    """
    return TableError(f"{quoted_name(schema, name)} is a {kind}, not a {'view' if kind == 'table' else 'table'}. {advice}")


def already_exists(schema: str, name: str) -> AlreadyExists:
    """Return the error for the creation of a relation that already exists.

    Args:
        schema: The name of the schema, in any capitalization.
        name: The name of the relation, in any capitalization.
    """
    return AlreadyExists(f"{quoted_name(schema, name)} already exists. Drop it first, or choose another name.")


def schema_already_exists(name: str) -> AlreadyExists:
    """Return the error for the creation of a schema that already exists."""
    return AlreadyExists(f"The schema {quote(lower_case(name))} already exists. Choose another name, or add IF NOT EXISTS.")


def schema_not_empty(name: str, content: str) -> TableError:
    """Return the error for dropping a schema that is not empty.

    Args:
        name: The name of the schema, in any capitalization.
        content: The names of some relations and functions, separated by commas.
    """
    return TableError(f"The schema {quote(lower_case(name))} is not empty: it contains {content}. Drop these first, or add CASCADE.")


def check_schema_exists(catalog: Catalog, schema: str) -> None:
    """Check that a catalog has a schema.

    Args:
        catalog: The catalog.
        schema: The name of the schema, in any capitalization.

    Raises:
        SchemaNotFound: The catalog has no such schema.
    """
    if not catalog.schema_exists(schema):
        raise SchemaNotFound(lower_case(schema), catalog.schemas())


def check_schema_is_empty(name: str, relations: Sequence[Relation], functions: Sequence[str]) -> None:
    """Check that a schema contains neither relations nor functions.

    Args:
        name: The name of the schema.
        relations: The relations of the schema.
        functions: The names of its functions.

    Raises:
        TableError: The schema is not empty.
    """
    names = [*(relation.name for relation in relations), *(f"{function}()" for function in functions)]
    if names:
        raise schema_not_empty(name, ", ".join(names[:5]) + (", …" if len(names) > 5 else ""))


def foreign_metadata(label: str, action: str) -> UnsupportedTableFeature:
    """Return the error for an Iceberg table whose metadata belongs to another catalog.

    Args:
        label: The name of the table.
        action: The verb of the attempted action, such as `read` or `drop`.
    """
    advice = "Its metadata files are not numbered, so only the other catalog knows the newest one. Connect to that catalog."
    return UnsupportedTableFeature(label, "iceberg of another catalog", action=action, advice=advice)
