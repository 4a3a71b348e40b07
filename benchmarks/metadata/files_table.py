"""Measure queries of the metadata table `t.files`: `files_table.py FORMAT FILES` prints JSON. `measured_apart` runs it for each format."""

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

FILES, WARM_RUNS = 100_000, 5
ROOT = Path(__file__).resolve().parents[2]
QUERIES = {
    "three columns": "select count(*), sum(record_count), sum(file_size_in_bytes) from t.files",
    "all columns": "select * from t.files",
}


def measured_apart(files: int) -> list[dict[str, Any]]:
    """Return the seconds for each format. Each is measured in its own process.

    `files`: the number of live files of the table.
    """
    measurements = []
    for format_ in ("delta", "iceberg"):
        command = [sys.executable, "-m", "benchmarks.metadata.files_table", format_, str(files)]
        process = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, check=True)
        measurements.append(json.loads(process.stdout.splitlines()[-1]))
        print(json.dumps(measurements[-1]), file=sys.stderr, flush=True)
    return measurements


def measured(format_: str, files: int, warehouse: Path) -> dict[str, Any]:
    """Return the seconds of opening a table, of a peer's list of its files, and of each query, for a new table of one format.

    Args:
        format_: `delta` or `iceberg`.
        files: The number of live files of the table.
        warehouse: The folder of the new table.
    """
    import rowmerge
    from rowmerge.catalog import DirectoryCatalog
    from rowmerge.storage.store import Storage

    folder = warehouse / "default" / "t"
    if format_ == "iceberg":
        write_table(folder, files)
    else:
        write_log(folder, files, structs=True)
    spark = rowmerge.connect(str(warehouse)).spark
    spark.range(10).count()  # Spark compiles its first query
    catalog = DirectoryCatalog(Storage(str(warehouse)))
    seconds: dict[str, Any] = {"format": format_, "files": files}
    seconds["open"] = _seconds(lambda: len(catalog.open("default", "t").snapshot().files()))
    seconds["peer"] = _seconds(partial(_list_with_peer, format_, folder))
    for name, query in QUERIES.items():
        session = rowmerge.connect(str(warehouse), spark=spark)  # a new session has no open tables
        run = partial(_evaluate, session, query)
        seconds[f"{name}, cold"] = _seconds(run)
        seconds[f"{name}, warm"] = statistics.median(_seconds(run) for _ in range(WARM_RUNS))
    return seconds


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
    with tempfile.TemporaryDirectory(prefix="bench-files-table-") as scratch:
        print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), Path(scratch))))
