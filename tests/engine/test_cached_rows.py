"""CACHE TABLE: statements read the cached rows of a version as long as it is the one that they read, and no longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge

pytestmark = pytest.mark.one_of("format_")
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])


@pytest.fixture
def table(bare_session: rowmerge.Session, format_: str) -> rowmerge.Session:
    bare_session.sql(f"create table t (id bigint, v string) using {format_}")
    bare_session.sql("insert into t values (1, 'a')")
    bare_session.sql("insert into t values (2, 'b'), (3, 'c')")
    return bare_session


def is_cached(session: rowmerge.Session, query: str) -> bool:
    """Return whether the plan of a query reads rows from the cache of Spark."""
    plan = "\n".join(row[0] for row in session.sql(f"explain {query}").collect())
    return "In-memory table" in plan


def on_a_server(session: rowmerge.Session) -> bool:
    """Return whether the session is one of Spark Connect, where queries with conditions do not use the cached rows of views."""
    return not hasattr(session.spark, "sparkContext")


@FORMATS
def test_queries_of_the_cached_version_read_the_cache_whatever_files_they_need(table: rowmerge.Session, format_: str) -> None:
    query = "select v from t where id > 2"
    assert not is_cached(table, query)
    table.sql("cache table t")
    assert is_cached(table, query)
    assert is_cached(table, "select * from t a join t b on a.id = b.id")
    assert [row.v for row in table.sql(query).collect()] == ["c"]
    explained = table.sql(f"explain {query}").collect()
    assert "all rows of this version are cached" in explained[0][0]
    table.sql("uncache table t")
    assert not is_cached(table, query)


@FORMATS
def test_a_commit_of_another_session_is_visible_at_once(table: rowmerge.Session, format_: str, spark: SparkSession, tmp_path: Path) -> None:
    table.sql("cache table t")
    rowmerge.connect(str(tmp_path / "warehouse"), spark=spark).sql("update t set v = 'new' where id = 3")
    assert [tuple(row) for row in table.sql("select * from t where id > 1 order by id").collect()] == [(2, "b"), (3, "new")]
    assert not is_cached(table, "select * from t")
    # Time travel reads the cached version, except that a new metadata file of an Iceberg table hides which state was cached.
    versions = [row.snapshot_id for row in table.sql("select snapshot_id from t.history order by made_current_at").collect()]
    old = f"select v from t version as of {versions[-2]} where id = 3"
    assert is_cached(table, old) == (format_ == "delta")
    assert [row.v for row in table.sql(old).collect()] == ["c"]
    table.sql("refresh table t")
    assert is_cached(table, "select * from t")
    assert [row.v for row in table.sql("select v from t where id = 3").collect()] == ["new"]
    assert not is_cached(table, old)


@FORMATS
def test_a_cached_view_follows_its_tables(table: rowmerge.Session, format_: str) -> None:
    table.sql("create view w as select v, id * 2 as twice from t")
    table.sql("cache lazy table w options ('storageLevel' = 'DISK_ONLY')")
    query = "select twice from w where v = 'b'"
    assert is_cached(table, query) or on_a_server(table)
    assert [row.twice for row in table.sql(query).collect()] == [4]
    table.sql("insert into t values (20, 'b')")
    assert not is_cached(table, query)
    assert sorted(row.twice for row in table.sql(query).collect()) == [4, 40]


@FORMATS
def test_statements_that_write_read_the_cache_and_make_it_obsolete(table: rowmerge.Session, format_: str) -> None:
    table.sql("cache table t")
    table.sql("insert into t select id + 10, v from t where id > 1")
    table.sql("delete from t where id in (select id - 10 from t)")
    assert [row.id for row in table.sql("select id from t order by id").collect()] == [1, 12, 13]


@FORMATS
def test_a_temporary_view_of_a_query_and_clear_cache(table: rowmerge.Session, format_: str) -> None:
    table.sql("cache table q as select id + 1 as next from t where id < 3")
    assert is_cached(table, "select * from q where next = 2") or on_a_server(table)
    assert [row.next for row in table.sql("select next from q order by next").collect()] == [2, 3]
    table.sql("clear cache")
    assert not is_cached(table, "select * from q where next = 2")
    table.spark.range(3).createOrReplaceTempView("frame")
    table.sql("cache table frame")
    assert is_cached(table, "select * from frame")
    table.sql("refresh table frame")
    table.sql("uncache table frame")
    assert not is_cached(table, "select * from frame")


@FORMATS
def test_a_recreated_table_is_not_read_from_the_cache(table: rowmerge.Session, format_: str) -> None:
    table.sql("cache table t")
    table.sql("drop table t")
    table.sql(f"create table t (id bigint, v string) using {format_}")
    assert table.sql("select * from t").collect() == []
    table.sql("insert into t values (9, 'z')")
    assert [row.id for row in table.sql("select id from t").collect()] == [9]
