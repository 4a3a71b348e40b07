"""Single values as Iceberg's metadata holds them, in both directions (Iceberg spec, Appendix D: Binary single-value serialization)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Context
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, datetime_to_nanos, time_to_micros

from rowmerge.iceberg.manifests.content import ContentFile
from rowmerge.parquet.uuids import uuid_texts

_EXACT = Context(prec=100)
_DAY = 86_400_000_000
_ZONED, _NAIVE = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_SURROGATES = range(0xD800, 0xE000)
_LAST_CHARACTER = 0x10FFFF

Decode = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
"""From rows of bytes, all of one length, to numbers."""


def _stored(dtype: str) -> Decode:
    return lambda rows: rows.view(dtype).ravel()


def _micros(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    micros: np.ndarray[Any, Any] = np.floor_divide(rows.view("<i8").ravel(), 1000)
    return micros


_LONG = {8: _stored("<i8")}
_FIXED_WIDTH: Mapping[type[IcebergType], tuple[pa.DataType, Mapping[int, Decode]]] = {
    BooleanType: (pa.bool_(), {1: lambda rows: rows.ravel() != 0}),
    IntegerType: (pa.int32(), {4: _stored("<i4")}),
    LongType: (pa.int64(), {4: _stored("<i4"), 8: _stored("<i8")}),
    FloatType: (pa.float32(), {4: _stored("<f4")}),
    DoubleType: (pa.float64(), {4: _stored("<f4"), 8: _stored("<f8")}),
    DateType: (pa.date32(), {4: _stored("<i4")}),
    TimestampType: (_NAIVE, {4: lambda rows: rows.view("<i4").ravel().astype(np.int64) * _DAY, 8: _stored("<i8")}),
    TimestamptzType: (_ZONED, _LONG),
    TimestampNanoType: (_NAIVE, {8: _micros}),
    TimestamptzNanoType: (_ZONED, {8: _micros}),
}
"""The Arrow type of a column's values, and how bounds of each length become them: shorter ones are older than a promotion of the type."""


def stored_value(value: Any, type_: IcebergType) -> Any:
    """A Python value of a type as Iceberg's metadata stores it, which is how `ContentFile.partition` has it; None stays None.

    Dates, times and timestamps become ints, uuids 16 bytes, decimals get the type's scale; what is so already stays. Raises ValueError for
    a decimal with more digits after the point than the type has.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(type_, DecimalType)):
        return value
    match type_:
        case DateType():
            return date_to_days(value)
        case TimeType():
            return time_to_micros(value)
        case TimestampType() | TimestamptzType():
            return datetime_to_micros(value)
        case TimestampNanoType() | TimestamptzNanoType():
            return datetime_to_nanos(value)
        case UUIDType():
            return value if isinstance(value, bytes) else uuid.UUID(str(value)).bytes
        case DecimalType(scale=scale):
            scaled = Number(value).quantize(Number(1).scaleb(-scale), context=_EXACT)
            if scaled != value:
                raise ValueError(f"{value} has more than {scale} digits after the point")
            return scaled
    return value


def to_bound(value: Any, type_: IcebergType, *, upper: bool, truncate: int | None = None) -> bytes | None:
    """A bound in bytes. `truncate`: strings, binary and fixed keep so many code points or bytes, and upper bounds are then raised above
    what was cut off; None when that is impossible, for a None and for a NaN.
    """
    if value is None or value != value:
        return None
    assert isinstance(type_, PrimitiveType), "only primitive values have bounds"
    kept = stored_value(value, type_)
    if truncate is not None and isinstance(kept, str | bytes) and not isinstance(type_, UUIDType) and len(kept) > truncate:
        kept = kept[:truncate]
        if upper:
            kept = _next_text(kept) if isinstance(kept, str) else _next_bytes(kept)
    return None if kept is None else to_bytes(type_, kept)


def _next_text(prefix: str) -> str | None:
    """The least text above all that begin with a prefix, in the order of code points, of which surrogates are none."""
    for end in range(len(prefix), 0, -1):
        following = ord(prefix[end - 1]) + 1
        if following <= _LAST_CHARACTER:
            return prefix[: end - 1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def file_bounds(files: Sequence[ContentFile], field_id: int, type_: IcebergType) -> tuple[pa.Array, pa.Array]:
    """Lower and upper bounds of one column in files, as `bounds_column` gives them.

    A float column has bounds only in files that are known to hold no NaN: Iceberg's bounds leave NaN out, the engine's may not.
    """
    certain = [not isinstance(type_, FloatType | DoubleType) or file.nan_counts.get(field_id) == 0 for file in files]
    lower = [file.lower.get(field_id) if known else None for file, known in zip(files, certain, strict=True)]
    upper = [file.upper.get(field_id) if known else None for file, known in zip(files, certain, strict=True)]
    return bounds_column(lower, type_), bounds_column(upper, type_)


def bounds_column(values: Sequence[bytes | None], type_: IcebergType) -> pa.Array:
    """Bounds of one column in many files as typed values, timestamps in microseconds; null where unknown.

    Bounds from before the column's type was promoted are read as what they were. NaN, which old writers put there, and bytes that are no
    value of the type count as unknown, and so do all bounds of `time`, which the engine has no type for. uuid is text.
    """
    held = pa.array(values, pa.binary())
    match type_:
        case StringType():
            return _texts(held)
        case BinaryType() | FixedType():
            return held
        case UUIDType():
            return uuid_texts(pa.array([value if value and len(value) == 16 else None for value in values], pa.binary(16)))
        case DecimalType(precision=precision, scale=scale):
            return _decimals(held, pa.decimal128(precision, scale))
    if type(type_) not in _FIXED_WIDTH:
        return pa.nulls(len(held), pa.string())
    arrow, decoders = _FIXED_WIDTH[type(type_)]
    found = _numbers(held, arrow, decoders)
    return pc.if_else(pc.is_nan(found), pa.scalar(None, arrow), found) if pa.types.is_floating(arrow) else found


def _numbers(held: pa.Array, arrow: pa.DataType, decoders: Mapping[int, Decode]) -> pa.Array:
    physical = pa.int32() if pa.types.is_date(arrow) else pa.int64() if pa.types.is_timestamp(arrow) else arrow
    numbers: np.ndarray[Any, Any] = np.zeros(len(held), dtype=physical.to_pandas_dtype())
    unknown = np.ones(len(held), dtype=np.bool_)
    for length, decode in decoders.items():
        chosen = _of_length(held, length)
        if chosen.any():
            numbers[chosen] = decode(_rows(held, chosen, length))
            unknown &= ~chosen
    return pa.array(numbers, physical, mask=unknown).view(arrow)


def _decimals(held: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Big-endian numbers of any length as decimals, whose 16 bytes are little-endian."""
    wide = np.zeros((len(held), 16), dtype=np.uint8)
    known = np.zeros(len(held), dtype=np.bool_)
    for length in range(1, 17):
        chosen = _of_length(held, length)
        if chosen.any():
            rows = _rows(held, chosen, length)
            filled = np.where(rows[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0)).repeat(16, axis=1)
            filled[:, :length] = rows[:, ::-1]
            wide[chosen] = filled
            known |= chosen
    validity = pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    return pa.Array.from_buffers(arrow, len(held), [validity, pa.py_buffer(wide.tobytes())])


def _of_length(held: pa.Array, length: int) -> np.ndarray[Any, Any]:
    chosen: np.ndarray[Any, Any] = pc.fill_null(pc.equal(pc.binary_length(held), length), False).to_numpy(zero_copy_only=False)
    return chosen


def _rows(held: pa.Array, chosen: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    """The bytes of the chosen values, all of one length, a row each."""
    values = pc.cast(held.filter(pa.array(chosen)), pa.binary(length))
    return np.frombuffer(values.buffers()[1], dtype=np.uint8, count=len(values) * length).reshape(-1, length)


def _texts(held: pa.Array) -> pa.Array:
    try:
        return held.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in held.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
