"""Type widening: which type a column may become in place, and the record that is kept of it (PROTOCOL.md, Type Widening)."""

from __future__ import annotations

from typing import Any

from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.metadata.features import is_on
from rowmerge.table.metadata.schema import DataType, Decimal, Primitive, to_json

ENABLED = "delta.enableTypeWidening"
TYPE_CHANGES = "delta.typeChanges"
_INTEGERS = ("byte", "short", "integer", "long")
# Digits of the decimals that Parquet readers make of 32-bit and 64-bit integers.
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}


def widens(metadata: Metadata) -> bool:
    """Whether the table lets its columns' types be widened."""
    return is_on(metadata, ENABLED)


def is_wider(new: DataType, old: DataType) -> bool:
    """Whether files with `old` can be read as `new`, without loss; leaves only, and never of a type and itself."""
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


def type_change(old: DataType, new: DataType, path: tuple[str, ...]) -> dict[str, Any]:
    """One entry of `delta.typeChanges`; `path` leads from the field to the element, key or value that changes."""
    change = {"fromType": to_json(old), "toType": to_json(new)}
    return {**change, "fieldPath": ".".join(path)} if path else change
