"""Convert DataFrames of other libraries to Spark DataFrames through Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def spark_frame(value: Any, spark: Any) -> Any:
    """Return the result of a Python model as a Spark DataFrame, or None if its type is not supported.

    Args:
        value: The result of the model. Supported types are DataFrames of Spark (classic and Connect), pandas and pandas-on-Spark, and
            Polars DataFrames and LazyFrames. Arrow tables, batches and readers are also supported, and so are objects that export an
            Arrow stream, such as DuckDB relations.
        spark: The Spark session that creates the DataFrame.
    """
    if hasattr(value, "createOrReplaceTempView") and hasattr(value, "schema"):
        return value  # a DataFrame of Spark, classic or Connect
    if hasattr(value, "to_spark"):
        return value.to_spark()  # a DataFrame of pandas-on-Spark
    library = type(value).__module__.partition(".")[0]
    if library == "pandas" and hasattr(value, "columns"):
        return spark.createDataFrame(value)
    if library == "polars" and hasattr(value, "collect"):
        value = value.collect()  # A LazyFrame becomes a DataFrame, which exports an Arrow stream.
    table = _arrow_table(value)
    if table is None:
        return None
    # Spark rejects some Arrow types, such as unsigned integers and dictionaries.
    supported_schema = pa.schema(map(_spark_field, table.schema))
    batches = table.cast(supported_schema).to_batches()
    # `createDataFrame` of Spark 4 drops the rows behind an empty batch, which filters of Arrow produce.
    filled_batches = [batch for batch in batches if batch.num_rows] or batches
    return spark.createDataFrame(pa.Table.from_batches(filled_batches, supported_schema))


def _arrow_table(value: Any) -> pa.Table | None:
    """Return an Arrow table, batch, reader or object with an Arrow stream as an Arrow table, or None for any other object."""
    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if isinstance(value, pa.RecordBatchReader):
        return value.read_all()
    return pa.RecordBatchReader.from_stream(value).read_all() if hasattr(value, "__arrow_c_stream__") else None


def _spark_field(field: pa.Field) -> pa.Field:
    return field.with_type(_spark_type(field.type))


def _spark_type(type_: pa.DataType) -> pa.DataType:
    """Return an Arrow type that Spark supports and that can represent all values of a type. Return supported types unchanged.

    Timestamps are an exception: Spark has only microseconds. The cast then raises an error if a nanosecond timestamp would lose digits.
    """
    if pa.types.is_dictionary(type_):
        return _spark_type(type_.value_type)
    if pa.types.is_struct(type_):
        return pa.struct(map(_spark_field, type_))
    if pa.types.is_map(type_):
        return pa.map_(_spark_type(type_.key_type), _spark_type(type_.item_type))
    if any(is_list(type_) for is_list in _LIST_CHECKS):
        return pa.list_(_spark_field(type_.value_field))
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    return _WIDER_TYPES.get(type_, type_)


_LIST_CHECKS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)


_WIDER_TYPES = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}
