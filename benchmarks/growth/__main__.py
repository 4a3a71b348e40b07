"""Measure the growth curves: the same three operations on tables that differ in one property.

    python -m benchmarks.growth --out benchmarks/measured/growth.jsonl
    python -m benchmarks.growth --curves rows,files

The results are lines of JSON, one for each table. Another run with the same file continues where the first one stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from benchmarks.__main__ import ROOT, machine, settings
from benchmarks.growth.points import CURVES, point_names
from benchmarks.results import read_lines

REPETITIONS = 3


def main() -> None:
    """Measure the points of the command line that have no result yet."""
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", default=",".join(CURVES), help="curves with commas")
    parser.add_argument("--points", default="", help="names with commas, such as rows-10000-delta, instead of curves")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rowmerge-growth", help="one table at a time")
    parser.add_argument("--out", type=Path, default=Path("growth.jsonl"))
    arguments = parser.parse_args()
    names = arguments.points.split(",") if arguments.points else point_names(arguments.curves.split(","))
    have = {result["point"] for result in read_lines(arguments.out)}
    for name in names:
        if name not in have:
            _measure(name, arguments.folder.resolve(), arguments.out)


def _measure(name: str, folder: Path, out: Path) -> None:
    """Load the table of a point, measure it in another process, and append the result. The table is deleted afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(name, file=sys.stderr, flush=True)
    _run("points", str(folder), name)
    operations = json.loads(_run("measure", str(folder), name, str(REPETITIONS)).splitlines()[-1])
    versions = {"rowmerge": version("dbt-rowmerge"), "PySpark": version("pyspark"), "PyArrow": version("pyarrow")}
    result = {"point": name, "operations": operations, "date": f"{datetime.now(timezone.utc):%Y-%m-%d}", "machine": machine()}
    with out.open("a") as file:
        file.write(json.dumps({**result, "versions": versions}) + "\n")
    shutil.rmtree(folder)


def _run(module: str, *words: str) -> str:
    """Run a module of this package in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", f"benchmarks.growth.{module}", *words]
    return subprocess.run(command, check=True, cwd=ROOT, env=settings(), stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
