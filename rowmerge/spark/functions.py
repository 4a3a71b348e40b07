"""Register functions of the warehouse in a Spark session, under names of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as spark_functions
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from rowmerge.commands.functions import FunctionDefinition
from rowmerge.errors import PlanError
from rowmerge.spark.spark_session import require_spark
from rowmerge.table.metadata.schema import backquote

BUILT_IN = frozenset(name.lower() for name in dir(spark_functions))
"""Spark's own functions as PySpark lists them: all but a few."""


def is_known(spark: SparkSession, name: str) -> bool:
    """Return whether an unquoted name is a function of Spark or a temporary function of its session."""
    return bool(spark.catalog.functionExists(name))


def register_sql(spark: SparkSession, name: str, definition: FunctionDefinition, expression: str) -> None:
    """Register a function in SQL under an unquoted name. `expression`: its body with resolved tables and functions."""
    parameters = ", ".join(f"{backquote(p.name)} {p.type}" for p in definition.parameters)
    spark.sql(f"create or replace temporary function {backquote(name)}({parameters}) returns {definition.returns} return {expression}")


def register_python(spark: SparkSession, name: str, shown: str, definition: FunctionDefinition) -> None:
    """Register a function in Python under an unquoted name. `shown`: its name in messages.

    Raises PlanError for a body that does not run or lacks the handler, and SparkTooOld for an aggregate before Spark 4.1.
    """
    if definition.aggregate:
        advice = "Write it in SQL, or pass collect_list(…) to a scalar function in Python."
        require_spark(spark, "4.1", f"The Python aggregate {shown}", advice)
    handler = handler_of(shown, definition)
    # Spark's errors for an unknown type pass through.
    returns = spark.sql(f"select cast(null as {definition.returns})").schema.fields[0].dataType
    function: Any = _aggregate(handler, returns) if definition.aggregate else spark_functions.udf(handler, returns, useArrow=True)
    is_nondeterministic = not definition.aggregate and definition.deterministic is False
    spark.udf.register(name, function.asNondeterministic() if is_nondeterministic else function)


def unregister(spark: SparkSession, name: str) -> None:
    """Remove a function from the session."""
    spark.sql(f"drop temporary function if exists {backquote(name)}")


def handler_of(shown: str, definition: FunctionDefinition) -> Any:
    """Run the body of a function in Python, and return its handler. Raises PlanError."""
    handler: Any = _run_body(shown, definition).get(definition.handler or "")
    if not callable(handler):
        raise PlanError(f"The body of the function {shown} defines no {definition.handler}, its handler. Define it, or name another one.")
    if definition.aggregate:
        _check_aggregate_class(shown, definition, handler)
    _check_arguments(shown, definition, handler)
    return handler


def _check_aggregate_class(shown: str, definition: FunctionDefinition, handler: Any) -> None:
    """Raise PlanError unless the handler of an aggregate is a class with its two methods."""
    missing_methods = [name for name in ("accumulate", "finish") if not callable(getattr(handler, name, None))]
    if missing_methods or not isinstance(handler, type):
        problem = f"is no class with the method {missing_methods[0]}" if missing_methods else "is no class"
        raise PlanError(f"The handler {definition.handler} of {shown} {problem}. Give it accumulate(self, …) and finish(self).")


def _run_body(shown: str, definition: FunctionDefinition) -> dict[str, Any]:
    """Run the body of a function in Python, and return the names that it defines."""
    # No module of this name can be imported, so functions and classes of the body travel to Spark's workers by value.
    module: dict[str, Any] = {"__name__": "__rowmerge_function__"}
    try:
        exec(compile(definition.body, f"<function {shown}>", "exec"), module)
    except Exception as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise PlanError(f"The body of the function {shown} raised {type(error).__name__}{line}: {error}. Mend it.") from error
    return module


def _check_arguments(shown: str, definition: FunctionDefinition, handler: Any) -> None:
    """Raise PlanError unless the handler, or its method `accumulate`, takes as many arguments as the function has parameters."""
    function, arguments = (handler.accumulate, (None, *definition.parameters)) if definition.aggregate else (handler, definition.parameters)
    try:
        signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise PlanError(
            f"The handler {definition.handler} of {shown} does not take {len(definition.parameters)} arguments ({error}). Mend either."
        ) from error


def _aggregate(handler: Any, returns: DataType) -> Any:
    """Return the Arrow function of an aggregate, which makes one object of the class `handler` for each group of rows."""

    def aggregate(*columns: pa.Array) -> Any:  # by these types Spark sees that it is an aggregate
        state = handler()
        for values in zip(*(column.to_pylist() for column in columns), strict=True):
            state.accumulate(*values)
        return state.finish()

    return spark_functions.arrow_udf(aggregate, returns)  # type: ignore[attr-defined]  # PySpark does not list it for type checkers


def analyse(spark: SparkSession, query: str) -> None:
    """Let Spark analyse a query without running it."""
    spark.sql(query).schema  # noqa: B018  Spark Connect analyses a query only when its schema is read


@contextmanager
def reading_body(shown: str) -> Iterator[None]:
    """Turn Spark's error for an aggregate in the body of a function that is not an aggregate into a PlanError."""
    try:
        yield
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition.startswith(("INVALID_WHERE_CONDITION", "USER_DEFINED_FUNCTIONS.CANNOT_CONTAIN_COMPLEX_FUNCTIONS")):
            raise PlanError(f"The body of the function {shown} aggregates rows. Write CREATE AGGREGATE FUNCTION.") from error
        raise
