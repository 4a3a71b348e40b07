"""A small job that reports the environment of Spark's executors: their Python, their PyArrow, and whether they read a file."""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from rowmerge.parquet.filesystems import Options, filesystem_of, safe_reason
from rowmerge.spark.executors import BatchFunction, bind_for_executors

_TASKS, _TASK_SECONDS = 16, 0.2
"""The number and the duration of the tasks. While a task waits, Spark gives the next one to another executor."""


def executor_reports(spark: SparkSession, path: str, content: bytes, options: Options) -> list[tuple[str, str, str, str]]:
    """Run a small job, and return the host, the Python version, the PyArrow version and the problem of each executor.

    The problem is empty if the executor reads the expected content. Spark chooses the executors, so a large cluster is not covered fully.

    Args:
        spark: The session whose executors run the job.
        path: The absolute path of a file.
        content: The expected content of the file.
        options: The arguments of Arrow's file systems, including credentials.
    """
    report = bind_for_executors(_report, path, content, options)
    frame = spark.range(0, _TASKS, 1, _TASKS).mapInArrow(report, "host string, python string, pyarrow string, problem string")
    return sorted({(row["host"], row["python"], row["pyarrow"], row["problem"]) for row in frame.collect()})


def _report(path: str, content: bytes, options: Options) -> BatchFunction:
    """Return a function that yields one row about the process in which it runs."""

    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(_TASK_SECONDS)
        problem = ""
        try:
            filesystem, inner_path = filesystem_of(path, options)
            with filesystem.open_input_stream(inner_path) as stream:
                problem = "" if stream.read() == content else "the file has another content"
        except (OSError, ValueError, pa.ArrowException) as error:
            problem = safe_reason(str(error).split("\n", 1)[0], options)
        for _ in batches:  # Spark expects that a function reads its rows
            continue
        row = {"host": socket.gethostname(), "python": platform.python_version(), "pyarrow": pa.__version__, "problem": problem}
        yield pa.RecordBatch.from_pylist([row])

    return report
