"""Two processes that change one table of a SQL catalog at the same time, and one that is killed: no acknowledged change is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

from rowmerge.catalog import IcebergCatalog
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.postgresql import needs_postgresql, new_database
from tests.support.table_operations import write_rows_for

TURNS = 8
INCREMENTER = """
import json, sys
from rowmerge.catalog import IcebergCatalog
from tests.unit.catalog.test_two_processes import increment
table = IcebergCatalog(json.loads(sys.argv[1]), None).open("raw", "t")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    increment(table)
    print("turn", flush=True)
"""


def value(table: Any) -> int:
    """Return the number in the only row of the table."""
    (path,) = table.snapshot().files().paths
    return int(pq.read_table(path.removeprefix("file://"))["id"][0].as_py())


def increment(table: Any) -> None:
    """Replace the file with the number by a file with the next number, and run again after a conflict."""
    while True:
        snapshot = table.snapshot()
        (path,) = snapshot.files().paths
        number = int(pq.read_table(path.removeprefix("file://"))["id"][0].as_py())
        changes = FileChanges(write_rows_for(snapshot.shape, [number + 1]), removed=(path,))
        if isinstance(table.commit(snapshot, CommitRequest("UPDATE", files=changes)), Committed):
            return


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgresql)])
def configuration(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    sql = {"type": "sql", "warehouse": f"file://{tmp_path}/w"}
    if request.param == "sqlite":
        yield {**sql, "uri": f"sqlite:///{tmp_path}/catalog.db"}
        return
    with new_database(request.getfixturevalue("postgresql")) as uri:
        yield {**sql, "uri": uri}


def start(configuration: dict[str, Any], turns: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", INCREMENTER, json.dumps(configuration), str(turns)]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_no_change_of_two_processes_is_lost_and_a_killed_one_leaves_an_old_or_new_version(configuration: dict[str, Any]) -> None:
    catalog = IcebergCatalog(configuration, None)
    catalog.create_schema("raw")
    table = catalog.new_table("raw", "t", "iceberg")
    definition = TableDefinition(Struct((Field("id", Primitive("long")), Field("name", Primitive("string")))))
    assert isinstance(table.create(definition, CommitRequest("CREATE TABLE")), Committed)
    snapshot = table.snapshot()
    table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows_for(snapshot.shape, [0]))))
    workers = [start(configuration, TURNS), start(configuration, TURNS), start(configuration, 1000)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    victim = workers[2]
    assert victim.stdout is not None
    assert victim.stdout.readline() == "turn\n"
    time.sleep(0.05)
    victim.send_signal(signal.SIGKILL)
    killed_turns = 1 + victim.stdout.read().count("turn")
    for worker in workers[:2]:
        output, _ = worker.communicate(timeout=300)
        assert worker.returncode == 0 and output.count("turn") == TURNS
    assert value(table) in (2 * TURNS + killed_turns, 2 * TURNS + killed_turns + 1)
    assert load_catalog("default", **configuration).load_table("raw.t").scan().to_arrow()["id"].to_pylist() == [value(table)]
