"""SQL text of values as they are stored: cast as ANSI store assignment says, checked for range and length."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from rowmerge.errors import TypeMismatch
from rowmerge.plan.lengths import Inside, Length, Lengths, lengths
from rowmerge.plan.schema_evolution import completed, evolved_type
from rowmerge.plan.store_assignment import is_lossless, why_not_assignable
from rowmerge.spark.failures import STOP, Stop
from rowmerge.spark.values.nested import Known, reshaped
from rowmerge.spark.values.uuids import fits
from rowmerge.table.metadata.schema import (
    CHAR_VARCHAR,
    Array,
    DataType,
    Field,
    Fixed,
    Map,
    Struct,
    backquote,
    held_types,
    sql_name,
    string_literal,
)


def stored(
    text: str, type_: DataType, field: Field, table: str, *, evolves: bool = False, kept: Known | None = None, texts: bool = False
) -> str:
    """The value `text` of type `type_` as the column `field` stores it.

    With `evolves`, fields that a struct lacks are NULL, or what they are in `kept`, the old value (see `reshaped`).
    Raises TypeMismatch when store assignment does not allow it (see `why_not_assignable`, also for `texts`); overflow, an over-long
    string and text that cannot be read stop the statement when it runs.
    """
    if text == "null":
        return text
    value = text
    if type_ != field.type or kept is not None:
        if reason := why_not_assignable(completed(type_, field.type) if evolves else type_, field.type, texts=texts):
            raise TypeMismatch(
                f"Cannot store a value of type {sql_name(type_)} in the column `{field.name}` of {table}, which is {field.sql_type}: "
                f"{reason}. {_advice(type_, field, evolves=evolves)}."
            )
        value = reshaped(text, type_, field.type, partial(_cast, field, table), kept=kept)
    return _of_one_length(_length(value, field, table), held_types(Struct((field,))).fields[0].type, field, table, 0)


def unchanged(text: str, type_: DataType, field: Field, table: str) -> str:
    """The column's own value, as it was before the table's schema became another one: new fields of structs are NULL."""
    return reshaped(text, type_, field.type, partial(_cast, field, table))


def stop(why: Stop, table: str, told: str, shown: str) -> str:
    """An expression that stops the statement; spark/failures.py reads what it says. `told` is text, `shown` SQL for one more text.

    All of it travels as hexadecimal digits: Spark's own words around the message cannot be mistaken for parts of it.
    """
    known = json.dumps([why.value, table, told]).encode().hex()
    return f"raise_error(concat('{STOP} {known} ', hex(coalesce(cast({shown} as string), 'NULL')), '.'))"


def _advice(type_: DataType, field: Field, *, evolves: bool) -> str:
    cast = f"Cast it to {field.sql_type} in the statement"
    if evolves or why_not_assignable(completed(type_, field.type), evolved_type(field.type, type_)):
        return cast
    return f"{cast}, or let its fields go by name and new ones be added: write MERGE or INSERT WITH SCHEMA EVOLUTION"


def _cast(field: Field, table: str, text: str, given: DataType, wanted: DataType) -> str:
    target = sql_name(wanted)
    if is_lossless(given, wanted):
        return f"cast({text} as {target})"
    shown = field if wanted == field.type else Field(field.name, wanted)
    return f"coalesce(try_cast({text} as {target}), if({text} is null, null, {_stop(Stop.OUT_OF_RANGE, shown, table, text)}))"


def _length(value: str, field: Field, table: str) -> str:
    declared = field.metadata.get(CHAR_VARCHAR)
    limits = lengths(str(declared)) if declared else None
    return value if limits is None else _fitted(value, field.type, limits, partial(_stop, Stop.TOO_LONG, field, table), 0)


def _fitted(value: str, type_: DataType, limits: Lengths, too_long: Callable[[str], str], depth: int) -> str:
    """The value with every text in it as long as it may be.

    As in the SQL standard, trailing spaces beyond the length are cut, anything else is an error; char is padded.
    """

    def inner(name: str, text: str, part: DataType) -> str:
        limit = limits.get(name) if isinstance(limits, Inside) else None
        return text if limit is None else _fitted(text, part, limit, too_long, depth + 1)

    item, other = f"__rowmerge_text_{depth}", f"__rowmerge_other_{depth}"
    match limits, type_:
        case Length(characters, padded), _:
            cut = f"if(char_length(rtrim({value})) > {characters}, {too_long(value)}, substring({value}, 1, {characters}))"
            return f"rpad({cut}, {characters}, ' ')" if padded else cut
        case _, Struct(fields):
            parts = (f"{string_literal(f.name)}, {inner(f.name, f'({value}).{backquote(f.name)}', f.type)}" for f in fields)
            return f"if({value} is null, null, named_struct({', '.join(parts)}))"
        case _, Array(element, _):
            return f"transform({value}, {item} -> {inner('element', item, element)})"
        case _, Map(key, held, _):
            value = f"transform_values({value}, ({other}, {item}) -> {inner('value', item, held)})"
            return f"transform_keys({value}, ({item}, {other}) -> {inner('key', item, key)})"
    return value


def _of_one_length(value: str, type_: DataType, field: Field, table: str, depth: int) -> str:
    """The value with every UUID and every binary of one length in it checked; UUIDs in small letters, as they are read again."""
    item, other = f"__rowmerge_fixed_{depth}", f"__rowmerge_beside_{depth}"

    def inner(text: str, part: DataType) -> str:
        return _of_one_length(text, part, field, table, depth + 1)

    match type_:
        case Fixed():
            shown = value if type_.uuid else f"hex({value})"
            wrong = stop(Stop.NOT_HELD, table, f"the column `{field.name}` of {table} ({type_})", shown)
            kept = f"lower({value})" if type_.uuid else value
            return f"case when {value} is null then null when {fits(value, type_)} then {kept} else {wrong} end"
        case Struct(fields):
            texts = [f"({value}).{backquote(f.name)}" for f in fields]
            parts = [inner(text, f.type) for text, f in zip(texts, fields, strict=True)]
            if parts != texts:
                named = (f"{string_literal(f.name)}, {part}" for f, part in zip(fields, parts, strict=True))
                return f"if({value} is null, null, named_struct({', '.join(named)}))"
        case Array(element, _):
            if (part := inner(item, element)) != item:
                return f"transform({value}, {item} -> {part})"
        case Map(key, contained, _):
            if (part := inner(item, contained)) != item:
                value = f"transform_values({value}, ({other}, {item}) -> {part})"
            if (part := inner(item, key)) != item:
                value = f"transform_keys({value}, ({item}, {other}) -> {part})"
    return value


def _stop(why: Stop, field: Field, table: str, value: str) -> str:
    return stop(why, table, f"the column `{field.name}` of {table} ({field.sql_type})", value)
