"""SQL text of nested values in the shape of a column: fields of structs go by name at any depth; Spark's own casts go by position."""

from __future__ import annotations

from collections.abc import Callable

from rowmerge.table.metadata.schema import Array, DataType, Map, Struct, backquote, sql_name, string_literal

Leaf = Callable[[str, DataType, DataType], str]
"""Text, its type and the type wanted, where one of the two is no struct, array or map: the text of the cast value."""

Known = tuple[str, DataType]
"""A value's text and type."""


def reshaped(text: str, given: DataType, wanted: DataType, leaf: Leaf, *, kept: Known | None = None, depth: int = 0) -> str:
    """The value `text` of type `given` as `wanted`; a field of a struct that the value lacks is NULL.

    With `kept`, the old value, a lacking field keeps what it holds there, outside arrays and maps; then the whole is NULL only where both
    are (delta-spark's UPDATE SET * under schema evolution). A struct that is NULL stays NULL.
    """
    match given, wanted:
        case Struct(), Struct() if kept is not None or not _alike(given, wanted):
            return _struct(text, given, wanted, leaf, kept, depth)
        case _ if _alike(given, wanted):
            return text
        case Array(), Array():
            item = f"__rowmerge_item_{depth}"
            return f"transform({text}, {item} -> {reshaped(item, given.element, wanted.element, leaf, depth=depth + 1)})"
        case Map(), Map():
            return _map(text, given, wanted, leaf, depth)
    return leaf(text, given, wanted)


def _struct(text: str, given: Struct, wanted: Struct, leaf: Leaf, kept: Known | None, depth: int) -> str:
    if kept is None or not isinstance(kept[1], Struct) or not _lacks(given, wanted):
        kept = None
        if _alike(given, wanted):
            return text
    parts = []
    for field in wanted:
        found, old = given.find(field.name), _field_of(kept, field.name)
        if found is not None:
            value = reshaped(f"({text}).{backquote(found.name)}", found.type, field.type, leaf, kept=old, depth=depth)
        elif old is not None:
            value = reshaped(*old, field.type, leaf, depth=depth)
        else:
            value = f"cast(null as {sql_name(field.type)})"
        parts.append(f"{string_literal(field.name)}, {value}")
    absent = f"{text} is null" if kept is None else f"{text} is null and {kept[0]} is null"
    return f"if({absent}, null, named_struct({', '.join(parts)}))"


def _map(text: str, given: Map, wanted: Map, leaf: Leaf, depth: int) -> str:
    key, value = f"__rowmerge_key_{depth}", f"__rowmerge_value_{depth}"
    if not _alike(given.value, wanted.value):
        text = f"transform_values({text}, ({key}, {value}) -> {reshaped(value, given.value, wanted.value, leaf, depth=depth + 1)})"
    if not _alike(given.key, wanted.key):
        text = f"transform_keys({text}, ({key}, {value}) -> {reshaped(key, given.key, wanted.key, leaf, depth=depth + 1)})"
    return text


def _field_of(value: Known | None, name: str) -> Known | None:
    if value is None or not isinstance(value[1], Struct):
        return None
    field = value[1].find(name)
    return None if field is None else (f"({value[0]}).{backquote(field.name)}", field.type)


def _lacks(given: Struct, wanted: Struct) -> bool:
    """Whether a value lacks a field that is wanted, at any depth of structs."""
    for field in wanted:
        found = given.find(field.name)
        if found is None or (isinstance(found.type, Struct) and isinstance(field.type, Struct) and _lacks(found.type, field.type)):
            return True
    return False


def _alike(given: DataType, wanted: DataType) -> bool:
    """Whether a cast by position changes neither a value nor the place of a field."""
    match given, wanted:
        case Struct(), Struct():
            return len(given) == len(wanted) and all(
                old.name.lower() == new.name.lower() and _alike(old.type, new.type) for old, new in zip(given, wanted, strict=True)
            )
        case Array(), Array():
            return _alike(given.element, wanted.element)
        case Map(), Map():
            return _alike(given.key, wanted.key) and _alike(given.value, wanted.value)
    return given == wanted
