"""What is wrong with a merge model's configs, told before any SQL runs."""

from __future__ import annotations

import pytest

from dbt.adapters.rowmerge.merge_config import problems_with

COLUMNS = ["id", "amount"]


def test_nothing_is_wrong_with_a_plain_merge():
    assert problems_with({"unique_key": "id", "update_condition": "true", "merge_update_columns": ["amount"]}, COLUMNS) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("merge_clauses", {"when_matched": []}),
        ("merge_update_condition", "a > b"),
        ("merge_insert_condition", "a > b"),
        ("merge_update_set_expressions", {"amount": "1"}),
        ("merge_on_using_columns", ["id"]),
        ("merge_returning_columns", ["id"]),
    ],
)
def test_a_config_of_another_adapter_is_refused_and_not_passed_over(name, value):
    (problem,) = problems_with({name: value}, COLUMNS)
    assert problem.startswith(f"{name} is not supported. ")


def test_all_problems_are_told_at_once():
    problems = problems_with(
        {"merge_update_columns": ["amuont"], "not_matched_by_source_action": "drop", "merge_clauses": {"a": 1}}, COLUMNS
    )
    assert len(problems) == 3
    assert any("Did you mean amount?" in problem for problem in problems)
