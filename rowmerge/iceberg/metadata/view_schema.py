"""The columns of views in the Iceberg spec's JSON form (Iceberg spec, Appendix C): of the types of tables, and those that a query may have
besides. Ids are made anew each time: no file has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from rowmerge.iceberg.metadata.types import FROM_ICEBERG, TO_ICEBERG
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct

_TO_ICEBERG = {**TO_ICEBERG, "void": "unknown", "variant": "variant"}
_FROM_ICEBERG = {
    **FROM_ICEBERG,
    "timestamptz_ns": "timestamp",
    "timestamp_ns": "timestamp_ntz",
    "unknown": "void",
    "time": "string",
    "variant": "variant",
}


def iceberg_schema(columns: Struct, schema_id: int) -> dict[str, Any]:
    """An Iceberg schema. Field ids count from 1; what Iceberg has no type for (tinyint, smallint) is widened."""
    return {"type": "struct", "schema-id": schema_id, "fields": _fields(columns, count(1))}


def columns_of(schema: Mapping[str, Any]) -> Struct:
    """The columns of an Iceberg schema. Raises ValueError for a type that is not known, KeyError for a part that is missing."""
    return Struct(tuple(_field(f) for f in schema["fields"]))


def _fields(struct: Struct, ids: Iterator[int]) -> list[dict[str, Any]]:
    fields = []
    for column in struct:
        entry: dict[str, Any] = {
            "id": next(ids),
            "name": column.name,
            "required": not column.nullable,
            "type": _to_iceberg(column.type, ids),
        }
        if column.comment is not None:
            entry["doc"] = column.comment
        fields.append(entry)
    return fields


def _to_iceberg(type_: DataType, ids: Iterator[int]) -> Any:
    match type_:
        case Primitive(name):
            return _TO_ICEBERG[name]
        case Decimal(precision, scale):
            return f"decimal({precision}, {scale})"
        case Array(element, contains_null):
            return {
                "type": "list",
                "element-id": next(ids),
                "element-required": not contains_null,
                "element": _to_iceberg(element, ids),
            }
        case Map(key, value, value_contains_null):
            return {
                "type": "map",
                "key-id": next(ids),
                "key": _to_iceberg(key, ids),
                "value-id": next(ids),
                "value-required": not value_contains_null,
                "value": _to_iceberg(value, ids),
            }
        case Struct():
            return {"type": "struct", "fields": _fields(type_, ids)}


def _field(entry: Mapping[str, Any]) -> Field:
    metadata = {"comment": entry["doc"]} if entry.get("doc") is not None else {}
    return Field(entry["name"], _from_iceberg(entry["type"]), not entry.get("required", False), metadata)


def _from_iceberg(value: Any) -> DataType:
    if isinstance(value, str):
        if match := re.fullmatch(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)", value):
            return Decimal(int(match[1]), int(match[2]))
        if value.startswith("fixed["):
            return Primitive("binary")
        if value not in _FROM_ICEBERG:
            raise ValueError(f"unknown Iceberg type {value!r}")
        return Primitive(_FROM_ICEBERG[value])
    match value.get("type"):
        case "struct":
            return columns_of(value)
        case "list":
            return Array(_from_iceberg(value["element"]), not value.get("element-required", False))
        case "map":
            return Map(_from_iceberg(value["key"]), _from_iceberg(value["value"]), not value.get("value-required", False))
    raise ValueError(f"unknown Iceberg type {value!r}")
