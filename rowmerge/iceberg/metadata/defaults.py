"""Defaults of columns between Iceberg, which keeps their values, and ours, which are SQL text (Iceberg spec, Default Values)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Context, Decimal
from typing import Any

from pyiceberg import types as t
from pyiceberg.conversions import from_json, to_json

from rowmerge.table.metadata.schema import string_literal

_CAST = re.compile(r"\s*cast\s*\(\s*(?P<text>'.*')\s+as\s+[a-z_]+(?:\s*\([\d\s,]+\))?\s*\)\s*", re.IGNORECASE | re.DOTALL)
_TYPED = re.compile(r"\s*(?:date|timestamp(?:_ntz|_ltz)?)\s*(?P<text>'[^']*')\s*", re.IGNORECASE)
_TEXT = re.compile(r"\s*'((?:[^'\\]|\\['\\])*)'\s*", re.DOTALL)
_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*(?:l|s|y|f|d|bd)?\s*", re.IGNORECASE)
_SQL: Mapping[type[t.IcebergType], str] = {
    t.BooleanType: "BOOLEAN",
    t.IntegerType: "INT",
    t.LongType: "BIGINT",
    t.FloatType: "FLOAT",
    t.DoubleType: "DOUBLE",
    t.DateType: "DATE",
    t.TimestampType: "TIMESTAMP_NTZ",
    t.TimestamptzType: "TIMESTAMP",
}
_EXACT = Context(prec=100)
_BITS = {t.IntegerType: 31, t.LongType: 63}


def default_text(value: Any, type_: t.IcebergType) -> str | None:
    """SQL text of a default's value, which means the same in every session; None for a type of which there is none.

    Raises an error for a value of another type.
    """
    if isinstance(type_, t.StringType):
        return string_literal(value)
    if isinstance(type_, t.IntegerType | t.LongType) and not (isinstance(value, int) and _fits(value, type_)):
        raise ValueError(f"{value!r:.80} is no {type_}")
    if isinstance(type_, t.DecimalType):
        return f"CAST('{value:f}' AS DECIMAL({type_.precision}, {type_.scale}))"
    name = _SQL.get(type(type_))
    if name is None:
        return None
    assert isinstance(type_, t.PrimitiveType)
    return f"CAST('{str(to_json(type_, value)).replace('True', 'true').replace('False', 'false')}' AS {name})"


def default_value(text: str, type_: t.IcebergType) -> Any:
    """The value of SQL text that is a literal of a type, or a CAST of a string to it. Raises ValueError for any other text."""
    if isinstance(type_, t.StringType):
        return _unquoted(text)
    if cast := _CAST.fullmatch(text) or _TYPED.fullmatch(text):
        plain = _unquoted(cast["text"]).strip()
    elif number := _NUMBER.fullmatch(text):
        plain = number[1]
    else:
        plain = _unquoted(text) if isinstance(type_, t.DateType | t.TimestampType | t.TimestamptzType) else text.strip()
    try:
        return _value(plain, type_)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(text) from error


def _value(plain: str, type_: t.IcebergType) -> Any:
    match type_:
        case t.BooleanType():
            return {"true": True, "false": False}[plain.lower()] if plain.lower() in ("true", "false") else _none(plain)
        case t.IntegerType() | t.LongType():
            return int(plain) if _fits(int(plain), type_) else _none(plain)
        case t.FloatType() | t.DoubleType():
            number = float(plain)
            return number if number - number == 0 else _none(plain)
        case t.DecimalType():
            exact = Decimal(plain).quantize(Decimal(1).scaleb(-type_.scale), context=_EXACT)
            return exact if exact == Decimal(plain) and len(exact.as_tuple().digits) <= type_.precision else _none(plain)
        case t.DateType():
            return from_json(type_, date.fromisoformat(plain))
        case t.TimestampType() | t.TimestamptzType():
            moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", plain))
            if (moment.tzinfo is None) is not isinstance(type_, t.TimestampType):
                return _none(plain)
            return moment if moment.tzinfo is None else moment.astimezone(timezone.utc)
    return _none(plain)


def _fits(value: int, type_: t.PrimitiveType) -> bool:
    bits = _BITS[type(type_)]
    return -(1 << bits) <= value < 1 << bits


def _unquoted(text: str) -> str:
    found = _TEXT.fullmatch(text)
    return re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL) if found else _none(text)


def _none(text: str) -> Any:
    raise ValueError(text)
