"""The check of the files that tasks report, before a commit names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.errors import StorageError
from rowmerge.spark.executors import report
from rowmerge.spark.writing.jobs import check_files


def test_reported_files_must_exist_in_their_size(tmp_path: Path) -> None:
    files = [{"path": f"file://{tmp_path / name}", "size": 4} for name in ("a b", "b", "c")]
    for name in ("a b", "b", "c"):
        (tmp_path / name).write_bytes(b"PAR1")
    # A task reports its files, or those of the task that it calls, or only change files.
    reports = [
        report({"files": files[:1]}),
        report({"task_message": {"files": files[1:2]}}),
        report({"change_rows": files[2:]}),
        report({}),
    ]
    check_files(reports)
    for file, name in zip(files, ("a b", "b", "c"), strict=True):
        (tmp_path / name).write_bytes(b"PAR")
        with pytest.raises(StorageError, match="does not share this folder") as truncated:
            check_files(reports)
        (tmp_path / name).unlink()
        with pytest.raises(StorageError, match="does not share this folder") as missing:
            check_files(reports)
        assert file["path"] in str(truncated.value) and file["path"] in str(missing.value)
        assert reports[0]["host"] in str(missing.value)
        (tmp_path / name).write_bytes(b"PAR1")


def test_files_in_an_object_store_are_not_looked_for() -> None:
    check_files([report({"files": [{"path": "s3://lake/t/a.parquet", "size": 4}]})])
