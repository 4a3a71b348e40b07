"""Print docs/performance.md and its charts from the results of one or several runs.

python -m benchmarks.report benchmarks/measured/sf1.json benchmarks/measured/sf10.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import geometric_mean, median

from benchmarks.engines.registry import ENGINES
from benchmarks.losses import losses
from benchmarks.plot import bar_chart, plot
from benchmarks.results import Case, Run
from benchmarks.scenarios import SCENARIOS, steps_of

DOCS = Path(__file__).resolve().parents[1] / "docs"
SAME_MODE = {
    "delta-spark": "ours-cow",
    "delta-spark-dv": "ours-mor",
    "iceberg-spark-cow": "ours-iceberg-cow",
    "iceberg-spark-mor": "ours-iceberg-mor",
}
"""By peer: our engine with the same table format and write mode."""
MERGES = ("1", "2", "3", "4", "5", "6")

HEAD = """# Performance

The benchmark in `benchmarks` prints this page. `make bench` runs the main scenarios at TPC-H's scale factor 1 (6 million rows of
lineitem), `make bench SCALE=10` at 10, and `make bench-all` runs all scenarios. `make bench-peers` installs the engines for comparison.
`make performance-page` prints this page from the results in `benchmarks/measured`.

**Method.** Each engine runs in its own process, with the same cores and memory, one after the other, on the same data files. Before each
repetition, the table is restored, outside the measured time. After the first repetition, DuckDB reads each table: all engines ended with
the same rows.

- *First* is the first repetition, on a table that was never opened. *Warm* is the median of the later ones. The last table shows their
  number in parentheses; slow scenarios are repeated less.
- *Limit* is the time of bare jobs that read the needed columns and write the needed rows, without a join or a commit. The pyarrow jobs
  have no goal, because they run in the process that starts them, while a statement on Spark consists of several Spark jobs of tens of
  milliseconds each.
- *Bytes read* are all bytes that the processes of the engine read, from the page cache or not. *Files* are data files and files of
  deleted rows that were added, removed or replaced. *Memory* is the largest resident size of all processes of the engine, including
  unused heap of the JVM.
- *× ours* compares with our engine in the same mode, if it was measured.

`--add` adds cases to an earlier run, so the engines of one row can be hours apart. The speed of a shared machine can change by half in
that time. Measure in one run what you want to compare closely.
"""


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS)
    arguments = parser.parse_args(words)
    runs = [Run.read(path) for path in arguments.results]
    parts = [HEAD]
    (arguments.docs / "performance-chart.svg").write_text(bar_chart(runs[0]), encoding="utf-8")
    for run in runs:
        name = f"performance-sf{run.scale:g}.svg"
        (arguments.docs / name).write_text(plot(run), encoding="utf-8")
        parts.append(section(run, name))
    (arguments.docs / "performance.md").write_text("\n".join(parts), encoding="utf-8")


def section(run: Run, picture: str) -> str:
    """Return the section of the page for one run."""
    where = ", ".join(f"{value} {name}" if name == "cores" else f"{name} {value}" for name, value in run.machine.items())
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    skipped = "".join(f"\nLeft out: {ENGINES[engine].title} ({why})." for engine, why in run.skipped.items())
    warm = max((len(case.repetitions) - 1 for case in run.cases), default=0)
    return "\n".join(
        [
            f"\n## Scale factor {run.scale:g}\n",
            f"{run.date}; {where}; {versions}. Up to {warm} warm repetitions.{skipped}\n",
            *goals(run),
            f"\n![Seconds of each engine as a multiple of ours]({picture})\n",
            *seconds(run),
            *labels(run),
            *cold(run),
            *losses(run),
            *everything(run),
        ]
    )


def goals(run: Run) -> list[str]:
    """Return the table of goals with the measured ratios."""
    rows = [
        ("Delta on Spark, our `auto`", "≥ 3", _gains(run, ("delta-spark", "delta-spark-dv"), "ours", MERGES)),
        ("Iceberg on Spark, copy-on-write as ours", "≥ 2", _gains(run, ("iceberg-spark-cow",), "ours-iceberg-cow", MERGES)),
        ("Iceberg on Spark, merge-on-read as ours", "≥ 2", _gains(run, ("iceberg-spark-mor",), "ours-iceberg-mor", MERGES)),
        ("delta-rs, our `auto`", "≥ 2" if run.scale >= 10 else "≥ 1", _gains(run, ("delta-rs",), "ours", MERGES)),
        ("the limit of bare Spark jobs", "≥ 0.67", _gains(run, ("limit-spark",), "ours", MERGES)),
        ("the limit of bare pyarrow jobs", "none", _gains(run, ("limit-arrow",), "ours", MERGES)),
    ]
    rows_of_goals = [
        f"| {what} | {', '.join(gains)} | {goal} | {geometric_mean(gains.values()):.2f} | {min(gains.values()):.2f} "
        f"| {max(gains.values()):.2f} |"
        for what, goal, gains in rows
        if gains
    ]
    head = ["| times faster than | scenarios | goal | geometric mean | least | most |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    lines = [*head, *rows_of_goals] if rows_of_goals else []
    few = run.case("8", "ours")
    if few is not None and few.warm is not None:
        stages = _stages(few)
        lines.append(f"\nA merge of 10 rows takes {few.warm:.2f} s ({_stage_list(stages)}); goals: 0.7 s, of which plan and commit 0.15 s.")
    for engine in ("ours", "ours-iceberg-mor"):
        row = run.case("9", engine)
        ratio = row.ratio("scan", "scan, compacted") if row else None
        if ratio:
            lines.append(
                f"\n{ENGINES[engine].title}: a scan after 20 small merges takes {ratio:.2f} × of that of the compacted table; goal 1.5."
            )
    return lines


def seconds(run: Run) -> list[str]:
    """Return the table of warm seconds by scenario and engine."""
    engines = run.engines()
    lines = [
        "\n### Warm seconds\n",
        f"| | {' | '.join(ENGINES[engine].title for engine in engines)} |",
        "| --- |" + " ---: |" * len(engines),
    ]
    for name in run.scenarios():
        cells = [_seconds(run.case(name, engine)) for engine in engines]
        lines.append(f"| **{name}** {SCENARIOS[name].title} | {' | '.join(cells)} |")
    return lines


def labels(run: Run) -> list[str]:
    """Return a table of warm seconds by step for each scenario with several steps."""
    engines, lines = run.engines(), list[str]()
    for name in run.scenarios():
        steps = steps_of(SCENARIOS[name])
        if len(steps) > 1:
            lines += [
                f"\n**{name}** {SCENARIOS[name].title}, by its parts:\n",
                f"| | {' | '.join(ENGINES[engine].title for engine in engines)} |",
                "| --- |" + " ---: |" * len(engines),
            ]
            for label in steps:
                cases = [run.case(name, engine) for engine in engines]
                parts = [None if case is None else case.part(label) for case in cases]
                lines.append(f"| {label} | {' | '.join('' if part is None else f'{part:.2f}' for part in parts)} |")
    return lines


def cold(run: Run) -> list[str]:
    """Return the table of seconds of processes that run one scenario and end."""
    cases = [case for case in run.cases if case.cold]
    if not cases:
        return []
    engines = [engine for engine in run.engines() if any(case.engine == engine for case in cases)]
    lines = [
        "\n### Cold seconds\n",
        "From the start of a process to the end of its first repetition, including the start of Spark, without an archive of Java's",
        f"classes; medians of up to {max(len(case.cold) for case in cases)} processes.\n",
        f"| | {' | '.join(ENGINES[engine].title for engine in engines)} |",
        "| --- |" + " ---: |" * len(engines),
    ]
    for name in [name for name in run.scenarios() if any(case.scenario == name for case in cases)]:
        engine_cases = [run.case(name, engine) for engine in engines]
        cells = [f"{median(case.cold):.2f}" if case and case.cold else "" for case in engine_cases]
        lines.append(f"| **{name}** {SCENARIOS[name].title} | {' | '.join(cells)} |")
    return lines


def everything(run: Run) -> list[str]:
    """Return the table of all measurements, with a line for each scenario and engine."""
    lines = [
        "\n### All figures\n",
        "| scenario | engine | first, s | warm, s | × ours | read, MB | written, MB | files | memory, MB | of it |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for case in sorted(run.cases, key=lambda case: run.scenarios().index(case.scenario)):
        if case.failed:
            lines.append(f"| {case.scenario} | {ENGINES[case.engine].title} | {_cell(case.failed)} | | | | | | | |")
            continue
        reference = run.case(case.scenario, SAME_MODE.get(case.engine, "ours")) or run.case(case.scenario, "ours")
        ratio = "" if not (reference and reference.warm and case.warm) else f"{case.warm / reference.warm:.2f}"
        sizes = [_number(case.of(name), 1e6) for name in ("bytes_read", "bytes_written")]
        counts = [_number(case.of("files"), 1), _number(case.of("memory"), 1e6)]
        warm = f"{_format_seconds(case.warm)} ({len(case.repetitions) - 1})" if case.warm is not None else ""
        cells = [_format_seconds(case.first), warm, ratio, *sizes, *counts, _stage_list(_stages(case))]
        lines.append(f"| {case.scenario} | {ENGINES[case.engine].title} | {' | '.join(cells)} |")
    return [*lines, ""]


def _gains(run: Run, peers: tuple[str, ...], ours: str, scenarios: tuple[str, ...]) -> dict[str, float]:
    """Return by scenario how many times faster ours is than the fastest of the peers."""
    gains = {}
    for scenario in scenarios:
        own_case = run.case(scenario, ours)
        peer_seconds = [case.warm for peer in peers if (case := run.case(scenario, peer)) is not None and case.warm]
        if own_case is not None and own_case.warm and peer_seconds:
            gains[scenario] = min(peer_seconds) / own_case.warm
    return gains


def _stages(case: Case) -> dict[str, float]:
    """Return the median seconds of each stage that the engine reports."""
    warm = [r["stages"] for r in case.repetitions[1:]]
    names = dict.fromkeys(name for stages in warm for name in stages)
    return {name: sorted(stages.get(name, 0.0) for stages in warm)[len(warm) // 2] for name in names}


def _stage_list(stages: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in stages.items())


def _seconds(case: Case | None) -> str:
    if case is None:
        return ""
    return "failed" if case.failed else _format_seconds(case.warm)


def _format_seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _number(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:.1f}" if unit > 1 and value < 10 * unit else f"{value / unit:.0f}"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")[:120]


if __name__ == "__main__":
    main()
