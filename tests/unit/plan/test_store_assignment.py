"""Spark's ANSI store assignment, type by type."""

from __future__ import annotations

import pytest

from rowmerge.plan.store_assignment import is_lossless, why_not_assignable
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct

NUMERIC: list[DataType] = [
    *(Primitive(name) for name in ("byte", "short", "integer", "long", "float", "double")),
    Decimal(10, 2),
    Decimal(38, 0),
]
DATETIME: list[DataType] = [Primitive(name) for name in ("date", "timestamp", "timestamp_ntz")]
OTHER: list[DataType] = [Primitive("string"), Primitive("binary"), Primitive("boolean")]
LONG, STRING, INTEGER = Primitive("long"), Primitive("string"), Primitive("integer")


@pytest.mark.parametrize("source", [*NUMERIC, *DATETIME, *OTHER], ids=str)
@pytest.mark.parametrize("target", [*NUMERIC, *DATETIME, *OTHER], ids=str)
def test_primitive_types_are_assignable_within_their_family(source: DataType, target: DataType) -> None:
    same_family = any(source in family and target in family for family in (NUMERIC, DATETIME))
    assert (why_not_assignable(source, target) is None) == (source == target or target == STRING or same_family)


@pytest.mark.parametrize("target", [*NUMERIC, *DATETIME, *OTHER], ids=str)
def test_strings_are_assignable_to_simple_types(target: DataType) -> None:
    for source, target_type in (
        (STRING, target),
        (Array(STRING), Array(target)),
        (Struct((Field("a", STRING),)), Struct((Field("a", target),))),
    ):
        assert why_not_assignable(source, target_type, casts_strings=True) is None
    assert why_not_assignable(STRING, Array(target), casts_strings=True) is not None
    assert why_not_assignable(Primitive("boolean"), LONG, casts_strings=True) == "boolean is no bigint"


def test_null_is_assignable_to_every_type() -> None:
    for target in (LONG, Array(LONG, False), Struct((Field("a", LONG, False),))):
        assert why_not_assignable(Primitive("void"), target) is None
        assert is_lossless(Primitive("void"), target)


TWO = Struct((Field("a", LONG), Field("b", LONG)))


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (STRING, LONG, "string is no bigint"),
        (Primitive("boolean"), LONG, "boolean is no bigint"),
        (LONG, Array(LONG), "bigint is no array<bigint>"),
        (Array(LONG), STRING, "array<bigint> is no string"),
        (Array(STRING), Array(LONG), "in its elements, string is no bigint"),
        (Array(LONG, True), Array(LONG, False), "its elements may be NULL"),
        (Map(STRING, LONG, True), Map(STRING, LONG, False), "its values may be NULL"),
        (Map(STRING, LONG), Map(LONG, LONG), "in its keys, string is no bigint"),
        (Map(LONG, STRING), Map(LONG, LONG), "in its values, string is no bigint"),
        (
            Struct((Field("a", LONG),)),
            Struct((Field("a", LONG), Field("b", LONG))),
            "it has 1 field(s) instead of 2: it lacks the field `b`",
        ),
        (Struct((Field("a", LONG), Field("b", LONG))), Struct((Field("a", LONG),)), "it has the extra field `b`"),
        (Struct((Field("a", LONG),)), Struct((Field("b", LONG),)), "it lacks the field `b`"),
        (Struct((Field("a", LONG), Field("A", LONG))), Struct((Field("a", LONG),)), "it has two fields with the same name"),
        (Struct((Field("a", STRING),)), Struct((Field("a", LONG),)), "in its field `a`, string is no bigint"),
    ],
)
def test_the_reason_names_the_types_and_the_path(source: DataType, target: DataType, reason: str) -> None:
    assert why_not_assignable(source, target) == reason
    assert not is_lossless(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Array(INTEGER, False), Array(LONG, True)),
        (Map(INTEGER, INTEGER, False), Map(LONG, STRING, True)),
        (Struct((Field("a", INTEGER), Field("b", STRING, False))), Struct((Field("B", STRING), Field("A", LONG)))),
        (Array(Struct((Field("a", INTEGER),))), Array(Struct((Field("a", STRING),)))),
    ],
)
def test_nested_types_are_compared_by_element_and_fields_by_name(source: DataType, target: DataType) -> None:
    assert why_not_assignable(source, target) is None
    assert is_lossless(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (INTEGER, LONG),
        (Primitive("byte"), Primitive("float")),
        (INTEGER, Primitive("double")),
        (Primitive("float"), Primitive("double")),
        (LONG, Decimal(20, 0)),
        (INTEGER, Decimal(12, 2)),
        (Decimal(10, 2), Decimal(12, 3)),
        (Primitive("date"), Primitive("timestamp")),
        (Primitive("date"), Primitive("timestamp_ntz")),
        (Decimal(10, 2), STRING),
        (Primitive("timestamp"), STRING),
    ],
)
def test_a_wider_type_accepts_every_value(source: DataType, target: DataType) -> None:
    assert is_lossless(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (LONG, INTEGER),
        (LONG, Primitive("double")),
        (INTEGER, Primitive("float")),
        (Primitive("double"), Primitive("float")),
        (Primitive("double"), LONG),
        (LONG, Decimal(19, 0)),
        (INTEGER, Decimal(10, 2)),
        (Decimal(10, 2), Decimal(10, 1)),
        (Decimal(10, 2), Decimal(9, 2)),
        (Decimal(10, 0), LONG),
        (Primitive("timestamp"), Primitive("date")),
        (Primitive("timestamp"), Primitive("timestamp_ntz")),
        (Array(LONG), Array(INTEGER)),
        (STRING, LONG),
    ],
)
def test_casts_that_can_fail_or_lose_digits_are_recognized(source: DataType, target: DataType) -> None:
    assert not is_lossless(source, target)
