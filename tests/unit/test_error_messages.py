"""Names that error messages suggest."""

from __future__ import annotations

import pytest

from rowmerge.errors import TableNotFound


@pytest.mark.parametrize(
    ("tables", "suggestion"),
    [
        (["orders", "order", "ordered", "orders_1", "x"], "Did you mean `order` or `orders` or `ordered`?"),
        (["a", "b", "c", "d"], "There are: `a`, `b`, `c` and others."),
        (["a", "b", "c"], "There are: `a`, `b`, `c`."),
        ([], "Check the name with SHOW TABLES."),
    ],
)
def test_the_error_for_a_missing_table_names_at_most_three_tables(tables: list[str], suggestion: str) -> None:
    assert str(TableNotFound("order", tables)) == f"There is no table or view order. {suggestion}"
