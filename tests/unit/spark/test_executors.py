"""The code on executors needs no rowmerge there."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle

from rowmerge.parquet.data_files import StoredColumns, WriteSpec
from rowmerge.parquet.outcomes import INSERT, OutcomeColumns
from rowmerge.parquet.partitions import PartitionKey
from rowmerge.parquet.small_files import SmallFilesSpec, small_files_task
from rowmerge.spark.executors import bind_for_executors
from rowmerge.spark.writing.sink import outcome_sink

EXECUTOR = """
import pickle, sys
import pyarrow as pa
sys.modules["rowmerge"] = sys.modules["pyroaring"] = None
run = pickle.load(open(sys.argv[1], "rb"))
rows = pa.record_batch({"action": pa.array([3, 3], pa.int8()), "n": pa.array([7, 8], pa.int64()), "p": pa.array(["a", "b"])})
(answer,) = run(iter([rows]))
open(sys.argv[2], "wb").write(answer["message"][0].as_py())
"""


def test_an_executor_writes_files_without_rowmerge(tmp_path: Path) -> None:
    columns = pa.schema([("n", pa.int64())])
    key = PartitionKey("p", "p", ("p",), pa.string(), "identity")
    spec = WriteSpec(tmp_path.as_uri(), ("n", "p"), columns, columns, False, (key,), False, frozenset({"n"}))
    function, message = tmp_path / "function", tmp_path / "message"
    function.write_bytes(cloudpickle.dumps(bind_for_executors(outcome_sink, spec, OutcomeColumns("action", new_columns=("n", "p")), None)))
    subprocess.run([sys.executable, "-c", EXECUTOR, str(function), str(message)], check=True)
    report = pickle.loads(message.read_bytes())["message"]
    assert report["inserted"] == 2 and INSERT == 3
    assert sorted((file["partition"]["p"], pq.read_table(file["path"][len("file://") :])["n"][0].as_py()) for file in report["files"]) == [
        ("a", 7),
        ("b", 8),
    ]


WORKER = """
import gc, pickle, sys
import pyarrow as pa
load_code, loads = pickle.loads, []
pickle.loads = lambda content: loads.append(len(content)) or load_code(content)
for _ in range(2):
    run = pickle.load(open(sys.argv[1], "rb"))
    assert list(run(iter([]))) == []
    assert gc.get_freeze_count() > 10_000
assert len(loads) == 1, loads
"""


def test_a_worker_loads_the_code_of_its_tasks_once(tmp_path: Path) -> None:
    function = tmp_path / "function"
    spec = SmallFilesSpec(pa.schema([]), StoredColumns(pa.schema([]), False, ()))
    function.write_bytes(cloudpickle.dumps(bind_for_executors(small_files_task, spec, [], 1)))
    subprocess.run([sys.executable, "-c", WORKER, str(function)], check=True)
