"""Conditions on partition columns match whole files or are not exact."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import exact_partition_mask, file_mask
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.snapshots.files import FileListing
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


@pytest.mark.parametrize("condition", ["x = 1", "x = 2", "x IS NULL", "x IS NOT NULL", "x <=> 1", "NOT x = 1", "x IN (7)"])
def test_a_file_of_another_partitioning_is_never_pruned_by_partition(condition: str) -> None:
    field = column("integer")
    listed = partitions(field, [1, None])
    is_other = pa.array([False, True])
    values = listed.rows["partition"].combine_chunks()
    partition = pa.StructArray.from_arrays([values.field(0)], names=["x"], mask=is_other)
    rows = listed.rows.set_column(listed.rows.column_names.index("partition"), "partition", partition)
    mask, _ = file_mask([condition], Side("t", (), ("x",)), Struct((field,)), ("x",))
    assert mask(FileListing(rows)).to_pylist()[1]
