"""Rows that callers of the Python API pass, as DataFrames of Spark. Arrow transfers local rows, so no value passes through Python alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from rowmerge.errors import ConfigurationError, TypeMismatch
from rowmerge.spark.types import frame_of, with_nullable_fields

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    from pyspark.sql import SparkSession

    Rows: TypeAlias = DataFrame | pa.Table | pa.RecordBatch | pa.RecordBatchReader | pd.DataFrame | pl.DataFrame
    """The rows that callers pass. Other objects with the method `__arrow_c_stream__` are accepted, too."""

_CONVERTED: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (lambda type_: pa.types.is_large_string(type_) or pa.types.is_string_view(type_), pa.string()),
    (lambda type_: pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_), pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_uint8, pa.int16()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int64()),
    (pa.types.is_uint64, pa.decimal128(20)),
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_date64, pa.date32()),
)
"""Types of Arrow that Spark lacks, each with the type of Spark that has all of their values."""
_REJECTED = (pa.types.is_time, pa.types.is_duration, pa.types.is_interval, pa.types.is_union)


def is_column(value: object) -> bool:
    """Return whether a value is a column expression of PySpark."""
    return isinstance(value, Column)


def rows_frame(spark: SparkSession, rows: Rows) -> DataFrame:
    """Return rows as a DataFrame. Local rows have one partition, because they fit into this process.

    Args:
        spark: The session of the DataFrame.
        rows: A DataFrame of Spark, pandas or Polars, or a table, batch or reader of Arrow. A reader is read to its end.

    Raises:
        ConfigurationError: The value has another type.
        TypeMismatch: The rows have a column that Arrow or Spark cannot represent.
    """
    if isinstance(rows, DataFrame):
        return rows
    table = _arrow_table(rows)
    schema = pa.schema([field.with_type(_spark_type(field.type, field.name)) for field in table.schema])
    try:
        table = pa.Table.from_arrays(list(map(_decoded, table.columns)), table.column_names).cast(schema)
    except pa.ArrowException as error:
        raise TypeMismatch(f"The rows have a value that Spark cannot represent ({error}). Cast the column before the call.") from error
    return frame_of(spark, table).coalesce(1)


def _arrow_table(rows: Any) -> pa.Table:
    """Return local rows as an Arrow table, without the index of pandas."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns"):
        try:
            return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TypeMismatch(f"Arrow cannot represent the pandas DataFrame ({error}). Convert its columns to one type each.") from error
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    problem = f"{type(rows).__name__} is not a type of rows"
    raise ConfigurationError(f"{problem}. Pass a DataFrame of Spark, pandas or Polars, or a table, batch or reader of Arrow.")


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a dictionary-encoded column, or another column unchanged. Arrow cannot cast dictionaries of views."""
    if not pa.types.is_dictionary(column.type):
        return column
    type_ = _spark_type(column.type.value_type, "")
    return pa.chunked_array([chunk.dictionary.cast(type_).take(chunk.indices) for chunk in column.chunks], type_)


def _spark_type(type_: pa.DataType, column: str) -> pa.DataType:
    """Return the type of Spark, as a type of Arrow, that has all values of a type. Raise TypeMismatch if there is none."""
    for is_type, spark_type in _CONVERTED:
        if is_type(type_):
            return spark_type
    if any(is_type(type_) for is_type in _REJECTED):
        raise TypeMismatch(f"The column `{column}` has the type {type_}, which Spark lacks. Cast it to a number, string or timestamp.")
    if pa.types.is_dictionary(type_):
        return _spark_type(type_.value_type, column)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_spark_type(field.type, f"{column}.{field.name}")) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_spark_type(type_.key_type, column), _spark_type(type_.item_type, column))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(_spark_type(type_.value_type, column)))
    return type_


def arrow_rows(frame: DataFrame) -> pa.Table:
    """Return the rows of a DataFrame as an Arrow table."""
    return with_nullable_fields(frame).toArrow()
