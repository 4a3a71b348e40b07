"""On a store without permission to delete, only statements fail whose purpose is the deletion."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rowmerge.catalog import DirectoryCatalog, Relation, View
from rowmerge.delta import DeltaTable
from rowmerge.errors import StorageError
from rowmerge.execution.commit import Attempt, commit_with_retry
from rowmerge.execution.result import Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.maintenance.rewriting import ManifestRewriting
from rowmerge.parquet.outcomes import INSERT, OutcomeColumns
from rowmerge.spark.writing import write_output as written_files
from rowmerge.spark.writing.specs import write_spec
from rowmerge.spark.writing.write import write_on_driver
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.drop_markers import DROP_MARKERS
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Outcome, Reads
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges, Positions
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME, committed, live_rows
from tests.support.table_operations import write_rows

MERGE_ON_READ = {"rowmerge.write.mode": "merge-on-read"}
NOW = VacuumOptions(retain_hours=0, check_retention=False, record=False)
DENIED = "AccessDenied: s3:DeleteObject"


class Undeletable(Storage):
    """A folder in which no object can be deleted."""

    def child(self, path: str) -> Storage:
        return Undeletable(f"{self.location}/{path}")

    def at(self, location: str) -> Storage:
        return Undeletable(location)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            raise StorageError(f"{self.location}/{path}", DENIED)


class UndeletableFiles:
    """A file system of data files in which no file can be deleted."""

    def delete_file(self, path: str) -> None:
        raise PermissionError(13, DENIED)


@pytest.fixture(autouse=True)
def undeletable_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_files, "filesystem_of", lambda path, options: (UndeletableFiles(), path))


@pytest.fixture(params=["delta", "iceberg"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Table]:
    """Open the table as another process does."""

    def table() -> Table:
        storage = Undeletable(str(tmp_path / "t"))
        return DeltaTable(storage, "s.t") if request.param == "delta" else IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")

    return table


def create(table: Table, ids: Sequence[int], **properties: str) -> None:
    definition = TableDefinition(ID_NAME, (), properties)
    committed(table.create(definition, CommitRequest("CREATE TABLE", definition=definition)))
    if ids:
        append(table, ids)


def append(table: Table, ids: Sequence[int]) -> int:
    snapshot = table.snapshot()
    return committed(table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, ids)))))


def mark(table: Table, at: int, base: Any = None) -> Outcome:
    """Mark one row of the only file as deleted."""
    snapshot = base or table.snapshot()
    (path,) = snapshot.files().paths
    rows = snapshot.deleted_positions([path]).get(path, Positions()) | Positions([at])
    return table.commit(snapshot, CommitRequest("DELETE", files=FileChanges(deleted={path: rows}), reads=Reads()))


def ids(table: Table) -> list[int]:
    return sorted(live_rows(table.snapshot())["id"].to_pylist())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("rowmerge")]


def test_a_lost_race_is_retried_and_its_warning_is_logged_once(
    opened: Callable[[], Table], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(opened(), [1, 2])
    table, attempted_files = opened(), list[tuple[AddedFile, ...]]()

    def attempt() -> Attempt:
        snapshot = table.snapshot()
        old = tuple(snapshot.files().paths)
        attempted_files.append(write_rows(snapshot, [1, 2, len(attempted_files)]))
        if len(attempted_files) < 4:
            # Another writer rewrites the same file first.
            other = opened()
            change = CommitRequest("UPDATE", files=FileChanges(write_rows(snapshot, [1, 2]), old), reads=Reads(frozenset(old)))
            committed(other.commit(other.snapshot(), change))
        change = CommitRequest("MERGE", files=FileChanges(attempted_files[-1], old), reads=Reads(frozenset(old)))
        return Attempt(snapshot, change, RowCounts(), attempted_files[-1])

    with caplog.at_level(logging.WARNING):
        result = commit_with_retry(table, attempt, Timings())
    assert result.attempts == 4 and ids(opened()) == [1, 2, 3]
    assert all(Path(file.path.removeprefix("file://")).exists() for files in attempted_files for file in files)
    messages = warnings(caplog)
    assert messages and len(messages) == len(set(messages)), "one warning per place"
    assert all(str(tmp_path / "t") in text and DENIED in text for text in messages)


def test_a_conflict_is_raised_instead_of_the_cleanup_error(opened: Callable[[], Table]) -> None:
    create(opened(), [1, 2, 3], **MERGE_ON_READ)
    table = opened()
    base = table.snapshot()
    committed(mark(opened(), 1))
    assert isinstance(mark(table, 1, base), Conflicted)
    assert ids(opened()) == [1, 3]


def test_undeletable_files_of_an_earlier_attempt_do_not_fail_the_commit(opened: Callable[[], Table]) -> None:
    create(opened(), [1, 2, 3], **MERGE_ON_READ)
    table = opened()
    base = table.snapshot()
    committed(mark(opened(), 0))
    assert isinstance(mark(table, 2, base), Committed)
    assert ids(opened()) == [2]


def test_undeletable_old_metadata_does_not_fail_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = IcebergTable(DirectoryOperations(Undeletable(str(tmp_path / "t")), "s.t"), "s.t")
    create(table, [], **{"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"})
    with caplog.at_level(logging.WARNING):
        for id_ in range(5):
            append(table, [id_])
    assert ids(table) == list(range(5))
    assert len(list((tmp_path / "t/metadata").glob("v*.metadata.json"))) == 6
    (message,) = warnings(caplog)
    assert f"file://{tmp_path}/t" in message


def test_undeletable_manifests_of_a_lost_race_do_not_fail_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Undeletable(str(tmp_path / "t"))
    operations = DirectoryOperations(storage, "s.t")
    table = IcebergTable(operations, "s.t")
    create(table, [1])
    append(table, [2])
    commit = operations.commit

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(operations, "commit", commit)
        append(IcebergTable(DirectoryOperations(storage, "s.t"), "s.t"), [9])
        return commit(*arguments)

    monkeypatch.setattr(operations, "commit", late)
    ManifestRewriting(operations, "s.t").commit()
    assert ids(IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")) == [1, 2, 9]


def test_a_failed_write_reports_its_error_instead_of_the_cleanup_error(
    opened: Callable[[], Table], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(opened(), [])
    rows = pa.table(
        {"action": pa.array([INSERT] * 9_000, pa.int8()), "id": range(9_000), "name": [os.urandom(20).hex() for _ in range(9_000)]}
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with caplog.at_level(logging.WARNING), pytest.raises(StorageError, match="File too large"):
            write_on_driver(rows, write_spec(opened().snapshot().shape), OutcomeColumns("action", new_columns=("id", "name")), None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 1
    (text,) = warnings(caplog)
    assert DENIED in text


def test_vacuum_reports_that_it_could_not_delete(opened: Callable[[], Table], tmp_path: Path) -> None:
    create(opened(), [1])
    junk = tmp_path / "t/data/junk.parquet"
    junk.parent.mkdir(exist_ok=True)
    junk.touch()
    os.utime(junk, (0, 0))
    with pytest.raises(StorageError, match=f"junk.parquet: {DENIED}"):
        opened().vacuum(NOW)


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_drop_reports_that_it_could_not_delete(tmp_path: Path, format_: str) -> None:
    catalog = DirectoryCatalog(Undeletable(str(tmp_path)))
    for _ in range(2):
        table = catalog.new_table("default", "t", format_)
        create(table, [1])
        assert ids(table) == [1], "files that a drop could not delete do not stop the next table"
        with pytest.raises(StorageError, match=rf"{DENIED}.* default.t was dropped, but some of its files remain"):
            catalog.drop_table("default", "t")
        assert catalog.relation("default", "t") is None


def test_drop_of_a_view_reports_that_it_could_not_delete(tmp_path: Path) -> None:
    catalog = DirectoryCatalog(Undeletable(str(tmp_path)))
    columns = Struct((Field("id", Primitive("long")),))
    for _ in range(2):
        catalog.put_view(View(Relation.of_view("default", "v"), "select 1 as id", "default", columns))
        with pytest.raises(StorageError, match=rf"{DENIED}.* default.v was dropped, but some of its files remain"):
            catalog.drop_view("default", "v")
        assert catalog.relation("default", "v") is None


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_creation_that_cannot_list_the_markers_of_a_drop_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    catalog = DirectoryCatalog(Storage(str(tmp_path)))
    create(catalog.new_table("default", "t", format_), [1])
    catalog.drop_table("default", "t")
    table, list_all = catalog.new_table("default", "t", format_), Storage.list

    def failing(storage: Storage, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        if prefix == DROP_MARKERS:
            raise StorageError(storage.location, "503")
        return list_all(storage, prefix, after=after)

    monkeypatch.setattr(Storage, "list", failing)
    create(table, [])


def test_a_warehouse_opens_and_views_are_replaced(tmp_path: Path) -> None:
    catalog = DirectoryCatalog(Undeletable(str(tmp_path)))
    columns = Struct((Field("id", Primitive("long")),))
    for number in range(20):
        sql = f"select {number} as id"
        assert catalog.put_view(View(Relation.of_view("default", "v"), sql, "default", columns), or_replace=True).sql == sql
