"""DEFAULT in VALUES and SET lists is recognized only as a whole value."""

from __future__ import annotations

import pytest

from rowmerge.sql import find_defaults


@pytest.mark.parametrize(
    ("query", "filled"),
    [
        ("values (1, DEFAULT), (default , 'default')", "values (1, <1>), (<0> , 'default')"),
        ("VALUES default, 2, DEFAULT", "VALUES <0>, 2, <0>"),
        (
            "values (f(default, 1), t.default, `default`, default + 1, default)",
            "values (f(default, 1), t.default, `default`, default + 1, <4>)",
        ),
        ("values ((1, default), [2, 3], default) as t (a, b, c)", "values ((1, default), [2, 3], <2>) as t (a, b, c)"),
        ("select default, x.default, default as d from t where default = 1", "select <0>, x.default, <2> as d from t where default = 1"),
        ("select 1, (select default)", "select 1, (select default)"),
        ("table default", "table default"),
        ("with default as (select default) select 1 from default", "with default as (select default) select 1 from default"),
    ],
)
def test_default_is_recognized_only_as_a_whole_value(query: str, filled: str) -> None:
    assert find_defaults(query).filled(query, lambda position: f"<{position}>") == filled


def test_columns_with_default_in_every_row_are_recognized() -> None:
    defaults = find_defaults("values (default, default), (1, default)")
    assert (defaults.is_default_in_all_rows(0), defaults.is_default_in_all_rows(1)) == (False, True)
