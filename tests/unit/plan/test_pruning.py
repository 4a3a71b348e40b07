"""Masks over small listings: the files that a condition prunes, and the conditions that prune no files."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import file_mask
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Array, Decimal, Field, Primitive, Struct
from rowmerge.table.snapshots.files import FileListing
from tests.unit.plan.listings import INTEGERS, MISSING, NULLS, between, column, listing, select_files


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = 15", [1]),
        ("15 = x", [1]),
        ("x == 10", [1]),
        ("x <=> 19", [1]),
        ("x <> 15", [0, 1, 2]),
        ("x < 10", [0]),
        ("x <= 10", [0, 1]),
        ("x > 19", [2]),
        ("x >= 19", [1, 2]),
        ("20 > x", [0, 1]),
        ("x BETWEEN 5 AND 12", [0, 1]),
        ("x NOT BETWEEN 5 AND 25", [0, 2]),
        ("x BETWEEN 12 AND 5", []),
        ("x IN (3, 25, 40)", [0, 2]),
        ("x IN (-1, 100)", []),
        ("x NOT IN (3, 25)", [0, 1, 2]),
        ("x IN (3, NULL)", [0]),
        ("x NOT IN (3, NULL)", []),
        ("x IN (NULL)", []),
        ("x = NULL", []),
        ("NOT x = NULL", []),
        ("NOT x < 10", [1, 2]),
        ("NOT (x < 10 OR x > 19)", [1]),
        ("x > 5 AND x < 15", [0, 1]),
        ("x < 5 OR x > 25", [0, 2]),
        ("x = 15 AND unknown(x) = 3", [1]),
        ("x = 15 OR unknown(x) = 3", [0, 1, 2]),
        ("TRUE", [0, 1, 2]),
        ("FALSE", []),
        ("NULL", []),
        ("NOT TRUE", []),
        ("1 = 1 AND x = 15", [1]),
        ("1 = 2", []),
        ("t.x = 15 AND `t`.`X` = 15", [1]),
        ("((x)) = ((15))", [1]),
        ("x = -5", []),
        ("x > - 1", [0, 1, 2]),
        ("x = 15L", [1]),
        ("x = 15S", [1]),
        ("x = 15.0", [1]),
        ("x = 15.00BD", [1]),
        ("x = CAST(15 AS SMALLINT)", [1]),
        ("x = CAST('15' AS INT)", [1]),
        ("x = 15::bigint", [1]),
        ("x = '15'", [1]),
        ("x = 15e0", [1]),
        ("x = 15D", [1]),
        ("x IS TRUE", [0, 1, 2]),
        ("x = 15.5", []),
        ("x < 9.5", [0]),
        ("x < 10.5", [0, 1]),
        ("x >= 19.5", [2]),
        ("x <> 15.5", [0, 1, 2]),
        ("x IN (15.5, 25.0)", [2]),
        ("x > 18.5e0", [1, 2]),
    ],
)
def test_integers_are_compared_exactly(condition: str, expected: list[int]) -> None:
    assert select_files(column("integer"), INTEGERS, condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "x = '15 '",  # trimmed by a cast
        "x = '015'",
        "x = '1e1'",
        "x = '99999999999'",  # not an int
        "x = 'fifteen'",
        "x IN (1, '2')",
        "x IN (1, 2e0)",
        "x IN (1, y)",
        "x = 9223372036854775808",  # Spark folds these, null rows included
        "x < -9223372036854775809",
        "x = 0.1234567890123456789012345",
        "x = TRUE",
        "x = DATE '2024-01-01'",
        "x * 1 = 50",
        "-x = 50",
        "abs(x) = 50",
        "x = 50 + 0",
        "x = CAST(50.7 AS INT)",
        "x = CAST(300 AS TINYINT)",
        "x = y",
        "s.x = 50",
        "x.a = 50",
        "x[0] = 50",
        "x IN (SELECT 50)",
        "x = (SELECT 50)",
        "EXISTS (SELECT 1 FROM z WHERE x = 50)",
        "x = 50 IS NULL",
        "x = 50 = TRUE",
        "coalesce(x = 50, false)",
        "x BETWEEN SYMMETRIC 50 AND 40",
        "x = X'32'",
        "x = :fifty",
        "x = 50;",
        "x = ",
        "",
    ],
)
def test_unknown_expressions_prune_no_files(condition: str) -> None:
    assert select_files(column("integer"), INTEGERS, condition) == [0, 1, 2]
    assert select_files(column("integer"), INTEGERS, f"NOT ({condition})") == [0, 1, 2]


def test_bigints_beyond_the_doubles_are_not_rounded() -> None:
    big = (1 << 53) + 1
    files = between((big, big), (big + 1, big + 1))
    assert select_files(column("long"), files, f"x = {big}") == [0]
    assert select_files(column("long"), files, f"x > {big}") == [1]
    assert select_files(column("long"), files, f"x < {big}.5") == [0]
    assert select_files(column("long"), files, "x = 9007199254740992e0") == [0, 1]  # Spark casts the column to double
    assert select_files(column("long"), files, "x < 1e0") == []
    assert select_files(column("long"), files, "x = 9223372036854775807") == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = 1", [0]),
        ("x = 1.25", [0]),
        ("x = 1.255", []),
        ("x > 1.999", [1, 2]),
        ("x >= 2.001", [1, 2]),
        ("x < 2.001", [0, 1]),
        ("x <= 2", [0, 1]),
        ("x < -1", []),
        ("x = CAST(3 AS DECIMAL(5, 1))", [2]),
        ("x IN (1, 3.00)", [0, 2]),
        ("x = 100000000000000000000", []),
        ("x = 3e0", [0, 1, 2]),  # compared as doubles
        ("x = '3'", [0, 1, 2]),
        ("x = 0.0000000000000000000000000000000001", [0, 1, 2]),  # too many digits together: Spark rounds
        ("x IN (1.00000000000000000000, 10000000000000000000)", [0, 1, 2]),
    ],
)
def test_decimals_are_compared_exactly(condition: str, expected: list[int]) -> None:
    files = between((Number("0.00"), Number("1.99")), (Number("2.00"), Number("2.99")), (Number("3.00"), Number("99.99")))
    assert select_files(column(Decimal(20, 2)), files, condition) == expected


@pytest.mark.parametrize("condition", ["x = {0}", "x IN ({0})", "x <= {0}", "x <=> {0}", "x = CAST({0} AS DECIMAL(38, 10))"])
def test_negative_decimals_of_38_digits_are_not_rounded(condition: str) -> None:
    least = "-9999999999999999999999999999.9999999999"
    files = between((Number(least), Number(least)), (Number("-9999999999999999999999999999.9"), Number("0.0")))
    assert select_files(column(Decimal(38, 10)), files, condition.format(least)) == [0]


@pytest.mark.parametrize("type_", ["float", "double"])
def test_a_file_with_nan_bounds_is_not_pruned(type_: str) -> None:
    files = [*between((0.0, 1.0), (2.0, 3.0)), {**MISSING, "nulls": 0}]
    assert select_files(column(type_), files, "x > 5") == [2]
    assert select_files(column(type_), files, "x < 1.5") == [0, 2]
    assert select_files(column(type_), files, "x = 2.5") == [1, 2]
    assert select_files(column(type_), between((float("nan"), float("nan"))), "x > 5") == [0]
    assert select_files(column(type_), between((0.0, float("nan"))), "x > 5") == [0]


def test_minus_zero_is_zero() -> None:
    files = between((-0.0, -0.0), (0.0, 0.0), (1.0, 1.0))
    for zero in ("0", "0.0", "-0.0", "0e0", "-0e0"):
        assert select_files(column("double"), files, f"x = {zero}") == [0, 1]
        assert select_files(column("double"), files, f"x IN ({zero}, {zero}, NULL)") == [0, 1]
        assert select_files(column("double"), files, f"x < {zero}") == []


def test_floats_are_compared_as_the_doubles_they_are() -> None:
    tenth = pa.scalar(0.1, pa.float32()).as_py()
    files = between((tenth, tenth), (0.5, 0.5))
    assert select_files(column("float"), files, "x = 0.1") == []
    assert select_files(column("float"), files, "x > 0.1") == [0, 1]
    assert select_files(column("float"), files, "x = 0.5") == [1]
    assert select_files(column("float"), files, "x = 0.1F") == [0, 1]
    assert select_files(column("float"), files, "x = 16777217") == [0, 1]  # rounded or not, as spark.sql.ansi.enabled says


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = 'b'", [0, 1]),
        ('x = "b"', [0, 1]),
        ("x > 'Z'", [0, 1, 2]),
        ("x < 'a'", [3]),
        ("x > 'z'", [2]),
        ("x >= 'é'", [2]),
        ("x = '\U0001f600'", [2]),
        ("x LIKE 'a%'", [0]),
        ("x LIKE 'b%'", [0, 1]),
        ("x LIKE 'bz%'", [1]),
        ("x LIKE 'b_z'", [0, 1]),
        ("x LIKE '%z'", [0, 1, 2, 3]),
        ("x LIKE 'q'", []),
        ("x LIKE '\U0010ffff%'", []),
        ("x NOT LIKE 'b%'", [0, 2, 3]),
        ("x NOT LIKE 'A%'", [0, 1, 2]),
        ("NOT x LIKE 'A%'", [0, 1, 2]),
        ("x NOT LIKE 'A_%'", [0, 1, 2, 3]),
        ("x LIKE '%'", [0, 1, 2, 3]),
        ("x NOT LIKE '%'", []),
    ],
)
def test_strings_are_compared_by_their_bytes(condition: str, expected: list[int]) -> None:
    files = between(("a", "bar"), ("b", "bzz"), ("é", "\U0001f600"), ("AB", "AC"))
    assert select_files(column("string"), files, condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "x = 5",  # Spark casts the column
        "x = DATE '2024-01-01'",
        "x = 'a\\'b'",
        "x = 'it''s'",
        "x = r'q'",
        "x = 'q' 'q'",
        "x = '${q}'",  # Spark replaces it by the setting q
        'x = "x"',  # a column under spark.sql.ansi.doubleQuotedIdentifiers
        "x LIKE 'q!%' ESCAPE '!'",
        "x LIKE 'q\\%'",
        "x LIKE ANY ('q', 'r')",
        "x NOT LIKE ALL ('q', 'r')",
        "x ILIKE 'q%'",
        "x RLIKE 'q'",
        "x COLLATE UTF8_LCASE = 'q'",
        "x = CAST('q' AS CHAR(3))",
        "x = CAST('q' AS STRING COLLATE UTF8_LCASE)",
        "upper(x) = 'q'",
    ],
)
def test_strings_of_another_type_prune_no_files(condition: str) -> None:
    assert select_files(column("string"), between(("a", "b")), condition) == [0]


def test_char_and_collated_columns_are_not_compared() -> None:
    files = between(("a", "b"))
    assert select_files(column("string", **{CHAR_VARCHAR: "char(5)"}), files, "x = 'q'") == [0]
    assert select_files(column("string", **{CHAR_VARCHAR: "varchar(5)"}), files, "x = 'q'") == []
    assert select_files(column("string", __COLLATIONS={"x": "spark.UTF8_LCASE"}), files, "x = 'q'") == [0]
    assert select_files(column("string", **{CHAR_VARCHAR: "char(5)"}), files, "x IS NULL") == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x", [0, 2]),
        ("NOT x", [1, 2]),
        ("!x", [1, 2]),
        ("x = TRUE", [0, 2]),
        ("x <> TRUE", [1, 2]),
        ("x IS TRUE", [0, 2]),
        ("x IS NOT TRUE", [1, 2]),
        ("x IN (FALSE)", [1, 2]),
        ("x = 1", [0, 1, 2]),
        ("x = 'true'", [0, 1, 2]),
    ],
)
def test_a_boolean_column_is_a_condition(condition: str, expected: list[int]) -> None:
    assert select_files(column("boolean"), between((True, True), (False, False), (False, True)), condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x IS NULL", [1, 2, 3, 4, 5]),
        ("x <=> NULL", [1, 2, 3, 4, 5]),
        ("x IS NOT DISTINCT FROM NULL", [1, 2, 3, 4, 5]),
        ("x IS NOT NULL", [0, 1, 3, 4, 5]),
        ("NOT (x <=> NULL)", [0, 1, 3, 4, 5]),
        ("x IS DISTINCT FROM NULL", [0, 1, 3, 4, 5]),
        ("x = 3", [0, 1, 3, 4, 5]),
        ("x = 9", [3, 5]),
        ("x <> 9", [0, 1, 3, 4, 5]),
        ("NOT x = 9", [0, 1, 3, 4, 5]),
        ("x <=> 9", [3, 5]),
        ("NOT x <=> 9", [0, 1, 2, 3, 4, 5]),
        ("x IS DISTINCT FROM 3", [0, 1, 2, 3, 4, 5]),
        ("NOT (x > 0)", [3, 5]),
    ],
)
def test_null_rows_make_a_comparison_neither_true_nor_false(condition: str, expected: list[int]) -> None:
    assert select_files(column("integer"), NULLS, condition) == expected


def test_one_bound_suffices_for_a_one_sided_comparison() -> None:
    files = [{"lower": 5, "upper": None}, {"lower": None, "upper": 5}]
    assert select_files(column("long"), files, "x = 3") == [1]
    assert select_files(column("long"), files, "x = 7") == [0]
    assert select_files(column("long"), files, "x > 5") == [0]


def test_columns_without_an_order_are_pruned_only_by_null_counts() -> None:
    files = [{**MISSING, "nulls": 10}, {**MISSING, "nulls": 0}]
    for type_ in (Primitive("binary"), Array(Primitive("long"))):
        assert select_files(column(type_), files, "x IS NULL") == [0]
        assert select_files(column(type_), files, "x = X'00'") == [0, 1]


def test_only_bounds_of_referenced_columns_are_read() -> None:
    schema = Struct(tuple(Field(name, Primitive("long")) for name in ("a", "b", "c", "p")))
    side = Side("t", (), schema.names)
    assert file_mask(["C = 1 AND t.a > 2", "p = 3", "f(b) = 2"], side, schema, ("p",))[1] == ("a", "c")
    assert file_mask([], side, schema, ("p",))[1] == ()


def test_an_empty_listing_gives_an_empty_mask() -> None:
    empty = listing(column("integer"), INTEGERS).without_files()
    for condition in ("x = 1", "x IN (1, 2)", "x IS NULL", "unknown(x)"):
        mask, _ = file_mask([condition], Side("t", (), ("x",)), Struct((column("integer"),)), ())
        assert len(mask(empty)) == 0


def test_a_listing_in_many_chunks_gives_one_mask() -> None:
    rows = listing(column("integer"), INTEGERS).rows
    chunked = FileListing(pa.concat_tables([rows.slice(0, 1), rows.slice(1, 2), rows.slice(0, 0)]))
    mask, _ = file_mask(["x >= 10"], Side("t", (), ("x",)), Struct((column("integer"),)), ())
    assert mask(chunked).to_pylist() == [False, True, True]


def test_bounds_of_an_older_narrower_type_are_widened() -> None:
    narrow = listing(column("integer"), INTEGERS)
    mask, _ = file_mask(["x = 15"], Side("t", (), ("x",)), Struct((column("long"),)), ())
    assert mask(narrow).to_pylist() == [False, True, False]


def test_long_and_deeply_nested_conditions_are_evaluated() -> None:
    assert select_files(column("integer"), INTEGERS, " OR ".join(f"x = {number}" for number in range(10, 2000))) == [1, 2]
    assert select_files(column("integer"), INTEGERS, "(" * 500 + "x = 15" + ")" * 500) in ([1], [0, 1, 2])
    assert select_files(column("integer"), INTEGERS, "NOT " * 300 + "x = 50") == [0, 1, 2]
    assert select_files(column("integer"), INTEGERS, f"x IN ({', '.join(str(n) for n in range(10, 30000))})") == [1, 2]


@pytest.mark.parametrize(
    ("type_", "value", "condition"),
    [
        ("long", lambda n: n, "x = 4211"),
        ("long", lambda n: n, "x IN (4211, 4299)"),
        ("long", lambda n: n, "x BETWEEN 4290 AND 4310"),
        ("string", lambda n: f"user-{n:06}", "x = 'user-004211'"),
        ("string", lambda n: f"user-{n:06}", "x LIKE 'user-0042%'"),
        ("date", lambda n: date(2000, 1, 1) + timedelta(days=n), "x = '2011-07-13'"),
        ("timestamp", lambda n: datetime(2000, 1, 1, tzinfo=timezone.utc) + timedelta(hours=12 * n), "x = TIMESTAMP '2005-10-08 00:00:00'"),
    ],
)
def test_a_point_query_on_sorted_data_keeps_at_most_two_files(type_: str, value: Any, condition: str) -> None:
    files = between(*((value(100 * n), value(100 * n + 99)) for n in range(100)))
    assert 1 <= len(select_files(column(type_), files, condition)) <= 2


def test_string_bounds_are_ordered_by_bytes() -> None:
    texts = ["", "Z", "a", "a\x00", "é", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]
    assert texts == sorted(texts, key=lambda text: text.encode())
    assert pa.array(texts).take(pc.sort_indices(pa.array(texts[::-1]))).to_pylist() == texts[::-1]
    assert pc.less(pa.array(texts[:-1]), pa.array(texts[1:])).to_pylist() == [True] * (len(texts) - 1)
