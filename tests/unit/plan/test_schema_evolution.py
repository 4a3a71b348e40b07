"""The schema of a table after a statement with schema evolution."""

from __future__ import annotations

import pytest

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Assignment, DeleteAction, InsertAction, Match, UpdateAction, When
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.plan.schema_evolution import (
    added_or_changed_columns,
    merge_schemas,
    schema_after_insert,
    schema_after_merge,
    with_missing_fields,
)
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Primitive, Struct

INT, LONG, STRING, VOID = Primitive("integer"), Primitive("long"), Primitive("string"), Primitive("void")


def struct(**types: DataType) -> Struct:
    return Struct(tuple(Field(name, type_) for name, type_ in types.items()))


def update(*columns: str) -> When:
    assignments = tuple(Assignment(tuple(column.split(".")), SqlText("0")) for column in columns)
    return When(Match.MATCHED, UpdateAction(assignments or None))


def insert(*columns: str) -> When:
    assignments = tuple(Assignment((column,), SqlText("0")) for column in columns)
    return When(Match.NOT_MATCHED, InsertAction(assignments or None))


TABLE = struct(k=INT, v=INT)


@pytest.mark.parametrize(
    ("clauses", "added"),
    [
        ([update()], ["e", "f"]),
        ([insert()], ["e", "f"]),
        ([update("v"), insert()], ["e", "f"]),
        ([update("e")], ["e"]),
        ([insert("k", "f")], ["f"]),
        ([update("f"), insert("k", "e")], ["e", "f"]),
        ([update("v"), insert("k")], []),
        ([When(Match.MATCHED, DeleteAction())], []),
        ([When(Match.NOT_MATCHED_BY_SOURCE, UpdateAction((Assignment(("e",), SqlText("0")),)))], []),
    ],
)
def test_a_merge_adds_the_assigned_columns_in_source_order(clauses: list[When], added: list[str]) -> None:
    new_schema = schema_after_merge(TABLE, struct(k=INT, e=STRING, f=STRING), clauses)
    assert new_schema.names == ("k", "v", *added)


def test_a_schema_without_new_columns_equals_the_old_schema() -> None:
    table = Struct((Field("k", INT, False, {"comment": "key"}), Field("s", struct(a=INT))))
    assert schema_after_merge(table, struct(K=LONG, S=struct(A=STRING)), [update(), insert()]) == table


def test_an_assigned_field_adds_only_that_field() -> None:
    table = struct(k=INT, s=struct(a=INT))
    source = struct(k=INT, s=struct(a=INT, b=INT, c=struct(d=INT, e=INT)))
    assert schema_after_merge(table, source, [update("s.b")]) == struct(k=INT, s=struct(a=INT, b=INT))
    assert schema_after_merge(table, source, [update("s.c.e")]) == struct(k=INT, s=struct(a=INT, c=struct(e=INT)))
    assert schema_after_merge(table, source, [update("s.a")]) == table


def test_an_assigned_struct_adds_all_fields_of_the_source() -> None:
    source = struct(s=struct(a=INT, b=INT), other=INT)
    assert schema_after_merge(struct(s=struct(a=INT)), source, [update("s")]) == struct(s=struct(a=INT, b=INT))


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        (struct(a=INT), struct(b=INT, a=INT), struct(a=INT, b=INT)),
        (Array(struct(a=INT)), Array(struct(b=INT)), Array(struct(a=INT, b=INT))),
        (Map(STRING, struct(a=INT)), Map(STRING, struct(b=INT)), Map(STRING, struct(a=INT, b=INT))),
        (Map(struct(a=INT), INT), Map(struct(b=INT), INT), Map(struct(a=INT, b=INT), INT)),
        (Array(Array(struct(a=INT))), Array(Array(struct(b=INT))), Array(Array(struct(a=INT, b=INT)))),
        (struct(a=Array(struct(b=INT))), struct(a=Array(struct(c=INT))), struct(a=Array(struct(b=INT, c=INT)))),
        (Map(STRING, Array(struct(a=INT))), Map(STRING, Array(struct(b=INT))), Map(STRING, Array(struct(a=INT, b=INT)))),
        (INT, LONG, INT),
        (struct(a=INT), INT, struct(a=INT)),
        (INT, struct(a=INT), INT),
        (Array(INT), Map(STRING, INT), Array(INT)),
    ],
)
def test_nested_types_are_merged(old: DataType, new: DataType, after: DataType) -> None:
    assert merge_schemas(struct(x=old), struct(x=new)) == struct(x=after)


def test_new_columns_are_nullable_at_every_depth_without_metadata() -> None:
    inner = Struct((Field("a", INT, nullable=False),))
    new = Field(
        "x", Struct((Field("list", Array(inner, False), False), Field("map", Map(STRING, inner, False), False))), False, {"comment": "c"}
    )
    (field,) = merge_schemas(Struct(), Struct((new,)))
    assert field == Field("x", struct(list=Array(struct(a=INT)), map=Map(STRING, struct(a=INT))))
    assert field.metadata == {}


def test_existing_columns_keep_nullability_and_metadata() -> None:
    old = Field("x", Array(Struct((Field("a", INT, False),)), False), False, {"comment": "c"})
    (field,) = merge_schemas(Struct((old,)), struct(x=Array(struct(a=INT, b=INT))))
    assert field == Field("x", Array(Struct((Field("a", INT, False), Field("b", INT))), False), False, {"comment": "c"})


def test_names_match_in_any_case_and_keep_the_spelling_of_the_table() -> None:
    assert merge_schemas(struct(Key=INT, s=struct(Aa=INT)), struct(KEY=INT, S=struct(aA=INT, B=INT))) == struct(
        Key=INT, s=struct(Aa=INT, B=INT)
    )


def test_a_duplicate_source_column_is_reported() -> None:
    with pytest.raises(PlanError, match="`e` 2 times"):
        merge_schemas(TABLE, struct(e=INT, E=INT))
    with pytest.raises(PlanError, match=r"`s`\.`a` 2 times"):
        merge_schemas(struct(s=struct(b=INT)), struct(s=struct(a=INT, A=INT)))


@pytest.mark.parametrize("type_", [VOID, Primitive("variant"), struct(a=VOID), Array(VOID), Map(STRING, struct(a=VOID))])
def test_a_new_column_of_an_unsupported_type_is_rejected_by_name(type_: DataType) -> None:
    with pytest.raises(TypeMismatch, match=r"`s`.`x`.*Cast"):
        merge_schemas(struct(s=struct(a=INT)), struct(s=struct(x=type_)))
    assert merge_schemas(struct(x=INT), struct(x=VOID)) == struct(x=INT)


def test_a_type_is_widened_if_the_table_allows_it() -> None:
    def can_widen(old: DataType, new: DataType) -> bool:
        return (old, new) == (INT, LONG)

    table, source = struct(a=INT, b=Array(struct(c=INT)), d=STRING), struct(a=LONG, b=Array(struct(c=LONG)), d=LONG)
    assert merge_schemas(table, source, can_widen) == struct(a=LONG, b=Array(struct(c=LONG)), d=STRING)


def test_an_insert_by_name_adds_missing_columns() -> None:
    assert schema_after_insert(TABLE, struct(n=STRING, V=INT), None, (), by_name=True) == struct(k=INT, v=INT, n=STRING)


def test_an_insert_by_position_adds_columns_after_the_last_one() -> None:
    assert schema_after_insert(TABLE, struct(x=INT, y=INT, n=STRING), None, (), by_name=False) == struct(k=INT, v=INT, n=STRING)
    assert schema_after_insert(TABLE, struct(y=INT, n=STRING), None, ("K",), by_name=False) == struct(k=INT, v=INT, n=STRING)
    with pytest.raises(PlanError, match="`K` is after"):
        schema_after_insert(TABLE, struct(x=INT, y=INT, K=STRING), None, (), by_name=False)


def test_an_insert_by_position_matches_structs_by_the_tables_columns() -> None:
    table, query = struct(s=struct(a=INT)), struct(q=struct(b=INT))
    assert schema_after_insert(table, query, None, (), by_name=False) == struct(s=struct(a=INT, b=INT))
    assert schema_after_insert(table, query, ("s",), (), by_name=False) == struct(s=struct(a=INT, b=INT))


def test_the_planner_reports_wrong_widths_and_unknown_columns() -> None:
    assert schema_after_insert(TABLE, struct(x=INT), None, (), by_name=False) == TABLE
    assert schema_after_insert(TABLE, struct(x=INT, y=INT), ("k",), (), by_name=False) == TABLE
    assert schema_after_insert(TABLE, struct(x=INT), ("nope",), (), by_name=False) == TABLE


def test_missing_struct_fields_of_a_value_become_null() -> None:
    target_type = Array(Struct((Field("a", INT), Field("b", struct(c=INT, d=INT), nullable=False))))
    assert with_missing_fields(Array(struct(b=struct(d=LONG))), target_type) == Array(struct(b=struct(d=LONG, c=INT), a=INT))
    assert with_missing_fields(Map(struct(a=INT), INT), Map(struct(b=INT), LONG)) == Map(struct(a=INT, b=INT), INT)
    assert with_missing_fields(INT, target_type) == INT


def test_new_fields_are_reported_with_path_and_type() -> None:
    old_schema, new_schema = struct(k=INT, s=struct(a=INT)), struct(k=LONG, s=struct(a=INT, b=Array(INT)), e=STRING)
    assert added_or_changed_columns(old_schema, new_schema) == ["`k` bigint", "`s`.`b` array<int>", "`e` string"]
    assert added_or_changed_columns(new_schema, new_schema) == []
