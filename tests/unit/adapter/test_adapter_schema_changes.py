"""The differences between a model's columns and its table's columns."""

from __future__ import annotations

import pytest
from dbt_common.exceptions import CompilationError
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    VarcharType,
)

from dbt.adapters.rowmerge.incremental.schema_changes import SchemaChanges, compare_columns, needed_properties


def columns(**types: DataType) -> StructType:
    schema = StructType()
    for name, type_ in types.items():
        schema = schema.add(name, type_)
    return schema


def test_columns_are_compared_without_case_and_order():
    changes = compare_columns(columns(B=StringType(), a=IntegerType()), columns(A=IntegerType(), b=StringType()))
    assert not changes


def test_new_wider_and_missing_columns_are_reported():
    changes = compare_columns(columns(a=LongType(), n=columns(x=DateType())), columns(a=IntegerType(), old=StringType()))
    assert changes == SchemaChanges(
        added=(("`n`", "struct<`x`: date>"),),
        retyped=(("`a`", "bigint"),),
        dropped=("`old`",),
    )
    assert str(changes) == "only the model has `n` struct<`x`: date>; only the table has `old`; of another type in the model: `a` bigint"


def test_fields_are_compared_at_any_depth():
    model = columns(s=columns(a=IntegerType(), b=ArrayType(columns(x=LongType(), y=MapType(StringType(), StringType())))))
    table = columns(S=columns(a=IntegerType(), b=ArrayType(columns(x=IntegerType(), z=StringType()))))
    assert compare_columns(model, table) == SchemaChanges(
        added=(("`S`.`b`.element.`y`", "map<string, string>"),),
        retyped=(("`S`.`b`.element.`x`", "bigint"),),
        dropped=("`S`.`b`.element.`z`",),
    )


@pytest.mark.parametrize(
    ("model", "table", "differs"),
    [
        (ShortType(), IntegerType(), False),
        (ByteType(), LongType(), False),
        (LongType(), IntegerType(), True),
        (VarcharType(3), StringType(), False),
        (DecimalType(8, 2), DecimalType(10, 2), False),
        (DecimalType(10, 2), DecimalType(10, 3), True),
        (DecimalType(12, 2), DecimalType(10, 2), True),
        (IntegerType(), StringType(), True),
        (DoubleType(), IntegerType(), True),
    ],
)
def test_a_type_that_fits_into_the_column_is_not_a_change(model, table, differs):
    assert bool(compare_columns(columns(a=model), columns(a=table)).retyped) is differs


BOTH = SchemaChanges(dropped=("`a`",), retyped=(("`b`", "bigint"),))


def test_a_delta_table_gets_only_the_required_properties():
    assert needed_properties(BOTH, {}, {}) == {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    assert needed_properties(SchemaChanges(dropped=("`a`",)), {"delta.columnMapping.mode": "id"}, {}) == {}
    assert needed_properties(SchemaChanges(added=(("`a`", "int"),)), {}, {}) == {}


def test_properties_that_a_model_disables_are_rejected_by_name():
    with pytest.raises(CompilationError, match="needs delta.columnMapping.mode, but the tblproperties of the model disable it"):
        needed_properties(BOTH, {}, {"delta.columnMapping.mode": "none"})
