"""SQL text of values as they are stored: cast by the rules of ANSI store assignment, and checked for range and length."""

from __future__ import annotations

import json
from functools import partial

from rowmerge.errors import TypeMismatch
from rowmerge.plan.lengths import Inside, Length, Lengths, lengths
from rowmerge.plan.schema_evolution import evolved_type, with_missing_fields
from rowmerge.plan.store_assignment import is_lossless, why_not_assignable
from rowmerge.spark.failures import STOP, Stop
from rowmerge.spark.values.nested import SqlValue, fits, reshaped, with_parts
from rowmerge.table.metadata.schema import CHAR_VARCHAR, DataType, Field, Fixed, Struct, held_types, sql_name


def stored(
    text: str, type_: DataType, field: Field, table: str, *, evolves: bool = False, old_value: SqlValue | None = None, texts: bool = False
) -> str:
    """Return SQL for the value `text` of type `type_` as the column `field` stores it.

    With `evolves`, fields that a struct lacks are NULL, or what they are in `old_value` (see `reshaped`).
    Raises TypeMismatch if store assignment does not allow it (see `why_not_assignable`, also for `texts`). At run time, an overflow, an
    over-long string and a string that cannot be read stop the statement.
    """
    if text == "null":
        return text
    value = text
    if type_ != field.type or old_value is not None:
        _check_assignable(type_, field, table, evolves=evolves, texts=texts)
        value = reshaped(text, type_, field.type, partial(_cast, field, table), old_value=old_value)
    if declared := field.metadata.get(CHAR_VARCHAR):
        value = _with_lengths(value, field.type, lengths(str(declared)), field, table, 0)
    (stored_field,) = held_types(Struct((field,)))
    return _with_fixed_lengths(value, stored_field.type, field, table, 0)


def _check_assignable(type_: DataType, field: Field, table: str, *, evolves: bool, texts: bool) -> None:
    """Raise TypeMismatch if a column cannot store values of a type."""
    source_type = with_missing_fields(type_, field.type) if evolves else type_
    if reason := why_not_assignable(source_type, field.type, texts=texts):
        raise TypeMismatch(
            f"Cannot store a value of type {sql_name(type_)} in the column `{field.name}` of {table}, which is {field.sql_type}: "
            f"{reason}. {_advice(type_, field, evolves=evolves)}."
        )


def unchanged(text: str, type_: DataType, field: Field, table: str) -> str:
    """Return SQL for a column's old value after a change of the table's schema: new fields of structs are NULL."""
    return reshaped(text, type_, field.type, partial(_cast, field, table))


def stop(why: Stop, table: str, subject: str, shown: str) -> str:
    """Return SQL that stops the statement; spark/failures.py parses the message. `subject`: what is violated; `shown`: SQL for a text.

    The message consists of hexadecimal digits, so that no part of it is mistaken for Spark's own words around it.
    """
    details = json.dumps([why.value, table, subject]).encode().hex()
    return f"raise_error(concat('{STOP} {details} ', hex(coalesce(cast({shown} as string), 'NULL')), '.'))"


def _advice(type_: DataType, field: Field, *, evolves: bool) -> str:
    cast = f"Cast it to {field.sql_type} in the statement"
    if evolves or why_not_assignable(with_missing_fields(type_, field.type), evolved_type(field.type, type_)):
        return cast
    return f"{cast}, or let its fields go by name and new ones be added: write MERGE or INSERT WITH SCHEMA EVOLUTION"


def _cast(field: Field, table: str, text: str, source: DataType, target: DataType) -> str:
    """Return SQL that casts a value, or a part of one, and stops the statement if the value is out of range."""
    type_name = sql_name(target)
    if is_lossless(source, target):
        return f"cast({text} as {type_name})"
    shown = field if target == field.type else Field(field.name, target)
    return f"coalesce(try_cast({text} as {type_name}), if({text} is null, null, {_stop(Stop.OUT_OF_RANGE, shown, table, text)}))"


def _with_lengths(value: str, type_: DataType, limits: Lengths | None, field: Field, table: str, depth: int) -> str:
    """Return SQL that pads char, cuts trailing spaces beyond a length, and stops at other characters, as in the SQL standard."""
    if isinstance(limits, Length):
        too_long = _stop(Stop.TOO_LONG, field, table, value)
        length = limits.characters
        cut = f"if(char_length(rtrim({value})) > {length}, {too_long}, substring({value}, 1, {length}))"
        return f"rpad({cut}, {length}, ' ')" if limits.padded else cut
    if not isinstance(limits, Inside):
        return value
    return with_parts(value, type_, lambda name, part, inner: _with_lengths(part, inner, limits.get(name), field, table, depth + 1), depth)


def _with_fixed_lengths(value: str, type_: DataType, field: Field, table: str, depth: int) -> str:
    """Return SQL for the value with each UUID and each binary of fixed length in it checked. UUIDs become small letters, as in a scan."""
    if not isinstance(type_, Fixed):
        return with_parts(value, type_, lambda _, part, inner: _with_fixed_lengths(part, inner, field, table, depth + 1), depth)
    shown = value if type_.uuid else f"hex({value})"
    error = stop(Stop.NOT_HELD, table, f"the column `{field.name}` of {table} ({type_})", shown)
    normalized = f"lower({value})" if type_.uuid else value
    return f"case when {value} is null then null when {fits(value, type_)} then {normalized} else {error} end"


def _stop(why: Stop, field: Field, table: str, value: str) -> str:
    return stop(why, table, f"the column `{field.name}` of {table} ({field.sql_type})", value)
