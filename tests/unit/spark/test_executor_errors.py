"""Errors of executors name the host, the path and the reason in their first line, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge import errors
from rowmerge.parquet.data_files import UnwritableFile
from rowmerge.spark.failures import executor_error

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 7) "
    "(10.0.0.5 executor 3): "
)
CASES: dict[str, tuple[str, type[errors.RowmergeError], list[str]]] = {
    "killed": (
        f"{LOST}ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: Command exited with code 137\nDriver",
        errors.SparkFailed,
        ["executor 3 on 10.0.0.5", "code 137", "spark.executor.memory"],
    ),
    "crash of Python": (
        f"{LOST}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        errors.SparkFailed,
        ["10.0.0.5", "crashed"],
    ),
    "no Python": (
        f'{LOST}java.io.IOException: Cannot run program "python3.9": error=2, No such file or directory',
        errors.ConfigurationError,
        ["python3.9", "10.0.0.5", "spark.pyspark.python"],
    ),
    "versions": (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.12, PySpark cannot run",
        errors.ConfigurationError,
        ["Python 3.9", "Python 3.12"],
    ),
    "no PyArrow": (
        f"{LOST}PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow >= 15.0.0 must be installed; however, it was not found.",
        errors.ConfigurationError,
        ["PyArrow >= 15.0.0", "none is installed", "pip install 'pyspark[sql]'"],
    ),
    "old PyArrow": (
        f"{LOST}[UNSUPPORTED_PACKAGE_VERSION] PyArrow >= 15.0.0 must be installed; however, your version is 11.0.0.",
        errors.ConfigurationError,
        ["11.0.0 is installed", "10.0.0.5"],
    ),
    "full disk": (
        f"{LOST}java.io.IOException: No space left on device",
        errors.StorageError,
        ["10.0.0.5", "no space is left", "spark.local.dir"],
    ),
    "no store": (
        f"{LOST}x: Caused by: java.net.ConnectException: Connection refused",
        errors.StorageError,
        ["10.0.0.5", "refused", "storage_options"],
    ),
    "a store that denies": (
        f"{LOST}x: java.nio.file.AccessDeniedException: x: open s3a://lake/t/a.parquet at 0 on s3a://lake/t/a.parquet: "
        "software.amazon.awssdk.services.s3.model.S3Exception: Forbidden (Service: S3, Status Code: 403, Request ID: null):null\n",
        errors.StorageError,
        ["s3a://lake/t/a.parquet: open failed: Forbidden", "s3:GetObject", "bucket lake"],
    ),
    "a store that denies listings": (
        f"{LOST}x: java.nio.file.AccessDeniedException: s3://lake/t/a.parquet: listObjects() on s3://lake/t/a.parquet: "
        "software.amazon.awssdk.services.s3.model.S3Exception: Denied (Service: S3, Status Code: 403, Request ID: null)\n",
        errors.StorageError,
        ["s3://lake/t/a.parquet: listObjects failed: Denied", "s3:ListBucket", "bucket lake"],
    ),
    "a store that limits requests": (
        f"{LOST}x: org.apache.hadoop.fs.s3a.AWSServiceThrottledException: getFileStatus on s3://lake/t/a.parquet: "
        "software.amazon.awssdk.services.s3.model.S3Exception: Slow (Service: S3, Status Code: 503, Request ID: 5):null: Slow\n",
        errors.StorageError,
        ["s3://lake/t/a.parquet: getFileStatus failed: Slow (Service: S3, Status Code: 503, Request ID: 5). The store limits"],
    ),
    "not shared": (
        f"Traceback\nUnwritableFile: {UnwritableFile('w1', 'file:///lake/t', None)}\n",
        errors.StorageError,
        ["w1", "file:///lake/t", "network file system"],
    ),
    "no permission": (
        f"{LOST}x: {UnwritableFile('w1', 'file:///lake/t', '[Errno 13] Permission denied')}\n",
        errors.StorageError,
        ["w1", "file:///lake/t", "Permission denied", "Let the user of the executors write there"],
    ),
    "full disk of files": (
        f"{LOST}x: {UnwritableFile('w1', 'file:///lake/t', '[Errno 28] No space left on device')}\n",
        errors.StorageError,
        ["w1", "Free space on this disk"],
    ),
    "lost rows": (
        f"{LOST}SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_7_0 not found!",
        errors.SparkFailed,
        ["were lost with rows of the source"],
    ),
    "lost input of other tasks": (
        f"{LOST}SparkException: A shuffle map stage with indeterminate output was failed and retried. However, Spark cannot rollback",
        errors.SparkFailed,
        ["were lost with rows of the source"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_line_names_the_cause_and_the_remedy(case: str, tmp_path: Path) -> None:
    message, expected_class, parts = CASES[case]
    error = executor_error(message)
    assert type(error) is expected_class
    first_line = str(error).splitlines()[0]
    assert all(part in first_line for part in parts), first_line


def test_a_missing_file_is_no_failure_of_the_store() -> None:
    exception = "software.amazon.awssdk.services.s3.model.NoSuchKeyException: x (Service: S3, Status Code: 404, Request ID: 5)"
    assert executor_error(f"{LOST}x: java.io.FileNotFoundException: open on s3a://lake/t/a.parquet: {exception}\n") is None


def test_other_messages_have_no_such_cause() -> None:
    assert executor_error("[DIVIDE_BY_ZERO] Division by zero.") is None
