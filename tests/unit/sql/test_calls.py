"""Calls of the warehouse's functions are replaced by expressions of Spark."""

from __future__ import annotations

import pytest

from rowmerge.commands.functions import FunctionDefinition, Parameter
from rowmerge.commands.names import TableName
from rowmerge.errors import PlanError, UnsupportedStatement
from rowmerge.sql import CalledFunction, bind, bind_expression, expression_of

N = Parameter("n", "int")
FUNCTIONS = {
    "f": FunctionDefinition((N, Parameter("m", "int", "0")), "int", "n + m"),
    "twice": FunctionDefinition((N,), "int", "n + n"),
    "total": FunctionDefinition((N,), "int", "sum(n)", aggregate=True),
    "py": FunctionDefinition((N,), "int", "…", "python", handler="py"),
    "seen": FunctionDefinition((N,), "int", "(select max(id) from t where id = n)"),
    "day": FunctionDefinition((Parameter("day", "date"),), "int", "extract(day from day)"),
    "hex": FunctionDefinition((Parameter("x", "int"),), "binary", "concat(x'00', cast(x as binary))"),
    "field": FunctionDefinition((Parameter("s", "struct<s: int>"),), "int", "s.s + other(s => s)"),
}


def resolve(name: TableName) -> CalledFunction | None:
    definition = FUNCTIONS.get(name.parts[-1].lower()) if name.parts[0] == "db" else None
    return None if definition is None else CalledFunction(str(name), definition, definition.body, lambda: f"<{name.parts[-1]}>")


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("db.f(a, b)", "cast((cast(a as int) + cast(b as int)) as int)"),
        ("DB.F(a)", "DB.F(a)"),
        ("`db`.`f` ( a )", "cast((cast(a as int) + cast(0 as int)) as int)"),
        ("db.f(m => a, n => b)", "cast((cast(b as int) + cast(a as int)) as int)"),
        ("db.f(g(a, b), [1, 2][0])", "cast((cast(g(a, b) as int) + cast([1, 2][0] as int)) as int)"),
        ("db.twice(a + 1)", "cast((cast(a + 1 as int) + cast(a + 1 as int)) as int)"),
        ("db.twice(rand())", "<twice>(cast(rand() as int))"),
        ("db.py(db.py(1)) + db.py(2)", "<py>(cast(<py>(cast(1 as int)) as int)) + <py>(cast(2 as int))"),
        ("db.seen(a)", "<seen>(cast(a as int))"),
        ("db.day(a)", "<day>(cast(a as date))"),
        ("db.hex(a)", "cast((concat(x'00', cast(cast(a as int) as binary))) as binary)"),
        ("db.field(a)", "cast((cast(a as struct<s: int>).s + other(s => cast(a as struct<s: int>))) as int)"),
        ("db.total(a) + 1", "cast((sum(cast(a as int))) as int) + 1"),
        ("f(a) + other.f(a) + db.g(a)", "f(a) + other.f(a) + db.g(a)"),
        ("'db.f(a)' || `db.f(a)` -- db.f(a)", "'db.f(a)' || `db.f(a)` -- db.f(a)"),
        ("a.db.f(1)", "a.db.f(1)"),
    ],
)
def test_a_call_is_replaced_by_the_body_with_its_arguments(text: str, bound: str) -> None:
    assert bind_expression(text, lambda table: None, resolve) == bound


def test_tables_in_arguments_are_bound() -> None:
    text = "select db.py((select max(id) from t)) from u as f where db.f(u.a) > 1"
    bound = bind(text, lambda table: f"<{table.name}>", resolve)
    value = "cast((cast(u.a as int) + cast(0 as int)) as int)"
    assert bound == f"select <py>(cast((select max(id) from <t> AS `t`) as int)) from <u> as f where {value} > 1"


@pytest.mark.parametrize(
    "text",
    [
        "insert into db.f (a, b) select 1, 2",
        "select * from x as db.f (a)",
        "select * from (select 1) db.f(a)",
        "create table db.f (a int) using csv",
    ],
)
def test_a_column_list_is_not_a_call(text: str) -> None:
    assert bind(text, lambda table: None, resolve) == text


def test_other_names_are_not_looked_up_as_functions() -> None:
    looked_up_names: list[str] = []
    text = "select cast(a as decimal(1, 2)), g(b) over (order by c), if(d, 1, 2) from t where a in (1) and not (b or (c)) and `if`(1)"
    bind(text, lambda table: None, lambda name: looked_up_names.append(str(name)))
    assert looked_up_names == ["g", "if"]


@pytest.mark.parametrize("text", ["db.f()", "db.f(1, 2, 3)", "db.f(1, n => 2)", "db.f(1, k => 2)"])
def test_wrong_arguments_are_rejected_with_the_signature(text: str) -> None:
    with pytest.raises(PlanError, match=r"Call it as db.f\(n int, m int DEFAULT 0\)."):
        bind_expression(text, lambda table: None, resolve)


@pytest.mark.parametrize("text", ["db.total(distinct a)", "db.total(a) over (order by b)", "db.total(a) filter (where b)"])
def test_a_sql_aggregate_rejects_distinct_window_and_filter(text: str) -> None:
    with pytest.raises(UnsupportedStatement, match="does not support"):
        bind_expression(text, lambda table: None, resolve)


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        ("\n  SELECT price * 2;\n", "price * 2"),
        ("select (select 1 from t) + 1", "(select 1 from t) + 1"),
        ("select max(id) from t", "(select max(id) from t)"),
        ("select price as p", "(select price as p)"),
        ("with x as (select 1 as a) select a from x", "(with x as (select 1 as a) select a from x)"),
        ("price * 2 -- twice", "price * 2"),
    ],
)
def test_a_body_is_an_expression(body: str, expression: str) -> None:
    assert expression_of(body) == expression
