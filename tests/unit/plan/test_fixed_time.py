"""Time functions in the conditions of a query get one fixed time. Columns with their names keep their meaning."""

from __future__ import annotations

import pytest

from rowmerge.plan.queries.constants import bare_time_names, constant_operands, with_fixed_time
from rowmerge.sql import parse_query

TODAY = "cast(timestamp_micros(7) as date)"


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("select current_date() from t where d = current_date", f"select current_date() from t where d = {TODAY}"),
        ("select * from t join u on t.d < current_date()", f"select * from t join u on t.d < {TODAY}"),
        ("select * from t join (u join v on u.d = current_date) on true", f"select * from t join (u join v on u.d = {TODAY}) on true"),
        ("select * from (select * from t where d = current_date)", f"select * from (select * from t where d = {TODAY})"),
        (
            "with a as (select * from t where d = current_date) select * from a",
            f"with a as (select * from t where d = {TODAY}) select * from a",
        ),
        (
            "select k from t where k in (select k from u where d = current_date)",
            f"select k from t where k in (select k from u where d = {TODAY})",
        ),
        (
            "select k from t where d = current_date group by k having max(d) < current_date()",
            f"select k from t where d = {TODAY} group by k having max(d) < {TODAY}",
        ),
        (
            "select k from t pivot (max(d) for k in (1)) where d = current_date()",
            "select k from t pivot (max(d) for k in (1)) where d = current_date()",
        ),
    ],
)
def test_conditions_have_a_fixed_time(text: str, fixed: str) -> None:
    assert with_fixed_time(text, parse_query(text), 7, bare_time_names(text, parse_query(text))) == fixed


@pytest.mark.parametrize(
    "text",
    [
        "select * from (select d as current_date from t) where current_date = date'2024-01-01'",
        "select * from (select d current_date from t) where current_date = date'2024-01-01'",
        "select 1 from t where exists (select 1 from (select d as current_date from t) where current_date = date'2024-01-01')",
        "select * from t as a(k, Current_Date) where current_date = date'2024-01-01'",
    ],
)
def test_a_name_that_can_be_a_column_is_kept(text: str) -> None:
    assert with_fixed_time(text, parse_query(text), 7, bare_time_names(text, parse_query(text))) == text


@pytest.mark.parametrize(
    ("condition", "operands"),
    [
        ("`t`.`d` >= date_sub(date'2024-01-08', 7) and `t`.`k` in (1, 2 + 3)", ["date_sub(date'2024-01-08', 7)", "2 + 3"]),
        ("`t`.`d` >= current_date() - 7", []),
        ("`t`.`ts` < now()", []),
        ("(`t`.`k` = q or `t`.`k` + 1 = 2)", ["q"]),
    ],
)
def test_constants_without_a_time_are_evaluated(condition: str, operands: list[str]) -> None:
    assert [condition[start:end] for start, end in constant_operands(condition)] == operands
