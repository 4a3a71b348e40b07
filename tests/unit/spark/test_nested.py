"""The SQL that converts nested values to the type of their column."""

from __future__ import annotations

from rowmerge.spark.values.nested import SqlValue, reshape_value
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Primitive, Struct, sql_name

INT, LONG = Primitive("integer"), Primitive("long")


def struct(**types: DataType) -> Struct:
    return Struct(tuple(Field(name, type_) for name, type_ in types.items()))


def cast(text: str, source_type: DataType, target_type: DataType) -> str:
    return f"cast({text} as {sql_name(target_type)})"


def test_a_value_of_the_column_type_is_unchanged() -> None:
    for type_ in (INT, struct(a=INT), Array(struct(a=INT)), Map(INT, struct(a=INT))):
        assert reshape_value(SqlValue("x", type_), type_, cast) == "x"
    assert reshape_value(SqlValue("x", struct(A=INT)), struct(a=INT), cast) == "x"
    assert reshape_value(SqlValue("x", Array(INT, False)), Array(INT, True), cast) == "x"


def test_fields_match_by_name_and_missing_fields_are_null() -> None:
    assert reshape_value(SqlValue("x", struct(b=INT, a=INT)), struct(a=LONG, b=INT, c=INT), cast) == (
        "if(x is null, null, named_struct('a', cast((x).`a` as bigint), 'b', (x).`b`, 'c', cast(null as int)))"
    )


def test_fields_in_arrays_and_maps_match_by_name() -> None:
    inner = "if({0} is null, null, named_struct('a', cast(null as int), 'b', ({0}).`b`))"
    source_type, target_type = struct(b=INT), struct(a=INT, b=INT)
    item = inner.format("__rowmerge_item_0")
    assert reshape_value(SqlValue("x", Array(source_type)), Array(target_type), cast) == f"transform(x, __rowmerge_item_0 -> {item})"
    variables = "(__rowmerge_key_0, __rowmerge_value_0)"
    value = inner.format("__rowmerge_value_0")
    assert (
        reshape_value(SqlValue("x", Map(INT, source_type)), Map(INT, target_type), cast) == f"transform_values(x, {variables} -> {value})"
    )
    key = inner.format("__rowmerge_key_0")
    assert reshape_value(SqlValue("x", Map(source_type, INT)), Map(target_type, INT), cast) == f"transform_keys(x, {variables} -> {key})"


def test_lambda_variables_of_nested_arrays_are_unique() -> None:
    text = reshape_value(SqlValue("x", Array(Array(INT))), Array(Array(LONG)), cast)
    assert text == "transform(x, __rowmerge_item_0 -> transform(__rowmerge_item_0, __rowmerge_item_1 -> cast(__rowmerge_item_1 as bigint)))"


def test_missing_fields_keep_the_old_value() -> None:
    target_type = struct(a=INT, b=struct(c=INT, d=INT), n=INT)
    old = SqlValue("t", struct(a=INT, b=struct(c=INT, d=INT)))
    assert reshape_value(SqlValue("s", struct(b=struct(d=INT), n=INT)), target_type, cast, old_value=old) == (
        "if(s is null and t is null, null, named_struct('a', (t).`a`, 'b', "
        "if((s).`b` is null and (t).`b` is null, null, named_struct('c', ((t).`b`).`c`, 'd', ((s).`b`).`d`)), 'n', (s).`n`))"
    )


def test_a_complete_value_replaces_all_fields() -> None:
    both = struct(a=INT, n=INT)
    old = SqlValue("t", struct(a=INT))
    assert reshape_value(SqlValue("s", both), both, cast, old_value=old) == "s"
    assert reshape_value(SqlValue("s", struct(n=INT, a=INT)), both, cast, old_value=old) == (
        "if(s is null, null, named_struct('a', (s).`a`, 'n', (s).`n`))"
    )
