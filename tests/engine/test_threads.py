"""Several threads on one session lose no rows and write none twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import CommitConflict
from tests.engine.conftest import assert_independent_readers_agree

pytestmark = pytest.mark.one_of("session", "mode")


@pytest.fixture(params=["delta", "iceberg"])
def session(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[rowmerge.Session]:
    """Yield a session that creates tables of one format. Independent readers read them after the test."""
    new_session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, default_format=request.param)
    yield new_session
    assert_independent_readers_agree(new_session)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_four_threads_merge_different_keys_without_loss(session: rowmerge.Session, mode: str) -> None:
    session.sql(f"create table t (id int, n int) tblproperties ('rowmerge.write.mode' = '{mode}')")
    session.sql("insert into t select id, 0 from range(40)")

    def work(thread: int) -> int:
        merge_count = 0
        for turn in range(3):
            first, new = thread * 10, 100 + thread * 10 + turn
            text = f"""merge into t using (select id from range({first}, {first + 10}) union all select {new}) s on t.id = s.id
                when matched then update set n = t.n + 1 when not matched then insert (id, n) values (s.id, 0)"""
            while True:
                try:
                    session.sql(text)
                    break
                except CommitConflict:
                    continue
            merge_count += 1
        return merge_count

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [3, 3, 3, 3]
    assert session.sql("select count(*), sum(n), count(distinct id) from t").collect() == [(52, 120, 52)]
    assert session.sql("describe history t").count() >= 13


def test_two_insert_only_merges_of_one_new_key_insert_it_once(session: rowmerge.Session) -> None:
    session.sql("create table t (id int, n int)")

    def work(thread: int) -> None:
        session.sql(f"merge into t using (select id, {thread} as n from range(5)) s on t.id = s.id when not matched then insert *")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert session.sql("select count(*), count(distinct id) from t").collect() == [(5, 5)]


def test_appends_never_conflict(session: rowmerge.Session) -> None:
    session.sql("create table t (id int)")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: session.sql(f"insert into t values ({n})"), range(12)))
    assert session.sql("select count(*), count(distinct id) from t").collect() == [(12, 12)]


def test_threads_write_different_tables(session: rowmerge.Session) -> None:
    def work(n: int) -> int:
        session.sql(f"create table t{n} as select id from range(20)")
        session.sql(f"create or replace view v{n} as select count(*) as c from t{n}")
        session.sql(f"delete from t{n} where id < {n}")
        return int(session.sql(f"select c from v{n}").collect()[0][0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [20 - n for n in range(8)]


def test_increments_that_read_the_table_in_their_source_are_not_lost(session: rowmerge.Session) -> None:
    session.sql("create table t (id int, n int)")
    session.sql("insert into t values (1, 0), (2, 100)")
    text = "merge into t using (select id, n + 1 as n from t where id = 1) s on t.id = s.id when matched then update set n = s.n"
    _all_succeed(session, [text] * 8)
    assert session.sql("select n from t order by id").collect() == [(8,), (100,)]


def test_concurrent_inserts_of_the_next_key_do_not_repeat_it(session: rowmerge.Session) -> None:
    session.sql("create table t (id int)")
    session.sql("insert into t values (0)")
    merge = "merge into t using (select max(id) + 1 as id from t) s on t.id = s.id when not matched then insert *"
    insert = "insert into t select max(id) + 1 from t"
    _all_succeed(session, [merge, insert] * 3)
    assert [row[0] for row in session.sql("select id from t order by id").collect()] == list(range(7))


def test_a_table_replaced_from_itself_loses_no_row(session: rowmerge.Session) -> None:
    session.sql("create table t as select 0 as id")
    _all_succeed(session, ["create or replace table t as select id from t", "insert into t values (1)"] * 3)
    assert session.sql("select count(*), sum(id) from t").collect() == [(4, 3)]


def _all_succeed(session: rowmerge.Session, statements: list[str]) -> None:
    def run(text: str) -> None:
        while True:
            try:
                session.sql(text)
                return
            except CommitConflict:
                continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, statements))
