"""The ranges of a column's values that follow from transformed values, at the edges of types and calendars."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest

from rowmerge.plan.bounds.source_ranges import source_range
from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive, arrow_type

UTC = timezone.utc
LONG, DATE, TIMESTAMP, STRING = (Primitive(name) for name in ("long", "date", "timestamp", "string"))
MAX = 2**63 - 1


def bounds_of(type_: DataType, transform: str, lower: Any, upper: Any, *, is_local: bool = False) -> tuple[Any, Any] | None:
    """Return the bounds that follow from the least and the greatest transformed value."""
    has_own_type = transform == "identity" or transform.startswith("truncate")
    value_type = arrow_type(type_) if has_own_type else pa.int32()
    arrays = (pa.array([value], value_type) for value in (lower, upper))
    bounds = source_range(*arrays, transform, Field("x", type_), is_local=is_local)
    return None if bounds is None else (bounds[0][0].as_py(), bounds[1][0].as_py())


@pytest.mark.parametrize(
    ("type_", "transform", "value", "expected"),
    [
        (DATE, "day", -1, (date(1969, 12, 31), date(1969, 12, 31))),
        (DATE, "month", 1, (date(1970, 2, 1), date(1970, 2, 28))),
        # Old writers rounded times before 1970 towards zero.
        (DATE, "month", 0, (date(1969, 12, 1), date(1970, 1, 31))),
        (DATE, "year", -470, (date(1499, 1, 1), date(1500, 12, 31))),
        (TIMESTAMP, "hour", 1, (datetime(1970, 1, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 1, 59, 59, 999_999, tzinfo=UTC))),
        (TIMESTAMP, "hour", -1, (datetime(1969, 12, 31, 22, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))),
        (TIMESTAMP, "day", 0, (datetime(1969, 12, 31, tzinfo=UTC), datetime(1970, 1, 1, 23, 59, 59, 999_999, tzinfo=UTC))),
        (TIMESTAMP, "year", 54, (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))),
        # Times beyond the type are unknown.
        (TIMESTAMP, "year", 2**31 - 1, (None, None)),
        (TIMESTAMP, "day", -(2**31), (None, None)),
        (DATE, "year", 2**31 - 1, (None, None)),
        (DATE, "year", None, (None, None)),
        (LONG, "truncate[10]", -20, (-20, -11)),
        # The subtraction of a remainder from the least integer wraps around.
        (LONG, "truncate[10]", -(2**63) - 2 + 2**64, (None, None)),
        (LONG, "truncate[10]", 2**31 - 2, (None, None)),
        (LONG, "truncate[10]", MAX // 10 * 10, (MAX // 10 * 10, MAX)),
        (LONG, "truncate[8]", -(2**63), (-(2**63), -(2**63) + 7)),
        (Decimal(4, 2), "truncate[50]", Number("-1.00"), (Number("-1.00"), Number("-0.51"))),
        (Decimal(38, 0), "truncate[50]", Number("9" * 36 + "50"), (Number("9" * 36 + "50"), Number("9" * 38))),
        (Decimal(38, 0), "truncate[100]", Number("9" * 37 + "0"), (None, None)),
        (STRING, "truncate[3]", "ab", ("ab", "ab")),
        (Primitive("double"), "identity", float("nan"), (None, None)),
        (Primitive("double"), "identity", -0.0, (0.0, 0.0)),
    ],
)
def test_the_range_contains_every_value_with_the_transformed_value(type_: DataType, transform: str, value: Any, expected: Any) -> None:
    assert bounds_of(type_, transform, value, value) == expected


@pytest.mark.parametrize(
    ("prefix", "width", "text", "is_within"),
    [
        ("ab", 2, "ab\U0010ffff\U0010ffff", True),
        ("ab", 2, "ac", False),
        ("ab", 3, "abc", False),
        ("\U0001f600", 2, "\U0001f600z", True),
        ("\U0001f600", 3, "\U0001f600z", False),
    ],
)
def test_a_string_is_within_the_range_of_its_prefix(prefix: str, width: int, text: str, is_within: bool) -> None:
    values = pa.array([prefix])
    bounds = source_range(values, values, f"truncate[{width}]", Field("x", STRING))
    assert bounds is not None
    lower, upper = (bound.cast(pa.binary())[0].as_py() for bound in bounds)
    assert (lower <= text.encode() <= upper) == is_within


def test_a_range_that_may_contain_wrapped_integers_is_unknown() -> None:
    assert bounds_of(LONG, "truncate[7]", 0, 2**31 - 2) == (None, None)
    assert bounds_of(LONG, "truncate[7]", 0, 700) == (0, 706)


def test_local_times_are_widened_by_the_greatest_offset() -> None:
    first, last = datetime(2024, 1, 31, 6, tzinfo=UTC), datetime(2024, 2, 2, 17, 59, 59, 999_999, tzinfo=UTC)
    assert bounds_of(TIMESTAMP, "day", 19_754, 19_754, is_local=True) == (first, last)


@pytest.mark.parametrize(
    ("type_", "transform"), [(LONG, "bucket[4]"), (LONG, "void"), (Primitive("binary"), "truncate[2]"), (STRING, "year")]
)
def test_other_transforms_and_types_have_no_range(type_: DataType, transform: str) -> None:
    assert bounds_of(type_, transform, None, None) is None
