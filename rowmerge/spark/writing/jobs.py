"""Run the jobs whose tasks write data files, and check what the tasks report before anything is committed.

On a cluster, a folder on a disk may not be the same folder on each host. Tasks would then write files that nobody else has. So the driver
puts a marker into the folder of the data files, and each task reads it before it writes. Later, the driver looks for each reported file.
The name of the marker contains the UUID of the attempt. Readers of tables ignore the file, and VACUUM deletes it if a driver was killed.

Spark may run a task several times, because it failed, is slow (speculation) or ran on a lost executor. Each run writes files of its own,
and only one run reports to the driver. So the files of the attempt that nobody reports are deleted after the job.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rowmerge.concurrency import STORE_THREADS, map_in_batches
from rowmerge.errors import StorageError
from rowmerge.parquet.data_files import WriteSpec
from rowmerge.spark.executors import BatchFunction, bind_for_executors
from rowmerge.spark.failures import folder_not_shared
from rowmerge.spark.spark_session import analyses_later, is_local_mode, setting
from rowmerge.spark.writing.write_output import discard_attempt, discard_paths
from rowmerge.storage.store import local_path


class RepeatedTask(Exception):
    """Raised when Spark has repeated a task of a job whose rows must come from one evaluation of its input.

    Remedy: No action is needed. The statement evaluates its source again.
    """


def run_write_job(
    rows: DataFrame,
    task: Callable[..., BatchFunction],
    spec: WriteSpec,
    *arguments: object,
    change_spec: WriteSpec | None = None,
    reads_once: bool = False,
) -> list[dict[str, Any]]:
    """Run a job whose tasks write files, and return the message of each task. After an error, no files of the job remain.

    Args:
        rows: The input of the tasks.
        task: The function of `rowmerge.spark.writing.sink` that returns the function of a task. Its first argument is the spec.
        spec: The settings with which data files are written. `attempt` must be set.
        arguments: The other arguments of `task`.
        change_spec: The settings with which change files are written, None for a job that writes none.
        reads_once: Whether an evaluation of `rows` may differ from another one, so that no task may be repeated.

    Raises:
        RepeatedTask: Spark has repeated a task of a job that reads once.
        StorageError: An executor does not share the folder of the files with the driver.
    """
    spark = rows.sparkSession
    is_cluster = not is_local_mode(spark)
    marked_spec = put_marker(spec) if is_cluster else spec
    try:
        write_rows = bind_for_executors(task, marked_spec, *arguments)
        pickled_reports = rows.mapInArrow(write_rows, "message binary").toArrow()["message"].to_pylist()
        reports: list[dict[str, Any]] = [pickle.loads(report) for report in pickled_reports]
        if is_cluster:
            is_repeated = has_repeated_tasks(spark, reports)
            if is_repeated and reads_once:
                raise RepeatedTask
            check_files(reports)
            has_copies = is_repeated or setting(spark, "spark.speculation", "false") == "true"
            discard_unreported(reports, spec, change_spec, has_copies=has_copies)
    except BaseException:
        discard_attempt(spec, change_spec)
        raise
    finally:
        if is_cluster:
            remove_marker(spec)
    return [report["message"] for report in reports]


def put_marker(spec: WriteSpec) -> WriteSpec:
    """Put a marker into the folder of data files if the folder is on a disk. Return the spec with which tasks read it.

    Raises:
        StorageError: The driver cannot write into the folder.
    """
    folder = local_path(spec.root)
    if folder is None:
        return spec
    name = _marker_name(spec)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(spec.attempt)
    except OSError as error:
        raise StorageError(spec.root, str(error)) from error
    return replace(spec, marker=f"{spec.root}/{name}")


def remove_marker(spec: WriteSpec) -> None:
    """Delete the marker of an attempt, if there is one. A marker that cannot be deleted stays for VACUUM."""
    if local_path(spec.root) is not None:
        discard_paths([f"{spec.root}/{_marker_name(spec)}"], spec.filesystem_options)


def _marker_name(spec: WriteSpec) -> str:
    return f"rowmerge-{spec.attempt}.marker"


def check_files(reports: Iterable[Mapping[str, Any]]) -> None:
    """Look for each file on a disk that tasks report, in the size that they report. `reports`: see `rowmerge.spark.executors.report`.

    Raises:
        StorageError: The driver does not find a file, so the executor has another disk under the same path.
    """
    files = [(report["host"], file) for report in reports for file in _files(report)]
    for _ in map_in_batches(lambda host_and_file: _check_file(*host_and_file), files, STORE_THREADS):
        pass


def _check_file(host: str, file: Mapping[str, Any]) -> None:
    path = local_path(file["path"])
    try:
        if path is not None and path.stat().st_size != file["size"]:
            raise folder_not_shared(host, file["path"])
    except FileNotFoundError as error:
        raise folder_not_shared(host, file["path"]) from error


def has_repeated_tasks(spark: SparkSession, reports: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether Spark ran tasks of a job again, because they failed or because their input was lost with an executor.

    In the second case, Spark runs a new attempt of the stage, whose tasks count as first ones. Spark Connect does not tell the attempts of
    a stage.

    Args:
        spark: The session of the job.
        reports: The reports of all tasks.
    """
    if any(report["is_repeated"] for report in reports):
        return True
    if analyses_later(spark):
        return False
    tracker = spark.sparkContext.statusTracker()
    stages = (tracker.getStageInfo(stage) for stage in {report["stage"] for report in reports} - {None})
    return any(stage is not None and stage.currentAttemptId > 0 for stage in stages)


def discard_unreported(
    reports: Sequence[Mapping[str, Any]], spec: WriteSpec, change_spec: WriteSpec | None = None, *, has_copies: bool
) -> None:
    """Delete the files of an attempt that no task reports, if tasks ran several times.

    Args:
        reports: The reports of all tasks.
        spec: The settings with which data files were written.
        change_spec: The settings with which change files were written, or None.
        has_copies: Whether tasks may have run several times.
    """
    if has_copies:
        discard_attempt(spec, change_spec, reported=frozenset(file["path"] for report in reports for file in _files(report)))


def _files(report: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the files in the report of a task, as the fields of `FileMessage`."""
    message = report["message"]
    fields = message.get("task_message", message) or {}
    return chain(fields.get("files", ()), fields.get("change_rows", ()))
