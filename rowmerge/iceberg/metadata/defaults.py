"""Convert column defaults between Iceberg values and SQL ("Default values" in the Iceberg specification)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Context, Decimal
from typing import Any

from pyiceberg import types as t
from pyiceberg.conversions import from_json, to_json

from rowmerge.table.metadata.schema import string_literal

_CAST = re.compile(r"\s*cast\s*\(\s*(?P<text>'.*')\s+as\s+[a-z_]+(?:\s*\([\d\s,]+\))?\s*\)\s*", re.IGNORECASE | re.DOTALL)
_TYPED_LITERAL = re.compile(r"\s*(?:date|timestamp(?:_ntz|_ltz)?)\s*(?P<text>'[^']*')\s*", re.IGNORECASE)
_STRING = re.compile(r"\s*'((?:[^'\\]|\\['\\])*)'\s*", re.DOTALL)
_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*(?:l|s|y|f|d|bd)?\s*", re.IGNORECASE)
_SQL_TYPES: Mapping[type[t.IcebergType], str] = {
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
_VALUE_BITS = {t.IntegerType: 31, t.LongType: 63}
"""The number of bits of each integer type, without the sign bit."""


def default_sql(value: Any, type_: t.IcebergType) -> str | None:
    """Return a default value as a SQL literal or cast that does not depend on session settings. Return None for other types.

    Args:
        value: The value as pyiceberg parses it.
        type_: The type of the column.

    Raises:
        ValueError: An integer is out of range.
        ValueError, AttributeError, TypeError: The value has the wrong Python type.
    """
    if isinstance(type_, t.StringType):
        return string_literal(value)
    if isinstance(type_, t.DecimalType):
        return f"CAST('{value:f}' AS DECIMAL({type_.precision}, {type_.scale}))"
    if isinstance(type_, t.IntegerType | t.LongType) and not (isinstance(value, int) and _fits(value, type_)):
        raise ValueError(f"{value!r:.80} is not a {type_}")
    sql_type = _SQL_TYPES.get(type(type_))
    if sql_type is None:
        return None
    return f"CAST('{_text_of(value, type_)}' AS {sql_type})"


def text_of_default(sql: str) -> str:
    """Return the text of the value in a result of `default_sql`, from which Arrow casts to the type of the column."""
    cast = _CAST.fullmatch(sql)
    return _unquote(sql if cast is None else cast["text"])


def _text_of(value: Any, type_: t.IcebergType) -> str:
    assert isinstance(type_, t.PrimitiveType), "_SQL_TYPES contains only primitive types"
    json_value: Any = to_json(type_, value)
    return str(json_value).lower() if isinstance(json_value, bool) else str(json_value)


def parse_default(text: str, type_: t.IcebergType) -> Any:
    """Return the value of a default in SQL, which is a literal or a CAST of a string literal.

    Args:
        text: The SQL text.
        type_: The type of the column.

    Raises:
        ValueError: The text is another expression, or the type cannot represent its value exactly.
    """
    if isinstance(type_, t.StringType):
        return _unquote(text)
    literal = _literal_text(text, type_)
    try:
        return _parse_literal(literal, type_)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(text) from error


def _literal_text(text: str, type_: t.IcebergType) -> str:
    """Return the content of a literal: the string in a cast or typed literal, or the digits of a number without its type suffix."""
    if cast := _CAST.fullmatch(text) or _TYPED_LITERAL.fullmatch(text):
        return _unquote(cast["text"]).strip()
    if number := _NUMBER.fullmatch(text):
        return number[1]
    return _unquote(text) if isinstance(type_, t.DateType | t.TimestampType | t.TimestamptzType) else text.strip()


def _parse_literal(literal: str, type_: t.IcebergType) -> Any:
    """Return the value of a literal's content. Raises ValueError or ArithmeticError if the type cannot represent it exactly."""
    match type_:
        case t.BooleanType() if literal.lower() in ("true", "false"):
            return literal.lower() == "true"
        case t.IntegerType() | t.LongType() if _fits(int(literal), type_):
            return int(literal)
        case t.FloatType() | t.DoubleType() if math.isfinite(float(literal)):
            return float(literal)
        case t.DecimalType():
            return _parse_decimal(literal, type_)
        case t.DateType():
            return from_json(type_, date.fromisoformat(literal))
        case t.TimestampType() | t.TimestamptzType():
            return _parse_timestamp(literal, with_zone=isinstance(type_, t.TimestamptzType))
    raise ValueError(f"{literal!r} is not a {type_}")


def _parse_decimal(literal: str, type_: t.DecimalType) -> Decimal:
    number = Decimal(literal)
    scaled = number.quantize(Decimal(1).scaleb(-type_.scale), context=_EXACT)
    if scaled != number or len(scaled.as_tuple().digits) > type_.precision:
        raise ValueError(f"{literal} is not a {type_}")
    return scaled


def _parse_timestamp(literal: str, *, with_zone: bool) -> datetime:
    timestamp = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", literal))  # Python 3.10 does not parse the suffix Z.
    if (timestamp.tzinfo is not None) is not with_zone:
        raise ValueError(f"{literal} does not match the type, with or without a time zone")
    return timestamp.astimezone(timezone.utc) if with_zone else timestamp


def _fits(value: int, type_: t.PrimitiveType) -> bool:
    bits = _VALUE_BITS[type(type_)]
    return -(1 << bits) <= value < 1 << bits


def _unquote(text: str) -> str:
    """Return the content of a SQL string literal, without quotes and escapes. Raises ValueError for other SQL."""
    literal = _STRING.fullmatch(text)
    if literal is None:
        raise ValueError(text)
    return re.sub(r"\\(.)", r"\1", literal[1], flags=re.DOTALL)
