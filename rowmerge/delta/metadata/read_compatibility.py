"""Whether rows that were written under an older schema can be read under a newer one."""

from __future__ import annotations

from rowmerge.delta.metadata.column_mapping import PHYSICAL_NAME
from rowmerge.delta.metadata.widening import is_wider
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Struct, sql_name


def why_not_readable(old: Struct, new: Struct, prefix: str = "") -> str:
    """Return why rows of an old schema cannot be read in a new one, or an empty string (delta-spark's `isReadCompatible`)."""
    for old_field in old:
        name = f"{prefix}{old_field.name}"
        new_field = new.find(old_field.name)
        if new_field is None:
            return f"it has a column {name}, which was dropped or renamed"
        if _stored_name(old_field) != _stored_name(new_field):
            return f"its column {name} was dropped or renamed, and the newer one of that name is another"
        if old_field.nullable and not new_field.nullable:
            return f"its column {name} may hold NULL, which the newer one may not"
        reason = _why_not_type(old_field.type, new_field.type, name)
        if reason:
            return reason
    return ""


def _stored_name(field: Field) -> str:
    return str(field.metadata.get(PHYSICAL_NAME, field.name)).lower()


def _why_not_type(old: DataType, new: DataType, name: str) -> str:
    match old, new:
        case Struct(), Struct():
            return why_not_readable(old, new, f"{name}.")
        case Array(), Array():
            return _why_not_type(old.element, new.element, f"{name}.element")
        case Map(), Map():
            return _why_not_type(old.key, new.key, f"{name}.key") or _why_not_type(old.value, new.value, f"{name}.value")
    return "" if old == new or is_wider(new, old) else f"its column {name} is {sql_name(old)}, and the newer one {sql_name(new)}"
