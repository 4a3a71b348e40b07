"""Threads and processes change one table at random: it ends as its log says, statement by statement, and none is lost or done twice.

ROWMERGE_STRESS=50, as for a nightly run, makes it eight threads and three processes with so many statements each, under both isolation
levels; the figures are printed (`pytest -s`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import rowmerge
from tests.engine.stress import KEYS, statement, turns_in_log, work

NIGHTLY = int(os.environ.get("ROWMERGE_STRESS", "0"))
THREADS, PROCESSES, TURNS = (8, 3, NIGHTLY) if NIGHTLY else (4, 0, 3)


LEVELS = [
    ("delta", "Serializable", False),
    ("iceberg", "Serializable", False),
    ("iceberg", "Serializable", True),
    *([("delta", "WriteSerializable", False)] if NIGHTLY else []),
]


@pytest.mark.parametrize(("format_", "level", "in_catalog"), LEVELS)
def test_the_table_ends_as_its_log_says(
    session: rowmerge.Session, spark: SparkSession, tmp_path: Path, format_: str, level: str, in_catalog: bool
) -> None:
    """`in_catalog`: of pyiceberg, a SQL catalog on SQLite."""
    warehouse = str(tmp_path / ("lake" if in_catalog else "warehouse"))
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{warehouse}"} if in_catalog else None
    if catalog is not None:
        session = rowmerge.connect(warehouse, catalog=catalog, spark=spark)
        session.sql("create schema if not exists default")
    isolation = f", 'delta.isolationLevel' = '{level}'" if format_ == "delta" else ""
    session.sql(f"create table t (id int, n int) using {format_} tblproperties ('rowmerge.write.mode' = 'merge-on-read'{isolation})")
    session.sql(f"insert into t select cast(id as int), cast(id % 100 as int) from range({KEYS}) distribute by 1")
    processes = [start(warehouse, THREADS + number, level, catalog) for number in range(PROCESSES)]
    begun = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    own = rowmerge.connect(warehouse, catalog=catalog, spark=spark, commit_retries=1000)
    with ThreadPoolExecutor(THREADS) as pool:
        figures = sum(pool.map(lambda number: work(own, number, TURNS, level), range(THREADS)), Counter())
    for process in processes:
        assert process.stdout is not None
        figures += Counter(json.loads(process.stdout.readline()))
        assert process.wait() == 0
    seconds = time.perf_counter() - begun
    sys.stdout.write(f"\n{format_}{' in a catalog' if in_catalog else ''}, {level}: {dict(figures)}, {seconds:.0f} s\n")

    rows = {key: key % 100 for key in range(KEYS)}
    metadata = None if catalog is None else load_catalog("default", **catalog).load_table("default.t").metadata_location
    newest = None if metadata is None else Path(metadata.removeprefix("file://"))
    done = list(turns_in_log(Path(warehouse) / "default" / "t", newest))
    assert sorted(done) == [(worker, turn) for worker in range(THREADS + PROCESSES) for turn in range(TURNS)]
    for worker, turn in done:
        statement(worker, turn, level).apply(rows)
    found = sorted((row[0], row[1]) for row in session.sql("select id, n from t").collect())
    assert found == sorted(rows.items())


def start(warehouse: str, worker: int, level: str, catalog: dict[str, str] | None) -> subprocess.Popen[str]:
    """A worker in a process of its own, ready to begin."""
    configuration = [] if catalog is None else [json.dumps(catalog)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.stress", warehouse, str(worker), str(TURNS), level, *configuration],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process
