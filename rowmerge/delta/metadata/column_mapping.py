"""Column mapping: the names and ids under which data files and the log hold a table's columns (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rowmerge.delta.files.statistics import Leaf, indexed_leaves, leaves
from rowmerge.table.metadata.schema import FIELD_ID, Array, DataType, Field, Map, Struct

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"
_KEYS = frozenset({ID, PHYSICAL_NAME, NESTED_IDS})


def assigned(schema: Struct, last: int, *, keep_names: bool) -> tuple[Struct, int]:
    """The schema with an id and a physical name for every field that has none, ids from `last` + 1 on, and the last id.

    With `keep_names` a field's physical name is its name: files that are there have it by that.
    """
    fields = []
    for field in schema:
        metadata = dict(field.metadata)
        if ID not in metadata:
            last += 1
            metadata[ID] = last
        if PHYSICAL_NAME not in metadata:
            metadata[PHYSICAL_NAME] = field.name if keep_names else f"col-{uuid.uuid4()}"
        type_, last = _assigned_type(field.type, last, keep_names)
        fields.append(replace(field, type=type_, metadata=metadata))
    return Struct(tuple(fields)), last


def _assigned_type(type_: DataType, last: int, keep_names: bool) -> tuple[DataType, int]:
    match type_:
        case Struct():
            return assigned(type_, last, keep_names=keep_names)
        case Array():
            element, last = _assigned_type(type_.element, last, keep_names)
            return replace(type_, element=element), last
        case Map():
            key, last = _assigned_type(type_.key, last, keep_names)
            value, last = _assigned_type(type_.value, last, keep_names)
            return replace(type_, key=key, value=value), last
    return type_, last


def highest_id(type_: DataType) -> int:
    """The highest id of any field, 0 for none."""
    match type_:
        case Struct(fields):
            own: list[int] = [n for f in fields for n in (f.metadata.get(ID, 0), *(f.metadata.get(NESTED_IDS) or {}).values())]
            return max([0, *own, *(highest_id(f.type) for f in fields)])
        case Array(element, _):
            return highest_id(element)
        case Map(key, value, _):
            return max(highest_id(key), highest_id(value))
    return 0


def unmapped(schema: Struct) -> Struct:
    """The schema without ids and physical names, on every level."""
    kept = [(f, {key: value for key, value in f.metadata.items() if key not in _KEYS}) for f in schema]
    return Struct(tuple(replace(f, type=_unmapped_type(f.type), metadata=metadata) for f, metadata in kept))


def _unmapped_type(type_: DataType) -> DataType:
    match type_:
        case Struct():
            return unmapped(type_)
        case Array():
            return replace(type_, element=_unmapped_type(type_.element))
        case Map():
            return replace(type_, key=_unmapped_type(type_.key), value=_unmapped_type(type_.value))
    return type_


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
