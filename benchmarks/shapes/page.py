"""Print docs/performance_shapes.md, with its heat map, from the results of the grid.

python -m benchmarks.shapes.page benchmarks/measured/shapes_1.jsonl benchmarks/measured/shapes_2.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log2
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.results import read_lines
from benchmarks.shapes.__main__ import LIMIT, ON_JVM, OURS
from benchmarks.shapes.design import FACTORS, cell_names, cells, impossible_pairs

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = "performance-shapes-{seed}.svg"
_HEAD = """<!-- Written by `python -m benchmarks.shapes.page`; change benchmarks/shapes/page.py instead. -->
# Performance by shape

Each cell of the grid is one table and one statement. A seed determines the cells, which cover every pair of levels of these factors:

{factors}

Tables with 200 columns have at most 200,000 rows. `share` is the changed rows in percent. An `update` reads a column of the target. A
table with the state `20 merges` got 20 upserts of 1,000 rows each, from the engine itself. These pairs do not
exist: {impossible}. An `insert_overwrite` without partitions replaces all rows.

**Method.** Each engine runs in a new process on a copy of the same table. *First* is the first statement of the session, after Spark has
started. *Warm* is the median of three more, each on a new copy. Slow statements have fewer, because the last one begins within 30 seconds.
*Bare* is the time of Spark jobs that only read the needed columns and write the needed rows. After the first statement, DuckDB reads each
table: engines with the same table format ended with the same rows, if no cell says otherwise. `make bench-shapes SEED=1` runs the grid.
"""
Results = Mapping[str, Mapping[str, Any]]
"""The results of a cell by engine."""


@dataclass(frozen=True)
class Comparison:
    """A goal of the grid: a ratio in each cell, how many cells must reach it, and the least ratio.

    `ratio` returns None for a cell without the engine. `at_most`: whether a smaller ratio is better, so that `limit` is the greatest one.
    """

    title: str
    goal: float
    share: float
    limit: float | None
    ratio: Callable[[str, Results], float | None]
    at_most: bool = False

    def is_met(self, value: float) -> bool:
        """Return whether the ratio of a cell reaches the goal."""
        return value <= self.goal if self.at_most else value >= self.goal


def warm(result: Mapping[str, Any] | None) -> float | None:
    """Return the median seconds of the repetitions after the first, or None if the engine failed."""
    if result is None or result["failed"] or len(result["repetitions"]) < 2:
        return None
    seconds: float = median(sum(repetition["seconds"].values()) for repetition in result["repetitions"][1:])
    return seconds


def first(result: Mapping[str, Any] | None) -> float | None:
    """Return the seconds of the first statement, or None if the engine failed."""
    if result is None or result["failed"] or not result["repetitions"]:
        return None
    seconds: float = sum(result["repetitions"][0]["seconds"].values())
    return seconds


def _against(peer: Callable[[str], str | None], ours: Callable[[str], str]) -> Callable[[str, Results], float | None]:
    """Return the function for the ratio of a peer's time to ours. `peer` and `ours`: the engine for a table format."""

    def ratio(format_: str, results: Results) -> float | None:
        peer_seconds, our_seconds = warm(results.get(peer(format_) or "")), warm(results.get(ours(format_)))
        return None if peer_seconds is None or our_seconds is None else peer_seconds / our_seconds

    return ratio


def _to_bare(format_: str, results: Results) -> float | None:
    ours, bare = warm(results.get(OURS[format_][0])), warm(results.get(LIMIT[format_]))
    return None if ours is None or not bare else ours / bare


def _first_to_warm(format_: str, results: Results) -> float | None:
    """Return the first statement as a multiple of its goal: 1.5 times its warm time, and the first of the bare jobs."""
    ours = results.get(OURS[format_][0])
    seconds, warm_seconds, spark_seconds = first(ours), warm(ours), first(results.get(LIMIT[format_]))
    if seconds is None or warm_seconds is None or spark_seconds is None:
        return None
    return seconds / (1.5 * warm_seconds + spark_seconds)


COMPARISONS = (
    Comparison("delta-rs / copy-on-write", 1.0, 0.9, 0.7, _against(lambda f: "delta-rs" if f == "delta" else None, lambda f: OURS[f][1])),
    Comparison("delta-rs / auto", 1.5, 0.9, 1.0, _against(lambda f: "delta-rs" if f == "delta" else None, lambda f: OURS[f][0])),
    Comparison("JVM, deleted rows / ours", 2.0, 0.9, 1.2, _against(lambda f: ON_JVM[f][0], lambda f: OURS[f][0])),
    Comparison("JVM, copy-on-write / ours", 2.0, 0.9, 1.2, _against(lambda f: ON_JVM[f][1], lambda f: OURS[f][1])),
    Comparison("ours / bare Spark jobs", 1.7, 0.5, None, _to_bare, at_most=True),
    Comparison("first / its goal", 1.0, 1.0, None, _first_to_warm, at_most=True),
)


def main(words: list[str] | None = None) -> None:
    """Write the page and its pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS)
    arguments = parser.parse_args(words)
    parts = [_HEAD.format(factors=_factors(), impossible=_impossible())]
    for file in arguments.results:
        results = read_lines(file)
        seed = int(results[0]["cell"].split("-")[1])
        by_cell: dict[str, dict[str, Any]] = {}
        for result in results:
            by_cell.setdefault(result["cell"], {})[result["engine"]] = result
        (arguments.docs / PICTURE.format(seed=seed)).write_text(heat_map(by_cell), encoding="utf-8")
        parts.append(_section(seed, by_cell))
    (arguments.docs / "performance_shapes.md").write_text("\n".join(parts), encoding="utf-8")


def _factors() -> str:
    return "\n".join(f"- {name}: {', '.join(levels)}" for name, levels in FACTORS.items())


def _impossible() -> str:
    pairs = sorted(impossible_pairs())
    return "; ".join(f"{first_name} {first_level} with {name} {level}" for (first_name, first_level), (name, level) in pairs)


def _section(seed: int, by_cell: Mapping[str, Results]) -> str:
    any_result = next(iter(next(iter(by_cell.values())).values()))
    machine = ", ".join(f"{name} {value}" for name, value in any_result["machine"].items())
    versions = {
        name: version for results in by_cell.values() for result in results.values() for name, version in result["versions"].items()
    }
    scales = sorted({result["scale"] for results in by_cell.values() for result in results.values()})
    dates = sorted({result["date"] for results in by_cell.values() for result in results.values()})
    lines = [
        f"\n## Seed {seed}\n",
        f"{len(by_cell)} of {len(cells(seed))} cells. Tables of {' and '.join(map(_millions, scales))} rows. "
        f"{dates[0]} to {dates[-1]}; {machine}; "
        f"{', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}.\n",
        "| ratio | goal | cells | reach the goal | median | worst |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *(_goal_row(comparison, by_cell) for comparison in COMPARISONS),
        _memory_row(by_cell),
        f"\n![Ratios of all cells]({PICTURE.format(seed=seed)})\n",
        *_failures(by_cell),
        *_seconds(seed, by_cell),
    ]
    return "\n".join(lines)


def _millions(scale: float) -> str:
    return f"{5 * scale:g} million"


def _values(comparison: Comparison, by_cell: Mapping[str, Results]) -> list[float]:
    values = (comparison.ratio(_format(results), results) for results in by_cell.values())
    return [value for value in values if value is not None]


def _format(results: Results) -> str:
    format_: str = next(iter(results.values()))["levels"]["format"]
    return format_


def _goal_row(comparison: Comparison, by_cell: Mapping[str, Results]) -> str:
    values, sign = _values(comparison, by_cell), "≤" if comparison.at_most else "≥"
    if not values:
        return f"| {comparison.title} | – | 0 | – | – | – |"
    worst = max(values) if comparison.at_most else min(values)
    goal = f"{sign} {comparison.goal:g} in {comparison.share:.0%}" + (f", never below {comparison.limit:g}" if comparison.limit else "")
    reached = sum(comparison.is_met(value) for value in values) / len(values)
    return f"| {comparison.title} | {goal} | {len(values)} | {reached:.0%} | {median(values):.2f} | {worst:.2f} |"


def _memory_row(by_cell: Mapping[str, Results]) -> str:
    peaks = [
        (repetition["memory"] - repetition["memory_of_java"], repetition["memory_of_java"])
        for results in by_cell.values()
        for engine, result in results.items()
        if engine.startswith("ours")
        for repetition in result["repetitions"]
        if repetition["memory"] is not None
    ]
    if not peaks:
        return ""
    python, java = (max(peak) / 2**30 for peak in zip(*peaks, strict=True))
    return f"\nThe highest memory of our processes: Java {java:.1f} GiB, Python {python:.1f} GiB."


def _failures(by_cell: Mapping[str, Results]) -> list[str]:
    """Return a line for each engine that failed in a cell, and for each cell whose engines ended with different rows."""
    lines = []
    for cell, results in by_cell.items():
        lines += [f"- {cell}, {engine}: {result['failed']}" for engine, result in results.items() if result["failed"]]
        rows = {result["rows"] for result in results.values() if result["rows"]}
        if len(rows) > 1:
            ends = ", ".join(f"{engine} {result['rows']}" for engine, result in results.items())
            lines.append(f"- {cell}: different rows: {ends}")
    return ["Not counted:\n", *lines, ""] if lines else []


def _seconds(seed: int, by_cell: Mapping[str, Results]) -> list[str]:
    lines = [
        "Seconds of the warm statement; of ours also of the first one, in parentheses.\n",
        f"| cell | {' | '.join(FACTORS)} | ours | copy-on-write | bare | delta-rs | JVM | JVM, copy-on-write |",
        f"| --- |{' --- |' * len(FACTORS)} ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in cell_names(seed):
        if name in by_cell:
            results, format_ = by_cell[name], _format(by_cell[name])
            engines = (*OURS[format_], LIMIT[format_], "delta-rs", *ON_JVM[format_])
            levels = next(iter(results.values()))["levels"]
            cells_of_row = [name.rpartition("-")[2], *levels.values(), *(_time(engine, results.get(engine)) for engine in engines)]
            lines.append(f"| {' | '.join(cells_of_row)} |")
    return lines


def _time(engine: str, result: Mapping[str, Any] | None) -> str:
    seconds, first_seconds = warm(result), first(result)
    if seconds is None or first_seconds is None:
        return "–" if result is None else "failed"
    return f"{seconds:.2f} ({first_seconds:.1f})" if engine.startswith("ours") else f"{seconds:.2f}"


_ROW, _COLUMN, _LEFT, _TOP = 16, 130, 520, 40


def heat_map(by_cell: Mapping[str, Results]) -> str:
    """Return an SVG with a row for each cell and a column for each comparison. Green is better than the goal, red is worse."""
    width, height = _LEFT + _COLUMN * len(COMPARISONS) + 10, _TOP + _ROW * len(by_cell) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for column, comparison in enumerate(COMPARISONS):
        parts.append(f'<text x="{_LEFT + column * _COLUMN + 4}" y="{_TOP - 10}">{comparison.title}</text>')
    for row, (name, results) in enumerate(sorted(by_cell.items())):
        y, levels = _TOP + row * _ROW, next(iter(results.values()))["levels"]
        parts.append(f'<text x="4" y="{y + 12}">{name.rpartition("-")[2]} {" · ".join(levels.values())}</text>')
        for column, comparison in enumerate(COMPARISONS):
            value = comparison.ratio(levels["format"], results)
            if value is not None:
                parts.append(_heat(_LEFT + column * _COLUMN, y, comparison, value))
    return "\n".join([*parts, "</svg>\n"])


def _heat(x: int, y: int, comparison: Comparison, value: float) -> str:
    """Return a rectangle with a ratio. Its color is saturated at four times the goal, and at a quarter of it."""
    distance = log2(value / comparison.goal) * (-1 if comparison.at_most else 1)
    strength = min(1.0, abs(distance) / 2)
    faint = round(255 - 120 * strength)
    color = f"rgb({faint},{round(255 - 40 * strength)},{faint})" if distance >= 0 else f"rgb(255,{faint},{faint})"
    label = f'<text x="{x + 8}" y="{y + 12}">{value:.2f}</text>'
    return f'<rect x="{x}" y="{y}" width="{_COLUMN - 2}" height="{_ROW - 1}" fill="{color}"/>{label}'


if __name__ == "__main__":
    main()
