"""Compute the range of a column's values from the range of its transformed values, for transforms that preserve the order.

For example, all values with the month 649 (since 1970) lie between the first and the last microsecond of February 2024.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.plan.bounds.bounds import PRECISION, comparison_bounds, comparison_type
from rowmerge.plan.bounds.time_zones import HOUR, MAX_OFFSET
from rowmerge.table.metadata.schema import Field

_Numbers = np.ndarray[Any, Any]
_Range = tuple[pa.Array, pa.Array]

_MICROS_PER_DAY = 24 * HOUR
_MAX_DAYS = 106_000_000
"""A number of days since 1970 whose microseconds fit into an int64."""
AFTER_TEXTS = b"\xff"
"""A byte that sorts after every byte of UTF-8. With it, a prefix is greater than every string that starts with the prefix."""
_MAX_INTEGERS = (2**31 - 1, 2**63 - 1)


def source_range(lower: pa.Array, upper: pa.Array, transform: str, field: Field, *, is_local: bool = False) -> _Range | None:
    """Return the bounds of a column's values in each file, in the column's comparison type.

    Args:
        lower: The least transformed value in each file, null if it is unknown.
        upper: The greatest transformed value in each file. It is the same value in a data file.
        transform: The transform as a string of the Iceberg specification, such as `day` or `truncate[4]`.
        field: The column.
        is_local: Whether a time was transformed in an unknown time zone, which can differ from file to file. A date or a local time was
            converted to an instant in this zone.

    Returns:
        The bounds, null where they are unknown, or None if the transform does not preserve the order or the type has no order.
    """
    bounds = _utc_range(lower, upper, transform, field)
    return _in_any_zone(*bounds) if is_local and bounds is not None else bounds


def _in_any_zone(lower: pa.Array, upper: pa.Array) -> _Range:
    """Widen the bounds of instants by the greatest offset of a zone. Lower the least date or local time by the longest gap in a zone.

    The conversion of a local time to an instant moves a time in a gap to a later one. The longest gap is the day that Samoa skipped.
    """
    type_ = lower.type
    stored_type = pa.int32() if pa.types.is_date(type_) else pa.int64()
    width, upper_width = (1, 0) if pa.types.is_date(type_) else (_MICROS_PER_DAY, 0) if type_.tz is None else (MAX_OFFSET, MAX_OFFSET)
    greatest = _MAX_INTEGERS[stored_type == pa.int64()]
    starts = np.maximum(_numbers(lower.view(stored_type)), width - greatest) - width
    ends = np.minimum(_numbers(upper.view(stored_type)), greatest - upper_width) + upper_width
    first, last = pa.array(starts, stored_type, mask=~_is_valid(lower)), pa.array(ends, stored_type, mask=~_is_valid(upper))
    return first.view(type_), last.view(type_)


def _utc_range(lower: pa.Array, upper: pa.Array, transform: str, field: Field) -> _Range | None:
    """Return the bounds of a column's values if all times were transformed in UTC. The arguments are those of `source_range`."""
    type_ = comparison_type(field.type)
    name, _, parameter = transform.rstrip("]").partition("[")
    if type_ is None:
        return None
    match name:
        case "identity":
            return comparison_bounds(lower, field), comparison_bounds(upper, field)
        case "truncate":
            return _range_of_truncated(lower, upper, int(parameter), type_)
        case "year" | "month" | "day" | "hour" if pa.types.is_temporal(type_) and pa.types.is_integer(lower.type):
            return _range_of_times(lower, upper, name, type_)
    return None


def _range_of_times(lower: pa.Array, upper: pa.Array, unit: str, type_: pa.DataType) -> _Range:
    """Return the first and the last date or timestamp of the years, months, days or hours since 1970."""
    first, last = _numbers(lower), _numbers(upper)
    if not (unit == "day" and pa.types.is_date(type_)):
        # Old writers rounded times before 1970 towards zero, so -1.5 hours became -1 instead of -2 (Iceberg's ProjectionUtil).
        first = first - (first <= 0)
    start_of = _day_of if pa.types.is_date(type_) else _micros_of
    (starts, has_start), (ends, has_end) = start_of(first, unit), start_of(last + 1, unit)
    return _temporal(starts, has_start & _is_valid(lower), type_), _temporal(ends - 1, has_end & _is_valid(upper), type_)


def _day_of(times: _Numbers, unit: str) -> tuple[_Numbers, _Numbers]:
    """Return the first day of each year, month or day as days since 1970, and whether the day is a value of the type date."""
    days = times if unit == "day" else times.astype(f"datetime64[{unit[0].upper()}]").astype("datetime64[D]").astype(np.int64)
    return days, np.abs(days) < 2**31


def _micros_of(times: _Numbers, unit: str) -> tuple[_Numbers, _Numbers]:
    """Return the first microsecond of each year, month, day or hour since 1970, and whether it is a value of the type timestamp."""
    if unit == "hour":
        return times * HOUR, np.abs(times) < _MAX_DAYS * 24
    days, _ = _day_of(times, unit)
    is_timestamp = np.abs(days) < _MAX_DAYS
    return np.where(is_timestamp, days, 0) * _MICROS_PER_DAY, is_timestamp


def _temporal(numbers: _Numbers, is_valid: _Numbers, type_: pa.DataType) -> pa.Array:
    """Return days or microseconds since 1970 as dates or timestamps."""
    stored_type: Any = np.int32 if pa.types.is_date(type_) else np.int64
    return pa.array(np.where(is_valid, numbers, 0).astype(stored_type), mask=~is_valid).view(type_)


def _range_of_truncated(lower: pa.Array, upper: pa.Array, width: int, type_: pa.DataType) -> _Range | None:
    """Return the least and the greatest value that `truncate[width]` maps into a range."""
    if pa.types.is_string(type_) and pa.types.is_string(lower.type):
        return lower, _last_with_prefix(upper, width)
    if pa.types.is_decimal(type_) and pa.types.is_decimal(lower.type):
        return _range_of_truncated_decimals(lower, upper, width, type_)
    if pa.types.is_integer(type_) and pa.types.is_integer(lower.type):
        return _range_of_truncated_integers(lower, upper, width)
    return None


def _last_with_prefix(prefixes: pa.Array, width: int) -> pa.Array:
    """Return a value that no string exceeds whose truncation is the prefix. A shorter prefix is the string itself.

    Old writers counted UTF-16 code units instead of code points, so a prefix that may be long enough in either unit counts as truncated.
    """
    pairs = pc.count_substring_regex(prefixes, "[\\x{10000}-\\x{10FFFF}]")
    is_whole = pc.less(pc.add(pc.utf8_length(prefixes), pairs), width)
    last = pc.binary_join_element_wise(prefixes.cast(pa.binary()), pa.scalar(AFTER_TEXTS), b"").view(pa.string())
    return pc.if_else(is_whole, prefixes, last)


def _range_of_truncated_decimals(lower: pa.Array, upper: pa.Array, width: int, type_: pa.Decimal128Type) -> _Range:
    """Return the range of decimals. The width counts units of the last digit."""
    wide_type = pa.decimal256(PRECISION + 2, type_.scale)  # in which no sum overflows
    distance = pa.scalar(Decimal(width - 1).scaleb(-type_.scale), wide_type)
    try:
        return lower.cast(type_), pc.add(upper.cast(wide_type), distance).cast(type_)
    except pa.ArrowInvalid:
        return pa.nulls(len(lower), type_), pa.nulls(len(upper), type_)


def _range_of_truncated_integers(lower: pa.Array, upper: pa.Array, width: int) -> _Range:
    """Return the range of integers, null where the writer's subtraction may have wrapped around below the least integer of its type.

    A wrapped result is among the last `width` integers of the type. It is a multiple of the width only if the width is a power of two, and
    then no result is wrapped.
    """
    first, last = _numbers(lower), _numbers(upper)
    may_be_wrapped = np.zeros(len(last), np.bool_)
    for maximum in _MAX_INTEGERS:
        may_be_wrapped |= (last > maximum - width) & (last <= maximum)
    may_be_wrapped &= (first != last) | (last % width != 0)
    is_unknown = may_be_wrapped | ~_is_valid(lower) | ~_is_valid(upper)
    ends = np.minimum(last, _MAX_INTEGERS[-1] - (width - 1)) + (width - 1)
    return pa.array(first, mask=is_unknown), pa.array(ends, mask=is_unknown)


def _numbers(values: pa.Array) -> _Numbers:
    """Return integers as an int64 array of NumPy, with 0 for null."""
    numbers: _Numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _is_valid(values: pa.Array) -> _Numbers:
    is_valid: _Numbers = values.is_valid().to_numpy(zero_copy_only=False)
    return is_valid
