"""The grid of `benchmarks/shapes`: its design, the rows of its cells, and its page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from benchmarks.engines.sql import text_of
from benchmarks.scenarios import steps_of
from benchmarks.shapes import page
from benchmarks.shapes.__main__ import engines_of
from benchmarks.shapes.design import (
    Cell,
    cell_named,
    cell_names,
    cells,
    impossible_pairs,
    is_possible,
    peer_cell_names,
    possible_pairs,
)
from benchmarks.shapes.layout import columns, key_columns, partition_count
from benchmarks.shapes.rows import write_small_source, write_source, write_table
from benchmarks.shapes.statements import SOURCE, scenario_of_name

SEED, SCALE = 1, 0.0004
CELLS = cell_names(SEED)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_cells_cover_every_possible_pair_of_levels(seed: int) -> None:
    design = cells(seed)
    assert len(design) >= 72 and all(is_possible(cell.levels) for cell in design)
    assert set().union(*(cell.pairs for cell in design)) == possible_pairs()
    assert impossible_pairs() == {(("partitions", "transform"), ("format", "delta"))}
    assert cells(seed) == design != cells(seed + 10)


def test_each_peer_runs_in_at_least_twenty_cells() -> None:
    engines = [set(engines_of(name, SEED)) for name in CELLS]
    assert sum("delta-rs" in each for each in engines) >= 20
    assert sum(bool(each & {"delta-spark", "iceberg-spark-cow"}) for each in engines) == len(peer_cell_names(SEED)) == 20
    assert all(len(each & {"ours", "ours-cow", "ours-iceberg-mor", "ours-iceberg-cow"}) == 2 for each in engines)


@pytest.mark.full_suite("it writes the tables of 80 cells, and verifies only the benchmark")
@pytest.mark.parametrize("name", CELLS)
def test_the_source_of_a_cell_changes_the_share_of_the_rows(name: str, tmp_path: Path) -> None:
    cell = replace(cell_named(name), scale=SCALE)
    files = [str(file) for file in write_table(cell, tmp_path)]
    write_source(cell, tmp_path / "source.parquet")
    with duckdb.connect() as connection:
        connection.execute(f"create view t as select * from read_parquet({files!r})")
        connection.execute(f"create view s as select * from '{tmp_path}/source.parquet'")
        assert [row[0] for row in connection.execute("describe t").fetchall()] == list(columns(cell))
        keys = ", ".join(key_columns(cell))
        assert connection.execute(f"select count(*), count(distinct ({keys})) from t").fetchone() == (cell.rows, _distinct(cell))
        (changed,) = connection.execute(_changed_rows(cell)).fetchone() or (None,)
    expected = cell.rows * float(cell.share) / 100
    if cell.statement == "insert_overwrite" and cell.partitions in ("30", "1000"):
        expected = max(expected, cell.rows / partition_count(cell))
    assert abs(changed - expected) <= max(8, 5 * expected**0.5)


def _distinct(cell: Cell) -> int:
    return cell.rows - cell.rows // 1000 if cell.key == "nullable" else cell.rows


def _changed_rows(cell: Cell) -> str:
    """Return the query of the number of rows that a source changes."""
    if cell.statement == "mirror":  # rows that are updated, inserted, or deleted, because the source lacks them
        same = " and ".join(f"t.{name} is not distinct from s.{name}" for name in columns(cell))
        return f"select count(*) - (select count(*) from s semi join t on {same}) from t"
    if cell.statement == "scd2":
        return "select count(*) filter (change_type = 'update') from s"
    return "select count(*) from s"


@pytest.mark.parametrize("name", CELLS)
def test_the_statement_of_a_cell_reads_its_source(name: str) -> None:
    cell, scenario = cell_named(name), scenario_of_name(name)
    (step,) = steps_of(scenario)[""]
    text = text_of(step, scenario, "t", "")
    assert f" {SOURCE}" in text and text.startswith(
        "merge into t" if cell.statement not in ("delete+insert", "insert_overwrite") else "insert "
    )
    assert len(scenario.preparation) == (20 if cell.state == "20 merges" else 0)


def test_small_merges_change_a_thousand_scattered_rows(tmp_path: Path) -> None:
    cell = Cell("upsert", "int", "4", "1", "none", "20 merges", "sorted", "delta", scale=0.1)
    write_small_source(cell, 3, tmp_path / "small.parquet")
    with duckdb.connect() as connection:
        count, span = connection.execute(f"select count(*), max(k1) - min(k1) from '{tmp_path}/small.parquet'").fetchone() or (0, 0)
    assert 800 < count < 1200 and span > 0.9 * cell.rows


def test_the_page_counts_the_cells_that_reach_each_goal(tmp_path: Path) -> None:
    name = next(name for name in CELLS if "delta-rs" in engines_of(name, SEED))
    seconds = {"ours": [2.0, 1.0], "ours-cow": [5.0, 4.0], "delta-rs": [3.0, 2.0], "limit-spark": [1.0, 0.5]}
    lines = []
    for engine, (first, warm) in seconds.items():
        repetitions = [{"seconds": {"": each}, "memory": 3 << 30, "memory_of_java": 2 << 30} for each in (first, warm)]
        result = {"cell": name, "levels": cell_named(name).levels, "scale": 0.2, "engine": engine, "date": "2026-01-01"}
        result |= {"machine": {"cores": "2"}, "versions": {}}
        lines.append(json.dumps({**result, "rows": None, "failed": None, "repetitions": repetitions}))
    results = tmp_path / "results.jsonl"
    results.write_text("\n".join(lines) + "\n")
    page.main([str(results), "--docs", str(tmp_path)])
    text = (tmp_path / "performance_shapes.md").read_text()
    assert "1 of 80 cells. Tables of 1 million rows." in text
    assert "| delta-rs / copy-on-write | ≥ 1 in 90%, never below 0.7 | 1 | 0% | 0.50 | 0.50 |" in text
    assert "| delta-rs / auto | ≥ 1.5 in 90%, never below 1 | 1 | 100% | 2.00 | 2.00 |" in text
    assert "| ours / bare Spark jobs | ≤ 1.7 in 50% | 1 | 0% | 2.00 | 2.00 |" in text
    assert "| first / its goal | ≤ 1 in 100% | 1 | 100% | 0.80 | 0.80 |" in text
    assert "Java 2.0 GiB, Python 1.0 GiB" in text
    assert (tmp_path / "performance-shapes-1.svg").read_text().count("<rect") == 1 + 4
