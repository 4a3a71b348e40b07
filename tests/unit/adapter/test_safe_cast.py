"""The SQL of values in fixtures of unit tests."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("field", "type_", "sql"),
    [
        ("1", "int", "try_cast(1 as int)"),
        (r"'it\'s'", "string", r"try_cast('it\'s' as string)"),
        ("'array(1, 2)'", "array<int>", "try_cast(array(1, 2) as array<int>)"),
        (r"'map(\'k\', \'it\\\'s\')'", "map<string,string>", r"try_cast(map('k', 'it\'s') as map<string,string>)"),
        ("null", "struct<a:int>", "try_cast(null as struct<a:int>)"),
        ("some_column", "array<int>", "try_cast(some_column as array<int>)"),
    ],
)
def test_fixture_values_are_cast_to_their_column_types(render, field, type_, sql):
    assert render("safe_cast", field=field, type=type_) == sql


@pytest.mark.parametrize(("text", "sql"), [("it's", r"it\'s"), (r"a\b", r"a\\b"), ("plain", "plain")])
def test_quoted_strings_keep_their_value(render, text, sql):
    assert render("escape_single_quotes", expression=text) == sql
