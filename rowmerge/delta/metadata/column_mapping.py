"""Column mapping: the ids and physical names of columns in data files and in the log (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Any

from rowmerge.delta.files.statistics import ColumnPath, indexed_leaves, leaves, parse_columns
from rowmerge.table.metadata.schema import (
    FIELD_ID,
    NESTED_IDS as FILE_NESTED_IDS,
    DataType,
    Field,
    Struct,
    backquote,
    convert_parts,
    parts,
)

MAPPING_MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"
_KEYS = frozenset({ID, PHYSICAL_NAME, NESTED_IDS})


def assign_ids(schema: Struct, last_id: int, *, use_names_as_physical: bool) -> tuple[Struct, int]:
    """Return the schema with an id and a physical name for each field, and the highest id.

    Args:
        schema: The schema. Existing ids and physical names are kept.
        last_id: The highest id that is already in use. New ids are higher.
        use_names_as_physical: Whether a field's name is also its physical name, as in existing data files. Otherwise, it is random.

    Returns:
        The new schema, and the highest assigned id, or `last_id` if no id was assigned.
    """
    new_ids = count(last_id + 1)
    schema = map_fields(schema, partial(_assign_id, new_ids, use_names_as_physical))
    # `_assign_id` takes the next id for each field without one. So the id before the first unused one is the highest.
    return schema, next(new_ids) - 1


def _assign_id(ids: Iterator[int], use_names_as_physical: bool, field: Field) -> Field:
    """Return a field with an id and a physical name. An existing id or physical name does not change.

    `ids`: the new ids. `use_names_as_physical`: whether the field's name becomes its physical name, instead of a random name.
    """
    metadata = dict(field.metadata)
    if ID not in metadata:
        metadata[ID] = next(ids)
    if PHYSICAL_NAME not in metadata:
        metadata[PHYSICAL_NAME] = field.name if use_names_as_physical else f"col-{uuid.uuid4()}"
    return replace(field, metadata=metadata)


def adopt_field_ids(schema: Struct, properties: Mapping[str, str]) -> Struct:
    """Return the schema without the field ids of existing files. With column mapping, they become the ids of the columns.

    Args:
        schema: The columns of a new table. Those of existing files have a FIELD_ID and their present name.
        properties: The properties of the table, which can enable column mapping.
    """
    has_mapping = properties.get(MAPPING_MODE, "none").strip().lower() != "none"

    def adopt(field: Field) -> Field:
        metadata = {key: value for key, value in field.metadata.items() if key not in (FIELD_ID, FILE_NESTED_IDS)}
        if has_mapping and FIELD_ID in field.metadata:
            # The physical name is assigned later, and is random: Spark's reader would apply filters to a file's column of the same name.
            metadata = {ID: field.metadata[FIELD_ID], **metadata}
        return replace(field, metadata=metadata)

    return map_fields(schema, adopt)


def highest_id(schema: Struct) -> int:
    """Return the highest id of all fields, including elements, keys and values, or 0 if there are no ids."""
    ids = ((field.metadata.get(ID, 0), *(field.metadata.get(NESTED_IDS) or {}).values()) for field in named_fields(schema))
    return int(max(chain([0], *ids)))


def named_fields(type_: DataType) -> Iterator[Field]:
    """Yield the fields of all structs in a type, including nested structs."""
    for part in parts(type_):
        if isinstance(type_, Struct):
            yield part
        yield from named_fields(part.type)


def all_fields(type_: DataType) -> Iterator[Field]:
    """Yield all fields of a type, including nested fields. Elements, keys and values count as fields."""
    for part in parts(type_):
        yield part
        yield from all_fields(part.type)


def without_mapping(schema: Struct) -> Struct:
    """Return the schema without ids and physical names at all levels."""

    def unmap(field: Field) -> Field:
        return replace(field, metadata={key: value for key, value in field.metadata.items() if key not in _KEYS})

    return map_fields(schema, unmap)


def stored_fields(schema: Struct) -> Struct:
    """Return the schema of the data files of a table with column mapping.

    At all levels, it has the physical names of the fields, and their ids under the metadata key FIELD_ID.
    """

    def store(field: Field) -> Field:
        return Field(field.metadata[PHYSICAL_NAME], field.type, field.nullable, {FIELD_ID: field.metadata[ID]})

    return map_fields(schema, store)


def has_mapping(schema: Struct) -> bool:
    """Return whether a field of a struct has an id or a physical name."""
    return any(not _KEYS.isdisjoint(field.metadata) for field in named_fields(schema))


def map_fields(schema: Struct, convert: Callable[[Field], Field]) -> Struct:
    """Return the schema with all fields of structs converted by `convert`. A field is converted before its nested fields.

    Args:
        schema: The schema.
        convert: The function that returns the new field.
    """
    return Struct(tuple(replace(field, type=_map_nested_fields(field.type, convert)) for field in map(convert, schema)))


def _map_nested_fields(type_: DataType, convert: Callable[[Field], Field]) -> DataType:
    return convert_parts(type_, lambda struct: map_fields(struct, convert), lambda _, part: _map_nested_fields(part, convert))


def stored_partition_columns(schema: Mapping[str, Any], columns: Iterable[str]) -> tuple[str, ...]:
    """Return the physical names of partition columns.

    Args:
        schema: The parsed JSON of the `schemaString`, which can contain types that rowmerge does not support.
        columns: The logical names of the partition columns.
    """
    names = {field["name"]: (field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"]) for field in schema["fields"]}
    return tuple(names.get(column, column) for column in columns)


def values_by_physical_name(values: Mapping[str, Any], schema: Struct, physical_schema: Struct) -> dict[str, Any]:
    """Return values by physical column name, converted from values by logical column name.

    Args:
        values: The values by logical column name. The value of a struct is a mapping too. Values of unknown columns are dropped.
        schema: The columns with their logical names.
        physical_schema: The same columns with their physical names.
    """
    physical_values: dict[str, Any] = {}
    for field, physical_field in zip(schema, physical_schema, strict=True):
        if field.name in values:
            value = values[field.name]
            if isinstance(value, Mapping) and isinstance(field.type, Struct) and isinstance(physical_field.type, Struct):
                value = values_by_physical_name(value, field.type, physical_field.type)
            physical_values[physical_field.name] = value
    return physical_values


def physical_indexed_leaves(
    schema: Struct,
    physical_schema: Struct,
    partition_columns: Iterable[str],
    properties: Mapping[str, str],
    clustering_columns: Collection[ColumnPath] = (),
) -> frozenset[ColumnPath]:
    """Return the physical paths of the leaf columns for which data files have statistics (data skipping).

    A leaf is a column or a nested field that is not a struct. The table's properties select leaves by logical names, but statistics in the
    log use physical names.

    Args:
        schema: The columns with their logical names.
        physical_schema: The same columns with their physical names.
        partition_columns: The logical names of the partition columns.
        properties: The properties of the table, which can list the columns with statistics.
        clustering_columns: The physical paths of the clustering columns, which always have statistics.

    Raises:
        ConfigurationError: `delta.dataSkippingStatsColumns` or `delta.dataSkippingNumIndexedCols` is invalid.
    """
    indexed_paths = indexed_leaves(schema, partition_columns, properties)
    clustering_paths = {path for path in leaves(physical_schema) if _is_inside_any(path, clustering_columns)}
    paths = zip(leaves(schema), leaves(physical_schema), strict=True)
    return frozenset(physical for logical, physical in paths if logical in indexed_paths or physical in clustering_paths)


def _is_inside_any(path: ColumnPath, columns: Collection[ColumnPath]) -> bool:
    """Return whether a path is that of one of the columns, or of a field inside one of them: `("a", "b")` is inside `("a",)`."""
    return any(path[: len(column)] == column for column in columns)


def renamed_columns(text: str, old: Struct, new: Struct) -> str:
    """Return `delta.dataSkippingStatsColumns` with the column names of the new schema, and without dropped columns.

    Args:
        text: The value of the property before the change.
        old: The old schema.
        new: The new schema. The table must have column mapping.
    """
    paths = [_renamed_path(path, old, new) for path in parse_columns(text)]
    return ",".join(".".join(map(backquote, path)) for path in paths if path is not None)


def _renamed_path(path: ColumnPath, old: Struct, new: Struct) -> ColumnPath | None:
    """Return the path of a column or a nested field in the new schema, or None if it was dropped.

    A path that is not in the old schema is returned unchanged.
    """
    name, *nested_names = path
    old_field = old.find(name)
    if old_field is None:
        return path
    new_field = next((field for field in new if field.metadata.get(ID) == old_field.metadata.get(ID)), None)
    if new_field is None:
        return None
    if nested_names and isinstance(old_field.type, Struct) and isinstance(new_field.type, Struct):
        nested_path = _renamed_path(tuple(nested_names), old_field.type, new_field.type)
        return None if nested_path is None else (new_field.name, *nested_path)
    # Only fields of structs can be renamed: `element`, `key` and `value` are fixed names.
    return (new_field.name, *nested_names)
