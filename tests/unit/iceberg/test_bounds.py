"""Bounds are stored as bytes like pyiceberg's single values, and truncated bounds still enclose their values."""

from __future__ import annotations

import datetime
import struct
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyiceberg.conversions import from_bytes, to_bytes
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
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from rowmerge.iceberg.manifests.bounds import decode_bounds, to_bound, to_stored_value
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry
from rowmerge.iceberg.snapshots.file_listing import column_bounds
from rowmerge.iceberg.snapshots.live_files import ManifestFiles

UTC = datetime.timezone.utc
SOME_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
ROUND_TRIPS: list[tuple[IcebergType, list[Any], pa.DataType]] = [
    (BooleanType(), [True, None, False], pa.bool_()),
    (IntegerType(), [-(2**31), None, 2**31 - 1], pa.int32()),
    (LongType(), [-(2**63), None, 2**63 - 1], pa.int64()),
    (FloatType(), [-0.5, None, float("inf")], pa.float32()),
    (DoubleType(), [-0.1, None, 1e300], pa.float64()),
    (DateType(), [datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)], pa.date32()),
    (TimestampType(), [datetime.datetime(1, 1, 1), None, datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)], pa.timestamp("us")),
    (TimestamptzType(), [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None], pa.timestamp("us", tz="UTC")),
    (TimestampNanoType(), [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")),
    (TimestamptzNanoType(), [datetime.datetime(2024, 1, 1, 0, 0, 0, 1, UTC)], pa.timestamp("us", tz="UTC")),
    (StringType(), ["", None, "Grüße 日本 😀"], pa.string()),
    (BinaryType(), [b"", None, b"\xff\x00"], pa.binary()),
    (FixedType(2), [b"ab", None], pa.binary()),
    (UUIDType(), [str(SOME_UUID), None], pa.string()),
    (DecimalType(9, 2), [Decimal("-0.01"), None, Decimal("1.28"), Decimal("1.27"), Decimal("-1.28"), Decimal("0.00")], pa.decimal128(9, 2)),
    (DecimalType(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38)], pa.decimal128(38, 0)),
]


def decoded(bounds: list[bytes | None], type_: IcebergType) -> pa.Array:
    return decode_bounds(pa.array(bounds, pa.binary()), type_)


def bounds_of(files: list[ContentFile], field_id: int, type_: IcebergType) -> tuple[pa.Array, pa.Array]:
    manifest = ManifestFiles(tuple(Entry.added(file, 1) for file in files))
    bounds = column_bounds(manifest, NestedField(field_id, "c", type_))
    return bounds.by_kind["lower"], bounds.by_kind["upper"]


@pytest.mark.parametrize(("type_", "values", "arrow"), ROUND_TRIPS, ids=[str(type_) for type_, *_ in ROUND_TRIPS])
def test_bounds_of_every_type_round_trip_to_arrow(type_: IcebergType, values: list[Any], arrow: pa.DataType) -> None:
    bounds = [to_bound(value, type_, upper=False) for value in values]
    column = decoded(bounds, type_)
    assert column.type == arrow
    assert column.to_pylist() == pa.array(values, arrow).to_pylist()
    column.validate(full=True)


def test_bounds_match_the_examples_of_the_specification() -> None:
    assert to_bound(1, IntegerType(), upper=False) == b"\x01\0\0\0"
    assert to_bound(34, LongType(), upper=False) == b"\x22" + b"\0" * 7
    assert to_bound(Decimal("14.20"), DecimalType(9, 2), upper=False) == b"\x05\x8c"
    assert to_bound(Decimal("14.2"), DecimalType(9, 2), upper=False) == b"\x05\x8c"
    assert to_bound(str(SOME_UUID), UUIDType(), upper=False) == SOME_UUID.bytes
    assert to_bound(datetime.time(22, 31, 8), TimeType(), upper=False) == struct.pack("<q", 81068000000)
    assert to_bound(datetime.datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC), TimestamptzType(), upper=True) == struct.pack(
        "<q", 1510871468000000
    )


def test_bounds_written_before_a_type_promotion_are_read() -> None:
    assert decoded([b"\xff\xff\xff\xff", struct.pack("<q", 2**40), None], LongType()).to_pylist() == [-1, 2**40, None]
    assert decoded([struct.pack("<f", 0.5), struct.pack("<d", 0.1)], DoubleType()).to_pylist() == [0.5, 0.1]
    assert decoded([b"\x80", b"\x00\x80", b"\xff" * 16], DecimalType(30, 2)).to_pylist() == [
        Decimal("-1.28"),
        Decimal("1.28"),
        Decimal("-0.01"),
    ]
    days = struct.pack("<i", -1)
    assert decoded([days], TimestampType()).to_pylist() == [datetime.datetime(1969, 12, 31)]


def test_nanosecond_bounds_are_rounded_down_to_microseconds() -> None:
    assert decoded([struct.pack("<q", -1), struct.pack("<q", 1999)], TimestampNanoType()).cast(pa.int64()).to_pylist() == [-1, 1]


def test_invalid_bounds_are_read_as_null() -> None:
    assert decoded([b"", b"\x01\x02", None, b"\x01\0\0\0"], IntegerType()).to_pylist() == [None, None, None, 1]
    assert decoded([b"a\xff", b"b"], StringType()).to_pylist() == [None, "b"]
    assert decoded([b"", b"\x01" * 17], DecimalType(9, 2)).to_pylist() == [None, None]
    assert decoded([b"\x01"], UUIDType()).to_pylist() == [None]
    assert decoded([struct.pack("<d", float("nan")), struct.pack("<d", 1.0)], DoubleType()).to_pylist() == [None, 1.0]
    assert decoded([], LongType()).to_pylist() == []


def test_uuids_of_several_row_groups_have_no_bounds() -> None:
    """Java compares UUIDs as pairs of signed integers, so the bounds of two row groups can exclude values of one of them."""
    files = [
        ContentFile(Content.DATA, "file:///f", 1, 1, lower={1: SOME_UUID.bytes}, upper={1: SOME_UUID.bytes}, split_offsets=offsets)
        for offsets in ((), (4,), (4, 900))
    ]
    expected = [str(SOME_UUID), str(SOME_UUID), None]
    assert [bounds.to_pylist() for bounds in bounds_of(files, 1, UUIDType())] == [expected, expected]


def test_nan_and_null_have_no_bounds() -> None:
    assert to_bound(float("nan"), DoubleType(), upper=True) is None
    assert to_bound(None, LongType(), upper=True) is None


def test_a_decimal_beyond_the_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 2 digits"):
        to_stored_value(Decimal("0.001"), DecimalType(9, 2))


@pytest.mark.parametrize(
    ("text", "length", "lower", "upper"),
    [
        ("abc", 3, "abc", "abc"),
        ("abcd", 3, "abc", "abd"),
        ("ab\U0010ffffd", 3, "ab\U0010ffff", "ac"),
        ("\U0010ffff\U0010ffffx", 2, "\U0010ffff\U0010ffff", None),
        ("a\ud7ffx", 2, "a\ud7ff", "a\ue000"),
        ("😀😀x", 2, "😀😀", "😀😁"),
    ],
)
def test_truncated_strings_have_enclosing_bounds(text: str, length: int, lower: str, upper: str | None) -> None:
    assert to_bound(text, StringType(), upper=False, truncate=length) == lower.encode()
    assert to_bound(text, StringType(), upper=True, truncate=length) == (None if upper is None else upper.encode())


@pytest.mark.parametrize(
    ("value", "lower", "upper"),
    [(b"ab", b"ab", b"ab"), (b"abc", b"ab", b"ac"), (b"a\xffc", b"a\xff", b"b"), (b"\xff\xffc", b"\xff\xff", None)],
)
def test_truncated_binaries_have_enclosing_bounds(value: bytes, lower: bytes, upper: bytes | None) -> None:
    for type_ in (BinaryType(), FixedType(len(value))):
        assert to_bound(value, type_, upper=False, truncate=2) == lower
        assert to_bound(value, type_, upper=True, truncate=2) == upper


@settings(deadline=None)
@given(st.text(max_size=6), st.integers(1, 4))
def test_truncated_string_bounds_enclose_random_strings(text: str, length: int) -> None:
    lower, upper = (to_bound(text, StringType(), upper=above, truncate=length) for above in (False, True))
    assert lower is not None and lower.decode() <= text and len(lower.decode()) <= length
    assert upper is None or (upper.decode() >= text and len(upper.decode()) <= length)


@settings(deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20))
def test_decimal_bounds_match_pyiceberg(value: Decimal) -> None:
    type_ = DecimalType(38, 4)
    assert to_bound(value, type_, upper=False) == to_bytes(type_, value)
    assert decoded([to_bytes(type_, value)], type_).to_pylist() == [from_bytes(type_, to_bytes(type_, value))]


def test_float_bounds_require_a_nan_count_of_zero() -> None:
    bound = {1: struct.pack("<d", 1.0)}
    files = [ContentFile(Content.DATA, "/t/a", 1, 1, lower=bound, upper=bound, nan_counts=nan) for nan in ({1: 0}, {1: 2}, {})]
    lower, upper = bounds_of(files, 1, DoubleType())
    assert lower.to_pylist() == upper.to_pylist() == [1.0, None, None]
    assert bounds_of(files, 2, DoubleType())[0].to_pylist() == [None, None, None]
    assert bounds_of(files, 1, LongType())[0].null_count == 0
