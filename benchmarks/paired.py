"""Compare small merges of this checkout with those of another one: both run in turns, in one process each, on the same disk.

    python -m benchmarks.paired ../other-checkout --merges 60
    python -m benchmarks.paired . --options durability=process

Prints, for each table format, the median seconds of both and the median ratio of neighbouring pairs.
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
_ROWS = 100_000
_WARM_UP = 8
_MERGE = (
    "merge into {0} t using (select (id * 4999 + {1}) % 120000 as id, 'new' as v from range(20)) s on t.id = s.id "
    "when matched then update set v = s.v when not matched then insert *"
)


def main() -> None:
    """Run the comparison, or one of its two processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--merges", type=int, default=40, help="pairs of merges in each table format")
    parser.add_argument("--options", nargs="*", default=[], metavar="NAME=VALUE", help="options of rowmerge.connect for the other checkout")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    options = dict(option.split("=", 1) for option in arguments.options)
    if arguments.serve:
        serve(options)
    else:
        compare(arguments.other.resolve(), arguments.merges, options)


def compare(other: Path, merges: int, options: dict[str, str]) -> None:
    """Let this checkout and another one merge in turns."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = _start(ROOT, Path(folder) / "ours", {}), _start(other, Path(folder) / "theirs", options)
        for format_ in FORMATS:
            pairs = []
            for number in range(-_WARM_UP, merges):
                # Each of the two goes first in every other pair.
                first, second = (ours, theirs) if number % 2 else (theirs, ours)
                seconds = {id(process): _ask(process, format_, number) for process in (first, second)}
                if number >= 0:
                    pairs.append((seconds[id(ours)], seconds[id(theirs)]))
            medians = [statistics.median(side) for side in zip(*pairs, strict=True)]
            ratio = statistics.median(mine / other_ for mine, other_ in pairs)
            print(f"{format_}: {medians[0]:.3f} s here, {medians[1]:.3f} s there, median ratio {ratio:.3f} of {len(pairs)} pairs")
        for process in (ours, theirs):
            process.kill()


def serve(options: dict[str, Any]) -> None:
    """Create the tables, and answer each line with the seconds of a merge."""
    import rowmerge  # of the checkout in PYTHONPATH

    session = rowmerge.connect(os.environ["PAIRED_WAREHOUSE"], **options)
    for format_ in FORMATS:
        session.sql(f"create table {format_} using {format_} as select id, concat('v', id) as v from range(0, {_ROWS}, 1, 4)")
    print(json.dumps(rowmerge.__file__), flush=True)
    for line in sys.stdin:
        format_, number = json.loads(line)
        start = time.perf_counter()
        session.sql(_MERGE.format(format_, number + 100))
        print(json.dumps(time.perf_counter() - start), flush=True)


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


def _ask(process: subprocess.Popen[str], format_: str, number: int) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([format_, number]) + "\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline()))


if __name__ == "__main__":
    main()
