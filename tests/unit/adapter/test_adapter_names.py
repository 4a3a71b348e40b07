"""Relations, columns and literals: what they are called in SQL."""

from __future__ import annotations

import pytest

from dbt.adapters.rowmerge import RowmergeAdapter, RowmergeColumn, RowmergeRelation


def test_names_are_quoted_with_inner_quotes_doubled():
    relation = RowmergeRelation.create(schema="my schema", identifier="a`b")
    assert relation.render() == "`my schema`.`a``b`"
    assert RowmergeColumn("a`b", "int").quoted == "`a``b`"


def test_names_match_without_regard_to_case():
    assert RowmergeRelation.create(schema="Main", identifier="Orders").matches(schema="main", identifier="ORDERS")
    assert not RowmergeRelation.create(schema="Main", identifier="Orders").matches(schema="main", identifier="order")


def test_a_database_does_no_harm_and_is_not_rendered():
    assert RowmergeRelation.create(database="lake", schema="main", identifier="t").render() == "`main`.`t`"


def test_a_query_renders_as_a_subquery_that_its_last_comment_cannot_swallow(adapter, target):
    assert adapter.query_relation(target, "select 1 as a -- one;").render() == "(\nselect 1 as a -- one\n)"


def test_no_rows_are_read_by_a_subquery_without_an_alias():
    """SQL may give it an alias of its own; dbt-spark's oldest accepted release would add another one."""
    relation = RowmergeRelation.create(schema="main", identifier="t", limit=0)
    assert str(relation) == "(select * from `main`.`t` where false limit 0)"


def test_a_temporary_relation_never_has_the_same_name_twice(adapter, target):
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
def test_a_column_knows_what_kind_its_type_is(type_, kind):
    column = RowmergeColumn("c", type_)
    assert [name for name in ("string", "integer", "float", "numeric") if getattr(column, f"is_{name}")()] == [kind]


def test_a_varchar_knows_its_length():
    assert RowmergeColumn("c", "varchar(10)").string_size() == 10
