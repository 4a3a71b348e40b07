"""Compare small merges of this checkout with those of another one: both run in turns, in one process each, on the same disk.

    python -m benchmarks.paired ../other-checkout --merges 60
    python -m benchmarks.paired ../other-checkout --own-options durability=process

Prints, for each table format, the median seconds of both, the median ratio of neighbouring pairs, and the milliseconds of each stage.
Two processes that run the same code differ by up to 15 %, because Java compiles them differently. So `--processes` repeats the comparison
with new processes, and all pairs count. The stages `plan` and `commit` run in Python and vary less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FORMATS = ("delta", "iceberg")
Stages = dict[str, float]
"""Seconds of one merge by stage (`plan`, `spark`, `commit`) and in `total`."""
_ROWS = 100_000
_WARM_UP = 20
_MERGE = (
    "merge into {0} t using (select (id * 4999 + {1}) % 120000 as id, 'new' as v from range(20)) s on t.id = s.id "
    "when matched then update set v = s.v when not matched then insert *"
)


def main() -> None:
    """Run the comparison, or one of its two processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--merges", type=int, default=40, help="pairs of merges in each table format")
    parser.add_argument("--processes", type=int, default=3, help="how often both processes start anew")
    parser.add_argument("--options", nargs="*", default=[], metavar="NAME=VALUE", help="options of rowmerge.connect for the other checkout")
    parser.add_argument("--own-options", nargs="*", default=[], metavar="NAME=VALUE", help="the same for this checkout")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    options, own_options = (dict(text.split("=", 1) for text in texts) for texts in (arguments.options, arguments.own_options))
    if arguments.serve:
        serve(options)
    else:
        compare(arguments.other.resolve(), arguments.processes, arguments.merges, own_options, options)


def compare(other: Path, processes: int, merges: int, own_options: dict[str, str], other_options: dict[str, str]) -> None:
    """Let this checkout and another one merge in turns, each with its own options of rowmerge.connect."""
    pairs: dict[str, list[tuple[Stages, Stages]]] = {format_: [] for format_ in FORMATS}
    for _ in range(processes):
        with tempfile.TemporaryDirectory() as folder:
            here, there = _start(ROOT, Path(folder) / "here", own_options), _start(other, Path(folder) / "there", other_options)
            for format_ in FORMATS:
                for number in range(-_WARM_UP, merges):
                    # Each of the two goes first in every other pair.
                    first, second = (here, there) if number % 2 else (there, here)
                    stages = {id(process): _ask(process, format_, number) for process in (first, second)}
                    if number >= 0:
                        pairs[format_].append((stages[id(here)], stages[id(there)]))
            for process in (here, there):
                process.kill()
    for format_, measured in pairs.items():
        _report(format_, measured)


def _report(format_: str, pairs: list[tuple[Stages, Stages]]) -> None:
    seconds = [statistics.median(stages["total"] for stages in side) for side in zip(*pairs, strict=True)]
    ratio = statistics.median(here["total"] / there["total"] for here, there in pairs)
    print(f"{format_}: {seconds[0]:.3f} s here, {seconds[1]:.3f} s there, median ratio {ratio:.3f} of {len(pairs)} pairs")
    for stage in ("plan", "spark", "commit"):
        here, there = (1000 * statistics.median(stages[stage] for stages in side) for side in zip(*pairs, strict=True))
        print(f"    {stage}: {here:.1f} ms here, {there:.1f} ms there, difference {(here - there) / seconds[1] / 10:.1f} % of a merge")


def serve(options: dict[str, Any]) -> None:
    """Create the tables, and answer each line with the seconds of a merge: of each stage, and in total."""
    import rowmerge  # of the checkout in PYTHONPATH

    session = rowmerge.connect(os.environ["PAIRED_WAREHOUSE"], **options)
    for format_ in FORMATS:
        session.sql(f"create table {format_} using {format_} as select id, concat('v', id) as v from range(0, {_ROWS}, 1, 4)")
    print(json.dumps(rowmerge.__file__), flush=True)
    for line in sys.stdin:
        format_, number = json.loads(line)
        start = time.perf_counter()
        result = session.execute(_MERGE.format(format_, number + 100))
        print(json.dumps({**result.seconds, "total": time.perf_counter() - start}), flush=True)


def _start(checkout: Path, warehouse: Path, options: dict[str, str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PAIRED_WAREHOUSE": str(warehouse)}
    arguments = ["--serve", str(checkout), *(["--options", *(f"{name}={value}" for name, value in options.items())] if options else [])]
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    # In the checkout's folder, so that Python imports its packages.
    process = subprocess.Popen(command, cwd=checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    imported = json.loads(process.stdout.readline())
    assert Path(imported).is_relative_to(checkout), f"{imported} is not in {checkout}"
    return process


def _ask(process: subprocess.Popen[str], format_: str, number: int) -> Stages:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([format_, number]) + "\n")
    process.stdin.flush()
    answer: Stages = json.loads(process.stdout.readline())
    return answer


if __name__ == "__main__":
    main()
