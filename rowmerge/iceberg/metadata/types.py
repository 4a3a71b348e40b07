"""Column types between Iceberg's schemas and ours. Field ids ride along in the fields' metadata, on every level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyiceberg import types as t
from pyiceberg.schema import Schema

from rowmerge.errors import TypeMismatch, UnsupportedTableFeature
from rowmerge.iceberg.metadata.defaults import default_text, default_value
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
    below,
    held_types,
    sql_name,
)

TO_ICEBERG: Mapping[str, str] = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "string": "string",
    "binary": "binary",
}
"""The primitive types that tables have, by Spark's names, in the spec's text; view_schema.py knows what views may have besides."""
FROM_ICEBERG: Mapping[str, str] = {
    **{iceberg: name for name, iceberg in TO_ICEBERG.items() if name not in ("byte", "short")},
    # As Iceberg on Spark has them; FIXED says how files hold them. `fixed[n]` is binary.
    "uuid": "string",
}
_PRIMITIVES = {
    str(type_): type_
    for type_ in (
        t.BooleanType(),
        t.IntegerType(),
        t.LongType(),
        t.FloatType(),
        t.DoubleType(),
        t.DateType(),
        t.TimestamptzType(),
        t.TimestampType(),
        t.StringType(),
        t.BinaryType(),
    )
}


def columns_of(schema: Schema, table: str) -> Struct:
    """The columns of an Iceberg schema, with their ids. Raises UnsupportedTableFeature for a type that Spark has no form of."""
    return Struct(tuple(_field(field, table, top=True) for field in schema.fields))


def _defaults(field: t.NestedField, table: str, *, top: bool) -> dict[str, str]:
    """The defaults of a column, as SQL text. Raises UnsupportedTableFeature for one that cannot be kept."""
    found = {}
    for key, told, value in ((INITIAL, "initial", field.initial_default), (DEFAULT, "write", field.write_default)):
        if value is not None:
            text = default_text(value, field.field_type) if top else None
            if text is None:
                where = f"column {field.name} of type {field.field_type}" if top else f"field {field.name} of a struct"
                advice = "Read it in an engine that knows such defaults."
                raise UnsupportedTableFeature(table, f"the {told} default of the {where}", action="read", advice=advice)
            found[key] = text
    return found


def _struct(struct: t.StructType, table: str) -> Struct:
    return Struct(tuple(_field(field, table) for field in struct.fields))


def _field(field: t.NestedField, table: str, *, top: bool = False) -> Field:
    metadata: dict[str, Any] = {FIELD_ID: field.field_id}
    metadata |= _defaults(field, table, top=top)
    if nested := dict(_nested_ids(field.field_type, "")):
        metadata[NESTED_IDS] = nested
    if fixed := dict(_fixed(field.field_type, "")):
        metadata[FIXED] = fixed
    if field.doc is not None:
        metadata["comment"] = field.doc
    return Field(field.name, _type(field.field_type, field.name, table), not field.required, metadata)


def _type(type_: t.IcebergType, column: str, table: str) -> DataType:
    match type_:
        case t.DecimalType():
            return Decimal(type_.precision, type_.scale)
        case t.StructType():
            return _struct(type_, table)
        case t.ListType():
            return Array(_type(type_.element_type, column, table), not type_.element_required)
        case t.MapType():
            key, value = _type(type_.key_type, column, table), _type(type_.value_type, column, table)
            return Map(key, value, not type_.value_required)
        case t.FixedType():
            return Primitive("binary")
    name = FROM_ICEBERG.get(str(type_))
    if name is None:
        # Spark's own TIME is a preview that is off unless it is asked for: its files would not be read by most sessions.
        advice = "Spark has no such type: read it in an engine that has it, or have a column of another type made of it there."
        raise UnsupportedTableFeature(table, f"type {type_} of the column {column}", action="read", advice=advice)
    return Primitive(name)


def _nested_ids(type_: t.IcebergType, path: str) -> Iterator[tuple[str, int]]:
    """The ids of what lists and maps hold, by their paths below the field, as far as the next field of a struct."""
    if isinstance(type_, t.ListType):
        yield f"{path}element", type_.element_id
        yield from _nested_ids(type_.element_type, f"{path}element.")
    elif isinstance(type_, t.MapType):
        yield f"{path}key", type_.key_id
        yield from _nested_ids(type_.key_type, f"{path}key.")
        yield f"{path}value", type_.value_id
        yield from _nested_ids(type_.value_type, f"{path}value.")


def _fixed(type_: t.IcebergType, path: str) -> Iterator[tuple[str, str]]:
    """What of a field is held as bytes of one length, by its path below the field, as far as the next field of a struct."""
    match type_:
        case t.UUIDType() | t.FixedType():
            yield path, str(type_)
        case t.ListType():
            yield from _fixed(type_.element_type, below(path, "element"))
        case t.MapType():
            yield from _fixed(type_.key_type, below(path, "key"))
            yield from _fixed(type_.value_type, below(path, "value"))


class SchemaBuilder:
    """An Iceberg schema from ours: fields that have an id keep it, and how files hold them (FIXED); all others get the next ids."""

    def __init__(self, table: str, last_id: int) -> None:
        self._table, self.last_id = table, last_id

    def schema(self, columns: Struct, schema_id: int = 0, identifier_ids: frozenset[int] = frozenset()) -> Schema:
        """The schema. Raises TypeMismatch for a type that Iceberg does not have."""
        # Ids of the top level first, as in Java's TypeUtil.assignFreshIds.
        fields = self._fields(held_types(columns))
        there = {id_ for field in fields for id_ in (field.field_id,)}
        return Schema(*fields, schema_id=schema_id, identifier_field_ids=sorted(identifier_ids & there))

    def _fields(self, columns: Struct) -> list[t.NestedField]:
        ids = [self._id(column.metadata.get(FIELD_ID)) for column in columns]
        return [
            t.NestedField(
                field_id=id_,
                name=column.name,
                field_type=self._type(column.type, column, column.metadata.get(NESTED_IDS) or {}, ""),
                required=not column.nullable,
                doc=column.comment,
                initial_default=self._default(column, INITIAL),
                write_default=self._default(column, DEFAULT),
            )
            for id_, column in zip(ids, columns, strict=True)
        ]

    def _default(self, column: Field, key: str) -> Any:
        text = column.metadata.get(key)
        if text is None or str(text).strip().upper() == "NULL":
            return None
        try:
            if isinstance(column.type, Primitive | Decimal):
                return default_value(str(text), self._type(column.type, column, {}, ""))
        except ValueError:
            pass
        told = f"the default {text} of the column {column.name}"
        advice = f"Write a literal of the type {sql_name(column.type)} (times with their zone), or leave it out: Iceberg keeps the value."
        raise UnsupportedTableFeature(self._table, told, action="create", advice=advice)

    def _id(self, known: Any) -> int:
        if known is not None:
            return int(known)
        self.last_id += 1
        return self.last_id

    def _type(self, type_: DataType, column: Field, ids: Mapping[str, int], path: str) -> t.IcebergType:
        match type_:
            case Decimal(precision, scale):
                return t.DecimalType(precision, scale)
            case Fixed(length, uuid):
                return t.UUIDType() if uuid else t.FixedType(length)
            case Struct():
                return t.StructType(*self._fields(type_))
            case Array(element, contains_null):
                id_ = self._id(ids.get(f"{path}element"))
                inner = self._type(element, column, ids, f"{path}element.")
                return t.ListType(element_id=id_, element_type=inner, element_required=not contains_null)
            case Map(key, value, value_contains_null):
                key_id, value_id = self._id(ids.get(f"{path}key")), self._id(ids.get(f"{path}value"))
                return t.MapType(
                    key_id=key_id,
                    key_type=self._type(key, column, ids, f"{path}key."),
                    value_id=value_id,
                    value_type=self._type(value, column, ids, f"{path}value."),
                    value_required=not value_contains_null,
                )
        found = TO_ICEBERG.get(type_.name)
        if found is None:
            raise TypeMismatch(
                f"The column `{column.name}` of {self._table} is {sql_name(type_)}, which Iceberg tables of format version 2 do not have. "
                f"Choose another type."
            )
        return _PRIMITIVES[found]


def fresh(columns: Struct) -> Struct:
    """The columns as those of a new table: without ids, tinyint and smallint as int, char and varchar as plain strings."""
    return Struct(tuple(_fresh_field(field) for field in columns))


def _fresh_field(field: Field) -> Field:
    kept = {key: field.metadata[key] for key in ("comment", DEFAULT) if key in field.metadata}
    return Field(field.name, _fresh_type(field.type), field.nullable, kept)


def _fresh_type(type_: DataType) -> DataType:
    match type_:
        case Primitive("byte" | "short"):
            return Primitive("integer")
        case Struct():
            return fresh(type_)
        case Array(element, contains_null):
            return Array(_fresh_type(element), contains_null)
        case Map(key, value, value_contains_null):
            return Map(_fresh_type(key), _fresh_type(value), value_contains_null)
    return type_


def widens(old: DataType, new: DataType) -> bool:
    """int to long, float to double, decimals to more digits before the point."""
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return new.scale == old.scale and new.precision > old.precision
    return (old, new) in ((Primitive("integer"), Primitive("long")), (Primitive("float"), Primitive("double")))
