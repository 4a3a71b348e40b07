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
        for peer, our_engines in PEERS.items():
            peer_case = run.case(scenario, peer)
            for name in our_engines:
                our_case = run.case(scenario, name)
                if peer_case is None or our_case is None or not peer_case.warm or not our_case.warm or peer_case.warm >= our_case.warm:
                    continue
                sentences.append(f"{ENGINES[peer].title} is {our_case.warm / peer_case.warm:.2f} × as fast as {ENGINES[name].title}")
        if sentences:
            why = f" {WHY[scenario]}" if scenario in WHY else ""
            lines.append(f"- **{scenario}** {SCENARIOS[scenario].title}: {'; '.join(sentences)}.{why}")
    lines += _cold(run)
    return lines if len(lines) > 1 else [*lines, "No scenario of this run."]


def _cold(run: Run) -> list[str]:
    """Return the line for cold processes, if a peer is faster."""
    sentences = []
    for peer, (*_, our_engine) in PEERS.items():
        pairs = [(run.case(name, our_engine), run.case(name, peer)) for name in run.scenarios()]
        ratios = [
            median(our_case.cold) / median(peer_case.cold)
            for our_case, peer_case in pairs
            if our_case and peer_case and our_case.cold and peer_case.cold
        ]
        if ratios and max(ratios) > 1:
            sentences.append(f"{ENGINES[peer].title} is {min(ratios):.2f} to {max(ratios):.2f} × as fast as {ENGINES[our_engine].title}")
    why = "Java and Spark start before anything is read. An archive of classes ([profiles](profiles.md#session)) saves some seconds."
    return [f"- **cold** the first statement of a process: {'; '.join(sentences)}. {why}"] if sentences else []
