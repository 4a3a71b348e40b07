"""Commits write the actions that Delta's protocol requires, and lost races are rebased or reported."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta import DeltaTable, table
from rowmerge.delta.log.log_files import commit_path
from rowmerge.errors import MetadataChanged, StorageError, TableError, UnsupportedTableFeature
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.delta_tables import ID_NAME, Lake, committed, delete_checksums
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of


def actions(lake: Lake, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (lake.folder / commit_path(version)).read_text().splitlines()]


def read_action(lake: Lake, version: int, action: str) -> Any:
    (action_fields,) = [row[action] for row in actions(lake, version) if action in row]
    return action_fields


# ------------------------------------------------------------------ actions of a commit


def test_commit_info_is_the_first_action_with_string_values(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1])))
    lake.commit(
        "MERGE", added=(lake.file([2]),), parameters={"matched": [{"a": 1}], "x": "y"}, metrics={"n": 3}, reads=Reads(frozenset({"p"}))
    )
    assert list(actions(lake, 1)[0]) == ["commitInfo"]
    info = read_action(lake, 1, "commitInfo")
    assert info["operation"] == "MERGE"
    assert info["operationParameters"] == {"matched": '[{"a":1}]', "x": "y"}
    assert info["operationMetrics"] == {"n": "3"}
    assert (info["readVersion"], info["isolationLevel"], info["isBlindAppend"]) == (0, "WriteSerializable", False)
    assert info["txnId"] != read_action(lake, 0, "commitInfo")["txnId"]
    assert "readVersion" not in read_action(lake, 0, "commitInfo")


def test_only_appends_without_reads_are_blind_appends(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.file([1, 2])
    committed(lake.create(first))
    committed(lake.append([3]))
    committed(lake.commit("MERGE", added=(lake.file([4]),), reads=Reads(may_match=lambda listing: listing.rows["path"].is_valid())))
    committed(lake.commit("DELETE", deleted={first.path: Positions([0])}))
    assert [read_action(lake, version, "commitInfo")["isBlindAppend"] for version in range(4)] == [True, True, False, False]


def test_a_delete_replaces_the_old_deletion_vector_of_a_file(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    file = lake.file([1, 2, 3, 4])
    committed(lake.create(file))
    committed(lake.commit("DELETE", deleted={file.path: Positions([0])}))
    committed(lake.commit("DELETE", deleted={file.path: Positions([0, 2])}))
    first, second = read_action(lake, 1, "add"), read_action(lake, 2, "add")
    removed = read_action(lake, 2, "remove")
    assert "deletionVector" not in read_action(lake, 1, "remove")
    assert removed["deletionVector"] == first["deletionVector"]
    assert (removed["size"], removed["partitionValues"], removed["extendedFileMetadata"]) == (file.size, {}, True)
    assert second["deletionVector"]["cardinality"] == 2
    original, stats = json.loads(read_action(lake, 0, "add")["stats"]), json.loads(second["stats"])
    assert stats == {**original, "tightBounds": False}
    assert second["modificationTime"] == read_action(lake, 0, "add")["modificationTime"]
    assert rows_of(read_with_duckdb(str(tmp_path), "id")) == [(2, "n2"), (4, "n4")] == rows_of(read_with_delta_rs(str(tmp_path), "id"))
    committed(lake.commit("DELETE", removed=(file.path,)))
    assert read_action(lake, 3, "remove")["deletionVector"] == second["deletionVector"]
    assert lake.ids() == []


def test_a_file_with_all_rows_deleted_is_removed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    file = lake.file([1, 2])
    committed(lake.create(file, lake.file([3])))
    committed(lake.commit("DELETE", deleted={file.path: Positions([0, 1])}))
    assert [key for action in actions(lake, 1) for key in action] == ["commitInfo", "remove"]
    assert not list(lake.folder.glob("deletion_vector_*"))


def test_a_delete_keeps_foreign_tags_and_row_ids_of_the_file(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create())
    file = lake.file([1, 2])
    fields = {
        "path": file.path.rpartition("/")[2],
        "partitionValues": {},
        "size": file.size,
        "modificationTime": 5,
        "dataChange": True,
        "stats": '{"numRecords":2}',
        "tags": {"INSERTION_TIME": "17", "other": "x"},
        "baseRowId": 40,
        "defaultRowCommitVersion": 1,
    }
    (lake.folder / commit_path(1)).write_text(json.dumps({"add": fields}) + "\n")
    committed(lake.commit("DELETE", deleted={file.path: Positions([0])}))
    add = read_action(lake, 2, "add")
    assert add["tags"] == {"INSERTION_TIME": "17", "other": "x"}
    assert (add["baseRowId"], add["defaultRowCommitVersion"], add["modificationTime"]) == (40, 1, 5)


def test_a_compaction_commits_no_data_change(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    file = lake.file([1, 2])
    committed(lake.create(file))
    committed(lake.commit("OPTIMIZE", added=(lake.file([1, 2]),), removed=(file.path,), data_change=False))
    assert read_action(lake, 1, "add")["dataChange"] is False
    assert read_action(lake, 1, "remove")["dataChange"] is False
    assert read_action(lake, 1, "commitInfo")["isolationLevel"] == "SnapshotIsolation"


def test_removing_an_unknown_file_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1])))
    with pytest.raises(ValueError, match="not a data file of version 0"):
        lake.commit("DELETE", removed=("file:///nowhere",))


def test_deletion_vectors_are_refused_if_disabled(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    file = lake.file([1, 2])
    committed(lake.create(file, properties={"rowmerge.write.mode": "copy-on-write"}))
    with pytest.raises(UnsupportedTableFeature, match="'rowmerge.write.mode' = 'merge-on-read'"):
        lake.commit("DELETE", deleted={file.path: Positions([0])})
    assert not list(lake.folder.glob("deletion_vector_*"))


def test_an_append_only_table_refuses_deletes_and_allows_compaction(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    file = lake.file([1, 2])
    committed(lake.create(file, properties={"delta.appendOnly": "true"}))
    committed(lake.append([3]))
    for change in ({"removed": (file.path,)}, {"deleted": {file.path: Positions([0])}}):
        with pytest.raises(TableError, match=r"append-only.*'delta.appendOnly' = 'false'"):
            lake.commit("DELETE", **change)
    committed(lake.commit("OPTIMIZE", added=(lake.file([1, 2]),), removed=(file.path,), data_change=False))
    assert not list(lake.folder.glob("deletion_vector_*"))


def test_in_commit_timestamps_increase_with_each_version(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties={"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "4"}))
    base = lake.table.snapshot()
    for n in range(6):
        committed(lake.append([n], base=base))
    stamps = [actions(lake, version)[0]["commitInfo"]["inCommitTimestamp"] for version in range(7)]
    assert stamps == sorted(set(stamps))
    reopened = Lake(tmp_path)
    assert reopened.table.snapshot().timestamp == stamps[-1]
    assert reopened.table.snapshot_at(version=4).timestamp == stamps[4]
    assert [reopened.table.snapshot_at(timestamp=stamp).version for stamp in stamps] == list(range(7))
    assert reopened.table.snapshot_at(timestamp=stamps[3] - 1).version == 2
    (lake.folder / commit_path(3)).unlink()
    committed(Lake(tmp_path).append([99]))
    assert len(read_with_duckdb(str(tmp_path))) == 7


def test_in_commit_timestamps_increase_after_a_future_timestamp(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties={"delta.enableInCommitTimestamps": "true"}))
    path = lake.folder / commit_path(0)
    stamp = read_action(lake, 0, "commitInfo")["inCommitTimestamp"]
    path.write_text(path.read_text().replace(f'"inCommitTimestamp":{stamp}', '"inCommitTimestamp":9999999999999'))
    delete_checksums(lake.folder)
    committed(lake.append([1]))
    assert read_action(lake, 1, "commitInfo")["inCommitTimestamp"] == 10_000_000_000_000


# ------------------------------------------------------------------ races


def test_a_second_table_creation_conflicts(tmp_path: Path) -> None:
    definition = TableDefinition(ID_NAME)
    first_table, second_table = (DeltaTable(Storage(str(tmp_path)), "s.t") for _ in range(2))
    assert first_table.create(definition, CommitRequest("CREATE TABLE")) == Committed(0)
    outcome = second_table.create(definition, CommitRequest("CREATE TABLE"))
    assert isinstance(outcome, Conflicted)
    assert isinstance(outcome.conflict, MetadataChanged)


def test_exactly_one_concurrent_table_creation_succeeds(tmp_path: Path) -> None:
    outcomes: list[Any] = []
    start = threading.Barrier(8)

    def create() -> None:
        table = DeltaTable(Storage(str(tmp_path)), "s.t")
        start.wait()
        outcomes.append(table.create(TableDefinition(ID_NAME), CommitRequest("CREATE TABLE")))

    run([threading.Thread(target=create) for _ in range(8)])
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflicted) for outcome in outcomes) == 7


def test_concurrent_appends_all_commit_in_consecutive_versions(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create())
    versions: list[int] = []

    def append(writer: int) -> None:
        own = Lake(tmp_path) if writer % 2 else lake
        for n in range(10):
            versions.append(committed(own.append([writer * 100 + n])))

    run([threading.Thread(target=append, args=(writer,)) for writer in range(8)])
    assert sorted(versions) == list(range(1, 81))
    expected = sorted(writer * 100 + n for writer in range(8) for n in range(10))
    assert lake.ids() == expected == Lake(tmp_path).ids()
    assert read_with_delta_rs(str(tmp_path), "id")["id"].to_pylist() == expected


def test_exactly_one_concurrent_delete_in_a_read_file_succeeds(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    file = lake.file(range(8))
    committed(lake.create(file))
    base = lake.table.snapshot()
    outcomes: list[Any] = []

    def delete(row: int) -> None:
        outcomes.append(lake.commit("DELETE", deleted={file.path: Positions([row])}, reads=Reads(frozenset({file.path})), base=base))

    run([threading.Thread(target=delete, args=(row,)) for row in range(8)])
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert len(lake.ids()) == 7
    assert len(list(lake.folder.glob("deletion_vector_*"))) == 1


def run(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ------------------------------------------------------------------ failing puts


class Failing(Storage):
    """Storage whose commit writes fail, before (`arrives` is false) or after the object is stored. `remote`: it is not a local disk."""

    arrives = False
    times = 1
    remote = False

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if self.times:
            self.times -= 1
            if self.arrives:
                super().put_if_absent(path, data)
            if self.remote:
                self.location = "s3://bucket/t"
            raise StorageError(path, "connection reset")
        return super().put_if_absent(path, data)


def use_failing_storage(lake: Lake, **faults: Any) -> Failing:
    """Put the lake's table on a storage that fails in this way."""
    storage = Failing(str(lake.folder))
    vars(storage).update(faults)
    lake.table = DeltaTable(storage, "s.t")
    return storage


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([1, 2, 3])))
    return lake


def delete_first_row(lake: Lake) -> Any:
    (path,) = lake.table.snapshot().files().paths
    return lake.commit("DELETE", deleted={path: Positions([0])})


def test_a_put_that_fails_after_its_write_is_committed(lake: Lake) -> None:
    use_failing_storage(lake, arrives=True)
    assert delete_first_row(lake) == Committed(1)
    assert lake.ids() == [2, 3]


def test_a_failed_put_on_disk_raises_and_deletes_its_vectors(lake: Lake) -> None:
    use_failing_storage(lake)
    with pytest.raises(StorageError, match="connection reset"):
        delete_first_row(lake)
    assert not list(lake.folder.glob("deletion_vector_*"))
    assert delete_first_row(lake) == Committed(1)


def test_a_failed_put_on_remote_storage_is_retried(lake: Lake) -> None:
    storage = use_failing_storage(lake, remote=True, times=2)
    base = lake.table.snapshot()
    outcome = lake.commit("WRITE", added=(lake.file([9]),), base=base)
    assert outcome == Committed(1)
    assert storage.times == 0


def test_repeated_failures_of_a_remote_put_give_an_unknown_outcome(lake: Lake) -> None:
    use_failing_storage(lake, remote=True, times=9)
    outcome = delete_first_row(lake)
    assert isinstance(outcome, Unknown)
    assert "connection reset" in outcome.reason
    assert list(lake.folder.glob("deletion_vector_*"))


class Unreadable(Failing):
    """Storage that also fails the next `reads` reads of commits."""

    reads = 0

    def get(self, path: str) -> bytes:
        if self.reads and path.endswith(".json"):
            self.reads -= 1
            raise StorageError(path, "connection reset")
        return super().get(path)


@pytest.mark.parametrize(("arrives", "version"), [(True, 1), (False, 2)])
def test_the_committer_retries_reads_until_it_identifies_the_commit(lake: Lake, arrives: bool, version: int) -> None:
    """The put may have succeeded, and other commits may follow it before the log can be read."""
    base = lake.table.snapshot()
    storage = Unreadable(str(lake.folder))
    storage.arrives = arrives
    table = DeltaTable(storage, "s.t")

    def others(path: str, data: bytes, put: Any = storage.put_if_absent) -> Put:
        try:
            return put(path, data)
        except StorageError:
            committed(Lake(lake.folder).append([50]))
            storage.reads = 4
            raise

    vars(storage)["put_if_absent"] = others
    assert table.commit(base, CommitRequest("WRITE", files=FileChanges((lake.file([9]),)))) == Committed(version)
    assert lake.ids() == [1, 2, 3, 9, 50]


def test_a_put_repeated_by_the_store_is_recognized_as_own_commit(lake: Lake) -> None:
    class Twice(Storage):
        def put_if_absent(self, path: str, data: bytes) -> Put:
            super().put_if_absent(path, data)
            return super().put_if_absent(path, data)

    table = DeltaTable(Twice(str(lake.folder)), "s.t")
    change = CommitRequest("WRITE", files=FileChanges((lake.file([9]),)))
    assert table.commit(table.snapshot(), change) == Committed(1)
    assert lake.ids() == [1, 2, 3, 9]


def test_a_failed_put_after_a_lost_race_is_rebased(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(lake.append([5]))
    use_failing_storage(lake)
    assert lake.append([6], base=base) == Committed(2)
    assert lake.ids() == [1, 2, 3, 5, 6]


# ------------------------------------------------------------------ failures after a commit

ODD_PROPERTIES = [
    {"delta.setTransactionRetentionDuration": "interval 1 month"},
    {"delta.deletedFileRetentionDuration": "interval 999999999999999999 weeks"},
    {"delta.logRetentionDuration": "interval 999999999999999999 weeks"},
    {"delta.checkpointInterval": "x"},
]


@pytest.mark.parametrize("properties", ODD_PROPERTIES, ids=lambda properties: next(iter(properties)))
def test_an_invalid_foreign_property_does_not_fail_a_finished_commit(lake: Lake, properties: dict[str, str]) -> None:
    """An error here would make the caller run the statement twice."""
    metadata = lake.table.snapshot().metadata.action()["metaData"]
    metadata["configuration"] = {"delta.checkpointInterval": "1"} | properties
    (lake.folder / commit_path(1)).write_text(f'{{"commitInfo":{{}}}}\n{json.dumps({"metaData": metadata})}\n')
    assert lake.append([4]) == Committed(2)
    assert Lake(lake.folder).ids() == [1, 2, 3, 4]


def test_an_error_after_a_commit_does_not_fail_it(lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(table, "put_checksum", refuse_thread)
    assert lake.append([4]) == Committed(1)
    assert Lake(lake.folder).ids() == [1, 2, 3, 4]
    assert f"Version 1 of file://{lake.folder} is committed" in caplog.text
