"""The condition on the target's rows that follows from the keys of a source."""

from __future__ import annotations

import random
import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from rowmerge.plan.pruning.key_ranges import MAX_RANGES, key_condition
from rowmerge.table.metadata.schema import Decimal as DecimalType, Field, Primitive, arrow_type


def condition(type_, values, op="=", has_null=False, **more):
    field = Field("x", Primitive(type_) if isinstance(type_, str) else type_, **more)
    return key_condition((field.name,), field, op, pa.array(values, arrow_type(field.type)), has_null)


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("integer", [7], "`x` = cast(7 as int)"),
        ("long", [1, 2, 3, 900], "(`x` >= cast(1 as bigint) and `x` <= cast(3 as bigint)) or `x` = cast(900 as bigint)"),
        ("short", [-5, 5], "`x` = cast(-5 as smallint) or `x` = cast(5 as smallint)"),
        ("date", [date(1, 1, 1), date(2024, 2, 29)], "`x` = date'0001-01-01' or `x` = date'2024-02-29'"),
        ("timestamp", [datetime(2024, 1, 2, 3, 4, 5, 6, timezone.utc)], "`x` = timestamp'2024-01-02T03:04:05.000006Z'"),
        ("timestamp_ntz", [datetime(2024, 1, 2)], "`x` = timestamp_ntz'2024-01-02T00:00:00'"),
        ("string", ["it's", "\\"], "`x` = cast(X'69742773' as string) or `x` = cast(X'5c' as string)"),
        ("string", ["$x", "${x}"], "`x` = '$x' or `x` = cast(X'247b787d' as string)"),
        (DecimalType(9, 2), [Decimal("-1.50")], "`x` = cast(-1.50 as decimal(9,2))"),
    ],
)
def test_few_keys_are_separate_ranges(type_, values, expected):
    assert condition(type_, values) == expected


def test_null_keys_are_included_for_null_safe_equality():
    assert condition("long", [1], "<=>", has_null=True) == "`x` = cast(1 as bigint) or `x` is null"
    assert condition("long", [1], "<=>") == condition("long", [1], "=", has_null=True) == "`x` = cast(1 as bigint)"


@pytest.mark.parametrize(
    ("type_", "values", "more"),
    [
        ("double", [1.0], {}),  # files of other writers can have NaN values that their bounds omit
        ("boolean", [True], {}),
        ("binary", [b"x"], {}),
        ("string", ["x" * 1_000], {}),
        ("long", [], {}),
        ("string", ["x"], {"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}}),
    ],
)
def test_unprunable_columns_have_no_condition(type_, values, more):
    assert condition(type_, values, **more) is None


def test_a_timestamp_outside_the_range_of_python_has_no_condition():
    field = Field("x", Primitive("timestamp"))
    values = pa.array([1 << 62], pa.int64()).cast(arrow_type(field.type))
    assert key_condition((field.name,), field, "=", values, False) is None


def test_an_inequality_has_no_condition():
    assert condition("long", [1], "<") is None


def test_scattered_keys_are_one_range():
    assert condition("long", range(0, 100_000, 7)) == "(`x` >= cast(0 as bigint) and `x` <= cast(99995 as bigint))"
    assert condition("string", [f"{n:03}" for n in range(MAX_RANGES + 1)]) == "(`x` >= '000' and `x` <= '032')"


def test_many_keys_may_have_only_a_minimum_and_a_maximum():
    field = Field("x", Primitive("date"))
    ends = pa.array([date(2024, 1, 1), date(2024, 1, 1) + timedelta(9)])
    assert (
        key_condition((field.name,), field, "=", ends, False, values_are_ends=True)
        == "(`x` >= date'2024-01-01' and `x` <= date'2024-01-10')"
    )


def test_every_key_is_in_a_range():
    drawn = random.Random(5)
    for _ in range(300):
        span = 10 ** drawn.randint(1, 18)
        centers = [drawn.randint(-span, span) for _ in range(drawn.randint(1, 60))]
        keys = sorted({center + drawn.randint(0, 3) for center in centers for _ in range(drawn.randint(1, 4))})
        text = condition("long", keys)
        ranges = [[int(n) for n in re.findall(r"cast\((-?\d+) as", part)] for part in text.split(" or ")]
        assert len(ranges) <= MAX_RANGES
        assert all(any(ends[0] <= key <= ends[-1] for ends in ranges) for key in keys)
        assert {ends[0] for ends in ranges} | {ends[-1] for ends in ranges} <= set(keys)
