"""S3 with a Spark outside this process: a Spark Connect server, and executors of a standalone cluster. Neither has rowmerge.

The store is moto behind a proxy that accepts only the keys of the profile. So each library gets them from the profile alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.checked_s3 import DRIVER, LIBRARIES, TOKENS, CheckedS3, RotatingProfile, library_of, static_keys
from tests.support.connect_server import ConnectServer
from tests.support.faulty_s3 import AnyFault, Fault, Request, create_bucket, needs_moto, serving
from tests.support.s3_session import S3_JARS
from tests.support.standalone import DRIVER_SETTINGS, Driver, StandaloneCluster, worker_python
from tests.support.store_fault_tables import is_data

pytestmark = [
    needs_moto,
    pytest.mark.skipif(not S3_JARS, reason="ROWMERGE_S3_JARS names no folder with the jars of hadoop-aws"),
    pytest.mark.full_suite("it starts a Spark with hadoop-aws"),
    pytest.mark.one_of("format_"),
]
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
JARS = ",".join(str(jar) for jar in sorted(Path(S3_JARS).glob("*.jar")))
ENVIRONMENT = {**DRIVER, "AWS_EC2_METADATA_DISABLED": "true"}
READER = """
import json, sys
import deltalake, pyarrow
from pyiceberg.table import StaticTable
location, options, properties = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
if location.endswith(".json"):
    rows = StaticTable.from_metadata(location, properties).scan().to_arrow()
else:
    table = deltalake.DeltaTable(location, storage_options=options)
    rows = pyarrow.table(deltalake.QueryBuilder().register("t", table).execute("select id, v from t").read_all())
sums = rows.select(["id", "v"]).group_by("v").aggregate([("id", "count"), ("id", "sum")])
print(json.dumps({row["v"]: [row["id_count"], row["id_sum"]] for row in sums.to_pylist()}))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a Spark Connect server with hadoop-aws."""
    settings = {"spark.jars": JARS}
    with ConnectServer(tmp_path_factory.mktemp("server"), python=worker_python(), settings=settings) as server:
        yield server.address


@pytest.fixture
def store(moto_port: int) -> Iterator[CheckedS3]:
    create_bucket(moto_port)
    with serving(CheckedS3(moto_port)) as proxy:
        assert isinstance(proxy, CheckedS3)
        yield proxy


@pytest.fixture
def connect() -> Iterator[Callable[..., Driver]]:
    """Yield a function that starts a driver. Its arguments are those of `Driver`."""
    drivers: list[Driver] = []

    def start(*arguments: Any, **named_arguments: Any) -> Driver:
        drivers.append(Driver(*arguments, **named_arguments))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def sums_by_v(driver: Driver, store: CheckedS3, keys: tuple[str, str], warehouse: str) -> dict[str, list[int]]:
    """Return the count and the sum of the ids for each v in the table, as delta-rs or pyiceberg reads them."""
    location, names = f"{warehouse}/default/t", ("access_key_id", "secret_access_key", "session_token")
    if "iceberg" in driver.sql("describe detail t")[0]:
        query = "select file from t.metadata_log_entries order by timestamp desc, latest_sequence_number desc limit 1"
        location = json.loads(driver.sql(query)[0])["file"]
    values = dict(zip(names, (keys[0], "hush", keys[1]), strict=True))
    options = {f"aws_{name}": value for name, value in values.items()}
    options |= {"aws_endpoint": store.address, "aws_allow_http": "true", "aws_region": "us-east-1"}
    properties = {f"s3.{name.replace('_', '-')}": value for name, value in values.items()}
    properties |= {"s3.endpoint": store.address, "s3.region": "us-east-1"}
    command = [sys.executable, "-c", READER, location, json.dumps(options), json.dumps(properties)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    sums: dict[str, list[int]] = json.loads(result.stdout)
    return sums


@FORMATS
def test_a_server_reads_and_writes_with_the_keys_of_the_profile(
    server: str, store: CheckedS3, connect: Callable[..., Driver], tmp_path: Path, format_: str
) -> None:
    warehouse, settings = f"{store.location}/{tmp_path.name}", {"spark.remote": server, "spark.sql.shuffle.partitions": "2"}
    options = static_keys(store, TOKENS)
    driver = connect(warehouse, settings, environment=ENVIRONMENT, storage_options=options, default_format=format_)
    driver.sql("create table t (id bigint, v string)")
    driver.sql("insert into t values (-1, 'a')")
    driver.sql("insert into t select id, 'a' from range(0, 30000, 1, 2)")
    upsert = "merge into t using (select id, '{v}' as v from {source}) s on t.id = s.id when matched then update set *{insert}"
    insert = " when not matched then insert *"
    driver.sql(upsert.format(v="b", source="range(29999, 30001)", insert=insert))
    driver.sql(upsert.format(v="c", source="range(20000, 29000)", insert=insert))
    driver.sql(upsert.format(v="d", source="range(25000, 4100000)", insert=""))  # more keys than are looked up, so a join reads the target
    driver.sql("update t set v = 'e' where length(v) = 1 and id % 3 = 0 and id < 3000")
    assert json.loads(driver.sql("select count(*) as n from t where length(v) = 1")[0]) == {"n": 30_002}
    driver.sql("optimize t")
    ids = {"a": [-1, *(n for n in range(20_000) if n % 3 or n >= 3000)], "c": range(20_000, 25_000), "d": range(25_000, 30_001)}
    expected = {v: [len(numbers), sum(numbers)] for v, numbers in {**ids, "e": range(0, 3000, 3)}.items()}
    assert sums_by_v(driver, store, TOKENS, warehouse) == expected
    assert store.libraries(TOKENS) == set(LIBRARIES) and store.denied == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@FORMATS
def test_executors_use_new_keys_of_a_profile_and_repeat_a_read_that_is_cut(
    cluster: StandaloneCluster, store: CheckedS3, connect: Callable[..., Driver], tmp_path: Path, format_: str
) -> None:
    """hadoop-aws 3.5 does not repeat a read that is cut within the response. So the cluster has to run the task again."""
    profile = RotatingProfile(tmp_path, store)
    class_path = {f"spark.{role}.extraClassPath": f"{S3_JARS}/*" for role in ("driver", "executor")}
    settings = {**DRIVER_SETTINGS, **class_path, "spark.master": cluster.master, "spark.pyspark.python": worker_python()}
    keys, warehouse = [profile.rotate()], f"{store.location}/{tmp_path.name}"
    arguments = {"storage_options": {"aws_profile": "lake"}, "default_format": format_}
    driver = connect(warehouse, settings, environment={**ENVIRONMENT, **profile.environment}, **arguments)
    driver.sql("create table t as select id, 'a' as v from range(0, 20000, 1, 2)")
    update = "update t set v = '{}' where length(v) = 1 and id < {}"
    driver.sql(update.format("b", 15_000))
    keys.append(profile.rotate())
    driver.sql(update.format("c", 10_000))
    cuts: list[str] = []

    def cut_first_read(request: Request) -> AnyFault | None:
        if cuts or request.method != "GET" or not is_data(request) or library_of(request) != "spark":
            return None
        cuts.append(request.path)
        return Fault.CUT_IN_BODY

    store.rule = cut_first_read
    driver.sql(update.format("d", 5_000))
    assert cuts
    ids = {"a": range(15_000, 20_000), "b": range(10_000, 15_000), "c": range(5_000, 10_000), "d": range(5_000)}
    assert sums_by_v(driver, store, keys[-1], warehouse) == {v: [len(numbers), sum(numbers)] for v, numbers in ids.items()}
    assert all(store.libraries(each) >= {"metadata", "executor", "spark"} for each in keys) and store.denied == []
