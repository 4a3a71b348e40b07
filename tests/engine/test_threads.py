"""Several threads on one session: nothing is lost, nothing is doubled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import rowmerge
from rowmerge.errors import CommitConflict


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_merges_of_different_keys_by_four_threads_all_arrive(session: rowmerge.Session, mode: str) -> None:
    session.sql(f"create table t (id int, n int) using delta tblproperties ('rowmerge.write.mode' = '{mode}')")
    session.sql("insert into t select id, 0 from range(40)")

    def work(thread: int) -> int:
        done = 0
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
            done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [3, 3, 3, 3]
    assert session.sql("select count(*), sum(n), count(distinct id) from t").collect() == [(52, 120, 52)]
    assert session.describe("default", "t").version == 13


def test_two_insert_only_merges_of_one_new_key_insert_it_once(session: rowmerge.Session) -> None:
    session.sql("create table t (id int, n int) using delta")

    def work(thread: int) -> None:
        session.sql(f"merge into t using (select id, {thread} as n from range(5)) s on t.id = s.id when not matched then insert *")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert session.sql("select count(*), count(distinct id) from t").collect() == [(5, 5)]


def test_appends_never_conflict(session: rowmerge.Session) -> None:
    session.sql("create table t (id int) using delta")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: session.sql(f"insert into t values ({n})"), range(12)))
    assert session.sql("select count(*), count(distinct id) from t").collect() == [(12, 12)]


def test_threads_work_on_tables_of_their_own(session: rowmerge.Session) -> None:
    def work(n: int) -> int:
        session.sql(f"create table t{n} using delta as select id from range(20)")
        session.sql(f"create or replace view v{n} as select count(*) as c from t{n}")
        session.sql(f"delete from t{n} where id < {n}")
        return int(session.sql(f"select c from v{n}").collect()[0][0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [20 - n for n in range(8)]
