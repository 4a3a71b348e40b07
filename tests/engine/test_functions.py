"""Functions of the warehouse with other sessions, other threads, and Spark's own functions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.session.names import spark_names

PLUS = "create or replace function plus(n int) returns int language python handler 'f' as 'def f(n): return n + {0}'"


def value(session: rowmerge.Session, query: str) -> object:
    return session.sql(query).collect()[0][0]


def test_every_session_uses_the_current_definition_of_a_function(session: rowmerge.Session, spark: SparkSession, tmp_path: Path) -> None:
    other = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    other.sql(PLUS.format(1))
    assert (value(session, "select plus(1)"), session.functions("default")) == (2, ["plus"])
    other.sql(PLUS.format(10))
    assert value(session, "select plus(1)") == 11
    other.sql("drop function plus")
    assert session.functions("default") == []


def test_a_concurrent_reader_uses_the_old_or_the_new_function(session: rowmerge.Session) -> None:
    session.sql(PLUS.format(0))
    with ThreadPoolExecutor(4) as pool:
        replaced = pool.submit(lambda: [session.sql(PLUS.format(number)) for number in range(1, 5)])
        read_values = list(pool.map(lambda _: value(session, "select plus(0)"), range(6)))
        replaced.result()
    assert set(read_values) <= set(range(5)) and value(session, "select plus(0)") == 4


def test_functions_dropped_from_spark_are_registered_again(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_names, "MOST_FUNCTIONS", 1)
    for name, number in (("a", 1), ("b", 2)):
        session.sql(f"create function {name}(n int) returns int return (select max(id) + {number} from range(3) where id <= n)")
    for _ in range(2):
        assert (value(session, "select a(1)"), value(session, "select b(1)")) == (2, 3)


def test_a_temporary_function_takes_precedence_for_unqualified_names(session: rowmerge.Session) -> None:
    session.sql("create function told(n int) returns string return 'the warehouse'")
    session.spark.udf.register("told", lambda n: "the session")
    try:
        assert session.sql("select told(1), default.told(1)").collect()[0][:] == ("the session", "the warehouse")
    finally:
        session.sql("drop temporary function told")
    assert value(session, "select told(1)") == "the warehouse"
