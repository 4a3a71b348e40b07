"""Streams whose process is killed at any time, and restarted with the same checkpoints, lose no row and duplicate none."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from tests.support.readers import read_with_delta_rs, read_with_pyiceberg

ROOT = Path(__file__).parents[2]
STREAMS = """
import json, sys
import rowmerge
from rowmerge.session.startup.embedded import start_spark
from tests.support.jvm import SPARK_SETTINGS
options, folder, is_last = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3] == "last"
spark = start_spark(SPARK_SETTINGS)

def copy(frame, target, trigger):
    writer = frame.writeStream.format("rowmerge").options(**options, table=target, txnAppId=target)
    return writer.option("checkpointLocation", f"{folder}/{target}").trigger(**trigger).start()

first = spark.readStream.format("rowmerge").options(**options, table="default.first").load()
trigger = {"availableNow": True} if is_last else {"processingTime": "0 seconds"}
if is_last:
    copy(first, "default.second", trigger).awaitTermination()
else:
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load().selectExpr("value as id", "value % 3 as part")
    queries = [copy(numbers, "default.first", trigger), copy(first, "default.second", trigger)]
    print("ready", flush=True)
    spark.streams.awaitAnyTermination()
"""


@pytest.mark.one_of("place")
@pytest.mark.parametrize("place", ["delta", "iceberg", "sql"])
def test_killed_streams_lose_and_duplicate_no_row(spark: SparkSession, tmp_path: Path, place: str) -> None:
    _kill_streams(spark, tmp_path, place, kills=1)


@pytest.mark.full_suite("a variant of the test above with more kills")
@pytest.mark.parametrize("place", ["delta", "iceberg", "sql"])
def test_streams_that_are_killed_20_times_lose_and_duplicate_no_row(spark: SparkSession, tmp_path: Path, place: str) -> None:
    _kill_streams(spark, tmp_path, place, kills=20)


def _kill_streams(spark: SparkSession, tmp_path: Path, place: str, kills: int) -> None:
    """Kill two streams several times: numbers into a table, and the table's new rows into a second one. Then verify both tables."""
    warehouse, checkpoints = tmp_path / "warehouse", tmp_path / "checkpoints"
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"} if place == "sql" else None
    session = rowmerge.connect(str(warehouse), catalog=catalog, spark=spark)
    session.sql("create schema if not exists default")
    for name in ("first", "second"):
        format_ = "delta" if place == "delta" else "iceberg"
        session.sql(f"create table {name} (id bigint not null, part bigint) using {format_} partitioned by (part)")
    options = {"warehouse": str(warehouse), **{f"catalog.{name}": value for name, value in (catalog or {}).items()}}
    for kill in range(kills):
        _run_until_killed(options, checkpoints / ("default.first", "default.second")[kill % 2] / "commits")
    subprocess.run(_command(options, checkpoints, "last"), check=True, env=_environment())
    session = rowmerge.connect(str(warehouse), catalog=catalog, spark=spark)
    ids = {name: sorted(row["id"] for row in session.table(name).collect()) for name in ("first", "second")}
    assert ids["first"] == list(range(len(ids["first"]))) and len(ids["first"]) >= 7 * kills
    assert ids["second"] == ids["first"]
    if place != "sql":
        read = read_with_delta_rs if place == "delta" else read_with_pyiceberg
        assert sorted(read(session.describe("default", "second").location)["id"].to_pylist()) == ids["first"]


def _run_until_killed(options: Mapping[str, str], commits: Path) -> None:
    """Run the streams, and kill them some time after one of them has made progress. `commits`: the folder of its committed batches."""
    checkpoints = commits.parents[1]
    process = subprocess.Popen(
        _command(options, checkpoints, "endless"), stdout=subprocess.PIPE, text=True, start_new_session=True, env=_environment()
    )
    assert process.stdout is not None
    count = len(list(commits.glob("[0-9]*")))
    assert process.stdout.readline().strip() == "ready"
    deadline = time.monotonic() + 300
    while len(list(commits.glob("[0-9]*"))) == count:
        assert process.poll() is None and time.monotonic() < deadline, "the streams make no progress"
        time.sleep(0.05)
    time.sleep(random.uniform(0, 5))
    assert process.poll() is None, "a stream has failed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _command(options: Mapping[str, str], checkpoints: Path, mode: str) -> list[str]:
    return [sys.executable, "-c", STREAMS, json.dumps(options), str(checkpoints), mode]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])}
