"""Read the literals of a condition, and find where exactly they lie among the values of a column when Spark compares the two."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from rowmerge.plan.pruning.bounds import INTEGERS, PRECISION, Point, comparison_type
from rowmerge.table.metadata.schema import DataType, Primitive
from rowmerge.table.metadata.schema import Decimal as DecimalType

LONG_DIGITS = 20
"""Digits of a bigint as Spark counts them when it meets a decimal."""
_CAST_INTEGERS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}

_EXACT = Context(prec=100, Emin=MIN_EMIN, Emax=MAX_EMAX)
_EPOCH = datetime(1970, 1, 1)
_HOUR = 3_600_000_000
_OFFSET = 18 * _HOUR
"""No time zone is farther from UTC (java.time.ZoneOffset), so a local time is at most so far from the same time in UTC."""
_CLEAN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_CLEAN_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_CLEAN_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLEAN_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?(Z|[+-][0-9]{2}:[0-9]{2})?)?")


@dataclass(frozen=True)
class Null:
    """NULL."""


@dataclass(frozen=True)
class Exact:
    """An integer or a decimal; `digits` are those before the point in its Spark type, `scale` those after it."""

    value: Decimal
    digits: int
    scale: int
    integer: bool


@dataclass(frozen=True)
class Floating:
    """A double, or a float when `single`."""

    value: float
    single: bool = False


@dataclass(frozen=True)
class Moment:
    """A timestamp in microseconds since the epoch: an instant when `zoned`, else a local time; `ntz`: of type timestamp_ntz."""

    micros: int
    zoned: bool = False
    ntz: bool = False


Constant = Null | bool | Exact | Floating | str | date | Moment


def constant(node: exp.Expr) -> Constant | None:
    """Return the value of a literal, a negated number, a typed literal or a CAST of one, or None for anything else or uncertain."""
    node = node.unnest()
    if any(value for name, value in node.args.items() if name not in ("this", "is_string", "to", "safe")):
        return None
    match node:
        case exp.Null():
            return Null()
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal():
            return str(node.this) if node.is_string else _number(str(node.this))
        case exp.Neg() | exp.TsOrDsToDate() | exp.Cast():
            operand = constant(node.this)
            return None if operand is None else _converted(operand, node)
    return None


def _converted(operand: Constant, node: exp.Neg | exp.TsOrDsToDate | exp.Cast) -> Constant | None:
    """Return the value of a minus sign, a date literal or a CAST over a literal."""
    match node:
        case exp.Neg() if isinstance(operand, Exact):
            return replace(operand, value=-operand.value)
        case exp.Neg():
            return replace(operand, value=-operand.value) if isinstance(operand, Floating) else None
        case exp.TsOrDsToDate():
            return _date(operand) if isinstance(operand, str) else None
    # A typed literal (TIMESTAMP '…') is a Cast; CAST and :: are TryCast in this dialect.
    return _cast(operand, node.to, typed=type(node) is exp.Cast)


def locate(value: Constant, type_: DataType) -> Point | None:
    """Return where a literal lies among the values of a column, or None if that is uncertain or Spark casts the column."""
    arrow_type = comparison_type(type_)
    match type_:
        case DecimalType(precision, scale):
            return _among_decimals(value, precision, scale, arrow_type)
        case Primitive(name) if name in INTEGERS:
            return _among_integers(value, INTEGERS[name])
        case Primitive("double" | "float" as name):
            return _among_floats(value, single=name == "float")
        case Primitive("timestamp"):
            return _among_instants(value, arrow_type)
        case Primitive("timestamp_ntz"):
            return _among_local_times(value, arrow_type)
        case Primitive("boolean") if isinstance(value, bool):
            return _point(int(value), arrow_type)
        case Primitive("string") if isinstance(value, str):
            return _point(value, arrow_type)
        case Primitive("date"):
            day = _cast_to_date(value)
            return None if day is None else _point(day, arrow_type)
    return None


def locate_all(values: Sequence[Constant], type_: DataType) -> list[Point] | None:
    """Return the points of an IN list's members, each exact or strictly between two values, or None if one of them is uncertain.

    Spark casts the column and all members to one type: members of different kinds may make that a lossy one.
    """
    if len({type(value) for value in values}) != 1:
        return None
    if isinstance(values[0], str) and isinstance(type_, Primitive) and type_.name.startswith("timestamp"):
        return None  # compared as strings when spark.sql.ansi.enabled is off
    if not _fit_one_decimal_type([value for value in values if isinstance(value, Exact)], type_):
        return None
    points = [locate(value, type_) for value in values]
    certain_points = [point for point in points if point is not None and not point.vague]
    return certain_points if len(certain_points) == len(values) else None


def _fit_one_decimal_type(numbers: Sequence[Exact], type_: DataType) -> bool:
    """Return whether a decimal type holds the numbers and the column's values exactly. Integers alone need no decimal type."""
    if not numbers or (not isinstance(type_, DecimalType) and all(number.integer for number in numbers)):
        return True
    digits, scale = (type_.precision - type_.scale, type_.scale) if isinstance(type_, DecimalType) else (LONG_DIGITS, 0)
    return max(digits, *(number.digits for number in numbers)) + max(scale, *(number.scale for number in numbers)) <= PRECISION


def _point(value: object, arrow_type: pa.DataType | None) -> Point:
    scalar = pa.scalar(value, arrow_type)
    return Point(scalar, scalar)


def _number(text: str) -> Exact | Floating | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if "e" in text.lower():
        return _double(value)
    if "." not in text and _fits_integer(value, 64):
        return _integer(int(value))
    scale = max(0, -int(value.as_tuple().exponent))
    return _decimal(value, max(len(value.as_tuple().digits), scale), scale)


def _fits_integer(value: Decimal | int, bits: int) -> bool:
    return -(1 << bits - 1) <= value <= (1 << bits - 1) - 1


def _double(value: Decimal) -> Floating | None:
    number = float(value)
    return Floating(number) if math.isfinite(number) else None


def _integer(value: int) -> Exact:
    return Exact(Decimal(value), 10 if _fits_integer(value, 32) else 20, 0, integer=True)


def _decimal(value: Decimal, precision: int, scale: int) -> Exact | None:
    return Exact(value, precision - scale, scale, integer=False) if precision <= PRECISION and scale <= precision else None


def _cast(value: Constant, to: exp.DataType, *, typed: bool) -> Constant | None:
    """Return a CAST of a literal if the CAST changes nothing about the value, or else None."""
    if isinstance(value, Null):
        return value
    understood = ("this", "nested", "expressions") if to.this is exp.DType.DECIMAL else ("this", "nested")
    if any(argument for name, argument in to.args.items() if name not in understood):
        return None
    match to.this:
        case exp.DType.TINYINT | exp.DType.SMALLINT | exp.DType.INT | exp.DType.BIGINT:
            return _cast_to_integer(value, _CAST_INTEGERS[to.this])
        case exp.DType.DECIMAL:
            return _cast_to_decimal(value, to)
        case exp.DType.DOUBLE | exp.DType.FLOAT:
            return _cast_to_floating(value, single=to.this is exp.DType.FLOAT)
        case exp.DType.TEXT:
            return value if isinstance(value, str) else None
        case exp.DType.BOOLEAN:
            return value if isinstance(value, bool) else None
        case exp.DType.DATE:
            return _cast_to_date(value)
        case exp.DType.TIMESTAMPTZ | exp.DType.TIMESTAMPLTZ | exp.DType.TIMESTAMP | exp.DType.TIMESTAMPNTZ:
            return _cast_to_moment(value, ntz=to.this is exp.DType.TIMESTAMPNTZ, typed=typed)
    return None


def _cast_to_integer(value: Constant, bits: int) -> Exact | None:
    number = _exact_number(value, _CLEAN_INTEGER)
    if number is None or number != math.floor(number) or not _fits_integer(number, bits):
        return None
    return _integer(int(number))


def _exact_number(value: Constant, pattern: re.Pattern[str]) -> Decimal | None:
    """Return the value of an exact number, or of a text that matches the pattern."""
    if isinstance(value, str):
        return Decimal(value) if pattern.fullmatch(value) else None
    return value.value if isinstance(value, Exact) else None


def _cast_to_decimal(value: Constant, to: exp.DataType) -> Exact | None:
    parameters = [int(parameter.name) for parameter in to.expressions]
    precision, scale = parameters + [10, 0][len(parameters) :]
    number = _exact_number(value, _CLEAN_DECIMAL)
    if number is None or number != _rounded(number, scale, ROUND_FLOOR) or abs(number) >= Decimal(10) ** (precision - scale):
        return None
    return _decimal(number, precision, scale)


def _cast_to_floating(value: Constant, *, single: bool) -> Floating | None:
    if not isinstance(value, Exact | Floating):
        return None
    if not single:
        return _double(value.value) if isinstance(value, Exact) else Floating(value.value)
    number = float(value.value)
    return Floating(number, single=True) if _single(number) == number else None


def _cast_to_date(value: Constant) -> date | None:
    if isinstance(value, str):
        return _date(value)
    return value if isinstance(value, date) else None


def _cast_to_moment(value: Constant, *, ntz: bool, typed: bool) -> Moment | None:
    if isinstance(value, Moment):
        return None
    moment = _moment_of(value)
    # With spark.sql.timestampType = TIMESTAMP_NTZ a cast drops the zone; a literal keeps it.
    if moment is None or (moment.zoned and (ntz or not typed)):
        return None
    return replace(moment, ntz=ntz)


def _moment_of(value: Constant) -> Moment | None:
    """Return a timestamp, a text that is one, or the midnight of a date as a Moment, or None for any other literal."""
    match value:
        case str():
            return _moment(value)
        case date():
            return Moment(_micros(datetime(value.year, value.month, value.day)))
        case Moment():
            return value
    return None


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _CLEAN_DATE.fullmatch(text) else None
    except ValueError:
        return None


def _moment(text: str) -> Moment | None:
    match = _CLEAN_TIME.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, zone = match.groups()
    try:
        local = datetime.fromisoformat(f"{day} {time or '00:00:00'}.{(fraction or '').ljust(6, '0')}")
        offset = timedelta() if zone in (None, "Z") else _zone(zone)
    except ValueError:
        return None
    return Moment(_micros(local) - offset // timedelta(microseconds=1), zoned=zone is not None)


def _zone(text: str) -> timedelta:
    """Return an offset like `+05:30`. Raises ValueError for one that no zone has."""
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        raise ValueError(text)
    return timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)


def _micros(local: datetime) -> int:
    return (local - _EPOCH) // timedelta(microseconds=1)


def _rounded(value: Decimal, scale: int, rounding: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=_EXACT)


def _single(value: float) -> float:
    """Return the nearest float, as a double."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.nan


def _among_integers(value: Constant, bits: int) -> Point | None:
    """Return where a literal lies among integers, or None if Spark does not compare it exactly with an integer column."""
    match value:
        # Beyond bigint Spark replaces the comparison by TRUE or FALSE, even for null rows.
        case Exact(number, digits, scale) if _fits_integer(number, 64) and max(LONG_DIGITS, digits) + scale <= PRECISION:
            below, above = math.floor(number), math.ceil(number)
        # The column is cast to the floating type, exactly so below this limit.
        case Floating(double, single) if abs(double) < (1 << 24 if single else 1 << 53):
            below, above = math.floor(double), math.ceil(double)
        case str() if _CLEAN_INTEGER.fullmatch(value) and _fits_integer(int(value), bits):
            below = above = int(value)
        case _:
            return None
    return Point(pa.scalar(below, pa.int64()), pa.scalar(above, pa.int64()), between=below != above)


def _among_decimals(value: Constant, precision: int, scale: int, arrow_type: pa.DataType | None) -> Point | None:
    if not isinstance(value, Exact):
        return None
    if max(precision - scale, value.digits) + max(scale, value.scale) > PRECISION:
        return None  # Spark would round one of the two
    below, above = _rounded(value.value, scale, ROUND_FLOOR), _rounded(value.value, scale, ROUND_CEILING)
    return Point(pa.scalar(below, arrow_type), pa.scalar(above, arrow_type), between=below != above)


def _among_floats(value: Constant, *, single: bool) -> Point | None:
    if not isinstance(value, Exact | Floating):
        return None
    number = float(value.value)
    if single and isinstance(value, Exact) and value.integer and _single(number) != value.value:
        return None  # cast to float or to double, as spark.sql.ansi.enabled says
    return _point(number + 0.0, pa.float64())  # no -0.0, which sorts below 0.0


def _among_instants(value: Constant, arrow_type: pa.DataType | None) -> Point | None:
    moment = _moment_of(value)
    if moment is None:
        return None
    return _point(moment.micros, arrow_type) if moment.zoned else _around(moment.micros, _OFFSET, arrow_type)


def _among_local_times(value: Constant, arrow_type: pa.DataType | None) -> Point | None:
    if isinstance(value, Moment) and not value.ntz:
        # The column is cast to timestamp with the session's zone, whose offset differs between the two times.
        return _around(value.micros, _OFFSET if value.zoned else 2 * _OFFSET, arrow_type)
    moment = _moment_of(value)
    return None if moment is None or moment.zoned else _point(moment.micros, arrow_type)


def _around(micros: int, distance: int, arrow_type: pa.DataType | None) -> Point:
    return Point(pa.scalar(micros + distance, arrow_type), pa.scalar(micros - distance, arrow_type), vague=True)
