"""Threads and processes change one table with random statements. The rows equal a replay of the log, and each statement commits once.

The soak suite runs more threads and statements, also processes, and both isolation levels. `pytest -s` prints the counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import rowmerge
from tests.engine.stress import KEYS, statement, turns_in_log, work

pytestmark = pytest.mark.one_of("format_", "in_catalog")

LEVELS = [("delta", "Serializable", False), ("iceberg", "Serializable", False), ("iceberg", "Serializable", True)]


@dataclass(frozen=True)
class Load:
    """The number of threads and processes that change the table, and of statements that each of them runs."""

    threads: int
    processes: int
    turns: int


@pytest.mark.parametrize(("format_", "level", "in_catalog"), LEVELS)
def test_the_final_rows_equal_a_replay_of_the_log(
    session: rowmerge.Session, spark: SparkSession, tmp_path: Path, format_: str, level: str, in_catalog: bool
) -> None:
    _stress(session, spark, tmp_path, format_, level, in_catalog, Load(threads=4, processes=0, turns=3))


@pytest.mark.soak
@pytest.mark.parametrize(("format_", "level", "in_catalog"), [*LEVELS, ("delta", "WriteSerializable", False)])
def test_the_final_rows_equal_a_replay_of_hundreds_of_statements(
    session: rowmerge.Session, spark: SparkSession, tmp_path: Path, format_: str, level: str, in_catalog: bool
) -> None:
    _stress(session, spark, tmp_path, format_, level, in_catalog, Load(threads=8, processes=3, turns=50))


def _stress(session: rowmerge.Session, spark: SparkSession, tmp_path: Path, format_: str, level: str, in_catalog: bool, load: Load) -> None:
    """Let all workers change one table, then replay the log. `in_catalog` selects a SQL catalog of pyiceberg on SQLite."""
    warehouse = str(tmp_path / ("lake" if in_catalog else "warehouse"))
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{warehouse}"} if in_catalog else None
    if catalog is not None:
        session = rowmerge.connect(warehouse, catalog=catalog, spark=spark)
        session.sql("create schema if not exists default")
    isolation = f", 'delta.isolationLevel' = '{level}'" if format_ == "delta" else ""
    session.sql(f"create table t (id int, n int) using {format_} tblproperties ('rowmerge.write.mode' = 'merge-on-read'{isolation})")
    session.sql(f"insert into t select cast(id as int), cast(id % 100 as int) from range({KEYS}) distribute by 1")
    processes = [start(warehouse, load.threads + number, load.turns, level, catalog) for number in range(load.processes)]
    begun = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    own = rowmerge.connect(warehouse, catalog=catalog, spark=spark, commit_retries=1000)
    with ThreadPoolExecutor(load.threads) as pool:
        figures = sum(pool.map(lambda number: work(own, number, load.turns, level), range(load.threads)), Counter())
    for process in processes:
        assert process.stdout is not None
        figures += Counter(json.loads(process.stdout.readline()))
        assert process.wait() == 0
    seconds = time.perf_counter() - begun
    sys.stdout.write(f"\n{format_}{' in a catalog' if in_catalog else ''}, {level}: {dict(figures)}, {seconds:.0f} s\n")

    rows = {key: key % 100 for key in range(KEYS)}
    metadata = None if catalog is None else load_catalog("default", **catalog).load_table("default.t").metadata_location
    newest = None if metadata is None else Path(metadata.removeprefix("file://"))
    committed_turns = list(turns_in_log(Path(warehouse) / "default" / "t", newest))
    assert sorted(committed_turns) == [(worker, turn) for worker in range(load.threads + load.processes) for turn in range(load.turns)]
    for worker, turn in committed_turns:
        statement(worker, turn, level).apply(rows)
    table_rows = sorted((row[0], row[1]) for row in session.sql("select id, n from t").collect())
    assert table_rows == sorted(rows.items())


def start(warehouse: str, worker: int, turns: int, level: str, catalog: dict[str, str] | None) -> subprocess.Popen[str]:
    """Start a worker in its own process, ready to begin."""
    configuration = [] if catalog is None else [json.dumps(catalog)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.stress", warehouse, str(worker), str(turns), level, *configuration],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process
