"""Convert the columns of views to and from JSON ("JSON serialization" in the Iceberg specification).

A view supports more types than a table, because a query may return them. Each conversion assigns new ids, which no data file uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from rowmerge.iceberg.metadata.types import FROM_ICEBERG, TO_ICEBERG
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct

_TO_ICEBERG = {**{name: str(type_) for name, type_ in TO_ICEBERG.items()}, "void": "unknown", "variant": "variant"}
_FROM_ICEBERG = {
    **FROM_ICEBERG,
    "timestamptz_ns": "timestamp",
    "timestamp_ns": "timestamp_ntz",
    "unknown": "void",
    "time": "string",
    "variant": "variant",
}


def iceberg_schema(columns: Struct, schema_id: int) -> dict[str, Any]:
    """Return the columns of a view as an Iceberg schema in JSON. Field ids start at 1. The types tinyint and smallint become int.

    Args:
        columns: The columns of the view.
        schema_id: The id of the schema.
    """
    ids = count(1)
    return {"type": "struct", "schema-id": schema_id, "fields": [_iceberg_field(column, ids) for column in columns]}


def columns_of(schema: Mapping[str, Any]) -> Struct:
    """Return the columns of an Iceberg schema in JSON. Raises ValueError for an unknown type, and KeyError for a missing key."""
    return Struct(tuple(map(_field, schema["fields"])))


def _iceberg_field(column: Field, ids: Iterator[int]) -> dict[str, Any]:
    """Return the JSON object of a column or a nested field. `ids`: an iterator over the ids for new fields."""
    doc = {} if column.comment is None else {"doc": column.comment}
    return {"id": next(ids), "name": column.name, "required": not column.nullable, "type": _iceberg_type(column.type, ids), **doc}


def _iceberg_type(type_: DataType, ids: Iterator[int]) -> Any:
    """Return the JSON value of an Iceberg type: a name, or an object for a nested type. `ids`: an iterator over new field ids."""
    match type_:
        case Primitive(name):
            return _TO_ICEBERG[name]
        case Decimal(precision, scale):
            return f"decimal({precision}, {scale})"
        case Array(element, contains_null):
            return {"type": "list", "element-id": next(ids), "element-required": not contains_null, "element": _iceberg_type(element, ids)}
        case Map(key, value, value_contains_null):
            return {
                "type": "map",
                "key-id": next(ids),
                "key": _iceberg_type(key, ids),
                "value-id": next(ids),
                "value-required": not value_contains_null,
                "value": _iceberg_type(value, ids),
            }
        case Struct():
            return {"type": "struct", "fields": [_iceberg_field(field, ids) for field in type_]}


def _field(entry: Mapping[str, Any]) -> Field:
    metadata = {"comment": entry["doc"]} if entry.get("doc") is not None else {}
    return Field(entry["name"], _engine_type(entry["type"]), not entry.get("required", False), metadata)


def _engine_type(json_type: Any) -> DataType:
    """Return the engine's type for an Iceberg type in JSON. Raises ValueError for an unknown type, and KeyError for a missing key."""
    if isinstance(json_type, str):
        return _engine_primitive(json_type)
    match json_type.get("type"):
        case "struct":
            return Struct(tuple(map(_field, json_type["fields"])))
        case "list":
            return Array(_engine_type(json_type["element"]), not json_type.get("element-required", False))
        case "map":
            return Map(_engine_type(json_type["key"]), _engine_type(json_type["value"]), not json_type.get("value-required", False))
    raise ValueError(f"unknown Iceberg type {json_type!r}")


def _engine_primitive(name: str) -> Primitive | Decimal:
    if match := re.fullmatch(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)", name):
        return Decimal(int(match[1]), int(match[2]))
    if name.startswith("fixed["):
        return Primitive("binary")
    if name not in _FROM_ICEBERG:
        raise ValueError(f"unknown Iceberg type {name!r}")
    return Primitive(_FROM_ICEBERG[name])
