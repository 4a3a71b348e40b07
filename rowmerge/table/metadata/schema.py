"""The types of a table's columns, which correspond to the JSON of schemas in Spark and in Delta's log."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

_Member = TypeVar("_Member")
DEEPEST_TYPE = 40
"""The maximum nesting depth of a column's type. Each struct takes three levels of JSON, and delta-rs and DuckDB read 128 levels."""
MAX_DECIMAL_PRECISION = 38
"""The maximum number of digits of a decimal in Delta, Iceberg and Spark."""
_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_ARROW_TYPES: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
FIELD_ID = "parquet.field.id"
"""The key in a field's metadata for its field id in Parquet files. Spark uses the same key."""
NESTED_IDS = "parquet.field.nested.ids"
"""The key in a field's metadata for the field ids of nested elements, keys and values, by path below the field, such as `element` or
`value.element`. The fields of nested structs have their own metadata. Delta's protocol uses the same key."""
FIXED = "rowmerge.fixed"
"""The key in a field's metadata for the names of `Fixed` types, by path below the field as in NESTED_IDS. Parquet files store these values
as bytes of a fixed length. The path of the field itself is empty."""


@dataclass(frozen=True)
class Primitive:
    """A type that is not nested. `name`: the name in Spark's JSON, such as `long` or `timestamp_ntz`."""

    name: str


@dataclass(frozen=True)
class Decimal:
    """A decimal type with `precision` digits in all, of which `scale` follow the decimal point."""

    precision: int
    scale: int


@dataclass(frozen=True)
class Fixed:
    """A type for bytes of a fixed length in data files. Such a column has the type `binary`, or for a UUID the type `string`."""

    length: int
    uuid: bool = False

    @classmethod
    def parse(cls, text: str) -> Fixed:
        """Parse `uuid` or `fixed[n]`, which are Iceberg's names of these types."""
        return UUID if text == "uuid" else cls(int(text[len("fixed[") : -1]))

    def __str__(self) -> str:
        return "uuid" if self.uuid else f"fixed[{self.length}]"


@dataclass(frozen=True)
class Array:
    """An array type. `contains_null`: whether elements can be NULL."""

    element: DataType
    contains_null: bool = True


@dataclass(frozen=True)
class Map:
    """A map type. Keys are never NULL. `value_contains_null`: whether values can be NULL."""

    key: DataType
    value: DataType
    value_contains_null: bool = True


@dataclass(frozen=True)
class Field:
    """A column or a struct field. `metadata`: its metadata in the table's schema, with the keys of the format and of Spark."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def comment(self) -> str | None:
        return self.metadata.get("comment")

    @property
    def sql_type(self) -> str:
        """The type in Spark SQL. It is `char(n)` or `varchar(n)` if the column was declared with that type."""
        declared = self.metadata.get(CHAR_VARCHAR) if isinstance(self.type, Primitive) else None
        return str(declared or sql_name(self.type))


@dataclass(frozen=True)
class Struct:
    """A struct type, such as the schema of a table."""

    fields: tuple[Field, ...] = ()

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def find(self, name: str, *, case_sensitive: bool = False) -> Field | None:
        """Return the first field with this name, or None. `case_sensitive`: whether names that differ only in case are different."""
        return self._exact.get(name) if case_sensitive else self._folded.get(name.lower())

    def at(self, path: Sequence[str], *, case_sensitive: bool = False) -> Field | None:
        """Return the field at a path through structs, or None. `case_sensitive`: whether names that differ only in case are different."""
        field = self.find(path[0], case_sensitive=case_sensitive)
        if field is None or len(path) == 1:
            return field
        return field.type.at(path[1:], case_sensitive=case_sensitive) if isinstance(field.type, Struct) else None

    def select(self, names: Iterator[str] | tuple[str, ...]) -> Struct:
        """Return the fields with exactly these names, in this order. Raises KeyError if a name is unknown."""
        return Struct(tuple(self._exact[name] for name in names))

    @cached_property
    def _exact(self) -> dict[str, Field]:
        return {field.name: field for field in reversed(self.fields)}

    @cached_property
    def _folded(self) -> dict[str, Field]:
        return {field.name.lower(): field for field in reversed(self.fields)}


DataType = Primitive | Decimal | Fixed | Array | Map | Struct
UUID = Fixed(16, uuid=True)


class UnknownType(ValueError):
    """Raised when a schema contains a type that this release does not support.

    Remedy: Read the table with a newer release, or with the engine that wrote it.
    """


def type_from_json(value: Any) -> DataType:
    """Convert Spark's JSON form of a type to the type (PROTOCOL.md, Schema Serialization Format). The form of most types is a string.

    Raises:
        UnknownType: The name of the type is unknown.
        ValueError: The value is not the JSON form of a type.
    """
    if isinstance(value, str):
        return _parse_type(value)
    match _required_member(value, "type", str):
        case "struct":
            return schema_from_json(value)
        case "array":
            return Array(type_from_json(value.get("elementType")), _required_member(value, "containsNull", bool))
        case "map":
            key, entry_value = type_from_json(value.get("keyType")), type_from_json(value.get("valueType"))
            return Map(key, entry_value, _required_member(value, "valueContainsNull", bool))
    raise UnknownType(f"unknown type {value!r}")


def _parse_type(type_text: str) -> DataType:
    """Parse the JSON name of a type that is not nested, such as `long` or `decimal(10,2)`. `char(n)` and `varchar(n)` become strings."""
    if type_text == "decimal":
        return Decimal(10, 0)
    if type_text in _ARROW_TYPES or type_text in ("void", "variant"):
        return Primitive(type_text)
    if re.fullmatch(r"(var)?char\(\s*\d+\s*\)", type_text):
        return Primitive("string")
    if match := re.fullmatch(r"decimal\(\s*(\d{1,2})\s*,\s*(-?\d{1,2})\s*\)", type_text):
        decimal = Decimal(precision=int(match[1]), scale=int(match[2]))
        if 1 <= decimal.precision <= MAX_DECIMAL_PRECISION and decimal.scale <= decimal.precision:
            return decimal
    raise UnknownType(f"unknown type {type_text!r}")


def schema_from_json(value: Any) -> Struct:
    """Convert a JSON object (`{"type": "struct", "fields": […]}`) to a struct. Raises the same errors as `type_from_json`."""
    return Struct(tuple(_field_from_json(field) for field in _required_member(value, "fields", list)))


def _field_from_json(value: Any) -> Field:
    name, type_ = _required_member(value, "name", str), type_from_json(value.get("type"))
    options = {"nullable": True, "metadata": {}} | {key: option for key, option in value.items() if option is not None}
    return Field(name, type_, _required_member(options, "nullable", bool), _required_member(options, "metadata", dict))


def _required_member(value: Any, key: str, kind: type[_Member]) -> _Member:
    """Return a member of a JSON object. Raises ValueError if the member is missing or is not an instance of `kind`."""
    member = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(member, kind):
        raise ValueError(f"{key!r} is {member!r:.80} in {value!r:.80}")
    return member


def nesting(type_: DataType) -> int:
    """Return the number of nested levels of structs, arrays and maps in a type. Other types have 0 levels."""
    return 1 + max((nesting(field.type) for field in parts(type_)), default=0) if isinstance(type_, Struct | Array | Map) else 0


def to_json(type_: DataType) -> Any:
    """Return Spark's JSON form of a type, from which `type_from_json` restores the type. Only a Fixed becomes `binary`."""
    match type_:
        case Primitive(name):
            return name
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Fixed():
            return "binary"
        case Array(element, contains_null):
            return {"type": "array", "elementType": to_json(element), "containsNull": contains_null}
        case Map(key, value, value_contains_null):
            return {"type": "map", "keyType": to_json(key), "valueType": to_json(value), "valueContainsNull": value_contains_null}
        case Struct(fields):
            return {"type": "struct", "fields": [_field_to_json(field) for field in fields]}


def _field_to_json(field: Field) -> dict[str, Any]:
    return {"name": field.name, "type": to_json(field.type), "nullable": field.nullable, "metadata": dict(field.metadata)}


def bare(schema: Struct, metadata_keys: Collection[str] = ()) -> Struct:
    """Return the schema with only names and nullable types. Fields at any depth keep only the metadata with these keys."""
    columns = []
    for column in schema:
        metadata = {key: column.metadata[key] for key in metadata_keys if key in column.metadata}
        columns.append(Field(column.name, _bare_type(column.type, metadata_keys), True, metadata))
    return Struct(tuple(columns))


def _bare_type(type_: DataType, metadata_keys: Collection[str]) -> DataType:
    """Return the type with nullable fields, elements and values at any depth. Fields keep only the metadata with these keys."""
    match type_:
        case Struct():
            return bare(type_, metadata_keys)
        case Array(element, _):
            return Array(_bare_type(element, metadata_keys))
        case Map(key, value, _):
            return Map(_bare_type(key, metadata_keys), _bare_type(value, metadata_keys))
    return type_


def stored_types(schema: Struct) -> Struct:
    """Return the columns with their types in data files, which differ from the table's types for columns with FIXED."""
    return Struct(tuple(replace(field, type=_stored_type(field.type, field.metadata.get(FIXED) or {}, "")) for field in schema))


def _stored_type(type_: DataType, fixed_types: Mapping[str, str], path: str) -> DataType:
    """Return a type as data files store it. `fixed_types`: the value of FIXED in its column. `path`: the path of the type in the column."""
    if path in fixed_types:
        return Fixed.parse(fixed_types[path])
    return convert_parts(type_, stored_types, lambda name, nested_type: _stored_type(nested_type, fixed_types, nested_path(path, name)))


def parts(type_: DataType) -> tuple[Field, ...]:
    """Return the fields of a struct, the element of an array, or the key and the value of a map."""
    match type_:
        case Struct(fields):
            return fields
        case Array(element, _):
            return (Field("element", element),)
        case Map(key, value, _):
            return (Field("key", key), Field("value", value))
    return ()


def convert_parts(
    type_: DataType, convert_struct: Callable[[Struct], Struct], convert_part: Callable[[str, DataType], DataType]
) -> DataType:
    """Convert a struct, the element of an array, or the key and value of a map. Return other types unchanged.

    Args:
        type_: The type to convert.
        convert_struct: A function that converts a struct.
        convert_part: A function that converts the type of an element, key or value. Its first argument is `element`, `key` or `value`.
    """
    match type_:
        case Struct():
            return convert_struct(type_)
        case Array(element, contains_null):
            return Array(convert_part("element", element), contains_null)
        case Map(key, value, value_contains_null):
            return Map(convert_part("key", key), convert_part("value", value), value_contains_null)
    return type_


def outermost_structs(type_: DataType) -> Iterator[Struct]:
    """Iterate over the structs in a type that are not nested in another struct."""
    if isinstance(type_, Struct):
        return iter([type_])
    return (struct for field in parts(type_) for struct in outermost_structs(field.type))


def nested_path(path: str, name: str) -> str:
    """Return the path of an `element`, `key` or `value` below a path, as in NESTED_IDS. The path of the column itself is empty."""
    return f"{path}.{name}" if path else name


def as_nullable(type_: DataType) -> DataType:
    """Return the type without metadata and with nullable fields, elements and values at any depth, as Spark's `asNullable` does."""
    return _bare_type(type_, ())


def sql_name(type_: DataType) -> str:
    """Return the name of a type in Spark SQL, such as `bigint` or `array<struct<a:int>>`."""
    match type_:
        case Primitive(name):
            return _SQL_NAMES.get(name, name)
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Fixed():
            return "binary"
        case Array(element, _):
            return f"array<{sql_name(element)}>"
        case Map(key, value, _):
            return f"map<{sql_name(key)},{sql_name(value)}>"
        case Struct(fields):
            field_texts = [f"{quote(field.name)}:{sql_name(field.type)}" for field in fields]
            return f"struct<{','.join(field_texts)}>"


def arrow_type(type_: DataType, nested_ids: Mapping[str, int] | None = None, parent_path: str = "") -> pa.DataType:
    """Return the Arrow type of a column's values, with timestamps in microseconds.

    Args:
        type_: The type of the column, or a type nested in it.
        nested_ids: The field ids of nested elements, keys and values by path, such as `element.key` (see NESTED_IDS). None without ids.
        parent_path: The path of `type_` in the column, with a trailing dot, such as `element.`. Empty for the column itself.

    Raises:
        ValueError: Arrow has no equivalent type.
    """
    match type_:
        case Primitive(name):
            if name not in _ARROW_TYPES:
                raise ValueError(f"there is no Arrow type for {name}")
            return _ARROW_TYPES[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Fixed(length, uuid):
            return pa.uuid() if uuid else pa.binary(length)
        case Array(element, contains_null):
            return pa.list_(_nested_arrow_field(f"{parent_path}element", element, contains_null, nested_ids))
        case Map(key, value, value_contains_null):
            key_field = _nested_arrow_field(f"{parent_path}key", key, False, nested_ids)
            value_field = _nested_arrow_field(f"{parent_path}value", value, value_contains_null, nested_ids)
            return pa.map_(key_field, value_field)
        case Struct():
            # `nested_ids` ends here: the fields of a struct have ids in their own metadata (see NESTED_IDS).
            return pa.struct(list(arrow_schema(type_)))


def _nested_arrow_field(path: str, type_: DataType, is_nullable: bool, nested_ids: Mapping[str, int] | None) -> pa.Field:
    """Return the Arrow field of an array's elements, or of a map's keys or values. `path` is its path in `nested_ids`."""
    return pa.field(path.rpartition(".")[2], arrow_type(type_, nested_ids, f"{path}."), is_nullable, _arrow_id(nested_ids, path))


def arrow_schema(schema: Struct) -> pa.Schema:
    """Return the Arrow schema for a table's rows. Its only metadata are the field ids."""
    return pa.schema([pa.field(f.name, arrow_type(f.type, f.metadata.get(NESTED_IDS)), f.nullable, _arrow_id(f.metadata)) for f in schema])


def _arrow_id(ids: Mapping[str, Any] | None, key: str = FIELD_ID) -> dict[str, str] | None:
    return {"PARQUET:field_id": str(ids[key])} if ids and key in ids else None


def quote(name: str) -> str:
    """Return a name as a SQL identifier, in backquotes unless it consists only of letters, digits and underscores."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else backquote(name)


def backquote(name: str) -> str:
    """Return a name as a SQL identifier in backquotes. Backquotes in the name are doubled."""
    return "`" + name.replace("`", "``") + "`"


def string_literal(text: str) -> str:
    """Return a string as a SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
