"""Deeply nested statements and long chains of operators run, or are rejected with an error that states the reason."""

from __future__ import annotations

import pytest

import rowmerge
from rowmerge.errors import PlanError, TypeMismatch, UnsupportedStatement
from rowmerge.sql.queries.relations import DEEPEST
from rowmerge.table.metadata.schema import DEEPEST_TYPE


@pytest.fixture
def numbers(session: rowmerge.Session) -> rowmerge.Session:
    session.sql("create table numbers using delta as select id from range(10)")
    return session


def count(session: rowmerge.Session) -> int:
    return int(session.sql("select count(*) from numbers").collect()[0][0])


@pytest.mark.parametrize(
    "statement",
    [
        "select {} from numbers",
        "delete from numbers where {} = 1",
        "update numbers set id = {}",
        "insert into numbers select {}",
        "merge into numbers t using numbers s on t.id = s.id and {} = 1 when matched then delete",
        "create table others using delta as select {} as id",
        "create view v as select {} as id",
    ],
)
def test_a_stack_overflow_in_spark_is_an_error_without_a_version(numbers: rowmerge.Session, statement: str) -> None:
    with pytest.raises(PlanError, match="nested too deeply for Spark.*-Xss"):
        numbers.sql(statement.format("(" * 5_000 + "1" + ")" * 5_000))
    with pytest.raises(PlanError, match="nested too deeply for Spark"):
        numbers.sql(statement.format("1" + " + 1" * 10_000))
    assert count(numbers) == 10
    assert numbers.relations("default") == [rowmerge.Relation("default", "numbers", "table", "delta")]


@pytest.mark.parametrize("length", [1_000])
def test_long_chains_of_operators_run(numbers: rowmerge.Session, length: int) -> None:
    numbers.sql("delete from numbers where " + " or ".join(f"id = {number}" for number in range(9, 9 + length)))
    assert count(numbers) == 9
    numbers.sql("delete from numbers where " + " and ".join(f"id > -{number}" for number in range(1, length)) + " and id = 0")
    assert count(numbers) == 8
    numbers.sql(f"delete from numbers where id in ({', '.join(map(str, range(7, 7 + length)))})")
    assert count(numbers) == 6
    numbers.sql("insert into numbers values " + ", ".join(f"({number})" for number in range(length)))
    assert count(numbers) == 6 + length


def test_queries_can_be_nested_up_to_a_documented_depth(numbers: rowmerge.Session) -> None:
    def nested(depth: int) -> str:
        return "select * from (" * depth + "numbers" + ")" * depth

    assert numbers.sql(f"select count(*) from ({nested(DEEPEST - 2)})").collect() == [(10,)]
    for statement in (nested(DEEPEST), f"insert into numbers {nested(DEEPEST)}", f"delete from numbers where id in ({nested(DEEPEST)})"):
        with pytest.raises(UnsupportedStatement, match=f"nested more than {DEEPEST} levels deep"):
            numbers.sql(statement)


def test_types_can_be_nested_up_to_a_documented_depth(bare_session: rowmerge.Session) -> None:
    """Spark can reject shallower types, depending on the size of its stack, and so can other readers."""
    session = bare_session

    def nested(depth: int) -> str:
        return "struct<a: " * depth + "int" + ">" * depth

    session.sql(f"create table t (a {nested(DEEPEST_TYPE)}) using delta")
    session.sql(f"create table i (a {nested(DEEPEST_TYPE)}) using iceberg")
    for statement in (
        f"create table u (a {nested(DEEPEST_TYPE + 1)}) using delta",
        f"create table u using iceberg as select cast(null as {nested(DEEPEST_TYPE + 1)}) as a",
        f"alter table t add columns (b {nested(DEEPEST_TYPE + 1)})",
        f"create table u (a {nested(300)}) using delta",
    ):
        with pytest.raises((TypeMismatch, PlanError), match=f"nested more than {DEEPEST_TYPE} levels deep|nested too deeply for Spark"):
            session.sql(statement)
