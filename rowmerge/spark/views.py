"""Register Spark's temporary views, and evaluate time expressions."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from rowmerge.errors import TypeMismatch
from rowmerge.table.metadata.schema import backquote


def register(frame: DataFrame, name: str) -> None:
    """Register a DataFrame as a temporary view under an unquoted name."""
    frame.createOrReplaceTempView(backquote(name))


def unregister(spark: SparkSession, name: str) -> bool:
    """Drop a temporary view. Returns whether it existed."""
    return bool(spark.catalog.dropTempView(name))


def is_temporary_view(spark: SparkSession, name: str) -> bool:
    """Return whether a temporary view of this unquoted name exists."""
    try:
        return spark.catalog.tableExists(backquote(name)) and bool(spark.catalog.getTable(backquote(name)).isTemporary)
    except AnalysisException:
        return False


def milliseconds(spark: SparkSession, expression: str) -> int:
    """Return the value of a timestamp expression in milliseconds since the epoch. Raises TypeMismatch if the value is NULL."""
    value = spark.sql(f"select unix_millis(cast({expression} as timestamp)) as at").collect()[0]["at"]
    if value is None:
        raise TypeMismatch(f"The time {expression} is NULL. Give a time such as '2024-01-31 12:00:00'.")
    return int(value)
