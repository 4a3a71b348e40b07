"""Statements on Azure Blob Storage (Azurite) whose data files Arrow reads and writes. Spark itself comes without a connector for Azure."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.storage.store import Put, Storage
from tests.support.azurite import ACCOUNT, AZURITE, CONTAINER, KEY, LOCATION, azurite
from tests.support.jvm import connectors_of_stores

pytestmark = pytest.mark.skipif(
    not AZURITE, reason="Azurite is not installed: npm install azurite, and name azurite-blob in ROWMERGE_AZURITE"
)
MERGE = """
merge into t using (select 2 as k, 'B' as v union all select 9, 'z') as s on t.k = s.k
when matched then update set * when not matched then insert *
"""
DELTA_RS = """
import json, sys, deltalake, pyarrow
table = deltalake.DeltaTable(sys.argv[1], storage_options=json.loads(sys.argv[2]))
rows = pyarrow.table(deltalake.QueryBuilder().register("t", table).execute("select k, v from t").read_all())
print(json.dumps(rows.to_pydict()))
"""


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with azurite(tmp_path_factory.mktemp("azurite")) as storage_options:
        yield storage_options


@pytest.fixture(autouse=True)
def connectors(spark: SparkSession) -> Iterator[None]:
    with connectors_of_stores(spark):
        yield


@pytest.fixture(params=["delta", "iceberg"])
def session(request: pytest.FixtureRequest, spark: SparkSession, options: dict[str, str], tmp_path: Path) -> rowmerge.Session:
    """Return a session with a table of three rows."""
    # pyiceberg takes the account of the location for a part of the container's name.
    locations = {"delta": LOCATION, "iceberg": f"abfss://{CONTAINER}"}
    session = rowmerge.connect(f"{locations[request.param]}/{tmp_path.name}", spark=spark, storage_options=options)
    session.sql(f"create table t (k int, v string) using {request.param}")
    session.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    return session


def read_rows(session: rowmerge.Session, location: str, options: dict[str, str]) -> list[tuple[int, str]]:
    """Return the rows of the table as delta-rs or pyiceberg reads them."""
    if session.sql("describe detail t").first()["format"] == "delta":  # type: ignore[index]
        command = [sys.executable, "-c", DELTA_RS, location, json.dumps(options)]
        columns = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    else:
        (metadata,) = session.sql("select file from t.metadata_log_entries order by timestamp desc limit 1").first() or ("",)
        authority = options["azure_endpoint"].removeprefix("http://").removesuffix(f"/{ACCOUNT}")
        stores = {
            f"adls.{store}-storage-{name}": value
            for store in ("blob", "dfs")
            for name, value in (("authority", authority), ("scheme", "http"))
        }
        columns = (
            StaticTable.from_metadata(
                metadata,
                {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO", "adls.account-name": ACCOUNT, "adls.account-key": KEY, **stores},
            )
            .scan()
            .to_arrow()
            .to_pydict()
        )
    return sorted(zip(columns["k"], columns["v"], strict=True))


def test_rows_are_merged_and_compacted(session: rowmerge.Session, options: dict[str, str]) -> None:
    location = session.sql("describe detail t").first()["location"]  # type: ignore[index]
    (counts,) = session.sql(MERGE).collect()
    assert tuple(counts) == (2, 1, 0, 1)
    expected = [(1, "a"), (2, "B"), (3, "c"), (9, "z")]
    assert read_rows(session, location, options) == expected
    session.sql("optimize t")
    assert session.sql("select count(*) from t.files").first() == (1,)
    assert read_rows(session, location, options) == expected
    session.sql("delete from t where true")
    assert session.sql("select count(*) from t").first() == (0,)
    session.sql("drop table t purge")
    paths = [file.path for file in Storage(location, options).list()]
    assert [path for path in paths if path.endswith(".parquet") and not path.startswith("_delta_log/")] == []


def test_each_of_two_concurrent_inserts_commits(session: rowmerge.Session, options: dict[str, str]) -> None:
    statements = [f"insert into t values ({key}, 'new')" for key in (10, 12)]
    with ThreadPoolExecutor() as executor:
        list(executor.map(lambda statement: session.sql(statement).collect(), statements))
    location = session.sql("describe detail t").first()["location"]  # type: ignore[index]
    assert read_rows(session, location, options) == [(1, "a"), (2, "b"), (3, "c"), (10, "new"), (12, "new")]


def test_one_of_many_puts_of_a_name_succeeds(options: dict[str, str], tmp_path: Path) -> None:
    storage = Storage(f"{LOCATION}/{tmp_path.name}", options)
    with ThreadPoolExecutor(8) as executor:
        results = list(executor.map(lambda number: storage.put_if_absent("commit", str(number).encode()), range(24)))
    assert results.count(Put.CREATED) == 1
    assert storage.get("commit") == str(results.index(Put.CREATED)).encode()


def test_the_environment_is_checked(options: dict[str, str], tmp_path: Path) -> None:
    checks = {check.name: check for check in rowmerge.check_environment(f"{LOCATION}/{tmp_path.name}", storage_options=options)}
    assert {checks[name].status for name in ("store list", "store write", "store read", "store delete", "conditional puts")} == {"OK"}


def test_a_wrong_key_is_an_error_that_names_the_store(options: dict[str, str], spark: SparkSession) -> None:
    wrong_key = "d3Jvbmcga2V5" * 4
    with pytest.raises(rowmerge.errors.RowmergeError) as error:
        rowmerge.connect(f"{LOCATION}/w", spark=spark, storage_options={**options, "azure_storage_account_key": wrong_key})
    assert LOCATION in str(error.value) and wrong_key not in str(error.value)
