"""Frames of other libraries as Spark DataFrames, by way of Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def spark_frame(returned: Any, spark: Any) -> Any:
    """A Spark DataFrame (classic or Connect), pandas-on-Spark or pandas DataFrame, Polars DataFrame or LazyFrame, Arrow table, batch or
    reader, or anything else with an Arrow stream (DuckDB's relations, …) as a Spark DataFrame; None for what is none of them."""
    if hasattr(returned, "createOrReplaceTempView") and hasattr(returned, "schema"):
        return returned
    if hasattr(returned, "to_spark"):
        return returned.to_spark()
    module = type(returned).__module__.partition(".")[0]
    if module == "pandas" and hasattr(returned, "columns"):
        return spark.createDataFrame(returned)
    if module == "polars" and hasattr(returned, "collect"):
        returned = returned.collect()
    if isinstance(returned, pa.RecordBatchReader):
        returned = returned.read_all()
    elif isinstance(returned, pa.RecordBatch):
        returned = pa.Table.from_batches([returned])
    elif not isinstance(returned, pa.Table) and hasattr(returned, "__arrow_c_stream__"):
        returned = pa.RecordBatchReader.from_stream(returned).read_all()
    if not isinstance(returned, pa.Table):
        return None
    return spark.createDataFrame(returned.cast(pa.schema([field.with_type(_plain(field.type)) for field in returned.schema])))


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type that Spark knows for one that it does not: dictionaries by their values, views as strings, unsigned integers wider."""
    if pa.types.is_dictionary(type_):
        return _plain(type_.value_type)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_plain(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_) or pa.types.is_list_view(type_):
        return pa.list_(type_.value_field.with_type(_plain(type_.value_type)))
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_date64(type_):
        return pa.date32()
    return _OTHERS.get(type_, type_)


_OTHERS = {
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
