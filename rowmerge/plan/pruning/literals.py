"""Literals of a condition, and where exactly they lie among the values of a column's type when Spark compares the two."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from rowmerge.table.metadata.schema import DataType, Primitive
from rowmerge.table.metadata.schema import Decimal as DecimalType

INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
LONG_DIGITS, PRECISION = 20, 38
"""Digits of a bigint as Spark counts them when it meets a decimal, and of the widest decimal."""
_CAST_INTEGERS = {exp.DType.TINYINT: 8, exp.DType.SMALLINT: 16, exp.DType.INT: 32, exp.DType.BIGINT: 64}
_LEAST_LONG, _GREATEST_LONG = -(1 << 63), (1 << 63) - 1
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


@dataclass(frozen=True)
class Point:
    """A literal among the values of a column, in the column's comparison type.

    `below` and `above` are the same value v where v is a value of the type. With `between` the literal lies strictly between two
    neighbouring values (1.5 among integers: below 1, above 2). With `vague` it is somewhere from `above` to `below`, ends included
    (a local time before the session's time zone is known).
    """

    below: pa.Scalar
    above: pa.Scalar
    between: bool = False
    vague: bool = False

    @property
    def exact(self) -> bool:
        """Whether it is one known value of the type."""
        return not (self.between or self.vague)


def comparison_type(type_: DataType) -> pa.DataType | None:
    """The Arrow type in which values of a column are compared, in Spark's order; None for types that are not pruned by."""
    match type_:
        case Primitive("byte" | "short" | "integer" | "long"):
            return pa.int64()
        case Primitive("float" | "double"):
            return pa.float64()
        case Primitive("boolean"):
            return pa.int8()
        case Primitive("string"):
            return pa.string()
        case Primitive("date"):
            return pa.date32()
        case Primitive("timestamp"):
            return pa.timestamp("us", tz="UTC")
        case Primitive("timestamp_ntz"):
            return pa.timestamp("us")
        case DecimalType(_, scale):
            return pa.decimal128(PRECISION, scale)
    return None


def constant(node: exp.Expr) -> Constant | None:
    """The value of a literal, a negated number, a typed literal or a CAST of one; None for anything else, or when in doubt."""
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
        case exp.Neg():
            inner = constant(node.this)
            if isinstance(inner, Exact):
                return Exact(-inner.value, inner.digits, inner.scale, inner.integer)
            return Floating(-inner.value, inner.single) if isinstance(inner, Floating) else None
        case exp.TsOrDsToDate():
            inner = constant(node.this)
            return _date(inner) if isinstance(inner, str) else None
        case exp.Cast():
            inner = constant(node.this)
            # A typed literal (TIMESTAMP '…') is a Cast; CAST and :: are TryCast in this dialect.
            return None if inner is None else _cast(inner, node.to, typed=type(node) is exp.Cast)
    return None


def place(value: Constant, type_: DataType) -> Point | None:
    """Where a literal lies among the values of a column of this type; None when that is not certain, or Spark casts the column."""
    domain = comparison_type(type_)
    match type_:
        case Primitive(name) if name in INTEGERS:
            return _among_integers(value, INTEGERS[name])
        case DecimalType(precision, scale):
            return _among_decimals(value, precision, scale, domain)
        case Primitive("double" | "float" as name):
            return _among_floats(value, single=name == "float")
        case Primitive("boolean"):
            return _point(int(value), domain) if isinstance(value, bool) else None
        case Primitive("string"):
            return _point(value, domain) if isinstance(value, str) else None
        case Primitive("date"):
            day = _date(value) if isinstance(value, str) else value
            return _point(day, domain) if isinstance(day, date) else None
        case Primitive("timestamp"):
            return _among_instants(value, domain)
        case Primitive("timestamp_ntz"):
            return _among_local_times(value, domain)
    return None


def place_all(values: Sequence[Constant], type_: DataType) -> list[Point] | None:
    """The places of the members of an IN list, each exact or strictly between; None when in doubt about any of them.

    Spark casts the column and all members to one type: members of different kinds may make that a lossy one.
    """
    if len({type(value) for value in values}) != 1:
        return None
    if isinstance(values[0], str) and isinstance(type_, Primitive) and type_.name.startswith("timestamp"):
        return None  # compared as strings when spark.sql.ansi.enabled is off
    numbers = [value for value in values if isinstance(value, Exact)]
    if any(not number.integer for number in numbers) or (numbers and isinstance(type_, DecimalType)):
        own = (type_.precision - type_.scale, type_.scale) if isinstance(type_, DecimalType) else (LONG_DIGITS, 0)
        if max(own[0], *(n.digits for n in numbers)) + max(own[1], *(n.scale for n in numbers)) > PRECISION:
            return None
    points = [place(value, type_) for value in values]
    found = [point for point in points if point is not None and not point.vague]
    return found if len(found) == len(values) else None


def _point(value: object, domain: pa.DataType | None) -> Point:
    scalar = pa.scalar(value, domain)
    return Point(scalar, scalar)


def _number(text: str) -> Exact | Floating | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if "e" in text.lower():
        return _double(value)
    if "." not in text and _LEAST_LONG <= value <= _GREATEST_LONG:
        return _integer(int(value))
    scale = max(0, -int(value.as_tuple().exponent))
    return _decimal(value, max(len(value.as_tuple().digits), scale), scale)


def _double(value: Decimal) -> Floating | None:
    number = float(value)
    return Floating(number) if math.isfinite(number) else None


def _integer(value: int) -> Exact:
    return Exact(Decimal(value), 10 if -(1 << 31) <= value < 1 << 31 else 20, 0, integer=True)


def _decimal(value: Decimal, precision: int, scale: int) -> Exact | None:
    return Exact(value, precision - scale, scale, integer=False) if precision <= PRECISION and scale <= precision else None


def _cast(value: Constant, to: exp.DataType, *, typed: bool) -> Constant | None:
    """A CAST of a literal, only where it changes nothing about the value."""
    if isinstance(value, Null):
        return value
    known = ("this", "nested", "expressions") if to.this is exp.DType.DECIMAL else ("this", "nested")
    if any(given for name, given in to.args.items() if name not in known):
        return None
    match to.this:
        case exp.DType.TINYINT | exp.DType.SMALLINT | exp.DType.INT | exp.DType.BIGINT:
            return _cast_to_integer(value, _CAST_INTEGERS[to.this])
        case exp.DType.DECIMAL:
            return _cast_to_decimal(value, to)
        case exp.DType.DOUBLE:
            return _double(value.value) if isinstance(value, Exact) else Floating(value.value) if isinstance(value, Floating) else None
        case exp.DType.FLOAT:
            number = float(value.value) if isinstance(value, Exact | Floating) else math.nan
            return Floating(number, single=True) if _single(number) == number else None
        case exp.DType.TEXT:
            return value if isinstance(value, str) else None
        case exp.DType.BOOLEAN:
            return value if isinstance(value, bool) else None
        case exp.DType.DATE:
            return _date(value) if isinstance(value, str) else value if isinstance(value, date) else None
        case exp.DType.TIMESTAMPTZ | exp.DType.TIMESTAMPLTZ | exp.DType.TIMESTAMP | exp.DType.TIMESTAMPNTZ:
            return _cast_to_moment(value, ntz=to.this is exp.DType.TIMESTAMPNTZ, typed=typed)
    return None


def _cast_to_integer(value: Constant, bits: int) -> Exact | None:
    if isinstance(value, str):
        number = Decimal(value) if _CLEAN_INTEGER.fullmatch(value) else None
    else:
        number = value.value if isinstance(value, Exact) else None
    if number is None or number != math.floor(number) or not -(1 << bits - 1) <= number < 1 << bits - 1:
        return None
    return _integer(int(number))


def _cast_to_decimal(value: Constant, to: exp.DataType) -> Exact | None:
    parameters = [str(parameter.name) for parameter in to.expressions]
    precision, scale = (int(p) for p in (parameters + ["10", "0"][len(parameters) :]))
    if isinstance(value, str):
        number = Decimal(value) if _CLEAN_DECIMAL.fullmatch(value) else None
    else:
        number = value.value if isinstance(value, Exact) else None
    if number is None or number != _rounded(number, scale, ROUND_FLOOR) or abs(number) >= Decimal(10) ** (precision - scale):
        return None
    return _decimal(number, precision, scale)


def _cast_to_moment(value: Constant, *, ntz: bool, typed: bool) -> Moment | None:
    if isinstance(value, str):
        moment = _moment(value)
        # With spark.sql.timestampType = TIMESTAMP_NTZ a cast drops the zone; a literal keeps it.
        if moment is None or (moment.zoned and (ntz or not typed)):
            return None
        return Moment(moment.micros, moment.zoned, ntz)
    return Moment(_micros(datetime(value.year, value.month, value.day)), ntz=ntz) if isinstance(value, date) else None


def _date(text: str) -> date | None:
    if not _CLEAN_DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _moment(text: str) -> Moment | None:
    found = _CLEAN_TIME.fullmatch(text)
    if found is None:
        return None
    day, time, fraction, zone = found.groups()
    try:
        local = datetime.fromisoformat(f"{day} {time or '00:00:00'}.{(fraction or '').ljust(6, '0')}")
        offset = timedelta() if zone in (None, "Z") else _zone(zone)
    except ValueError:
        return None
    return Moment(_micros(local) - offset // timedelta(microseconds=1), zoned=zone is not None)


def _zone(text: str) -> timedelta:
    """An offset like `+05:30`. Raises ValueError for one that no zone has."""
    hours, minutes = int(text[1:3]), int(text[4:6])
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        raise ValueError(text)
    return timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)


def _micros(local: datetime) -> int:
    return (local - _EPOCH) // timedelta(microseconds=1)


def _rounded(value: Decimal, scale: int, rounding: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=_EXACT)


def _single(value: float) -> float:
    """The nearest float, as a double."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.nan


def _among_integers(value: Constant, bits: int) -> Point | None:
    match value:
        case Exact(number, digits, scale):
            # Beyond bigint Spark replaces the comparison by TRUE or FALSE, even for null rows.
            if not _LEAST_LONG <= number <= _GREATEST_LONG or max(LONG_DIGITS, digits) + scale > PRECISION:
                return None
        case Floating(double, single):
            # The column is cast to the floating type, exactly so below this limit.
            if abs(double) >= (1 << 24 if single else 1 << 53):
                return None
            number = Decimal(double)
        case str() if _CLEAN_INTEGER.fullmatch(value) and -(1 << bits - 1) <= int(value) < 1 << bits - 1:
            number = Decimal(value)
        case _:
            return None
    below, above = math.floor(number), math.ceil(number)
    return Point(pa.scalar(below, pa.int64()), pa.scalar(above, pa.int64()), between=below != above)


def _among_decimals(value: Constant, precision: int, scale: int, domain: pa.DataType | None) -> Point | None:
    if not isinstance(value, Exact):
        return None
    if max(precision - scale, value.digits) + max(scale, value.scale) > PRECISION:
        return None  # Spark would round one of the two
    below, above = _rounded(value.value, scale, ROUND_FLOOR), _rounded(value.value, scale, ROUND_CEILING)
    return Point(pa.scalar(below, domain), pa.scalar(above, domain), between=below != above)


def _among_floats(value: Constant, *, single: bool) -> Point | None:
    if isinstance(value, Exact):
        number = float(value.value)
        if single and value.integer and _single(number) != value.value:
            return None  # cast to float or to double, as spark.sql.ansi.enabled says
    elif isinstance(value, Floating):
        number = value.value
    else:
        return None
    return _point(number + 0.0, pa.float64())  # no -0.0, which sorts below 0.0


def _among_instants(value: Constant, domain: pa.DataType | None) -> Point | None:
    if isinstance(value, str):
        moment = _moment(value)
    elif isinstance(value, date):
        moment = Moment(_micros(datetime(value.year, value.month, value.day)))
    else:
        moment = value if isinstance(value, Moment) else None
    if moment is None:
        return None
    return _point(moment.micros, domain) if moment.zoned else _around(moment.micros, _OFFSET, domain)


def _among_local_times(value: Constant, domain: pa.DataType | None) -> Point | None:
    match value:
        case str():
            moment = _moment(value)
            return _point(moment.micros, domain) if moment is not None and not moment.zoned else None
        case date():
            return _point(_micros(datetime(value.year, value.month, value.day)), domain)
        case Moment(micros, _, True):
            return _point(micros, domain)
        case Moment(micros, zoned, False):
            # The column is cast to timestamp with the session's zone, whose offset differs between the two times.
            return _around(micros, _OFFSET if zoned else 2 * _OFFSET, domain)
    return None


def _around(micros: int, distance: int, domain: pa.DataType | None) -> Point:
    return Point(pa.scalar(micros + distance, domain), pa.scalar(micros - distance, domain), vague=True)
