"""A process that is killed during a merge leaves the old or the new version."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.delta import DeltaTable
from rowmerge.delta.maintenance.vacuum import referenced_paths
from rowmerge.errors import TableError
from rowmerge.storage.store import Storage
from tests.support.iceberg_lake import needed

ROOT = Path(__file__).parents[2]
ROWS = 5_000
WRITER = """
import json
import sys
import rowmerge
from tests.support.jvm import SPARK_SETTINGS
session = rowmerge.connect(sys.argv[1], catalog=json.loads(sys.argv[2]), spark_config=SPARK_SETTINGS)
print("ready", flush=True)
turn = session.sql("select max(turn) from ledger").collect()[0][0]
while True:
    turn += 1
    session.spark.range({rows}).selectExpr("id", "cast({{}} as int) as turn".format(turn)).createOrReplaceTempView("next")
    session.sql("merge into ledger t using next s on t.id = s.id when matched then update set *")
    print("turn", turn, flush=True)
"""

DYING = """
import sys
from rowmerge.catalog import DirectoryCatalog
from rowmerge.session.startup.embedded import start_spark
from rowmerge.session.session import Session
from tests.support.jvm import SPARK_SETTINGS
from tests.support.faulty_storage import Fault, FaultyStorage, Kind
fault = Fault(Kind.KILLED)
session = Session(DirectoryCatalog(FaultyStorage(sys.argv[1], fault)), start_spark(SPARK_SETTINGS), "default", sys.argv[3], owns_spark=True)
for turn in (1, 2, 3):
    session.spark.range(100).selectExpr("id", f"cast({turn} as int) as turn").createOrReplaceTempView("next")
    calls = len(fault.calls)
    fault.calls.clear()
    if turn == 3:
        print(calls, flush=True)
        fault.at = int(sys.argv[2]) if int(sys.argv[2]) > 0 else calls + int(sys.argv[2])
    session.sql("merge into ledger t using next s on t.id = s.id when matched then update set *")
"""
# After the put of the commit, Delta lists the log and puts the checksum.
# Iceberg verifies the version, and reads, writes and checks the hint.
POINTS = [("delta", "copy-on-write", -3), ("delta", "merge-on-read", -2), ("iceberg", "merge-on-read", -15)]


@pytest.mark.one_of("format_", "mode", "point")
@pytest.mark.parametrize(("format_", "mode", "point"), POINTS)
def test_a_merge_killed_at_a_storage_call_leaves_a_version_and_files_for_vacuum(
    spark: SparkSession, tmp_path: Path, format_: str, mode: str, point: int
) -> None:
    """Kill at the call that puts the commit, and at a call before it."""
    _kill_a_merge(spark, tmp_path, format_, mode, point)


@pytest.mark.soak
@pytest.mark.parametrize(("format_", "mode"), [each[:2] for each in POINTS])
def test_a_merge_killed_at_any_storage_call_leaves_a_complete_version(spark: SparkSession, tmp_path: Path, format_: str, mode: str) -> None:
    calls = _kill_a_merge(spark, tmp_path, format_, mode, 0)
    for point in range(1, calls):
        _kill_a_merge(spark, tmp_path, format_, mode, point)


def _kill_a_merge(spark: SparkSession, tmp_path: Path, format_: str, mode: str, point: int) -> int:
    """Kill a merge at a storage call (from 1; 0 or less counts from the last), verify the table, and return the number of calls."""
    warehouse = str(tmp_path / "warehouse")
    session = rowmerge.connect(warehouse, spark=spark, default_format=format_)
    ids = pa.table({"id": pa.array(range(ROWS), pa.int64()), "turn": pa.array([0] * ROWS, pa.int32())})
    session.write(ids, "ledger", mode="replace", properties=_properties(format_, mode, 100))
    calls = _merge_and_die(warehouse, point, format_)
    session = rowmerge.connect(warehouse, spark=spark, default_format=format_)
    rows = session.table("ledger").toArrow()
    assert sorted(rows["id"].to_pylist()) == list(range(ROWS))
    turns = pc.unique(rows.filter(pc.less(rows["id"], 100))["turn"]).to_pylist()
    # Calls after the put of a commit verify it, and write an Iceberg table's hint or a Delta table's checksum.
    possible = [[2], [3]] if point > 0 else [[2]]
    assert turns in possible, f"killed at call {point} of {calls}"
    session.sql("merge into ledger t using (select 7 as id, 9 as turn) s on t.id = s.id when matched then update set *")
    _check_that_vacuum_leaves_what_is_needed(session)
    return calls


def _properties(format_: str, mode: str, interval: int) -> dict[str, str]:
    return {"rowmerge.write.mode": mode, **({"delta.checkpointInterval": str(interval)} if format_ == "delta" else {})}


def _merge_and_die(warehouse: str, point: int, format_: str) -> int:
    """Return the number of storage calls that the merge makes if it is not killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", DYING, warehouse, str(point), format_],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])},
    )
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    return int(output)


def _check_that_vacuum_leaves_what_is_needed(session: rowmerge.Session) -> None:
    old_rows = session.table("ledger").toArrow()
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    session.sql("vacuum ledger retain 0 hours")
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = true")
    folder = Path(session.describe("default", "ledger").location.removeprefix("file://"))
    storage = Storage(str(folder))
    on_disk = {o.path for o in storage.list() if not o.path.startswith("_delta_log/")}
    delta = (folder / "_delta_log").is_dir()
    assert on_disk == (referenced_paths(DeltaTable(storage, "ledger").snapshot()) if delta else needed(folder))
    assert session.table("ledger").toArrow().sort_by("id").equals(old_rows.sort_by("id"))


WRITERS = [("delta", "copy-on-write"), ("delta", "merge-on-read"), ("sql", "merge-on-read")]


@pytest.mark.one_of("place", "mode")
@pytest.mark.parametrize(("place", "mode"), WRITERS)
def test_killing_the_writer_leaves_a_complete_version(spark: SparkSession, tmp_path: Path, place: str, mode: str) -> None:
    _kill_the_writer(spark, tmp_path, place, mode, kills=1)


@pytest.mark.soak
@pytest.mark.parametrize(("place", "mode"), [*WRITERS, ("sql", "copy-on-write")])
def test_killing_the_writer_repeatedly_leaves_a_complete_version(spark: SparkSession, tmp_path: Path, place: str, mode: str) -> None:
    _kill_the_writer(spark, tmp_path, place, mode, kills=20)


def _kill_the_writer(spark: SparkSession, tmp_path: Path, place: str, mode: str, kills: int) -> None:
    """Kill a process at a random time after its first merge. `sql` selects Iceberg tables in a SQL catalog of pyiceberg."""
    warehouse = str(tmp_path / "warehouse")
    sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{warehouse}"}
    catalog = sql if place == "sql" else None
    session = rowmerge.connect(warehouse, catalog=catalog, spark=spark)
    session.sql("create schema if not exists default")
    properties = _properties(place, mode, 3)
    ids = pa.table({"id": pa.array(range(ROWS), pa.int64()), "turn": pa.array([0] * ROWS, pa.int32())})
    session.write(ids, "ledger", mode="replace", properties=properties)
    for _ in range(kills):
        acknowledged = _merge_until_killed(warehouse, catalog)
        ledger = rowmerge.connect(warehouse, catalog=catalog, spark=spark).table("ledger").toArrow()
        assert ledger.num_rows == ROWS
        assert sorted(ledger["id"].to_pylist()) == list(range(ROWS))
        turns = pc.unique(ledger["turn"]).to_pylist()
        assert len(turns) == 1, f"rows of several turns: {turns}"
        assert turns[0] >= acknowledged, "a merge that was reported done is lost"
    session = rowmerge.connect(warehouse, catalog=catalog, spark=spark)
    assert session.execute("delete from ledger where id < 10").changes.deleted == 10  # type: ignore[union-attr]


def _merge_until_killed(warehouse: str, catalog: dict[str, str] | None) -> int:
    """Return the last turn that the killed process reported as merged."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER.format(rows=ROWS), warehouse, json.dumps(catalog)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])},
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    first = process.stdout.readline().split()
    assert first[0] == "turn"
    time.sleep(random.uniform(0.2, 1.5))
    os.killpg(process.pid, signal.SIGKILL)
    later_turns = [line.split() for line in process.stdout.read().splitlines() if line.startswith("turn ")]
    process.wait()
    return int((later_turns or [first])[-1][1])


DYING_COPY = """
import sys
from rowmerge.catalog import DirectoryCatalog
from rowmerge.catalog.tables_by_path import TablesByPath
from rowmerge.session.startup.embedded import start_spark
from rowmerge.session.session import Session
from tests.support.jvm import SPARK_SETTINGS
from tests.support.faulty_storage import Fault, FaultyStorage, Kind
warehouse, statement, later_calls = sys.argv[1:]
fault = Fault(Kind.KILLED)
paths = TablesByPath(lambda location: FaultyStorage(location, fault))
catalog = DirectoryCatalog(FaultyStorage(warehouse, fault))
session = Session(catalog, start_spark(SPARK_SETTINGS), "default", "delta", owns_spark=True, tables_by_path=paths)
class Calls(list):
    def append(self, call):
        list.append(self, call)
        if call.startswith("put_if_absent _delta_log/"):
            fault.at = len(self) + int(later_calls)
fault.calls = Calls()
session.sql(statement)
"""
COPIES = {
    "deep clone": ("create table c deep clone t", "c"),
    "conversion of Parquet files": ("convert to delta parquet.`{folder}/plain`", "delta.`{folder}/plain`"),
    "conversion of an Iceberg table": ("convert to delta iceberg.`{folder}/i`", "delta.`{folder}/i`"),
}


@pytest.mark.one_of("statement", "later_calls")
@pytest.mark.parametrize("later_calls", [0, 1], ids=["at the commit", "after the commit"])
@pytest.mark.parametrize("statement", COPIES)
def test_a_killed_clone_or_conversion_leaves_the_old_state_or_the_new_one(
    spark: SparkSession, tmp_path: Path, statement: str, later_calls: int
) -> None:
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    session.sql("create table t using delta as select id from range(10)")
    session.sql(f"create table i using iceberg location '{tmp_path}/i' as select id from range(10)")
    spark.range(10).write.parquet(str(tmp_path / "plain"))
    text, result = (part.format(folder=tmp_path) for part in COPIES[statement])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *(each for each in sys.path if each)])}
    arguments = [str(tmp_path / "warehouse"), text, str(later_calls)]
    process = subprocess.run([sys.executable, "-c", DYING_COPY, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr[-2000:]
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    assert session.sql("select count(*) from t").collect() == session.sql("select count(*) from i").collect() == [(10,)]
    assert spark.read.parquet(str(tmp_path / "plain")).count() == 10
    if later_calls:
        assert session.sql(f"select count(*), sum(id) from {result}").collect() == [(10, 45)]
    else:
        with pytest.raises(TableError):
            session.sql(f"select count(*) from {result}")
    session.sql(text.replace("create table", "create or replace table"))
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    session.sql(f"vacuum {result} retain 0 hours")
    assert session.sql(f"select count(*), sum(id) from {result}").collect() == [(10, 45)]
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = true")
