"""The scenarios in which a peer is faster than our engine, with the reasons."""

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
"""The modes of our engine that a peer is compared with. The last one is compared in cold processes, too."""
_LATENCY = "Our statement runs several Spark jobs, each of which takes tens of milliseconds before it reads; delta-rs runs none."
_THROUGH_PYTHON = "Spark passes the rows that it reads to Python, which writes them; delta-rs reads, joins and writes in one process."
_PARTITIONS = (
    "Most of the time is in the six scans: each of a thousand partitions has one file, later two, and a Spark task opens each. The "
    "table above has the time of the merge alone."
)
WHY: dict[str, str] = {
    "3": _THROUGH_PYTHON,
    "8": _LATENCY,
    "9": f"Twenty small merges. {_LATENCY}",
    "11": f"{_THROUGH_PYTHON} Half of the first job's time is the conversion of rows to Arrow. Each file loses so many rows that a second "
    "job rewrites it.",
    "12": "Spark sorts all columns of both sides for the join, and each of our rows carries the path of its file.",
    "13k": "Spark plans and runs a job for a query that reads one page; delta-rs plans in the process that reads.",
    "13d": "Spark plans and runs a job for a query that reads one page; delta-rs plans in the process that reads.",
    "D insert 0.05/0/1": _THROUGH_PYTHON,
    "L 1": _PARTITIONS,
    "L 0.1": _PARTITIONS,
    "13s": "Each Spark task opens its files one after the other; a process with asynchronous reads opens many at the same time.",
}
"""The reasons why our engine is slower, by scenario."""


def losses(run: Run) -> list[str]:
    """Return the lines of the page."""
    lines = ["\n### Where we lose\n"]
    for scenario in run.scenarios():
        sentences = []
        for peer, mine in PEERS.items():
            theirs = run.case(scenario, peer)
            for name in mine:
                ours = run.case(scenario, name)
                if theirs is None or ours is None or not theirs.warm or not ours.warm or theirs.warm >= ours.warm:
                    continue
                sentences.append(f"{ENGINES[peer].title} is {ours.warm / theirs.warm:.2f} × as fast as {ENGINES[name].title}")
        if sentences:
            why = f" {WHY[scenario]}" if scenario in WHY else ""
            lines.append(f"- **{scenario}** {SCENARIOS[scenario].title}: {'; '.join(sentences)}.{why}")
    lines += _cold(run)
    return lines if len(lines) > 1 else [*lines, "No scenario of this run."]


def _cold(run: Run) -> list[str]:
    """Return the line for cold processes, if a peer is faster."""
    sentences = []
    for peer, (*_, mine) in PEERS.items():
        pairs = [(run.case(name, mine), run.case(name, peer)) for name in run.scenarios()]
        ratios = [median(ours.cold) / median(theirs.cold) for ours, theirs in pairs if ours and theirs and ours.cold and theirs.cold]
        if ratios and max(ratios) > 1:
            sentences.append(f"{ENGINES[peer].title} is {min(ratios):.2f} to {max(ratios):.2f} × as fast as {ENGINES[mine].title}")
    why = "Java and Spark start before anything is read. An archive of classes ([profiles](profiles.md#session)) saves some seconds."
    return [f"- **cold** the first statement of a process: {'; '.join(sentences)}. {why}"] if sentences else []
