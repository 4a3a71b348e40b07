"""Column names in row-level statements and file pruning follow spark.sql.caseSensitive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import PlanError, UnknownColumn

pytestmark = pytest.mark.one_of("mode")

MODES = ("copy-on-write", "merge-on-read")


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


def rows(session: rowmerge.Session, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.sql(query).collect()]


@pytest.mark.parametrize("mode", MODES)
def test_names_match_in_any_case_by_default(session: rowmerge.Session, mode: str) -> None:
    session.sql(f"create table t (Id int, Part string, V int) partitioned by (Part) tblproperties ('rowmerge.write.mode' = '{mode}')")
    session.sql("insert into t values (1, 'a', 0), (2, 'b', 0), (3, 'b', 0)")
    merge = "merge into T using (select 1 as ID, 'c' as PART, 5 as v) S on t.iD = s.Id when matched then update set *"
    assert rows(session, merge) == [(1, 1, 0, 0)]
    assert rows(session, "update T set v = ID + 10 where PART = 'b' and iD = 2") == [(1,)]
    assert rows(session, "delete from T where pArT = 'c'") == [(1,)]
    assert rows(session, "select * from t order by id") == [(2, "b", 12), (3, "b", 0)]


@pytest.mark.parametrize("mode", MODES)
def test_case_sensitive_sessions_distinguish_names_by_case(session: rowmerge.Session, case_sensitive: None, mode: str) -> None:
    session.sql(f"create table t (Id int, Part string, V int) partitioned by (Part) tblproperties ('rowmerge.write.mode' = '{mode}')")
    session.sql("insert into t values (1, 'a', 0), (2, 'b', 0)")
    with pytest.raises(UnknownColumn, match="id"):
        session.sql("update t set V = 1 where id = 1")
    with pytest.raises(UnknownColumn, match="`v`"):
        session.sql("update t set v = 1 where Id = 1")
    with pytest.raises(UnknownColumn, match="part"):
        session.sql("delete from t where part = 'a'")
    with pytest.raises(UnknownColumn, match="`V`"):
        session.sql("merge into t using (select 1 as Id, 'c' as Part, 5 as v) s on t.Id = s.Id when matched then update set *")
    with pytest.raises(UnknownColumn, match="`id`"):
        session.sql("merge into t using (select 1 as k) s on t.Id = s.k when not matched then insert (id) values (s.k)")
    # Names that differ only in case are different names: `id` is not ambiguous, and a star skips it.
    merge = (
        "merge into t using (select 1 as Id, 'x' as id, 'c' as Part, 5 as V) s on t.Id = s.Id and id = 'x' when matched then update set *"
    )
    assert rows(session, merge) == [(1, 1, 0, 0)]
    assert rows(session, "update t set V = Id + 10 where Part = 'b'") == [(1,)]
    assert rows(session, "delete from t where Part = 'c'") == [(1,)]
    assert rows(session, "select * from t") == [(2, "b", 12)]


@pytest.mark.parametrize(
    "statement",
    [
        "insert into t (id, V) values (1, 2)",
        "insert into t by name select 1 as Id, 'a' as Part, 2 as v",
        "insert into t partition (part = 'a') values (1, 2)",
        "insert overwrite t partition (part = 'a') values (1, 2)",
        "insert into t replace using (id) values (1, 2, 'a')",
        "insert into t replace where part = 'a' values (1, 2, 'a')",
        "insert into t replace on id = 1 select 1 as Id, 2 as V, 'a' as Part",
    ],
)
def test_a_case_sensitive_insert_distinguishes_names_by_case(session: rowmerge.Session, case_sensitive: None, statement: str) -> None:
    session.sql("create table t (Id int, V int, Part string) partitioned by (Part)")
    session.sql("insert into t by name select 1 as Id, 0 as V, 'a' as Part")
    with pytest.raises(UnknownColumn, match="`id`|`v`|`part`"):
        session.sql(statement)
    assert rows(session, "select * from t") == [(1, 0, "a")]


def test_columns_that_differ_only_in_case_are_rejected(session: rowmerge.Session, case_sensitive: None) -> None:
    # The Delta protocol forbids columns that differ only in case, whatever Spark's setting.
    with pytest.raises(PlanError, match="defined twice"):
        session.sql("create table t (a int, A int)")
