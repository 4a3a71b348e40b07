"""Masks of files from the key values of a source, and their combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rowmerge.plan.pruning.file_pruning import KeyRange, all_of, every_file, key_mask, no_file, overlap_shares, range_mask
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Array, Decimal as DecimalType, Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.files import FileListing
from tests.unit.plan.listings import INTEGERS, MISSING, NULLS, between, column, listing, partitions


def joined(type_: str, files: Sequence[Mapping[str, Any]], op: str, values: Sequence[Any], has_null: bool = False) -> list[int]:
    field = column(type_)
    mask, needs = key_mask(("x",), op, pa.array(values, arrow_type(field.type)), has_null, Struct((field,)), ())
    assert needs == ("x",)
    return [index for index, keep in enumerate(mask(listing(field, files)).to_pylist()) if keep]


def test_a_file_between_two_key_values_is_pruned() -> None:
    assert joined("integer", INTEGERS, "=", [3, 25]) == [0, 2]
    assert joined("integer", INTEGERS, "=", [9, 10]) == [0, 1]
    assert joined("integer", INTEGERS, "=", []) == []
    assert joined("string", between(("a", "b"), ("c", "d")), "=", ["bb", "d"]) == [1]


@pytest.mark.parametrize(("op", "expected"), [("<", [0, 1]), ("<=", [0, 1, 2]), (">", [1, 2]), (">=", [0, 1, 2])])
def test_inequalities_compare_with_the_most_permissive_key(op: str, expected: list[int]) -> None:
    assert joined("integer", INTEGERS, op, [9, 20]) == expected


def test_null_keys_match_null_rows_only_null_safely() -> None:
    assert joined("integer", NULLS, "=", [9], has_null=True) == [3, 5]
    assert joined("integer", NULLS, "<=>", [9], has_null=True) == [1, 2, 3, 4, 5]
    assert joined("integer", NULLS, "<=>", [9], has_null=False) == [3, 5]
    assert joined("integer", NULLS, "<=>", [], has_null=True) == [1, 2, 3, 4, 5]


def test_nan_keys_are_above_all_numbers() -> None:
    files = [*between((0.0, 1.0), (2.0, 3.0)), {**MISSING, "nulls": 0}]
    nan = float("nan")
    assert joined("double", files, "=", [0.5, nan]) == [0, 2]
    assert joined("double", files, "=", [nan]) == [2]
    assert joined("double", files, "<", [nan]) == [0, 1, 2]
    assert joined("double", files, "<=", [0.5, nan]) == [0, 1, 2]
    assert joined("double", files, ">=", [nan]) == [2]
    assert joined("double", files, ">", [2.5, nan]) == [1, 2]
    assert joined("double", between((-0.0, -0.0), (0.0, 0.0)), "=", [0.0]) == [0, 1]


def test_a_nested_field_prunes_by_its_bounds_unless_its_strings_have_rules() -> None:
    inner = Struct((Field("a", Primitive("integer")), Field("b", Primitive("string"))))
    bounds = [{"a": low, "b": text} for low, text in ((1, "a"), (5, "b"), (9, "c"))]
    files = [{"lower": low, "upper": low, "nulls": {"a": 0, "b": 0}} for low in bounds]

    def selected(field: Field, path: tuple[str, ...], keys: pa.Array) -> list[bool]:
        mask, columns = key_mask(path, "=", keys, False, Struct((field,)), ())
        assert columns in ((), ("x",))
        return list(mask(listing(field, files, nulls=pa.struct([("a", pa.int64()), ("b", pa.int64())]))).to_pylist())

    assert selected(column(inner), ("x", "a"), pa.array([5, 7], pa.int32())) == [False, True, False]
    assert selected(column(inner), ("x", "b"), pa.array(["c"])) == [False, False, True]
    contradictory = [{"lower": {"a": 9, "b": "a"}, "upper": {"a": 1, "b": "b"}, "nulls": {"a": 0, "b": 0}}]
    mask, _ = key_mask(("x", "a"), "=", pa.array([5], pa.int32()), False, Struct((column(inner),)), ())
    assert mask(listing(column(inner), contradictory, nulls=pa.struct([("a", pa.int64()), ("b", pa.int64())]))).to_pylist() == [True]
    padded = column(inner, **{CHAR_VARCHAR: "struct<a:int,b:char(2)>"})
    assert selected(padded, ("x", "b"), pa.array(["c"])) == [True, True, True]
    range_ = KeyRange(pa.scalar(2, pa.int32()), pa.scalar(6, pa.int32()), has_null=False)
    mask, columns = range_mask(("x", "a"), "=", range_, Struct((column(inner),)), ("a",))
    assert columns == ("x",)
    assert mask(listing(column(inner), files, nulls=pa.struct([("a", pa.int64()), ("b", pa.int64())]))).to_pylist() == [False, True, False]


def test_keys_of_char_and_unordered_columns_prune_nothing() -> None:
    values = pa.array(["q"])
    for field in (column("string", **{CHAR_VARCHAR: "char(3)"}), column(Array(Primitive("string")))):
        assert key_mask(("x",), "=", values, False, Struct((field,)), ()) == (every_file, ())
        assert range_mask(("x",), "=", KeyRange(values[0], values[0], has_null=False), Struct((field,)), ()) == (every_file, ())


def test_a_range_of_keys_prunes_what_is_outside() -> None:
    field, files = column("integer"), listing(column("integer"), INTEGERS)

    def ranged(op: str, low: int | None, high: int | None, has_null: bool = False) -> list[bool]:
        ends = (pa.scalar(low, pa.int32()), pa.scalar(high, pa.int32()))
        return list(range_mask(("x",), op, KeyRange(*ends, has_null=has_null), Struct((field,)), ())[0](files).to_pylist())

    assert ranged("=", 12, 15) == [False, True, False]
    assert ranged("<=>", 25, 99, True) == [False, False, True]
    assert ranged("<", 5, 10) == [True, False, False]
    assert ranged(">=", 19, 99) == [False, True, True]
    assert ranged("=", None, None) == [False, False, False]
    assert range_mask(("x",), "=", KeyRange(None, None, has_null=False), Struct((field,)), ())[0](files).to_pylist() == [
        False,
        False,
        False,
    ]


def test_masks_are_combined() -> None:
    files = listing(column("integer"), INTEGERS)
    first = lambda listing: pa.chunked_array([[True], [True, False]])  # noqa: E731
    second = lambda listing: pa.array([False, True, True])  # noqa: E731
    assert all_of([first, second])(files).to_pylist() == [False, True, False]
    assert all_of([])(files).to_pylist() == every_file(files).to_pylist() == [True, True, True]
    assert no_file(files).to_pylist() == [False, False, False]


def test_a_million_keys_prune_ten_thousand_files_in_sorted_order() -> None:
    field = column("long")
    starts = pa.array(range(0, 1_000_000, 100), pa.int64())
    bounds = [pa.StructArray.from_arrays([pc.add(starts, plus)], ["x"]) for plus in (0, 99)]
    nulls = pa.StructArray.from_arrays([pa.array([0] * len(starts), pa.int64())], ["x"])
    files = FileListing(
        pa.table({"lower": bounds[0], "upper": bounds[1], "nulls": nulls, "records": pa.array([100] * len(starts), pa.int64())})
    )
    mask, _ = key_mask(("x",), "=", pa.array(range(50, 100_000_000, 200), pa.int64()), False, Struct((field,)), ())
    assert pc.sum(mask(files)).as_py() == 5000


DAY, INSTANT = datetime(2024, 1, 1, tzinfo=timezone.utc), timedelta(days=1)


@pytest.mark.parametrize(
    ("type_", "files", "shares"),
    [
        ("integer", between((0, 9), (10, 19), (20, 29)), [0, 0, 0]),
        ("integer", between((0, 99), (1, 98), (2, 97)), [1, 1, 1]),
        ("integer", between((0, 10), (10, 20), (30, 40)), [0.5, 0.5, 0]),
        ("string", between(("a", "c"), ("b", "d"), ("e", "f")), [0.5, 0.5, 0]),
        ("date", between((date(2024, 1, 1), date(2024, 1, 2)), (date(2024, 1, 3), date(2024, 1, 4))), [0, 0]),
        ("timestamp", between((DAY, DAY), (DAY, DAY + INSTANT)), [1, 1]),
        (DecimalType(9, 2), between((Decimal("1.00"), Decimal("2.00")), (Decimal("2.01"), Decimal("3.00"))), [0, 0]),
        ("integer", [*between((0, 9), (20, 29)), MISSING], [0.5, 0.5, 1]),
        (Array(Primitive("string")), [MISSING], [1]),
    ],
)
def test_files_with_the_same_range_of_keys_overlap(type_: Any, files: Sequence[Mapping[str, Any]], shares: list[float]) -> None:
    field = column(type_)
    assert overlap_shares("x", listing(field, files), Struct((field,)), ()).tolist() == shares


def test_partitions_overlap_only_with_files_of_the_same_value() -> None:
    field = column("string")
    assert overlap_shares("x", partitions(field, ["a", "b", "a"]), Struct((field,)), ["x"]).tolist() == [0.5, 0, 0.5]
