"""Measure scans of 5,000 small files next to the same rows in one file, with Arrow and with Spark's reader.

    python -m benchmarks.reads.small_files [files] [format]

Each figure is the median of three scans into a sink that discards the rows: the seconds, and the processor seconds of all processes. The
time to plan a scan is included.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import rowmerge
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.spark.reading.small_files import SMALL_FILES
from rowmerge.spark.spark_session import SKIP_FILES
from rowmerge.spark.writing.specs import write_spec
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.snapshots.files import AddedFile, FileChanges

ROWS_PER_FILE = 1_000
COLUMNS = "id bigint, a bigint, amount double, name string, day date, flag boolean, n int, at timestamp"
QUERIES = {
    "count(*)": "select count(*) from {table}",
    "sum of one column": "select sum(amount) from {table}",
    "select * where": "select * from {table} where a = 7",
    "select *": "select * from {table}",
}
WAYS = {
    "compacted": ("compacted", "true", "4m"),
    "small, Spark": ("small", "false", "4m"),
    "open cost 512k": ("small", "false", "512k"),
    "small, Arrow": ("small", "true", "4m"),
}
"""The ways to read: the table, whether Arrow reads small files, and the cost by which Spark sizes its tasks."""
OPEN_COST = "spark.sql.files.openCostInBytes"


def main() -> None:
    file_count, format_ = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000, sys.argv[2] if len(sys.argv) > 2 else "delta"
    with tempfile.TemporaryDirectory(prefix="rowmerge-small-files-") as folder:
        session = rowmerge.connect(folder)
        for name, rows_per_file in (("small", ROWS_PER_FILE), ("compacted", ROWS_PER_FILE * file_count)):
            session.sql(f"create table {name} ({COLUMNS}) using {format_}")
            _fill(session, name, file_count, rows_per_file)
        print(f"{'':<20}" + "".join(f"{way:>16}" for way in WAYS))
        session.spark.conf.set(SKIP_FILES, "false")  # metadata would answer count(*)
        for label, query in QUERIES.items():
            figures = []
            for name, with_arrow, open_cost in WAYS.values():
                session.spark.conf.set(SMALL_FILES, with_arrow)
                session.spark.conf.set(OPEN_COST, open_cost)
                figures.append(_measure(lambda name=name, query=query: _scan(session, name, query)))  # type: ignore[misc]
            print(f"{label:<20}" + "".join(f"{seconds:8.2f} ({used:5.2f})" for seconds, used in figures), flush=True)
        session.close()


def _fill(session: rowmerge.Session, name: str, batches: int, rows_per_file: int) -> None:
    """Commit the same rows for each value of `rows_per_file`, which are written without Spark."""
    table = session._catalog.open("default", name)
    snapshot = table.snapshot()
    spec = replace(write_spec(snapshot.shape), target_file_size=2**40)
    added: list[AddedFile] = []
    batches_per_file = max(1, rows_per_file // ROWS_PER_FILE)
    for first in range(0, batches, batches_per_file):
        added += _write(spec, map(_rows, range(first, first + batches_per_file)))
    table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(tuple(added)), reads=Reads()))


def _write(spec: WriteSpec, batches: Iterable[pa.Table]) -> list[AddedFile]:
    writer = PartitionedWriter(spec)
    for rows in batches:
        writer.write(rows)
    return [AddedFile(**vars(file)) for file in writer.close()]


def _rows(batch: int) -> pa.Table:
    random = np.random.default_rng(batch)
    columns = {
        "id": np.arange(batch * ROWS_PER_FILE, (batch + 1) * ROWS_PER_FILE),
        "a": random.integers(0, 1_000, ROWS_PER_FILE),
        "amount": random.random(ROWS_PER_FILE),
        "name": [f"name {number}" for number in random.integers(0, 10_000, ROWS_PER_FILE)],
        "day": pa.array(random.integers(0, 20_000, ROWS_PER_FILE).astype(np.int32), pa.date32()),
        "flag": random.integers(0, 2, ROWS_PER_FILE).astype(bool),
        "n": random.integers(0, 2**30, ROWS_PER_FILE).astype(np.int32),
        "at": pa.array(random.integers(0, 2**50, ROWS_PER_FILE), pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def _scan(session: rowmerge.Session, name: str, query: str) -> None:
    session.sql(query.format(table=name)).write.format("noop").mode("overwrite").save()


def _measure(scan: Callable[[], None]) -> tuple[float, float]:
    """Return the median seconds and processor seconds of three scans after a warm one."""
    scan()
    figures = []
    for _ in range(3):
        begun, used = time.perf_counter(), _processor_seconds()
        scan()
        figures.append((time.perf_counter() - begun, _processor_seconds() - used))
    return median(seconds for seconds, _ in figures), median(used for _, used in figures)


def _processor_seconds() -> float:
    """Return the processor time of this process and of all processes that it has started."""
    parents, ticks = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # the process has ended
            parents[int(folder.name)], ticks[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while children := {process for process, parent in parents.items() if parent in own} - own:
        own |= children
    return sum(ticks[process] for process in own) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
