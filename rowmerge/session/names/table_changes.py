"""The arguments of `table_changes(name, start [, end])`: constants, which Spark evaluates."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from rowmerge.catalog.names import format_of_path
from rowmerge.commands.names import SqlText, TableName
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.spark.spark_session import evaluate_timestamp_millis
from rowmerge.spark.types import schema_of
from rowmerge.sql import parse_table_name
from rowmerge.table.metadata.schema import Primitive, sql_name, string_literal
from rowmerge.table.snapshots.change_feed import Bound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_USAGE = "Write table_changes('schema.table', start) or table_changes('schema.table', start, end), with versions or times."
_INTEGER_TYPES = ("byte", "short", "integer", "long")
_TIME_TYPES = ("string", "timestamp", "timestamp_ntz", "date")


def parse_change_range(spark: SparkSession, arguments: tuple[SqlText, ...]) -> tuple[TableName, Bound, Bound | None]:
    """Evaluate the constant arguments of `table_changes(…)`.

    Args:
        spark: The Spark session that evaluates the arguments.
        arguments: The SQL expressions of the table's name, the start and, if it is given, the end.

    Returns:
        The name of the table, and the first and the last version or time, both inclusive. The last is None for the newest version.

    Raises:
        PlanError: The number of arguments is wrong, or a version is NULL or negative.
        TypeMismatch: An argument has the wrong type.
        Unparsable: The first argument is not a table name.
    """
    if not 2 <= len(arguments) <= 3:
        raise PlanError(f"table_changes takes two or three arguments, not {len(arguments)}. {_USAGE}")
    name, start, *end = (argument.text for argument in arguments)
    table, first = _evaluate_table_name(spark, name), _evaluate_bound(spark, start, "start")
    return table, first, _evaluate_bound(spark, end[0], "end") if end else None


def sql_constant(value: int | str | datetime) -> str:
    """Return a Python value as a SQL constant."""
    if isinstance(value, int):
        return str(value)
    return string_literal(value.isoformat() if isinstance(value, datetime) else value)


def _evaluate_table_name(spark: SparkSession, text: str) -> TableName:
    """Return the table name in a constant string expression. Raise PlanError for a name without quotes, TypeMismatch for other types."""
    if re.fullmatch(r"[\w.`]+", text):
        raise PlanError(f"table_changes takes the table's name as a string: table_changes('{text}', …). {_USAGE}")
    value = spark.sql(f"select {text} as name").collect()[0]["name"]
    if not isinstance(value, str):
        raise TypeMismatch(f"The first argument of table_changes is {text}, which is not the name of a table. {_USAGE}")
    # `table_changes_by_path` gets the path of a folder.
    return TableName(("path", value)) if format_of_path("path", value) else parse_table_name(value)


def _evaluate_bound(spark: SparkSession, expression: str, argument: str) -> Bound:
    """Return the version or the time in a constant expression. `argument`: `start` or `end`, for messages.

    Raise PlanError if the version is NULL or negative, and TypeMismatch if the expression is neither a version nor a time.
    """
    if expression.isdecimal():
        return Bound(version=int(expression))
    frame = spark.sql(f"select {expression} as at")
    (column,) = schema_of(frame)
    type_name = column.type.name if isinstance(column.type, Primitive) else ""
    if type_name in _TIME_TYPES:
        return Bound(timestamp=evaluate_timestamp_millis(spark, expression))
    if type_name not in _INTEGER_TYPES:
        problem = f"The {argument} of table_changes is {expression}, of type {sql_name(column.type)}: neither a version nor a time."
        raise TypeMismatch(f"{problem} {_USAGE}")
    ((version,),) = frame.collect()
    if version is None or version < 0:
        value = "NULL" if version is None else version
        raise PlanError(f"The {argument} of table_changes is {value}, which is not a version. {_USAGE}")
    return Bound(version=version)
