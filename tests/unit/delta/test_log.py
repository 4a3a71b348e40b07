"""Versions of a table are read from its log, and a log with gaps or damaged files is rejected by name."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.log.log_files import checkpoint_path, commit_path
from rowmerge.errors import CorruptLog, TableNotFound, VersionNotFound
from rowmerge.storage.store import Storage
from tests.support.delta_tables import Lake, committed


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Twelve versions, 0 to 11, each with one more row; a checkpoint at 10."""
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([0])))
    for version in range(1, 12):
        assert committed(lake.append([version])) == version
    return lake


def again(lake: Lake) -> Lake:
    """The same table opened anew, with nothing cached."""
    return Lake(lake.folder)


def commit_file(lake: Lake, version: int) -> Path:
    return lake.folder / commit_path(version)


def test_a_table_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    table = DeltaTable(Storage(str(tmp_path / "none")), "s.none")
    assert not table.exists()
    with pytest.raises(TableNotFound, match="s.none"):
        table.snapshot()
    with pytest.raises(TableNotFound):
        table.history()
    assert not (tmp_path / "none").exists()


def test_every_version_can_be_read(lake: Lake) -> None:
    for version in range(12):
        snapshot = again(lake).table.snapshot_at(version=version)
        assert (snapshot.version, snapshot.files().rows.num_rows) == (version, version + 1)


@pytest.mark.parametrize("version", [-1, 12])
def test_a_version_that_does_not_exist_is_told_with_those_that_do(lake: Lake, version: int) -> None:
    with pytest.raises(VersionNotFound, match="versions 0 to 11"):
        lake.table.snapshot_at(version=version)


def test_a_version_older_than_the_log_is_told(lake: Lake) -> None:
    for version in range(8):
        commit_file(lake, version).unlink()
    with pytest.raises(VersionNotFound, match="versions 10 to 11"):
        again(lake).table.snapshot_at(version=9)


def test_a_truncated_log_file_is_named(lake: Lake) -> None:
    path = commit_file(lake, 11)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptLog) as corrupt:
        again(lake).table.snapshot()
    assert corrupt.value.path == f"file://{path}"
    assert corrupt.value.line == 2


@pytest.mark.parametrize("content", ["", "\n\n", "null\n", "[1]\n", '{"add":{"size":1}}\n', '{"add":{"path":5}}\n', '{"commitInfo":{}'])
def test_a_log_file_that_is_no_commit_is_named(lake: Lake, content: str) -> None:
    path = commit_file(lake, 11)
    path.write_text(content)
    with pytest.raises(CorruptLog) as corrupt:
        again(lake).table.snapshot()
    assert corrupt.value.path == f"file://{path}"


def test_the_bad_one_among_many_log_files_is_named(lake: Lake) -> None:
    shutil.rmtree(lake.folder / "_delta_log" / "_last_checkpoint", ignore_errors=True)
    (lake.folder / checkpoint_path(10)).unlink()
    path = commit_file(lake, 4)
    path.write_text('{"add":{"path":"p","size":"big"}}\n')
    with pytest.raises(CorruptLog) as corrupt:
        again(lake).table.snapshot()
    assert corrupt.value.path == f"file://{path}"


def test_a_missing_version_is_named(lake: Lake) -> None:
    (lake.folder / checkpoint_path(10)).unlink()
    commit_file(lake, 5).unlink()
    with pytest.raises(CorruptLog) as corrupt:
        again(lake).table.snapshot()
    assert corrupt.value.path == f"file://{commit_file(lake, 5)}"
    assert again(lake).table.snapshot_at(version=4).version == 4


def test_a_log_without_its_beginning_or_a_checkpoint_is_corrupt(lake: Lake) -> None:
    (lake.folder / checkpoint_path(10)).unlink()
    commit_file(lake, 0).unlink()
    with pytest.raises(CorruptLog, match="00000000000000000000.json"):
        again(lake).table.snapshot()


def test_a_log_without_metadata_is_corrupt(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text('{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n')
    with pytest.raises(CorruptLog, match="no metaData"):
        DeltaTable(Storage(str(tmp_path)), "t").snapshot()


@pytest.mark.parametrize(
    "hint", [None, "", "{", "[]", '{"version":"x"}', '{"version":7}', '{"version":99}', '{"version":10}', '{"version":-3}']
)
def test_the_hint_about_the_last_checkpoint_may_be_anything(lake: Lake, hint: str | None) -> None:
    path = lake.log / "_last_checkpoint"
    path.unlink() if hint is None else path.write_text(hint)
    assert again(lake).ids() == list(range(12))


def test_the_checkpoint_is_used(lake: Lake) -> None:
    for version in range(11):
        commit_file(lake, version).unlink()
    assert again(lake).ids() == list(range(12))


def test_a_checkpoint_that_cannot_be_read_is_passed_over(lake: Lake) -> None:
    (lake.folder / checkpoint_path(10)).write_bytes(b"PAR1 no more")
    assert again(lake).ids() == list(range(12))


def test_a_checkpoint_that_cannot_be_read_and_is_needed_is_named(lake: Lake) -> None:
    (lake.folder / checkpoint_path(10)).write_bytes(b"PAR1 no more")
    commit_file(lake, 3).unlink()
    commit_file(lake, 0).unlink()
    with pytest.raises(CorruptLog) as corrupt:
        again(lake).table.snapshot()
    assert corrupt.value.path == f"file://{lake.folder / checkpoint_path(10)}"


def test_an_incomplete_multi_part_checkpoint_is_passed_over(lake: Lake) -> None:
    name = lake.log / f"{11:020d}.checkpoint.{1:010d}.{2:010d}.parquet"
    shutil.copy(lake.folder / checkpoint_path(10), name)
    (lake.log / "_last_checkpoint").write_text('{"version":11,"parts":2}')
    for version in range(11):
        commit_file(lake, version).unlink()
    assert again(lake).ids() == list(range(12))


def test_files_that_are_no_part_of_the_log_are_passed_over(lake: Lake) -> None:
    for name in (
        f"{12:020d}.json.tmp",
        f".{12:020d}.json.crc",
        f"{11:020d}.crc",
        f"{3:020d}.{7:020d}.compacted.json",
        "notes.txt",
        "12.json",
    ):
        (lake.log / name).write_text("nothing")
    assert again(lake).table.snapshot().version == 11


def test_opening_again_reads_only_what_is_new(lake: Lake) -> None:
    first = lake.table.snapshot()
    assert lake.table.snapshot() is first
    other = again(lake)
    committed(other.append([100]))
    for version in range(11):
        commit_file(lake, version).unlink()
    (lake.folder / checkpoint_path(10)).unlink()
    second = lake.table.snapshot()
    assert (second.version, second.files().rows.num_rows) == (12, 13)
    assert first.files().rows.num_rows == 12


def test_a_table_that_was_made_anew_is_seen(lake: Lake) -> None:
    lake.table.snapshot()
    shutil.rmtree(lake.folder)
    other = Lake(lake.folder)
    committed(other.create(other.file([7])))
    assert lake.ids() == [7]
    shutil.rmtree(lake.folder)
    with pytest.raises(TableNotFound):
        lake.table.snapshot()


def test_a_table_that_was_made_anew_and_grew_as_far_is_seen(lake: Lake) -> None:
    lake.table.snapshot()
    shutil.rmtree(lake.folder)
    other = Lake(lake.folder)
    committed(other.create(other.file([70])))
    for version in range(1, 13):
        committed(other.append([70 + version]))
    assert lake.ids() == list(range(70, 83))


def test_a_time_finds_the_version_that_was_current(lake: Lake) -> None:
    for version in range(12):
        os.utime(commit_file(lake, version), (1000 + version, 1000 + version))
    # A clock that went back does not make a version older than the one before.
    os.utime(commit_file(lake, 5), (900, 900))
    at = [again(lake).table.snapshot_at(timestamp=moment).version for moment in (1_000_000, 1_003_999, 1_004_000, 1_006_000, 9_000_000)]
    assert at == [0, 3, 5, 6, 11]
    with pytest.raises(VersionNotFound):
        again(lake).table.snapshot_at(timestamp=999_999)
    assert again(lake).table.snapshot_at(version=7).timestamp == 1_007_000


def test_history_tells_each_commit_newest_first(lake: Lake) -> None:
    lake.commit(
        "MERGE", added=(lake.file([50]),), parameters={"predicate": ["a = 1"], "none": None, "mode": "x"}, metrics={"numOutputRows": 3}
    )
    newest, before, *_ = lake.table.history()
    assert len(lake.table.history()) == 13
    assert (newest.version, newest.operation, before.operation, before.read_version) == (12, "MERGE", "WRITE", 10)
    assert newest.parameters == {"predicate": '["a = 1"]', "mode": "x"}
    assert newest.metrics == {"numOutputRows": "3"}
    assert newest.engine is not None
    assert newest.engine.startswith("rowmerge/")
    assert [entry.version for entry in lake.table.history(3)] == [12, 11, 10]


def test_threads_open_one_table_together(lake: Lake) -> None:
    table = again(lake).table
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.append(table.snapshot().files().rows.num_rows)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [12] * 8


def test_actions_with_spaces_and_unknown_fields_are_understood(lake: Lake) -> None:
    file = lake.file([99])
    name = file.path.rpartition("/")[2]
    action = {
        "add": {"newField": {"a": [1]}, "path": name, "partitionValues": {}, "size": file.size, "modificationTime": 1, "dataChange": True}
    }
    unknown = json.dumps({"futureAction": {"x": 1}})
    commit_file(lake, 12).write_text(f"\n{unknown}\n  {json.dumps(action, indent=None)}  \n\n")
    assert 99 in lake.ids()


def test_in_one_commit_the_order_of_actions_means_nothing(lake: Lake) -> None:
    file = lake.file([99])
    name = file.path.rpartition("/")[2]
    add = {
        "add": {
            "path": name,
            "partitionValues": {},
            "size": file.size,
            "modificationTime": 1,
            "dataChange": False,
            "stats": '{"numRecords":1}',
        }
    }
    remove = {"remove": {"path": name, "deletionTimestamp": 5, "dataChange": False}}
    commit_file(lake, 12).write_text(f"{json.dumps(add)}\n{json.dumps(remove)}\n")
    assert 99 in lake.ids()
    commit_file(lake, 13).write_text(f"{json.dumps(remove)}\n")
    assert 99 not in lake.ids()
    commit_file(lake, 14).write_text(f"{json.dumps(add)}\n")
    assert lake.ids().count(99) == 1


def test_the_same_file_in_another_spelling_is_the_same_file(lake: Lake) -> None:
    file = lake.file([99], "a b")
    name = file.path.rpartition("/")[2]
    fields = {"partitionValues": {}, "size": file.size, "modificationTime": 1, "dataChange": True}
    commit_file(lake, 12).write_text(json.dumps({"add": {"path": f"a%20b/{name}", **fields}}) + "\n")
    assert 99 in lake.ids()
    commit_file(lake, 13).write_text(json.dumps({"remove": {"path": f"a b/{name}", "dataChange": True}}) + "\n")
    assert 99 not in lake.ids()
