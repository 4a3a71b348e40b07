"""Convert schemas between Spark, Arrow and rowmerge, small Arrow tables to DataFrames, and column definitions to fields."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from rowmerge.commands.definitions import ColumnDefinition
from rowmerge.errors import PlanError, TypeMismatch, UnsupportedStatement
from rowmerge.plan.lengths import TextLength, lengths
from rowmerge.table.metadata.rules import DEFAULT, GENERATED
from rowmerge.table.metadata.schema import (
    CHAR_VARCHAR,
    DEEPEST_TYPE,
    Field,
    Primitive,
    Struct,
    arrow_schema,
    arrow_type,
    backquote,
    bare,
    nesting,
    outermost_structs,
    schema_from_json,
    sql_name,
    to_json,
)

_TOO_DEEP = f"is nested more than {DEEPEST_TYPE} levels deep, which no table can store. Divide it into columns, or store it as JSON."
_PLAN_ROWS_SETTING, _MAX_PLAN_BYTES = "spark.sql.execution.arrow.localRelationThreshold", 1024 * 1024
"""The setting of Spark for the size of Arrow tables in plans (default: 48 MB), and the size from which frames are faster without them."""
_setting_lock = threading.Lock()
"""The lock of the thread that changes this setting for its frame."""
_COLLATIONS = "__COLLATIONS"
"""The metadata key for the collations of strings in Spark's JSON form of a field."""
_BYTES_OF_TYPES = dict.fromkeys(("long", "double", "timestamp", "timestamp_ntz"), 8) | dict.fromkeys(("integer", "float", "date"), 4)
_BYTES_OF_TYPES |= {"short": 2, "byte": 1, "boolean": 1}


def schema_of(frame: DataFrame) -> Struct:
    """Return the columns of a DataFrame.

    Raises:
        TypeMismatch: A column has a type that no table can store (an interval, or a type that is nested too deeply).
    """
    try:
        return Struct(tuple(map(_from_spark, frame.schema.fields)))
    except RecursionError:
        raise TypeMismatch(f"A column has a type that {_TOO_DEEP}") from None


def _from_spark(spark_field: StructField) -> Field:
    """Convert a Spark field to a Field, through its JSON form. Raises TypeMismatch for a type that no table can store."""
    try:
        (field,) = schema_from_json({"fields": [spark_field.jsonValue()]})
    except ValueError as error:
        problem = f"The column `{spark_field.name}` has the type {spark_field.dataType.simpleString()}, which no table can store ({error})"
        raise TypeMismatch(f"{problem}. Cast it to a type that tables can store, or omit it.") from error
    if nesting(field.type) > DEEPEST_TYPE:
        raise TypeMismatch(f"The column `{field.name}` has a type that {_TOO_DEEP}")
    return field


def check_collations(schema: Struct, path_prefix: str = "") -> None:
    """Check that no string in a schema has a collation, at any depth. Tables do not store collations, so comparisons would change.

    Args:
        schema: The columns, or the fields of a struct.
        path_prefix: The path of the struct with a trailing dot, for the error message; empty for top-level columns.

    Raises:
        TypeMismatch: A string has a collation.
    """
    for field in schema:
        path = f"{path_prefix}{field.name}"
        if collations := field.metadata.get(_COLLATIONS):  # by path of the string, such as {"c": "icu.UNICODE"}
            _, _, name = str(next(iter(collations.values()))).rpartition(".")
            problem = f"The column `{path}` is a string with the collation {name}, which no table can store"
            raise TypeMismatch(f"{problem}. Remove COLLATE from its type, and use it where values are compared.")
        for struct in outermost_structs(field.type):
            check_collations(struct, f"{path}.")


def has_collation(schema: Struct) -> bool:
    """Return whether any string column has a collation. Arrow does not support collations."""
    return any(_COLLATIONS in field.metadata for field in schema)


def check_storable(schema: Struct) -> None:
    """Check that a table can store the types of all columns, at any depth.

    Raises:
        TypeMismatch: A column has a type that no table can store, such as void, variant or a string with a collation.
    """
    check_collations(schema)
    for field in schema:
        try:
            arrow_type(field.type)
        except ValueError as error:
            advice = "Cast NULL to the intended type" if "void" in str(error) else "Cast it to a type that tables can store"
            problem = f"The column `{field.name}` has the type {sql_name(field.type)}, which no table can store ({error})"
            raise TypeMismatch(f"{problem}. {advice}.") from error


def estimated_row_bytes(schema: Struct) -> int:
    """Return Spark's estimate of the size of a row in bytes: the width of fixed-width types, a constant for strings and nested types."""
    sizes = (_BYTES_OF_TYPES.get(field.type.name, 24) if isinstance(field.type, Primitive) else 48 for field in schema)
    return 8 + sum(sizes)


def to_spark(schema: Struct, kept_metadata: Collection[str] = ()) -> StructType:
    """Return the schema as Spark's StructType. Queries must not see metadata of the table's format, so the result has none by default.

    Args:
        schema: The columns.
        kept_metadata: The keys of field metadata that stay. Spark's Parquet reader finds fields by FIELD_ID, and fills missing columns with
            the value of INITIAL.
    """
    return StructType.fromJson(to_json(bare(schema, kept_metadata)))


def frame_of(spark: SparkSession, rows: pa.Table, schema: Struct | None = None) -> DataFrame:
    """Return a small Arrow table as a DataFrame.

    Args:
        spark: The session of the DataFrame. Its driver keeps the rows in memory.
        rows: The Arrow table.
        schema: The columns of the result; None for the types that PySpark infers from Arrow.
    """
    rows = without_empty_batches(rows)
    if rows.nbytes > _MAX_PLAN_BYTES:
        rows = rows.combine_chunks()  # each chunk would be a task
    if schema is not None and not len(rows):  # PySpark cannot convert a nested column without chunks
        rows = pa.Table.from_batches([pa.RecordBatch.from_pylist([], rows.schema)])
    if schema is not None or len(rows):
        with _outside_of_plans(spark, rows):
            return spark.createDataFrame(rows) if schema is None else spark.createDataFrame(rows, schema=to_spark(schema))
    # Spark Connect infers no types from an empty table.
    nulls = pa.table({field.name: pa.nulls(1, field.type) for field in rows.schema})
    return spark.createDataFrame(nulls).where("false")


def without_empty_batches(rows: pa.Table) -> pa.Table:
    """Return the same rows without empty batches. `SparkSession.createDataFrame` of Spark 4 drops the rows behind an empty batch."""
    batches = rows.to_batches()
    filled_batches = [batch for batch in batches if batch.num_rows]
    return rows if len(filled_batches) == len(batches) else pa.Table.from_batches(filled_batches, rows.schema)


@contextmanager
def _outside_of_plans(spark: SparkSession, rows: pa.Table) -> Iterator[None]:
    """Let Spark keep many rows outside of plans, whose optimization would read all of them several times, while a frame is created.

    Spark decides by a setting of the session. Until the block ends, other threads can have it, too: their frames have the same rows.
    """
    is_connect = not hasattr(spark, "sparkContext")  # a server has its own settings
    if rows.nbytes <= _MAX_PLAN_BYTES or is_connect:
        yield
        return
    with _setting_lock:
        if spark.conf.get(_PLAN_ROWS_SETTING, None) is not None:  # the choice of the user
            yield
            return
        spark.conf.set(_PLAN_ROWS_SETTING, str(_MAX_PLAN_BYTES))
        try:
            yield
        finally:
            if spark.conf.get(_PLAN_ROWS_SETTING, None) == str(_MAX_PLAN_BYTES):
                spark.conf.unset(_PLAN_ROWS_SETTING)


def arrow_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return a small Arrow table as a DataFrame with the names, types and nullability of a Spark schema. Names can be repeated.

    Args:
        spark: The session of the DataFrame. Its driver keeps the rows in memory.
        rows: The Arrow table, whose columns have the same order and have unique names.
        schema: The schema of the result.
    """
    unique = StructType([StructField(name, field.dataType, field.nullable) for name, field in zip(rows.column_names, schema, strict=True)])
    return spark.createDataFrame(without_empty_batches(rows), schema=unique).toDF(*schema.names)


def with_nullable_fields(frame: DataFrame) -> DataFrame:
    """Return the same rows in a schema whose nested fields, array elements and map values are nullable.

    PySpark's `toArrow` fails for a NULL in a column of type struct whose fields are not nullable.
    """
    counts = Counter(name.lower() for name in frame.columns)
    changed = [field for field in frame.schema if _nullable(field.dataType) != field.dataType and counts[field.name.lower()] == 1]
    columns = {field.name: F.col(backquote(field.name)).cast(_nullable(field.dataType)) for field in changed}
    return frame.withColumns(columns) if columns else frame


def _nullable(type_: DataType) -> DataType:
    match type_:
        case StructType():
            return StructType([StructField(field.name, _nullable(field.dataType), True, field.metadata) for field in type_])
        case ArrayType():
            return ArrayType(_nullable(type_.elementType))
        case MapType():
            return MapType(_nullable(type_.keyType), _nullable(type_.valueType))
    return type_


def empty_frame(spark: SparkSession, schema: Struct) -> DataFrame:
    """Return an empty DataFrame with these columns.

    Args:
        spark: The session of the DataFrame.
        schema: The columns.
    """
    return frame_of(spark, arrow_schema(schema).empty_table(), schema)


def parse_columns(spark: SparkSession, columns: Sequence[ColumnDefinition]) -> Struct:
    """Return the fields for column definitions, in their order. As in Spark, their metadata contains generation expressions and defaults.

    Args:
        spark: The session that parses the types.
        columns: The definitions of the columns.

    Raises:
        PlanError: A name is repeated, or a generated column has a default.
        UnsupportedStatement: A column is an identity column.
        TypeMismatch: A column has a type that no table can store. Spark's ParseException for an unknown type passes through.
    """
    _check_definitions(columns)
    if not columns:
        return Struct()
    # The analysis of a query with a NULL of each type parses the types.
    nulls = ", ".join(f"cast(null as {_type_sql(column)}) as {backquote(column.name)}" for column in columns)
    schema = schema_of(spark.sql(f"select {nulls}"))
    check_collations(schema)
    pairs = zip(schema, columns, strict=True)
    return Struct(tuple(replace(field, nullable=column.nullable, metadata=_column_metadata(column)) for field, column in pairs))


def _type_sql(column: ColumnDefinition) -> str:
    """Return the type of a column as Spark stores it: `string` for char(n) and varchar(n), whose length is only in the metadata."""
    return "string" if isinstance(lengths(column.type.text), TextLength) else column.type.text


def _column_metadata(column: ColumnDefinition) -> dict[str, Any]:
    """Return the metadata of a column under Spark's keys: the declared length of a string, comment, generation expression and default."""
    limit = lengths(column.type.text)
    declared = str(limit) if isinstance(limit, TextLength) else column.type.text
    entries = {
        CHAR_VARCHAR: None if limit is None else declared,
        "comment": column.comment,
        GENERATED: None if column.generated is None else column.generated.text,
        DEFAULT: None if column.default is None else column.default.text,
    }
    return {key: value for key, value in entries.items() if value is not None}


def _check_definitions(columns: Sequence[ColumnDefinition]) -> None:
    """Raise UnsupportedStatement for an identity column, and PlanError for a repeated name or a generated column with a default."""
    counts = Counter(column.path.lower() for column in columns)
    for column in columns:
        if counts[column.path.lower()] > 1:
            raise PlanError(f"The column `{column.path}` is defined twice. Define it once.")
        if column.identity:
            problem = f"The column `{column.name}` is GENERATED AS IDENTITY, which is not supported"
            raise UnsupportedStatement(f"{problem}. Generate keys in the query with row_number() or uuid()", text=column.type.text)
        if column.generated is not None and column.default is not None:
            raise PlanError(f"The column `{column.name}` is both GENERATED and has a DEFAULT. Remove one of the two.")
