"""Runs a Python model in this process, on the session that SQL models use."""

from __future__ import annotations

import traceback
from types import ModuleType
from typing import Any

import pyarrow as pa
from dbt_common.exceptions import DbtRuntimeError


def frame_of_model(compiled_code: str, name: str, session: Any) -> Any:
    """What the model's function returns, as a Spark DataFrame. `session` is the engine's; the model gets the Spark session.

    Models may return Spark, pandas-on-Spark and pandas DataFrames, and Arrow tables.
    Raises DbtRuntimeError, with the line of the model, for whatever the model raises.
    """
    module = ModuleType(name)
    source = f"<python model {name}>"
    try:
        exec(compile(compiled_code, source, "exec"), module.__dict__)
        returned = module.model(module.dbtObj(session.table), session.spark)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == source]
        place = f" in line {lines[-1]}" if lines else ""
        raise DbtRuntimeError(f"The Python model {name} raised {type(error).__name__}{place}: {error}") from error
    return _spark_frame(returned, name, session.spark)


def _spark_frame(returned: Any, name: str, spark: Any) -> Any:
    if hasattr(returned, "to_spark"):
        return returned.to_spark()
    if isinstance(returned, pa.Table):
        return spark.createDataFrame(returned)
    if type(returned).__module__.startswith("pandas.") and hasattr(returned, "columns"):
        return spark.createDataFrame(returned)
    if not (hasattr(returned, "schema") and hasattr(returned, "createOrReplaceTempView")):
        raise DbtRuntimeError(
            f"The Python model {name} returned a {type(returned).__name__}. Return a Spark or pandas DataFrame, or an Arrow table."
        )
    return returned
