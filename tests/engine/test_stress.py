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
from pyspark.sql import SparkSession

import rowmerge
from tests.engine.stress import KEYS, statement, turns_in_log, work

NIGHTLY = int(os.environ.get("ROWMERGE_STRESS", "0"))
THREADS, PROCESSES, TURNS = (8, 3, NIGHTLY) if NIGHTLY else (4, 0, 3)


LEVELS = [("delta", "Serializable"), ("iceberg", "Serializable"), *([("delta", "WriteSerializable")] if NIGHTLY else [])]


@pytest.mark.parametrize(("format_", "level"), LEVELS)
def test_the_table_ends_as_its_log_says(session: rowmerge.Session, spark: SparkSession, tmp_path: Path, format_: str, level: str) -> None:
    warehouse = str(tmp_path / "warehouse")
    isolation = f", 'delta.isolationLevel' = '{level}'" if format_ == "delta" else ""
    session.sql(f"create table t (id int, n int) using {format_} tblproperties ('rowmerge.write.mode' = 'merge-on-read'{isolation})")
    session.sql(f"insert into t select cast(id as int), cast(id % 100 as int) from range({KEYS}) distribute by 1")
    processes = [start(warehouse, THREADS + number, level) for number in range(PROCESSES)]
    begun = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    own = rowmerge.connect(warehouse, spark=spark, commit_retries=1000)
    with ThreadPoolExecutor(THREADS) as pool:
        figures = sum(pool.map(lambda number: work(own, number, TURNS, level), range(THREADS)), Counter())
    for process in processes:
        assert process.stdout is not None
        figures += Counter(json.loads(process.stdout.readline()))
        assert process.wait() == 0
    seconds = time.perf_counter() - begun
    sys.stdout.write(f"\n{format_}, {level}: {dict(figures)}, {seconds:.0f} s\n")

    rows = {key: key % 100 for key in range(KEYS)}
    done = list(turns_in_log(Path(warehouse) / "default" / "t"))
    assert sorted(done) == [(worker, turn) for worker in range(THREADS + PROCESSES) for turn in range(TURNS)]
    for worker, turn in done:
        statement(worker, turn, level).apply(rows)
    found = sorted((row[0], row[1]) for row in session.sql("select id, n from t").collect())
    assert found == sorted(rows.items())


def start(warehouse: str, worker: int, level: str) -> subprocess.Popen[str]:
    """A worker in a process of its own, ready to begin."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.stress", warehouse, str(worker), str(TURNS), level],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process
