"""Queries open only the files that can contain a row of the result."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.execution.ways import selection
from rowmerge.execution.ways.way import ExecutionResult, RowChangeRequest
from rowmerge.session.names import spark_names
from rowmerge.spark.reading import scan
from rowmerge.spark.spark_session import SKIP_FILES

pytestmark = pytest.mark.one_of("format_")


@pytest.fixture(params=["delta", "iceberg"])
def format_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def warehouse(format_: str, spark: SparkSession, tmp_path: Path) -> rowmerge.Session:
    """Return a session with a table `t` of four files: each has one row (n, 10 * n, 's<n>')."""
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, default_format=format_)
    session.sql("create table t (k int, v int, s string)")
    for number in range(4):
        session.sql(f"insert into t values ({number}, {number * 10}, 's{number}')")
    return session


def files_read(session: rowmerge.Session, query: str) -> list[int]:
    """Return the number of files that each scan of a query reads."""
    return [scan.files for scan in session.execute(query).scans]


def test_each_shape_of_a_query_opens_the_files_with_needed_rows(warehouse: rowmerge.Session) -> None:
    warehouse.sql("create view w(a, b) as select k, v from t where v > 5")
    shapes = {
        "select * from t where k = 2": [1],
        "select * from t where k in (0, 3) or v = 10": [3],
        "select * from t where s like 's1%'": [1],
        "select * from t where k = 77": [0],
        "select * from w where a < 2": [1],
        "with a as (select k as x from t) select * from a where x = 1": [1],
        "select k from t where k = 0 union all select v from t where k > 1": [1, 2],
        "select * from t x join t y on x.k = y.k where y.k = 3": [1, 1],
        "select * from t x left join t y on x.k = y.k and y.v = 10": [4, 1],
        "select k, max(v) from t group by k having k = 2": [1],
        "select * from t where exists (select 1 from t u where u.k = 1)": [4, 1],
    }
    assert {query: files_read(warehouse, query) for query in shapes} == shapes


def test_a_query_without_a_file_does_not_change_later_queries(warehouse: rowmerge.Session) -> None:
    assert warehouse.sql("select max(s), sum(v) from t where k = 77").collect() == [(None, None)]
    assert warehouse.sql("select sum(v) from t").collect() == [(60,)]


def test_names_that_mean_something_else_exclude_no_file(warehouse: rowmerge.Session) -> None:
    warehouse.sql("create table n (k int, st struct<k: int, v: int>, d date)")
    warehouse.sql("insert into n values (1, named_struct('k', 5, 'v', 6), date'2020-01-01')")
    assert warehouse.sql("select st.k, count(*) from n group by st.k having k = 5").collect() == [(5, 1)]
    # A column of a query is no call of a function, and is no column of the table.
    assert warehouse.sql("select k from (select k, d as current_date from n) where current_date = date'2020-01-01'").collect() == [(1,)]
    warehouse.sql("declare or replace variable v double default 50.0")
    try:
        assert warehouse.sql("select count(s) from (select k, s from t) where v > 40").collect() == [(4,)]
    finally:
        warehouse.sql("drop temporary variable v")  # which later tests of this Spark session would read


def test_a_name_in_double_quotes_is_no_string(warehouse: rowmerge.Session) -> None:
    warehouse.spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        assert warehouse.sql('select * from (select s as "name" from t) where "name" = \'s1\'').collect() == [("s1",)]
        result = warehouse.execute('/* {"app": "dbt"} */ select s from t where k = 1')
        assert (result.frame.collect(), [scan.files for scan in result.scans]) == ([("s1",)], [1])
    finally:
        warehouse.spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


def test_a_name_outside_an_expression_is_no_variable(warehouse: rowmerge.Session) -> None:
    warehouse.sql("create table target (outside int, v int)")
    warehouse.sql("insert into target values (1, 0)")
    warehouse.sql("create function value_of(outside int) returns int return (select max(v) from t where k = outside)")
    warehouse.sql("declare or replace variable outside int default 3")
    try:
        assert warehouse.sql("select value_of(2)").collect() == [(20,)]
        warehouse.sql("update target set v = (select max(v) from t where k = outside)")
        assert warehouse.sql("select v from target").collect() == [(10,)]
    finally:
        warehouse.sql("drop temporary variable outside")


def test_a_setting_in_the_text_excludes_no_file(warehouse: rowmerge.Session) -> None:
    warehouse.sql("create table p (k int, s string) partitioned by (s)")
    warehouse.sql("insert into p values (1, 's1'), (2, 's2')")
    warehouse.sql("set chosen = s1")
    assert warehouse.sql("select v from t where s = '${chosen}'").collect() == [(10,)]
    assert warehouse.sql("select count(*) from p where s = '${chosen}'").collect() == [(1,)]
    warehouse.sql("set numbered = row_number() over (order by k) as number")
    assert warehouse.sql("select number from (select k, ${numbered} from t) where k = 2").collect() == [(3,)]
    warehouse.sql("delete from t where s = '${chosen}'")
    assert warehouse.sql("select count(*) from t").collect() == [(3,)]


def test_the_switch_reads_all_files(warehouse: rowmerge.Session) -> None:
    warehouse.spark.conf.set(SKIP_FILES, "false")
    try:
        result = warehouse.execute("select * from t where k = 2")
        assert [scan.files for scan in result.scans if scan.conditions] == []
        assert result.frame.collect() == [(2, 20, "s2")]
        assert len(result.frame.inputFiles()) == 4
    finally:
        warehouse.spark.conf.unset(SKIP_FILES)
    assert len(warehouse.sql("select * from t where k = 2").inputFiles()) == 1


def test_session_table_skips_files(warehouse: rowmerge.Session) -> None:
    frame = warehouse.table("t", where="k > 1 and v < 30")
    assert frame.collect() == [(2, 20, "s2")]
    assert len(frame.inputFiles()) == 1


def test_a_frame_keeps_its_files_after_other_commits(warehouse: rowmerge.Session) -> None:
    frame = warehouse.sql("select k, v from t where k >= 2")
    warehouse.sql("update t set v = -1 where k = 2")
    warehouse.sql("insert into t values (5, 50, 's5')")
    warehouse.sql("optimize t")
    assert sorted(frame.collect()) == [(2, 20), (3, 30)]
    assert sorted(warehouse.sql("select k, v from t where k >= 2").collect()) == [(2, -1), (3, 30), (5, 50)]


def test_two_versions_and_two_filters_in_one_query(warehouse: rowmerge.Session) -> None:
    version = warehouse.sql("describe history t").collect()[0]["version"]
    warehouse.sql("delete from t where k = 2")
    query = f"select 'old', v from t version as of {version} where k = 2 union all select 'new', v from t where k in (1, 2)"
    assert files_read(warehouse, query)[0] == 1
    assert sorted(warehouse.sql(query).collect()) == [("new", 10), ("old", 20)]


def test_statements_that_write_read_few_files(warehouse: rowmerge.Session) -> None:
    warehouse.sql("create table target (k int, v int)")
    warehouse.sql("insert into target select k, v from t where k >= 2")
    warehouse.sql("update target set v = (select max(v) from t where k = 1) where k in (select k from t where k = 3)")
    warehouse.sql("merge into target using (select k, v from t where k < 2) s on s.k = target.k when not matched then insert *")
    assert sorted(warehouse.sql("select * from target").collect()) == [(0, 0), (1, 10), (2, 20), (3, 10)]


def test_a_statement_can_read_more_views_than_a_session_keeps(warehouse: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def count_views() -> int:
        return sum(view["viewName"].startswith("__rowmerge_") for view in warehouse.spark.sql("show views").collect())

    views_before = count_views()
    monkeypatch.setattr(spark_names, "MOST_VIEWS", 2)
    filters = ("k = 0", "k = 1", "k = 2", "k = 3", "k < 2", "k < 3", "k > 0", "k > 1")
    query = " union all ".join(f"select v from t where {condition}" for condition in filters)
    assert warehouse.sql(query).count() == 4 + 2 + 3 + 3 + 2
    warehouse.sql("select v from t where k in (0, 2)")
    assert count_views() <= views_before + 2


def test_statements_that_change_rows_keep_the_views_in_their_plans(warehouse: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = selection.execute

    def after_other_statements(request: RowChangeRequest) -> ExecutionResult:
        for number in range(3):
            warehouse.sql(f"select v from t where k <= {number}")
        return execute(request)

    monkeypatch.setattr(spark_names, "MOST_VIEWS", 1)
    monkeypatch.setattr(selection, "execute", after_other_statements)
    warehouse.sql("create table u as select k, v from t")
    warehouse.sql("delete from u where k in (select k from t where v = 0)")
    warehouse.sql("update u set v = (select max(v) from t where k = 2) where k = 1")
    warehouse.sql("merge into u using t on u.k = t.k when matched and u.k in (select k from t where v = 30) then delete")
    warehouse.sql("insert into u replace on (u.k in (select k from t where v = 20)) select 2, 22")
    assert sorted(warehouse.sql("select * from u").collect()) == [(1, 20), (2, 22)]


def test_lazy_frames_can_be_more_than_the_views_that_a_session_keeps(warehouse: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_names, "MOST_VIEWS", 1)
    frames = [warehouse.sql(f"select k, v from t where k = {number}").where("v >= 0") for number in range(4)]
    assert [frame.collect() for frame in frames] == [[(number, number * 10)] for number in range(4)]


@pytest.mark.parametrize("statement", ["reset", "-- dbt\n/* * */ reset", "set spark.sql.parquet.fieldId.read.enabled = false"])
def test_views_and_lazy_frames_find_renamed_columns_after_a_change_of_settings(warehouse: rowmerge.Session, statement: str) -> None:
    properties = " tblproperties ('delta.columnMapping.mode' = 'id')" if warehouse.relation("default", "t").format == "delta" else ""
    warehouse.sql(f"create table renamed (a int, k int){properties}")
    warehouse.sql("insert into renamed values (7, 1)")
    warehouse.sql("alter table renamed rename column a to b")
    frame = warehouse.sql("select b from renamed where k = 1")
    warehouse.sql(statement)
    assert frame.collect() == warehouse.sql("select b from renamed where k = 1").collect() == [(7,)]


def test_a_line_of_hyphens_before_a_query_is_one_comment(warehouse: rowmerge.Session) -> None:
    assert warehouse.sql("-" * 100 + "\nselect k from t where k = 1").collect() == [(1,)]  # took exponential time


def test_threads_read_their_own_files(warehouse: rowmerge.Session) -> None:
    def read(number: int) -> bool:
        key = number % 5
        rows = warehouse.sql(f"select k, v from t where k = {key}").collect()
        return rows == ([(key, key * 10)] if key < 4 else [])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(24)))


@pytest.mark.parametrize("max_words_of_filter", [0, 1 << 15])
def test_a_join_broadcasts_a_small_table_with_deleted_rows(
    warehouse: rowmerge.Session, monkeypatch: pytest.MonkeyPatch, max_words_of_filter: int
) -> None:
    monkeypatch.setattr(scan, "_MAX_WORDS_OF_FILTER", max_words_of_filter)
    warehouse.sql("create table s tblproperties ('rowmerge.write.mode' = 'merge-on-read') as select id from range(0, 1000, 1, 1)")
    warehouse.sql("delete from s where id % 100 = 1")
    (table_scan,) = warehouse.execute("select * from s where id >= 0").scans
    warehouse.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(4 * table_scan.size))
    try:
        ((plan,),) = warehouse.sql("explain select a.id from s as a join s as b on a.id = b.id").collect()
    finally:
        warehouse.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert ("LeftAnti" in plan) == (max_words_of_filter == 0)
    assert re.search(r"BroadcastHashJoin .* Inner", plan) and "SortMergeJoin" not in plan


@pytest.mark.parametrize("file_count", [1, 3, 17])
def test_deleted_rows_of_any_number_of_files_are_dropped(warehouse: rowmerge.Session, file_count: int) -> None:
    warehouse.sql("create table s (id bigint, v string) tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    rows = f"select id, repeat('x', cast(id div 1000 as int)) from range(0, {file_count * 1000}, 1, {file_count})"
    warehouse.sql(f"insert into s {rows}")
    warehouse.sql("create table copy using delta as select * from s")
    assert files_read(warehouse, "select * from s where id >= 0") == [file_count]
    # The first and the last row of a file, a file without deleted rows, and 64 adjacent rows.
    condition = "id div 1000 <> 2 and (id % 1000 in (0, 999) or id between 10600 and 10700 or id % 77 = 5)"
    for table in ("s", "copy"):
        warehouse.sql(f"delete from {table} where {condition}")
    assert warehouse.sql("select * from s except select * from copy").collect() == []
    assert (
        warehouse.sql("select count(*), sum(id) from s where v is not null").collect()
        == warehouse.sql("select count(*), sum(id) from copy where v is not null").collect()
    )


def test_subqueries_read_tables_with_deleted_rows(warehouse: rowmerge.Session) -> None:
    warehouse.sql(
        "create table s tblproperties ('rowmerge.write.mode' = 'merge-on-read') as select id, id % 3 as r from range(0, 30, 1, 1)"
    )
    warehouse.sql("delete from s where id in (4, 5)")
    queries = {
        "select count(*) from range(8) o where exists (select 1 from s where s.id = o.id)": [(6,)],
        "select count(*) from range(8) o where o.id not in (select id from s)": [(2,)],
        "select o.id, (select max(s.id) from s where s.r = o.id and s.id < 6) as m from range(3) o order by 1": [(0, 3), (1, 1), (2, 2)],
        "select o.id, c from range(1, 3) o, lateral (select count(*) c from s where s.r = o.id and s.id < 9) order by 1": [(1, 2), (2, 2)],
        "select count(*) from s where id > (select avg(id) from s where r = 0)": [(16,)],
        "select count(*) from (select id from s intersect all select id from s where id < 10)": [(8,)],
    }
    for query, rows in queries.items():
        assert warehouse.sql(query).collect() == rows, query
