"""Functions of the warehouse made known to Spark under names of their own, for as long as its session lives."""

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
from rowmerge.spark.versions import require_spark
from rowmerge.table.metadata.schema import backquote

BUILT_IN = frozenset(name.lower() for name in dir(spark_functions))
"""Spark's own functions as PySpark lists them: all but a few."""


def is_known(spark: SparkSession, name: str) -> bool:
    """Whether a plain name is that of one of Spark's functions, or of a temporary one of its session."""
    return bool(spark.catalog.functionExists(name))


def register_sql(spark: SparkSession, name: str, definition: FunctionDefinition, expression: str) -> None:
    """Make a function in SQL known under a plain name. `expression`: its body, all tables and functions in it bound."""
    parameters = ", ".join(f"{backquote(p.name)} {p.type}" for p in definition.parameters)
    spark.sql(f"create or replace temporary function {backquote(name)}({parameters}) returns {definition.returns} return {expression}")


def register_python(spark: SparkSession, name: str, shown: str, definition: FunctionDefinition) -> None:
    """Make a function in Python known under a plain name. `shown`: its name in messages.

    Raises PlanError for a body that does not run, or has no such handler; SparkTooOld for an aggregate before Spark 4.1.
    """
    if definition.aggregate:
        advice = "Write it in SQL, or pass collect_list(…) to a scalar function in Python."
        require_spark(spark, "4.1", f"The Python aggregate {shown}", advice)
    handler = handler_of(shown, definition)
    returns = type_of(spark, definition.returns)
    if definition.aggregate:
        spark.udf.register(name, _aggregate(handler, returns))
        return
    made = spark_functions.udf(handler, returns, useArrow=True)
    spark.udf.register(name, made.asNondeterministic() if definition.deterministic is False else made)


def unregister(spark: SparkSession, name: str) -> None:
    """Forget a function."""
    spark.sql(f"drop temporary function if exists {backquote(name)}")


def type_of(spark: SparkSession, type_: str) -> DataType:
    """A type as SQL writes it. Raises what Spark raises of a type that is none."""
    return spark.sql(f"select cast(null as {type_})").schema.fields[0].dataType


def handler_of(shown: str, definition: FunctionDefinition) -> Any:
    """What the body of a function in Python calls by the handler's name. Raises PlanError."""
    # Neither is importable, so what is defined here travels to Spark's workers by value.
    module: dict[str, Any] = {"__name__": "__rowmerge_function__"}
    try:
        exec(compile(definition.body, f"<function {shown}>", "exec"), module)
    except Exception as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise PlanError(f"The body of the function {shown} raised {type(error).__name__}{line}: {error}. Mend it.") from error
    handler: Any = module.get(definition.handler or "")
    if not callable(handler):
        raise PlanError(f"The body of the function {shown} defines no {definition.handler}, its handler. Define it, or name another one.")
    _check(shown, definition, handler)
    return handler


def _check(shown: str, definition: FunctionDefinition, handler: Any) -> None:
    takes = handler
    if definition.aggregate:
        lacking = [name for name in ("accumulate", "finish") if not callable(getattr(handler, name, None))]
        if lacking or not isinstance(handler, type):
            told = f"is no class with the method {lacking[0]}" if lacking else "is no class"
            raise PlanError(f"The handler {definition.handler} of {shown} {told}. Give it accumulate(self, …) and finish(self).")
        takes = getattr(handler, "accumulate")  # noqa: B009
    try:
        signature(takes).bind(*((None,) if definition.aggregate else ()), *definition.parameters)
    except (TypeError, ValueError) as error:
        raise PlanError(
            f"The handler {definition.handler} of {shown} does not take {len(definition.parameters)} arguments ({error}). Mend either."
        ) from error


def _aggregate(handler: Any, returns: DataType) -> Any:
    """A function over whole groups, which come as Arrow columns."""

    def aggregate(*columns: pa.Array) -> Any:  # by these types Spark sees that it is an aggregate
        state = handler()
        for values in zip(*(column.to_pylist() for column in columns), strict=True):
            state.accumulate(*values)
        return state.finish()

    return spark_functions.arrow_udf(aggregate, returns)  # type: ignore[attr-defined]  # PySpark does not list it for type checkers


def analyse(spark: SparkSession, query: str) -> None:
    """Let Spark read a query, and run nothing."""
    spark.sql(query).schema  # noqa: B018  Spark Connect reads no sooner


@contextmanager
def reading_body(shown: str) -> Iterator[None]:
    """What Spark says of an aggregate in the body of a function that is none becomes a PlanError."""
    try:
        yield
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition.startswith(("INVALID_WHERE_CONDITION", "USER_DEFINED_FUNCTIONS.CANNOT_CONTAIN_COMPLEX_FUNCTIONS")):
            raise PlanError(f"The body of the function {shown} aggregates rows. Write CREATE AGGREGATE FUNCTION.") from error
        raise
