"""Run the grid: each engine runs the statement of each cell on copies of the same table, in a process of its own.

    python -m benchmarks.shapes --seed 1 --out benchmarks/measured/shapes_1.jsonl
    python -m benchmarks.shapes --seed 1 --cells 0-9 --engines 'ours*,limit*'

The results are lines of JSON, one for each cell and engine. Another run with the same file continues where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.__main__ import ROOT, machine, settings, work
from benchmarks.engines.registry import ENGINES, Peers
from benchmarks.results import Run, read_lines
from benchmarks.shapes.design import cell_named, cell_names, peer_cell_names

OURS = {"delta": ("ours", "ours-cow"), "iceberg": ("ours-iceberg-mor", "ours-iceberg-cow")}
LIMIT = {"delta": "limit-spark", "iceberg": "limit-spark-iceberg"}
ON_JVM = {"delta": ("delta-spark-dv", "delta-spark"), "iceberg": ("iceberg-spark-mor", "iceberg-spark-cow")}
NOT_IN_DELTA_RS = ("delete+insert", "insert_overwrite")
SCALE = 0.2
"""The default scale. With a scale of 1, the grid takes seven hours on two cores."""
REPETITIONS, SECONDS, PATIENCE = 3, 30.0, 600.0
"""The repetitions after the first one, the seconds within which they begin, and the seconds after which an engine has failed."""


def engines_of(name: str, seed: int) -> list[str]:
    """Return the engines that run in a cell.

    Args:
        name: The name of the cell.
        seed: The seed of the design, which draws the cells of engines on the JVM.
    """
    cell = cell_named(name)
    engines = [*OURS[cell.format], LIMIT[cell.format]]
    if cell.format == "delta" and cell.statement not in NOT_IN_DELTA_RS:
        engines.append("delta-rs")
    return engines + (list(ON_JVM[cell.format]) if name in peer_cell_names(seed) else [])


def main() -> None:
    """Run the cells and engines of the command line that have no result yet."""
    parser = argparse.ArgumentParser(prog="benchmarks.shapes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cells", default="", help="numbers and ranges with commas, such as 0-9,17; all cells by default")
    parser.add_argument("--scale", type=float, default=SCALE, help="the rows of the tables, as a share of 5 million")
    parser.add_argument("--engines", default="*", help="patterns with commas")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "rowmerge-shapes", help="the table of one cell at a time"
    )
    parser.add_argument("--peers", type=Path, default=ROOT / ".peers", help="jars and Python of the peers; see `make bench-peers`")
    parser.add_argument("--out", type=Path, default=Path("shapes.jsonl"))
    arguments = parser.parse_args()
    results, peers = read_lines(arguments.out), Peers(arguments.peers.resolve())
    have = {(result["cell"], result["engine"]) for result in results}
    for name in _chosen(arguments.seed, arguments.cells):
        engines = [engine for engine in engines_of(name, arguments.seed) if any(fnmatch(engine, p) for p in arguments.engines.split(","))]
        missing = [engine for engine in engines if (name, engine) not in have and ENGINES[engine].missing(peers) is None]
        if missing:
            _run_cell(name, arguments.scale, missing, arguments.folder.resolve(), peers, arguments.out)


def _chosen(seed: int, numbers: str) -> list[str]:
    names = cell_names(seed)
    if not numbers:
        return names
    ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip()) for part in numbers.split(",")]
    return [names[number] for part in ranges if part for number in range(int(part[1]), int(part[2] or part[1]) + 1)]


def _run_cell(name: str, scale: float, engines: list[str], folder: Path, peers: Peers, out: Path) -> None:
    """Load the table of a cell, run engines on it, and append their results. The tables are deleted afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{name}: {cell_named(name)}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "benchmarks.shapes.load", str(folder), name, str(scale)], check=True, cwd=ROOT, env=settings())
    sources = {file.stem: str(file) for file in (folder / "sources").iterdir()}
    for engine in engines:
        run = Run(0.0, f"{datetime.now(timezone.utc):%Y-%m-%d}", machine())
        job: dict[str, Any] = {"engine": engine, "folder": str(folder), "peers": str(peers.folder), "scenarios": [name], "sources": sources}
        job |= {"repetitions": REPETITIONS, "seconds": SECONDS, "prepared": False}
        work(run, job, ENGINES[engine].python(peers), PATIENCE)
        _append(out, name, scale, engine, run)
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()  # otherwise, ext4 avoids the inodes of deleted files for five minutes instead of one


def _append(out: Path, name: str, scale: float, engine: str, run: Run) -> None:
    (case,) = run.cases
    result: dict[str, Any] = {"cell": name, "levels": cell_named(name).levels, "scale": scale, "engine": engine, "date": run.date}
    result |= {"machine": run.machine, "versions": run.versions, "started": run.started.get(engine), "rows": case.rows}
    result |= {"failed": case.failed, "repetitions": case.repetitions}
    with out.open("a") as file:
        file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
