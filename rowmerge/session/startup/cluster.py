"""Check a cluster before the first statement: its master, and the Python of its executors.

Without these checks, Spark waits without an end for executors, and errors of their Python appear as Java stack traces.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import threading
import uuid
from importlib import metadata

from pyspark import cloudpickle
from pyspark.sql import SparkSession, functions as F

from rowmerge.errors import ConfigurationError, RowmergeError
from rowmerge.spark.failures import executor_error, packages_missing
from rowmerge.spark.spark_session import is_local_mode, setting
from rowmerge.storage.retries import parse_duration

logger = logging.getLogger(__name__)

EXECUTOR_TIMEOUT = "spark.rowmerge.executors.timeout"
"""The setting for the time after which a cluster without a free executor is an error, in seconds or with a unit."""
_DEFAULT_TIMEOUT = "300"
_MASTER_SECONDS = 15
_WARN_SECONDS = 15.0
_OLDEST = {"pyarrow": "15.0", "numpy": "1.22", "pandas": "2.0"}
"""The oldest versions of the packages with which PySpark 4.0 runs Arrow functions."""

_checked_applications: set[str] = set()

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def check_master_answers(master: str) -> None:
    """Check that a standalone master accepts connections. Spark itself would try for minutes, and then end.

    Args:
        master: The address, such as `spark://host:7077` or `spark://one:7077,two:7077`. Other addresses are not checked.

    Raises:
        ConfigurationError: None of the hosts answers.
    """
    if not master.startswith("spark://"):
        return
    problems = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_MASTER_SECONDS):
                return
        except (OSError, ValueError) as error:
            problems.append(f"{address} ({error})")
    advice = "Check spark.master, that the master runs, and that this host reaches it."
    raise ConfigurationError(f"No Spark master answers at {', '.join(problems)}. {advice}")


def check_executors(spark: SparkSession) -> None:
    """Run a small Python function on executors, unless Spark runs in this process alone. It is run once for each application.

    The function needs no packages. So it can report those that are missing.

    Args:
        spark: The session whose executors will run tasks.

    Raises:
        ConfigurationError: No executor accepts a task, or the Python of the executors cannot run the engine.
    """
    application = setting(spark, "spark.app.id", "")
    if is_local_mode(spark) or application in _checked_applications:
        return
    for environment in map(json.loads, _run_probe(spark)):
        for package, oldest in _OLDEST.items():
            version = environment["packages"].get(package)
            if version is None or _numbers(version) < _numbers(oldest):
                problem = f"{package} {oldest} or newer is required, but {version or 'none'} is installed"
                raise packages_missing(f" {environment['host']} ({environment['python']})", problem)
    _checked_applications.add(application)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _run_probe(spark: SparkSession) -> list[str]:
    """Return the environments of executors as JSON. Warn while no executor is free, and raise ConfigurationError after the timeout."""
    timeout = parse_duration(EXECUTOR_TIMEOUT, setting(spark, EXECUTOR_TIMEOUT, _DEFAULT_TIMEOUT)).total_seconds()
    waited, tag = 0.0, f"rowmerge-{uuid.uuid4()}"
    results: list[list[str]] = []
    problems: list[Exception] = []
    end = threading.Event()

    def run() -> None:
        try:
            spark.addTag(tag)
            rows = spark.range(1).select(F.udf(_environment, "string", useArrow=False)("id")).collect()
            results.append([row[0] for row in rows])
        except Exception as error:  # noqa: BLE001 - the caller raises it in its own thread
            problems.append(error)
        finally:
            end.set()

    threading.Thread(target=run, daemon=True, name="rowmerge-probe").start()
    while not end.wait(min(_WARN_SECONDS, timeout - waited)):
        waited += _WARN_SECONDS
        problem = f"No executor has accepted a task for {min(waited, timeout):g} seconds"
        advice = "Check that workers run and reach this host, and that they have the cores and the memory that the profile requests"
        if waited >= timeout:
            spark.interruptTag(tag)
            raise ConfigurationError(f"{problem}. {advice} (spark.executor.cores, spark.executor.memory). {EXECUTOR_TIMEOUT} is the limit.")
        logger.warning("%s. %s.", problem, advice)
    if problems:
        raise _probe_error(problems[0]) from problems[0]
    return results[0]


def _probe_error(error: Exception) -> RowmergeError:
    reason = str(error).strip().splitlines()[0]
    advice = "Check the Python of the workers (spark.pyspark.python) and their logs."
    return executor_error(str(error)) or ConfigurationError(f"The executors cannot run Python: {reason} {advice}")


def _environment(number: int) -> str:
    """Return the host, the Python and the packages of an executor."""
    versions = {}
    for package in _OLDEST:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return json.dumps({"host": socket.gethostname(), "python": sys.executable, "packages": versions})
