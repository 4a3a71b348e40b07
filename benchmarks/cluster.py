"""Print docs/performance_cluster.md and its chart: engines on a cluster of two workers, next to our engine on one machine.

python -m benchmarks.cluster benchmarks/measured/workers_sf{0.17,1,10}.json --less 1=benchmarks/measured/workers_sf10_1g.json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from math import log10
from pathlib import Path
from statistics import median

from benchmarks.engines.registry import ENGINES, ON_WORKERS
from benchmarks.results import Case, Run
from benchmarks.scenarios import SCENARIOS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PEERS = {"ours": "delta-spark-dv", "ours-iceberg-mor": "iceberg-spark-mor"}
"""By engine of ours: the peer with the same table format."""
ROWS_OF_SCALE_1 = 6_000_000
COLORS = dict(zip(ON_WORKERS, ("#2471a3", "#148f77", "#922b21", "#6c3483"), strict=True))
GROWTH = ("1", "3t")
"""The scenarios of the chart, which change 1 % and a third of the rows."""
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 260, 60, 70, 70
TICKS = (0.3, 1, 3, 10, 30, 100, 300, 1000)

HEAD = """<!-- Written by `python -m benchmarks.cluster`; change benchmarks/cluster.py instead. -->
# Performance on a cluster

Some scenarios of [the benchmark](performance.md) on a Spark standalone cluster: two workers with one core each, executors of 4 GB, and a
driver of {driver} GB. Driver and workers are processes of one machine, and share the table on its local disk. So there is no network and
no object store between them. The Python of the workers has only what `pip install 'pyspark[sql]'` installs. *Local* is our engine on the
same machine with two cores in the process of the driver. All engines ended with the same rows, which DuckDB reads. *Warm* is the median
of the repetitions after the first one; their number is in parentheses. Statements of minutes ran once, so their first repetitions are
compared. *Memory* is the largest resident size of all processes of the engine, including the master, the workers and unused heap of the
JVM. A JVM fills its heap before it collects garbage, so only smaller executors show how much memory a statement needs. Scenario 3t at 60
million rows ran later than the others, on another machine of the same kind, and for two minutes of Delta on Spark beside small tests.

    python -m benchmarks --scale 10 --engines 'ours,ours-iceberg-mor,workers-*' --scenarios 1,3,3t,6 --add \\
        --out benchmarks/measured/workers_sf10.json
"""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS)
    parser.add_argument("--driver", type=int, default=2, help="the memory of the driver in GB")
    parser.add_argument("--less", action="append", default=[], metavar="GB=FILE", help="results with executors of this memory")
    arguments = parser.parse_args(words)
    runs = sorted(map(Run.read, arguments.results), key=lambda run: run.scale)
    parts = [HEAD.format(driver=arguments.driver), *ratios_to_local(runs), "", *ratios_to_peers(runs[-1])]
    for gigabytes, path in (word.split("=", 1) for word in arguments.less):
        parts += ["", *with_less_memory(Run.read(Path(path)), gigabytes)]
    if len(runs) > 1:
        (arguments.docs / "performance-cluster.svg").write_text(growth(runs), encoding="utf-8")
        parts.append("\n![Seconds by rows of the table](performance-cluster.svg)\n")
    for run in reversed(runs):
        parts += table(run)
    (arguments.docs / "performance_cluster.md").write_text("\n".join([*parts, ""]), encoding="utf-8")


def ratios_to_local(runs: Sequence[Run]) -> list[str]:
    """Return a line for each run, the largest first, with the ratios to our engine on one machine and the scenarios that have one."""
    lines = ["The goals for our engine are 1.6 × its local time in the median of all scenarios, and 2.5 × at most. Measured are:", ""]
    for run in reversed(runs):
        pairs = [(case.scenario, _ratio(case, run.case(case.scenario, case.engine.removeprefix("workers-")))) for case in run.cases]
        ratios = [ratio for _, ratio in pairs if ratio]
        if ratios:
            measured = {name for name, ratio in pairs if ratio}
            names = ", ".join(name for name in run.scenarios() if name in measured)
            lines.append(f"- {_rows(run)} rows, scenarios {names}: {median(ratios):.2f} × in the median, {max(ratios):.2f} × at most")
    return lines


def ratios_to_peers(run: Run) -> list[str]:
    """Return a sentence for each peer on the same cluster."""
    lines = []
    for ours, peer in PEERS.items():
        pairs = [(run.case(name, f"workers-{ours}"), run.case(name, f"workers-{peer}")) for name in run.scenarios()]
        gains = [1 / ratio for own_case, peer_case in pairs if own_case and (ratio := _ratio(own_case, peer_case))]
        if gains:
            names = ", ".join(name for name in run.scenarios() if run.case(name, f"workers-{peer}"))
            ratios = f"{min(gains):.2f} to {max(gains):.2f} × our time on the same cluster"
            lines.append(f"At {_rows(run)} rows, {ENGINES[peer].title} takes {ratios} (scenarios {names}).")
    return lines


def with_less_memory(run: Run, gigabytes: str) -> list[str]:
    """Return a sentence for each case of a run with smaller executors than those of the tables."""
    lines = []
    for case in run.cases:
        outcome = case.failed
        if case.first is not None:
            memory = max(repetition["memory"] for repetition in case.repetitions) / 1e9
            outcome = f"takes {_number(case.first)} s and {_number(memory)} GB"
        title = ENGINES[case.engine.removeprefix("workers-")].title
        lines.append(f"- With executors of {gigabytes} GB, scenario {case.scenario} of {title} at {_rows(run)} rows {outcome}.")
    return lines


def table(run: Run) -> list[str]:
    """Return the table of one run, with a line for each scenario and engine on the cluster."""
    machine = ", ".join(f"{value} {name}" if name == "cores" else f"{name} {value}" for name, value in run.machine.items())
    lines = [
        f"\n## {_rows(run)} rows\n",
        f"{run.date}; {machine}; {', '.join(f'{name} {version}' for name, version in sorted(run.versions.items()))}.\n",
        "| scenario | engine | first, s | warm, s | local, s | × local | × ours | memory, GB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in run.scenarios():
        for engine in ON_WORKERS:
            case = run.case(name, f"workers-{engine}")
            if case is None:
                continue
            local = run.case(name, engine)
            ours = next((own for own, peer in PEERS.items() if peer == engine), engine)
            ratios = [_ratio(case, local), _ratio(case, run.case(name, f"workers-{ours}")) if ours != engine else None]
            warm = f"{case.warm:.1f} ({len(case.repetitions) - 1})" if case.warm else ""
            memory = max((repetition["memory"] for repetition in case.repetitions), default=0) / 1e9
            local_seconds = None if local is None else local.warm if case.warm else local.first
            cells = [_number(case.first), warm, _number(local_seconds), *map(_number, ratios), _number(memory)]
            title = case.failed or SCENARIOS[name].title
            lines.append(f"| **{name}** {title} | {ENGINES[engine].title} | {' | '.join(cells)} |")
    return lines


def growth(runs: Sequence[Run]) -> str:
    """Return a chart of seconds by rows for each engine on the cluster, on logarithmic scales: an area for each scenario."""
    chart = _Chart(runs)
    width, height = LEFT + len(GROWTH) * (WIDTH + GAP), TOP + HEIGHT + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for index, engine in enumerate(ON_WORKERS):
        x, y = LEFT + 330 * (index % 2), 16 + 16 * (index // 2)
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{COLORS[engine]}"/>')
        parts.append(f'<text x="{x + 10}" y="{y + 4}">{escape(ENGINES[engine].title)}</text>')
    for index, scenario in enumerate(GROWTH):
        parts += chart.area(LEFT + index * (WIDTH + GAP), scenario)
    return "\n".join([*parts, "</svg>", ""])


class _Chart:
    """The scales of a chart of warm seconds by rows, which all its areas share."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        measured = [_seconds(run, name, engine) for run in runs for name in GROWTH for engine in ON_WORKERS]
        seconds = [value for value in measured if value] or [1.0]
        self._low, self._high = log10(min(seconds) * 0.8), log10(max(seconds) * 1.25)
        self._first, self._last = (log10(run.scale) for run in (runs[0], runs[-1]))

    def area(self, start: float, scenario: str) -> list[str]:
        """Return the area of a scenario as SVG. `start`: the position of its left border."""
        parts = [
            f'<text x="{start}" y="{TOP - 10}" font-weight="bold">{escape(SCENARIOS[scenario].title)}: seconds by rows</text>',
            f'<rect x="{start}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>',
        ]
        for run in self._runs:
            parts.append(f'<text x="{start + self._x(run):.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{_rows(run)}</text>')
        for value in [value for value in TICKS if self._low <= log10(value) <= self._high]:
            y = self._y(value)
            parts.append(f'<line x1="{start}" y1="{y:.1f}" x2="{start + WIDTH}" y2="{y:.1f}" stroke="#ddd"/>')
            parts.append(f'<text x="{start - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
        for engine, color in COLORS.items():
            measured = [(run, _seconds(run, scenario, engine)) for run in self._runs]
            points = [(start + self._x(run), self._y(value)) for run, value in measured if value]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>' for x, y in points]
        return parts

    def _x(self, run: Run) -> float:
        return WIDTH * (log10(run.scale) - self._first) / ((self._last - self._first) or 1)

    def _y(self, seconds: float) -> float:
        return TOP + HEIGHT * (self._high - log10(seconds)) / (self._high - self._low)


def _seconds(run: Run, scenario: str, engine: str) -> float | None:
    """Return the warm seconds of an engine on the cluster, or those of its only repetition."""
    case = run.case(scenario, f"workers-{engine}")
    return None if case is None else case.warm or case.first


def _ratio(case: Case, other: Case | None) -> float | None:
    """Return how many times as long a case takes as another, or None if one was not measured or both are the same.

    The first repetitions are compared if one of the cases has no other.
    """
    if other is None or other is case or not case.first or not other.first:
        return None
    return case.warm / other.warm if case.warm and other.warm else case.first / other.first


def _rows(run: Run) -> str:
    return f"{run.scale * ROWS_OF_SCALE_1 / 1e6:.0f} million"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


if __name__ == "__main__":
    main()
