"""The errors that every catalog raises, and the look-up before a drop."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Literal

from rowmerge.catalog.catalog import Catalog, Relation
from rowmerge.catalog.names import fold, quoted_name
from rowmerge.errors import AlreadyExists, TableError, TableNotFound, UnsupportedTableFeature
from rowmerge.table.metadata.schema import quote


def table_not_found(catalog: Catalog, schema: str, name: str) -> TableNotFound:
    """Return the error of a table or view that a catalog does not have. It names relations of the schema, or of similar schemas."""
    schema, schemas = fold(schema), catalog.schemas()
    similar_schemas = [schema] if schema in schemas else get_close_matches(schema, schemas, n=3)
    candidates = [str(relation) for similar_schema in similar_schemas for relation in catalog.relations(similar_schema)]
    return TableNotFound(quoted_name(schema, name), candidates)


def find_relation_to_drop(catalog: Catalog, schema: str, name: str, kind: Literal["table", "view"]) -> Relation:
    """Return the relation that DROP TABLE or DROP VIEW names. Raises TableNotFound, TableError for a relation of the other kind."""
    relation = catalog.relation(schema, name)
    if relation is None:
        raise table_not_found(catalog, schema, name)
    if relation.kind != kind:
        raise wrong_kind(schema, name, relation.kind, f"Drop it with DROP {relation.kind.upper()}.")
    return relation


def wrong_kind(schema: str, name: str, kind: Literal["table", "view"], advice: str) -> TableError:
    """Return the error of a name that stands for a relation of this kind instead of the other one."""
    return TableError(f"{quoted_name(schema, name)} is a {kind}, not a {'view' if kind == 'table' else 'table'}. {advice}")


def already_exists(schema: str, name: str) -> AlreadyExists:
    """Return the error of a creation whose name has a relation."""
    return AlreadyExists(f"{quoted_name(schema, name)} exists already. Drop it first, or choose another name.")


def schema_already_exists(name: str) -> AlreadyExists:
    """Return the error of the creation of a schema that exists."""
    return AlreadyExists(f"The schema {quote(fold(name))} exists already. Choose another name, or add IF NOT EXISTS.")


def schema_not_empty(name: str, content: str) -> TableError:
    """Return the error of the drop of a schema with content."""
    return TableError(f"The schema {quote(fold(name))} is not empty: it holds {content}. Drop these first, or add CASCADE.")


def foreign_metadata(label: str, action: str) -> UnsupportedTableFeature:
    """Return the error of an Iceberg table whose metadata belongs to another catalog."""
    advice = "Its metadata files are not numbered, so another catalog knows which is the newest: connect to that catalog."
    return UnsupportedTableFeature(label, "iceberg of another catalog", action=action, advice=advice)
