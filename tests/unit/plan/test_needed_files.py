"""The files that suffice for a minimum, a maximum or a limited number of rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rowmerge.plan.pruning.needed_files import Extreme, files_with_extremes, files_with_rows
from rowmerge.table.snapshots.exact_statistics import exact_statistics
from rowmerge.table.snapshots.files import FileListing
from tests.unit.plan.listings import MISSING, between, column, listing

NONE = {**MISSING, "nulls": 10}


def with_deleted(files: FileListing, deleted: list[int | None]) -> FileListing:
    index = files.rows.schema.get_field_index("deleted")
    return FileListing(files.rows.set_column(index, pa.field("deleted", pa.int64()), pa.array(deleted, pa.int64())))


def numbers(files: FileListing) -> list[int]:
    return [int(path.rpartition("/")[2]) for path in files.paths]


def needed(files: FileListing, *functions: str, exact: FileListing | None = None, type_: Any = "long") -> list[int]:
    extremes = [Extreme(column(type_), function == "max", is_partition=False) for function in functions]
    return numbers(files_with_extremes(files, files if exact is None else exact, extremes))


def test_a_file_below_another_one_cannot_contain_the_maximum() -> None:
    files = listing(column("long"), between((0, 9), (10, 30), (20, 29), (25, 26)))
    assert needed(files, "max") == [1, 2, 3]
    assert needed(files, "min") == [0]
    assert needed(files, "min", "max") == [0, 1, 2, 3]


def test_a_file_that_reaches_the_threshold_is_needed() -> None:
    assert needed(listing(column("long"), between((5, 5), (1, 5), (1, 4))), "max") == [0, 1]


def test_a_file_without_bounds_is_needed_and_a_file_of_nulls_is_not() -> None:
    files = listing(column("long"), [*between((0, 9), (10, 20)), NONE, MISSING])
    assert needed(files, "max") == [1, 3]


def test_a_file_whose_rows_may_all_be_null_or_deleted_excludes_no_other_file() -> None:
    files = listing(
        column("long"), [{"lower": 0, "upper": 9}, {"lower": 10, "upper": 20, "nulls": None}, {"lower": 5, "upper": 6, "nulls": 4}]
    )
    assert needed(files, "max") == [0, 1, 2]
    live = listing(column("long"), between((0, 9), (10, 20)))
    assert needed(live, "max", exact=with_deleted(live, [0, 9])) == [1]
    assert needed(live, "max", exact=with_deleted(live, [0, 10])) == [0, 1]
    assert needed(live, "max", exact=with_deleted(live, [0, None])) == [0, 1]


def test_columns_that_are_not_compared_by_bounds_need_all_files() -> None:
    files = listing(column("string"), between(("a", "b"), ("c", "d")))
    extreme = Extreme(column("string", __COLLATIONS={"x": "icu.UNICODE_CI"}), is_greatest=True, is_partition=False)
    assert numbers(files_with_extremes(files, files, [extreme])) == [0, 1]


def test_few_files_have_enough_rows() -> None:
    files = listing(column("long"), [{**MISSING, "records": records} for records in (3, 50, 7, None, 20)])
    assert numbers(files_with_rows(files, 0)) == []
    assert numbers(files_with_rows(files, 50)) == [1]
    assert numbers(files_with_rows(files, 51)) == [1, 4]
    assert numbers(files_with_rows(files, 79)) == [0, 1, 2, 4]
    assert numbers(files_with_rows(files, 1000)) == [0, 1, 2, 3, 4]


def test_files_without_deleted_rows_are_preferred_and_deleted_rows_do_not_count() -> None:
    files = with_deleted(listing(column("long"), [{**MISSING, "records": records} for records in (30, 5, 40)]), [1, 0, None])
    assert numbers(files_with_rows(files, 5)) == [1]
    assert numbers(files_with_rows(files, 34)) == [0, 1]
    assert numbers(files_with_rows(files, 35)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("nulls", "deleted", "live_nulls"), [(3, 0, 3), (0, 4, 0), (10, 4, 6), (3, 4, None), (None, 0, None), (3, None, None)]
)
def test_null_counts_of_live_rows_are_known_if_deletes_cannot_change_them(
    nulls: int | None, deleted: int | None, live_nulls: int | None
) -> None:
    files = listing(column("long"), [{"lower": 1, "upper": 2, "nulls": nulls}])
    exact = exact_statistics(files, pa.array([deleted], pa.int64()), pa.array([True]), lambda _: True)
    assert exact.rows["nulls"].to_pylist() == [{"x": live_nulls}]
    assert exact.rows["lower"].to_pylist() == [{"x": 1 if deleted == 0 else None}]


def test_wide_and_rounded_bounds_are_not_exact() -> None:
    files = listing(column("long"), between((1, 2), (3, 4)))
    zeros = pa.array([0, 0], pa.int64())
    assert exact_statistics(files, zeros, pa.array([False, True]), lambda _: True).rows["upper"].to_pylist() == [{"x": None}, {"x": 4}]
    assert exact_statistics(files, zeros, pa.array([True, True]), lambda _: False).rows["upper"].to_pylist() == [{"x": None}, {"x": None}]
