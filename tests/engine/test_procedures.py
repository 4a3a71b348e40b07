"""Procedures whose arguments or answers are not known before: ids of snapshots, times, sizes."""

from __future__ import annotations

import pytest

import rowmerge
from rowmerge.errors import PlanError, VersionNotFound


def rows(session: rowmerge.Session, text: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.sql(text).collect()]


def ids(session: rowmerge.Session, table: str = "t") -> list[object]:
    return [row[0] for row in rows(session, f"select id from {table} order by id")]


@pytest.fixture
def snapshots(session: rowmerge.Session) -> list[int]:
    """Create four snapshots, each with one more row, and return their ids, oldest first."""
    session.sql("create table t (id int) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    for number in range(4):
        session.sql(f"insert into t values ({number})")
    return [version for (version, *_) in rows(session, "describe history t")][::-1]


def test_rollback_to_a_snapshot_and_forward(session: rowmerge.Session, snapshots: list[int]) -> None:
    first, second, third, last = snapshots
    assert rows(session, f"call system.rollback_to_snapshot('t', {second})") == [(last, second)]
    assert ids(session) == [0, 1]
    with pytest.raises(VersionNotFound, match="is not an ancestor of the newest snapshot"):
        session.sql(f"call system.rollback_to_snapshot('t', {third})")
    assert rows(session, f"call system.set_current_snapshot(table => 't', snapshot_id => {third})") == [(second, third)]
    assert rows(session, f"call system.set_current_snapshot('t', {third})") == [(third, third)]
    assert rows(session, "call system.set_current_snapshot(table => 't', ref => 'main')") == [(third, third)]
    assert ids(session) == [0, 1, 2]
    with pytest.raises(VersionNotFound, match="no branch or tag wrong. There are: main"):
        session.sql("call system.set_current_snapshot(table => 't', ref => 'wrong')")
    with pytest.raises(PlanError, match="needs either a snapshot_id or a ref"):
        session.sql("call system.set_current_snapshot('t')")
    session.sql("insert into t values (9)")
    assert ids(session) == [0, 1, 2, 9]
    assert first != last


def test_rollback_to_a_timestamp(session: rowmerge.Session, snapshots: list[int]) -> None:
    times = [time for (_, time, *_) in rows(session, "describe history t")][::-1]
    third = times[2].strftime("%Y-%m-%d %H:%M:%S.%f")
    assert rows(session, f"call system.rollback_to_timestamp('t', timestamp '{third}')") == [(snapshots[3], snapshots[1])]
    assert ids(session) == [0, 1]
    with pytest.raises(VersionNotFound, match="no snapshot older than"):
        session.sql("call system.rollback_to_timestamp('t', timestamp '2001-01-01')")


def test_restore_of_a_snapshot_and_of_a_timestamp(session: rowmerge.Session, snapshots: list[int]) -> None:
    third = [time for (_, time, *_) in rows(session, "describe history t")][1]
    session.sql(f"restore table t to version as of {snapshots[0]}")
    assert ids(session) == [0]
    session.sql(f"restore table t to version as of {snapshots[3]}")
    assert ids(session) == [0, 1, 2, 3]
    session.sql(f"alter table t create tag early as of version {snapshots[1]}")
    session.sql("alter table t add columns (v string)")
    session.sql("restore table t to version as of 'early'")
    assert rows(session, "select id, v from t order by id") == [(0, None), (1, None)], "rows come back, columns stay"
    session.sql(f"restore table t to timestamp as of '{third}'")
    assert ids(session) == [0, 1, 2]


def test_expire_snapshots_accepts_snapshot_ids(session: rowmerge.Session, snapshots: list[int]) -> None:
    session.sql(f"call system.expire_snapshots(table => 't', snapshot_ids => array({snapshots[1]}, {snapshots[2]}))")
    with pytest.raises(VersionNotFound):
        session.sql(f"select * from t version as of {snapshots[1]}")
    assert rows(session, f"select * from t version as of {snapshots[0]}") == [(0,)]
    assert ids(session) == [0, 1, 2, 3]


def test_rewrite_data_files_counts_files_and_delete_files(session: rowmerge.Session, snapshots: list[int]) -> None:
    session.sql("insert into t select /*+ coalesce(1) */ id + 10 from range(10)")
    session.sql("delete from t where id in (3, 13)")
    (detail,) = session.sql("describe detail t").collect()
    ((rewritten, added, size, failed, deletes),) = rows(session, "call system.rewrite_data_files('t')")
    assert (rewritten, added, failed, deletes) == (4, 1, 0, 1), "of a file with one row the whole file went"
    assert size == detail.sizeInBytes
    assert rows(session, "call system.rewrite_data_files('t')") == [(0, 0, 0, 0, 0)]
    assert rows(session, "call system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'))")[0][:2] == (1, 1)
    assert ids(session) == [0, 1, 2, 10, 11, 12, 14, 15, 16, 17, 18, 19]
