"""The target columns that a MERGE must read. The result is None if it is uncertain, because too few would be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowmerge.commands.rows import Match
from rowmerge.plan.expressions.conditions import divide_condition
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.plan.row_plan import Clause, Effect, RowPlan, SourceRows, is_upsert, needed_columns, needed_source_columns
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Field, Primitive, Struct

SCHEMA = Struct(tuple(Field(name, Primitive("long")) for name in ("id", "a", "b")))
TARGET, SOURCE = Side("t", (), SCHEMA.names), Side("s", (), ("id", "a", "v"))
ALL = {"id": "s.id", "a": "s.a", "b": "s.v"}


def plan_of(*clauses: Clause, on: str = "t.id = s.id") -> RowPlan:
    condition = divide_condition(on, TARGET, SOURCE)
    return RowPlan("MERGE", "db.t", SCHEMA, TARGET, clauses, every_file, (), SOURCE, condition, SourceRows.UNMATCHED)


def needed(*clauses: Clause, on: str = "t.id = s.id") -> frozenset[str] | None:
    return needed_columns(plan_of(*clauses, on=on))


def matched(effect: Effect, condition: str | None = None, keeps_fields: bool = False, **values: str) -> Clause:
    return Clause(Match.MATCHED, effect, condition, values, keeps_fields)


def test_deletions_and_complete_new_rows_need_only_the_keys() -> None:
    insert = Clause(Match.NOT_MATCHED, Effect.INSERT, "s.v > 0", ALL)
    assert needed(matched(Effect.DELETE), insert) == {"id"}
    assert needed(matched(Effect.UPDATE, "s.v = 1", **ALL), insert) == {"id"}


def test_columns_of_conditions_values_and_unassigned_columns_are_needed() -> None:
    assert needed(matched(Effect.DELETE, "t.b > s.v")) == {"id", "b"}
    assert needed(matched(Effect.UPDATE, **{**ALL, "b": "t.a + 1"})) == {"id", "a"}
    assert needed(matched(Effect.UPDATE, a="s.a")) == {"id", "b"}
    assert needed(matched(Effect.UPDATE, keeps_fields=True, **ALL)) == {"id", "a", "b"}
    assert needed(matched(Effect.DELETE), on="t.id = s.id and b <> s.v") == {"id", "b"}


def test_clauses_for_target_rows_without_a_match_need_their_columns() -> None:
    assert needed(matched(Effect.UPDATE, "t.a <> s.a", **ALL), Clause(Match.NOT_MATCHED_BY_SOURCE, Effect.DELETE)) == {"id", "a"}
    assert needed(matched(Effect.DELETE), Clause(Match.NOT_MATCHED_BY_SOURCE, Effect.DELETE, "t.b > 1")) == {"id", "b"}
    by_source = Clause(Match.NOT_MATCHED_BY_SOURCE, Effect.UPDATE, None, {"a": "0"})
    assert needed(matched(Effect.DELETE), by_source) == {"id", "b"}


@pytest.mark.parametrize(
    "text", ["a = 1", "t.c = 1", "t.b in (select 1)", "exists (select 1)", "rand() > t.b", "input_file_name() = '' or t.b = 1", "t.b +"]
)
def test_unparsable_expressions_have_unknown_columns(text: str) -> None:
    """Ambiguous and missing columns, subqueries, functions that can read anything, and invalid SQL."""
    assert needed(matched(Effect.DELETE, text)) is None
    assert needed(matched(Effect.UPDATE, **{**ALL, "b": text})) is None


def test_a_source_needs_only_the_columns_that_the_condition_and_the_clauses_use() -> None:
    by_source = Clause(Match.NOT_MATCHED_BY_SOURCE, Effect.UPDATE, "t.a > 1", {"b": "0"})
    assert needed_source_columns(plan_of(matched(Effect.DELETE))) == {"id"}
    assert needed_source_columns(plan_of(matched(Effect.DELETE), by_source, on="t.id = s.id and s.v > 1")) == {"id", "v"}
    assert needed_source_columns(plan_of(matched(Effect.UPDATE, "t.b = s.v", a="t.a + 1"))) == {"id", "v"}
    assert needed_source_columns(plan_of(matched(Effect.DELETE), Clause(Match.NOT_MATCHED, Effect.INSERT, None, ALL))) == {"id", "a", "v"}
    assert needed_source_columns(plan_of(matched(Effect.DELETE), on="t.id = 1")) == set()
    assert needed_source_columns(plan_of(matched(Effect.DELETE, "exists (select 1)"))) is None


@pytest.mark.parametrize(
    "text",
    ["date_trunc(s.v, now())", "trunc(now(), v)", "identifier('s.v')", "struct(s.*)", "broadcast(s.v)", "current_date", '"v"', "count(*)"],
)
def test_columns_that_sqlglot_does_not_see_are_unknown(text: str) -> None:
    source = Side("s", (), ("id", "a", "v", "current_date"))
    plan = replace(plan_of(matched(Effect.UPDATE, **{**ALL, "b": text})), source=source)
    assert needed_source_columns(plan) is None
    assert needed_columns(plan) is None


def test_names_of_functions_without_parentheses_are_columns_if_qualified() -> None:
    source = Side("s", (), ("id", "a", "v", "user"))
    plan = replace(plan_of(matched(Effect.UPDATE, **{**ALL, "b": "s.user", "a": "cast(s.a as date)"})), source=source)
    assert needed_source_columns(plan) == {"id", "user", "a"}
    assert needed_source_columns(plan_of(matched(Effect.UPDATE, **{**ALL, "b": "current_date"}))) == {"id", "a"}


INSERT = Clause(Match.NOT_MATCHED, Effect.INSERT, None, ALL)


def upserts(*clauses: Clause, generated: dict[str, str] | None = None) -> bool:
    on = divide_condition("t.id = s.id", TARGET, SOURCE)
    plan = RowPlan("MERGE", "db.t", SCHEMA, TARGET, clauses, every_file, (), SOURCE, on, SourceRows.UNMATCHED)
    return is_upsert(replace(plan, rules=Rules(generated=generated or {})))


def test_equal_values_for_matched_and_new_rows_are_an_upsert() -> None:
    assert upserts(matched(Effect.UPDATE, **ALL), INSERT)
    both = {"id": "s.id", "a": "s.v + 1"}
    computed = matched(Effect.UPDATE, **both), Clause(Match.NOT_MATCHED, Effect.INSERT, None, both)
    assert upserts(*computed, generated={"b": "a * 2"})
    assert not upserts(*computed), "a column that the update keeps"


@pytest.mark.parametrize(
    "clauses",
    [
        (INSERT,),
        (matched(Effect.UPDATE, **ALL),),
        (matched(Effect.DELETE), INSERT),
        (matched(Effect.UPDATE, "s.v > 0", **ALL), INSERT),
        (matched(Effect.UPDATE, **ALL), replace(INSERT, condition="s.v > 0")),
        (matched(Effect.UPDATE, keeps_fields=True, **ALL), INSERT),
        (matched(Effect.UPDATE, **{**ALL, "b": "s.v + 1"}), INSERT),
        (matched(Effect.UPDATE, **{**ALL, "b": "t.b"}), replace(INSERT, values={**ALL, "b": "t.b"})),
        (matched(Effect.UPDATE, **{**ALL, "b": "rand()"}), replace(INSERT, values={**ALL, "b": "rand()"})),
        (matched(Effect.UPDATE, "s.v > 0", **ALL), matched(Effect.UPDATE, **ALL), INSERT),
        (matched(Effect.UPDATE, **ALL), INSERT, Clause(Match.NOT_MATCHED_BY_SOURCE, Effect.DELETE)),
    ],
)
def test_values_that_depend_on_the_match_are_not_an_upsert(clauses: tuple[Clause, ...]) -> None:
    assert not upserts(*clauses)
