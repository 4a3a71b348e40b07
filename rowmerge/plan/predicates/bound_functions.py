"""Functions of columns, such as `year(d)`, applied to the bounds of files.

A function that never decreases maps the bounds of its operand to bounds of its results. If all dates in a file lie between 2023-05-01 and
2024-02-01, all years lie between 2023 and 2024. Each function here never decreases between two bounds for which it returns bounds, and has
the same results as in Spark. Where Spark's result depends on settings or can overflow, the bounds become unknown (null).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import tzinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rowmerge.plan.bounds.bounds import ColumnBounds
from rowmerge.plan.bounds.source_ranges import AFTER_TEXTS
from rowmerge.plan.bounds.time_zones import instant_range, local_range

Convert = Callable[[ColumnBounds], ColumnBounds]
"""A function that returns the bounds of a function's results from the bounds of its operand."""
Integers = NDArray[np.int64]

_DAY = 86_400_000_000
_MAX_DAY = 50_000_000
"""The greatest distance of a date from the epoch, in days, for which bounds are computed. Greater ones can overflow."""
_MAX_MICROS = _MAX_DAY * _DAY
_FIRST_FORMATTED, _LAST_FORMATTED = (int(np.datetime64(day, "D").astype(np.int64)) for day in ("1583-01-01", "9999-12-30"))
"""The days whose text is the same in both calendars of Spark, and sorts like the days."""
_TIME_UNITS = {"HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1_000, "MICROSECOND": 1}
_LOCAL = pa.timestamp("us")
_INSTANT = pa.timestamp("us", tz="UTC")


def same(column: ColumnBounds) -> ColumnBounds:
    """Return the bounds of a function that returns its operand. The buckets of the column remain valid."""
    return column


def composed(first: Convert, second: Convert) -> Convert:
    """Return the function that applies two functions one after the other."""
    return lambda column: second(first(column))


def _with_bounds(column: ColumnBounds, lower: pa.Array, upper: pa.Array, *, may_add_nulls: bool = False) -> ColumnBounds:
    """Return bounds of results. `may_add_nulls`: whether values without bounds can have the result NULL, as in TRY_CAST."""
    has_nulls = column.has_nulls
    if may_add_nulls:
        is_unknown = pc.or_(pc.is_null(lower), pc.is_null(upper))
        has_nulls = pc.or_(has_nulls, pc.and_(column.has_values, is_unknown))
    return replace(column, lower=lower, upper=upper, has_nulls=has_nulls, buckets=())


def _integers_of(values: pa.Array, limit: int) -> tuple[Integers, NDArray[np.bool_]]:
    """Return bounds as integers, and which of them are known. Bounds beyond the limit are unknown, and unknown bounds are 0."""
    numbers = (values.cast(pa.int32()) if pa.types.is_date(values.type) else values).cast(pa.int64())
    integers = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    is_known = pc.is_valid(values).to_numpy(zero_copy_only=False) & (np.abs(integers) <= limit)
    return np.where(is_known, integers, 0), is_known


def _array(integers: Any, is_known: NDArray[np.bool_], type_: pa.DataType) -> pa.Array:
    """Return integers as values of an Arrow type, with null for those that are not known."""
    if pa.types.is_date(type_):
        return pa.array(integers.astype(np.int32), mask=~is_known).cast(type_)
    return pa.array(integers, pa.int64(), mask=~is_known).cast(type_)


def _monotone(function: Callable[[Integers], Any], limit: int, type_: pa.DataType) -> Convert:
    """Return the bounds of a function of days or microseconds that never decreases."""

    def convert(column: ColumnBounds) -> ColumnBounds:
        (lower, has_lower), (upper, has_upper) = _integers_of(column.lower, limit), _integers_of(column.upper, limit)
        return _with_bounds(column, _array(function(lower), has_lower, type_), _array(function(upper), has_upper, type_))

    return convert


def _dates_of(days: Integers, unit: str) -> Any:
    """Return dates in a calendar unit of NumPy, such as `M` for months since the epoch."""
    return days.astype("datetime64[D]").astype(f"datetime64[{unit}]")


def _first_day(periods: Any) -> Integers:
    days: Integers = periods.astype("datetime64[D]").astype(np.int64)
    return days


def _first_of_quarter(days: Integers) -> Integers:
    months = _dates_of(days, "M").astype(np.int64)
    return _first_day((months - months % 3).astype("datetime64[M]"))


_DATE_TRUNCATIONS: dict[str, Callable[[Integers], Integers]] = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), lambda days: _first_day(_dates_of(days, "Y"))),
    "QUARTER": _first_of_quarter,
    **dict.fromkeys(("MONTH", "MM", "MON"), lambda days: _first_day(_dates_of(days, "M"))),
    "WEEK": lambda days: days - (days + 3) % 7,  # 1970-01-01 was a Thursday, and weeks begin on Mondays
}

year_of_date = _monotone(lambda days: _dates_of(days, "Y").astype(np.int64) + 1970, _MAX_DAY, pa.int64())
date_of_local = _monotone(lambda micros: micros // _DAY, _MAX_MICROS, pa.date32())
local_of_date = _monotone(lambda days: days * _DAY, _MAX_DAY, _LOCAL)
last_day_of_month = _monotone(
    lambda days: _first_day((_dates_of(days, "M").astype(np.int64) + 1).astype("datetime64[M]")) - 1, _MAX_DAY, pa.date32()
)


def shifted_date(days: int) -> Convert:
    """Return the function that adds a number of days to a date."""
    return _monotone(lambda dates: dates + days, _MAX_DAY, pa.date32())


def shifted_integer(number: int, bits: int) -> Convert:
    """Return the function that adds a number to an integer.

    Args:
        number: The number to add.
        bits: The number of bits of the result. If a result between the bounds can overflow, both bounds are unknown.
    """

    def convert(column: ColumnBounds) -> ColumnBounds:
        # A sum outside of 64 bits would overflow here too, so the limits apply to the operands.
        least, greatest = -(1 << bits - 1) - min(number, 0), (1 << bits - 1) - 1 - max(number, 0)
        lower, upper = _within(column.lower, column.upper, least, greatest)
        return _with_bounds(column, pc.add(lower, number), pc.add(upper, number), may_add_nulls=True)

    return convert


def truncated_date(unit: str) -> Convert | None:
    """Return the function `trunc(date, unit)`, or None for an unknown unit."""
    truncate = _DATE_TRUNCATIONS.get(unit.upper())
    return None if truncate is None else _monotone(truncate, _MAX_DAY, pa.date32())


def truncated_instant(unit: str, zone: tzinfo | None) -> Convert | None:
    """Return the function `date_trunc(unit, timestamp)`, or None for an unknown unit.

    Args:
        unit: The unit, such as `MONTH`.
        zone: The session's time zone, in which days and hours begin.
    """
    unit = unit.upper()
    if unit in ("MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"):
        return _less_than_a(_TIME_UNITS[unit])
    truncate = _DATE_TRUNCATIONS.get(unit)
    if unit in ("DAY", "DD"):
        local = _monotone(lambda micros: micros - micros % _DAY, _MAX_MICROS, _LOCAL)
    elif unit == "HOUR":
        local = _monotone(lambda micros: micros - micros % _TIME_UNITS["HOUR"], _MAX_MICROS, _LOCAL)
    elif truncate is not None:
        local = _monotone(lambda micros: truncate(micros // _DAY) * _DAY, _MAX_MICROS, _LOCAL)
    else:
        return None
    return composed(composed(local_of_instant(zone), local), instant_of_local(zone))


def _less_than_a(unit: int) -> Convert:
    """Return the function that sets instants back by less than a unit. Offsets of zones can have seconds, so minutes begin anywhere."""

    def convert(column: ColumnBounds) -> ColumnBounds:
        lower, has_lower = _integers_of(column.lower, _MAX_MICROS)
        return _with_bounds(column, _array(lower - unit + 1, has_lower, _INSTANT), column.upper)

    return convert


def _ranged(function: Callable[..., tuple[Integers, Integers]], zone: tzinfo | None, type_: pa.DataType) -> Convert:
    """Return the bounds of a function from microseconds to a range of microseconds that depends on the time zone."""

    def convert(column: ColumnBounds) -> ColumnBounds:
        (lower, has_lower), (upper, has_upper) = _integers_of(column.lower, _MAX_MICROS), _integers_of(column.upper, _MAX_MICROS)
        least, greatest = function(lower, upper, zone)
        return _with_bounds(column, _array(least, has_lower, type_), _array(greatest, has_upper, type_))

    return convert


def local_of_instant(zone: tzinfo | None) -> Convert:
    """Return the function from instants to local times in the session's time zone."""
    return _ranged(local_range, zone, _LOCAL)


def instant_of_local(zone: tzinfo | None) -> Convert:
    """Return the function from local times to instants in the session's time zone."""
    return _ranged(instant_range, zone, _INSTANT)


def formatted_local(pattern: str, last_suffix: str = "") -> Convert:
    """Return the function that formats local times. Its bounds are unknown outside of the years 1583 to 9999.

    Args:
        pattern: The pattern of `strftime`, with the units from the year on, each with a fixed number of digits.
        last_suffix: The greatest text that can follow, such as the fraction of a second.
    """

    def convert(column: ColumnBounds) -> ColumnBounds:
        (lower, has_lower), (upper, has_upper) = _integers_of(column.lower, _MAX_MICROS), _integers_of(column.upper, _MAX_MICROS)
        # A later year has a longer text, so both bounds must be known.
        is_known = has_lower & has_upper & (lower >= _FIRST_FORMATTED * _DAY) & (upper <= _LAST_FORMATTED * _DAY)
        texts = [_formatted(_array(micros // 1_000_000, is_known, pa.timestamp("s")), pattern) for micros in (lower, upper)]
        return _with_bounds(column, texts[0], pc.binary_join_element_wise(texts[1], last_suffix, ""))

    return convert


def _formatted(seconds: pa.Array, pattern: str) -> pa.Array:
    """Return times as text. Equal texts are created once, because files often have the same days."""
    if "%H" not in pattern:
        seconds = seconds.cast(pa.date32(), safe=False).cast(seconds.type)
    distinct_times = pc.dictionary_encode(seconds)
    return pc.strftime(distinct_times.dictionary, format=pattern, locale="C").take(distinct_times.indices)


def prefix(length: int) -> Convert:
    """Return the function that returns the first characters of strings, whose order is that of the strings."""

    def convert(column: ColumnBounds) -> ColumnBounds:
        return _with_bounds(column, pc.utf8_slice_codeunits(column.lower, 0, length), _first_characters(column.upper, length))

    return convert


def _first_characters(upper: pa.Array, length: int) -> pa.Array:
    """Return the first characters of upper bounds. A bound that ends with AFTER_TEXTS is no valid string, so Arrow cannot divide it."""
    encoded = upper.cast(pa.binary())
    is_open = pc.ends_with(encoded, AFTER_TEXTS)
    texts = pc.if_else(is_open, pc.binary_slice(encoded, 0, -1), encoded).cast(pa.string())
    is_short = pc.and_(is_open, pc.less(pc.utf8_length(texts), length))
    return pc.if_else(is_short, encoded, pc.utf8_slice_codeunits(texts, 0, length).cast(pa.binary())).view(pa.string())


def _within(lower: pa.Array, upper: pa.Array, least: Any, greatest: Any) -> tuple[pa.Array, pa.Array]:
    """Return both bounds if they lie between two values, else null for both."""
    is_within = pc.and_(pc.greater_equal(lower, least), pc.less_equal(upper, greatest))
    unknown = pa.scalar(None, lower.type)
    return pc.if_else(is_within, lower, unknown), pc.if_else(is_within, upper, unknown)


def integer_of_number(bits: int, *, may_round: bool = False) -> Convert:
    """Return the cast of numbers to integers, which drops the fraction. If a value can overflow, both bounds are unknown.

    Args:
        bits: The number of bits of the integers.
        may_round: Whether Spark may first cast the numbers to double, which can round a number up to the next integer.
    """

    def convert(column: ColumnBounds) -> ColumnBounds:
        try:
            lower, upper = (_truncated_toward_zero(bound) for bound in (column.lower, column.upper))
            if may_round:
                lower, upper = _rounded_away_from_zero(column, lower, upper)
        except pa.ArrowInvalid:
            lower = upper = pa.nulls(len(column.lower), pa.int64())
        return _with_bounds(column, *_within(lower, upper, -(1 << bits - 1), (1 << bits - 1) - 1), may_add_nulls=True)

    return convert


def _rounded_away_from_zero(column: ColumnBounds, lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return integer bounds that also hold for results of a cast by way of a double, as 3 for 2.999999999999999999."""
    doubles = double_of_number(column)
    negative, positive = pc.less(doubles.lower, 0.0), pc.greater(doubles.upper, 0.0)
    least, greatest = (_truncated_toward_zero(bound) for bound in (doubles.lower, doubles.upper))
    return pc.if_else(negative, least, lower), pc.if_else(positive, greatest, upper)


def _truncated_toward_zero(bound: pa.Array) -> pa.Array:
    """Return numbers as 64-bit integers without their fraction. Floats outside of 64 bits become null."""
    if not pa.types.is_floating(bound.type):
        return pc.cast(bound, options=pc.CastOptions(pa.int64(), allow_decimal_truncate=True))
    is_small = pc.less(pc.abs(bound), float(1 << 62))
    return pc.cast(pc.trunc(pc.if_else(is_small, bound, pa.scalar(None, bound.type))), pa.int64())


def double_of_number(column: ColumnBounds) -> ColumnBounds:
    """Return the bounds of a cast of exact numbers to double. Readers may round decimals differently, so their bounds are widened."""
    lower, upper = (bound.cast(pa.float64(), safe=False) for bound in (column.lower, column.upper))
    if pa.types.is_decimal(column.lower.type):
        lower, upper = _next_floats(lower, -np.inf), _next_floats(upper, np.inf)
    return _with_bounds(column, lower, upper)


def _next_floats(values: pa.Array, direction: float) -> pa.Array:
    """Return the fourth double after each value in a direction."""
    numbers = values.to_numpy(zero_copy_only=False)
    for _ in range(4):
        numbers = np.nextafter(numbers, direction)
    return pa.array(numbers, pa.float64(), mask=pc.is_null(values).to_numpy(zero_copy_only=False))


def decimal_of_number(precision: int, scale: int) -> Convert:
    """Return the cast of integers, or of decimals without a greater scale, to a decimal. If a value can overflow, bounds are unknown.

    Args:
        precision: The precision of the decimal.
        scale: The scale of the decimal.
    """
    limit = Decimal(10) ** (precision - scale) - Decimal(1).scaleb(-scale)
    type_ = pa.decimal128(38, scale)

    def convert(column: ColumnBounds) -> ColumnBounds:
        try:
            lower, upper = (bound.cast(type_) for bound in (column.lower, column.upper))
            bounds = _within(lower, upper, pa.scalar(-limit, type_), pa.scalar(limit, type_))
        except pa.ArrowInvalid:  # a bound does not fit 38 digits
            bounds = (pa.nulls(len(column.lower), type_),) * 2
        return _with_bounds(column, *bounds, may_add_nulls=True)

    return convert


def first_not_null(columns: list[ColumnBounds]) -> ColumnBounds:
    """Return the bounds of `coalesce`, whose values are those of its first operand and, where this is NULL, of the next operands."""
    result = columns[0]
    for column in columns[1:]:
        result = replace(_union(result, column, result.has_nulls), has_nulls=pc.and_(result.has_nulls, column.has_nulls))
    return result


def _union(first: ColumnBounds, other: ColumnBounds, uses_other: pa.Array) -> ColumnBounds:
    """Return bounds of the values of two columns. `uses_other`: whether values of the other column occur in a file."""
    uses_first, uses_other = first.has_values, pc.and_(uses_other, other.has_values)
    lower = _extreme(pc.less, first.lower, other.lower, uses_first, uses_other)
    upper = _extreme(pc.greater, first.upper, other.upper, uses_first, uses_other)
    has_values = pc.or_(uses_first, uses_other)
    return ColumnBounds(lower, upper, has_values, pc.or_(first.has_nulls, other.has_nulls))


def _extreme(compare: Callable[..., pa.Array], first: pa.Array, other: pa.Array, uses_first: pa.Array, uses_other: pa.Array) -> pa.Array:
    """Return the least or the greatest of two bounds where both are used, and otherwise the bound that is used."""
    # If one of the two is unknown, so is the result. `min_element_wise` does not support timestamps with a zone.
    both = pc.if_else(compare(first, other), first, other)
    return pc.if_else(pc.and_(uses_first, uses_other), both, pc.if_else(uses_first, first, other))


def constant_bounds(scalar: pa.Scalar, files: int) -> ColumnBounds:
    """Return the bounds of a constant in each file.

    Args:
        scalar: The value.
        files: The number of files.
    """
    values = pa.repeat(scalar, files)
    return ColumnBounds(values, values, pa.repeat(pa.scalar(True), files), pa.repeat(pa.scalar(False), files))
