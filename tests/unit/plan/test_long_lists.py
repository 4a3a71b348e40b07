"""IN lists with many members, which are taken out of a condition before it is parsed."""

from __future__ import annotations

import pytest

from rowmerge.plan.expressions.column_refs import with_replacements
from rowmerge.plan.predicates.long_lists import shorten_lists

INTEGERS = ", ".join(map(str, range(300)))
STRINGS = ",".join(f"'v{number}'" for number in range(200))


@pytest.mark.parametrize(
    ("condition", "list_count"),
    [
        (f"a in ({INTEGERS}) and b = 1", 1),
        (f"a in ({INTEGERS}) or (b NOT IN({STRINGS}) and c in (1, 2))", 2),
        (f"s = 'x in ({INTEGERS})' and a = 1", 1),
        (f"a in ({INTEGERS}, b)", 0),
        (f"a in ({INTEGERS}, 1.5)", 0),
        (f"a in ({STRINGS}, 'it''s')", 0),
        ("a in (1, 2)", 0),
    ],
)
def test_a_shortened_condition_becomes_the_same_text_again(condition: str, list_count: int) -> None:
    short_text, lists = shorten_lists(condition, list_count=7)
    assert len(lists) == list_count
    assert len(short_text) < 200 or list_count == 0
    assert with_replacements(short_text, lists) == condition


def test_lists_of_two_conditions_have_different_replacements() -> None:
    first, first_lists = shorten_lists(f"a in ({INTEGERS})")
    second, second_lists = shorten_lists(f"b in ({INTEGERS}, 7)", len(first_lists))
    assert with_replacements(f"{first} and {second}", first_lists | second_lists) == f"a in ({INTEGERS}) and b in ({INTEGERS}, 7)"


def test_a_condition_with_the_text_of_a_replacement_is_not_shortened() -> None:
    _, lists = shorten_lists(f"a in ({INTEGERS})")
    (replacement,) = lists
    condition = f"a in ({INTEGERS}) and b in ({replacement}"
    assert shorten_lists(condition) == (condition, {})
