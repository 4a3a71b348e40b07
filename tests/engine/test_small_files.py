"""Arrow reads many small files: the rows, addresses and lineage are those that Spark's reader returns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import rowmerge
from rowmerge.errors import MissingDataFile
from rowmerge.session.names.spark_names import SparkViews
from rowmerge.spark.reading import small_files
from rowmerge.spark.reading.scan import read_snapshot
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot

COLUMNS = (
    "id bigint, b boolean, i int, f float, d double, n decimal(12, 3), w decimal(38, 10), s string, x binary, day date, at timestamp, "
    "local timestamp_ntz, st struct<a: int, in: struct<t: timestamp, u: string>>, l array<struct<k: string, v: decimal(5, 2)>>, "
    "m map<string, array<int>>, p string, q date"
)
ROWS = """
    select id, id % 2 = 0, int(id), float(id / 3), if(id = 4, double('NaN'), -0.0D), id / 7, cast(id as decimal(38, 10)) / 9,
           if(id % 5 = 0, null, concat('ä ', id)), cast(string(id) as binary), date'1500-03-01' + int(id),
           timestamp'1582-10-01 00:00:00.123456' + make_dt_interval(int(id)),
           timestamp_ntz'2024-03-31 02:30:00' + make_dt_interval(0, int(id)),
           if(id = 3, null, named_struct('a', int(id), 'in', if(id = 5, null, named_struct('t', timestamp'2024-01-01', 'u', 'u')))),
           if(id = 6, null, array(named_struct('k', string(id), 'v', cast(1.25 as decimal(5, 2))), null)),
           map('k', array(1, null, int(id)), 'e', null), if(id = 7, null, concat('p/', id % 3)), date'2024-01-01' + int(id % 2)
    from range({first}, {first} + 12, 1, 3)
"""


@pytest.fixture(autouse=True)
def _no_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "MIN_FILES", 1)


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("partitioning", ["", "partitioned by (p, q)"])
def test_arrow_reads_the_rows_of_all_types_that_spark_reads(session: rowmerge.Session, format_: str, partitioning: str) -> None:
    properties = "'rowmerge.write.mode' = 'merge-on-read'" + (", 'format-version' = '3'" if format_ == "iceberg" else "")
    session.sql(f"create table t ({COLUMNS}) using {format_} {partitioning} tblproperties ({properties})")
    session.sql(f"insert into t {ROWS.format(first=0)}")
    session.sql("delete from t where id in (2, 9)")
    session.sql("update t set s = 'updated' where id = 8")
    session.sql("alter table t add column late int")
    session.sql("alter table t add column st.added string")
    session.sql("insert into t (id, late, p) values (100, 5, 'p/1'), (101, null, '')")
    assert _read_with_both(session, "t") == 12


def test_arrow_reads_evolved_columns(session: rowmerge.Session) -> None:
    session.sql(
        "create table t (a int, b float, gone int, s struct<x: int>, d decimal(5, 2)) using delta tblproperties "
        "('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')"
    )
    session.sql("insert into t values (1, 1.5, 7, named_struct('x', 3), 1.25), (2, null, 8, null, null)")
    session.sql("alter table t drop column gone")
    session.sql("alter table t rename column b to c")
    for column, type_ in (("a", "bigint"), ("c", "double"), ("s.x", "bigint"), ("d", "decimal(12, 4)")):
        session.sql(f"alter table t alter column {column} type {type_}")
    session.sql("alter table t add column gone string")
    session.sql("insert into t values (3000000000, 2.5D, named_struct('x', 3000000000), 12345.6789, 'new')")
    assert _read_with_both(session, "t") == 3
    assert session.sql("select a, c, gone from t order by a").collect() == [(1, 1.5, None), (2, None, None), (3000000000, 2.5, "new")]


def test_arrow_reads_iceberg_columns_by_field_id_with_initial_values_and_uuids(session: rowmerge.Session) -> None:
    session.sql("create table t (a int, b int) using iceberg tblproperties ('format-version' = '3')")
    session.sql("insert into t values (1, 10), (2, 20)")
    session.sql("alter table t rename column a to c")
    session.sql("alter table t rename column b to a")
    session.sql("alter table t add column u string default 'was missing'")
    session.sql("insert into t values (3, 30, 'stored')")
    assert _read_with_both(session, "t") == 3
    assert session.sql("select c, a, u from t order by c").collect() == [(1, 10, "was missing"), (2, 20, "was missing"), (3, 30, "stored")]


def test_spark_reads_small_files_of_types_that_arrow_lacks(bare_session: rowmerge.Session) -> None:
    session = bare_session
    session.sql("create table t using delta as select 1 as id")
    folder = Path(session.describe("default", "t").location.removeprefix("file://"))
    commit = folder / "_delta_log" / f"{0:020d}.json"
    metadata = next(json.loads(line) for line in commit.read_text().splitlines() if "metaData" in line)
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"].append({"name": "nothing", "type": "void", "nullable": True, "metadata": {}})
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    (folder / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(metadata))
    assert session.sql("select * from t").collect() == [(1, None)]
    assert session.sql("select id from t").collect() == [(1,)]


def test_a_join_does_not_broadcast_small_files_of_many_bytes(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint, s string) using delta")
    session.sql("insert into t select id, sha2(string(id), 256) from range(0, 1000, 1, 1)")
    snapshot = _snapshot(session, "t")
    read_snapshot(session.spark, snapshot).createOrReplaceTempView("small")
    total_size, threshold = snapshot.files().total_size, "spark.sql.autoBroadcastJoinThreshold"
    try:
        for largest_size, is_broadcast in ((total_size // 2, False), (total_size * 2, True)):
            session.spark.conf.set(threshold, str(largest_size))
            (row,) = session.spark.sql("explain select * from small as a join small as b on a.id = b.id").collect()
            assert "MapInArrow" in row[0] and ("BroadcastHashJoin" in row[0]) is is_broadcast
    finally:
        session.spark.conf.unset(threshold)


def test_at_least_eight_tasks_share_small_files(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint) using iceberg")
    session.sql("insert into t select id from range(0, 16, 1, 16)")
    assert _task_count(session, "t") == 8
    session.sql("alter table t set tblproperties ('read.split.open-file-cost' = '1')")
    assert _task_count(session, "t") == 1


@pytest.mark.parametrize(("lookback", "task_count"), [(1, 3), (10, 2)])
def test_a_small_file_is_added_to_a_task_of_the_lookback(session: rowmerge.Session, lookback: int, task_count: int) -> None:
    session.sql("create table t (v string) using iceberg")
    for row_count in (1, 1, 400, 400):  # the newest files are listed first
        session.sql(f"insert into t select /*+ coalesce(1) */ sha2(string(id), 512) from range({row_count})")
    size = max(_snapshot(session, "t").files().sizes.to_pylist())
    session.sql(
        f"alter table t set tblproperties ('read.split.target-size' = '{size + 4000}', 'read.split.open-file-cost' = '3000', "
        f"'read.split.planning-lookback' = '{lookback}')"
    )
    assert _task_count(session, "t") == task_count


def test_a_missing_small_file_has_the_error_of_a_missing_file(bare_session: rowmerge.Session) -> None:
    bare_session.sql("create table t (id bigint) using delta")
    bare_session.sql("insert into t values (1)")
    (file,) = Path(bare_session.describe("default", "t").location.removeprefix("file://")).glob("*.parquet")
    file.unlink()
    with pytest.raises(MissingDataFile, match=file.name):
        bare_session.sql("create table u using delta as select * from t")


QUERIES = {
    "select count(*) from t cross join u": 1,
    "select count(*) from t where s = '1'": 1,
    "select sum(A) from t": 1,
    "select b * 2 from t order by `a`": 2,
    "select x.b from t x join u using (a)": 2,
    "select s from t where a in (select a from v where b > 10)": 3,
    "with q as (select a as z from t) select z from q": 1,
    "select n from v": 2,
    "select n from w": 1,
    "select a from t where \"b\" <> 'x'": 2,
    "select r.a from t": 2,
    "select t.r.y from t group by all": 1,
    "select * from t": 5,
    "select struct(t.*) from t": 5,
    "select b from t natural join u": 5,
    "select x from t as k (x, y, z, q, l)": 5,
    "select a from t lateral view explode(l) as e where e > 1": 2,
    "select `1` from (select a, b from t) pivot (max(b) for a in (1, 2))": 2,
    "select r.a from t pivot (max(b) for a in (1, 2))": 5,
    "from t |> where a = 1 |> select b": 5,
    "select a from t union all select b from t": 2,
    "select a, rank() over (order by b) from t": 2,
}
"""Queries, with the number of columns that Arrow reads of their first table."""


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_arrow_reads_only_the_columns_that_a_query_can_use(
    session: rowmerge.Session, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "a int, b int, s string, r struct<a: int, y: int>, l array<int>"
    session.sql(f"create table t ({columns}) using {format_}")
    session.sql("insert into t select id, id * 7, string(id % 3), named_struct('a', int(id), 'y', 1), array(id) from range(0, 20, 1, 2)")
    session.sql(f"create table u using {format_} as select a, b from t where a < 5")
    session.sql("create view v as select a, b, a + 1 as n from t")
    session.sql("create view w as select s as n from t")
    column_counts = _record_reads(monkeypatch)
    for query, column_count in QUERIES.items():
        column_counts.clear()
        session.sql(f"select count(1) from ({query}) as q").collect()
        assert column_counts[0] == column_count, query
        with_arrow = sorted(map(repr, session.sql(query).collect()))
        session.spark.conf.set(small_files.SMALL_FILES, "false")
        with_spark = sorted(map(repr, session.sql(query).collect()))
        session.spark.conf.unset(small_files.SMALL_FILES)
        assert with_arrow == with_spark, query


def test_a_frame_can_be_filtered_and_sorted_by_columns_that_its_query_does_not_name(session: rowmerge.Session) -> None:
    session.sql("create table t using delta as select id as k, -id as v from range(4)")
    session.sql("declare or replace variable v int default 0")
    try:
        for query in ("select k from t", "select k from t limit 4", "(select a.k from t as a join t as b on a.k = b.k where a.k >= 0)"):
            assert sorted(session.sql(query).filter("v < -1" if "join" not in query else "b.v < -1").collect()) == [(2,), (3,)]
        assert session.sql("select k from t where k > 1").sort("v").collect() == [(3,), (2,)]
    finally:
        session.sql("drop temporary variable v")


def test_the_setting_applies_to_a_table_that_arrow_has_read(session: rowmerge.Session) -> None:
    session.sql("create table t using delta as select 1 as a")
    for setting in ("true", "false", "true"):
        session.spark.conf.set(small_files.SMALL_FILES, setting)
        assert ("MapInArrow" in _plan(session.sql("select * from t"))) is (setting == "true")
    session.spark.conf.unset(small_files.SMALL_FILES)


def _record_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which each later read of a table appends its number of columns."""
    column_counts: list[int] = []
    register_files = SparkViews.register_files

    def register(
        views: SparkViews,
        snapshot: Snapshot,
        files: FileListing | None = None,
        columns: Sequence[str] | None = None,
        metadata_columns: Sequence[str] = (),
    ) -> str:
        column_counts.append(len(snapshot.schema if columns is None else columns))
        return register_files(views, snapshot, files, columns, metadata_columns)

    monkeypatch.setattr(SparkViews, "register_files", register)
    return column_counts


def _snapshot(session: rowmerge.Session, name: str) -> Snapshot:
    return session._catalog.open("default", name).snapshot()


def _read_with_both(session: rowmerge.Session, name: str) -> int:
    """Return the number of rows of a table, after a comparison of the two readers."""
    snapshot = _snapshot(session, name)
    frame = read_snapshot(session.spark, snapshot, with_addresses=True, with_lineage=True)
    assert "MapInArrow" in _plan(frame)
    with_arrow = _rows(frame)
    session.spark.conf.set(small_files.SMALL_FILES, "false")
    try:
        frame = read_snapshot(session.spark, snapshot, with_addresses=True, with_lineage=True)
        assert "MapInArrow" not in _plan(frame)
        with_spark = _rows(frame)
    finally:
        session.spark.conf.unset(small_files.SMALL_FILES)
    assert [(field.name, field.type) for field in with_arrow.schema] == [(field.name, field.type) for field in with_spark.schema]
    for arrow_row, spark_row in zip(with_arrow.to_pylist(), with_spark.to_pylist(), strict=True):
        assert repr(arrow_row) == repr(spark_row), "the text compares NaN and -0.0, too"
    return with_arrow.num_rows


def _plan(frame: DataFrame) -> str:
    frame.createOrReplaceTempView("explained")
    (row,) = frame.sparkSession.sql("explain select * from explained").collect()
    return str(row[0])


def _rows(frame: DataFrame) -> pa.Table:
    rows = frame.toArrow()
    return rows.sort_by([(name, "ascending") for name in ("__rowmerge_file", "__rowmerge_position")])


def _task_count(session: rowmerge.Session, table: str) -> int:
    return session.sql(f"select distinct spark_partition_id() from {table}").count()
