"""Convert the frames of other libraries to Spark DataFrames by way of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def spark_frame(value: Any, spark: Any) -> Any:
    """Return the value of a Python model as a Spark DataFrame; None if the value is not a frame.

    Frames are DataFrames of Spark (classic and Connect), pandas and pandas-on-Spark, Polars DataFrames and LazyFrames, Arrow tables,
    batches and readers, and objects with an Arrow stream, such as DuckDB's relations.
    """
    if hasattr(value, "createOrReplaceTempView") and hasattr(value, "schema"):
        return value
    if hasattr(value, "to_spark"):
        return value.to_spark()
    library = type(value).__module__.partition(".")[0]
    if library == "pandas" and hasattr(value, "columns"):
        return spark.createDataFrame(value)
    is_lazy = library == "polars" and hasattr(value, "collect")
    table = _arrow_table(value.collect() if is_lazy else value)
    if table is None:
        return None
    return spark.createDataFrame(table.cast(pa.schema([field.with_type(_spark_type(field.type)) for field in table.schema])))


def _arrow_table(value: Any) -> pa.Table | None:
    """Return an object of Arrow, or one with an Arrow stream, as a table; None for another object."""
    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if isinstance(value, pa.RecordBatchReader):
        return value.read_all()
    return pa.RecordBatchReader.from_stream(value).read_all() if hasattr(value, "__arrow_c_stream__") else None


def _spark_type(type_: pa.DataType) -> pa.DataType:
    """Return a type that Spark supports: of a dictionary the type of its values, strings for views, and wider signed integers."""
    if pa.types.is_dictionary(type_):
        return _spark_type(type_.value_type)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_spark_type(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_spark_type(type_.key_type), _spark_type(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_) or pa.types.is_list_view(type_):
        return pa.list_(type_.value_field.with_type(_spark_type(type_.value_type)))
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_date64(type_):
        return pa.date32()
    return _WIDER_TYPES.get(type_, type_)


_WIDER_TYPES = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}
