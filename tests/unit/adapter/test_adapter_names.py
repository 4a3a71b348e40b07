"""Relations, columns and literals in SQL."""

from __future__ import annotations

import pytest

from dbt.adapters.rowmerge import RowmergeAdapter, RowmergeColumn, RowmergeRelation


def test_quoted_names_double_inner_quotes():
    relation = RowmergeRelation.create(schema="my schema", identifier="a`b")
    assert relation.render() == "`my schema`.`a``b`"
    assert RowmergeColumn("a`b", "int").quoted == "`a``b`"


def test_names_match_in_any_case():
    assert RowmergeRelation.create(schema="Main", identifier="Orders").matches(schema="main", identifier="ORDERS")
    assert not RowmergeRelation.create(schema="Main", identifier="Orders").matches(schema="main", identifier="order")


def test_a_database_is_accepted_and_not_rendered():
    assert RowmergeRelation.create(database="lake", schema="main", identifier="t").render() == "`main`.`t`"


def test_a_trailing_comment_does_not_hide_the_end_of_a_subquery(adapter, target):
    assert adapter.query_relation(target, "select 1 as a -- one;").render() == "(\nselect 1 as a -- one\n)"


def test_an_empty_relation_renders_a_subquery_without_an_alias():
    """SQL can add an alias; dbt-spark's oldest accepted release would add another one."""
    relation = RowmergeRelation.create(schema="main", identifier="t", limit=0)
    assert str(relation) == "(select * from `main`.`t` where false limit 0)"


def test_names_of_temporary_relations_are_unique(adapter, target):
    first, second = (adapter.execute_macro("make_temp_relation", kwargs={"base_relation": target}) for _ in range(2))
    assert first.render() != second.render()
    assert "." not in first.render()
    assert first.is_view


def test_a_literal_keeps_quotes_and_backslashes():
    assert RowmergeAdapter.literal("it's a \\ b") == r"'it\'s a \\ b'"


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("string", "string"),
        ("varchar(10)", "string"),
        ("bigint", "integer"),
        ("int", "integer"),
        ("double", "float"),
        ("decimal(10,2)", "numeric"),
    ],
)
def test_a_column_classifies_its_type(type_, kind):
    column = RowmergeColumn("c", type_)
    assert [name for name in ("string", "integer", "float", "numeric") if getattr(column, f"is_{name}")()] == [kind]


def test_a_varchar_column_has_its_length():
    assert RowmergeColumn("c", "varchar(10)").string_size() == 10
