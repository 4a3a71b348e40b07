"""Conditions whose values come from a subquery or from the other side of a join, and constants that Spark evaluates."""

from __future__ import annotations

import re

import pytest

from rowmerge.plan.queries.constants import constant_operands, with_fixed_time
from rowmerge.plan.queries.outputs import Source, View
from rowmerge.plan.queries.push_down import push_down
from rowmerge.plan.queries.subqueries import KeySource, has_query
from rowmerge.sql import parse_query
from rowmerge.table.metadata.schema import Field, Primitive, Struct

INT = Primitive("integer")
# Placeholders look like these names.
FACTS, KEYS = "__rowmerge_read_0", "__rowmerge_read_1"
NAMES = {"facts": FACTS, "keys": KEYS}
TABLES: dict[str, Source] = {
    FACTS: Struct((Field("k", INT), Field("v", INT))),
    KEYS: Struct((Field("k", INT), Field("w", INT), Field("s", Primitive("string")))),
}


def dynamic(query: str) -> list[str]:
    """Return the conditions with subqueries on `facts`, in a query that calls the tables `facts` and `keys`."""
    text = re.sub(r"\b(from|join) (facts|keys)\b", lambda match: f"{match[1]} `{NAMES[match[2]]}` as {match[2]}", query)
    conditions = push_down(parse_query(text), TABLES).by_table.get(FACTS, ())
    short = [condition.replace(f"`{FACTS}`.", "").replace(f"`{KEYS}`", "keys").replace("`", "") for condition in conditions]
    return [condition.replace("keys as keys", "keys") for condition in short if has_query(condition)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from facts where v > (select max(w) from keys)", ["v > (select max(w) from keys)"]),
        ("select * from facts where (select max(w) from keys) < v", ["(select max(w) from keys) < v"]),
        ("select * from facts where v > (select max(w) from keys) - 3", ["v > (select max(w) from keys) - 3"]),
        ("select * from facts where v > abs((select min(w) from keys))", ["v > abs( (select min(w) from keys))"]),
        ("select * from facts where k in (select k from keys where w = 1)", ["k IN (SELECT k FROM keys)"]),
        ("select * from facts where k in (select x from (select k as x, w from keys) where w = 1)", ["k IN (SELECT k FROM keys)"]),
        ("with c as (select k from keys where w = 1) select facts.v from facts join c on facts.k = c.k", ["k IN (SELECT k FROM keys)"]),
        ("select 1 from (select * from facts) f where exists (select 1 from keys where keys.k = f.k)", ["k IN (SELECT k FROM keys)"]),
        ("select 1 from (select k, w from keys where w = 1) d left join facts on facts.k = d.k", ["k IN (SELECT k FROM keys)"]),
    ],
)
def test_values_of_other_tables_are_conditions(query: str, expected: list[str]) -> None:
    assert [condition.strip() for condition in dynamic(query)] == expected


@pytest.mark.parametrize(
    "query",
    [
        "select * from facts where k not in (select k from keys)",
        "select * from facts where not (k in (select k from keys))",
        "select * from facts where k in (select k from keys) or v = 1",
        "select 1 from (select * from facts) f where not exists (select 1 from keys where keys.k = f.k)",
        "select 1 from (select * from facts) f where exists (select count(*) from keys where keys.k = f.k)",
        "select * from facts where v > all (select w from keys)",
        "select * from facts where v > (select w from keys limit 1)",
        "select * from facts where v > (select max(w) from keys, other)",
        "select * from facts where v > (select first(w) from keys)",
        "select * from facts where v > (select max(rank() over (order by w)) from keys)",
        "select * from facts where v > (select max(w) from keys where s < current_user)",
        "with c as (select w from keys) select * from facts where v > (select max(w) from c)",
        "select facts.v from facts left join (select k from keys where w = 1) d on facts.k = d.k",
        "select facts.v from facts full join (select k from keys where w = 1) d on facts.k = d.k",
        "select facts.v from facts left anti join (select k from keys where w = 1) d on facts.k = d.k",
        "select facts.v from facts join (select k from keys union all select 1) d on facts.k = d.k",
        "select facts.v from facts join (select k + 1 as k from keys) d on facts.k = d.k",
        "select facts.v from facts join keys on facts.k < keys.k",
    ],
)
def test_other_subqueries_and_joins_are_no_conditions(query: str) -> None:
    assert dynamic(query) == []


def test_the_keys_of_a_view_come_from_its_table() -> None:
    view = View(parse_query(f"select k, w from `{KEYS}` where w = 1"), ("a", "b"))
    query = parse_query(f"select 1 from `{FACTS}` as f join view on f.k = view.a")
    (condition,) = push_down(query, {**TABLES, "view": view}).by_table[FACTS]
    assert KeySource.parse(condition) == KeySource(FACTS, "k", KEYS, "k")


@pytest.mark.parametrize(
    ("condition", "operands"),
    [
        ("`t`.`d` >= date_sub(date'2024-01-01', 7)", ["date_sub(date'2024-01-01', 7)"]),
        ("`t`.`k` in (1, 2 + 3, 4) and `t`.`k` > -1", ["2 + 3"]),
        ("(`t`.`k` between 1 + 1 and 5) or not (`t`.`d` = date'2024-01-01' + 1)", ["1 + 1", "date'2024-01-01' + 1"]),
        ("`t`.`k` + 1 > 2 and f(`t`.`k`, 1 + 1) = 3", []),
        ("`t`.`k` = session.x", ["session.x"]),
        ("`t`.`b` is not unknown", []),
        ("`t`.`k` > rand() * 3", []),
        ("`t`.`s` = 'a = 1 + 1'", []),
    ],
)
def test_constant_operands_have_no_column(condition: str, operands: list[str]) -> None:
    assert [condition[start:end] for start, end in constant_operands(condition)] == operands


def test_operands_with_columns_of_a_changed_table_are_no_constants() -> None:
    assert constant_operands("k = v and k = x + 1 and k > unit", ["k", "v", "x", "unit"]) == []
    condition = "k = v and k > 1 + 1"
    assert [condition[start:end] for start, end in constant_operands(condition, ["k", "v"])] == ["1 + 1"]


def test_time_functions_in_conditions_get_one_fixed_time() -> None:
    text = (
        "with c as (select * from a where d < current_date()) select current_date() from c join b on c.t < now() "
        "where exists (select 1 from e where e.d = current_date) having max(t) > current_timestamp()"
    )
    today, now = "cast(timestamp_micros(5) as date)", "timestamp_micros(5)"
    assert with_fixed_time(text, parse_query(text), 5, ()) == (
        f"with c as (select * from a where d < {today}) select current_date() from c join b on c.t < {now} "
        f"where exists (select 1 from e where e.d = {today}) having max(t) > {now}"
    )


def test_time_functions_beside_thousands_of_joins_get_the_fixed_time() -> None:
    text = "select 1 from a" + " join b on b.d < now()" * 2000
    assert with_fixed_time(text, parse_query(text), 5, ()).count("timestamp_micros(5)") == 2000
