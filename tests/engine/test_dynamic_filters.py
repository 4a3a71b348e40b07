"""Constants, values of subqueries and keys of small tables exclude files of large tables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.session.names import file_selection
from rowmerge.spark.spark_session import SKIP_FILES

pytestmark = pytest.mark.one_of("format_")


@pytest.fixture(params=["delta", "iceberg"])
def format_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def warehouse(format_: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rowmerge.Session:
    """Return a session with a table `t` of six files, one for each of the last six days, and a table `dim` of one file.

    Dynamic filters are worthwhile for these small tables.
    """
    monkeypatch.setattr(file_selection, "MIN_DYNAMIC_COST", 0)
    monkeypatch.setattr(file_selection, "MAX_KEY_SHARE", 1.0)
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, default_format=format_)
    session.sql("create table t (k int, d date, s string)")
    for number in range(6):
        rows = f"select /*+ coalesce(1) */ id, current_date() - {number}, 's{number}' from range({number * 10}, {number * 10 + 10})"
        session.sql(f"insert into t {rows}")
    session.sql("create table dim as select /*+ coalesce(1) */ cast(id as int) as k, concat('n', id) as n from range(60)")
    return session


def files_of_t(session: rowmerge.Session, query: str) -> int:
    """Return the number of files of `t` that a query reads. Check that it has the same rows as without file skipping."""
    result = session.execute(query)
    rows = sorted(map(str, result.frame.collect()))
    session.spark.conf.set(SKIP_FILES, "false")
    try:
        assert sorted(map(str, session.sql(query).collect())) == rows
    finally:
        session.spark.conf.unset(SKIP_FILES)
    (files,) = [scan.files for scan in result.scans if scan.snapshot.name.endswith(".t") and scan.conditions]
    return int(files)


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("d > current_date() - 3", 3),
        ("d >= date_sub(current_date(), 1) and d < current_date()", 1),
        ("d > (select max(d) - 2 from t)", 2),
        ("d >= date_sub((select max(d) from t), 2)", 3),
        ("k > (select min(k) from dim where n = 'n45')", 2),
        ("k > (select max(k) from dim where n = 'none')", 0),
        ("k in (select k from dim where n in ('n5', 'n55'))", 2),
        ("exists (select 1 from dim where dim.k = t.k and n = 'n25')", 1),
        ("k not in (select k from dim where n = 'n5') and s >= 's4'", 2),
    ],
)
def test_a_condition_with_a_value_opens_the_files_with_matching_rows(warehouse: rowmerge.Session, condition: str, files: int) -> None:
    assert files_of_t(warehouse, f"select * from t where {condition}") == files


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("select t.* from t join dim on t.k = dim.k where dim.n = 'n25'", 1),
        ("with d as (select k as id from dim where n = 'n25') select t.*, d.id from d left join t on d.id = t.k", 1),
        ("select t.* from t left semi join dim on t.k = dim.k and dim.n in ('n1', 'n11')", 2),
        ("select t.* from t left join dim on t.k = dim.k where dim.n = 'n25'", 1),
        ("select count(*) from t left join dim on t.k = dim.k and dim.n = 'n25' where t.k >= 0", 6),
    ],
)
def test_the_keys_of_a_small_side_of_a_join_exclude_files(warehouse: rowmerge.Session, query: str, files: int) -> None:
    assert files_of_t(warehouse, query) == files


def test_the_condition_of_a_statement_that_changes_rows_uses_constants(warehouse: rowmerge.Session) -> None:
    (plan,) = warehouse.sql("explain delete from t where d < current_date() - 3").collect()[0]
    assert "excludes 4 by statistics" in plan
    on = "t.d > current_date() - 2 and t.k = s.k"
    (plan,) = warehouse.sql(f"explain merge into t using dim s on {on} when matched then update set s = s.n").collect()[0]
    assert "excludes 4 by statistics" in plan
    warehouse.sql("delete from t where d < current_date() - 3")
    assert warehouse.sql("select count(*) from t").collect() == [(40,)]


def test_a_lazy_query_uses_the_time_and_the_values_by_which_its_files_were_chosen(warehouse: rowmerge.Session) -> None:
    frame = warehouse.sql("select k from t where d > (select max(d) - 2 from t) and d <= current_date()")
    warehouse.sql("insert into t values (1000, current_date() + 5, 'later')")
    assert frame.count() == 20


@pytest.mark.skipif("ROWMERGE_REMOTE" in os.environ, reason="a server analyses a query later, when a variable can have another value")
def test_a_variable_is_a_constant_and_no_column_of_a_table_below_a_view(warehouse: rowmerge.Session) -> None:
    warehouse.sql("declare or replace variable k int default 12")
    warehouse.sql("create or replace temporary view renamed as select k as a, d from t")
    try:
        assert files_of_t(warehouse, "select * from renamed where a = k") == 1
        assert warehouse.sql("select * from renamed where k = 12").count() == 60
        assert warehouse.sql("select * from renamed r join (select k as b, n from dim) q on r.a = q.b where k = 12").count() == 60
    finally:
        warehouse.sql("drop temporary variable k")


def test_a_function_of_the_user_is_no_constant(warehouse: rowmerge.Session) -> None:
    warehouse.spark.udf.register("next_number", lambda number: number, "int").asNondeterministic()
    query = "select * from t where k >= next_number(20) and k < 30"
    assert files_of_t(warehouse, query) == 3
    assert warehouse.execute(query).scans[0].conditions == ("`k` >= next_number(20)", "`k` < 30")


def test_keys_do_not_depend_on_conditions_that_can_change_until_the_query_runs(warehouse: rowmerge.Session, tmp_path: Path) -> None:
    limit = tmp_path / "limit"
    warehouse.spark.udf.register("largest_key", lambda _: int(limit.read_text()), "int").asNondeterministic()
    limit.write_text("5")
    frame = warehouse.sql("select t.s from dim left join t on t.k = dim.k where dim.k <= largest_key(dim.k)")
    limit.write_text("59")
    assert sorted(frame.collect()) == sorted((f"s{number // 10}",) for number in range(60))


def test_a_subquery_that_metadata_answer_can_have_no_row(warehouse: rowmerge.Session) -> None:
    warehouse.sql("create table parts (k int, part int) partitioned by (part)")
    warehouse.sql("insert into parts values (5, 1)")
    assert warehouse.sql("select * from t where k > (select distinct part from parts where part = 7)").collect() == []
    assert files_of_t(warehouse, "select * from t where k < (select distinct part + 9 from parts where part = 1)") == 1


def test_a_subquery_in_two_parentheses_is_not_replaced(warehouse: rowmerge.Session) -> None:
    assert warehouse.sql("select * from t where exists ((select max(k) from dim)) and k >= 0").count() == 60
    assert warehouse.sql("select * from t where k >= (select 1) and exists (select 1 from dim)").count() == 59


def test_a_small_table_needs_no_dynamic_filter(warehouse: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_selection, "MIN_DYNAMIC_COST", 2**30)
    result = warehouse.execute("select * from t where k in (select k from dim where n = 'n5') and k >= 0")
    assert [scan.files for scan in result.scans if scan.snapshot.name.endswith(".t")] == [6]


def test_long_lists_exclude_files(warehouse: rowmerge.Session) -> None:
    members = ", ".join(str(number) for number in range(25, 2000))
    assert files_of_t(warehouse, f"select * from t where k in ({members}) and d < current_date() - 3") == 2
