"""SQL that converts nested values to the type of a column, and SQL for values that files store as bytes of a fixed length.

Fields of structs are matched by name, at any depth. Spark's own casts match them by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rowmerge.parquet.fitting import UUID_TEXT
from rowmerge.table.metadata.schema import Array, DataType, Field, Fixed, Map, Struct, backquote, sql_name, string_literal

Cast = Callable[[str, DataType, DataType], str]
"""A function that returns SQL to cast a value, from its SQL, its type and the target type. At least one of the types is not nested."""

PartTransform = Callable[[str, str, DataType], str]
"""A function that returns SQL for the new value of a struct's field, an array's element, or a map's key or value. Its arguments are the
field's name or `element`, `key` or `value`, SQL for the old value, and its type. For an unchanged value, the result is the old SQL."""


class SqlValue(NamedTuple):
    """The SQL and the type of a value."""

    sql: str
    type: DataType


_UUID_GROUPS = "(.{8})(.{4})(.{4})(.{4})(.{12})"


def transform_parts(value_sql: str, type_: DataType, transform: PartTransform, depth: int) -> str:
    """Return SQL for a nested value with each field, element, key and value replaced by the result of `transform`.

    For example, if `transform` returns `upper(…)` for each string, the result for an array `a` of strings is
    `transform(a, __rowmerge_item_0 -> upper(__rowmerge_item_0))`. To replace parts at any depth, `transform` calls this function again with
    a greater depth.

    Args:
        value_sql: SQL for the value.
        type_: The type of the value. A value that is not a struct, an array or a map stays unchanged.
        transform: A function that returns SQL for a new part. If it changes no part, the result is `value_sql`.
        depth: The number of nested values around this value. It makes the names of lambda variables unique.
    """
    item, map_key, map_value = f"__rowmerge_item_{depth}", f"__rowmerge_key_{depth}", f"__rowmerge_value_{depth}"
    match type_:
        case Struct():
            return _transform_fields(value_sql, type_, transform)
        case Array(element_type, _):
            new_item = transform("element", item, element_type)
            return value_sql if new_item == item else f"transform({value_sql}, {item} -> {new_item})"
        case Map(key_type, value_type, _):
            new_value, new_key = transform("value", map_value, value_type), transform("key", map_key, key_type)
            if new_value != map_value:
                value_sql = f"transform_values({value_sql}, ({map_key}, {map_value}) -> {new_value})"
            if new_key != map_key:
                value_sql = f"transform_keys({value_sql}, ({map_key}, {map_value}) -> {new_key})"
    return value_sql


def _transform_fields(struct_sql: str, struct: Struct, transform: PartTransform) -> str:
    """Return SQL for a struct with each field replaced by the result of `transform`, or `struct_sql` if no field changes."""
    old_values = [f"({struct_sql}).{backquote(field.name)}" for field in struct]
    new_values = [transform(field.name, value, field.type) for field, value in zip(struct, old_values, strict=True)]
    if new_values == old_values:
        return struct_sql
    named_values = [f"{string_literal(field.name)}, {value}" for field, value in zip(struct, new_values, strict=True)]
    return f"if({struct_sql} is null, null, named_struct({', '.join(named_values)}))"


def reshape_value(value: SqlValue, target: DataType, cast: Cast, *, old_value: SqlValue | None = None, depth: int = 0) -> str:
    """Return SQL that converts a value to another type, and matches fields of structs by name at any depth.

    Spark's own cast converts structs by position. So the SQL builds each struct of a different shape field by field. For example, the value
    `v` is a struct with the fields b and a, and the target has a and c: `if(v is null, null, named_struct('a', (v).`a`, 'c', cast(null as
    int)))`.

    Args:
        value: The value and its type.
        target: The type of the column. The result may differ from it in nullability and in the case of field names. The writer then casts
            it by position.
        cast: A function that returns SQL for the cast of a value that is not nested.
        old_value: The old value of the column, if UPDATE SET * with schema evolution assigns the value. A field that the value lacks keeps
            its old value. Without an old value, and in arrays and maps, the field is NULL.
        depth: The number of arrays and maps around the value. It makes the names of lambda variables unique.
    """
    value_sql, source = value
    if isinstance(source, Struct) and isinstance(target, Struct):
        return _reshape_struct(value, target, cast, old_value, depth)
    if _is_castable_by_position(source, target):
        return value_sql  # the writer casts nested values of this type by position, which gives the same result
    # Arrays and maps are converted part by part. `transform_parts` names the parts `element`, `key` and `value`.
    match source, target:
        case Array(), Array():
            target_types = {"element": target.element}
        case Map(), Map():
            target_types = {"key": target.key, "value": target.value}
        case _:  # a simple value, or different kinds of types
            return cast(value_sql, source, target)

    def reshape_part(part: str, part_sql: str, part_type: DataType) -> str:
        # An element has no old value, because no rule says which element of the old array or map it replaces.
        return reshape_value(SqlValue(part_sql, part_type), target_types[part], cast, depth=depth + 1)

    return transform_parts(value_sql, source, reshape_part, depth)


def _reshape_struct(struct: SqlValue, target: Struct, cast: Cast, old_value: SqlValue | None, depth: int) -> str:
    """Return SQL for a struct with the fields of `target`. A field comes from the struct, or else from the old struct, or is NULL.

    Under schema evolution, UPDATE SET * may assign a struct without some fields of the column. These fields keep their old values, as in
    delta-spark. For example, the new struct `v` has only the field a, and the old struct `o` has the fields a and b:
    `if(v is null and o is null, null, named_struct('a', (v).a, 'b', (o).b))`. `cast`, `old_value`, `depth`: see `reshape_value`.
    """
    old_struct = _old_struct_for_missing_fields(struct, target, old_value)
    if old_struct is None and _is_castable_by_position(struct.type, target):
        return struct.sql  # the writer casts the struct by position, which gives the same result
    named_values = []
    for field in target:
        new_field, old_field = _field_value(struct, field.name), _field_value(old_struct, field.name)
        value = _reshape_field(new_field, old_field, field, cast, depth)
        named_values.append(f"{string_literal(field.name)}, {value}")
    # Without this test, a NULL struct would become a struct of NULL fields. If the old struct supplies fields, both must be NULL.
    is_null = f"{struct.sql} is null" if old_struct is None else f"{struct.sql} is null and {old_struct.sql} is null"
    return f"if({is_null}, null, named_struct({', '.join(named_values)}))"


def _old_struct_for_missing_fields(struct: SqlValue, target: Struct, old_value: SqlValue | None) -> SqlValue | None:
    """Return the old struct if the new struct lacks fields of `target`. Otherwise, return None: the new struct replaces the old one."""
    has_old_struct = old_value is not None and isinstance(old_value.type, Struct)
    return old_value if has_old_struct and _lacks_field(struct.type, target) else None


def _reshape_field(value: SqlValue | None, old_value: SqlValue | None, field: Field, cast: Cast, depth: int) -> str:
    """Return SQL for a field's value in the type of `field`: the new value, or else the old value, or else NULL."""
    if value is not None:
        return reshape_value(value, field.type, cast, old_value=old_value, depth=depth)
    if old_value is not None:
        return reshape_value(old_value, field.type, cast, depth=depth)
    return f"cast(null as {sql_name(field.type)})"


def _field_value(value: SqlValue | None, name: str) -> SqlValue | None:
    """Return the field of a struct with this name, or None if there is no struct or no such field."""
    if value is None or not isinstance(value.type, Struct):
        return None
    field = value.type.find(name)
    return None if field is None else SqlValue(f"({value.sql}).{backquote(field.name)}", field.type)


def _lacks_field(source: DataType, target: DataType) -> bool:
    """Return whether a struct, or a struct nested in it, lacks a field of `target`."""
    if not isinstance(source, Struct) or not isinstance(target, Struct):
        return False
    fields = ((source.find(field.name), field) for field in target)
    return any(source_field is None or _lacks_field(source_field.type, field.type) for source_field, field in fields)


def _is_castable_by_position(source: DataType, target: DataType) -> bool:
    """Return whether a cast by position converts a value without loss: the types differ only in nullability and the case of field names."""
    match source, target:
        case Struct(), Struct():
            has_same_names = [field.name.lower() for field in source] == [field.name.lower() for field in target]
            return has_same_names and all(_is_castable_by_position(old.type, new.type) for old, new in zip(source, target, strict=True))
        case Array(), Array():
            return _is_castable_by_position(source.element, target.element)
        case Map(), Map():
            return _is_castable_by_position(source.key, target.key) and _is_castable_by_position(source.value, target.value)
    return source == target


def with_uuid_texts(value_sql: str, stored_type: DataType, depth: int = 0) -> str:
    """Return SQL that converts each UUID in a value of a data file to its canonical string. Spark's Parquet reader returns UUIDs as binary.

    Args:
        value_sql: SQL for the value as Spark reads it.
        stored_type: The type of the value in the file.
        depth: The number of nested values around this value (see `transform_parts`).
    """
    if isinstance(stored_type, Fixed):
        return f"lower(regexp_replace(hex({value_sql}), '{_UUID_GROUPS}', '$1-$2-$3-$4-$5'))" if stored_type.uuid else value_sql
    return transform_parts(value_sql, stored_type, lambda _, part_sql, type_: with_uuid_texts(part_sql, type_, depth + 1), depth)


def has_fixed_length(value_sql: str, type_: Fixed) -> str:
    """Return SQL that tests whether a binary value has the length of a type, or whether a string is a UUID.

    Args:
        value_sql: SQL for the value, which is not NULL.
        type_: The type of the value in data files.
    """
    if type_.uuid:
        return f"char_length({value_sql}) = 36 and {value_sql} rlike '{UUID_TEXT}'"
    return f"octet_length({value_sql}) = {type_.length}"


def uuid_bytes_sql(text_sql: str) -> str:
    """Return SQL for the bytes of a UUID that is given as a string in canonical form."""
    return f"unhex(replace({text_sql}, '-', ''))"
