"""Prints docs/performance.md, with its plot, of the results of one or several runs.

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
"""Which of ours does the same as a peer."""
MERGES = ("1", "2", "3", "4", "5", "6")

HEAD = """# Performance

Printed by the benchmark itself: [`benchmarks/`](../benchmarks). `make bench` runs the most telling scenarios at TPC-H's scale factor 1 (6
million rows of lineitem), `make bench SCALE=10` at 10, `make bench-all` all of them; `make bench-peers` brings the engines to compare with;
`make performance-page` prints this page of what they left in `benchmarks/measured`.

Every engine works in a process of its own, with the same cores and memory, one after the other, on the same data files, and gets its table
back as it was before each repetition, outside of what is timed. *First* is the first repetition, on a table that was never opened; *warm*
is the median of those after it, whose number stands behind it in the last table: what takes long is repeated less. After the first, DuckDB
reads each table: all engines ended with the same rows. *Limit* is bare jobs that read the columns and write the rows that nobody can do
without: no join, no commit. Those of pyarrow have no goal: they run in the process that starts them, where a statement on Spark is some
jobs of Spark, each of which takes its tens of milliseconds and more. Bytes read are all bytes that the engine's processes read, from the
page cache or not; files are data files and files of deleted rows that were added, removed or replaced; *× ours* is set beside our engine in
the same mode, where that was measured; memory is the highest resident size of the engine's processes together, the JVM's unused heap
included.

`--add` puts cases that are measured later beside those that are there, so engines of one row may be hours apart. The speed of a shared
machine may change by half in that time: what is set side by side closely should be measured in one run.
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
    """One run's part of the page."""
    where = ", ".join(f"{value} {name}" if name == "cores" else f"{name} {value}" for name, value in run.machine.items())
    versions = ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items()))
    skipped = "".join(f"\nLeft out: {ENGINES[engine].title} ({why})." for engine, why in run.skipped.items())
    warm = max((len(case.repetitions) - 1 for case in run.cases), default=0)
    return "\n".join(
        [
            f"\n## Scale factor {run.scale:g}\n",
            f"{run.date}; {where}; {versions}. Up to {warm} warm repetitions.{skipped}\n",
            *goals(run),
            f"\n![seconds of each engine, in multiples of ours]({picture})\n",
            *seconds(run),
            *labels(run),
            *cold(run),
            *losses(run),
            *everything(run),
        ]
    )


def goals(run: Run) -> list[str]:
    """The ratios that were aimed at, and what they are."""
    rows = [
        ("Delta on Spark, our `auto`", "≥ 3", _gains(run, ("delta-spark", "delta-spark-dv"), "ours", MERGES)),
        ("Iceberg on Spark, copy-on-write as ours", "≥ 2", _gains(run, ("iceberg-spark-cow",), "ours-iceberg-cow", MERGES)),
        ("Iceberg on Spark, merge-on-read as ours", "≥ 2", _gains(run, ("iceberg-spark-mor",), "ours-iceberg-mor", MERGES)),
        ("delta-rs, our `auto`", "≥ 2" if run.scale >= 10 else "≥ 1", _gains(run, ("delta-rs",), "ours", MERGES)),
        ("the limit of bare Spark jobs", "≥ 0.67", _gains(run, ("limit-spark",), "ours", MERGES)),
        ("the limit of bare pyarrow jobs", "none", _gains(run, ("limit-arrow",), "ours", MERGES)),
    ]
    told = [
        f"| {what} | {', '.join(gains)} | {goal} | {geometric_mean(gains.values()):.2f} | {min(gains.values()):.2f} "
        f"| {max(gains.values()):.2f} |"
        for what, goal, gains in rows
        if gains
    ]
    head = ["| times faster than | scenarios | goal | geometric mean | least | most |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    lines = [*head, *told] if told else []
    few = run.case("8", "ours")
    if few is not None and few.warm is not None:
        stages = _stages(few)
        lines.append(f"\nA merge of 10 rows takes {few.warm:.2f} s ({_told(stages)}); goals: 0.7 s, of which plan and commit 0.15 s.")
    for engine in ("ours", "ours-iceberg-mor"):
        row = run.case("9", engine)
        ratio = row.ratio("scan", "scan, compacted") if row else None
        if ratio:
            lines.append(
                f"\n{ENGINES[engine].title}: a scan after 20 small merges takes {ratio:.2f} × of that of the compacted table; goal 1.5."
            )
    return lines


def seconds(run: Run) -> list[str]:
    """Warm seconds, scenarios by engines."""
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
    """The parts of scenarios that have several."""
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
    """Seconds of processes that begin with a scenario and end after it."""
    cases = [case for case in run.cases if case.cold]
    if not cases:
        return []
    engines = [engine for engine in run.engines() if any(case.engine == engine for case in cases)]
    lines = [
        "\n### Cold seconds\n",
        "From the start of a process to the end of its first repetition, with Spark's start where there is one, and without an archive of",
        f"Java's classes; medians of up to {max(len(case.cold) for case in cases)} processes.\n",
        f"| | {' | '.join(ENGINES[engine].title for engine in engines)} |",
        "| --- |" + " ---: |" * len(engines),
    ]
    for name in [name for name in run.scenarios() if any(case.scenario == name for case in cases)]:
        found = [run.case(name, engine) for engine in engines]
        told = [f"{median(case.cold):.2f}" if case and case.cold else "" for case in found]
        lines.append(f"| **{name}** {SCENARIOS[name].title} | {' | '.join(told)} |")
    return lines


def everything(run: Run) -> list[str]:
    """All that was measured, a line for each scenario and engine."""
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
        warm = f"{_plain(case.warm)} ({len(case.repetitions) - 1})" if case.warm is not None else ""
        cells = [_plain(case.first), warm, ratio, *sizes, *counts, _told(_stages(case))]
        lines.append(f"| {case.scenario} | {ENGINES[case.engine].title} | {' | '.join(cells)} |")
    return [*lines, ""]


def _gains(run: Run, peers: tuple[str, ...], ours: str, scenarios: tuple[str, ...]) -> dict[str, float]:
    """How many times faster than the best of these peers, by scenario."""
    gains = {}
    for scenario in scenarios:
        mine = run.case(scenario, ours)
        theirs = [case.warm for peer in peers if (case := run.case(scenario, peer)) is not None and case.warm]
        if mine is not None and mine.warm and theirs:
            gains[scenario] = min(theirs) / mine.warm
    return gains


def _stages(case: Case) -> dict[str, float]:
    """Median seconds by what the engine says they were spent on."""
    warm = [r["stages"] for r in case.repetitions[1:]]
    names = dict.fromkeys(name for stages in warm for name in stages)
    return {name: sorted(stages.get(name, 0.0) for stages in warm)[len(warm) // 2] for name in names}


def _told(stages: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in stages.items())


def _seconds(case: Case | None) -> str:
    if case is None:
        return ""
    return "failed" if case.failed else _plain(case.warm)


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _number(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:.1f}" if unit > 1 and value < 10 * unit else f"{value / unit:.0f}"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")[:120]


if __name__ == "__main__":
    main()
