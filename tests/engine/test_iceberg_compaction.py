"""OPTIMIZE and REORG of Iceberg tables with sort orders or equality deletes."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import rowmerge
from tests.support.iceberg_lake import Lake


def lake_of(session: rowmerge.Session) -> Lake:
    return Lake(Path(session.describe("default", "t").location.removeprefix("file://")))


def test_compaction_applies_and_removes_equality_deletes(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint, name string) using iceberg")
    session.sql("insert into t select /*+ coalesce(1) */ id, 'a' from range(5)")
    lake = lake_of(session)
    lake.add_deletes(lake.equality_deletes(1, 3, 7))
    session.sql("insert into t values (3, 'again'), (7, 'young')")
    assert len(lake.table.snapshot().live.deletes) == 1
    session.sql("reorg table t apply (purge)")
    assert lake.table.snapshot().live.deletes == ()
    assert [tuple(row) for row in session.sql("select * from t order by id").collect()] == [
        (0, "a"),
        (2, "a"),
        (3, "again"),
        (4, "a"),
        (7, "young"),
    ]
    session.sql("call system.expire_snapshots('t', current_timestamp() + interval 1 hour)")
    assert [row[0] for row in session.sql("select id from t order by id").collect()] == [0, 2, 3, 4, 7]


def test_compacted_files_have_the_sort_order_of_the_table(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint, v string) using iceberg tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    session.sql("alter table t write ordered by v desc, id")
    for first in (0, 100, 200):
        session.sql(f"insert into t select id + {first}, cast(id % 7 as string) from range(50)")
    session.sql("delete from t where id in (3, 103)")
    session.sql("optimize t")
    lake = lake_of(session)
    (file,) = lake.table.snapshot().live.data
    rows = pq.read_table(file.file.path.removeprefix("file://")).to_pylist()
    assert rows == sorted(rows, key=lambda row: (-int(row["v"]), row["id"]))
    assert (len(rows), file.file.sort_order_id) == (148, lake.current.metadata.default_sort_order_id)
    version = lake.table.snapshot().version
    session.sql("optimize t")
    assert lake_of(session).table.snapshot().version == version, "a second time there is nothing to do"


def test_compacted_files_of_a_sorted_table_stay_in_their_partitions(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint, p string) using iceberg partitioned by (p, bucket(2, id))")
    session.sql("alter table t write ordered by id")
    for first in (0, 100):
        session.sql(f"insert into t select id + {first}, cast(id % 2 as string) from range(40)")
    session.sql("call system.rewrite_data_files('t')")
    files = lake_of(session).table.snapshot().live.data
    assert len({file.file.partition for file in files}) == len(files) == 4
    assert session.sql("select count(*), sum(id) from t").collect()[0][:] == (80, 5560)
