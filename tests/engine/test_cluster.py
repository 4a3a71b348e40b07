"""A standalone cluster: workers whose Python lacks rowmerge, folders that they do not share, lost executors, and errors."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.readers import read_with_delta_rs, read_with_pyiceberg
from tests.support.standalone import (
    DRIVER_SETTINGS,
    EMPTY_FOLDER,
    SMALL_LOCAL_FOLDER,
    WRITES_ELSEWHERE,
    Driver,
    StandaloneCluster,
    StatementError,
    worker_python,
)

pytestmark = pytest.mark.one_of("format_")
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
FULL_SUITE = pytest.mark.full_suite("Each driver takes seconds to start. The gate runs statements on one cluster.")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts another folder for a worker")
PROPERTIES = {"delta": "tblproperties ('delta.enableChangeDataFeed' = 'true')", "iceberg": ""}
SECONDS = 120
RANDOM_KEY = "id * 10 + pmod(hash(reflect('java.util.UUID', 'randomUUID')), 2)"
"""A key that is another one in each evaluation, with or without a match in a table of all multiples of 10."""
RANDOM_PARTITION = "pmod(hash(id, reflect('java.util.UUID', 'randomUUID')), 8)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.fixture
def connect(cluster: StandaloneCluster, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Yield a function that starts a driver, whose warehouse is `tmp_path / "warehouse"`. Its argument are settings of Spark."""
    drivers: list[Driver] = []

    def start(settings: dict[str, str] | None = None) -> Driver:
        defaults = {**DRIVER_SETTINGS, "spark.master": cluster.master, "spark.pyspark.python": worker_python()}
        drivers.append(Driver(str(tmp_path / "warehouse"), {**defaults, **(settings or {})}))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def files_of(folder: Path, pattern: str) -> list[Path]:
    return [path for path in folder.rglob(pattern) if path.is_file()]


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "the condition does not become true"
        time.sleep(0.02)


def read(warehouse: Path, format_: str, name: str) -> list[dict[str, Any]]:
    location = (warehouse / "default" / name).as_uri()
    rows: list[dict[str, Any]] = (read_with_delta_rs if format_ == "delta" else read_with_pyiceberg)(location).to_pylist()
    return sorted(rows, key=json.dumps)


def assert_every_file_is_live(driver: Driver, warehouse: Path, replaced: Collection[Path] = ()) -> None:
    """Verify that the newest version of a table has all data files in its folder, except those that a statement may have replaced."""
    live = {json.loads(row)["f"].rpartition("/")[2] for row in driver.sql("select distinct _metadata.file_path as f from t")}
    assert {
        path.name for path in files_of(warehouse / "default" / "t", "part-*.parquet") if path not in replaced or path.name in live
    } == live


def copies_of_tasks(event_log: Path) -> int:
    """Return how many speculative copies of tasks have started, according to the event log of Spark."""
    lines = (line for path in files_of(event_log, "events_*") for line in path.read_text().splitlines())
    return sum('"SparkListenerTaskStart"' in line and '"Speculative":true' in line for line in lines)


def create_table_without_cluster(warehouse: Path, format_: str) -> None:
    """Create a table of 25,000 rows in several files."""
    local = Driver(str(warehouse), {**DRIVER_SETTINGS, "spark.master": "local[1]"})
    local.sql(f"create table t using {format_} as select id, id as v from range(0, 20000)")
    for end in range(21_000, 26_000, 1_000):
        local.sql(f"insert into t select id, id from range({end - 1_000}, {end})")
    local.close()


@FORMATS
def test_workers_without_rowmerge_run_statements_from_a_profile_alone(connect: Callable[..., Driver], tmp_path: Path, format_: str) -> None:
    driver = connect()
    driver.sql(f"create table t using {format_} {PROPERTIES[format_]} as select id, id as v from range(0, 30000, 1, 3)")
    driver.sql("insert into t select id, id from range(30000, 40000, 1, 2)")
    source = "select id, -1L as v from range(35000, 45000, 1, 2)"
    driver.sql(f"merge into t using ({source}) s on t.id = s.id when matched then update set * when not matched then insert *")
    driver.sql("delete from t where id % 3 = 0 and v >= 0")
    driver.sql("optimize t")
    expected = [{"id": n, "v": -1 if n >= 35_000 else n} for n in range(45_000) if n % 3 or n >= 35_000]
    assert read(tmp_path / "warehouse", format_, "t") == sorted(expected, key=json.dumps)
    assert not files_of(tmp_path, "*.marker")


@contextmanager
def driver_of_worker_with_other_view(tmp_path: Path, folder: Path, mount: str) -> Iterator[Driver]:
    """Yield a driver on a cluster whose only worker sees another folder."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not allow other views of a folder (unshare --mount)")
    folder.mkdir(exist_ok=True)
    cluster = StandaloneCluster(tmp_path / "cluster", workers=0)
    settings = {**DRIVER_SETTINGS, "spark.master": cluster.master, "spark.pyspark.python": worker_python()}
    driver = Driver(str(tmp_path / "warehouse"), settings)
    try:
        cluster.start_worker_with_other_view(folder, mount)
        cluster.await_workers(1)
        yield driver
    finally:
        driver.close()
        cluster.close()


@FULL_SUITE
@FORMATS
@AS_ROOT
@pytest.mark.parametrize("mount", [EMPTY_FOLDER, WRITES_ELSEWHERE.format("100m")], ids=["empty", "without new files"])
def test_a_folder_that_executors_do_not_share_is_an_error_with_host_and_path(tmp_path: Path, format_: str, mount: str) -> None:
    """The marker is missing in an empty folder. A folder whose new files are elsewhere has the marker, but the driver finds no files."""
    warehouse = tmp_path / "warehouse"
    create_table_without_cluster(warehouse, format_)
    live_files = files_of(warehouse, "*.parquet")
    with driver_of_worker_with_other_view(tmp_path, warehouse, mount) as driver:
        for statement in (
            "insert into t select id, id from range(20000, 40000)",
            "insert overwrite t select id, id from range(20000, 40000)",
            f"create table other using {format_} as select id from range(20000)",
            "merge into t using (select id, 0L as v from range(500000)) s on t.id = s.id when not matched then insert *",
        ):
            with pytest.raises(StatementError) as raised:
                driver.sql(statement)
            assert raised.value.kind == "StorageError", statement
            assert socket.gethostname() in raised.value.message and str(warehouse / "default") in raised.value.message
    assert files_of(warehouse, "*.parquet") == live_files and not files_of(warehouse, "*.marker")
    assert len(read(warehouse, format_, "t")) == 25_000


@FULL_SUITE
@FORMATS
@AS_ROOT
@pytest.mark.parametrize(
    ("folder", "mount", "parts"),
    [
        ("local", SMALL_LOCAL_FOLDER, ["the disk of 127.0.0.1", "no space is left", "spark.local.dir"]),
        ("warehouse", WRITES_ELSEWHERE.format("1m"), [socket.gethostname(), "warehouse/default/t", "No space left", "Free space"]),
    ],
    ids=["local files", "data files"],
)
def test_a_full_disk_of_an_executor_is_an_error_with_host_and_remedy(
    tmp_path: Path, format_: str, folder: str, mount: str, parts: list[str]
) -> None:
    warehouse = tmp_path / "warehouse"
    create_table_without_cluster(warehouse, format_)
    with driver_of_worker_with_other_view(tmp_path, tmp_path / folder, mount) as driver, pytest.raises(StatementError) as raised:
        driver.sql("insert into t select id, hash(uuid()) as v from range(1000000) distribute by v")
    first_line = raised.value.message.splitlines()[0]
    assert raised.value.kind == "StorageError" and all(part in first_line for part in parts), raised.value.message
    assert len(read(warehouse, format_, "t")) == 25_000 and not files_of(warehouse, "*.marker")


@FULL_SUITE
def test_settings_of_a_single_process_do_not_reach_a_cluster(connect: Callable[..., Driver]) -> None:
    driver = connect({"spark.sql.shuffle.partitions": "3"})
    values = {json.loads(row)["key"]: json.loads(row)["value"] for row in driver.sql("set")}
    assert values["spark.driver.host"] != "localhost" and values["spark.sql.shuffle.partitions"] == "3"
    assert "SharedArchiveFile" not in values.get("spark.driver.extraJavaOptions", "")
    assert {"spark.driver.bindAddress", "spark.ui.enabled", "spark.executor.killOnFatalError.depth"}.isdisjoint(values)


@FULL_SUITE
@FORMATS
@pytest.mark.parametrize("moment", ["evaluation", "write", "file", "file, with the worker"])
def test_a_killed_executor_never_mixes_rows_of_two_evaluations(
    cluster: StandaloneCluster, connect: Callable[..., Driver], tmp_path: Path, format_: str, moment: str
) -> None:
    driver, rows = connect(), 300_000  # more than the driver writes itself
    driver.sql(f"create table t using {format_} as select id * 10 as id, -1L as n from range({rows})")
    folder = tmp_path / "warehouse" / "default" / "t"
    old_files = set(files_of(folder, "*.parquet"))
    slow = "if(id % 75000 = 0, reflect('java.lang.Thread', 'sleep', 500L), '')"
    source = f"select {RANDOM_KEY} as id, id as n, {slow} as pause from range(0, {rows}, 1, 4)"
    driver.send(
        f"merge into t using ({source}) s on t.id = s.id and s.pause is not distinct from s.pause "
        "when matched and t.n < 0 then update set n = s.n when not matched then insert (id, n) values (s.id, s.n)"
    )
    if moment == "evaluation":
        time.sleep(1)  # the evaluation takes two seconds or more
    elif moment == "write":
        wait_for(lambda: files_of(folder, "*.marker"))
    else:
        wait_for(lambda: set(files_of(folder, "*.parquet")) - old_files)
    if moment == "file, with the worker":
        cluster.replace_worker()
    else:
        cluster.kill_executor()
    driver.answer()
    numbers = [row["n"] for row in read(tmp_path / "warehouse", format_, "t") if row["n"] >= 0]
    assert sorted(numbers) == list(range(rows))
    assert not files_of(folder, "*.marker")


@FULL_SUITE
@FORMATS
@pytest.mark.parametrize(("way", "more"), [("write_first", ""), ("single_pass", "when not matched by source then delete")])
def test_rows_of_a_source_that_is_not_kept_come_from_one_evaluation(
    cluster: StandaloneCluster, connect: Callable[..., Driver], tmp_path: Path, format_: str, way: str, more: str
) -> None:
    """Without the map outputs of a lost executor, Spark evaluates their keys again, and the remaining tasks get other rows."""
    driver, rows = connect({"spark.sql.shuffle.partitions": "8", "spark.sql.adaptive.enabled": "false"}), 300_000
    # A source of so many columns is too large for a broadcast.
    texts = ", ".join(f"string(id) as text{number}" for number in range(9))
    driver.sql(f"create table given using {format_} as select id as n, {texts}, sha2(text0, 256) as text from range(0, {rows}, 1, 4)")
    driver.sql(f"create table t using {format_} as select id * 10 as id, -1L as n, {texts}, '' as text from range({rows})")
    keys = f"select {RANDOM_KEY.replace('id', 'n')} as id, * from given distribute by id"
    pause = "if(n % 5000 = 0, length(reflect('java.lang.Thread', 'sleep', 500L)), 0)"
    merge = (
        f"merge into t using (select * from ({keys}) where coalesce({pause}, 0) >= 0) s on t.id = s.id "
        f"when matched then update set * when not matched then insert * {more}"
    )
    assert f"  way: {way}" in "".join(driver.sql(f"explain {merge}"))
    driver.send(merge)
    wait_for(lambda: files_of(tmp_path / "warehouse" / "default" / "t", "*.marker"))
    time.sleep(10)  # the tasks that write take at least fifteen seconds
    cluster.kill_executor()
    driver.answer()
    numbers = [row["n"] for row in read(tmp_path / "warehouse", format_, "t") if row["n"] >= 0]
    assert sorted(numbers) == list(range(rows))
    assert not files_of(tmp_path / "warehouse" / "default" / "t", "*.marker")


@FULL_SUITE
@FORMATS
@pytest.mark.parametrize("statement", ["insert", "create table", "update"])
def test_rows_in_random_partitions_come_from_one_evaluation(
    cluster: StandaloneCluster, connect: Callable[..., Driver], tmp_path: Path, format_: str, statement: str
) -> None:
    """Without the map outputs of a lost executor, Spark gives their rows other partitions, and the remaining tasks get other rows."""
    driver, rows = connect({"spark.sql.shuffle.partitions": "16", "spark.sql.adaptive.enabled": "false"}), 2_000_000
    table = f"create table t using {format_} partitioned by (p)"
    random_rows = f"select id as n, {RANDOM_PARTITION} as p from range(0, {rows}, 1, 4)"
    if statement == "update":
        driver.sql(f"{table} as select id as n, 99 as p from range({rows})")
    elif statement == "insert":
        driver.sql(f"create table t (n bigint, p int) using {format_} partitioned by (p)")
    folder = tmp_path / "warehouse" / "default" / "t"
    old_files = set(files_of(folder, "*.parquet"))
    update = f"update t set p = {RANDOM_PARTITION.replace('id', 'n')}"
    driver.send({"insert": f"insert into t {random_rows}", "create table": f"{table} as {random_rows}", "update": update}[statement])
    wait_for(lambda: set(files_of(folder, "*.parquet")) - old_files)
    cluster.kill_executor()
    driver.answer()
    numbers = sorted(row["n"] for row in read(tmp_path / "warehouse", format_, "t"))
    assert numbers == list(range(rows))
    assert not files_of(folder, "*.marker")


@FULL_SUITE
@FORMATS
def test_tasks_that_run_several_times_leave_no_files_and_repeat_no_rows(
    cluster: StandaloneCluster, connect: Callable[..., Driver], tmp_path: Path, format_: str
) -> None:
    warehouse, event_log = tmp_path / "warehouse", tmp_path / "events"
    event_log.mkdir()
    speculation = {"spark.speculation": "true", "spark.speculation.quantile": "0.1", "spark.speculation.multiplier": "1.1"}
    events = {"enabled": "true", "compress": "false", "dir": event_log.as_uri()}
    driver = connect({**speculation, **{f"spark.eventLog.{name}": value for name, value in events.items()}})
    # One task is slow in its first run only: its host has no file yet.
    flag = tmp_path / "flag"
    script = f"test -e {flag} || {{ touch {flag}; sleep 4; }}; cat"
    slow = f"select transform(id) using 'sh -c \"{script}\"' as (id bigint) from"
    driver.sql(f"create table t using {format_} as {slow} range(0, 40000, 1, 4)")
    assert [row["id"] for row in sorted(read(warehouse, format_, "t"), key=lambda row: row["id"])] == list(range(40_000))
    assert_every_file_is_live(driver, warehouse)
    assert (copies := copies_of_tasks(event_log)) > 0
    flag.unlink()
    replaced = files_of(warehouse, "part-*.parquet")
    merge = "on t.id = s.id when matched then update set id = -s.id when not matched then insert *"
    driver.sql(f"merge into t using ({slow} range(30000, 60000, 1, 4)) s {merge}")
    assert copies_of_tasks(event_log) > copies
    pause = "if(id % 5000 = 0, length(reflect('java.lang.Thread', 'sleep', 300L)), 0)"
    driver.send(f"insert into t select id from range(60000, 80000) where coalesce({pause}, 0) >= 0")
    wait_for(lambda: files_of(tmp_path, "*.marker"))
    cluster.kill_executor()
    driver.answer()
    expected = [*range(-39_999, -29_999), *range(30_000), *range(40_000, 80_000)]
    assert sorted(row["id"] for row in read(warehouse, format_, "t")) == expected
    assert_every_file_is_live(driver, warehouse, replaced)


@FULL_SUITE
@FORMATS
def test_executors_come_and_go_with_dynamic_allocation(
    cluster: StandaloneCluster, connect: Callable[..., Driver], tmp_path: Path, format_: str
) -> None:
    # Rows of an earlier MERGE, which Spark forgets when Java collects garbage, hold no executor.
    times = {"executorIdleTimeout": "2s", "cachedExecutorIdleTimeout": "2s"}
    settings = {"enabled": "true", "shuffleTracking.enabled": "true", "minExecutors": "0", **times}
    driver = connect({f"spark.dynamicAllocation.{name}": value for name, value in settings.items()})
    driver.sql(f"create table t using {format_} as select id, 0L as n from range(20000)")
    for turn in (1, 2):
        wait_for(lambda: not cluster.executors())  # they are idle for too long
        source = f"select id, {turn}L as n from range(10000, 30000)"
        driver.sql(f"merge into t using ({source}) s on t.id = s.id when matched then update set * when not matched then insert *")
    expected = [{"id": n, "n": 0 if n < 10_000 else 2} for n in range(30_000)]
    assert read(tmp_path / "warehouse", format_, "t") == sorted(expected, key=json.dumps)


@FULL_SUITE
@pytest.mark.parametrize(
    ("settings", "kind", "parts"),
    [
        ({"spark.pyspark.python": "/nowhere/python3"}, "ConfigurationError", ["/nowhere/python3", "spark.pyspark.python"]),
        ({"spark.pyspark.python": "bare"}, "ConfigurationError", ["pyarrow", "pip install 'pyspark[sql]'"]),
        ({"spark.master": "spark://localhost:1"}, "ConfigurationError", ["No Spark master answers at localhost:1"]),
        (
            {"spark.executor.memory": "64g", "spark.rowmerge.executors.timeout": "5"},
            "ConfigurationError",
            ["accepted a task for 5 seconds"],
        ),
    ],
    ids=["missing Python", "missing PyArrow", "no master", "no resources"],
)
def test_connecting_names_what_a_cluster_lacks(
    connect: Callable[..., Driver], settings: dict[str, str], kind: str, parts: list[str]
) -> None:
    if settings.get("spark.pyspark.python") == "bare":
        settings = {"spark.pyspark.python": worker_python(())}
    driver = connect({"spark.rowmerge.executors.timeout": "1m 40s", **settings})
    with pytest.raises(StatementError) as raised:
        driver.sql("select 1")
    assert raised.value.kind == kind, raised.value.message
    assert all(part in raised.value.message.splitlines()[0] for part in parts), raised.value.message


@FULL_SUITE
def test_another_python_version_on_workers_is_an_error_with_both_versions(connect: Callable[..., Driver], tmp_path: Path) -> None:
    # A Python of another version is not available everywhere. So a site module changes the version that this one states.
    (tmp_path / "sitecustomize.py").write_text(
        "import collections, sys\n"
        "version = collections.namedtuple('version', 'major minor micro releaselevel serial')\n"
        "sys.version_info = version(3, 9, 1, 'final', 0)\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {worker_python()} "$@"\n')
    python.chmod(0o755)
    driver = connect({"spark.pyspark.python": str(python)})
    with pytest.raises(StatementError, match=r"The executors run Python 3\.9, but this process runs Python 3\.\d+"):
        driver.sql("select 1")


@FULL_SUITE
@FORMATS
def test_an_executor_that_ends_is_named_with_its_exit_code(connect: Callable[..., Driver], tmp_path: Path, format_: str) -> None:
    driver = connect()
    driver.sql(f"create table t using {format_} as select 1L as id")
    with pytest.raises(StatementError) as raised:
        driver.sql("insert into t select if(id = 39999, length(reflect('java.lang.System', 'exit', 3)), id) from range(0, 40000, 1, 2)")
    assert raised.value.kind == "SparkFailed" and "executor" in raised.value.message.splitlines()[0], raised.value.message
    assert read(tmp_path / "warehouse", format_, "t") == [{"id": 1}]
    assert_every_file_is_live(driver, tmp_path / "warehouse")


@FULL_SUITE
@FORMATS
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root starts a worker as another user")
def test_a_folder_that_executors_may_not_write_is_an_error_with_host_and_reason(tmp_path: Path, format_: str) -> None:
    as_other_user = ["setpriv", "--reuid=65534", "--clear-groups"]
    if subprocess.run([*as_other_user, worker_python(), "-c", ""], check=False).returncode:
        pytest.skip("other users cannot run the Python of the workers")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    warehouse = folder / "warehouse"
    cluster = StandaloneCluster(folder / "cluster", workers=0)
    cluster.folder.chmod(0o777)
    cluster.start_worker(command=as_other_user)
    driver = Driver(str(warehouse), {**DRIVER_SETTINGS, "spark.master": cluster.master, "spark.pyspark.python": worker_python()})
    try:
        with pytest.raises(StatementError) as raised:
            driver.sql(f"create table t using {format_} as select id from range(0, 20000)")
        assert raised.value.kind == "StorageError"
        first_line = raised.value.message.splitlines()[0]
        assert all(part in first_line for part in ("Permission denied", socket.gethostname(), str(warehouse))), first_line
        assert not files_of(warehouse, "*.parquet") and not files_of(warehouse, "*.marker")
    finally:
        driver.close()
        cluster.close()
        shutil.rmtree(folder)
