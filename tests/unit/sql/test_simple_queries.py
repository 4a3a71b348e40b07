"""Queries that metadata may answer are recognized from their text, and all other queries are left to Spark."""

from __future__ import annotations

import time

import pytest

from rowmerge.sql import COUNT, MAX, MIN, parse_simple_query
from rowmerge.sql.queries.simple_queries import ResultColumn, SimpleQuery, SortKey


def parsed(text: str) -> SimpleQuery:
    query = parse_simple_query(text)
    assert query is not None, text
    return query


def test_calls_have_their_columns_and_aliases() -> None:
    query = parsed("/* dbt */ SELECT count(*), Count(1) n, min(`a b`), max(t.x) AS `top` FROM `t` where p = 'a, b' limit 5 -- end")
    assert query.columns == (
        ResultColumn(COUNT, None, ""),
        ResultColumn(COUNT, None, "n"),
        ResultColumn(MIN, ("a b",), ""),
        ResultColumn(MAX, ("t", "x"), "top"),
    )
    assert (query.table, query.alias, query.condition, query.limit) == ("t", None, "p = 'a, b'", 5)
    assert not query.is_grouped


@pytest.mark.parametrize("comment", ['/* {"app": "dbt"} */', '-- a "join"\n', "/* exists */", f"/* {'x' * 1_000} */"])
def test_comments_before_a_query_do_not_matter(comment: str) -> None:
    assert parse_simple_query(f"{comment} select count(*) from t") == parsed("select count(*) from t")


def test_double_quotes_in_comments_do_not_matter() -> None:
    assert parsed('select count(*) from t /* "a" */ where b = 1 -- "c"').condition == "b = 1"


def test_distinct_columns_are_keys() -> None:
    query = parsed("select distinct p as k, x.q from t as x order by k desc, q nulls last")
    assert (query.keys, query.is_grouped, query.alias) == ((("p",), ("x", "q")), True, "x")
    assert query.order == (SortKey(0, descending=True, nulls_first=False), SortKey(1, descending=False, nulls_first=False))


def test_columns_of_group_by_are_keys() -> None:
    query = parsed("select p, count(q) from t group by p, q order by p")
    assert (query.keys, query.is_grouped) == ((("p",), ("q",)), True)


def test_a_limited_list_of_columns_is_recognized() -> None:
    assert [column.is_star for column in parsed("select *, x.*, a b from t x limit 10").columns] == [True, True, False]


@pytest.mark.parametrize(
    "text",
    [
        "select a from t",
        "select a, count(*) from t",
        "select count(distinct a) from t",
        "select count(null) from t",
        "select count(true) from t",
        "select count(all a) from t",
        "select distinct count(*) from t",
        "select distinct * from t",
        "select count(*) + 1 from t",
        "select sum(a) from t limit 1",
        "select explode(a) from t limit 1",
        "select min(a) over () from t",
        "select min(a) filter (where b) from t",
        "select min(a) from t, u",
        "select min(a) from t join u",
        "select min(a) from t lateral view explode(b) c",
        "select min(a) from t (x, y)",
        "select min(a) from t tablesample (1 rows)",
        "select min(a) from (select 1 a)",
        "select min(a) from s.t",
        "select min(a) from t having min(a) > 1",
        "select min(a) from t where a = 1 union all select 2",
        "select min(a) from t where a in (select 1)",
        "select min(a) from t where exists (from t)",
        'select min(a) from t where b = "c"',
        "select min(a) from t limit all",
        "select min(a) from t limit 1 offset 1",
        "select min(a) from t limit 1 + 1",
        "select a from t order by a limit 1",
        "select p from t group by p with rollup",
        "select p from t group by all",
        "select p from t group by 1",
        "select p as x from t group by p order by y",
        "select p as x, q as x from t group by p, q order by x",
        "select min(a) from t |> where a = 1",
        "select min(a) from t; select 1",
        "select min(a from t",
        "select min(a) from t where b = 'c",
        "with t as (select 1 a) select min(a) from t",
        "from t select count(*)",
        "explain select count(*) from t",
        "insert into t select count(*) from t",
        "",
    ],
)
def test_other_queries_are_not_recognized(text: str) -> None:
    assert parse_simple_query(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "select " + ", ".join(f"column_{number} as c{number}" for number in range(60)) + " from t join u on t.a = u.b limit 5",
        "select count(*), " + "a, " * 300 + "b",
        "select distinct " + "a." * 480,
        "select min(" + "`" * 980,
        "select max(a) " + "x " * 480,
    ],
)
def test_a_query_of_another_kind_costs_less_than_a_millisecond(text: str) -> None:
    durations = []
    for _ in range(20):
        start = time.perf_counter()
        assert parse_simple_query(text) is None
        durations.append(time.perf_counter() - start)
    assert min(durations) < 0.001
