"""Measure queries of the metadata table `t.files`. `files_table.py FORMAT WAREHOUSE NAME` prints the seconds of one measurement as JSON."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from benchmarks.metadata.delta_logs import write_log
from benchmarks.metadata.iceberg_logs import write_table

FILES, PROCESSES, WARM_RUNS = 100_000, 3, 5
_WARM_UP_FILES = 1_000
ROOT = Path(__file__).resolve().parents[2]
QUERIES = {
    "three columns": "select count(*), sum(record_count), sum(file_size_in_bytes) from t.files",
    "all columns": "select * from t.files",
}


def measured_apart(files: int) -> list[dict[str, Any]]:
    """Return the seconds of opening a table, of a peer's list of its files, and of each query, for a new table of each format.

    They are medians of several processes for each measurement, because a process caches what it reads of a table.

    Args:
        files: The number of live files of the table.
    """
    measurements = []
    for format_ in ("delta", "iceberg"):
        with tempfile.TemporaryDirectory(prefix="bench-files-table-") as warehouse:
            for schema, count in (("default", files), ("warm_up", _WARM_UP_FILES)):
                _write_table(format_, Path(warehouse, schema, "t"), count)
            measurement: dict[str, Any] = {"format": format_, "files": files}
            for name in ("open", "peer", *QUERIES):
                runs = [_run_process(format_, warehouse, name) for _ in range(PROCESSES)]
                measurement |= {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        measurements.append(measurement)
        print(json.dumps(measurement), file=sys.stderr, flush=True)
    return measurements


def _run_process(format_: str, warehouse: str, name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.metadata.files_table", format_, warehouse, name]
    process = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, check=True)
    seconds: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return seconds


def measured(format_: str, warehouse: str, name: str) -> dict[str, float]:
    """Return the seconds of one measurement by its name in the results, after the same operation on a small table.

    Args:
        format_: `delta` or `iceberg`.
        warehouse: A folder with a small table `warm_up.t`, and the table `default.t`.
        name: `open`, `peer`, or a key of `QUERIES`.
    """
    import rowmerge
    from rowmerge.catalog import DirectoryCatalog
    from rowmerge.storage.store import Storage

    def run(schema: str) -> None:
        match name:
            case "open":
                DirectoryCatalog(Storage(warehouse)).open(schema, "t").snapshot().files()
            case "peer":
                _list_with_peer(format_, Path(warehouse, schema, "t"))
            case query:
                _evaluate(sessions[schema], QUERIES[query])

    schemas = ("warm_up", "default")
    spark = rowmerge.connect(warehouse).spark  # also to open a table, because a Spark in the process slows that down
    sessions = {schema: rowmerge.connect(warehouse, spark=spark, schema=schema) for schema in schemas}
    first, cold = (_seconds(partial(run, schema)) for schema in schemas)
    if name not in QUERIES:
        return {name: cold}
    warm = statistics.median(_seconds(partial(run, "default")) for _ in range(WARM_RUNS))
    return {f"{name}, first of Spark": first, f"{name}, cold": cold, f"{name}, warm": warm}


def _write_table(format_: str, folder: Path, files: int) -> None:
    if format_ == "iceberg":
        write_table(folder, files)
    else:
        write_log(folder, files, structs=True)


def _list_with_peer(format_: str, folder: Path) -> pa.Table:
    """Return the files with their statistics as delta-rs or pyiceberg lists them, from a table that is not open yet."""
    if format_ == "iceberg":
        newest = (folder / "metadata" / "version-hint.text").read_text()
        return StaticTable.from_metadata(f"{folder}/metadata/v{newest}.metadata.json").inspect.files()
    return pa.table(DeltaTable(str(folder)).get_add_actions(flatten=True))


def _evaluate(session: Any, query: str) -> None:
    """Evaluate all columns of a query's rows. `noop` of Spark writes them to nowhere, so no time is for their transfer to Python."""
    session.sql(query).write.format("noop").mode("overwrite").save()


def _seconds(operation: Callable[[], object]) -> float:
    start = time.perf_counter()
    operation()
    return time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:])))
