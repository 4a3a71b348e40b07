"""Qualifiers are inserted and replaced by position; the other text stays identical."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from rowmerge.plan.expressions.conditions import divide_condition, nondeterministic_function
from rowmerge.plan.expressions.qualification import qualify, replace_qualifiers
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import exact_partition_mask, file_mask
from tests.unit.plan.random_files import PARTITION_COLUMNS, SCHEMA, SIDE

ORDERS = Side("o", (("analytics", "orders"), ("orders",)), ("id", "amount", "day", "s", "items", "odd name"))
ALL = "`o`.`id`, `o`.`amount`, `o`.`day`, `o`.`s`, `o`.`items`, `o`.`odd name`"
SOURCE = Side("src", (), ("id", "amt"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", "`o`.id"),
        ("ID + `amount`", "`o`.ID + `o`.`amount`"),
        ("o.id = O.amount", "o.id = O.amount"),
        ("analytics.orders.id = orders.amount", "`o`.id = `o`.amount"),
        ("`analytics` . `orders` . id", "`o` . id"),
        ("`odd name` = 'id'", "`o`.`odd name` = 'id'"),
        ("s.id + s.s.id + items[0].id", "`o`.s.id + `o`.s.s.id + `o`.items[0].id"),
        ("transform(items, id -> id + amount)", "transform(`o`.items, id -> id + `o`.amount)"),
        ("transform(items, (X, day) -> x + DAY + amount)", "transform(`o`.items, (X, day) -> x + DAY + `o`.amount)"),
        ("aggregate(items, 0, (id, x) -> id + x, id -> id * amount)", "aggregate(`o`.items, 0, (id, x) -> id + x, id -> id * `o`.amount)"),
        (
            "exists(items, x -> exists(x.s, y -> x.id = y.id AND id = 1))",
            "exists(`o`.items, x -> exists(x.s, y -> x.id = y.id AND `o`.id = 1))",
        ),
        ("day - interval 1 day", "`o`.day - interval 1 day"),
        ("date_add(day, 1) + datediff(day, day, current_date)", "date_add(`o`.day, 1) + datediff(day, `o`.day, current_date)"),
        ("timestampadd(DAY, 1, day)", "timestampadd(DAY, 1, `o`.day)"),
        ("extract(day FROM day) = day(day)", "extract(day FROM `o`.day) = day(`o`.day)"),
        ("named_struct('id', id).id", "named_struct('id', `o`.id).id"),
        ("struct(id AS amount).amount", "struct(`o`.id AS amount).amount"),
        ("my_function(id => amount, day => id)", "my_function(id => `o`.amount, day => `o`.id)"),
        ("cast(s AS struct<id: int, day: date>).id", "cast(`o`.s AS struct<id: int, day: date>).id"),
        ("id IN (SELECT id FROM z WHERE amount = 1)", "`o`.id IN (SELECT id FROM z WHERE amount = 1)"),
        ("EXISTS (SELECT 1 FROM z WHERE z.id = analytics.orders.id)", "EXISTS (SELECT 1 FROM z WHERE z.id = `o`.id)"),
        (
            "EXISTS (SELECT 1 FROM analytics.orders WHERE analytics.orders.id = 1)",
            "EXISTS (SELECT 1 FROM analytics.orders WHERE analytics.orders.id = 1)",
        ),
        ("struct(*)", f"struct({ALL})"),
        ("hash(analytics.orders.*, id)", f"hash({ALL}, `o`.id)"),
        ("hash(* EXCEPT (id))", "hash(`o`.* EXCEPT (id))"),
        ("id * amount", "`o`.id * `o`.amount"),
        ("id -- id\n + /* id */ id", "`o`.id -- id\n + /* id */ `o`.id"),
        ("concat('é😀', id, \"id\")", "concat('é😀', `o`.id, \"id\")"),
        ("unknown + nowhere.id", "unknown + nowhere.id"),
        ("substring(id FROM 1 FOR 2) || trim(BOTH 'x' FROM amount)", "substring(`o`.id FROM 1 FOR 2) || trim(BOTH 'x' FROM `o`.amount)"),
        ("-id", "-`o`.id"),
        ("CASE id WHEN 1 THEN amount ELSE day END", "CASE `o`.id WHEN 1 THEN `o`.amount ELSE `o`.day END"),
        ("id::string", "`o`.id::string"),
        ("id BETWEEN amount AND id", "`o`.id BETWEEN `o`.amount AND `o`.id"),
        ("id +", "id +"),
        ("'id", "'id"),
        ("", ""),
    ],
)
def test_references_get_the_alias_and_nothing_else_changes(text: str, expected: str) -> None:
    assert qualify(text, ORDERS) == expected


def test_an_alias_with_a_backquote_is_quoted() -> None:
    assert qualify("id", Side("a`b", (), ("id",))) == "`a``b`.id"


def test_case_matters_only_in_case_sensitive_sessions() -> None:
    assert qualify("ID + id", ORDERS, case_sensitive=True) == "ID + `o`.id"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("analytics.orders.id = src.id AND orders.s.id = 1", "`o`.id = src.id AND `o`.s.id = 1"),
        ("id = amt AND o.id = src.id", "id = amt AND o.id = src.id"),
        (
            "hash(analytics.orders.*) = hash(src.*)",
            f"hash({ALL}) = hash(`src`.`id`, `src`.`amt`)",
        ),
        ("struct(*)", f"struct({ALL}, `src`.`id`, `src`.`amt`)"),
        ("count(*)", "count(*)"),
        ("other.orders.id = src.id", "other.orders.id = src.id"),
        ("analytics.orders.id IN (SELECT orders.id FROM x AS orders)", "`o`.id IN (SELECT orders.id FROM x AS orders)"),
        ("analytics.orders.id = ", "analytics.orders.id = "),
    ],
)
def test_only_other_names_of_a_side_are_replaced(text: str, expected: str) -> None:
    assert replace_qualifiers(text, (ORDERS, SOURCE)) == expected


FRAGMENTS = st.sampled_from(
    [
        *"id name t s.orders.id ( ) [ ] , . * + - = <=> < AND OR NOT IN BETWEEN LIKE IS NULL CASE WHEN THEN END -> => ::".split(),
        *"'a' 1 1.5 1e400 DATE TIMESTAMP '2024-02-30' INTERVAL day CAST AS INT SELECT FROM EXISTS".split(),
        *"struct<a:int> x'zz' DECIMAL(99,99)".split(),
        *"' \" ` /* */ -- { } : ? @ \\ # $ ; % é 😀".split(),
        "\n",
        "\x00",
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.lists(FRAGMENTS, max_size=12).map(" ".join), st.lists(FRAGMENTS, max_size=8).map("".join), st.text(max_size=20)))
def test_an_empty_expression_is_an_error(text: str) -> None:
    divide_condition(text, SIDE, SOURCE)
    nondeterministic_function(text)
    qualify(text, SIDE)
    replace_qualifiers(text, (SIDE, SOURCE))
    file_mask([text], SIDE, SCHEMA, PARTITION_COLUMNS)
    exact_partition_mask([text], SIDE, SCHEMA, PARTITION_COLUMNS)


def test_unparsable_expressions_log_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    qualify("get_json_object(s, '$..[')", ORDERS)
    assert divide_condition("o.s -> ')'", ORDERS, SOURCE).text
    assert not caplog.records
