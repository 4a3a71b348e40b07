"""`make bench-metadata`: measure every engine on every synthetic table, and write the results as JSON and Markdown.

Each engine opens each table in its own process, on a fresh copy of the log. The results are medians of several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.metadata import files_table
from benchmarks.metadata.delta_logs import write_commits, write_log
from benchmarks.metadata.driver_memory import SIZES, measured_apart
from benchmarks.metadata.iceberg_logs import write_table
from benchmarks.metadata.page import machine, page
from benchmarks.metadata.small_merges import MERGES, cases_apart

ROOT = Path(__file__).resolve().parents[2]
COMMITS = 10_000
DELTA_ENGINES, ICEBERG_ENGINES = ("rowmerge", "delta-rs"), ("rowmerge", "pyiceberg")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.metadata", description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 100_000, 1_000_000], help="live files of the tables")
    parser.add_argument("--iceberg-files", type=int, nargs="*", default=[1_000, 100_000], help="live files of the Iceberg tables")
    parser.add_argument("--memory", type=int, nargs="*", default=SIZES, help="rows of tables whose deletion is measured, with Spark")
    parser.add_argument("--merges", type=int, default=MERGES, help="small merges into one table, with and without auto-compaction")
    parser.add_argument("--files-table", type=int, default=files_table.FILES, help="files of the tables whose t.files is queried, or 0")
    parser.add_argument("--only-files-table", action="store_true", help="measure only t.files, and keep the other results of the JSON")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keep the tables here, and use those that are there")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "metadata" / "results.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "performance_metadata.md")
    parser.add_argument("--only-page", action="store_true", help="write the page of an earlier run's JSON")
    arguments = parser.parse_args()
    if arguments.only_files_table:
        results = json.loads(arguments.json.read_text()) | _files_table_results(arguments.files_table)
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    elif not arguments.only_page:
        with tempfile.TemporaryDirectory(prefix="bench-metadata-") as scratch:
            results = _results(arguments, Path(scratch))
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    text = page(json.loads(arguments.json.read_text()))
    arguments.page.write_text(text)
    print(text)


def _results(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    folder = arguments.folder or scratch
    measured: dict[str, dict[str, Any]] = {}
    for name, files in _tables(folder, arguments.files, arguments.iceberg_files):
        iceberg = name.startswith("iceberg")
        for engine in ICEBERG_ENGINES if iceberg else DELTA_ENGINES:
            run = partial(_measured_in_place, "measure_iceberg") if iceberg else partial(_measured, "measure")
            measurements = [run(engine, folder / name, files, scratch) for _ in range(arguments.runs)]
            measured.setdefault(name, {"files": files})[engine] = {
                key: statistics.median(run[key] for run in measurements) for key in measurements[0]
            }
            print(name, engine, json.dumps(measured[name][engine]), file=sys.stderr, flush=True)
    memory = {"memory": measured_apart(arguments.memory)} if arguments.memory else {}
    merges = {"merges": {"machine": machine(), "cases": cases_apart(arguments.merges)}} if arguments.merges else {}
    queries = _files_table_results(arguments.files_table)
    return {"machine": machine(), "runs": arguments.runs, "tables": measured, **memory, **merges, **queries}


def _files_table_results(files: int) -> dict[str, Any]:
    return {"files_table": {"machine": machine(), "formats": files_table.measured_apart(files)}} if files else {}


def _tables(folder: Path, sizes: list[int], iceberg_sizes: list[int]) -> list[tuple[str, int]]:
    """Create the missing tables, and return their names with their numbers of files."""
    tables = []
    for files in sizes:
        for kind in ("json", "typed"):
            tables.append((f"files-{files}-{kind}", files))
            if not (folder / tables[-1][0]).exists():
                write_log(folder / tables[-1][0], files, structs=kind == "typed")
    for kind, checkpoint in (("checkpoint", COMMITS - 10), ("alone", None)):
        tables.append((f"commits-{COMMITS}-{kind}", COMMITS - 1))
        if not (folder / tables[-1][0]).exists():
            write_commits(folder / tables[-1][0], COMMITS, checkpoint)
    for files in iceberg_sizes:
        tables.append((f"iceberg-{files}", files))
        if not (folder / tables[-1][0]).exists():
            write_table(folder / tables[-1][0], files)
    return tables


def _measured_in_place(module: str, engine: str, table: Path, files: int, scratch: Path) -> dict[str, float]:
    """Measure an Iceberg table at its path, because its paths are absolute, and restore it afterwards."""
    backup = scratch / "backup"
    shutil.copytree(table, backup)
    try:
        return _run(module, engine, table, files)
    finally:
        shutil.rmtree(table)
        shutil.move(backup, table)


def _measured(module: str, engine: str, table: Path, files: int, scratch: Path) -> dict[str, float]:
    copy = scratch / "copy"
    shutil.copytree(table, copy, copy_function=os.link if table.stat().st_dev == scratch.stat().st_dev else shutil.copy2)
    try:
        return _run(module, engine, copy, files)
    finally:
        shutil.rmtree(copy)


def _run(module: str, engine: str, table: Path, files: int) -> dict[str, float]:
    command = [sys.executable, "-m", f"benchmarks.metadata.{module}", engine, str(table), str(files)]
    process = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(process.stdout))


if __name__ == "__main__":
    main()
