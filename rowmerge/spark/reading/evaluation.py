"""The values of SQL expressions and of small queries that a statement needs before it runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rowmerge.plan.pruning.key_ranges import string_sql
from rowmerge.spark.types import has_collation, schema_of
from rowmerge.table.metadata.schema import DataType, Decimal, Primitive, Struct, sql_name

logger = logging.getLogger(__name__)
_EPOCH = datetime(1970, 1, 1)
_INTEGERS = frozenset({"byte", "short", "integer", "long"})


def evaluate(spark: SparkSession, expressions: Sequence[str]) -> list[str | None]:
    """Evaluate SQL expressions, and return each value as a SQL literal of the same type.

    Args:
        spark: The session, whose settings and variables the expressions use.
        expressions: Expressions without columns, or queries in parentheses that return one value.

    Returns:
        The literals. None for an expression that Spark rejects, and for a type whose values file pruning cannot use.
    """
    names = [f"value_{index}" for index in range(len(expressions))]
    try:
        return literals(spark.sql("select " + ", ".join(f"{text} as {name}" for text, name in zip(expressions, names, strict=True))))
    except PySparkException as error:
        # The statement itself has the same expression, so Spark reports the error when it runs.
        if len(expressions) > 1:
            return [literal for expression in expressions for literal in evaluate(spark, [expression])]
        logger.debug("Spark does not evaluate %s: %s", expressions[0], error)
        return [None]


def literals(frame: DataFrame) -> list[str | None]:
    """Return the values in the only row of a frame as SQL literals. None for a type whose values file pruning cannot use.

    A literal has no collation, so a string with a collation has no literal. If the frame does not have exactly one row, there are none.
    """
    names = [f"value_{index}" for index in range(len(frame.columns))]
    fields = list(schema_of(frame))
    types = [field.type for field in fields]
    rows = frame.toDF(*names).selectExpr(*(_as_text(name, type_) for name, type_ in zip(names, types, strict=True))).take(2)
    if len(rows) != 1:
        return [None] * len(names)
    (row,) = rows
    return [None if has_collation(Struct((field,))) else _literal(text, field.type) for text, field in zip(row, fields, strict=True)]


def _as_text(name: str, type_: DataType) -> str:
    """Return SQL for a value as a string. An instant becomes its number of microseconds, which no time zone changes."""
    value = f"unix_micros({name})" if type_ == Primitive("timestamp") else name
    return f"cast({value} as string) as {name}"


def _literal(text: str | None, type_: DataType) -> str | None:
    """Return the SQL literal of a value. The value of a floating-point sum can depend on the order of rows, so it has no literal."""
    if text is None:
        return f"cast(NULL as {sql_name(type_)})"
    match type_:
        case Primitive("string"):
            return string_sql(text)
        case Primitive("boolean"):
            return text
        case Primitive("date"):
            return f"DATE'{text}'"
        case Primitive("timestamp"):
            try:
                return f"TIMESTAMP'{(_EPOCH + timedelta(microseconds=int(text))).isoformat(' ', 'microseconds')}Z'"
            except OverflowError:  # a year after 9999
                return None
        case Primitive("timestamp_ntz"):
            return f"TIMESTAMP_NTZ'{text}'"
        case Decimal():
            return f"cast('{text}' as {sql_name(type_)})"
        case Primitive(name) if name in _INTEGERS:
            return f"cast('{text}' as {sql_name(type_)})"
    return None


def distinct_values(spark: SparkSession, query: str, limit: int) -> pa.Array | None:
    """Return the distinct values of a query with one column, except NULL. None if there are more than `limit` values, or if it fails.

    Args:
        spark: The session that runs the query.
        query: The SQL text of the query.
        limit: The maximum number of values.
    """
    try:
        frame = spark.sql(query)
        values = frame.where(f"`{frame.columns[0]}` is not null").distinct().limit(limit + 1).toArrow().column(0)
    except PySparkException as error:
        # The statement evaluates the same conditions, so it reports the error if the order of its joins and filters allows one.
        logger.debug("Spark does not return the keys of %s: %s", query, error)
        return None
    return values.combine_chunks() if len(values) <= limit else None
