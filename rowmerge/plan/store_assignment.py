"""The types that a column can store: Spark's ANSI store assignment, and strings in the statements in which Delta casts them.

The rules follow `Cast.canANSIStoreAssign` (sql/catalyst, expressions/Cast.scala). For nested types and the names of struct fields, they
follow `DataTypeUtils.canWrite` (sql/catalyst, types/DataTypeUtils.scala) with fields matched by name. Delta on Spark casts all values
without this check (`DeltaInsertCastSupport`, `UpdateExpressionsSupport`). Of these casts, only casts of strings are allowed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, sql_name

_INTEGERS = ("byte", "short", "integer", "long")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_NUMERIC = {*_INTEGERS, "float", "double"}
_DATETIME = {"date", "timestamp", "timestamp_ntz"}
_READ_FROM_TEXT = {*_NUMERIC, *_DATETIME, "boolean", "binary"}
_EXACT_IN = {"float": ("byte", "short"), "double": ("byte", "short", "integer", "float")}
"""For each floating-point type, the numeric types whose values it represents exactly.

A float represents integers of up to 24 bits exactly. A double represents integers of up to 53 bits and floats exactly.
"""


def why_not_assignable(source: DataType, target: DataType, *, casts_strings: bool = False) -> str | None:
    """Return the reason why a column cannot store values of another type.

    A value of an assignable type can still be invalid. Spark reports an overflow, or a string that cannot be cast, when the statement runs.

    Args:
        source: The type of the values.
        target: The type of the column.
        casts_strings: Whether strings can be stored in every type to which Spark can cast a string.

    Returns:
        The reason as a clause for an error message, or None if the column can store the values.
    """
    if source == target or source == Primitive("void"):
        return None
    match source, target:
        case Array(), Array():
            if source.contains_null and not target.contains_null:
                return "its elements may be NULL"
            return _why_part_not_assignable("its elements", source.element, target.element, casts_strings)
        case Map(), Map():
            if source.value_contains_null and not target.value_contains_null:
                return "its values may be NULL"
            key_reason = _why_part_not_assignable("its keys", source.key, target.key, casts_strings)
            return key_reason or _why_part_not_assignable("its values", source.value, target.value, casts_strings)
        case Struct(), Struct():
            return _why_not_struct(source, target, casts_strings)
        case ((Primitive() | Decimal()), (Primitive() | Decimal())) if _is_assignable(source, target, casts_strings):
            return None
    return f"{sql_name(source)} is no {sql_name(target)}"


def is_lossless(source: DataType, target: DataType) -> bool:
    """Return whether a cast from `source` to `target` can neither fail nor change a value.

    Args:
        source: The type of the values.
        target: The type to which they are cast.
    """
    if source == target or source == Primitive("void"):
        return True
    match source, target:
        case Array(), Array():
            allows_nulls = target.contains_null or not source.contains_null
            return allows_nulls and is_lossless(source.element, target.element)
        case Map(), Map():
            allows_nulls = target.value_contains_null or not source.value_contains_null
            return allows_nulls and is_lossless(source.key, target.key) and is_lossless(source.value, target.value)
        case Struct(), Struct():
            return _is_lossless_struct(source, target)
        case ((Primitive() | Decimal()), (Primitive() | Decimal())):
            return _is_lossless_leaf(source, target)
    return False


def _is_lossless_struct(source: Struct, target: Struct) -> bool:
    """Return whether both structs have the same field names, in any order, and each field can be cast without loss."""
    if _why_names_differ(source, target) is not None:
        return False
    source_types = _types_by_name(source)
    return all(is_lossless(source_types[field.name.lower()], field.type) for field in target)


def _is_lossless_leaf(source: Primitive | Decimal, target: Primitive | Decimal) -> bool:
    """Return whether a cast between two non-nested types can neither fail nor change a value."""
    match source, target:
        case Primitive(source_name), Primitive(target_name):
            return _is_lossless_primitive(source_name, target_name)
        case Primitive(source_name), Decimal(precision, scale):
            return source_name in _INTEGERS and precision - scale >= _DIGITS[source_name]
        case Decimal(), Decimal():
            return source.scale <= target.scale and source.precision - source.scale <= target.precision - target.scale
    return target == Primitive("string")


def _is_lossless_primitive(source: str, target: str) -> bool:
    """Return whether a cast between two primitive types can neither fail nor change a value. The arguments are Delta's type names."""
    if source in _INTEGERS and target in _INTEGERS:
        return _INTEGERS.index(source) <= _INTEGERS.index(target)
    if target == "string":
        return source not in ("binary", "variant")
    return source in _EXACT_IN.get(target, ()) or (source == "date" and target in ("timestamp", "timestamp_ntz"))


def match_names_by_position(source: DataType, target: DataType) -> DataType:
    """Return `source` with its struct fields renamed to those of `target` at the same position, as Spark's INSERT does.

    A struct with the same field names as the target, in any order, keeps its names.

    Args:
        source: The type of the values.
        target: The type of the column that stores them.
    """
    match source, target:
        case Array(), Array():
            return replace(source, element=match_names_by_position(source.element, target.element))
        case Map(), Map():
            key = match_names_by_position(source.key, target.key)
            return replace(source, key=key, value=match_names_by_position(source.value, target.value))
        case Struct(), Struct():
            return _match_struct_names(source, target)
    return source


def _match_struct_names(source: Struct, target: Struct) -> Struct:
    """Return a struct with the field names of `target`, or unchanged if it already has these names or a different number of fields."""
    target_types = _types_by_name(target)
    if set(_types_by_name(source)) == set(target_types):
        return Struct(tuple(_match_field(field, field.name, target_types[field.name.lower()]) for field in source))
    if len(source) != len(target):
        return source
    return Struct(tuple(_match_field(field, column.name, column.type) for field, column in zip(source, target, strict=True)))


def _match_field(field: Field, name: str, target_type: DataType) -> Field:
    return replace(field, name=name, type=match_names_by_position(field.type, target_type))


def _is_assignable(source: Primitive | Decimal, target: Primitive | Decimal, casts_strings: bool) -> bool:
    """Return whether a non-nested type can be stored in another one. For `casts_strings`, see `why_not_assignable`."""
    if target == Primitive("string") or (_is_numeric(source) and _is_numeric(target)):
        return True
    if casts_strings and source == Primitive("string"):
        return isinstance(target, Decimal) or target.name in _READ_FROM_TEXT
    return isinstance(source, Primitive) and isinstance(target, Primitive) and {source.name, target.name} <= _DATETIME


def _why_not_struct(source: Struct, target: Struct, casts_strings: bool) -> str | None:
    """Return the reason why a struct cannot be stored in another one, or None if it can. Fields are matched by name."""
    if names_reason := _why_names_differ(source, target):
        return names_reason
    source_types = _types_by_name(source)
    for field in target:
        if field_reason := _why_part_not_assignable(
            f"its field `{field.name}`", source_types[field.name.lower()], field.type, casts_strings
        ):
            return field_reason
    return None


def _why_names_differ(source: Struct, target: Struct) -> str | None:
    """Return a description of how the field names of two structs differ, or None if both have the same names in any order."""
    source_types, target_types = _types_by_name(source), _types_by_name(target)
    if missing_names := [name for name in target.names if name.lower() not in source_types]:
        field_counts = f"it has {len(source)} field(s) instead of {len(target)}: " if len(source) != len(target) else ""
        return f"{field_counts}it lacks the field {_quoted_names(missing_names)}"
    if extra_names := [name for name in source.names if name.lower() not in target_types]:
        return f"it has the extra field {_quoted_names(extra_names)}"
    has_duplicates = len(source_types) < len(source) or len(target_types) < len(target)
    return "it has two fields with the same name" if has_duplicates else None


def _types_by_name(struct: Struct) -> dict[str, DataType]:
    return {field.name.lower(): field.type for field in struct}


def _quoted_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _why_part_not_assignable(where: str, source: DataType, target: DataType, casts_strings: bool) -> str | None:
    reason = why_not_assignable(source, target, casts_strings=casts_strings)
    return f"in {where}, {reason}" if reason else None


def _is_numeric(type_: Primitive | Decimal) -> bool:
    return isinstance(type_, Decimal) or type_.name in _NUMERIC
