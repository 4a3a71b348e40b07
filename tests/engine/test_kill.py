"""A process that is killed while it merges leaves the old version or the new one, never something between."""

from __future__ import annotations

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

ROWS = 5_000
WRITER = """
import sys
import rowmerge
session = rowmerge.connect(sys.argv[1])
print("ready", flush=True)
turn = session.sql("select max(turn) from ledger").collect()[0][0]
while True:
    turn += 1
    session.spark.range({rows}).selectExpr("id", "cast({{}} as int) as turn".format(turn)).createOrReplaceTempView("next")
    session.sql("merge into ledger t using next s on t.id = s.id when matched then update set *")
    print("turn", turn, flush=True)
"""


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_killing_the_writer_leaves_one_whole_version(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    warehouse = str(tmp_path / "warehouse")
    session = rowmerge.connect(warehouse, spark=spark)
    properties = {"rowmerge.write.mode": mode, "delta.checkpointInterval": "3"}
    ids = pa.table({"id": pa.array(range(ROWS), pa.int64()), "turn": pa.array([0] * ROWS, pa.int32())})
    session.write(ids, "ledger", mode="replace", properties=properties)
    for _ in range(2):
        acknowledged = _merge_until_killed(warehouse)
        found = rowmerge.connect(warehouse, spark=spark).table("ledger").toArrow()
        assert found.num_rows == ROWS
        assert sorted(found["id"].to_pylist()) == list(range(ROWS))
        turns = pc.unique(found["turn"]).to_pylist()
        assert len(turns) == 1, f"rows of several turns: {turns}"
        assert turns[0] >= acknowledged, "a merge that was reported done is lost"
    session = rowmerge.connect(warehouse, spark=spark)
    assert session.execute("delete from ledger where id < 10").changes.deleted == 10  # type: ignore[union-attr]


def _merge_until_killed(warehouse: str) -> int:
    """The last turn that the killed process reported as merged."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER.format(rows=ROWS), warehouse],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    first = process.stdout.readline().split()
    assert first[0] == "turn"
    time.sleep(random.uniform(0.2, 1.5))
    os.killpg(process.pid, signal.SIGKILL)
    rest = [line.split() for line in process.stdout.read().splitlines() if line.startswith("turn ")]
    process.wait()
    return int((rest or [first])[-1][1])
