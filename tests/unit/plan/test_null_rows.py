"""Conditions that are not true for the row of NULLs that an outer join adds."""

from __future__ import annotations

import pytest

from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import rejects_null_row
from rowmerge.table.metadata.schema import Field, Primitive, Struct

SCHEMA = Struct((Field("k", Primitive("integer")), Field("v", Primitive("string")), Field("s", Struct((Field("a", Primitive("long")),)))))
SIDE = Side("r", (("r",),), SCHEMA.names)


@pytest.mark.parametrize(
    "condition",
    [
        "r.k = 5",
        "r.k <> 5",
        "NOT r.k = 5",
        "r.k < 5 OR r.v = 'a'",
        "r.k IS NOT NULL",
        "NOT r.k IS NULL",
        "r.k IN (1, 2)",
        "r.k NOT IN (1, 2)",
        "r.k BETWEEN 1 AND 2",
        "r.v LIKE 'a%'",
        "r.v NOT LIKE '%a'",
        "r.k <=> 1",
        "r.k IS NULL AND r.v = 'a'",
        "FALSE",
        "NULL",
        "1 = 2",
    ],
)
def test_a_condition_that_needs_a_value_rejects_a_row_of_nulls(condition: str) -> None:
    assert rejects_null_row(condition, SIDE, SCHEMA)


@pytest.mark.parametrize(
    "condition",
    [
        "r.k IS NULL",
        "coalesce(r.k, 1) = 1",
        "NOT (r.k <=> 1)",
        "r.k <=> NULL",
        "r.k IS DISTINCT FROM 1",
        "r.k = 5 OR r.v IS NULL",
        "NOT (r.k = 5 AND r.v IS NOT NULL)",
        "r.s IS NULL",
        "f(r.k) = 1",
        "r.k = other.k",
        "r.missing = 1",
        "TRUE",
        "1 = 1",
        "case when r.k = 1 then false else true end",
        "r.k =",
    ],
)
def test_a_condition_that_may_be_true_for_nulls_keeps_the_row(condition: str) -> None:
    assert not rejects_null_row(condition, SIDE, SCHEMA)


def test_names_that_differ_in_case_are_other_columns_only_if_names_are_case_sensitive() -> None:
    assert rejects_null_row("r.K = 5", SIDE, SCHEMA)
    assert not rejects_null_row("r.K = 5", SIDE, SCHEMA, case_sensitive=True)
