"""Run Python models in the process that runs Spark, with the same Spark session as SQL models."""

from __future__ import annotations

import re
import traceback
from importlib import metadata
from types import ModuleType
from typing import Any

from dbt_common.exceptions import DbtRuntimeError
from packaging.requirements import InvalidRequirement, Requirement

from dbt.adapters.rowmerge.configs.config_values import as_list, raise_problems
from dbt.adapters.rowmerge.frames.tables import TableToWrite, write_table


def check_python_config(config: Any) -> None:
    """Raise CompilationError for packages that are not installed in dbt's environment, and for the config `submission_method`."""
    problems = package_problems(config.get("packages"))
    if (method := config.get("submission_method")) is not None:
        problems.append(f"submission_method is {method!r}, but Python models run in dbt's own process. Remove it.")
    raise_problems(problems, "The Python model cannot run:")


def write_python_model(session: Any, compiled_code: str, name: str, table: TableToWrite) -> Any:
    """Create or replace a table with the rows that a Python model returns, in one commit, and return the StatementResult.

    Args:
        session: The engine's session.
        compiled_code: The Python code of the model, as dbt compiles it.
        name: The name of the model in messages.
        table: The table.

    Raises:
        DbtRuntimeError: The model raises an error, or does not return a DataFrame.
    """
    frame = run_python_model(compiled_code, name, session)
    return write_table(session, frame, frame.columns, table)


def create_model_view(session: Any, compiled_code: str, name: str, view: str) -> None:
    """Create a temporary view of the rows that a Python model returns.

    Args:
        session: The engine's session.
        compiled_code: The Python code of the model, as dbt compiles it.
        name: The name of the model in messages.
        view: The name of the view.

    Raises:
        DbtRuntimeError: The model raises an error, does not return a DataFrame, or returns one of another Spark session.
    """
    run_python_model(compiled_code, name, session).createOrReplaceTempView(view)
    if not session.spark.catalog.tableExists(view):
        advice = "Create DataFrames with the argument `session` of the model instead of SparkSession.builder, also for pandas-on-Spark."
        raise DbtRuntimeError(f"The Python model {name} returned a DataFrame of another Spark session. {advice}")


def run_python_model(compiled_code: str, name: str, session: Any) -> Any:
    """Run a Python model, and return its result as a Spark DataFrame.

    Args:
        compiled_code: The Python code of the model, as dbt compiles it.
        name: The name of the model in messages.
        session: The engine's session, whose tables and Spark session the model uses.

    Raises:
        DbtRuntimeError: The model raises an error, or does not return a DataFrame. The message contains the line of the model.
    """
    module = ModuleType(name)
    # Databricks notebooks have this variable, and models may rely on it.
    module.__dict__["spark"] = session.spark
    try:
        exec(compile(compiled_code, _file_name(name), "exec"), module.__dict__)
        model_result = module.model(module.dbtObj(session.table), session.spark)
    except Exception as error:
        raise _model_error(error, name, compiled_code) from error
    from dbt.adapters.rowmerge.frames.arrow_frames import spark_frame  # imports PyArrow

    frame = spark_frame(model_result, session.spark)
    if frame is not None:
        return frame
    type_name = type(model_result).__name__
    raise DbtRuntimeError(f"The Python model {name} returned a {type_name}. Return a Spark, pandas or Polars DataFrame, or an Arrow table.")


def line_of_model(error: BaseException) -> str:
    """Return a description of the model's line in which a function run by Spark raised an error, or an empty string for other errors."""
    cause: BaseException | None = error
    while cause is not None:
        if frames := re.findall(r'File "<python model (.+)>", line (\d+)', str(cause)):
            name, line = frames[-1]
            return f" (raised in line {line} of the Python model {name})"
        cause = cause.__cause__
    return ""


def _model_error(error: Exception, name: str, compiled_code: str) -> DbtRuntimeError:
    """Return dbt's error for an error in a model. The message contains the number and the code of the line that raised the error."""
    lines = compiled_code.splitlines()
    stack = traceback.extract_tb(error.__traceback__)
    numbers = [frame.lineno for frame in stack if frame.filename == _file_name(name) and frame.lineno is not None]
    location = f" in line {numbers[-1]} ({lines[numbers[-1] - 1].strip()})" if numbers and numbers[-1] <= len(lines) else ""
    message = str(error).split("\n\nJVM stacktrace:", 1)[0].rstrip()
    return DbtRuntimeError(f"The Python model {name} raised {type(error).__name__}{location}: {message}")


def _file_name(name: str) -> str:
    return f"<python model {name}>"


def package_problems(packages: Any) -> list[str]:
    """Return an error message for each pip requirement that is not valid, or that is not satisfied in dbt's environment."""
    problems = map(_package_problem, as_list(packages))
    return [problem for problem in problems if problem is not None]


def _package_problem(package: str) -> str | None:
    """Return an error message for a pip requirement that is not valid or not satisfied, or None if it is satisfied."""
    try:
        requirement = Requirement(package)
    except InvalidRequirement:
        return f"packages: {package!r} is not a valid requirement. Write it as for pip, such as 'holidays>=0.50'."
    name, specifier = requirement.name, requirement.specifier
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"packages: {name} is not installed in dbt's environment. Install it: pip install '{requirement}'."
    if specifier.contains(version, prereleases=True):
        return None
    return f"packages: the installed version of {name} is {version}, but the model requires {specifier}. Install a version that fits."
