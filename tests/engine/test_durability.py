"""Statements on a local disk return only after their files and commits are synced, whichever process wrote them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from dbt.adapters.rowmerge.configs.credentials import RowmergeCredentials
from dbt.adapters.rowmerge.sessions import connection_for
from rowmerge.errors import ConfigurationError
from tests.support.disk_calls import DiskCalls, assert_durable, named_files

MERGE_ON_READ = {"delta": "'rowmerge.write.mode' = 'merge-on-read'", "iceberg": "'write.merge.mode' = 'merge-on-read'"}
COPY_ON_WRITE = {"delta": "'rowmerge.write.mode' = 'copy-on-write'", "iceberg": "'write.merge.mode' = 'copy-on-write'"}
MERGE = """MERGE INTO t USING (SELECT id * 3 AS id, 'new' AS name, id % 2 AS p FROM range({rows})) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> DiskCalls:
    calls = DiskCalls()
    calls.record(monkeypatch)
    return calls


@pytest.mark.one_of("format_", "mode", "rows")
@pytest.mark.parametrize("rows", [10, 60_000], ids=["the driver writes", "executors write"])
@pytest.mark.parametrize("mode", [MERGE_ON_READ, COPY_ON_WRITE], ids=["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_every_statement_is_durable(
    spark: SparkSession, calls: DiskCalls, tmp_path: Path, format_: str, mode: dict[str, str], rows: int
) -> None:
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, default_format=format_)
    folder = tmp_path / "warehouse/default/t"
    feed = ", 'delta.enableChangeDataFeed' = 'true'" if format_ == "delta" else ""
    session.execute(
        f"CREATE TABLE t PARTITIONED BY (p) TBLPROPERTIES ({mode[format_]}{feed}) AS "
        f"SELECT id, concat('n', id) AS name, id % 2 AS p FROM range({rows})"
    )
    assert_durable(calls, folder)
    for statement in (
        MERGE.format(rows=rows),
        "UPDATE t SET name = 'x' WHERE id % 7 = 0",
        "DELETE FROM t WHERE id % 5 = 0",
        "INSERT INTO t SELECT id + 1000000, 'more', 3 FROM range(5)",
        "OPTIMIZE t",
        "ALTER TABLE t ADD COLUMN more STRING",
    ):
        session.execute(statement)
        assert_durable(calls, folder)
    assert any("p=3" in str(path) for path in named_files(folder)), "a new partition has a durable name, too"


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_tables_outside_the_warehouse_and_other_objects_are_durable(
    spark: SparkSession, calls: DiskCalls, tmp_path: Path, format_: str
) -> None:
    warehouse, elsewhere = tmp_path / "warehouse", tmp_path / "else/where/t"
    session = rowmerge.connect(str(warehouse), spark=spark)
    session.execute("CREATE SCHEMA sales")
    session.execute("CREATE VIEW sales.v AS SELECT 1 AS id")
    session.execute("CREATE FUNCTION sales.f(x INT) RETURNS INT RETURN x + 1")
    session.execute(f"CREATE TABLE sales.t USING {format_} LOCATION '{elsewhere}' AS SELECT id, 'a' AS name FROM range(10)")
    assert_durable(calls, elsewhere)
    session.execute("INSERT INTO sales.t VALUES (11, 'b')")
    assert_durable(calls, elsewhere)
    for below in (".schema.json", "v/metadata/v1.metadata.json", ".functions/f.json", "t/.rowmerge-location.json"):
        path = warehouse / "sales" / below
        moment = calls.find_naming(path)
        assert min(calls.syncs(path)) < moment < max(calls.syncs(path.parent)), below


@pytest.mark.parametrize(
    "opened",
    [
        lambda spark, location: rowmerge.connect(location, spark=spark, durability="process"),
        lambda spark, location: (
            connection_for(
                RowmergeCredentials.from_dict({"method": "existing", "warehouse": location, "schema": "default", "durability": "process"})
            ).session
        ),
    ],
    ids=["session", "dbt"],
)
def test_a_session_without_durability_does_not_sync(
    spark: SparkSession, calls: DiskCalls, tmp_path: Path, opened: Callable[[SparkSession, str], rowmerge.Session]
) -> None:
    session = opened(spark, str(tmp_path / "warehouse"))
    session.execute("CREATE TABLE t AS SELECT id, 'a' AS name, 0 AS p FROM range(10)")
    session.execute(MERGE.format(rows=10))
    assert [event for event in calls.events if event[0] == "sync"] == []
    assert os.listdir(tmp_path / "warehouse/default/t")


def test_an_unknown_durability_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="durability 'fast' is unknown. Use one of full, process"):
        rowmerge.connect(str(tmp_path), spark=spark, durability="fast")
