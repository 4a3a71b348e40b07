"""Which columns of the target a MERGE must know: too few would be wrong, so whatever is not sure is None."""

from __future__ import annotations

import pytest

from rowmerge.commands.rows import Match
from rowmerge.plan.conditions import Side, analyse
from rowmerge.plan.needed_columns import needed_columns
from rowmerge.plan.pruning import everything
from rowmerge.plan.row_plan import Clause, Effect, RowPlan, SourceRows
from rowmerge.table.schema import Field, Primitive, Struct

SCHEMA = Struct(tuple(Field(name, Primitive("long")) for name in ("id", "a", "b")))
TARGET, SOURCE = Side("t", (), SCHEMA.names), Side("s", (), ("id", "a", "v"))
ALL = {"id": "s.id", "a": "s.a", "b": "s.v"}


def needed(*clauses: Clause, on: str = "t.id = s.id") -> frozenset[str] | None:
    plan = RowPlan("MERGE", "db.t", SCHEMA, TARGET, SOURCE, analyse(on, TARGET, SOURCE), clauses, SourceRows.UNMATCHED, everything, ())
    return needed_columns(plan)


def matched(effect: Effect, condition: str | None = None, keeps_fields: bool = False, **values: str) -> Clause:
    return Clause(Match.MATCHED, effect, condition, values, keeps_fields)


def test_a_deletion_or_a_whole_new_row_needs_the_keys_alone() -> None:
    insert = Clause(Match.NOT_MATCHED, Effect.INSERT, "s.v > 0", ALL)
    assert needed(matched(Effect.DELETE), insert) == {"id"}
    assert needed(matched(Effect.UPDATE, "s.v = 1", **ALL), insert) == {"id"}


def test_what_conditions_and_values_look_at_and_what_stays_as_it_is_is_needed() -> None:
    assert needed(matched(Effect.DELETE, "t.b > s.v")) == {"id", "b"}
    assert needed(matched(Effect.UPDATE, **{**ALL, "b": "t.a + 1"})) == {"id", "a"}
    assert needed(matched(Effect.UPDATE, a="s.a")) == {"id", "b"}
    assert needed(matched(Effect.UPDATE, keeps_fields=True, **ALL)) == {"id", "a", "b"}
    assert needed(matched(Effect.DELETE), on="t.id = s.id and b <> s.v") == {"id", "b"}


@pytest.mark.parametrize(
    "text", ["a = 1", "t.c = 1", "t.b in (select 1)", "exists (select 1)", "rand() > t.b", "input_file_name() = '' or t.b = 1", "t.b +"]
)
def test_what_cannot_be_told_is_none(text: str) -> None:
    """Two columns of one name, none, subqueries, functions that look at anything, text that is none."""
    assert needed(matched(Effect.DELETE, text)) is None
    assert needed(matched(Effect.UPDATE, **{**ALL, "b": text})) is None
