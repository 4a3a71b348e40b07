"""Rewrites of manifests, position deletes and data files keep all rows and remove entries that no longer apply."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table.update import SetSnapshotRefUpdate

from rowmerge.errors import CommitConflict
from rowmerge.execution.compaction import optimize
from rowmerge.iceberg.manifests.content import Content, Entry
from rowmerge.iceberg.snapshots.live_files import LiveFiles
from rowmerge.table.commits.request import CommitRequest, Conflicted, Reads
from rowmerge.table.maintenance import RewrittenManifests
from rowmerge.table.snapshots.files import FileChanges
from tests.support.delta_tables import committed
from tests.support.iceberg_lake import Lake
from tests.support.readers import read_with_duckdb_iceberg, read_with_pyiceberg
from tests.support.table_operations import NO_SPARK, write_rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table of three files of three rows each."""
    lake = Lake(tmp_path / "t")
    lake.create()
    for first in (0, 10, 20):
        lake.append(range(first, first + 3))
    return lake


def live_files(lake: Lake) -> LiveFiles:
    return lake.table.snapshot().live


def deletes(lake: Lake) -> list[Entry]:
    return list(live_files(lake).deletes)


def summary_of(lake: Lake) -> dict[str, str]:
    """Return the operation and the summary of the newest snapshot."""
    snapshot = lake.current.metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def ids_of_all_readers(lake: Lake) -> list[int]:
    ids = [read(lake.table.location, "id")["id"].to_pylist() for read in (read_with_pyiceberg, read_with_duckdb_iceberg)]
    assert ids[0] == ids[1] == lake.ids()
    return lake.ids()


# ------------------------------------------------------------------ manifests


def test_rewritten_manifests_keep_the_sequence_numbers_of_files(lake: Lake) -> None:
    original = {entry.file.path: entry for entry in live_files(lake).data}
    assert lake.table.maintenance.rewrite_manifests() == RewrittenManifests(3, 1)
    (manifest,) = live_files(lake).manifests
    rewritten = {entry.file.path: entry for entry in live_files(lake).data}
    assert {path: (entry.sequence_number, entry.file_sequence_number) for path, entry in rewritten.items()} == {
        path: (entry.sequence_number, entry.file_sequence_number) for path, entry in original.items()
    }
    assert (manifest.added_files, manifest.existing_files, manifest.min_sequence_number) == (0, 3, 1)
    assert (summary_of(lake)["operation"], summary_of(lake)["total-records"], summary_of(lake)["total-data-files"]) == ("replace", "9", "3")
    assert ids_of_all_readers(lake) == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_a_single_manifest_is_not_rewritten(lake: Lake) -> None:
    lake.table.maintenance.rewrite_manifests()
    snapshots, files = lake.snapshots, lake.on_disk()
    assert lake.table.maintenance.rewrite_manifests() == RewrittenManifests()
    assert (lake.snapshots, lake.on_disk()) == (snapshots, files)


def test_delete_manifests_are_merged(lake: Lake) -> None:
    for id_ in (0, 10, 20):
        lake.delete(id_)
    assert lake.table.maintenance.rewrite_manifests() == RewrittenManifests(6, 2)
    assert ids_of_all_readers(lake) == [1, 2, 11, 12, 21, 22]


def test_a_manifest_rewrite_keeps_a_concurrent_append(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    overtake(lake, monkeypatch, lambda other: other.append([90]))
    assert lake.table.maintenance.rewrite_manifests() == RewrittenManifests(4, 1)
    assert ids_of_all_readers(lake) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 90]
    assert len([path for path in lake.on_disk("metadata") if path.endswith("-m0.avro")]) == 5, "what the lost attempt wrote is gone"


# ------------------------------------------------------------------ position deletes


def test_shared_delete_files_are_rewritten_per_data_file(lake: Lake) -> None:
    lake.delete(0)
    lake.add_deletes(lake.shared_deletes(1, 11), lake.shared_deletes(2, 12))
    data = live_files(lake).data
    result = lake.table.maintenance.rewrite_position_deletes()
    assert (result.rewritten, result.added) == (3, 2)
    assert min(result.rewritten_bytes, result.added_bytes) > 0
    assert live_files(lake).data == data
    assert {lake.ids_in(entry.file.path)[0]: len(live_files(lake).position_deletes_of(entry)) for entry in data} == {0: 1, 10: 1, 20: 0}
    assert (summary_of(lake)["operation"], summary_of(lake)["total-delete-files"], summary_of(lake)["total-position-deletes"]) == (
        "replace",
        "2",
        "5",
    )
    assert ids_of_all_readers(lake) == [10, 20, 21, 22]
    version = lake.table.snapshot().version
    assert lake.table.maintenance.rewrite_position_deletes().rewritten == 0
    assert lake.table.snapshot().version == version


def test_a_delete_rewrite_keeps_files_without_live_rows(lake: Lake) -> None:
    lake.add_deletes(lake.shared_deletes(0, 1, 2), lake.shared_deletes(2, 11))
    assert lake.table.maintenance.rewrite_position_deletes().added == 2
    assert (len(lake.paths), ids_of_all_readers(lake)) == (3, [10, 12, 20, 21, 22])


def test_a_delete_rewrite_removes_deletes_of_removed_files(lake: Lake) -> None:
    shared = lake.shared_deletes(0, 1, 2)
    lake.remove(0)
    lake.add_deletes(shared)
    result = lake.table.maintenance.rewrite_position_deletes()
    assert (result.rewritten, result.added, deletes(lake)) == (1, 0, [])
    assert ids_of_all_readers(lake) == [10, 11, 12, 20, 21, 22]


def test_a_delete_rewrite_keeps_equality_deletes(lake: Lake) -> None:
    lake.add_deletes(lake.equality_deletes(11), lake.shared_deletes(0, 1))
    lake.table.maintenance.rewrite_position_deletes()
    assert sorted(entry.file.content for entry in deletes(lake)) == [Content.POSITION_DELETES, Content.EQUALITY_DELETES]


def test_a_delete_rewrite_keeps_concurrent_deletes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.add_deletes(lake.shared_deletes(0, 10))
    overtake(lake, monkeypatch, lambda other: other.delete(1, 20))
    lake.table.maintenance.rewrite_position_deletes()
    assert ids_of_all_readers(lake) == [2, 11, 12, 21, 22]
    assert len(deletes(lake)) == 3


# ------------------------------------------------------------------ data files


def test_compaction_removes_delete_files_without_data_files(lake: Lake) -> None:
    lake.add_deletes(lake.shared_deletes(1, 11), lake.shared_deletes(21))
    optimize(NO_SPARK, lake.table, None)
    assert deletes(lake) == []
    assert (len(lake.paths), summary_of(lake)["operation"], summary_of(lake)["total-delete-files"]) == (1, "replace", "0")
    assert ids_of_all_readers(lake) == [0, 2, 10, 12, 20, 22]


def compaction_request(lake: Lake) -> CommitRequest:
    """Return a compaction of all files into one."""
    snapshot = lake.table.snapshot()
    files = FileChanges(write_rows(snapshot, lake.ids()), tuple(lake.paths))
    return CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset(lake.paths)), data_change=False)


def test_concurrent_equality_deletes_apply_to_compacted_rows(lake: Lake) -> None:
    base, change = lake.table.snapshot(), compaction_request(lake)
    assert base.iceberg_version is not None
    lake.add_deletes(lake.equality_deletes(11))
    committed(lake.table.commit(base, change))
    (data,) = live_files(lake).data
    assert data.sequence_number == base.iceberg_version.sequence_number
    assert len(live_files(lake).equality_deletes_of(data)) == 1
    assert read_with_duckdb_iceberg(lake.table.location, "id")["id"].to_pylist() == [0, 1, 2, 10, 12, 20, 21, 22]
    committed(lake.table.commit(lake.table.snapshot(), compaction_request(lake)))
    assert deletes(lake) == [], "all rows are younger now"


def test_equality_deletes_are_removed_with_their_last_data_file(lake: Lake) -> None:
    lake.add_deletes(lake.equality_deletes(1, 11))
    first, second, third = lake.paths
    snapshot = lake.table.snapshot()
    committed(
        lake.table.commit(
            snapshot, CommitRequest("OPTIMIZE", files=FileChanges(write_rows(snapshot, [0, 2]), (first,)), reads=Reads(), data_change=False)
        )
    )
    assert len(deletes(lake)) == 1
    assert {len(live_files(lake).equality_deletes_of(entry)) for entry in live_files(lake).data} == {0, 1}
    snapshot = lake.table.snapshot()
    change = CommitRequest("OPTIMIZE", files=FileChanges(write_rows(snapshot, [10, 12]), (second, third)), reads=Reads(), data_change=False)
    committed(lake.table.commit(snapshot, change))
    assert deletes(lake) == []


@pytest.mark.parametrize("marks", ["file", "partition"])
def test_concurrent_position_deletes_conflict_with_a_compaction(lake: Lake, marks: str) -> None:
    base, change = lake.table.snapshot(), compaction_request(lake)
    if marks == "file":
        lake.delete(11)
    else:
        lake.add_deletes(lake.shared_deletes(11, 21))
    outcome = lake.table.commit(base, change)
    assert isinstance(outcome, Conflicted)
    assert isinstance(outcome.conflict, CommitConflict)
    assert 11 not in lake.ids()


def test_commits_preserve_the_retention_of_the_main_branch(lake: Lake) -> None:
    newest = lake.snapshots[-1]
    lake.update(SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=newest, min_snapshots_to_keep=7))
    lake.append([30])
    lake.table.maintenance.rewrite_manifests()
    assert lake.current.metadata.refs["main"].min_snapshots_to_keep == 7


def overtake(lake: Lake, monkeypatch: pytest.MonkeyPatch, act: object) -> None:
    """Let another writer commit just before the next commit."""
    other = Lake(lake.folder)
    commit = lake.operations.commit

    def act_and_commit(*arguments: object) -> object:
        monkeypatch.setattr(lake.operations, "commit", commit)
        act(other)  # type: ignore[operator]
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.operations, "commit", act_and_commit)
