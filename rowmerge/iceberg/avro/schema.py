"""Avro schemas of Iceberg files: how this package recognises maps, and which schema it decodes records with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_key_value_record(schema: Any) -> bool:
    """Return whether a schema is a record of `key` and `value`. Iceberg stores a map as an array of such records (spec, Appendix A)."""
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    return [field["name"] for field in fields] == ["key", "value"]


def physical_schema(schema: Any, names: Mapping[int, str]) -> Any:
    """Return a schema without logical types and defaults, in which `names` renames fields by their field id."""
    if isinstance(schema, list):
        return [physical_schema(branch, names) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    physical = {key: value for key, value in schema.items() if key != "logicalType"}
    for key in ("type", "items", "values"):
        if key in physical:
            physical[key] = physical_schema(physical[key], names)
    if "fields" in physical:
        physical["fields"] = [_physical_field(field, names) for field in physical["fields"]]
    return physical


def _physical_field(field: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    attributes = {key: value for key, value in field.items() if key != "default"}
    field_id: Any = field.get("field-id")
    return {**attributes, "name": names.get(field_id, field["name"]), "type": physical_schema(field["type"], names)}
