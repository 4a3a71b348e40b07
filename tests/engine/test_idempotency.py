"""Statements with an idempotency key commit once, however often and from how many processes they run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import AlreadyExists, ConfigurationError, Unparsable, UnsupportedStatement
from rowmerge.session.statements.settings import APPLICATION_SETTING, VERSION_SETTING
from tests.engine.conftest import assert_independent_readers_agree
from tests.engine.interleaving import overtaken

pytestmark = pytest.mark.one_of("session")

STATEMENTS = [
    "insert into t values (1, 1)",
    "insert overwrite t values (1, 1)",
    "insert into t replace where id > 0 values (1, 1)",
    "insert into t replace using (id) values (1, 1)",
    "update t set n = n + 1",
    "delete from t where n = 0",
    "merge into t using (values (1, 1), (2, 2)) s (id, n) on t.id = s.id when matched then update set * when not matched then insert *",
    "truncate table t",
]


@pytest.fixture(params=["delta", "iceberg"])
def session(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[rowmerge.Session]:
    """Yield a session that creates tables of one format. Independent readers read them after the test."""
    new_session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, default_format=request.param)
    yield new_session
    assert_independent_readers_agree(new_session)


@pytest.fixture
def table(session: rowmerge.Session) -> rowmerge.Session:
    session.sql("create table t (id int, n int) tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    session.sql("insert into t values (0, 0), (1, 0)")
    return session


def versions_of(session: rowmerge.Session) -> list[int]:
    """Return the versions of the table, newest first."""
    return [row["version"] for row in session.sql("describe history t").collect()]


def rows(session: rowmerge.Session) -> list[tuple[int, int]]:
    return sorted((row[0], row[1]) for row in session.sql("select id, n from t").collect())


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_with_a_key_commits_once(table: rowmerge.Session, statement: str) -> None:
    first = table.execute(statement, idempotency_key="night of 2024-01-01")
    assert not first.replayed
    versions = versions_of(table)
    changed_rows = rows(table)
    table.sql("insert into t values (7, 0)")
    again = table.execute(statement, idempotency_key="night of 2024-01-01")
    assert (again.version, again.replayed, again.changes) == (first.version, True, rowmerge.RowCounts())
    assert f"already committed as version {first.version}" in again.message
    assert sum(again.frame.collect()[0]) == 0
    assert rows(table) == sorted([*changed_rows, (7, 0)])
    assert len(versions_of(table)) == len(versions) + 1


def test_a_statement_without_changes_records_its_key(table: rowmerge.Session) -> None:
    text = "update t set n = 9 where id = 5"
    assert not table.execute(text, idempotency_key="k").replayed
    table.sql("insert into t values (5, 0)")
    assert table.execute(text, idempotency_key="k").replayed
    assert table.execute(text, idempotency_key="another").changes.updated == 1  # type: ignore[union-attr]


def test_two_concurrent_runs_make_one_commit(table: rowmerge.Session, spark: SparkSession, tmp_path: Path) -> None:
    text = "insert into t values (5, 5)"
    result, (winner,) = overtaken(spark, str(tmp_path / "warehouse"), text, text, idempotency_key="once", winners_key="once")
    assert (winner.replayed, result.version, result.replayed) == (False, winner.version, True)
    assert rows(table) == [(0, 0), (1, 0), (5, 5)]


@pytest.mark.parametrize("statement", ["insert into t values (5, 5)", STATEMENTS[6]])
def test_exactly_one_of_concurrent_replays_commits(table: rowmerge.Session, statement: str) -> None:
    start, old_count = Barrier(4), len(versions_of(table))

    def run(_: int) -> rowmerge.StatementResult:
        start.wait()
        return table.execute(statement, idempotency_key="once")

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(4)))
    assert sorted(result.replayed for result in results) == [False, True, True, True]
    assert {result.version for result in results} == {versions_of(table)[0]}
    assert len(versions_of(table)) == old_count + 1


def test_the_hint_and_the_settings_of_delta_set_keys(table: rowmerge.Session, spark: SparkSession) -> None:
    hinted = "insert /*+ IDEMPOTENCY_KEY('app', 3) */ into t values (5, 5)"
    assert not table.execute(hinted).replayed
    assert table.execute(hinted).replayed
    text = "insert into t values (5, 5)"
    # A version that is not greater than the last one counts as committed.
    assert table.execute(text, idempotency_key=("app", 2)).replayed
    spark.conf.set(APPLICATION_SETTING, "app")
    try:
        with pytest.raises(ConfigurationError, match="Set spark.databricks.delta.write.txnVersion too"):
            table.execute(text)
        spark.conf.set(VERSION_SETTING, "3")
        assert table.execute(text).replayed
        spark.conf.set(VERSION_SETTING, "4")
        assert not table.execute(text).replayed
        assert table.sql("select count(*) from t").collect() == [(4,)]
    finally:
        spark.conf.unset(APPLICATION_SETTING)
        spark.conf.unset(VERSION_SETTING)


def test_tables_are_created_and_written_once(session: rowmerge.Session) -> None:
    create = "create table t as select 1 as id, 1 as n"
    assert not session.execute(create, idempotency_key="k").replayed
    assert session.execute(create, idempotency_key="k").replayed
    with pytest.raises(AlreadyExists):
        session.execute(create, idempotency_key="other")
    replaced = "create or replace table t as select 2 as id, 2 as n"
    assert [session.execute(replaced, idempotency_key="r").replayed for _ in range(2)] == [False, True]
    data = pa.table({"id": pa.array([3], pa.int32()), "n": pa.array([3], pa.int32())})
    for mode in ("append", "overwrite", "replace"):
        results = [session.write(data, "t", mode=mode, idempotency_key=mode) for _ in range(2)]  # type: ignore[arg-type]
        assert [result.replayed for result in results] == [False, True]
    assert rows(session) == [(3, 3)]


def test_a_key_on_an_unsupported_statement_is_rejected(table: rowmerge.Session) -> None:
    created = len(versions_of(table))
    with pytest.raises(UnsupportedStatement, match="statements that write rows"):
        table.sql("select 1", idempotency_key="k")
    with pytest.raises(ConfigurationError, match="one in a hint"):
        table.sql("delete /*+ idempotency_key('a') */ from t", idempotency_key="b")
    with pytest.raises(Unparsable, match="after the first word"):
        table.sql("insert into t select /*+ idempotency_key('a') */ 1, 1")
    for wrong in ("", ("a", -1), ("a", True), ("", 1)):
        with pytest.raises(ConfigurationError, match="idempotency key"):
            table.sql("delete from t", idempotency_key=wrong)
    assert len(versions_of(table)) == created
