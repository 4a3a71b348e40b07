"""After a failed commit, files are deleted only if it is certain that no version needs them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmerge.delta import DeltaTable
from rowmerge.errors import StorageError
from rowmerge.execution.commit import Attempt, commit_with_retry
from rowmerge.execution.result import Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges


class Breaking(Storage):
    """A folder in which the put of a commit fails, before or after it takes effect."""

    def __init__(self, location: str, failure: BaseException, *, put_creation_or_drop: bool) -> None:
        super().__init__(location)
        self._failure, self._put_first = failure, put_creation_or_drop

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if self._put_first:
            super().put_if_absent(path, data)
        raise self._failure


def append_to(folder: Path, failure: BaseException, *, put_creation_or_drop: bool) -> Path:
    """Append one file on a storage that fails, and return its path."""
    schema = Struct((Field("id", Primitive("long")),))
    DeltaTable(Storage(str(folder)), "t").create(TableDefinition(schema=schema), CommitRequest("CREATE TABLE"))
    path = folder / "part-0.parquet"
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), path)
    table = DeltaTable(Breaking(str(folder), failure, put_creation_or_drop=put_creation_or_drop), "t")
    added = AddedFile(path.as_uri(), path.stat().st_size, 1)

    def attempt() -> Attempt:
        return Attempt(table.snapshot(), CommitRequest("WRITE", files=FileChanges((added,))), RowCounts(inserted=1), (added,))

    with pytest.raises(type(failure)):
        commit_with_retry(table, attempt, Timings())
    return path


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("a bug"), MemoryError()])
def test_files_of_a_commit_with_unknown_outcome_are_not_deleted(tmp_path: Path, failure: BaseException) -> None:
    path = append_to(tmp_path, failure, put_creation_or_drop=True)
    assert path.exists()
    assert DeltaTable(Storage(str(tmp_path)), "t").snapshot().files().paths == [path.as_uri()]


def test_files_of_a_failed_commit_are_deleted(tmp_path: Path) -> None:
    path = append_to(tmp_path, StorageError("t", "the disk is full"), put_creation_or_drop=False)
    assert not path.exists()
    assert DeltaTable(Storage(str(tmp_path)), "t").snapshot().version == 0
