"""Measure the stages of a `dbt run` of the flights project with one thread: Spark's start, dbt, planning, Spark jobs, commits.

    python benchmarks/dbt_run.py

Run 0 creates the tables; the later runs are incremental, in the same process (warm). The adapter's responses contain the stages of each
statement. The remaining time is dbt's: parsing, compiling, its queries, printing.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from dbt.cli.main import dbtRunner

import rowmerge

PROJECT = Path(__file__).resolve().parents[1] / "integration_tests" / "flights"
FEED = PROJECT / "target" / "feed"
sys.path.insert(0, str(PROJECT))

from feed import BATCHES, write_feed  # noqa: E402  the project's scripts are no package

STAGES = ("plan", "spark", "commit")


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="rowmerge-dbt-run-"))
    # The project looks for its seeds in its own target folder.
    write_feed(FEED, len(BATCHES))
    os.environ["FLIGHTS_WAREHOUSE"] = str(folder / "warehouse")
    began = time.perf_counter()
    rowmerge.connect(str(folder / "warehouse"))
    started = time.perf_counter() - began
    invoke(PROJECT, folder, ["seed"], {"feed": str(FEED), "batch": 0})
    runs = [invoke(PROJECT, folder, ["run"], {"feed": str(FEED), "batch": batch}) for batch in range(len(BATCHES))]
    print(f"\nSpark's start {started:.1f} s\n\n{'dbt run':<10}{'wall':>8}{'dbt':>8}" + "".join(f"{stage:>8}" for stage in STAGES))
    for batch, run in enumerate(runs):
        print(f"{batch:<10}" + "".join(f"{seconds:8.2f}" for seconds in run))
    warm = [median(values) for values in zip(*runs[2:], strict=True)]
    print(f"{'warm':<10}" + "".join(f"{seconds:8.2f}" for seconds in warm))
    print(f"{'share':<10}" + "".join(f"{seconds / warm[0]:8.0%}" for seconds in warm))


def invoke(project: Path, folder: Path, command: Sequence[str], variables: Mapping[str, object], threads: int = 1) -> tuple[float, ...]:
    """Return the seconds of a dbt command: in total, outside of statements, and per stage. `folder`: where dbt writes its files."""
    places = ["--project-dir", project, "--profiles-dir", project, "--target-path", folder / "target", "--log-path", folder]
    began = time.perf_counter()
    result = dbtRunner().invoke([*command, *map(str, places), "--vars", json.dumps(variables), "--threads", str(threads), "--quiet"])
    wall = time.perf_counter() - began
    if not result.success:
        raise SystemExit(f"dbt {command[0]} failed: {result.exception or folder / 'dbt.log'}")
    responses = [run.adapter_response.get("seconds") or {} for run in result.result]
    stages = [sum(seconds.get(stage, 0.0) for seconds in responses) for stage in STAGES]
    return (wall, wall - sum(stages), *stages)


if __name__ == "__main__":
    main()
