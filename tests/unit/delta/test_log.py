"""Versions of a table are read from its log, and a log with gaps or damaged files is rejected with the file's path."""

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
    """Create a table of versions 0 to 11, each with one more row, and a checkpoint of version 10."""
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([0])))
    for version in range(1, 12):
        assert committed(lake.append([version])) == version
    return lake


def reopen(lake: Lake) -> Lake:
    """Open the table without cached state."""
    return Lake(lake.folder)


def commit_file(lake: Lake, version: int) -> Path:
    return lake.folder / commit_path(version)


def test_a_missing_table_raises_table_not_found(tmp_path: Path) -> None:
    table = DeltaTable(Storage(str(tmp_path / "none")), "s.none")
    assert not table.exists()
    with pytest.raises(TableNotFound, match="s.none"):
        table.snapshot()
    with pytest.raises(TableNotFound):
        table.history()
    assert not (tmp_path / "none").exists()


def test_every_version_is_readable(lake: Lake) -> None:
    for version in range(12):
        snapshot = reopen(lake).table.snapshot_at(version=version)
        assert (snapshot.version, snapshot.files().rows.num_rows) == (version, version + 1)


@pytest.mark.parametrize("version", [-1, 12])
def test_an_unknown_version_is_reported_with_available_versions(lake: Lake, version: int) -> None:
    with pytest.raises(VersionNotFound, match="versions 0 to 11"):
        lake.table.snapshot_at(version=version)


def test_a_version_older_than_the_log_is_reported(lake: Lake) -> None:
    for version in range(8):
        commit_file(lake, version).unlink()
    with pytest.raises(VersionNotFound, match="versions 10 to 11"):
        reopen(lake).table.snapshot_at(version=9)


def test_a_truncated_commit_is_reported_by_path_and_line(lake: Lake) -> None:
    path = commit_file(lake, 11)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptLog) as corrupt:
        reopen(lake).table.snapshot()
    assert corrupt.value.path == f"file://{path}"
    assert corrupt.value.line == 2


@pytest.mark.parametrize("content", ["", "\n\n", "null\n", "[1]\n", '{"add":{"size":1}}\n', '{"add":{"path":5}}\n', '{"commitInfo":{}'])
def test_an_invalid_commit_is_reported_by_path(lake: Lake, content: str) -> None:
    path = commit_file(lake, 11)
    path.write_text(content)
    with pytest.raises(CorruptLog) as corrupt:
        reopen(lake).table.snapshot()
    assert corrupt.value.path == f"file://{path}"


def test_one_invalid_commit_among_many_is_reported_by_path(lake: Lake) -> None:
    shutil.rmtree(lake.folder / "_delta_log" / "_last_checkpoint", ignore_errors=True)
    (lake.folder / checkpoint_path(10)).unlink()
    path = commit_file(lake, 4)
    path.write_text('{"add":{"path":"p","size":"big"}}\n')
    with pytest.raises(CorruptLog) as corrupt:
        reopen(lake).table.snapshot()
    assert corrupt.value.path == f"file://{path}"


def test_a_missing_commit_is_reported_by_path(lake: Lake) -> None:
    (lake.folder / checkpoint_path(10)).unlink()
    commit_file(lake, 5).unlink()
    with pytest.raises(CorruptLog) as corrupt:
        reopen(lake).table.snapshot()
    assert corrupt.value.path == f"file://{commit_file(lake, 5)}"
    assert reopen(lake).table.snapshot_at(version=4).version == 4


def test_a_log_without_version_0_or_a_checkpoint_is_corrupt(lake: Lake) -> None:
    (lake.folder / checkpoint_path(10)).unlink()
    commit_file(lake, 0).unlink()
    with pytest.raises(CorruptLog, match="00000000000000000000.json"):
        reopen(lake).table.snapshot()


def test_a_log_without_metadata_is_corrupt(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text('{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n')
    with pytest.raises(CorruptLog, match="no metaData"):
        DeltaTable(Storage(str(tmp_path)), "t").snapshot()


@pytest.mark.parametrize(
    "hint", [None, "", "{", "[]", '{"version":"x"}', '{"version":7}', '{"version":99}', '{"version":10}', '{"version":-3}']
)
def test_a_missing_or_wrong_last_checkpoint_hint_has_no_effect(lake: Lake, hint: str | None) -> None:
    path = lake.log / "_last_checkpoint"
    path.unlink() if hint is None else path.write_text(hint)
    assert reopen(lake).ids() == list(range(12))


def test_commits_below_a_checkpoint_are_not_needed(lake: Lake) -> None:
    for version in range(11):
        commit_file(lake, version).unlink()
    assert reopen(lake).ids() == list(range(12))


def test_an_unreadable_checkpoint_is_skipped(lake: Lake) -> None:
    (lake.folder / checkpoint_path(10)).write_bytes(b"PAR1 no more")
    assert reopen(lake).ids() == list(range(12))


def test_an_unreadable_required_checkpoint_is_reported_by_path(lake: Lake) -> None:
    (lake.folder / checkpoint_path(10)).write_bytes(b"PAR1 no more")
    commit_file(lake, 3).unlink()
    commit_file(lake, 0).unlink()
    with pytest.raises(CorruptLog) as corrupt:
        reopen(lake).table.snapshot()
    assert corrupt.value.path == f"file://{lake.folder / checkpoint_path(10)}"


def test_an_incomplete_multi_part_checkpoint_is_skipped(lake: Lake) -> None:
    name = lake.log / f"{11:020d}.checkpoint.{1:010d}.{2:010d}.parquet"
    shutil.copy(lake.folder / checkpoint_path(10), name)
    (lake.log / "_last_checkpoint").write_text('{"version":11,"parts":2}')
    for version in range(11):
        commit_file(lake, version).unlink()
    assert reopen(lake).ids() == list(range(12))


def test_unrelated_files_in_the_log_folder_are_ignored(lake: Lake) -> None:
    for name in (
        f"{12:020d}.json.tmp",
        f".{12:020d}.json.crc",
        f"{11:020d}.crc",
        f"{3:020d}.{7:020d}.compacted.json",
        "notes.txt",
        "12.json",
    ):
        (lake.log / name).write_text("nothing")
    assert reopen(lake).table.snapshot().version == 11


def test_a_new_snapshot_reads_only_new_commits(lake: Lake) -> None:
    first = lake.table.snapshot()
    assert lake.table.snapshot() is first
    other = reopen(lake)
    committed(other.append([100]))
    for version in range(11):
        commit_file(lake, version).unlink()
    (lake.folder / checkpoint_path(10)).unlink()
    second = lake.table.snapshot()
    assert (second.version, second.files().rows.num_rows) == (12, 13)
    assert first.files().rows.num_rows == 12


def test_a_recreated_table_is_detected(lake: Lake) -> None:
    lake.table.snapshot()
    shutil.rmtree(lake.folder)
    other = Lake(lake.folder)
    committed(other.create(other.file([7])))
    assert lake.ids() == [7]
    shutil.rmtree(lake.folder)
    with pytest.raises(TableNotFound):
        lake.table.snapshot()


def test_a_recreated_table_with_more_versions_is_detected(lake: Lake) -> None:
    lake.table.snapshot()
    shutil.rmtree(lake.folder)
    other = Lake(lake.folder)
    committed(other.create(other.file([70])))
    for version in range(1, 13):
        committed(other.append([70 + version]))
    assert lake.ids() == list(range(70, 83))


def test_a_timestamp_selects_the_version_current_at_that_time(lake: Lake) -> None:
    for version in range(12):
        os.utime(commit_file(lake, version), (1000 + version, 1000 + version))
    # A version is never older than the version before it, even if the clock was set back.
    os.utime(commit_file(lake, 5), (900, 900))
    at = [reopen(lake).table.snapshot_at(timestamp=moment).version for moment in (1_000_000, 1_003_999, 1_004_000, 1_006_000, 9_000_000)]
    assert at == [0, 3, 5, 6, 11]
    with pytest.raises(VersionNotFound):
        reopen(lake).table.snapshot_at(timestamp=999_999)
    assert reopen(lake).table.snapshot_at(version=7).timestamp == 1_007_000


def test_history_lists_commits_newest_first(lake: Lake) -> None:
    lake.commit(
        "MERGE", added=(lake.file([50]),), parameters={"predicate": ["a = 1"], "none": None, "mode": "x"}, metrics={"numOutputRows": 3}
    )
    newest, previous, *_ = lake.table.history()
    assert len(lake.table.history()) == 13
    assert (newest.version, newest.operation, previous.operation, previous.read_version) == (12, "MERGE", "WRITE", 10)
    assert newest.parameters == {"predicate": '["a = 1"]', "mode": "x"}
    assert newest.metrics == {"numOutputRows": "3"}
    assert newest.engine is not None
    assert newest.engine.startswith("rowmerge/")
    assert [entry.version for entry in lake.table.history(3)] == [12, 11, 10]


def test_concurrent_threads_open_the_same_table(lake: Lake) -> None:
    table = reopen(lake).table
    row_counts: list[int] = []
    threads = [threading.Thread(target=lambda: row_counts.append(table.snapshot().files().rows.num_rows)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert row_counts == [12] * 8


def test_actions_with_whitespace_and_unknown_fields_are_read(lake: Lake) -> None:
    file = lake.file([99])
    name = file.path.rpartition("/")[2]
    action = {
        "add": {"newField": {"a": [1]}, "path": name, "partitionValues": {}, "size": file.size, "modificationTime": 1, "dataChange": True}
    }
    unknown = json.dumps({"futureAction": {"x": 1}})
    commit_file(lake, 12).write_text(f"\n{unknown}\n  {json.dumps(action, indent=None)}  \n\n")
    assert 99 in lake.ids()


def test_the_order_of_actions_in_a_commit_is_irrelevant(lake: Lake) -> None:
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


def test_encoded_and_plain_paths_identify_the_same_file(lake: Lake) -> None:
    file = lake.file([99], "a b")
    name = file.path.rpartition("/")[2]
    fields = {"partitionValues": {}, "size": file.size, "modificationTime": 1, "dataChange": True}
    commit_file(lake, 12).write_text(json.dumps({"add": {"path": f"a%20b/{name}", **fields}}) + "\n")
    assert 99 in lake.ids()
    commit_file(lake, 13).write_text(json.dumps({"remove": {"path": f"a b/{name}", "dataChange": True}}) + "\n")
    assert 99 not in lake.ids()
