"""The selection of files that are rewritten together."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from rowmerge.plan.file_strategy import Bin, CompactionOptions, bins_to_compact, bins_to_purge, bins_to_rewrite
from rowmerge.table.snapshots.files import FileListing

MB = 1024 * 1024


def listing(*files: tuple[str, int, int | None, int, str | None]) -> FileListing:
    """Return files of (path, MB, records, deleted rows, partition)."""
    rows: list[dict[str, Any]] = [
        {"path": path, "size": size * MB, "records": records, "deleted": deleted, "partition": {"p": p}}
        for path, size, records, deleted, p in files
    ]
    kinds = {
        "path": pa.string(),
        "size": pa.int64(),
        "records": pa.int64(),
        "deleted": pa.int64(),
        "partition": pa.struct([("p", pa.string())]),
    }
    return FileListing(pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items()))))


def paths(bins: list[Bin]) -> list[tuple[str, ...]]:
    return [chosen.paths for chosen in bins]


def compacted(files: FileListing, target: int = 100) -> list[tuple[str, ...]]:
    return paths(bins_to_compact(files, target * MB, CompactionOptions()))


def test_small_files_of_a_partition_form_bins_up_to_the_target_size() -> None:
    files = listing(("a", 40, 10, 0, "x"), ("b", 30, 10, 0, "x"), ("c", 50, 10, 0, "x"), ("d", 60, 10, 0, "x"))
    assert compacted(files) == [("b", "a")]
    assert compacted(files, 130) == [("b", "a", "c")]


def test_partitions_are_not_mixed() -> None:
    files = listing(("a", 1, 10, 0, "x"), ("b", 1, 10, 0, "y"), ("c", 1, 10, 0, None), ("d", 1, 10, 0, None))
    (chosen,) = bins_to_compact(files, MB * 100, CompactionOptions())
    assert (chosen.paths, dict(chosen.partition), chosen.size) == (("c", "d"), {"p": None}, 2 * MB)


def test_nan_is_one_partition_and_the_zeros_are_two() -> None:
    values = (math.nan, -0.0, 0.0, math.nan, -0.0, 0.0)
    files = listing(*((path, 1, 10, 0, None) for path in "abcdef"))
    partitions = pa.array([{"p": value} for value in values], pa.struct([("p", pa.float64())]))
    assert compacted(FileListing(files.rows.set_column(4, "partition", partitions))) == [("a", "d"), ("b", "e"), ("c", "f")]


def test_files_of_another_partition_spec_are_rewritten_at_any_size() -> None:
    files = listing(("a", 500, 10, 0, "x"), ("b", 400, 10, 0, "x"))
    others = listing(("c", 300, 10, 0, "x"), ("d", 20, 10, 0, "x"), ("e", 1, 10, 0, "x"))
    both = pa.concat_tables([files.rows, others.rows])
    divided = [row["path"] in ("b", "c", "e") for row in both.to_pylist()]
    unknown = pa.StructArray.from_arrays([both["partition"].combine_chunks().field(0)], names=["p"], mask=pa.array(divided))
    assert compacted(FileListing(both.set_column(4, "partition", unknown))) == [("e",), ("c",), ("b",)]


def test_a_single_or_large_file_is_not_rewritten() -> None:
    assert compacted(listing(("a", 1, 10, 0, "x"), ("b", 100, 10, 0, "x"), ("c", 300, 10, 0, "x"))) == []


def test_a_file_with_many_deleted_rows_is_rewritten() -> None:
    files = listing(("a", 300, 100, 6, "x"), ("b", 300, 100, 5, "x"), ("c", 300, None, 1, "x"))
    assert sorted(compacted(files)) == [("a",), ("c",)]


def test_a_file_with_many_deleted_rows_can_be_limited_to_combinations() -> None:
    files = listing(("a", 90, 100, 60, "x"), ("b", 3, 100, 0, "x"), ("c", 300, 100, 90, "y"), ("d", 30, 100, 0, "y"), ("e", 90, 9, 8, "z"))
    options = CompactionOptions(min_size=20 * MB, rewrites_single_files=False)
    assert paths(bins_to_compact(files, 100 * MB, options)) == [("b", "a")]
    assert ("c",) in paths(bins_to_compact(files, 100 * MB, CompactionOptions(min_size=20 * MB)))


def test_the_size_of_a_file_counts_only_its_live_rows() -> None:
    assert compacted(listing(("a", 150, 100, 90, "x"), ("b", 80, 100, 0, "x"))) == [("a", "b")]


def test_a_purge_selects_exactly_the_files_with_deleted_rows() -> None:
    files = listing(("a", 10, 100, 1, "x"), ("b", 10, 100, 0, "x"), ("c", 10, 100, 50, "x"), ("d", 10, 100, 1, "y"))
    assert paths(bins_to_purge(files, 100 * MB)) == [("c", "a"), ("d",)]


def test_bins_to_rewrite_combine_only_small_files_of_a_partition() -> None:
    files = listing(
        ("a", 4, 10, 1, "x"), ("b", 1, 10, 1, "x"), ("c", 1, 10, 1, "y"), ("d", 5, 10, 1, "x"), ("e", 4, 10, 0, "x"), ("f", 4, 10, 0, "x"),
        ("g", 4, 10, 0, "x"),
    )  # fmt: skip
    assert paths(bins_to_rewrite(files.files(), None)) == [("d",), ("b", "a", "e", "f"), ("g",), ("c",)]
    assert paths(bins_to_rewrite(files.files(), 5 * MB)) == [("d",), ("b", "a"), ("e",), ("f",), ("g",), ("c",)]


def test_no_files_give_no_bins() -> None:
    assert compacted(listing()) == []
    assert bins_to_purge(listing(), 1) == []
    assert bins_to_rewrite([], None) == []
