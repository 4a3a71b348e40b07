"""Conditions on partition columns match whole files or are not exact."""

from __future__ import annotations

import pytest

from rowmerge.plan.expressions.conditions import Side
from rowmerge.plan.pruning.file_pruning import exact_partition_mask, file_mask
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from tests.unit.plan.listings import column, partitions


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = 'eu'", [0]),
        ("x <> 'eu'", [1, 2]),
        ("x IS NULL", [3]),
        ("x IS NOT NULL", [0, 1, 2]),
        ("x <=> 'eu'", [0]),
        ("NOT x <=> 'eu'", [1, 2, 3]),
        ("x IN ('eu', 'us')", [0, 1]),
        ("x NOT IN ('eu', 'us')", [2]),
        ("x NOT IN ('eu', NULL)", []),
        ("x LIKE 'us%'", [1, 2]),
        ("x NOT LIKE 'us%'", [0]),
        ("x BETWEEN 'f' AND 'us'", [1]),
        ("x = 'eu' OR x IS NULL", [0, 3]),
        ("NOT (x = 'eu' OR x > 'us')", [1]),
        ("TRUE", [0, 1, 2, 3]),
        ("FALSE", []),
        ("1 = 1", [0, 1, 2, 3]),
        ("x = 'eu' AND NULL", []),
    ],
)
def test_partition_values_decide_for_whole_files(condition: str, expected: list[int]) -> None:
    field = column("string")
    files, side, schema = partitions(field, ["eu", "us", "usa", None]), Side("t", (), ("x",)), Struct((field,))
    mask, needs = file_mask([condition], side, schema, ("x",))
    whole = exact_partition_mask([condition], side, schema, ("x",))
    assert whole is not None and needs == ()
    assert [index for index, keep in enumerate(mask(files).to_pylist()) if keep] == expected
    assert whole(files).to_pylist() == mask(files).to_pylist()


@pytest.mark.parametrize(
    "condition", ["y = 1", "x = 'eu' AND y = 1", "x = 'eu' OR y = 1", "upper(x) = 'EU'", "x LIKE '%u'", "x = y", "x ="]
)
def test_undecided_partition_conditions_are_never_exact(condition: str) -> None:
    schema = Struct((column("string"), Field("y", Primitive("long"))))
    assert exact_partition_mask([condition], Side("t", (), ("x", "y")), schema, ("x",)) is None
    assert exact_partition_mask(["x = 'eu'", condition], Side("t", (), ("x", "y")), schema, ("x",)) is None


def test_without_a_condition_every_file_matches_exactly() -> None:
    whole = exact_partition_mask([], Side("t", (), ("x",)), Struct((column("string"),)), ())
    assert whole is not None and whole(partitions(column("string"), ["eu", None])).to_pylist() == [True, True]


def test_a_float_partition_may_be_nan_and_is_never_exact() -> None:
    field, side = column("double"), Side("t", (), ("x",))
    assert exact_partition_mask(["x > 1"], side, Struct((field,)), ("x",)) is None
    mask, _ = file_mask(["x > 1"], side, Struct((field,)), ("x",))
    assert mask(partitions(field, [0.5, 1.5, float("nan"), None])).to_pylist() == [False, True, True, False]


def test_a_time_without_a_known_zone_is_never_exact() -> None:
    side = Side("t", (), ("x",))
    assert exact_partition_mask(["x > TIMESTAMP '2024-01-01 00:00:00'"], side, Struct((column("timestamp"),)), ("x",)) is None
    assert exact_partition_mask(["x > TIMESTAMP '2024-01-01 00:00:00Z'"], side, Struct((column("timestamp"),)), ("x",)) is not None
