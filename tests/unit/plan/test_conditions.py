"""Conditions are divided into keys, filters of one side, and residual conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowmerge.plan.expressions.conditions import KeyPair, divide_condition, nondeterministic_function
from rowmerge.plan.expressions.sides import Side, resolve
from rowmerge.table.metadata.schema import Array, Field, Map, Primitive, Struct

TARGET = Side("t", (("analytics", "orders"),), ("id", "amount", "day", "s", "items", "name"))
SOURCE = Side("src", (("staged",),), ("id", "amt", "day_given", "s2", "Key"))
_MAP = Map(Primitive("string"), Primitive("long"))


def test_an_on_condition_is_divided_into_keys_and_filters() -> None:
    on = divide_condition(
        "t.id = src.id and (t.day >= date '2024-01-01' and amt > 5) and name = upper(src.Key) and t.amount + src.amt > 3", TARGET, SOURCE
    )
    assert on.keys == (KeyPair("id", "=", "src.id"), KeyPair("name", "=", "upper(src.Key)"))
    assert on.target_only == ("t.day >= date '2024-01-01'",)
    assert on.source_only == ("amt > 5",)
    assert on.other == ("t.amount + src.amt > 3",)
    assert on.analysed and on.keys[0].op in ("=", "<=>")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("t.id = src.id", KeyPair("id", "=", "src.id")),
        ("t.id == src.id", KeyPair("id", "=", "src.id")),
        ("src.id <=> t.id", KeyPair("id", "<=>", "src.id")),
        ("t.id IS NOT DISTINCT FROM src.id", KeyPair("id", "<=>", "src.id")),
        ("src.amt + 1 < (t.amount)", KeyPair("amount", ">", "src.amt + 1")),
        ("t.amount >= (src.amt)", KeyPair("amount", ">=", "(src.amt)")),
        ("((T.ID <= src.ID))", KeyPair("id", "<=", "src.ID")),
        ("`t`.`id` = amt", KeyPair("id", "=", "amt")),
        ("analytics.orders.id = staged.id", KeyPair("id", "=", "`src`.id")),
        ("t.id = src.s2.inner.id", KeyPair("id", "=", "src.s2.inner.id")),
        ("t.id /* the key */ = -- ours\n src.id -- theirs", KeyPair("id", "=", "src.id")),
        ("t.name = case when src.Key = 'a' then 'b' end", KeyPair("name", "=", "case when src.Key = 'a' then 'b' end")),
        ("t.id = element_at(transform(src.s2.list, x -> x + src.amt), 1)", None),
        ("t.day = date_trunc('day', src.day_given)", KeyPair("day", "=", "date_trunc('day', src.day_given)")),
        ("t.day = src.day_given - interval 1 day", KeyPair("day", "=", "src.day_given - interval 1 day")),
        ("t.name = 'é😀' || src.Key", KeyPair("name", "=", "'é😀' || src.Key")),
    ],
)
def test_a_comparison_of_a_target_column_with_the_source_is_a_key(text: str, key: KeyPair | None) -> None:
    on = divide_condition(text, TARGET, SOURCE)
    if key is None:  # a key whose source is a longer slice of the text
        key = KeyPair("id", "=", text.removeprefix("t.id = "))
    assert on.keys == (key,)
    assert not (on.target_only or on.source_only or on.other)


STRUCT = Struct((Field("A", Primitive("long")), Field("in", Struct((Field("b", Primitive("long")),))), Field("x", _MAP), Field("X", _MAP)))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("t.s.A = src.id", ("A",)),
        ("src.id = analytics.orders.s.a", ("A",)),
        ("S.In.`B` = src.id", ("in", "b")),
        ("t.s.in.nope = src.id", None),
        ("t.s.x.a = src.id", None),  # two fields have the name
        ("t.items.a = src.id", None),  # the values of an array
        ("t.m.a = src.id", None),  # the value of a map
        ("t.s['a'] = src.id", None),
        ("t.items[0].a = src.id", None),
        ("analytics.orders.s.in.b = src.id", ("in", "b")),
    ],
)
def test_a_field_of_structs_of_the_target_is_a_key(text: str, fields: tuple[str, ...] | None) -> None:
    target = replace(TARGET, columns=("s", "items", "m"))
    schema = Struct((Field("s", STRUCT), Field("items", Array(STRUCT)), Field("m", _MAP)))
    on = divide_condition(text, target, SOURCE, target_schema=schema)
    assert on.keys == (() if fields is None else (KeyPair("s", "=", "src.id", fields),))
    assert on.keys or on.other == (text,)
    exact = divide_condition(text, target, SOURCE, target_schema=schema, case_sensitive=True)
    assert bool(exact.keys) == (text in ("t.s.A = src.id", "analytics.orders.s.in.b = src.id"))


@pytest.mark.parametrize(
    "text",
    [
        "t.s.a = src.id",  # a field of a column whose type is unknown
        "t.id + 1 = src.id",
        "t.id = src.id + t.amount",
        "t.id <> src.id",
        "NOT t.id = src.id",
        "t.id = src.id OR t.day IS NULL",
        "t.id BETWEEN src.id AND src.amt",
        "id = src.amt",  # both sides have an id
        "t.id = id",
        "t.id = src.nowhere",
        "t.id = src.id = true",
        "t.id = (SELECT max(src.id))",
        "t.id = max(src.id)",
        "t.id = sum(src.id) OVER ()",
        "t.id = src.id + rand()",
        "t.id = explode(src.s2)",
        "t.id = struct(*).id",
        "t.id = :parameter",
        "t.id IN (src.id, src.amt)",
        't.id = src.amt || "Key"',  # a name under spark.sql.ansi.doubleQuotedIdentifiers
    ],
)
def test_other_conditions_on_both_sides_stay_residual(text: str) -> None:
    on = divide_condition(text, TARGET, SOURCE)
    assert on.analysed and not on.keys and not on.target_only and not on.source_only
    assert [part.strip("()") for part in on.other] == [text.strip("()")]


@pytest.mark.parametrize(
    ("text", "target_only", "source_only"),
    [
        ("TRUE", ("TRUE",), ()),
        ("false AND amt = 1", ("false",), ("amt = 1",)),
        ("t.id = 5 OR name = 'x'", ("(t.id = 5 OR name = 'x')",), ()),
        ("(t.s.a = 1 AND (t.s.b = 2 AND src.s2.x IS NULL))", ("t.s.a = 1", "t.s.b = 2"), ("src.s2.x IS NULL",)),
        ("t.id BETWEEN 1 AND 2 AND t.amount NOT BETWEEN 3 AND 4", ("t.id BETWEEN 1 AND 2", "t.amount NOT BETWEEN 3 AND 4"), ()),
        (
            "CASE WHEN t.id = 1 AND t.amount = 2 THEN true END AND amt = 1",
            ("CASE WHEN t.id = 1 AND t.amount = 2 THEN true END",),
            ("amt = 1",),
        ),
        (
            "exists(t.items, x -> x.a = 1 AND x.b = 2) AND NOT src.amt = 1",
            ("exists(t.items, x -> x.a = 1 AND x.b = 2)",),
            ("NOT src.amt = 1",),
        ),
        ("t.day >= current_date() AND 1 = 1", ("t.day >= current_date()", "1 = 1"), ()),
        ("t.items[0].a = 1", ("t.items[0].a = 1",), ()),
    ],
)
def test_conjuncts_of_one_side_become_filters_of_that_side(text: str, target_only: tuple[str, ...], source_only: tuple[str, ...]) -> None:
    on = divide_condition(text, TARGET, SOURCE)
    assert (on.target_only, on.source_only, on.keys, on.other) == (target_only, source_only, (), ())


@pytest.mark.parametrize(
    "text", ["", "t.id =", "'open", "a b c", "t.id = 1; t.id = 2", "/* open", "((t.id = 1)", "SELECT 1 FROM", "t.id = 1 AND", "x ->"]
)
def test_an_unparsable_condition_stays_residual(text: str) -> None:
    on = divide_condition(text, TARGET, SOURCE)
    assert not on.analysed and on.other == (text,) and not on.keys


def test_without_a_source_all_columns_belong_to_the_target() -> None:
    condition = divide_condition("id = 1 AND src.id = 2", TARGET, None)
    assert condition.target_only == ("id = 1",)
    assert condition.other == ("src.id = 2",)


def test_case_matters_only_in_case_sensitive_sessions() -> None:
    assert divide_condition("T.ID = SRC.ID", TARGET, SOURCE).keys == (KeyPair("id", "=", "SRC.ID"),)
    assert divide_condition("T.ID = SRC.ID", TARGET, SOURCE, case_sensitive=True).other == ("T.ID = SRC.ID",)


def test_a_qualifier_goes_before_a_struct_of_the_same_name() -> None:
    side = Side("orders", (), ("orders", "id"))
    qualified, field = resolve(("orders", "id"), (side,)), resolve(("orders", "total"), (side,))
    assert qualified is not None and (qualified.column, qualified.qualifier_size, qualified.field_count) == ("id", 1, 0)
    assert field is not None and (field.column, field.qualifier_size, field.field_count) == ("orders", 0, 1)


def test_a_duplicate_column_belongs_to_neither_side() -> None:
    assert resolve(("x",), (Side("s", (), ("x", "X")),)) is None
    assert resolve(("X",), (Side("s", (), ("x", "X")),), case_sensitive=True) is not None


def test_a_thousand_conjuncts_are_divided() -> None:
    on = divide_condition(" AND ".join(f"t.id <> {number}" for number in range(1000)), TARGET, SOURCE)
    assert len(on.target_only) == 1000
    deep = "(" * 2000 + "t.id = src.id" + ")" * 2000
    assert divide_condition(deep, TARGET, SOURCE).text == deep


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("t.id = src.id AND RAND() > 0.5", "rand"),
        ("uuid ( ) = name", "uuid"),
        ("`shuffle`(items)[0] = 1", "shuffle"),
        ("x IN (SELECT monotonically_increasing_id() FROM y)", "monotonically_increasing_id"),
        ("t.uuid = src.uuid AND rand = 1", None),
        ("mine.rand() = 1", None),
        ("name = 'rand()' -- rand()", None),
        ("day = current_date() AND at < now() AND x = current_timestamp", None),
        ("'open", None),
    ],
)
def test_nondeterministic_functions_are_reported_by_name(text: str, function: str | None) -> None:
    assert nondeterministic_function(text) == function
