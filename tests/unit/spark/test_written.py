"""Data files that no version references are deleted in all partitions, and a failed deletion does not fail the statement."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pyarrow as pa
import pytest

from rowmerge.parquet.data_files import WriteSpec
from rowmerge.parquet.partitions import PartitionKey
from rowmerge.spark.writing.write_output import discard, discard_attempt
from rowmerge.table.snapshots.files import AddedFile

PARTITIONS = ["x=1", "x=..%2F..%2Fetc", "x=%25", "x=a b"]


def files(root: Path) -> list[AddedFile]:
    for folder in PARTITIONS:
        (root / folder).mkdir(parents=True)
        (root / folder / "part-job.parquet").touch()
        (root / folder / "part-other.parquet").touch()
    return [AddedFile(f"file://{root}/{folder}/part-job.parquet", 0, 0) for folder in PARTITIONS]


def list_files(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file()]


def test_files_of_all_partitions_are_deleted(tmp_path: Path) -> None:
    data_files = files(tmp_path / "t")
    (tmp_path / "t/x=1/part-job.parquet").unlink()
    elsewhere = files(tmp_path / "u%20v")
    discard([*data_files, *elsewhere], {})
    assert list_files(tmp_path) == ["part-other.parquet"] * 2 * len(PARTITIONS)


def test_files_of_a_failed_job_are_deleted(tmp_path: Path) -> None:
    files(tmp_path)
    key = PartitionKey("x", "x", ("x",), pa.string(), "identity")
    empty = pa.schema([])
    spec = WriteSpec(f"file://{tmp_path}", (), empty, empty, False, (key,), False, frozenset(), attempt="job")
    discard_attempt(spec, None)
    assert list_files(tmp_path) == ["part-other.parquet"] * len(PARTITIONS)


def test_a_failure_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data_files = files(tmp_path)
    for file in data_files:
        path = file.path.removeprefix("file://")
        os.unlink(path)
        os.mkdir(path)  # a folder cannot be deleted as a file
    with caplog.at_level(logging.WARNING):
        discard(data_files, {})
        discard(data_files, {})
    (record,) = caplog.records
    assert f"file://{tmp_path}" in record.getMessage()
