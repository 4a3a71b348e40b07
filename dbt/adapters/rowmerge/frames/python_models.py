"""Runs a Python model in this process, on the session that SQL models use."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from importlib import metadata
from types import ModuleType
from typing import Any

from dbt_common.exceptions import CompilationError, DbtRuntimeError
from packaging.requirements import InvalidRequirement, Requirement

from dbt.adapters.rowmerge.frames.arrow_frames import spark_frame


def check_python_config(config: Any) -> None:
    """Raise CompilationError for configs of a Python model that cannot be followed. `config` has dict's `get`.

    `packages` must be installed where dbt runs, in the versions that are asked for; `submission_method` is a config of other adapters.
    """
    problems = list(missing_packages(config.get("packages")))
    if (method := config.get("submission_method")) is not None:
        problems.append(f"submission_method is {method!r}, but Python models run in dbt's own process. Remove it.")
    if problems:
        raise CompilationError("The Python model cannot run:\n" + "\n".join(f"- {problem}" for problem in problems))


def frame_of_model(compiled_code: str, name: str, session: Any) -> Any:
    """What the model's function returns, as a Spark DataFrame. `session` is the engine's; the model gets the Spark session.

    Raises DbtRuntimeError, with the line of the model, for whatever the model raises, and for what is no frame.
    """
    module = ModuleType(name)
    # As in a notebook of Databricks, where models may come from.
    module.__dict__["spark"] = session.spark
    try:
        exec(compile(compiled_code, _file(name), "exec"), module.__dict__)
        returned = module.model(module.dbtObj(session.table), session.spark)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _file(name)]
        raise _of_model(error, name, compiled_code, lines[-1] if lines else None) from error
    frame = spark_frame(returned, session.spark)
    if frame is None:
        raise DbtRuntimeError(
            f"The Python model {name} returned a {type(returned).__name__}. Return a Spark, pandas or Polars DataFrame, or an Arrow table."
        )
    return frame


def line_of_model(error: BaseException) -> str:
    """Which line of which Python model a function of it has raised in, where Spark ran it; empty when none did."""
    cause: BaseException | None = error
    while cause is not None:
        if found := re.findall(r'File "<python model (.+)>", line (\d+)', str(cause)):
            name, line = found[-1]
            return f" (raised in line {line} of the Python model {name})"
        cause = cause.__cause__
    return ""


def _of_model(error: Exception, name: str, compiled_code: str, line: int | None) -> DbtRuntimeError:
    listed = compiled_code.splitlines()
    place = f" in line {line} ({listed[line - 1].strip()})" if line is not None and line <= len(listed) else ""
    message = str(error).split("\n\nJVM stacktrace:", 1)[0].rstrip()
    return DbtRuntimeError(f"The Python model {name} raised {type(error).__name__}{place}: {message}")


def _file(name: str) -> str:
    return f"<python model {name}>"


def missing_packages(packages: Any) -> Iterator[str]:
    """What is wrong with the packages, one or a list of them, that a model or a function asks for: a sentence each."""
    listed: Iterable[Any] = [packages] if isinstance(packages, str) else packages or ()
    for package in listed:
        try:
            wanted = Requirement(str(package))
            installed = metadata.version(wanted.name)
        except InvalidRequirement:
            yield f"packages: {str(package)!r} is no requirement. Write it as pip takes it, such as 'holidays>=0.50'."
        except metadata.PackageNotFoundError:
            yield f"packages: {wanted.name} is not installed where dbt runs. Install it: pip install '{wanted}'."
        else:
            if not wanted.specifier.contains(installed, prereleases=True):
                yield f"packages: {wanted.name} is installed as {installed}, and {wanted.specifier} is asked for. Install that one."
