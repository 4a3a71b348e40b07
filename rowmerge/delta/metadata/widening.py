"""Type widening: the changes of types that are possible in place, and their record (PROTOCOL.md, Type Widening)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.metadata.features import is_on
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Map, Primitive, Struct, to_json

ENABLED = "delta.enableTypeWidening"
TYPE_CHANGES = "delta.typeChanges"
_INTEGERS = ("byte", "short", "integer", "long")
# Digits of the decimals to which Parquet readers convert 32-bit and 64-bit integers.
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}


def allows_widening(metadata: Metadata) -> bool:
    """Return whether the types of the table's columns may be widened."""
    return is_on(metadata, ENABLED)


def is_wider(new: DataType, old: DataType) -> bool:
    """Return whether files with the leaf type `old` can be read as the wider type `new` without loss. False for equal types."""
    match old, new:
        case Decimal(), Decimal():
            return old != new and new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        case Primitive(name), Decimal(precision, scale):
            return name in _DIGITS and precision - scale >= _DIGITS[name]
        case Primitive(name), Primitive(wide) if name in _INTEGERS and wide in _INTEGERS:
            return _INTEGERS.index(name) < _INTEGERS.index(wide)
        case Primitive(name), Primitive("double"):
            return name in ("float", "byte", "short", "integer")
        case Primitive("date"), Primitive("timestamp_ntz"):
            return True
    return False


def type_changes(old: DataType, new: DataType, path: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Yield the entries of `delta.typeChanges` of one field. `path` leads from the field to its element, key or value."""
    match old, new:
        case Struct(), Struct():
            return
        case Array(), Array():
            yield from type_changes(old.element, new.element, (*path, "element"))
        case Map(), Map():
            yield from type_changes(old.key, new.key, (*path, "key"))
            yield from type_changes(old.value, new.value, (*path, "value"))
        case _ if old != new:
            change = {"fromType": to_json(old), "toType": to_json(new)}
            yield {**change, "fieldPath": ".".join(path)} if path else change
