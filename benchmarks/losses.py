"""Where a peer is faster than ours, and why."""

from __future__ import annotations

from statistics import median

from benchmarks.engines.registry import ENGINES
from benchmarks.results import Run
from benchmarks.scenarios import SCENARIOS

PEERS = {
    "delta-rs": ("ours",),
    "delta-spark": ("ours-cow", "ours"),
    "delta-spark-dv": ("ours-mor", "ours"),
    "iceberg-spark-cow": ("ours-iceberg-cow",),
    "iceberg-spark-mor": ("ours-iceberg-mor",),
}
"""What a peer is set beside: our engine in the same mode, and last the one whose cold processes count."""
_LATENCY = (
    "A statement of ours is some jobs of Spark, each of which takes its tens of milliseconds before it reads anything; delta-rs has none."
)
_THROUGH_PYTHON = "What Spark reads goes to Python to be written; delta-rs reads, joins and writes in one process."
_PARTITIONS = (
    "Most of it are the six scans: each of a thousand partitions is a file, later two, that a task of Spark opens by itself. What the "
    "merge alone takes stands above."
)
WHY: dict[str, str] = {
    "3": _THROUGH_PYTHON,
    "8": _LATENCY,
    "9": f"Twenty times the same: {_LATENCY[0].lower()}{_LATENCY[1:]}",
    "11": f"{_THROUGH_PYTHON} Half of the first job's time goes into handing rows over as Arrow, one by one. Each file loses so many rows "
    "that it is written again, in a second job.",
    "12": "All columns of both sides are sorted to be joined and compared, and each row of ours has its file's path with it.",
    "13k": "Spark plans and runs a job for a query that reads one page; delta-rs plans in the process that reads.",
    "13d": "Spark plans and runs a job for a query that reads one page; delta-rs plans in the process that reads.",
    "D insert 0.05/0/1": _THROUGH_PYTHON,
    "L 1": _PARTITIONS,
    "L 0.1": _PARTITIONS,
    "13s": "Spark opens each file by itself, in packs of files a task; a process with asynchronous reads opens many at once.",
}
"""Why ours is slower, by the scenario's name."""


def losses(run: Run) -> list[str]:
    """The lines of the page."""
    lines = ["\n### Where we lose\n"]
    for scenario in run.scenarios():
        told = []
        for peer, mine in PEERS.items():
            theirs = run.case(scenario, peer)
            for name in mine:
                ours = run.case(scenario, name)
                if theirs is None or ours is None or not theirs.warm or not ours.warm or theirs.warm >= ours.warm:
                    continue
                told.append(f"{ENGINES[peer].title} is {ours.warm / theirs.warm:.2f} × as fast as {ENGINES[name].title}")
        if told:
            why = f" {WHY[scenario]}" if scenario in WHY else ""
            lines.append(f"- **{scenario}** {SCENARIOS[scenario].title}: {'; '.join(told)}.{why}")
    lines += _cold(run)
    return lines if len(lines) > 1 else [*lines, "In none of the scenarios of this run."]


def _cold(run: Run) -> list[str]:
    """Peers whose processes are done sooner, from their start on."""
    told = []
    for peer, (*_, mine) in PEERS.items():
        pairs = [(run.case(name, mine), run.case(name, peer)) for name in run.scenarios()]
        ratios = [median(ours.cold) / median(theirs.cold) for ours, theirs in pairs if ours and theirs and ours.cold and theirs.cold]
        if ratios and max(ratios) > 1:
            told.append(f"{ENGINES[peer].title} is {min(ratios):.2f} to {max(ratios):.2f} × as fast as {ENGINES[mine].title}")
    why = "Java and Spark start in the process before anything is read; an archive of classes (docs/profiles.md) takes some seconds of it."
    return [f"- **cold** the first statement of a process: {'; '.join(told)}. {why}"] if told else []
