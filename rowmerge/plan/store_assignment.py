"""Which types may be stored in which: Spark's ANSI store assignment, and text where Delta's statements read it.

Follows `Cast.canANSIStoreAssign` (sql/catalyst, expressions/Cast.scala) and, for nested types and names of struct fields,
`DataTypeUtils.canWrite` (sql/catalyst, types/DataTypeUtils.scala) with fields matched by name. Delta on Spark casts what a statement
writes without asking that first (`DeltaInsertCastSupport`, `UpdateExpressionsSupport`); of that, text is taken over here.
"""

from __future__ import annotations

from dataclasses import replace

from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, sql_name

_INTEGERS = ("byte", "short", "integer", "long")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_NUMERIC = {*_INTEGERS, "float", "double"}
_DATETIME = {"date", "timestamp", "timestamp_ntz"}
_READ_FROM_TEXT = {*_NUMERIC, *_DATETIME, "boolean", "binary"}
_EXACT_IN = {"float": ("byte", "short"), "double": ("byte", "short", "integer", "float")}
"""Integers whose every value a floating type holds exactly (24 and 53 bits), and float in double."""


def why_not_assignable(source: DataType, target: DataType, *, texts: bool = False) -> str | None:
    """Why a value of type `source` cannot be stored in a column of type `target`, as half a sentence; None when it can.

    With `texts`, a string goes wherever it can be read as a plain value.
    That it can does not mean that every value fits: overflow, and text that is no such value, show when the statement runs.
    """
    if source == target or source == Primitive("void"):
        return None
    match source, target:
        case Array(), Array():
            if source.contains_null and not target.contains_null:
                return "its elements may be NULL"
            return _inside("its elements", source.element, target.element, texts)
        case Map(), Map():
            if source.value_contains_null and not target.value_contains_null:
                return "its values may be NULL"
            return _inside("its keys", source.key, target.key, texts) or _inside("its values", source.value, target.value, texts)
        case Struct(), Struct():
            return _struct(source, target, texts)
        case ((Primitive() | Decimal()), (Primitive() | Decimal())):
            return _atomic(source, target, texts)
    return f"{_told(source)} is no {_told(target)}"


def is_lossless(source: DataType, target: DataType) -> bool:
    """Whether a cast from `source` to `target` can neither fail nor change a value."""
    match source, target:
        case _ if source == target or source == Primitive("void"):
            return True
        case Primitive(given), Primitive(wanted):
            if given in _INTEGERS and wanted in _INTEGERS:
                return _INTEGERS.index(given) <= _INTEGERS.index(wanted)
            if wanted == "string":
                return given not in ("binary", "variant")
            return given in _EXACT_IN.get(wanted, ()) or (given == "date" and wanted in ("timestamp", "timestamp_ntz"))
        case Primitive(given), Decimal(precision, scale):
            return given in _INTEGERS and precision - scale >= _DIGITS[given]
        case Decimal(), Decimal():
            return source.scale <= target.scale and source.precision - source.scale <= target.precision - target.scale
        case Decimal(), Primitive("string"):
            return True
        case Array(), Array():
            return (target.contains_null or not source.contains_null) and is_lossless(source.element, target.element)
        case Map(), Map():
            nulls = target.value_contains_null or not source.value_contains_null
            return nulls and is_lossless(source.key, target.key) and is_lossless(source.value, target.value)
        case Struct(), Struct():
            return _struct(source, target, False) is None and all(
                is_lossless(given.type, wanted.type) for wanted in target for given in source if given.name.lower() == wanted.name.lower()
            )
    return False


def by_position(source: DataType, target: DataType) -> DataType:
    """`source` with the fields of its structs called as in `target`, one after the other, where they are called otherwise altogether.

    So Spark stores structs in an INSERT by position. Structs that have the same names as the target's, in whatever order, keep them.
    """
    match source, target:
        case Array(), Array():
            return replace(source, element=by_position(source.element, target.element))
        case Map(), Map():
            return replace(source, key=by_position(source.key, target.key), value=by_position(source.value, target.value))
        case Struct(), Struct():
            pairs = _pairs(source, target)
            return source if pairs is None else Struct(tuple(replace(f, name=name, type=by_position(f.type, t)) for f, name, t in pairs))
    return source


def _pairs(source: Struct, target: Struct) -> list[tuple[Field, str, DataType]] | None:
    """Each field of `source`, what it is called, and the type that it goes into; None where the two do not go together."""
    wanted = {field.name.lower(): field for field in target}
    if {field.name.lower() for field in source} == set(wanted):
        return [(field, field.name, wanted[field.name.lower()].type) for field in source]
    if len(source) != len(target):
        return None
    return [(given, field.name, field.type) for given, field in zip(source, target, strict=True)]


def _atomic(source: Primitive | Decimal, target: Primitive | Decimal, texts: bool) -> str | None:
    allowed = (
        target == Primitive("string")
        or (texts and source == Primitive("string") and (isinstance(target, Decimal) or target.name in _READ_FROM_TEXT))
        or (_numeric(source) and _numeric(target))
        or (isinstance(source, Primitive) and isinstance(target, Primitive) and {source.name, target.name} <= _DATETIME)
    )
    return None if allowed else f"{_told(source)} is no {_told(target)}"


def _struct(source: Struct, target: Struct, texts: bool) -> str | None:
    given = {field.name.lower(): field for field in source}
    wanted = {field.name.lower() for field in target}
    if missing := [field.name for field in target if field.name.lower() not in given]:
        fewer = f"it has {len(source)} field(s) instead of {len(target)}: " if len(source) != len(target) else ""
        return f"{fewer}it lacks the field {', '.join(f'`{name}`' for name in missing)}"
    if extra := [field.name for field in source if field.name.lower() not in wanted]:
        return f"it has the field {', '.join(f'`{name}`' for name in extra)} too much"
    if len(given) < len(source) or len(wanted) < len(target):
        return "it has two fields of one name"
    for field in target:
        found = given[field.name.lower()]
        if reason := _inside(f"its field `{field.name}`", found.type, field.type, texts):
            return reason
    return None


def _inside(where: str, source: DataType, target: DataType, texts: bool) -> str | None:
    reason = why_not_assignable(source, target, texts=texts)
    return f"in {where}, {reason}" if reason else None


def _numeric(type_: Primitive | Decimal) -> bool:
    return isinstance(type_, Decimal) or type_.name in _NUMERIC


def _told(type_: DataType) -> str:
    return sql_name(type_)
