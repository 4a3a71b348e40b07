"""A commit planned before a log cleanup or a recreation of the table never becomes a version."""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import deltalake
import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import MetadataChanged, StorageError
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Outcome, Reads, Unknown
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.delta_tables import ID_NAME, Lake, committed
from tests.support.faulty_s3 import FaultyS3, Request, needs_moto
from tests.support.readers import read_with_delta_rs, read_with_duckdb

Act = Callable[[], object]
CLEANED = {"delta.logRetentionDuration": "interval 1 seconds"}


class Paused(Storage):
    """Storage that lets others act just before its first conditional put, or just before the first listing after that put."""

    def __init__(self, location: str, put: Act = lambda: None, listing: Act = lambda: None) -> None:
        super().__init__(location)
        self._acts = [listing, put]

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if len(self._acts) == 2:
            self._acts.pop()()
        return Storage.put_if_absent(self, path, data)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        if len(self._acts) == 1:
            self._acts.pop()()
        return Storage.list(self, prefix, after=after)


def new_lake(folder: Path, ids: tuple[int, ...] = (1,), properties: Mapping[str, str] | None = None) -> Lake:
    lake = Lake(folder / "t")
    lake.create(lake.file(ids), properties=properties)
    return lake


def clean(lake: Lake) -> None:
    """Clean the log as delta-rs does, up to a new checkpoint."""
    time.sleep(1.2)
    delta_rs_table = deltalake.DeltaTable(str(lake.folder))
    delta_rs_table.create_checkpoint()
    delta_rs_table.cleanup_metadata()


def append_and_clean(lake: Lake, *ids: int) -> Act:
    def act() -> None:
        for id_ in ids:
            Lake(lake.folder).append([id_])
        clean(lake)

    return act


def change_request(lake: Lake, base: DeltaSnapshot, kind: str) -> CommitRequest:
    """Return a change on `base` that adds a file, removes one, changes the definition, or records a transaction."""
    path = base.files().paths[0]
    match kind:
        case "append":
            return CommitRequest("WRITE", files=FileChanges((lake.file([99]),)), reads=Reads())
        case "delete":
            return CommitRequest("DELETE", files=FileChanges((), (path,)), reads=Reads(frozenset([path])))
        case "definition":
            return CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(ID_NAME, (), {"a": "b"}, None))
    return CommitRequest("WRITE", reads=Reads(), transaction=("app", 1))


def paused_commit(lake: Lake, kind: str = "append", **acts: Act) -> Outcome:
    """Return the outcome of a commit planned now, while others act before or after its put."""
    table = DeltaTable(Paused(str(lake.folder), **acts), "s.t")
    base = DeltaTable(Storage(str(lake.folder)), "s.t").snapshot()
    return table.commit(base, change_request(lake, base, kind))


def assert_rows(lake: Lake, ids: list[int]) -> None:
    """Assert that a new process and other readers read these rows."""
    assert Lake(lake.folder).ids() == ids
    assert read_with_delta_rs(str(lake.folder))["id"].to_pylist() == ids
    assert read_with_duckdb(str(lake.folder))["id"].to_pylist() == ids


@pytest.mark.parametrize("kind", ["append", "delete"])
def test_a_commit_below_a_checkpoint_conflicts(tmp_path: Path, kind: str) -> None:
    lake = new_lake(tmp_path, properties=CLEANED)
    others = list(range(10, 32))
    outcome = paused_commit(lake, kind, put=append_and_clean(lake, *others))
    assert isinstance(outcome, Conflicted)
    assert isinstance(outcome.conflict, MetadataChanged)
    assert "the log was cleaned" in str(outcome.conflict)
    assert not (lake.log / f"{1:020d}.json").exists()
    assert_rows(lake, [1, *others])
    Lake(lake.folder).append([100])
    assert_rows(lake, [1, *others, 100])


@pytest.mark.parametrize("kind", ["definition", "transaction"])
def test_a_commit_without_files_below_a_checkpoint_is_not_acknowledged(tmp_path: Path, kind: str) -> None:
    lake = new_lake(tmp_path, properties=CLEANED)
    others = list(range(10, 32))
    assert not isinstance(paused_commit(lake, kind, put=append_and_clean(lake, *others)), Committed)
    assert_rows(lake, [1, *others])


def test_a_stale_commit_just_below_the_checkpoint_is_not_in_the_history(tmp_path: Path) -> None:
    """The writer died after the put, so the commit was not withdrawn, and version numbers have no gap."""
    lake = new_lake(tmp_path, properties=CLEANED)
    Lake(lake.folder).append([10])
    late_commit = lake.log / f"{1:020d}.json"
    content = late_commit.read_bytes()
    append_and_clean(lake, 11)()
    assert not late_commit.exists()
    late_commit.write_bytes(content)
    assert [entry.version for entry in Lake(lake.folder).table.history()] == [2]


@pytest.mark.parametrize("version", [1, 2], ids=["the same version", "a later version"])
def test_a_transaction_of_another_process_does_not_confirm_a_late_commit(tmp_path: Path, version: int) -> None:
    lake = new_lake(tmp_path, properties=CLEANED)

    def commit_the_transaction_and_clean() -> None:
        other = Lake(lake.folder)
        committed(other.commit("WRITE", added=(other.file([50]),), transaction=("app", version)))
        append_and_clean(lake, *range(10, 32))()

    late_lake = Lake(lake.folder)
    table = DeltaTable(Paused(f"file://{lake.folder}", put=commit_the_transaction_and_clean), "t")
    change = CommitRequest("WRITE", files=FileChanges((late_lake.file([99]),)), reads=Reads(), transaction=("app", 1))
    outcome = table.commit(table.snapshot(), change)
    assert isinstance(outcome, Conflicted)
    assert not (lake.log / f"{1:020d}.json").exists()
    assert_rows(lake, [1, *range(10, 32), 50])


@pytest.mark.parametrize("kind", ["append", "delete", "transaction"])
def test_a_commit_contained_in_a_concurrent_checkpoint_succeeds(tmp_path: Path, kind: str) -> None:
    lake = new_lake(tmp_path, properties=CLEANED)
    others = list(range(10, 15))
    assert isinstance(paused_commit(lake, kind, listing=append_and_clean(lake, *others)), Committed | Unknown)
    assert_rows(lake, sorted([*({"delete": []}.get(kind, [1])), *others, *([99] if kind == "append" else [])]))


def test_a_commit_with_a_successor_before_verification_succeeds(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    outcome = paused_commit(lake, listing=lambda: Lake(lake.folder).append([2]))
    assert committed(outcome) == 1
    assert_rows(lake, [1, 2, 99])


@pytest.mark.parametrize("kind", ["append", "delete", "definition"])
def test_a_recreated_table_rejects_commits_on_the_old_table(tmp_path: Path, kind: str) -> None:
    """The new table is at the version of the base, so the commit would follow it by number."""
    lake = new_lake(tmp_path)

    def recreate_table() -> None:
        shutil.rmtree(lake.log)
        new_lake(tmp_path, (7,))

    time.sleep(0.01)
    outcome = paused_commit(lake, kind, put=recreate_table)
    assert isinstance(outcome, Conflicted)
    assert "another table was created" in str(outcome.conflict)
    assert_rows(lake, [7])
    Lake(lake.folder).append([8])
    assert_rows(lake, [7, 8])


def test_a_commit_that_leaves_a_gap_in_a_recreated_log_is_withdrawn(tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    for id_ in (2, 3):
        lake.append([id_])

    def recreate_table() -> None:
        shutil.rmtree(lake.log)
        new_lake(tmp_path, (7,))

    outcome = paused_commit(lake, put=recreate_table)
    assert isinstance(outcome, Conflicted)
    assert_rows(lake, [7])


def test_a_second_creation_is_withdrawn_after_a_cleanup_of_the_first(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")

    def create_first() -> None:
        first = new_lake(tmp_path, properties=CLEANED)
        append_and_clean(first, *range(10, 20))()

    late_table = DeltaTable(Paused(str(lake.folder), put=create_first), "s.t")
    files = FileChanges((lake.file([99]),))
    outcome = late_table.create(TableDefinition(ID_NAME, (), {}, None), CommitRequest("CREATE TABLE AS SELECT", files=files))
    assert isinstance(outcome, Conflicted)
    assert_rows(lake, [1, *range(10, 20)])


def test_a_conflict_is_reported_if_the_commit_cannot_be_withdrawn(tmp_path: Path) -> None:
    class Undeletable(Paused):
        def delete(self, paths: Sequence[str]) -> None:
            if any(path.startswith("_delta_log/") for path in paths):
                raise StorageError(self.location, "no permission to delete")

    lake = new_lake(tmp_path, properties=CLEANED)
    others = list(range(10, 32))
    table = DeltaTable(Undeletable(str(lake.folder), put=append_and_clean(lake, *others)), "s.t")
    base = DeltaTable(Storage(str(lake.folder)), "s.t").snapshot()
    assert isinstance(table.commit(base, change_request(lake, base, "append")), Conflicted)
    assert_rows(lake, [1, *others])


def test_a_recreated_table_is_no_cached_version_if_its_commit_has_the_same_time(tmp_path: Path) -> None:
    def created(schema: Struct) -> DeltaSnapshot:
        lake = Lake(tmp_path / "t", schema)
        lake.create()
        os.utime(lake.log / "00000000000000000000.json", (10**9, 10**9))
        return reader.snapshot()

    reader = DeltaTable(Storage(str(tmp_path / "t")), "s.t")
    first = created(ID_NAME)
    shutil.rmtree(tmp_path / "t")
    second = created(Struct(ID_NAME.fields[:1]))
    assert (first.version, first.timestamp) == (second.version, second.timestamp)
    assert second.schema.names == ("id",) and second.identity != first.identity


@needs_moto
def test_a_recreated_table_is_no_cached_version_if_a_store_counts_seconds(s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commits of both tables have the same size, and the same time in seconds."""
    answer, time_of_object = s3.answer, rb"<LastModified>[^<]*</LastModified>"

    def at_one_time(request: Request) -> tuple[int, list[tuple[str, str]], bytes] | None:
        response = answer(request)
        assert response is not None
        return *response[:2], re.sub(time_of_object, b"<LastModified>2024-01-01T00:00:00.000Z</LastModified>", response[2])

    monkeypatch.setattr(s3, "answer", at_one_time)
    storage = Storage(f"{s3.location}/{uuid.uuid4()}", s3.options())

    def created(column: str) -> None:
        definition = TableDefinition(Struct((Field(column, Primitive("long")),)), (), {}, None)
        DeltaTable(storage, "s.t").create(definition, CommitRequest("CREATE TABLE"))

    reader = DeltaTable(storage, "s.t")
    created("old")
    assert reader.snapshot().schema.names == ("old",)
    storage.delete([file.path for file in storage.list()])
    created("new")
    assert reader.snapshot().schema.names == ("new",)
