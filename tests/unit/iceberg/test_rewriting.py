"""Manifests, position deletes and data files are written anew: no row changes, and what has nothing left to say leaves."""

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
from tests.support.table_operations import NO_SPARK, written


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three files of three rows."""
    lake = Lake(tmp_path / "t")
    lake.create()
    for first in (0, 10, 20):
        lake.append(range(first, first + 3))
    return lake


def live(lake: Lake) -> LiveFiles:
    return lake.table.snapshot().live


def deletes(lake: Lake) -> list[Entry]:
    return list(live(lake).deletes)


def told(lake: Lake) -> dict[str, str]:
    """What the newest snapshot says of itself."""
    snapshot = lake.current.metadata.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def everybody_reads(lake: Lake) -> list[int]:
    found = [read(lake.table.location, "id")["id"].to_pylist() for read in (read_with_pyiceberg, read_with_duckdb_iceberg)]
    assert found[0] == found[1] == lake.ids()
    return lake.ids()


# ------------------------------------------------------------------ manifests


def test_many_manifests_become_one_and_the_files_keep_their_age(lake: Lake) -> None:
    before = {entry.file.path: entry for entry in live(lake).data}
    assert lake.table.maintenance.rewrite_manifests() == RewrittenManifests(3, 1)
    (manifest,) = live(lake).manifests
    after = {entry.file.path: entry for entry in live(lake).data}
    assert {path: (entry.sequence_number, entry.file_sequence_number) for path, entry in after.items()} == {
        path: (entry.sequence_number, entry.file_sequence_number) for path, entry in before.items()
    }
    assert (manifest.added_files, manifest.existing_files, manifest.min_sequence_number) == (0, 3, 1)
    assert (told(lake)["operation"], told(lake)["total-records"], told(lake)["total-data-files"]) == ("replace", "9", "3")
    assert everybody_reads(lake) == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_where_one_manifest_is_enough_nothing_is_committed(lake: Lake) -> None:
    lake.table.maintenance.rewrite_manifests()
    snapshots, files = lake.snapshots, lake.on_disk()
    assert lake.table.maintenance.rewrite_manifests() == RewrittenManifests()
    assert (lake.snapshots, lake.on_disk()) == (snapshots, files)


def test_manifests_of_deletes_are_put_together_too(lake: Lake) -> None:
    for id_ in (0, 10, 20):
        lake.delete(id_)
    assert lake.table.maintenance.rewrite_manifests() == RewrittenManifests(6, 2)
    assert everybody_reads(lake) == [1, 2, 11, 12, 21, 22]


def test_an_append_that_comes_between_is_not_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    overtake(lake, monkeypatch, lambda other: other.append([90]))
    assert lake.table.maintenance.rewrite_manifests() == RewrittenManifests(4, 1)
    assert everybody_reads(lake) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 90]
    assert len([path for path in lake.on_disk("metadata") if path.endswith("-m0.avro")]) == 5, "what the lost attempt wrote is gone"


# ------------------------------------------------------------------ position deletes


def test_deletes_that_files_share_become_one_file_for_each(lake: Lake) -> None:
    lake.delete(0)
    lake.add_deletes(lake.shared_deletes(1, 11), lake.shared_deletes(2, 12))
    data = live(lake).data
    done = lake.table.maintenance.rewrite_position_deletes()
    assert (done.rewritten, done.added) == (3, 2)
    assert min(done.rewritten_bytes, done.added_bytes) > 0
    assert live(lake).data == data
    assert {lake.ids_in(entry.file.path)[0]: len(live(lake).position_deletes_of(entry)) for entry in data} == {0: 1, 10: 1, 20: 0}
    assert (told(lake)["operation"], told(lake)["total-delete-files"], told(lake)["total-position-deletes"]) == ("replace", "2", "5")
    assert everybody_reads(lake) == [10, 20, 21, 22]
    again = lake.table.snapshot().version
    assert lake.table.maintenance.rewrite_position_deletes().rewritten == 0
    assert lake.table.snapshot().version == again


def test_a_file_of_which_every_row_is_deleted_stays_marked(lake: Lake) -> None:
    lake.add_deletes(lake.shared_deletes(0, 1, 2), lake.shared_deletes(2, 11))
    assert lake.table.maintenance.rewrite_position_deletes().added == 2
    assert (len(lake.paths), everybody_reads(lake)) == (3, [10, 12, 20, 21, 22])


def test_deletes_of_files_that_are_gone_leave(lake: Lake) -> None:
    shared = lake.shared_deletes(0, 1, 2)
    lake.remove(0)
    lake.add_deletes(shared)
    done = lake.table.maintenance.rewrite_position_deletes()
    assert (done.rewritten, done.added, deletes(lake)) == (1, 0, [])
    assert everybody_reads(lake) == [10, 11, 12, 20, 21, 22]


def test_equality_deletes_stay_as_they_are(lake: Lake) -> None:
    lake.add_deletes(lake.equality_deletes(11), lake.shared_deletes(0, 1))
    lake.table.maintenance.rewrite_position_deletes()
    assert sorted(entry.file.content for entry in deletes(lake)) == [Content.POSITION_DELETES, Content.EQUALITY_DELETES]


def test_rows_that_are_deleted_meanwhile_stay_deleted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.add_deletes(lake.shared_deletes(0, 10))
    overtake(lake, monkeypatch, lambda other: other.delete(1, 20))
    lake.table.maintenance.rewrite_position_deletes()
    assert everybody_reads(lake) == [2, 11, 12, 21, 22]
    assert len(deletes(lake)) == 3


# ------------------------------------------------------------------ data files


def test_compaction_takes_delete_files_along_that_nothing_is_left_for(lake: Lake) -> None:
    lake.add_deletes(lake.shared_deletes(1, 11), lake.shared_deletes(21))
    optimize(NO_SPARK, lake.table, None)
    assert deletes(lake) == []
    assert (len(lake.paths), told(lake)["operation"], told(lake)["total-delete-files"]) == (1, "replace", "0")
    assert everybody_reads(lake) == [0, 2, 10, 12, 20, 22]


def moved(lake: Lake) -> CommitRequest:
    """All files written again as one, as a compaction does it; nothing is deleted of them."""
    snapshot = lake.table.snapshot()
    files = FileChanges(written(snapshot, lake.ids()), tuple(lake.paths))
    return CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset(lake.paths)), data_change=False)


def test_equality_deletes_that_come_meanwhile_apply_to_moved_rows_and_older_ones_do_not(lake: Lake) -> None:
    base, change = lake.table.snapshot(), moved(lake)
    assert base.iceberg_version is not None
    lake.add_deletes(lake.equality_deletes(11))
    committed(lake.table.commit(base, change))
    (data,) = live(lake).data
    assert data.sequence_number == base.iceberg_version.sequence_number
    assert len(live(lake).equality_deletes_of(data)) == 1
    assert read_with_duckdb_iceberg(lake.table.location, "id")["id"].to_pylist() == [0, 1, 2, 10, 12, 20, 21, 22]
    committed(lake.table.commit(lake.table.snapshot(), moved(lake)))
    assert deletes(lake) == [], "all rows are younger now"


def test_older_equality_deletes_stay_while_a_file_needs_them(lake: Lake) -> None:
    lake.add_deletes(lake.equality_deletes(1, 11))
    first, second, third = lake.paths
    snapshot = lake.table.snapshot()
    committed(
        lake.table.commit(
            snapshot, CommitRequest("OPTIMIZE", files=FileChanges(written(snapshot, [0, 2]), (first,)), reads=Reads(), data_change=False)
        )
    )
    assert len(deletes(lake)) == 1
    assert {len(live(lake).equality_deletes_of(entry)) for entry in live(lake).data} == {0, 1}
    snapshot = lake.table.snapshot()
    change = CommitRequest("OPTIMIZE", files=FileChanges(written(snapshot, [10, 12]), (second, third)), reads=Reads(), data_change=False)
    committed(lake.table.commit(snapshot, change))
    assert deletes(lake) == []


@pytest.mark.parametrize("marks", ["file", "partition"])
def test_rows_that_others_mark_in_moved_files_stop_the_move(lake: Lake, marks: str) -> None:
    base, change = lake.table.snapshot(), moved(lake)
    if marks == "file":
        lake.delete(11)
    else:
        lake.add_deletes(lake.shared_deletes(11, 21))
    outcome = lake.table.commit(base, change)
    assert isinstance(outcome, Conflicted)
    assert isinstance(outcome.conflict, CommitConflict)
    assert 11 not in lake.ids()


def test_what_the_main_branch_says_of_its_snapshots_stays(lake: Lake) -> None:
    newest = lake.snapshots[-1]
    lake.update(SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=newest, min_snapshots_to_keep=7))
    lake.append([30])
    lake.table.maintenance.rewrite_manifests()
    assert lake.current.metadata.refs["main"].min_snapshots_to_keep == 7


def overtake(lake: Lake, monkeypatch: pytest.MonkeyPatch, do: object) -> None:
    """Somebody else commits just before our first commit."""
    other = Lake(lake.folder)
    commit = lake.operations.commit

    def late(*arguments: object) -> object:
        monkeypatch.setattr(lake.operations, "commit", commit)
        do(other)  # type: ignore[operator]
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.operations, "commit", late)
