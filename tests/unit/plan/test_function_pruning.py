"""Functions of columns that never decrease, nested fields, branches and comparisons of columns: the files that conditions select."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest

from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.predicates.predicates import to_predicate
from rowmerge.plan.pruning.file_pruning import exact_partition_mask, file_mask
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Decimal, Field, Primitive, Struct
from rowmerge.table.snapshots.files import FileListing, listing_schema
from tests.unit.plan.listings import INTEGERS, MISSING, between, column, partitions, select_files

DATES = between((date(2022, 3, 1), date(2022, 12, 31)), (date(2023, 1, 1), date(2023, 6, 30)), (date(2023, 7, 1), date(2024, 2, 29)))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("year(x) = 2023", [1, 2]),
        ("year(x) = 2022", [0]),
        ("year(x) < 2023", [0]),
        ("NOT year(x) = 2022", [1, 2]),
        ("year(x) IN (2024, 2025)", [2]),
        ("year(x) BETWEEN 2020 AND 2022", [0]),
        ("extract(YEAR FROM x) = 2022", [0]),
        ("trunc(x, 'MM') = DATE '2023-06-01'", [1]),
        ("trunc(x, 'quarter') >= DATE '2023-07-01'", [2]),
        ("trunc(x, 'WEEK') = DATE '2023-06-26'", [1, 2]),
        ("trunc(x, 'century') = DATE '2000-01-01'", [0, 1, 2]),
        ("date_add(x, 1) = DATE '2023-01-01'", [0]),
        ("x - 1 = DATE '2022-12-31'", [1]),
        ("x + INTERVAL '1' DAY > DATE '2024-03-01'", []),
        ("x + INTERVAL '1' MONTH > DATE '2024-06-01'", [0, 1, 2]),
        ("last_day(x) = DATE '2024-02-29'", [2]),
        ("date_format(x, 'yyyy') = '2022'", [0]),
        ("date_format(x, 'yyyy-MM') >= '2024-01'", [2]),
        ("date_format(x, 'MM') = '01'", [0, 1, 2]),
        ("date_format(x, 'YYYY') = '2022'", [0, 1, 2]),
        ("CAST(x AS STRING) < '2023'", [0]),
        ("CAST(x AS TIMESTAMP) < TIMESTAMP '2023-01-01 00:00:00'", [0]),
        ("month(x) = 3", [0, 1, 2]),
        ("CAST(x AS INT) = 3", [0, 1, 2]),
    ],
)
def test_functions_of_dates_exclude_files_by_the_bounds_of_the_date(condition: str, expected: list[int]) -> None:
    assert select_files(column("date"), DATES, condition, time_zone="UTC") == expected


DAYS = between(
    *((datetime(2024, 1, day, tzinfo=timezone.utc), datetime(2024, 1, day, 23, 59, 59, tzinfo=timezone.utc)) for day in (1, 2, 31))
)


@pytest.mark.parametrize(
    ("condition", "zone", "expected"),
    [
        ("date(x) = DATE '2024-01-02'", "UTC", [1]),
        ("date(x) = DATE '2024-01-02'", "Europe/Berlin", [0, 1]),
        ("date(x) = DATE '2024-01-02'", None, [0, 1]),
        ("date(x) = DATE '2024-01-20'", None, []),
        ("to_date(x) > '2024-01-02'", "UTC", [2]),
        ("x::date <= '2024-01-01'", "America/New_York", [0, 1]),
        ("year(x) = 2023", "America/New_York", [0]),
        ("year(x) = 2023", "UTC", []),
        ("date_trunc('month', x) = '2024-01-01'", "UTC", [0, 1, 2]),
        ("date_trunc('month', x) = '2024-02-01'", "Europe/Berlin", [2]),
        ("date_trunc('DAY', x) = TIMESTAMP '2024-01-02 00:00:00'", "UTC", [1]),
        ("date_trunc('minute', x) < '2024-01-02'", "UTC", [0, 1]),
        ("date_trunc('eon', x) < '2024-01-01'", "UTC", [0, 1, 2]),
        ("date_trunc('Y', x) IS NULL", "UTC", [0, 1, 2]),  # for sqlglot the unit YEAR, for Spark no unit
        ("trunc(x, 'q') IS NULL", "UTC", [0, 1, 2]),
        ("date_format(x, 'yyyy-MM-dd') = '2024-01-02'", "UTC", [1]),
        ("CAST(x AS STRING) >= '2024-01-02 00:00:00'", "UTC", [1, 2]),
        ("CAST(x AS TIMESTAMP_NTZ) < TIMESTAMP_NTZ '2024-01-01 12:00:00'", "UTC", [0]),
    ],
)
def test_functions_of_timestamps_use_the_session_zone(condition: str, zone: str | None, expected: list[int]) -> None:
    assert select_files(column("timestamp"), DAYS, condition, time_zone=zone) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("CAST(x AS BIGINT) = 15", [1]),
        ("CAST(x AS TINYINT) = 15", [1]),
        ("CAST(x AS DECIMAL(10, 2)) > 19.5", [2]),
        ("CAST(x AS DOUBLE) < 5e0", [0]),
        ("CAST(x AS STRING) = '15'", [0, 1, 2]),
        ("x + 5 = 20", [1]),
        ("coalesce(x, 0) > 19", [2]),
        ("x < x", [0, 1, 2]),
        ("CASE WHEN x > 19 THEN 'a' ELSE 'b' END = 'a'", [2]),
        ("CASE WHEN x > 19 THEN 'a' WHEN x > 9 THEN 'b' END IN ('a', 'c')", [2]),
        ("CASE x WHEN 5 THEN 1 END IS NOT NULL", [0]),
        ("CASE WHEN x > 19 THEN 1 ELSE 'b' END = 1", [0, 1, 2]),
        ("if(x > 19, x, 0) > 5", [2]),
        ("CASE WHEN x > 19 THEN true ELSE false END", [2]),
        ("(x > 19) IS TRUE", [2]),
        ("(x > 19) IS NOT TRUE", [0, 1, 2]),
        ("x > 19 AND 'a' = 'b'", []),
        ("x > 19 OR 'a' = 'a'", [0, 1, 2]),
        ("'a' = 'A'", [0, 1, 2]),  # equal in some collations
        ("DATE '2024-01-01' > DATE '2024-01-02'", []),
        ("'a' IN ('b', 'c')", []),
        ("x * 2 > 100", [0, 1, 2]),
    ],
)
def test_casts_branches_and_constants_exclude_files(condition: str, expected: list[int]) -> None:
    assert select_files(column("integer"), INTEGERS, condition) == expected


def test_casts_that_can_overflow_exclude_only_files_without_such_values() -> None:
    files = between((0, 100), (100, 200), (300, 400))
    assert select_files(column("integer"), files, "CAST(x AS TINYINT) > 100") == [1, 2]
    assert select_files(column("integer"), files, "CAST(x AS TINYINT) IS NULL") == [1, 2]
    assert select_files(column("byte"), between((0, 100), (100, 127)), "x + 1Y < 0") == [0, 1]  # 127Y + 1Y can be -128Y
    assert select_files(column("byte"), between((0, 100), (100, 127)), "x + 1 < 0") == []
    nulls = [{"lower": 0, "upper": 10, "nulls": 1}]
    assert select_files(column("byte"), nulls, "CAST(coalesce(x, 300) AS TINYINT) = 44") == [0]  # 300 becomes 44 without ANSI
    amounts = between((Number("0.00"), Number("9.99")), (Number("10.00"), Number("300.00")))
    assert select_files(column(Decimal(10, 2)), amounts, "CAST(x AS TINYINT) = 200") == [1]
    assert select_files(column(Decimal(10, 2)), amounts, "CAST(x AS INT) >= 10") == [1]
    assert select_files(column(Decimal(10, 2)), amounts, "CAST(x AS DOUBLE) > 10e0") == [1]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("left(x, 1) = 'b'", [1]),
        ("substring(x, 1, 2) = 'bd'", [1]),
        ("substr(x, 0, 1) IN ('c')", []),
        ("substring(x, 2, 1) = 'b'", [0, 1]),
        ("left(x, 0) = 'b'", [0, 1]),
        ("startswith(x, 'bd')", [1]),
        ("NOT startswith(x, 'a')", [1]),
        ("coalesce(x, 'q') = 'q'", []),
    ],
)
def test_prefixes_of_strings_exclude_files(condition: str, expected: list[int]) -> None:
    assert select_files(column("string"), between(("aa", "az"), ("bc", "bz")), condition) == expected


def test_coalesce_uses_its_literal_only_in_files_with_nulls() -> None:
    files = [{"lower": 1, "upper": 2}, {"lower": 1, "upper": 2, "nulls": 1}, {**MISSING, "nulls": 10}, MISSING]
    assert select_files(column("integer"), files, "coalesce(x, 9) = 9") == [1, 2, 3]
    assert select_files(column("integer"), files, "coalesce(x, 9) < 9") == [0, 1, 3]
    assert select_files(column("integer"), files, "coalesce(x, 9) IS NULL") == []


def test_files_without_values_match_no_condition_that_is_null_for_null() -> None:
    files = [{"lower": "a", "upper": "b"}, {**MISSING, "nulls": 10}]
    for condition in ("length(x) > 3", "lower(x) <> 'a'", "x RLIKE 'a'", "x || 'b' = 'c'", "NOT contains(x, 'a')", "length(x) IN (1, 2)"):
        assert select_files(column("string"), files, condition) == [0]
    char = column("string", **{CHAR_VARCHAR: "char(3)"})
    assert select_files(char, files, "x = 'z'") == [0]
    for condition in ("length(x) IN (SELECT 1)", "f(x) = 1", "x <=> lower(x)", "concat_ws('a', x) = 'a'", "nvl2(x, 1, 2) = 2"):
        assert select_files(column("string"), files, condition) == [0, 1]


def nested_listing(schema: Struct, files: Sequence[Mapping[str, Any]]) -> FileListing:
    """Return files of ten records with the bounds and null counts of the field `s.a`."""
    bounds = pa.struct([("s", pa.struct([("a", pa.int64())]))])
    rows = []
    for index, file in enumerate(files):
        nested = {name: {"s": {"a": value}} for name, value in file.items()}
        rows.append({"path": str(index), "size": 1, "records": 10, "deleted": 0, "partition": {}, "nulls": {"s": {"a": 0}}, **nested})
    assert schema.names == ("s",)
    return FileListing(pa.Table.from_pylist(rows, listing_schema(pa.struct([]), bounds, bounds)))


def test_bounds_of_nested_fields_exclude_files() -> None:
    schema = Struct((Field("s", Struct((Field("a", Primitive("long")), Field("B", Primitive("long"))))),))
    files = nested_listing(schema, [*between((0, 9), (10, 19)), {"lower": None, "upper": None, "nulls": 10}])
    expected = {
        "s.a = 5": [0],
        "t.s.a = 15": [1],
        "S.A > 5": [0, 1],
        "s.a IS NULL": [0, 1, 2],  # writers may not count the NULLs of the struct
        "s.a IS NOT NULL": [0, 1],
        "s.a <=> 5": [0],
        "s.b = 5": [0, 1, 2],
        "s.c = 5": [0, 1, 2],
        "s IS NULL": [0, 1, 2],
        "s.a IN (15, 16)": [1],
    }
    for condition, indexes in expected.items():
        mask, columns = file_mask([condition], Side("t", (), ("s",)), schema, ())
        assert [index for index, keep in enumerate(mask(files).to_pylist()) if keep] == indexes, condition
        assert set(columns) <= {"s"}
    mask, _ = file_mask(["S.A = 5"], Side("t", (), ("s",)), schema, (), case_sensitive=True)
    assert mask(files).to_pylist() == [True] * 3


def test_columns_of_one_file_are_compared() -> None:
    files = [{"lower": 1, "upper": 5, "nulls": 0}, {**MISSING, "nulls": 10}, MISSING]
    for condition, expected in {"x < x": [0, 2], "x <=> x": [0, 1, 2], "x = x": [0, 2]}.items():
        assert select_files(column("integer"), files, condition) == expected


def test_a_partition_by_date_is_exact_for_functions_of_the_date() -> None:
    field = column("date")
    mask = exact_partition_mask(["year(x) = 2024"], Side("t", (), ("x",)), Struct((field,)), ("x",))
    assert mask is not None
    assert mask(partitions(field, [date(2023, 5, 1), date(2024, 5, 1), None])).to_pylist() == [False, True, False]
    assert exact_partition_mask(["x < x"], Side("t", (), ("x",)), Struct((field,)), ("x",)) is None


@pytest.mark.parametrize("negation", ["", "NOT "])
@pytest.mark.parametrize("type_", ["integer", "string", "double"])
def test_long_lists_select_the_same_files_as_short_lists(type_: str, negation: str) -> None:
    numbers = [*range(100, 300), 15]
    members = ", ".join(f"'{number}'" if type_ == "string" else str(number) for number in numbers)
    kind = {"integer": int, "string": str, "double": float}[type_]
    files = between((kind(15), kind(15)), (kind(50), kind(60)), (kind(299), kind(301)))
    expected = [1, 2] if negation else [0, 2]
    assert select_files(column(type_), files, f"x {negation}IN ({members})") == expected
    assert select_files(column(type_), files, f"(x {negation}IN ({members}))") == expected  # not divided from its list


@pytest.mark.parametrize("condition", ["x IN ({}) AND x = 1", "x IN ({}, 'a')", "y IN ({})", "x || 'a' IN ({})", "x IN ({}) -- comment"])
def test_other_conditions_with_long_lists_keep_their_meaning(condition: str) -> None:
    text = condition.format(", ".join(map(str, range(100, 400))))
    assert select_files(column("integer"), INTEGERS, text) == ([] if "AND" in text or "--" in text else [0, 1, 2])


def test_a_list_of_ten_thousand_members_is_read_quickly() -> None:
    schema, side = Struct((column("long"),)), Side("t", (), ("x",))
    text = f"x IN ({', '.join(map(str, range(10_000)))})"
    to_predicate(text, side, schema, ())
    start = time.process_time()
    to_predicate(text, side, schema, ())
    assert time.process_time() - start < 0.2  # sqlglot takes a second


def test_casts_of_long_decimals_to_int_may_round_away_from_zero() -> None:
    """With spark.sql.ansi.enabled, Spark casts such a decimal to double first, which is 3.0 for 2.999999999999999999."""
    nearly = Number("2.999999999999999999")
    files = between((Number("1.5"), nearly), (-nearly, Number(-1)), (Number(3), Number("4.5")))
    assert select_files(column(Decimal(38, 18)), files, "CAST(x AS INT) = 3") == [0, 2]
    assert select_files(column(Decimal(38, 18)), files, "CAST(x AS TINYINT) = -3") == [1]
    assert select_files(column(Decimal(38, 18)), files, "CAST(x AS INT) = 2") == [0]
    assert select_files(column(Decimal(38, 18)), files, "CAST(x AS BIGINT) = 3") == [2]
