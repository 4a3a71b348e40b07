"""SQL text of values as they are stored: cast as ANSI store assignment says, checked for NOT NULL and length."""

from __future__ import annotations

import re
from functools import partial

from rowmerge.errors import TypeMismatch
from rowmerge.plan.schema_evolution import completed, evolved_type
from rowmerge.plan.store_assignment import is_lossless, why_not_assignable
from rowmerge.spark.nested import Known, reshaped
from rowmerge.table.schema import DataType, Field, backquote, sql_name, string_literal

NOT_NULL = "rowmerge-not-null"
OUT_OF_RANGE = "rowmerge-out-of-range"
TOO_LONG = "rowmerge-too-long"
REPLACE_WHERE = "rowmerge-replace-where"


def stored(text: str, type_: DataType, field: Field, table: str, *, evolves: bool = False, kept: Known | None = None) -> str:
    """The value `text` of type `type_` as the column `field` stores it.

    With `evolves`, fields that a struct lacks are NULL, or what they are in `kept`, the old value (see `reshaped`).
    Raises TypeMismatch when ANSI store assignment does not allow it (Spark's `Cast.canANSIStoreAssign`); overflow, a NULL in a NOT NULL
    column and an over-long string stop the statement when it runs.
    """
    value = text
    if type_ != field.type or kept is not None:
        if reason := why_not_assignable(completed(type_, field.type) if evolves else type_, field.type):
            raise TypeMismatch(
                f"Cannot store a value of type {sql_name(type_)} in the column `{field.name}` of {table}, which is {field.sql_type}: "
                f"{reason}. {_advice(type_, field, evolves=evolves)}."
            )
        value = reshaped(text, type_, field.type, partial(_cast, field), kept=kept)
    value = _length(value, field)
    if not field.nullable:
        value = f"coalesce({value}, {_stop(NOT_NULL, field, None)})"
    return value


def unchanged(text: str, type_: DataType, field: Field) -> str:
    """The column's own value, as it was before the table's schema became another one: new fields of structs are NULL."""
    return reshaped(text, type_, field.type, partial(_cast, field))


def _advice(type_: DataType, field: Field, *, evolves: bool) -> str:
    cast = f"Cast it to {field.sql_type} in the statement"
    if evolves or why_not_assignable(completed(type_, field.type), evolved_type(field.type, type_)):
        return cast
    return f"{cast}, or let its fields go by name and new ones be added: write MERGE or INSERT WITH SCHEMA EVOLUTION"


def _cast(field: Field, text: str, given: DataType, wanted: DataType) -> str:
    target = sql_name(wanted)
    if is_lossless(given, wanted):
        return f"cast({text} as {target})"
    shown = field if wanted == field.type else Field(field.name, wanted)
    return f"coalesce(try_cast({text} as {target}), if({text} is null, null, {_stop(OUT_OF_RANGE, shown, text)}))"


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
