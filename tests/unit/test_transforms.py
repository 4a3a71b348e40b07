"""Iceberg's partition transforms over Arrow arrays equal those of pyiceberg and the values of the specification."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg import types as iceberg
from pyiceberg.transforms import parse_transform

from rowmerge.parquet.transforms import bucket_hashes, folder_text, transformed

UTC = dt.timezone.utc
ZONED, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
SEED = random.Random(7)


def hash_of(value: Any, type_: pa.DataType) -> int:
    return int(bucket_hashes(pa.array([value], type_)).astype(np.int32)[0])


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (34, pa.int32(), 2017239379),
        (34, pa.int64(), 2017239379),
        (Decimal("14.20"), pa.decimal128(9, 2), -500754589),
        (dt.date(2017, 11, 16), pa.date32(), -653330422),
        (dt.time(22, 31, 8), pa.time64("us"), -662762989),
        (dt.datetime(2017, 11, 16, 22, 31, 8), LOCAL, -2047944441),
        (dt.datetime(2017, 11, 16, 22, 31, 8, 1), LOCAL, -1207196810),
        (dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC), ZONED, -2047944441),
        (dt.datetime(2017, 11, 16, 22, 31, 8, 1, tzinfo=UTC), ZONED, -1207196810),
        ("iceberg", pa.string(), 1210000089),
        (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, pa.binary(16), 1488055340),
        (b"\x00\x01\x02\x03", pa.binary(4), -188683207),
        (b"\x00\x01\x02\x03", pa.binary(), -188683207),
    ],
)
def test_hashes_equal_those_of_the_specification(value: Any, type_: pa.DataType, expected: int) -> None:
    assert hash_of(value, type_) == expected


def drawn(type_: pa.DataType) -> list[Any]:
    """Return edge values and many random values between them, with NULL values and repetitions."""
    if pa.types.is_integer(type_):
        least = -(2 ** (type_.bit_width - 1))
        edges = [0, 1, -1, 9, 10, -9, -10, -11, -least - 1, least + 100]
        values: list[Any] = edges + [SEED.randrange(least + 100, -least) for _ in range(300)]
    elif pa.types.is_decimal(type_):
        top = 10**type_.precision - 1
        numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, 2**63, -(2**63), 2**64, top, -top + 2000]
        numbers += [SEED.randrange(-(10**digits), 10**digits) for digits in range(1, type_.precision) for _ in range(10)]
        values = [Decimal(f"{n}e-{type_.scale}") for n in numbers if -top + 2000 <= n <= top]
    elif pa.types.is_string(type_):
        letters = "abz é€😀\x00\ufffd"
        values = ["", "a", "é", "😀", "a" * 1000] + ["".join(SEED.choices(letters, k=SEED.randrange(40))) for _ in range(300)]
    elif pa.types.is_binary(type_):
        values = [b"", b"\x00", b"\xff" * 5, bytes(range(256))] + [SEED.randbytes(SEED.randrange(40)) for _ in range(300)]
    elif pa.types.is_date(type_):
        edges = [dt.date.min, dt.date.max, dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1969, 1, 1), dt.date(1968, 2, 29)]
        values = edges + [dt.date.fromordinal(SEED.randrange(1, 3_650_000)) for _ in range(300)]
    else:
        zone = UTC if type_.tz else None
        edges = [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)]
        values = edges + [dt.datetime(1, 1, 1) + dt.timedelta(microseconds=SEED.randrange(315_537_897_599_000_000)) for _ in range(300)]
        values = [value.replace(tzinfo=zone) for value in values]
    return [None, *values, None, *values[:5]]


NUMBERS = [(pa.int32(), iceberg.IntegerType()), (pa.int64(), iceberg.LongType())]
DECIMALS = [(pa.decimal128(p, s), iceberg.DecimalType(p, s)) for p, s in ((4, 1), (9, 2), (18, 0), (38, 10), (38, 38))]
TEXTS = [(pa.string(), iceberg.StringType()), (pa.binary(), iceberg.BinaryType())]
TIMES = [(ZONED, iceberg.TimestamptzType()), (LOCAL, iceberg.TimestampType())]
DATES = [(pa.date32(), iceberg.DateType())]


@pytest.mark.parametrize(
    ("types", "texts"),
    [
        ([*NUMBERS, *DECIMALS, *TEXTS, *TIMES, *DATES], ["identity", "bucket[1]", "bucket[16]", "bucket[1000003]"]),
        ([*NUMBERS, *DECIMALS, *TEXTS], ["truncate[1]", "truncate[3]", "truncate[10]", "truncate[100]"]),
        ([*TIMES, *DATES], ["year", "month", "day"]),
        (TIMES, ["hour"]),
    ],
)
def test_partition_values_equal_those_of_pyiceberg(types: list[tuple[pa.DataType, Any]], texts: list[str]) -> None:
    for arrow, type_ in types:
        values = pa.array(drawn(arrow), arrow)
        for text in texts:
            function = parse_transform(text).transform(type_)
            stored_values = (
                values.cast(pa.int32() if pa.types.is_date(arrow) else pa.int64()) if arrow in (ZONED, LOCAL, pa.date32()) else values
            )
            expected = [function(value) for value in stored_values.to_pylist()]
            for form in (values, values.slice(3, 250), values.slice(0, 0)):
                results = transformed(form, text)
                expected_type = arrow if text == "identity" or text.startswith("truncate") else pa.int32()
                assert results.type == expected_type, (arrow, text)
                start = 3 if 0 < len(form) < len(values) else 0
                plain_results = results.cast(stored_values.type) if text == "identity" else results
                assert plain_results.to_pylist() == expected[start : start + len(form)], (arrow, text)


def test_void_is_always_null() -> None:
    assert transformed(pa.array([1, None], pa.int64()), "void").equals(pa.nulls(2, pa.int64()))


def test_truncate_wraps_around_below_the_minimum_as_in_java() -> None:
    assert transformed(pa.array([-(2**31)], pa.int32()), "truncate[10]").to_pylist() == [2**31 - 2]
    assert transformed(pa.array([-(2**63)], pa.int64()), "truncate[10]").to_pylist() == [2**63 - 2]


def test_buckets_of_long_and_short_strings_are_computed_together() -> None:
    values = ["x" * 100_000, "", "y", None]
    function = parse_transform("bucket[97]").transform(iceberg.StringType())
    assert transformed(pa.array(values), "bucket[97]").to_pylist() == [function(value) for value in values]


def test_a_field_of_a_missing_struct_is_null() -> None:
    rows = pa.array([{"a": 5}, None, {"a": None}], pa.struct([("a", pa.int64())]))
    assert transformed(pc.struct_field(rows, ["a"]), "truncate[2]").to_pylist() == [4, None, None]


@pytest.mark.parametrize(
    ("value", "transform", "expected"),
    [
        (None, "day", "null"),
        (47, "year", "2017"),
        (-1, "year", "1969"),
        (575, "month", "2017-12"),
        (-1, "month", "1969-12"),
        (19783, "day", "2024-03-01"),
        (-1, "day", "1969-12-31"),
        (474797, "hour", "2024-03-01-05"),
        (-1, "hour", "1969-12-31-23"),
        (3, "bucket[16]", "3"),
        (dt.date(2024, 3, 1), "identity", "2024-03-01"),
        (dt.datetime(2024, 3, 1, 5, 0, 0, 7, tzinfo=UTC), "identity", "2024-03-01T05%3A00%3A00.000007Z"),
        (dt.datetime(2024, 3, 1, 5), "identity", "2024-03-01T05%3A00%3A00"),
        (True, "identity", "true"),
        (b"\xff\x00", "identity", "%2FwA%3D"),
        ("a/b c~é*", "identity", "a%2Fb+c~%C3%A9%2A"),
        ("", "truncate[3]", ""),
        (Decimal("1.20"), "truncate[10]", "1.20"),
    ],
)
def test_partition_folders_have_the_names_of_iceberg(value: Any, transform: str, expected: str) -> None:
    assert folder_text(value, transform) == expected
