"""Read the literals of a condition, and find their positions among a column's values, in the order that Spark uses."""

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

from rowmerge.plan.pruning.bounds import INTEGERS, PRECISION, LiteralPosition, comparison_type
from rowmerge.table.metadata.schema import DataType, Decimal as DecimalType, Primitive

LONG_DIGITS = 20
"""The precision of the decimal type to which Spark casts a bigint before it compares the bigint with a decimal."""
_CAST_INTEGERS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
_EXACT = Context(prec=100, Emin=MIN_EMIN, Emax=MAX_EMAX)
_EPOCH = datetime(1970, 1, 1)
_MAX_OFFSET = 18 * 3_600_000_000
"""The maximum offset of a time zone from UTC in microseconds: 18 hours (java.time.ZoneOffset)."""
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
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
            return replace(operand, value=-operand.value)
        case exp.Neg():
            return replace(operand, value=-operand.value) if isinstance(operand, FloatNumber) else None
        case exp.TsOrDsToDate():
            return _parse_date(operand) if isinstance(operand, str) else None
    # A typed literal (TIMESTAMP '…') is a Cast; CAST and :: are TryCast in this dialect.
    return _cast(operand, node.to, is_typed_literal=type(node) is exp.Cast)


def locate_literal(literal: Constant, type_: DataType) -> LiteralPosition | None:
    """Return a literal as values of a column's type (LiteralPosition), so that the column's bounds can be compared with the literal.

    Among integers, 2 is the value 2, and 1.5 lies between 1 and 2. Returns None if the position is unknown, for example because Spark casts
    the column to a type with a different order before the comparison.
    """
    arrow_type = comparison_type(type_)
    match type_:
        case DecimalType():
            return _locate_among_decimals(literal, type_, arrow_type)
        case Primitive(name) if name in INTEGERS:
            return _locate_among_integers(literal, type_)
        case Primitive("double" | "float" as name):
            return _locate_among_floats(literal, single=name == "float")
        case Primitive("timestamp"):
            return _locate_among_instants(literal, arrow_type)
        case Primitive("timestamp_ntz"):
            return _locate_among_local_times(literal, arrow_type)
        case Primitive("boolean") if isinstance(literal, bool):
            return _exact_position(int(literal), arrow_type)
        case Primitive("string") if isinstance(literal, str):
            return _exact_position(literal, arrow_type)
        case Primitive("date"):
            day = _cast_to_date(literal)
            return None if day is None else _exact_position(day, arrow_type)
    return None


def locate_list_members(members: Sequence[Constant], type_: DataType) -> list[LiteralPosition] | None:
    """Return each member of an IN list as values of the column's type, as `locate_literal` does for one literal.

    Spark casts the column and all members to one type. Returns None if that cast can round a value, or if a position is unknown or
    approximate, such as a local time among instants. `members`: one or more members, except NULL. `type_`: the type of the column.
    """
    if len({type(member) for member in members}) != 1:
        return None  # IN (1, '2'): Spark casts both to one type, but `locate_literal` handles each alone
    if isinstance(members[0], str) and isinstance(type_, Primitive) and type_.name.startswith("timestamp"):
        return None  # IN ('2024-01-01'): Spark compares timestamps with it as strings if spark.sql.ansi.enabled is false
    numbers = [member for member in members if isinstance(member, ExactNumber)]
    if not _has_common_decimal_type(numbers, type_):
        return None  # IN (0.5, …) with an integer of 38 digits: a decimal cannot have 39 digits, so Spark rounds
    positions = [locate_literal(member, type_) for member in members]
    exact_positions = [position for position in positions if position is not None and not position.is_approximate]
    return exact_positions if len(exact_positions) == len(members) else None


def _has_common_decimal_type(numbers: Sequence[ExactNumber], type_: DataType) -> bool:
    """Return whether one decimal type can represent the numbers and the column's values. Otherwise, Spark rounds before it compares.

    `type_`: the type of the column. An integer column needs no decimal type if all numbers are integers, or if there are none.
    """
    if not numbers or (not isinstance(type_, DecimalType) and all(number.integer for number in numbers)):
        return True
    column_digits, column_scale = (type_.precision - type_.scale, type_.scale) if isinstance(type_, DecimalType) else (LONG_DIGITS, 0)
    digits = max(column_digits, *(number.digits for number in numbers))
    return digits + max(column_scale, *(number.scale for number in numbers)) <= PRECISION


def _exact_position(value: object, arrow_type: pa.DataType | None) -> LiteralPosition:
    """Return the position of a literal that is itself a value of the column's type."""
    scalar = pa.scalar(value, arrow_type)
    return LiteralPosition(scalar, scalar)


def _parse_number(text: str) -> ExactNumber | FloatNumber | None:
    """Parse a number as Spark does: an integer, a decimal, or a double if it has an exponent. Return None for any other string."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if "e" in text.lower():
        return _double(value)
    if "." not in text and _fits_integer(value, 64):
        return _integer(int(value))
    scale = max(0, -int(value.as_tuple().exponent))
    precision = max(len(value.as_tuple().digits), scale)  # 0.001 has one digit and the scale 3, and its type is decimal(3, 3)
    return _decimal(value, precision, scale)


def _fits_integer(value: Decimal | int, bits: int) -> bool:
    """Return whether a number is within the range of a signed integer with `bits` bits."""
    return -(1 << bits - 1) <= value <= (1 << bits - 1) - 1


def _double(value: Decimal) -> FloatNumber | None:
    number = float(value)
    return FloatNumber(number) if math.isfinite(number) else None


def _integer(value: int) -> ExactNumber:
    return ExactNumber(Decimal(value), 10 if _fits_integer(value, 32) else 20, 0, integer=True)


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
            return _cast_to_date(value)
        case exp.DType.TIMESTAMPTZ | exp.DType.TIMESTAMPLTZ | exp.DType.TIMESTAMP | exp.DType.TIMESTAMPNTZ:
            return _cast_to_timestamp(value, ntz=target_type.this is exp.DType.TIMESTAMPNTZ, is_typed_literal=is_typed_literal)
    return None


def _cast_to_integer(value: Constant, bits: int) -> ExactNumber | None:
    """Return a number, or the integer in a string, as an integer with `bits` bits. Return None if this is not possible."""
    number = _exact_number(value, _PLAIN_INTEGER)
    if number is None or number != math.floor(number) or not _fits_integer(number, bits):
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
    if number is None or number != _rounded(number, scale, ROUND_FLOOR) or abs(number) >= Decimal(10) ** (precision - scale):
        return None
    return _decimal(number, precision, scale)


def _cast_to_floating(value: Constant, *, single: bool) -> FloatNumber | None:
    """Return a number as a double, or as a float if `single`. Return None if a float cannot represent it exactly."""
    if not isinstance(value, ExactNumber | FloatNumber):
        return None
    if not single:
        return _double(value.value) if isinstance(value, ExactNumber) else FloatNumber(value.value)
    number = float(value.value)
    return FloatNumber(number, single=True) if _nearest_float(number) == number else None


def _cast_to_date(value: Constant) -> date | None:
    """Return a date, or the date in a string. Return None for any other literal."""
    if isinstance(value, str):
        return _parse_date(value)
    return value if isinstance(value, date) else None


def _cast_to_timestamp(value: Constant, *, ntz: bool, is_typed_literal: bool) -> Moment | None:
    """Return a string or a date as a timestamp, or as a timestamp_ntz if `ntz`. Return None if the result depends on settings."""
    if isinstance(value, Moment):
        return None
    moment = _moment_of(value)
    # With spark.sql.timestampType = TIMESTAMP_NTZ, a CAST drops the time zone, and a typed literal keeps it.
    return None if moment is None or (moment.zoned and (ntz or not is_typed_literal)) else replace(moment, ntz=ntz)


def _moment_of(value: Constant) -> Moment | None:
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


def _rounded(value: Decimal, scale: int, rounding: str) -> Decimal:
    """Return a number rounded to `scale` digits after the decimal point. `rounding`: a rounding mode of the module `decimal`."""
    return value.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=_EXACT)


def _nearest_float(value: float) -> float:
    """Return the float (32 bits) that is nearest to a double, or NaN if the double is out of range."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.nan


def _locate_among_integers(literal: Constant, type_: Primitive) -> LiteralPosition | None:
    """Return the position of a literal among the integers of a column, or None if Spark does not compare the two exactly."""
    match literal:
        # Spark replaces a comparison with a number outside bigint by TRUE or FALSE, even for null rows.
        case ExactNumber(number) if _fits_integer(number, 64) and _has_common_decimal_type([literal], type_):
            return _position_among_integers(number)
        # Spark casts the column to the literal's type. A float holds all integers below 2 ** 24 exactly, a double those below 2 ** 53.
        case FloatNumber(number, single) if abs(number) < (1 << 24 if single else 1 << 53):
            return _position_among_integers(number)
        # Spark casts the string to the column's type. For any other string, the result depends on the spelling and on settings.
        case str() if _PLAIN_INTEGER.fullmatch(literal) and _fits_integer(int(literal), INTEGERS[type_.name]):
            return _position_among_integers(int(literal))
    return None


def _position_among_integers(number: Decimal | float) -> LiteralPosition:
    """Return the position of a number between two neighbouring integers, or at an integer that equals it."""
    floor, ceiling = math.floor(number), math.ceil(number)
    return LiteralPosition(pa.scalar(floor, pa.int64()), pa.scalar(ceiling, pa.int64()), is_between=floor != ceiling)


def _locate_among_decimals(literal: Constant, type_: DecimalType, arrow_type: pa.DataType | None) -> LiteralPosition | None:
    """Return the position of a literal in a decimal column, or None if Spark does not compare the two exactly."""
    if not isinstance(literal, ExactNumber) or not _has_common_decimal_type([literal], type_):
        return None
    floor = _rounded(literal.value, type_.scale, ROUND_FLOOR)
    ceiling = _rounded(literal.value, type_.scale, ROUND_CEILING)
    return LiteralPosition(pa.scalar(floor, arrow_type), pa.scalar(ceiling, arrow_type), is_between=floor != ceiling)


def _locate_among_floats(literal: Constant, *, single: bool) -> LiteralPosition | None:
    """Return the position of a literal in a double column, or in a float column if `single`. Return None if it is unknown."""
    if not isinstance(literal, ExactNumber | FloatNumber):
        return None
    number = float(literal.value)
    if single and isinstance(literal, ExactNumber) and literal.integer and _nearest_float(number) != literal.value:
        return None  # Spark casts to float or to double, depending on spark.sql.ansi.enabled
    return _exact_position(number + 0.0, pa.float64())  # no -0.0, which sorts below 0.0


def _locate_among_instants(literal: Constant, arrow_type: pa.DataType | None) -> LiteralPosition | None:
    """Return the position of a literal in a timestamp column, or None. It is approximate for a local time, whose zone is unknown."""
    moment = _moment_of(literal)
    if moment is None:
        return None
    return _exact_position(moment.micros, arrow_type) if moment.zoned else _approximate_position(moment.micros, _MAX_OFFSET, arrow_type)


def _locate_among_local_times(literal: Constant, arrow_type: pa.DataType | None) -> LiteralPosition | None:
    """Return the position of a literal in a timestamp_ntz column, or None if it is unknown."""
    if isinstance(literal, Moment) and not literal.ntz:
        # Spark casts the column to timestamp with the session's time zone, whose offset can differ between the two times.
        return _approximate_position(literal.micros, _MAX_OFFSET if literal.zoned else 2 * _MAX_OFFSET, arrow_type)
    moment = _moment_of(literal)
    return None if moment is None or moment.zoned else _exact_position(moment.micros, arrow_type)


def _approximate_position(micros: int, distance: int, arrow_type: pa.DataType | None) -> LiteralPosition:
    """Return the position of a timestamp that is known to within `distance` microseconds. `micros`: microseconds since the epoch."""
    latest, earliest = pa.scalar(micros + distance, arrow_type), pa.scalar(micros - distance, arrow_type)
    return LiteralPosition(floor=latest, ceiling=earliest, is_approximate=True)
