"""The parts of `make bench-reads` that need no other engine: the count of opened files, the shapes, and docs/reads.md."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.reads.count import Count, Counts
from benchmarks.reads.opened import data_files, opened_files
from benchmarks.reads.page import PAGE, page
from benchmarks.reads.shapes import shapes
from benchmarks.reads.tables import Size
from benchmarks.reads.timing import Timing, Timings
from benchmarks.reads.tpch import queries

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is part of Linux")


def test_a_data_file_that_any_process_opens_counts_once(tmp_path: Path) -> None:
    folder = tmp_path / "table" / "day=1"
    folder.mkdir(parents=True)
    (tmp_path / "table" / "_delta_log").mkdir()
    for name in ("day=1/a.parquet", "day=1/b.parquet", "day=1/.a.parquet.crc", "_delta_log/1.checkpoint.parquet"):
        (tmp_path / "table" / name).write_bytes(b"x")
    with opened_files([tmp_path / "table"]) as paths:
        for path in (tmp_path / "table").rglob("*"):
            if path.is_file() and path.name != "b.parquet":
                path.read_bytes()
        subprocess.run(["cat", str(folder / "a.parquet")], check=True, capture_output=True)
    assert paths == {str(folder / "a.parquet")}
    assert [path.name for path in data_files([tmp_path / "table"])] == ["a.parquet", "b.parquet"]


def test_more_files_than_the_kernel_can_queue_are_counted(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number}.parquet").touch()
    with opened_files([tmp_path]) as paths:
        for _ in range(6):
            for path in tmp_path.iterdir():
                path.read_bytes()
    assert len(paths) == 3000


def test_there_are_forty_shapes_with_names_of_their_own() -> None:
    names = Counter((shape.group, shape.name) for shape in shapes(Size()))
    assert len(names) >= 40
    assert max(names.values()) == 1


def test_a_shape_that_opens_more_than_the_better_peer_is_a_gap() -> None:
    counts = Counts({"files": 9, "rows": 9})
    opened = {("ours", "delta"): 1, ("ours", "iceberg"): 4, ("delta-spark", "delta"): 9, ("iceberg-spark", "iceberg"): 3}
    counts.counts = [Count("a range", "g", engine, format_, 9, files, "d", 1) for (engine, format_), files in opened.items()]
    assert counts.gaps() == ["g / a range: ours delta 1, ours iceberg 4, delta-spark delta 9, iceberg-spark iceberg 3"]
    counts.counts[1].opened = 3
    assert counts.gaps() == []


def test_engines_with_different_rows_disagree() -> None:
    timings = Timings(
        {}, {}, [Timing("6", "ours", "delta", "whole", [1.0], digest="a"), Timing("6", "duckdb", "delta", "whole", [3.0], digest="b")]
    )
    assert timings.disagreements() == ["whole 6: rows differ: {'a': ['ours (delta)'], 'b': ['duckdb (delta)']}"]
    assert timings.ratio(("ours", "delta"), ("duckdb", "delta"), "whole") == pytest.approx(1 / 3)


def test_tpch_has_all_its_queries() -> None:
    assert list(queries(10)) == [str(number) for number in range(1, 23)]
    assert "0.0000100000" in queries(10)["11"]


def test_the_page_of_reads_is_the_printed_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
