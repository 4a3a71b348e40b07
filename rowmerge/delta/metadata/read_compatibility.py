"""Whether rows that were written under an older schema can be read under a newer one."""

from __future__ import annotations

from rowmerge.delta.metadata.column_mapping import PHYSICAL_NAME
from rowmerge.delta.metadata.widening import is_wider
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Struct, sql_name


def why_not_readable(old: Struct, new: Struct, above: str = "") -> str:
    """Why columns were not only added; empty when they were (as `SchemaUtils.isReadCompatible` of delta-spark judges it)."""
    for field in old:
        name = f"{above}{field.name}"
        kept = new.find(field.name)
        if kept is None:
            return f"it has a column {name}, which was dropped or renamed"
        if _stored_name(field) != _stored_name(kept):
            return f"its column {name} was dropped or renamed, and the newer one of that name is another"
        if field.nullable and not kept.nullable:
            return f"its column {name} may hold NULL, which the newer one may not"
        if reason := _why_not_type(field.type, kept.type, name):
            return reason
    return ""


def _stored_name(field: Field) -> str:
    return str(field.metadata.get(PHYSICAL_NAME, field.name)).lower()


def _why_not_type(old: DataType, new: DataType, name: str) -> str:
    match old, new:
        case Struct(), Struct():
            return why_not_readable(old, new, f"{name}.")
        case Array(inner, _), Array(other, _):
            return _why_not_type(inner, other, f"{name}.element")
        case Map(key, value, _), Map(other_key, other_value, _):
            return _why_not_type(key, other_key, f"{name}.key") or _why_not_type(value, other_value, f"{name}.value")
    return "" if old == new or is_wider(new, old) else f"its column {name} is {sql_name(old)}, and the newer one {sql_name(new)}"
