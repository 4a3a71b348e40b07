"""The growth curves of `benchmarks/growth`: the fitted exponents, the bends, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.growth import page
from benchmarks.growth.page import bends, exponent
from benchmarks.growth.points import CURVES, FORMATS, Point, point_names


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_the_power(slope: float) -> None:
    assert exponent({x: 3.0 * x**slope for x in (10.0, 100.0, 3_000.0)}) == pytest.approx(slope)


def test_a_curve_bends_where_its_exponent_changes() -> None:
    fixed_and_linear = {1.0: 2.0, 10.0: 2.0, 100.0: 20.0, 1_000.0: 200.0}
    assert bends(fixed_and_linear) == [(10.0, pytest.approx(0.0), pytest.approx(1.0))]
    assert bends({x: x for x in (1.0, 10.0, 100.0)}) == []
    assert bends({x: y / 1_000 for x, y in fixed_and_linear.items()}) == []  # differences of milliseconds are noise


def test_names_of_points_state_their_tables() -> None:
    for name in point_names():
        assert Point.from_name(name).name == name
    assert len(point_names()) == len(FORMATS) * sum(map(len, CURVES.values()))
    wide = Point.from_name("columns-256-iceberg")
    assert (wide.rows, wide.columns, wide.partitions, wide.share) == (200_000, 256, 1, 1.0)
    assert Point.from_name("share-0.001-delta").share == 0.001 and not wide.is_synthetic and Point.from_name("files-10-delta").is_synthetic


def test_the_page_shows_each_curve_with_its_exponent(tmp_path: Path) -> None:
    numbers = {"requests": 4, "bytes_read": 2e6, "bytes_written": 1e6, "files": 2, "memory_of_python": 3e8, "memory_of_java": 2e9}
    lines = [
        {
            "point": f"rows-{rows}-{format_}",
            "operations": {
                "open": {"seconds": 0.1, **numbers},
                "select": {"seconds": 0.2, **numbers},
                "merge": {"seconds": rows / 1e6, **numbers},
            },
            "date": "2026-01-01",
            "machine": {"cores": "2"},
            "versions": {"rowmerge": "1"},
        }
        for format_ in FORMATS
        for rows in (1_000_000, 10_000_000)
    ]
    results = tmp_path / "growth.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page.main([str(results), "--docs", str(tmp_path)])
    text = (tmp_path / "performance_growth.md").read_text()
    assert "| delta | 10,000,000 | 0.10 | 0.20 | 10.00 | 4 | 4 | 4 | 2.0 | 1.0 | 2 | 300 | 2,000 |" in text
    assert "| iceberg | merge | 1.00 | 1.00 | none |" in text and "| delta | open | 0.00 | 0.00 | none |" in text
    assert (tmp_path / page.PICTURE).read_text().count("<polyline") == 6
