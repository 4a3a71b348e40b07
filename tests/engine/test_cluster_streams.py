"""A stream on a standalone cluster whose workers lack rowmerge, and which loses an executor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.readers import read_with_delta_rs, read_with_pyiceberg
from tests.support.standalone import DRIVER_SETTINGS, ROOT, StandaloneCluster, worker_python

BATCHES, ROWS = 4, 10_000
STREAM = """
import json, sys
import rowmerge
folder, format_, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
session = rowmerge.connect(f"{folder}/warehouse", spark_config=settings)
session.sql(f"create table t (id bigint) using {format_}")
rows = session.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(f"{folder}/source").repartition(4)
slow = "length(reflect('java.lang.Thread', 'sleep', if(id % 2500 = 0, 1000L, 0L)))"
writer = rows.where(f"coalesce({slow}, 0) >= 0").writeStream.format("rowmerge").option("checkpointLocation", f"{folder}/checkpoint")
writer = writer.options(warehouse=f"{folder}/warehouse", table="default.t", txnAppId="stream").trigger(availableNow=True)
writer.start().awaitTermination()
"""


@pytest.mark.one_of("format_")
@pytest.mark.full_suite("a cluster starts for each test; tests/engine/test_streaming.py appends streams in the gate")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_stream_that_loses_an_executor_appends_each_row_once(tmp_path: Path, format_: str) -> None:
    (tmp_path / "source").mkdir()
    for batch in range(BATCHES):
        pq.write_table(pa.table({"id": range(batch * ROWS, (batch + 1) * ROWS)}), tmp_path / "source" / f"{batch}.parquet")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho >> {tmp_path}/starts\nexec {worker_python()} "$@"\n')
    python.chmod(0o755)
    commits = tmp_path / "checkpoint" / "commits"
    with closing(StandaloneCluster(tmp_path / "cluster")) as cluster:
        settings = {**DRIVER_SETTINGS, "spark.master": cluster.master, "spark.pyspark.python": str(python)}
        command = [sys.executable, "-c", STREAM, str(tmp_path), format_, json.dumps(settings)]
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
            while not (commits / "0").exists():
                assert process.poll() is None, "the stream has failed"
                time.sleep(0.05)
            time.sleep(1)  # each batch takes two seconds or more
            cluster.kill_executor()
        assert process.returncode == 0
    assert (tmp_path / "starts").exists(), "the executors have run another Python"
    assert len(list(commits.glob("[0-9]*"))) == BATCHES
    location = (tmp_path / "warehouse" / "default" / "t").as_uri()
    rows = (read_with_delta_rs if format_ == "delta" else read_with_pyiceberg)(location)
    assert sorted(rows["id"].to_pylist()) == list(range(BATCHES * ROWS))
