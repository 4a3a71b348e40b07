"""SQL text of nested values in the shape of a column, and of values that files hold as bytes of one length.

Fields of structs go by name at any depth; Spark's own casts go by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rowmerge.parquet.fitting import UUID_TEXT
from rowmerge.table.metadata.schema import Array, DataType, Field, Fixed, Map, Struct, backquote, sql_name, string_literal

Cast = Callable[[str, DataType, DataType], str]
"""From SQL text, its type and the target type, one of which is no struct, array or map: SQL for the cast value."""

ChangePart = Callable[[str, str, DataType], str]
"""From a part's name (a field, `element`, `key` or `value`), its SQL text and type: SQL for what replaces it."""


class SqlValue(NamedTuple):
    """The SQL text and the type of a value."""

    text: str
    type: DataType


_UUID_GROUPS = "(.{8})(.{4})(.{4})(.{4})(.{12})"


def with_parts(text: str, type_: DataType, change: ChangePart, depth: int) -> str:
    """Return SQL for a struct, array or map whose parts `change` replaces, or `text` if it replaces none.

    `depth` makes the names of lambda variables unique.
    """
    item, map_key, map_value = f"__rowmerge_item_{depth}", f"__rowmerge_key_{depth}", f"__rowmerge_value_{depth}"
    match type_:
        case Struct():
            return _with_fields(text, type_, change)
        case Array(element, _):
            new_item = change("element", item, element)
            return text if new_item == item else f"transform({text}, {item} -> {new_item})"
        case Map(key, value, _):
            new_value, new_key = change("value", map_value, value), change("key", map_key, key)
            if new_value != map_value:
                text = f"transform_values({text}, ({map_key}, {map_value}) -> {new_value})"
            if new_key != map_key:
                text = f"transform_keys({text}, ({map_key}, {map_value}) -> {new_key})"
    return text


def _with_fields(text: str, struct: Struct, change: ChangePart) -> str:
    """Return SQL for a struct whose fields `change` replaces, or `text` if it replaces none."""
    old_values = [f"({text}).{backquote(field.name)}" for field in struct]
    new_values = [change(field.name, value, field.type) for field, value in zip(struct, old_values, strict=True)]
    if new_values == old_values:
        return text
    named_values = [f"{string_literal(field.name)}, {value}" for field, value in zip(struct, new_values, strict=True)]
    return f"if({text} is null, null, named_struct({', '.join(named_values)}))"


def reshaped(value_sql: str, source: DataType, target: DataType, cast: Cast, *, old_value: SqlValue | None = None, depth: int = 0) -> str:
    """Return SQL that converts a value from type `source` to type `target`. Fields of structs go by name, at any depth.

    A field that a struct lacks keeps its value in `old_value`. It becomes NULL without an old value and in arrays and maps.
    """
    if isinstance(source, Struct) and isinstance(target, Struct):
        return _reshaped_struct(value_sql, source, target, cast, old_value, depth)
    if _is_castable_by_position(source, target):
        return value_sql
    match source, target:
        case Array(), Array():
            target_types = {"element": target.element}
        case Map(), Map():
            target_types = {"key": target.key, "value": target.value}
        case _:
            return cast(value_sql, source, target)

    def reshape_part(part: str, part_sql: str, part_type: DataType) -> str:
        return reshaped(part_sql, part_type, target_types[part], cast, depth=depth + 1)

    return with_parts(value_sql, source, reshape_part, depth)


def _reshaped_struct(text: str, source: Struct, target: Struct, cast: Cast, old_value: SqlValue | None, depth: int) -> str:
    """Return SQL for a struct with the fields of `target`: of the value, else of the old value, else NULL.

    The result is NULL if the value is, and the old value, too, where it is needed (delta-spark's UPDATE SET * under schema evolution).
    """
    needs_old_value = old_value is not None and isinstance(old_value.type, Struct) and _lacks_field(source, target)
    if not needs_old_value and _is_castable_by_position(source, target):
        return text
    struct, old_struct = SqlValue(text, source), old_value if needs_old_value else None
    named_values = []
    for field in target:
        value = _reshaped_field(_field_value(struct, field.name), _field_value(old_struct, field.name), field, cast, depth)
        named_values.append(f"{string_literal(field.name)}, {value}")
    is_absent = f"{text} is null" if old_struct is None else f"{text} is null and {old_struct.text} is null"
    return f"if({is_absent}, null, named_struct({', '.join(named_values)}))"


def _reshaped_field(value: SqlValue | None, old_value: SqlValue | None, field: Field, cast: Cast, depth: int) -> str:
    """Return SQL for a field's value in the field's type: the new value, else the old one, else NULL."""
    if value is not None:
        return reshaped(*value, field.type, cast, old_value=old_value, depth=depth)
    if old_value is not None:
        return reshaped(*old_value, field.type, cast, depth=depth)
    return f"cast(null as {sql_name(field.type)})"


def _field_value(value: SqlValue | None, name: str) -> SqlValue | None:
    """Return the field of a struct's value, or None if there is no such field, value or struct."""
    if value is None or not isinstance(value.type, Struct):
        return None
    field = value.type.find(name)
    return None if field is None else SqlValue(f"({value.text}).{backquote(field.name)}", field.type)


def _lacks_field(source: DataType, target: DataType) -> bool:
    """Return whether a struct lacks a field of `target`, or a struct in it does."""
    if not isinstance(source, Struct) or not isinstance(target, Struct):
        return False
    fields = ((source.find(field.name), field) for field in target)
    return any(source_field is None or _lacks_field(source_field.type, field.type) for source_field, field in fields)


def _is_castable_by_position(source: DataType, target: DataType) -> bool:
    """Return whether a cast by position changes neither a value nor the place of a field."""
    match source, target:
        case Struct(), Struct():
            has_same_names = [field.name.lower() for field in source] == [field.name.lower() for field in target]
            return has_same_names and all(_is_castable_by_position(old.type, new.type) for old, new in zip(source, target, strict=True))
        case Array(), Array():
            return _is_castable_by_position(source.element, target.element)
        case Map(), Map():
            return _is_castable_by_position(source.key, target.key) and _is_castable_by_position(source.value, target.value)
    return source == target


def readable(text: str, held: DataType, depth: int = 0) -> str:
    """Return SQL for the value `text` with each UUID as canonical text. Spark's Parquet reader returns values of type `held` as binary."""
    if isinstance(held, Fixed):
        return f"lower(regexp_replace(hex({text}), '{_UUID_GROUPS}', '$1-$2-$3-$4-$5'))" if held.uuid else text
    return with_parts(text, held, lambda _, part, type_: readable(part, type_, depth + 1), depth)


def fits(text: str, held: Fixed) -> str:
    """Return a SQL condition: a value other than NULL fits into these bytes."""
    return f"char_length({text}) = 36 and {text} rlike '{UUID_TEXT}'" if held.uuid else f"octet_length({text}) = {held.length}"


def octets(text: str) -> str:
    """Return SQL for the bytes of a UUID's canonical text."""
    return f"unhex(replace({text}, '-', ''))"
