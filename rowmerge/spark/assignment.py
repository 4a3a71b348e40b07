"""SQL text of values as they are stored: cast as ANSI store assignment says, checked for NOT NULL and length."""

from __future__ import annotations

import re

from rowmerge.errors import TypeMismatch
from rowmerge.plan.store_assignment import is_lossless, why_not_assignable
from rowmerge.table.schema import Array, DataType, Field, Map, Struct, backquote, sql_name

NOT_NULL = "rowmerge-not-null"
OUT_OF_RANGE = "rowmerge-out-of-range"
TOO_LONG = "rowmerge-too-long"
REPLACE_WHERE = "rowmerge-replace-where"


def stored(text: str, type_: DataType, field: Field, table: str) -> str:
    """The value `text` of type `type_` as the column `field` stores it.

    Raises TypeMismatch when ANSI store assignment does not allow it (Spark's `Cast.canANSIStoreAssign`); overflow, a NULL in a NOT NULL
    column and an over-long string stop the statement when it runs.
    """
    value = text
    if type_ != field.type:
        if reason := why_not_assignable(type_, field.type):
            raise TypeMismatch(
                f"Cannot store a value of type {sql_name(type_)} in the column `{field.name}` of {table}, which is {field.sql_type}: "
                f"{reason}. Cast it to {field.sql_type} in the statement."
            )
        value = _cast(text, type_, field)
    value = _length(value, field)
    if not field.nullable:
        value = f"coalesce({value}, {_stop(NOT_NULL, field, None)})"
    return value


def string_literal(text: str) -> str:
    """A SQL string literal that means exactly this text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _cast(text: str, type_: DataType, field: Field) -> str:
    target = sql_name(field.type)
    if isinstance(type_, Struct) and isinstance(field.type, Struct):
        return _struct(text, type_, field)
    if is_lossless(type_, field.type) or isinstance(field.type, Array | Map | Struct):
        return f"cast({text} as {target})"
    return f"coalesce(try_cast({text} as {target}), if({text} is null, null, {_stop(OUT_OF_RANGE, field, text)}))"


def _struct(text: str, type_: Struct, field: Field) -> str:
    """Fields by name, as MERGE and INSERT BY NAME assign them; Spark's own cast of structs goes by position."""
    assert isinstance(field.type, Struct)
    parts = []
    for inner in field.type:
        given = type_.find(inner.name)
        if given is None:
            parts.append(f"{string_literal(inner.name)}, cast(null as {sql_name(inner.type)})")
            continue
        value = f"({text}).{backquote(given.name)}"
        if given.type != inner.type:
            value = _cast(value, given.type, inner)
        parts.append(f"{string_literal(inner.name)}, {value}")
    return f"if({text} is null, null, named_struct({', '.join(parts)}))"


def _length(value: str, field: Field) -> str:
    declared = re.fullmatch(r"(var)?char\(\s*(\d+)\s*\)", field.sql_type, re.IGNORECASE)
    if declared is None:
        return value
    length = int(declared[2])
    # As in the SQL standard, trailing spaces beyond the length are cut, anything else is an error; char is padded.
    cut = f"if(char_length(rtrim({value})) > {length}, {_stop(TOO_LONG, field, value)}, substring({value}, 1, {length}))"
    return cut if declared[1] else f"rpad({cut}, {length}, ' ')"


def _stop(rule: str, field: Field, value: str | None) -> str:
    """An expression that stops the statement; spark/failures.py reads what it says."""
    shown = f", ' ', cast({value} as string)" if value is not None else ""
    return f"raise_error(concat({string_literal(f'{rule} {backquote(field.name)} {field.sql_type}')}{shown}))"
