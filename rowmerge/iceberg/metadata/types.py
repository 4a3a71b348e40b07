"""Convert schemas between Iceberg and Spark. The metadata of each field, at any depth, contains its Iceberg field id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyiceberg import types as t
from pyiceberg.schema import Schema

from rowmerge.errors import PlanError, TypeMismatch, UnknownColumn, UnsupportedTableFeature
from rowmerge.iceberg.metadata.defaults import default_sql, parse_default
from rowmerge.table.metadata.rules import DEFAULT, INITIAL
from rowmerge.table.metadata.schema import (
    FIELD_ID,
    FIXED,
    NESTED_IDS,
    Array,
    DataType,
    Decimal,
    Field,
    Fixed,
    Map,
    Primitive,
    Struct,
    convert_parts,
    nested_path,
    sql_name,
    stored_types,
)
from rowmerge.table.metadata.shape import IdentifierChange

TO_ICEBERG: Mapping[str, t.PrimitiveType] = {
    "boolean": t.BooleanType(),
    "byte": t.IntegerType(),
    "short": t.IntegerType(),
    "integer": t.IntegerType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "date": t.DateType(),
    "timestamp": t.TimestamptzType(),
    "timestamp_ntz": t.TimestampType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
}
"""The primitive Iceberg types of tables, by the name of the Spark type. view_schema.py adds the types that only views have."""
FROM_ICEBERG: Mapping[str, str] = {
    **{str(type_): name for name, type_ in TO_ICEBERG.items() if name not in ("byte", "short")},
    # As in Iceberg on Spark. The metadata entry FIXED has the stored type. `fixed[n]` is binary.
    "uuid": "string",
}


def columns_of(schema: Schema, table: str) -> Struct:
    """Return the columns of an Iceberg schema, with their field ids.

    Args:
        schema: The Iceberg schema.
        table: The name of the table in messages.

    Raises:
        UnsupportedTableFeature: Spark does not support the type of a column, or SQL cannot express a default.
    """
    return Struct(tuple(_field(field, table, is_column=True) for field in schema.fields))


def nested_fields(type_: t.IcebergType) -> Sequence[t.NestedField]:
    """Return the fields directly inside a type. The fields of lists and maps are named `element`, `key` and `value`."""
    match type_:
        case t.StructType():
            return type_.fields
        case t.ListType():
            return (type_.element_field,)
        case t.MapType():
            return (type_.key_field, type_.value_field)
    return ()


def _field(field: t.NestedField, table: str, *, is_column: bool) -> Field:
    """Return the engine's field for an Iceberg field. `is_column`: whether it is a top-level column, which may have defaults."""
    defaults = _defaults_metadata(field, table, is_column=is_column)
    metadata: dict[str, Any] = {FIELD_ID: field.field_id, **defaults, **_type_metadata(field.field_type)}
    if field.doc is not None:
        metadata["comment"] = field.doc
    return Field(field.name, _spark_type(field.field_type, field.name, table), not field.required, metadata)


def _type_metadata(type_: t.IcebergType) -> dict[str, Any]:
    """Return the metadata that a Spark type cannot express, by path: the ids of nested fields (NESTED_IDS) and stored types (FIXED)."""
    container_fields = dict(_container_fields(type_))
    nested_ids = {path: nested.field_id for path, nested in container_fields.items()}
    types = {"": type_, **{path: nested.field_type for path, nested in container_fields.items()}}
    fixed_types = {path: str(type_) for path, type_ in types.items() if isinstance(type_, t.UUIDType | t.FixedType)}
    metadata = {NESTED_IDS: nested_ids, FIXED: fixed_types}
    return {key: by_path for key, by_path in metadata.items() if by_path}


def _container_fields(type_: t.IcebergType, path: str = "") -> Iterator[tuple[str, t.NestedField]]:
    """Yield the fields of lists and maps with their paths relative to the column. Skip structs, whose fields have their own metadata."""
    if isinstance(type_, t.StructType):
        return
    for field in nested_fields(type_):
        field_path = nested_path(path, field.name)
        yield field_path, field
        yield from _container_fields(field.field_type, field_path)


def _defaults_metadata(field: t.NestedField, table: str, *, is_column: bool) -> dict[str, str]:
    """Return the metadata entries of a field's defaults, as SQL. Raises UnsupportedTableFeature for a default that SQL cannot express."""
    metadata = {}
    if field.initial_default is not None:
        metadata[INITIAL] = _default_sql(field.initial_default, "initial", field, table, is_column=is_column)
    if field.write_default is not None:
        metadata[DEFAULT] = _default_sql(field.write_default, "write", field, table, is_column=is_column)
    return metadata


def _default_sql(value: Any, kind: str, field: t.NestedField, table: str, *, is_column: bool) -> str:
    """Return an initial or write default as SQL. Raises UnsupportedTableFeature for a default that SQL cannot express."""
    text = default_sql(value, field.field_type) if is_column else None
    if text is not None:
        return text
    owner = f"column {field.name} of type {field.field_type}" if is_column else f"field {field.name} of a struct"
    advice = "Read it with an engine that supports such defaults."
    raise UnsupportedTableFeature(table, f"the {kind} default of the {owner}", action="read", advice=advice)


def _spark_type(type_: t.IcebergType, column: str, table: str) -> DataType:
    """Return the Spark type of an Iceberg type and its nested types. Raises UnsupportedTableFeature for a type that Spark lacks."""
    match type_:
        case t.DecimalType():
            return Decimal(type_.precision, type_.scale)
        case t.StructType():
            return Struct(tuple(_field(field, table, is_column=False) for field in type_.fields))
        case t.ListType():
            return Array(_spark_type(type_.element_type, column, table), not type_.element_required)
        case t.MapType():
            key_type, value_type = (_spark_type(part, column, table) for part in (type_.key_type, type_.value_type))
            return Map(key_type, value_type, not type_.value_required)
        case t.FixedType():
            return Primitive("binary")
        case _ if str(type_) in FROM_ICEBERG:
            return Primitive(FROM_ICEBERG[str(type_)])
    # Spark's type TIME is a preview feature and off by default, so most sessions could not read the files.
    advice = "Spark has no such type. Read the table with an engine that supports the type, or convert the column to another type there."
    raise UnsupportedTableFeature(table, f"type {type_} of the column {column}", action="read", advice=advice)


class SchemaBuilder:
    """A builder of Iceberg schemas. Fields with an id keep their id and their stored type (FIXED). New fields get the next ids.

    `last_id`: the highest field id that the table has ever used. It increases with each new field.
    """

    def __init__(self, table: str, last_id: int) -> None:
        self._table, self.last_id = table, last_id

    def build_schema(self, columns: Struct, schema_id: int = 0) -> Schema:
        """Assign ids to new fields, which increases `last_id`, and return the Iceberg schema of the columns.

        Args:
            columns: The columns. A field with a FIELD_ID keeps its id.
            schema_id: The id of the schema.

        Raises:
            TypeMismatch: Iceberg does not have the type of a column.
            UnsupportedTableFeature: A default is an expression.
        """
        return Schema(*self._fields(stored_types(columns)), schema_id=schema_id)

    def _fields(self, columns: Struct) -> list[t.NestedField]:
        # All fields of a level get their ids before their nested fields, as in Iceberg's TypeUtil.assignFreshIds.
        ids = [self._assign_id(column.metadata.get(FIELD_ID)) for column in columns]
        return [self._field(column, id_) for column, id_ in zip(columns, ids, strict=True)]

    def _field(self, column: Field, field_id: int) -> t.NestedField:
        return t.NestedField(
            field_id=field_id,
            name=column.name,
            field_type=self._iceberg_type(column.type, column),
            required=not column.nullable,
            doc=column.comment,
            initial_default=self._default_value(column, INITIAL),
            write_default=self._default_value(column, DEFAULT),
        )

    def _default_value(self, column: Field, key: str) -> Any:
        """Return the value of a default, or None without one. Raises UnsupportedTableFeature for a default that is an expression."""
        text = column.metadata.get(key)
        if text is None or str(text).strip().upper() == "NULL":
            return None
        if isinstance(column.type, Primitive | Decimal):
            with suppress(ValueError):  # The default is an expression.
                return parse_default(str(text), self._iceberg_type(column.type, column))
        feature = f"the default {text} of the column {column.name}"
        advice = f"Write a literal of the type {sql_name(column.type)}, with a time zone for timestamps, or leave out the default."
        raise UnsupportedTableFeature(self._table, feature, action="create", advice=advice)

    def _assign_id(self, existing_id: Any) -> int:
        """Return the existing id of a field, or the next id for a new field, whose existing id is None."""
        if existing_id is not None:
            return int(existing_id)
        self.last_id += 1
        return self.last_id

    def _nested_id(self, column: Field, path: str) -> int:
        """Return the field id of the element, key or value at a path in a column: its existing id, or the next new id."""
        return self._assign_id((column.metadata.get(NESTED_IDS) or {}).get(path))

    def _iceberg_type(self, type_: DataType, column: Field, path: str = "") -> t.IcebergType:
        """Return the Iceberg type of the element, key or value at a path in a column. An empty path stands for the column itself."""
        match type_:
            case Decimal(precision, scale):
                return t.DecimalType(precision, scale)
            case Fixed(length, uuid):
                return t.UUIDType() if uuid else t.FixedType(length)
            case Struct():
                return t.StructType(*self._fields(type_))
            case Array():
                return self._list_type(type_, column, path)
            case Map():
                return self._map_type(type_, column, path)
            case Primitive(name) if name in TO_ICEBERG:
                return TO_ICEBERG[name]
        raise TypeMismatch(
            f"The column `{column.name}` of {self._table} is {sql_name(type_)}, which Iceberg format version 2 does not support. "
            f"Choose a different type."
        )

    def _list_type(self, array: Array, column: Field, path: str) -> t.ListType:
        element_path = nested_path(path, "element")
        element_id = self._nested_id(column, element_path)
        return t.ListType(element_id, self._iceberg_type(array.element, column, element_path), not array.contains_null)

    def _map_type(self, map_: Map, column: Field, path: str) -> t.MapType:
        """Return the Iceberg type of a map at a path in a column. Key and value get their ids before their nested fields."""
        key_path, value_path = nested_path(path, "key"), nested_path(path, "value")
        key_id, value_id = self._nested_id(column, key_path), self._nested_id(column, value_path)
        key_type = self._iceberg_type(map_.key, column, key_path)
        value_type = self._iceberg_type(map_.value, column, value_path)
        return t.MapType(key_id, key_type, value_id, value_type, not map_.value_contains_null)


def with_identifiers(table: str, schema: Schema, old_schema: Schema, change: IdentifierChange | None) -> Schema:
    """Return a new schema with its identifier fields, which are those of the old schema unless a statement changes them.

    Args:
        table: The name of the table in messages.
        schema: The new schema, in which the columns of the old schema have the same ids.
        old_schema: The current schema of the table.
        change: SET or DROP IDENTIFIER FIELDS, or None for a statement that changes columns.

    Raises:
        PlanError: A field does not exist, cannot identify rows, or is not an identifier field that DROP can remove.
    """
    ids, names = set(old_schema.identifier_field_ids), old_schema.find_column_name
    if change is not None:
        named_ids = {_identifier_id(table, old_schema, path) for path in change.columns}
        if change.drop and (others := named_ids - ids):
            raise PlanError(f"{names(min(others))} is not an identifier field of {table}. Leave it out.")
        ids = ids - named_ids if change.drop else named_ids
    for field_id in sorted(ids):
        _check_identifier(table, schema, field_id, str(names(field_id)))
    return Schema(*schema.fields, schema_id=schema.schema_id, identifier_field_ids=sorted(ids))


def identifier_paths(schema: Schema) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the identifier fields of a schema."""
    paths = (_fields_on_path(schema.fields, field_id) for field_id in schema.identifier_field_ids)
    return tuple(tuple(field.name for field in path) for path in paths)


def _identifier_id(table: str, schema: Schema, path: tuple[str, ...]) -> int:
    """Return the id of a field, or raise UnknownColumn."""
    try:
        return schema.find_field(".".join(path), case_sensitive=False).field_id
    except ValueError:
        raise UnknownColumn(".".join(path), list(schema.column_names), where=table) from None


def _check_identifier(table: str, schema: Schema, field_id: int, name: str) -> None:
    """Raise PlanError if a field cannot identify rows ("Identifier Field IDs" in the Iceberg specification)."""
    if field_id not in schema.field_ids:
        advice = f"First run ALTER TABLE {table} DROP IDENTIFIER FIELDS {name}."
        raise PlanError(f"The identifier field {name} of {table} cannot be dropped. {advice}")
    *parents, field = _fields_on_path(schema.fields, field_id)
    problem = None
    if not field.field_type.is_primitive:
        problem = "it is a struct, an array or a map"
    elif isinstance(field.field_type, t.FloatType | t.DoubleType):
        problem = "floating-point numbers have no exact equality"
    elif not all(isinstance(parent.field_type, t.StructType) for parent in parents):
        problem = "it is inside an array or a map"
    elif not all(each.required for each in (*parents, field)):
        problem = "it or a struct around it can be NULL"
    if problem is not None:
        advice = "Identifier fields are NOT NULL, of a simple type, and outside of arrays and maps."
        raise PlanError(f"{name} cannot be an identifier field of {table}: {problem}. {advice}")


def _fields_on_path(fields: Sequence[t.NestedField], field_id: int) -> list[t.NestedField]:
    """Return the fields from a column down to the field with an id, or an empty list if the id is not among them."""
    for field in fields:
        below = [] if field.field_id == field_id else _fields_on_path(nested_fields(field.field_type), field_id)
        if below or field.field_id == field_id:
            return [field, *below]
    return []


def as_new_columns(columns: Struct) -> Struct:
    """Return columns for a new table, without field ids. Convert tinyint and smallint to int, and char and varchar to string."""
    return Struct(tuple(_as_new_field(field) for field in columns))


def _as_new_field(field: Field) -> Field:
    """Return a field for a new table, with only its comment and default. Other metadata, such as ids, belongs to the table it came from."""
    metadata = {key: field.metadata[key] for key in ("comment", DEFAULT) if key in field.metadata}
    return Field(field.name, _as_new_type(field.type), field.nullable, metadata)


def _as_new_type(type_: DataType) -> DataType:
    if type_ in (Primitive("byte"), Primitive("short")):
        return Primitive("integer")
    return convert_parts(type_, as_new_columns, lambda _, part: _as_new_type(part))


def can_widen(old: DataType, new: DataType) -> bool:
    """Return whether Iceberg allows a type promotion ("Schema Evolution" in the Iceberg specification).

    Allowed are int to long, float to double, and a decimal to a higher precision of the same scale.

    Args:
        old: The type of the column in old data files.
        new: The new type of the column.
    """
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new.scale == old.scale and new.precision > old.precision
    return (old, new) in ((Primitive("integer"), Primitive("long")), (Primitive("float"), Primitive("double")))
