"""Register functions of the warehouse as temporary functions of a Spark session, under unique names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from inspect import signature
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as spark_functions
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

from rowmerge.commands.functions import FunctionDefinition, Parameter
from rowmerge.errors import PlanError
from rowmerge.parquet.transforms import transformed
from rowmerge.spark.spark_session import require_spark
from rowmerge.table.metadata.schema import backquote

BUILT_IN = frozenset(name.lower() for name in dir(spark_functions))
"""The names of most built-in Spark functions, as PySpark lists them."""

_VALUE = Parameter("value", "")
_TRANSFORMS = {
    "bucket": FunctionDefinition((Parameter("numBuckets", "int"), _VALUE), "int", "", "python"),
    "years": FunctionDefinition((_VALUE,), "int", "", "python"),
    "months": FunctionDefinition((_VALUE,), "int", "", "python"),
    "days": FunctionDefinition((_VALUE,), "date", "", "python"),
    "hours": FunctionDefinition((_VALUE,), "int", "", "python"),
}
"""The functions of the schema `system` of Iceberg's catalogs that apply a transform. A parameter without a type takes any type."""


def system_function(name: str) -> FunctionDefinition | None:
    """Return the definition of a function `system.<name>` of Iceberg's Spark catalogs, or None if there is none of this name.

    Raises:
        PlanError: The function is `truncate`, whose result has the type of its argument.
    """
    if name.lower() == "truncate":
        raise PlanError("system.truncate is not supported. Write substring(value, 1, width) or value - pmod(value, width).")
    if name.lower() == "iceberg_version":
        return FunctionDefinition((), "string", f"'pyiceberg {version('pyiceberg')}'")
    return _TRANSFORMS.get(name.lower())


def register_transform(spark: SparkSession, name: str, transform: str) -> str:
    """Register a partition transform of Iceberg as a temporary function, and return its quoted name.

    The function computes the values that the engine writes into partitions, which are those of the Iceberg specification.

    Args:
        spark: The session that gets the function.
        name: The name of the temporary function, without backquotes.
        transform: `bucket`, `years`, `months`, `days` or `hours`.

    Raises:
        SparkTooOld: Spark is older than 4.1, which passes no Arrow arrays to functions.
    """
    require_spark(spark, "4.1", f"The function system.{transform}", "Compute the value with functions of Spark.")
    unit = transform.removesuffix("s")

    def bucket(counts: pa.Array, values: pa.Array) -> pa.Array:
        return transformed(values, f"bucket[{counts[0].as_py()}]") if len(values) else pa.array([], pa.int32())

    def time_unit(values: pa.Array) -> pa.Array:
        result = transformed(values, unit)
        return result.cast(pa.date32()) if unit == "day" else result

    function = bucket if transform == "bucket" else time_unit
    arrow_udf: Any = spark_functions.arrow_udf  # type: ignore[attr-defined]  # PySpark does not list it for type checkers
    spark.udf.register(name, arrow_udf(function, _TRANSFORMS[transform].returns))
    return backquote(name)


def is_known(spark: SparkSession, name: str) -> bool:
    """Return whether a name refers to a built-in Spark function or to a temporary function of the session.

    Args:
        spark: The Spark session.
        name: The name of the function, without backquotes.
    """
    return bool(spark.catalog.functionExists(name))


def register_sql(spark: SparkSession, name: str, definition: FunctionDefinition, expression: str) -> None:
    """Register a SQL function as a temporary function.

    Args:
        spark: The session that gets the function.
        name: The name of the temporary function, without backquotes.
        definition: The parameters and the result type.
        expression: The SQL of the body, in which the names of tables and functions are resolved.
    """
    parameters = ", ".join(f"{backquote(p.name)} {p.type}" for p in definition.parameters)
    spark.sql(f"create or replace temporary function {backquote(name)}({parameters}) returns {definition.returns} return {expression}")


def register_python(spark: SparkSession, name: str, display_name: str, definition: FunctionDefinition) -> None:
    """Register a Python function as a temporary function.

    Args:
        spark: The session that gets the function.
        name: The name of the temporary function, without backquotes.
        display_name: The name of the function in messages.
        definition: The parameters, the result type and the body.

    Raises:
        PlanError: The body raises an error, or does not define the handler.
        SparkTooOld: The function is an aggregate, and Spark is older than 4.1.
        PySparkException: The result type is unknown.
    """
    if definition.aggregate:
        advice = "Write it in SQL, or pass collect_list(…) to a scalar Python function."
        require_spark(spark, "4.1", f"The Python aggregate {display_name}", advice)
    handler = handler_of(display_name, definition)
    # The analysis of a query with a NULL of the type parses the type. No job runs.
    return_type = spark.sql(f"select cast(null as {definition.returns})").schema.fields[0].dataType
    function: Any = _aggregate(handler, return_type) if definition.aggregate else spark_functions.udf(handler, return_type, useArrow=True)
    is_nondeterministic = not definition.aggregate and definition.deterministic is False
    spark.udf.register(name, function.asNondeterministic() if is_nondeterministic else function)


def unregister(spark: SparkSession, name: str) -> None:
    """Remove a temporary function from the session, if it exists.

    Args:
        spark: The Spark session.
        name: The name of the function, without backquotes.
    """
    spark.sql(f"drop temporary function if exists {backquote(name)}")


def handler_of(display_name: str, definition: FunctionDefinition) -> Any:
    """Run the body of a Python function, and return the handler that the body defines.

    Args:
        display_name: The name of the function in messages.
        definition: The parameters, the body, and the name of the handler in the body.

    Returns:
        A function, or a class with the methods `accumulate` and `finish` for an aggregate.

    Raises:
        PlanError: The body raises an error or does not define the handler, or the handler does not accept the function's arguments.
    """
    handler: Any = _run_body(display_name, definition).get(definition.handler or "")
    if not callable(handler):
        problem = f"The body of the function {display_name} does not define its handler {definition.handler}"
        raise PlanError(f"{problem}. Define it, or name another handler.")
    if definition.aggregate:
        _check_aggregate_class(display_name, definition, handler)
    _check_arguments(display_name, definition, handler)
    return handler


def _check_aggregate_class(display_name: str, definition: FunctionDefinition, handler: Any) -> None:
    """Raise PlanError unless the handler of an aggregate is a class with the methods `accumulate` and `finish`."""
    missing_methods = [name for name in ("accumulate", "finish") if not callable(getattr(handler, name, None))]
    if missing_methods or not isinstance(handler, type):
        problem = f"lacks the method {missing_methods[0]}" if missing_methods else "is not a class"
        raise PlanError(f"The handler {definition.handler} of {display_name} {problem}. Write a class with accumulate and finish.")


def _run_body(display_name: str, definition: FunctionDefinition) -> dict[str, Any]:
    """Run the body of a Python function, and return the objects that the body defines, by name."""
    # No module of this name can be imported, so cloudpickle sends functions and classes of the body to Spark's workers by value.
    module: dict[str, Any] = {"__name__": "__rowmerge_function__"}
    try:
        exec(compile(definition.body, f"<function {display_name}>", "exec"), module)
    except Exception as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise PlanError(f"The body of the function {display_name} raised {type(error).__name__}{line}: {error}. Correct it.") from error
    return module


def _check_arguments(display_name: str, definition: FunctionDefinition, handler: Any) -> None:
    """Raise PlanError unless the handler, or its method `accumulate`, accepts as many arguments as the function has parameters."""
    function, arguments = (handler.accumulate, (None, *definition.parameters)) if definition.aggregate else (handler, definition.parameters)
    try:
        signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        problem = f"The handler {definition.handler} of {display_name} does not accept {len(definition.parameters)} arguments ({error})"
        raise PlanError(f"{problem}. Change the handler or the parameters of the function.") from error


def _aggregate(handler: Any, returns: DataType) -> Any:
    """Return a Spark function for an aggregate. It creates an instance of the class `handler` for each group of rows."""

    # Spark recognizes an aggregate by these types of its arguments and its result.
    def aggregate(*columns: pa.Array) -> Any:
        state = handler()
        for values in zip(*(column.to_pylist() for column in columns), strict=True):
            state.accumulate(*values)
        return state.finish()

    return spark_functions.arrow_udf(aggregate, returns)  # type: ignore[attr-defined]  # PySpark does not list it for type checkers


def analyse(spark: SparkSession, query: str) -> None:
    """Let Spark analyse a query without running it. Spark's analysis errors pass through.

    Args:
        spark: The session that analyses the query.
        query: The SQL of the query.
    """
    spark.sql(query).schema  # noqa: B018  Spark Connect analyses a query only when its schema is read


@contextmanager
def translate_body_errors(display_name: str) -> Iterator[None]:
    """Translate the error that Spark raises in a `with` block if the body of a scalar SQL function contains an aggregate.

    Raises:
        PlanError: Spark raised this error. The message recommends CREATE AGGREGATE FUNCTION. Other errors pass through.
    """
    try:
        yield
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition.startswith(("INVALID_WHERE_CONDITION", "USER_DEFINED_FUNCTIONS.CANNOT_CONTAIN_COMPLEX_FUNCTIONS")):
            raise PlanError(f"The body of the function {display_name} aggregates rows. Use CREATE AGGREGATE FUNCTION.") from error
        raise
