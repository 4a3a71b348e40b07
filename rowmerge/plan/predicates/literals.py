"""Read the literals of a condition: numbers, strings, dates and timestamps, also in a CAST."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, InvalidOperation

from sqlglot import exp

from rowmerge.plan.bounds.bounds import PRECISION

_CAST_INTEGERS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
_EXACT = Context(prec=100, Emin=MIN_EMIN, Emax=MAX_EMAX)
_EPOCH = datetime(1970, 1, 1)
PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_PLAIN_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?(Z|[+-][0-9]{2}:[0-9]{2})?)?")


@dataclass(frozen=True)
class Null:
    """The literal NULL."""


@dataclass(frozen=True)
class ExactNumber:
    """An integer or a decimal. `digits`, `scale`: the number of digits that its Spark type has before and after the decimal point."""

    value: Decimal
    digits: int
    scale: int
    integer: bool


@dataclass(frozen=True)
class FloatNumber:
    """A floating-point number: a float if `single` is set, else a double."""

    value: float
    single: bool = False


@dataclass(frozen=True)
class Moment:
    """A timestamp in microseconds since the epoch: an instant if `zoned`, else a local time. `ntz`: whether its type is timestamp_ntz."""

    micros: int
    zoned: bool = False
    ntz: bool = False


Constant = Null | bool | ExactNumber | FloatNumber | str | date | Moment


def constant(node: exp.Expr) -> Constant | None:
    """Return the value of a literal, a negated number, a typed literal or a CAST of a literal.

    Returns None for any other expression, and if the value depends on settings of the session.
    """
    node = node.unnest()
    # Any other argument, for example the format of a CAST, can change the value.
    if any(value for name, value in node.args.items() if name not in ("this", "is_string", "to", "safe")):
        return None
    match node:
        case exp.Null():
            return Null()
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal():
            return str(node.this) if node.is_string else _parse_number(str(node.this))
        case exp.Neg() | exp.TsOrDsToDate() | exp.Cast():
            operand = constant(node.this)
            return None if operand is None else _converted(operand, node)
    return None


def _converted(operand: Constant, node: exp.Neg | exp.TsOrDsToDate | exp.Cast) -> Constant | None:
    """Return the value of a literal after the minus sign, date conversion or CAST in `node`, or None if it is unknown."""
    match node:
        case exp.Neg() if isinstance(operand, ExactNumber):
            return replace(operand, value=operand.value.copy_negate())  # the operator `-` rounds to 28 digits
        case exp.Neg():
            return replace(operand, value=-operand.value) if isinstance(operand, FloatNumber) else None
        case exp.TsOrDsToDate():
            return _parse_date(operand) if isinstance(operand, str) else None
    # A typed literal (TIMESTAMP '…') is a Cast; CAST and :: are TryCast in this dialect. `to_timestamp` is a Cast to another type.
    is_typed_literal = type(node) is exp.Cast and node.to.this is not exp.DType.TIMESTAMP
    return _cast(operand, node.to, is_typed_literal=is_typed_literal)


def _parse_number(text: str) -> ExactNumber | FloatNumber | None:
    """Parse a number as Spark does: an integer, a decimal, or a double if it has an exponent. Return None for any other string."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if "e" in text.lower():
        return _double(value)
    if "." not in text and fits_integer(value, 64):
        return _integer(int(value))
    scale = max(0, -int(value.as_tuple().exponent))
    precision = max(len(value.as_tuple().digits), scale)  # 0.001 has one digit and the scale 3, and its type is decimal(3, 3)
    return _decimal(value, precision, scale)


def fits_integer(value: Decimal | int, bits: int) -> bool:
    """Return whether a number is within the range of a signed integer.

    Args:
        value: The number.
        bits: The number of bits of the integer.
    """
    return -(1 << bits - 1) <= value <= (1 << bits - 1) - 1


def _double(value: Decimal) -> FloatNumber | None:
    number = float(value)
    return FloatNumber(number) if math.isfinite(number) else None


def _integer(value: int) -> ExactNumber:
    return ExactNumber(Decimal(value), 10 if fits_integer(value, 32) else 20, 0, integer=True)


def _decimal(value: Decimal, precision: int, scale: int) -> ExactNumber | None:
    return ExactNumber(value, precision - scale, scale, integer=False) if precision <= PRECISION and scale <= precision else None


def _cast(value: Constant, target_type: exp.DataType, *, is_typed_literal: bool) -> Constant | None:
    """Return the literal as a value of the target type, or None if the CAST could change its value.

    `is_typed_literal`: whether the literal has the form TIMESTAMP '…', in which Spark keeps a time zone that a CAST can drop.
    """
    if isinstance(value, Null):
        return value
    # sqlglot stores DECIMAL(10, 2) as `this` (DECIMAL) and `expressions` (10, 2). `nested` is false for a type without fields.
    supported_arguments = ("this", "nested", "expressions") if target_type.this is exp.DType.DECIMAL else ("this", "nested")
    if any(argument for name, argument in target_type.args.items() if name not in supported_arguments):
        return None  # such as the length in VARCHAR(3), which can shorten the value
    match target_type.this:
        case exp.DType.TINYINT | exp.DType.SMALLINT | exp.DType.INT | exp.DType.BIGINT:
            return _cast_to_integer(value, _CAST_INTEGERS[target_type.this])
        case exp.DType.DECIMAL:
            return _cast_to_decimal(value, target_type)
        case exp.DType.DOUBLE | exp.DType.FLOAT:
            return _cast_to_floating(value, single=target_type.this is exp.DType.FLOAT)
        case exp.DType.TEXT:
            return value if isinstance(value, str) else None
        case exp.DType.BOOLEAN:
            return value if isinstance(value, bool) else None
        case exp.DType.DATE:
            return date_of(value)
        case exp.DType.TIMESTAMPTZ | exp.DType.TIMESTAMPLTZ | exp.DType.TIMESTAMP | exp.DType.TIMESTAMPNTZ:
            return _cast_to_timestamp(value, ntz=target_type.this is exp.DType.TIMESTAMPNTZ, is_typed_literal=is_typed_literal)
    return None


def _cast_to_integer(value: Constant, bits: int) -> ExactNumber | None:
    """Return a number, or the integer in a string, as an integer with `bits` bits. Return None if this is not possible."""
    number = _exact_number(value, PLAIN_INTEGER)
    if number is None or number != math.floor(number) or not fits_integer(number, bits):
        return None
    return _integer(int(number))


def _exact_number(value: Constant, pattern: re.Pattern[str]) -> Decimal | None:
    """Return the value of an exact number, or of a string that matches the pattern, or None for any other literal."""
    if isinstance(value, str):
        return Decimal(value) if pattern.fullmatch(value) else None
    return value.value if isinstance(value, ExactNumber) else None


def _cast_to_decimal(value: Constant, to: exp.DataType) -> ExactNumber | None:
    """Return a number, or the number in a string, as the decimal type `to`, or None if the type cannot represent it exactly."""
    parameters = [int(parameter.name) for parameter in to.expressions]
    precision, scale = parameters + [10, 0][len(parameters) :]
    number = _exact_number(value, _PLAIN_DECIMAL)
    if number is None or number != rounded(number, scale, ROUND_FLOOR) or number.copy_abs() >= Decimal(10) ** (precision - scale):
        return None
    return _decimal(number, precision, scale)


def _cast_to_floating(value: Constant, *, single: bool) -> FloatNumber | None:
    """Return a number as a double, or as a float if `single`. Return None if a float cannot represent it exactly."""
    if not isinstance(value, ExactNumber | FloatNumber):
        return None
    if not single:
        return _double(value.value) if isinstance(value, ExactNumber) else FloatNumber(value.value)
    number = float(value.value)
    return FloatNumber(number, single=True) if nearest_float(number) == number else None


def date_of(value: Constant) -> date | None:
    """Return a date, or the date in a string. Return None for any other literal."""
    if isinstance(value, str):
        return _parse_date(value)
    return value if isinstance(value, date) else None


def _cast_to_timestamp(value: Constant, *, ntz: bool, is_typed_literal: bool) -> Moment | None:
    """Return a string or a date as a timestamp, or as a timestamp_ntz if `ntz`. Return None if the result depends on settings."""
    if isinstance(value, Moment):
        return None
    moment = moment_of(value)
    # With spark.sql.timestampType = TIMESTAMP_NTZ, a CAST drops the time zone, and a typed literal keeps it.
    return None if moment is None or (moment.zoned and (ntz or not is_typed_literal)) else replace(moment, ntz=ntz)


def moment_of(value: Constant) -> Moment | None:
    """Return a timestamp, the timestamp in a string, or midnight of a date. Return None for any other literal."""
    match value:
        case str():
            return _parse_timestamp(value)
        case date():
            return Moment(_epoch_micros(datetime(value.year, value.month, value.day)))
        case Moment():
            return value
    return None


def _parse_date(text: str) -> date | None:
    """Parse a date such as `2024-01-31`. Return None for any other string."""
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _parse_timestamp(text: str) -> Moment | None:
    """Parse a timestamp such as `2024-01-31 12:00:00.5+01:00`. The time and offset are optional. Return None for any other string."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, zone = match.groups()
    micros_text = (fraction or "").ljust(6, "0")  # `.5` stands for 500000 microseconds
    try:
        local = datetime.fromisoformat(f"{day} {time or '00:00:00'}.{micros_text}")
        offset_from_utc = timedelta() if zone in (None, "Z") else _parse_offset(zone)
    except ValueError:  # no such day, time or offset
        return None
    return Moment(_epoch_micros(local) - offset_from_utc // timedelta(microseconds=1), zoned=zone is not None)


def _parse_offset(text: str) -> timedelta:
    """Parse an offset from UTC such as `+05:30`. Raises ValueError for an offset above 18 hours."""
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        raise ValueError(text)
    return timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)


def _epoch_micros(local: datetime) -> int:
    """Return the number of microseconds from the epoch to a local time, which is interpreted as UTC."""
    return (local - _EPOCH) // timedelta(microseconds=1)


def rounded(value: Decimal, scale: int, rounding: str) -> Decimal:
    """Return a rounded number.

    Args:
        value: The number.
        scale: The number of digits after the decimal point in the result.
        rounding: A rounding mode of the module `decimal`.
    """
    return value.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=_EXACT)


def nearest_float(value: float) -> float:
    """Return the float (32 bits) that is nearest to a double, or NaN if the double is out of range."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.nan
