"""Column mapping: the names and ids under which data files and the log hold a table's columns (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rowmerge.delta.statistics import Leaf, indexed_leaves, leaves
from rowmerge.table.schema import FIELD_ID, Array, DataType, Field, Map, Struct

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"


def stored_fields(schema: Struct) -> Struct:
    """The schema of a table with column mapping as its files have it: physical names, and ids as FIELD_ID, on every level."""
    return Struct(tuple(_stored_field(field) for field in schema))


def _stored_field(field: Field) -> Field:
    return Field(field.metadata[PHYSICAL_NAME], _stored_type(field.type), field.nullable, {FIELD_ID: field.metadata[ID]})


def _stored_type(type_: DataType) -> DataType:
    match type_:
        case Struct():
            return stored_fields(type_)
        case Array(element, contains_null):
            return Array(_stored_type(element), contains_null)
        case Map(key, value, value_contains_null):
            return Map(_stored_type(key), _stored_type(value), value_contains_null)
    return type_


def stored_partition_columns(schema: Mapping[str, Any], columns: Iterable[str]) -> tuple[str, ...]:
    """The physical names of partition columns, from the schema's JSON: it may have types that are not known here."""
    names = {field["name"]: (field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"]) for field in schema["fields"]}
    return tuple(names.get(column, column) for column in columns)


def stored_values(values: Mapping[str, Any], schema: Struct, stored: Struct) -> dict[str, Any]:
    """A tree of values by logical names as one by stored names; names that are no column's are left out."""
    found: dict[str, Any] = {}
    for field, held in zip(schema, stored, strict=True):
        if field.name in values:
            value = values[field.name]
            nested = isinstance(value, Mapping) and isinstance(field.type, Struct) and isinstance(held.type, Struct)
            found[held.name] = stored_values(value, field.type, held.type) if nested else value  # type: ignore[arg-type]
    return found


def stored_indexed_leaves(
    schema: Struct, stored: Struct, partition_columns: Iterable[str], properties: Mapping[str, str], clustering: Iterable[Leaf] = ()
) -> frozenset[Leaf]:
    """The leaves that statistics are kept of, by stored names. Properties name columns logically, `clustering` as they are stored.

    Raises ConfigurationError.
    """
    chosen = indexed_leaves(schema, partition_columns, properties)
    clustered = tuple(clustering)
    pairs = zip(leaves(schema), leaves(stored), strict=True)
    return frozenset(held for leaf, held in pairs if leaf in chosen or any(held[: len(prefix)] == prefix for prefix in clustered))
