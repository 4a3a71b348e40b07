"""Column defaults convert between Iceberg values and SQL text without a change of meaning."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg import types as t

from rowmerge.iceberg.metadata.defaults import default_sql, parse_default

VALUES: list[tuple[t.IcebergType, Any]] = [
    (t.BooleanType(), True),
    (t.BooleanType(), False),
    (t.IntegerType(), -(2**31)),
    (t.LongType(), 2**63 - 1),
    (t.FloatType(), 0.5),
    (t.DoubleType(), -1.5e300),
    (t.DecimalType(9, 2), Decimal("-12.30")),
    (t.DecimalType(38, 0), Decimal("99999999999999999999999999999999999999")),
    (t.DateType(), date(2019, 5, 6)),
    (t.TimestampType(), datetime(2019, 5, 6, 7, 8, 9, 10)),
    (t.TimestamptzType(), datetime(2019, 5, 6, 7, 8, 9, tzinfo=timezone.utc)),
    (t.StringType(), "it's \\ 'ä'\n"),
    (t.StringType(), ""),
]


@pytest.mark.parametrize(("type_", "value"), VALUES)
def test_default_values_round_trip_through_sql_text(type_: t.IcebergType, value: Any) -> None:
    text = default_sql(value, type_)
    assert text is not None
    assert parse_default(text, type_) == value


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("7", t.LongType(), 7),
        ("-7L", t.LongType(), -7),
        ("1.5", t.DecimalType(5, 2), Decimal("1.50")),
        ("1e2", t.DoubleType(), 100.0),
        ("TRUE", t.BooleanType(), True),
        ("'2020-01-02'", t.DateType(), date(2020, 1, 2)),
        ("date '2020-01-02'", t.DateType(), date(2020, 1, 2)),
        ("cast('7' as bigint)", t.LongType(), 7),
        ("timestamp '2020-01-02 03:04:05+02:00'", t.TimestamptzType(), datetime(2020, 1, 2, 1, 4, 5, tzinfo=timezone(timedelta(0)))),
        ("timestamp_ntz '2020-01-02 03:04:05'", t.TimestampType(), datetime(2020, 1, 2, 3, 4, 5)),
    ],
)
def test_sql_literals_give_default_values(text: str, type_: t.IcebergType, value: Any) -> None:
    assert parse_default(text, type_) == value


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("1.5", t.IntegerType()),
        ("2147483648", t.IntegerType()),
        ("1.555", t.DecimalType(5, 2)),
        ("12345", t.DecimalType(5, 2)),
        ("1e400", t.DoubleType()),
        ("current_date()", t.DateType()),
        ("date '2020-02-30'", t.DateType()),
        ("timestamp '2020-01-02 03:04:05'", t.TimestamptzType()),
        ("timestamp '2020-01-02 03:04:05Z'", t.TimestampType()),
        ("upper('a')", t.StringType()),
        ("'a' || 'b'", t.StringType()),
        ("'it''s'", t.StringType()),
        (r"'\n'", t.StringType()),
        ("1 + 1", t.LongType()),
        ("yes", t.BooleanType()),
        ("X'00'", t.BinaryType()),
    ],
)
def test_invalid_default_literals_are_refused(text: str, type_: t.IcebergType) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        parse_default(text, type_)


def test_binary_defaults_have_no_sql_text() -> None:
    assert default_sql(b"\x00", t.BinaryType()) is None
