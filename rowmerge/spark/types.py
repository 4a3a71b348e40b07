"""Schemas between Spark, Arrow and ours, and the ways from small Arrow tables to DataFrames."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rowmerge.errors import TypeMismatch
from rowmerge.table.metadata.schema import (
    DEEPEST_TYPE,
    Array,
    DataType,
    Map,
    Struct,
    arrow_schema,
    arrow_type,
    bare,
    nesting,
    schema_from_json,
    sql_name,
    to_json,
)

_TOO_DEEP = f"is nested more than {DEEPEST_TYPE} levels deep, which no table can hold. Make columns of its parts, or keep it as JSON."
_COLLATIONS = "__COLLATIONS"
"""Where Spark's JSON form of a field says that its strings have collations."""


def schema_of(frame: DataFrame) -> Struct:
    """The columns of a DataFrame as ours. Raises TypeMismatch for a type that no table holds (intervals, …)."""
    try:
        return from_spark(frame.schema)
    except RecursionError:
        raise TypeMismatch(f"A column has a type that {_TOO_DEEP}") from None


def from_spark(schema: StructType) -> Struct:
    """Spark's StructType as ours; the JSON form is the same in both."""
    fields = []
    for spark_field in schema.fields:
        try:
            fields.append(schema_from_json({"fields": [spark_field.jsonValue()]}).fields[0])
            if nesting(fields[-1].type) > DEEPEST_TYPE:
                raise TypeMismatch(f"The column `{spark_field.name}` has a type that {_TOO_DEEP}")
        except ValueError as error:
            raise TypeMismatch(
                f"The column `{spark_field.name}` has the type {spark_field.dataType.simpleString()}, which no table can hold ({error}). "
                f"Cast it to a type that can be stored, or leave it out."
            ) from error
    return Struct(tuple(fields))


def check_collations(schema: Struct, above: str = "") -> None:
    """Raises TypeMismatch for a text with a collation, at any depth: a table would hold it without, and compare it otherwise."""
    for field in schema:
        path = f"{above}{field.name}"
        if found := field.metadata.get(_COLLATIONS):
            name = str(next(iter(found.values()))).rpartition(".")[2]
            raise TypeMismatch(
                f"The column `{path}` is a string with the collation {name}, which no table can hold. Leave COLLATE out of its type, "
                f"and write it where values are compared."
            )
        for inside in _structs(field.type):
            check_collations(inside, f"{path}.")


def has_collation(schema: Struct) -> bool:
    """Whether a column of texts has a collation: Arrow does not carry it."""
    return any(_COLLATIONS in field.metadata for field in schema)


def _structs(type_: DataType) -> list[Struct]:
    """The structs that are in a type, but not in another struct."""
    match type_:
        case Struct():
            return [type_]
        case Array(element, _):
            return _structs(element)
        case Map(key, value, _):
            return _structs(key) + _structs(value)
    return []


def check_storable(schema: Struct) -> None:
    """Raises TypeMismatch for a column whose type no table can hold (void, variant, collated strings, also inside others)."""
    check_collations(schema)
    for field in schema:
        try:
            arrow_type(field.type)
        except ValueError as error:
            advice = "Cast NULL to the type that is meant" if "void" in str(error) else "Cast it to a type that can be stored"
            raise TypeMismatch(
                f"The column `{field.name}` has the type {sql_name(field.type)}, which no table can hold ({error}). {advice}."
            ) from error


def to_spark(schema: Struct, kept: Collection[str] = ()) -> StructType:
    """Our schema as Spark's; metadata (comments and formats' own keys) stays behind, so that it does not leak into queries, but for `kept`:
    Spark's Parquet reader finds fields by a FIELD_ID, and gives an INITIAL value where a file has no such column."""
    return StructType.fromJson(to_json(bare(schema, kept)))


def frame_of(spark: SparkSession, rows: pa.Table, schema: Struct | None = None) -> DataFrame:
    """A small Arrow table as a DataFrame, held by the driver."""
    return spark.createDataFrame(rows) if schema is None else spark.createDataFrame(rows, schema=to_spark(schema))


def empty_frame(spark: SparkSession, schema: Struct) -> DataFrame:
    """No rows, these columns."""
    return frame_of(spark, arrow_schema(schema).empty_table(), schema)
