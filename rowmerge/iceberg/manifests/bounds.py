"""Encode and decode single values of Iceberg's metadata (Iceberg spec, Appendix D: Binary single-value serialization)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as t
from pyiceberg.conversions import to_bytes
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, datetime_to_nanos, time_to_micros

from rowmerge.parquet.fitting import uuid_texts

_EXACT = Context(prec=100)
_MICROS_PER_DAY = 86_400_000_000
_ZONED, _NAIVE = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_PHYSICAL_TYPES = {pa.date32(): pa.int32(), _NAIVE: pa.int64(), _ZONED: pa.int64()}
_SURROGATES = range(0xD800, 0xE000)

_Array = np.ndarray[Any, Any]
Decode = Callable[[_Array], _Array]
"""A function that decodes bounds of equal length as numbers. Its argument is an array of bytes with one row for each bound."""


def _decode_as(dtype: str) -> Decode:
    return lambda rows: rows.view(dtype).ravel()


def _nanos_to_micros(rows: _Array) -> _Array:
    micros: _Array = np.floor_divide(rows.view("<i8").ravel(), 1000)
    return micros


_FIXED_WIDTH: Mapping[type[t.IcebergType], tuple[pa.DataType, Mapping[int, Decode]]] = {
    t.BooleanType: (pa.bool_(), {1: lambda rows: rows.ravel() != 0}),
    t.IntegerType: (pa.int32(), {4: _decode_as("<i4")}),
    t.LongType: (pa.int64(), {4: _decode_as("<i4"), 8: _decode_as("<i8")}),
    t.FloatType: (pa.float32(), {4: _decode_as("<f4")}),
    t.DoubleType: (pa.float64(), {4: _decode_as("<f4"), 8: _decode_as("<f8")}),
    t.DateType: (pa.date32(), {4: _decode_as("<i4")}),
    t.TimestampType: (_NAIVE, {4: lambda rows: rows.view("<i4").ravel().astype(np.int64) * _MICROS_PER_DAY, 8: _decode_as("<i8")}),
    t.TimestamptzType: (_ZONED, {8: _decode_as("<i8")}),
    t.TimestampNanoType: (_NAIVE, {8: _nanos_to_micros}),
    t.TimestamptzNanoType: (_ZONED, {8: _nanos_to_micros}),
}
"""The Arrow type of a column's values, and the decoders of its bounds by length. Bounds from before a type promotion are shorter."""


def to_stored_value(value: Any, type_: t.IcebergType) -> Any:
    """Return a Python value as metadata and `ContentFile.partition` store it: dates, times and timestamps as ints, uuids as 16 bytes.

    None and values that already have this form are returned unchanged.

    Args:
        value: The value.
        type_: The type of the column or partition field.

    Raises:
        ValueError: A decimal has more digits after the decimal point than its type allows.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(type_, t.DecimalType)):
        return value  # Numbers already have the stored form, except those of a decimal column.
    match type_:
        case t.DateType():
            return date_to_days(value)
        case t.TimeType():
            return time_to_micros(value)
        case t.TimestampType() | t.TimestamptzType():
            return datetime_to_micros(value)
        case t.TimestampNanoType() | t.TimestamptzNanoType():
            return datetime_to_nanos(value)
        case t.UUIDType():
            return value if isinstance(value, bytes) else uuid.UUID(str(value)).bytes
        case t.DecimalType(scale=scale):
            return _rescale(value, scale)
    return value


def _rescale(value: Any, scale: int) -> Decimal:
    scaled = Decimal(value).quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if scaled != value:
        raise ValueError(f"{value} has more than {scale} digits after the decimal point")
    return scaled


def to_bound(value: Any, type_: t.IcebergType, *, upper: bool, truncate: int | None = None) -> bytes | None:
    """Return a column bound as a manifest stores it (Iceberg spec, Appendix D: Binary single-value serialization).

    Args:
        value: The smallest or largest value of the column, None if it is unknown.
        type_: The type of the column.
        upper: Whether the bound is an upper bound. A truncated upper bound is the next value above all values with the same prefix.
        truncate: The largest length of strings (in code points) and of binary and fixed values (in bytes); None for no limit.

    Returns:
        The encoded bound, or None if the value is None or NaN, or if no value is above all values with the same prefix.
    """
    if value is None or value != value:
        return None
    assert isinstance(type_, t.PrimitiveType), "only primitive values have bounds"
    bound = to_stored_value(value, type_)
    can_truncate = isinstance(bound, str | bytes) and not isinstance(type_, t.UUIDType)
    if truncate is not None and can_truncate:
        bound = _truncate(bound, truncate, upper=upper)
    return None if bound is None else to_bytes(type_, bound)


def _truncate(bound: str | bytes, length: int, *, upper: bool) -> str | bytes | None:
    if len(bound) <= length:
        return bound
    return _next_above(bound[:length]) if upper else bound[:length]


def _next_above(prefix: str | bytes) -> str | bytes | None:
    """Return the smallest value above all values with a prefix, in the order of bytes or code points, or None if there is none."""
    if isinstance(prefix, bytes):
        incrementable = prefix.rstrip(b"\xff")
        return incrementable[:-1] + bytes([incrementable[-1] + 1]) if incrementable else None
    for end in range(len(prefix), 0, -1):
        code_point = ord(prefix[end - 1]) + 1
        if code_point <= 0x10FFFF:  # the last code point of Unicode
            return prefix[: end - 1] + chr(_SURROGATES.stop if code_point in _SURROGATES else code_point)
    return None


def decode_bounds(bounds: pa.Array, type_: t.IcebergType) -> pa.Array:
    """Decode a column's lower or upper bounds in many files to an Arrow array. An unknown bound becomes null.

    A bound is unknown if it is NaN, or if its bytes are not a value of the column's type. Values of the type before a promotion are valid,
    too. All bounds of `time` columns are unknown. Timestamps are in microseconds. Uuids become strings.

    Args:
        bounds: The bound in each file as binary, as a manifest stores it; null for a file without a bound.
        type_: The current type of the column.
    """
    match type_:
        case t.StringType():
            return _decode_strings(bounds)
        case t.BinaryType() | t.FixedType():
            return bounds
        case t.UUIDType():
            is_uuid = pc.equal(pc.binary_length(bounds), 16)
            return uuid_texts(pc.if_else(is_uuid, bounds, pa.scalar(None, pa.binary())).cast(pa.binary(16)))
        case t.DecimalType(precision=precision, scale=scale):
            return _decode_decimals(bounds, pa.decimal128(precision, scale))
    fixed_width = _FIXED_WIDTH.get(type(type_))
    if fixed_width is None:  # Spark has no such type, for example `time`, so no condition uses the bounds.
        return pa.nulls(len(bounds), pa.string())
    return _decode_numbers(bounds, *fixed_width)


def has_invalid_bounds(bounds: pa.Array, type_: t.IcebergType) -> bool:
    """Return whether a bound is not a value of the column's type. NaN is a value.

    Args:
        bounds: The bound in each file as binary, as a manifest stores it; null for a file without a bound.
        type_: The current type of the column.
    """
    lengths: Collection[int]
    match type_:
        case t.StringType():
            return bool(decode_bounds(bounds, type_).null_count > bounds.null_count)
        case t.UUIDType():
            lengths = (16,)
        case t.DecimalType():
            lengths = range(1, 17)
        case _ if type(type_) in _FIXED_WIDTH:
            lengths = _FIXED_WIDTH[type(type_)][1]
        case _:
            return False
    bound_lengths = pc.binary_length(bounds.drop_null())
    return not pc.all(pc.is_in(bound_lengths, pa.array(list(lengths), pa.int32())), min_count=0).as_py()


def _decode_numbers(bounds: pa.Array, arrow_type: pa.DataType, decoders: Mapping[int, Decode]) -> pa.Array:
    physical_type = _PHYSICAL_TYPES.get(arrow_type, arrow_type)
    numbers: _Array = np.zeros(len(bounds), dtype=physical_type.to_pandas_dtype())
    is_unknown = np.ones(len(bounds), dtype=np.bool_)
    for length, has_length, rows in _rows_by_length(bounds, decoders):
        numbers[has_length] = decoders[length](rows)
        is_unknown &= ~has_length
    return pa.array(numbers, physical_type, mask=is_unknown | (numbers != numbers)).view(arrow_type)  # NaN is not equal to itself


def _decode_decimals(bounds: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Decode big-endian integers of 1 to 16 bytes as decimals, which Arrow stores as 16 little-endian bytes."""
    decimals = np.zeros((len(bounds), 16), dtype=np.uint8)
    is_valid = np.zeros(len(bounds), dtype=np.bool_)
    for length, has_length, big_endian in _rows_by_length(bounds, range(1, 17)):
        sign_bytes = np.where(big_endian[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
        decimals[has_length] = np.hstack([big_endian[:, ::-1], sign_bytes.repeat(16 - length, axis=1)])
        is_valid |= has_length
    validity = pa.py_buffer(np.packbits(is_valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(arrow_type, len(bounds), [validity, pa.py_buffer(decimals.tobytes())])


def _rows_by_length(bounds: pa.Array, lengths: Iterable[int]) -> Iterator[tuple[int, _Array, _Array]]:
    """Yield each length of the bounds in bytes, the mask of the bounds of this length, and their bytes with one row per bound."""
    bound_lengths = pc.fill_null(pc.binary_length(bounds), -1).to_numpy(zero_copy_only=False)
    for length in lengths:
        has_length = bound_lengths == length
        if has_length.any():
            values = pc.cast(bounds.filter(pa.array(has_length)), pa.binary(length))
            yield length, has_length, np.frombuffer(values.buffers()[1], np.uint8, len(values) * length).reshape(-1, length)


def _decode_strings(bounds: pa.Array) -> pa.Array:
    try:
        return bounds.cast(pa.string())
    except pa.ArrowInvalid:  # a bound is not UTF-8
        return pa.array([_decode_string(value) for value in bounds.to_pylist()], pa.string())


def _decode_string(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
