"""Races beyond pairs of commands: compactions followed by deletes, foreign snapshots, and histories that expired or were rolled back."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import RemoveSnapshotsUpdate

from rowmerge.errors import (
    ConcurrentDeleteDelete,
    ConcurrentDeleteRead,
    ConcurrentTransaction,
    MetadataChanged,
    TableNotFound,
    VersionNotFound,
)
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.maintenance.dropping import drop_table
from rowmerge.iceberg.metadata.refs import MAIN, point_branch_at
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.request import CommitRequest, Committed, Reads
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.iceberg_lake import Lake
from tests.support.table_operations import write_rows
from tests.unit.iceberg.foreign_commits import commit_files, deletes_of_many, equality_deletes
from tests.unit.iceberg.races import conflict, deleting, insert_only_merge, path_of


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table of two files, with the ids 0 to 9 and 10 to 19."""
    table_lake = Lake(tmp_path / "t")
    table_lake.create()
    table_lake.append(range(10))
    table_lake.append(range(10, 20))
    return table_lake


def compact(lake: Lake, *ids: int) -> None:
    """Rewrite the files with these ids as one file."""
    base = lake.table.snapshot()
    paths = sorted({path_of(lake, base, id_) for id_ in ids})
    deleted = base.deleted_positions(paths)
    rows = [id_ for path in paths for at, id_ in enumerate(lake.ids_in(path)) if at not in deleted.get(path, ())]
    files = FileChanges(write_rows(base, rows), tuple(paths))
    outcome = lake.table.commit(base, CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset(paths)), data_change=False))
    assert isinstance(outcome, Committed)


def roll_back(lake: Lake, snapshot: int) -> None:
    lake.update(point_branch_at(lake.current.metadata, MAIN, snapshot))


# ------------------------------------------------------------------ metadata under another name


class Overtaken(Storage):
    """Storage on which another writer's compressed metadata of the same version appears just after the own put."""

    foreign_metadata = b""

    def put_if_absent(self, path: str, data: bytes) -> Put:
        put = super().put_if_absent(path, data)
        if self.foreign_metadata and path.endswith(".metadata.json"):
            super().put(path.replace(".metadata", ".gz.metadata"), self.foreign_metadata)
            self.foreign_metadata = b""
        return put


@pytest.mark.parametrize("arrives", ["before ours", "after ours"])
def test_compressed_metadata_of_another_writer_wins_the_race(lake: Lake, arrives: str) -> None:
    base = lake.table.snapshot()
    lake.append(range(20, 30))
    foreign_metadata = lake.folder / "metadata" / "v4.metadata.json"
    storage = Overtaken(str(lake.folder))
    if arrives == "before ours":
        foreign_metadata.with_name("v4.gz.metadata.json").write_bytes(gzip.compress(foreign_metadata.read_bytes()))
    else:
        storage.foreign_metadata = gzip.compress(foreign_metadata.read_bytes())
    foreign_metadata.unlink()
    table = IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")
    outcome = table.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, range(30, 40)))))
    assert isinstance(outcome, Committed)
    assert {path.name for path in (lake.folder / "metadata").glob("v[45].*")} == {"v4.gz.metadata.json", "v5.metadata.json"}
    assert sorted(id_ for path in table.snapshot().files().paths for id_ in lake.ids_in(path)) == list(range(40))


# ------------------------------------------------------------------ compactions


def test_a_compaction_does_not_conflict_with_reads_of_its_rows(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = insert_only_merge(lake, base, 3)
    compact(lake, 3, 13)
    assert isinstance(lake.table.commit(base, change), Committed)
    assert lake.ids() == [*range(20), 100]


@pytest.mark.parametrize("with_its_file", [False, True])
def test_deletes_of_read_rows_conflict_after_compactions(lake: Lake, with_its_file: bool) -> None:
    base = lake.table.snapshot()
    change = insert_only_merge(lake, base, 3)
    compact(lake, 3, 13)
    compact(lake, 3)
    if with_its_file:
        lake.change(removed=(path_of(lake, lake.table.snapshot(), 3),))
    else:
        lake.delete(3)
    assert conflict(lake.table.commit(base, change)) is ConcurrentDeleteRead


def test_a_compaction_conflicts_with_deletes_of_its_rows(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    compact(lake, 3, 13)
    assert conflict(lake.table.commit(base, change)) is ConcurrentDeleteRead
    base = lake.table.snapshot()
    path = path_of(lake, base, 3)
    files = FileChanges(write_rows(base, range(20)), (path,))
    lake.delete(3)
    change = CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset({path})), data_change=False)
    assert conflict(lake.table.commit(base, change)) is ConcurrentDeleteRead
    assert lake.ids() == [0, 1, 2, *range(4, 20)]


# ------------------------------------------------------------------ delete files


def test_rewritten_shared_delete_files_still_apply_after_a_delete(lake: Lake) -> None:
    base = lake.table.snapshot()
    first, second = path_of(lake, base, 3), path_of(lake, base, 13)
    shared = deletes_of_many(lake.storage, {first: [3], second: [3]})
    commit_files(lake.operations, Operation.OVERWRITE, [shared])
    base = lake.table.snapshot()
    change = deleting(lake, base, 4, 5)
    apart = [deletes_of_many(lake.storage, {path: [3]}) for path in (first, second)]
    commit_files(lake.operations, Operation.REPLACE, apart, [shared.path])
    outcome = lake.table.commit(base, change)
    assert isinstance(outcome, Committed) and not outcome.rebases
    assert lake.ids() == [0, 1, 2, *range(6, 13), *range(14, 20)]
    live = lake.table.snapshot().live
    assert len(live.deletes) == 2 and apart[0].path not in {entry.file.path for entry in live.deletes}


def test_concurrent_deletes_merge_into_one_delete_file(lake: Lake) -> None:
    lake.delete(1)
    base = lake.table.snapshot()
    change = deleting(lake, base, 2)
    lake.delete(3)
    lake.delete(4)
    outcome = lake.table.commit(base, change)
    assert isinstance(outcome, Committed) and outcome.rebases == 2
    assert lake.ids() == [0, *range(5, 20)]
    (delete,) = lake.table.snapshot().live.deletes
    assert delete.file.records == 4


def test_a_file_without_live_rows_after_a_rebase_is_removed(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, *range(5))
    lake.delete(*range(5, 10))
    assert isinstance(lake.table.commit(base, change), Committed)
    assert lake.ids() == list(range(10, 20))
    assert lake.table.snapshot().files().rows.num_rows == 1 and not lake.table.snapshot().live.deletes


def test_equality_deletes_conflict_with_commands_that_read_rows(lake: Lake) -> None:
    base = lake.table.snapshot()
    path = path_of(lake, base, 3)
    changes = [
        deleting(lake, base, 4),
        insert_only_merge(lake, base, 3),
        CommitRequest("MERGE", files=FileChanges(write_rows(base, range(10)), (path,)), reads=Reads(frozenset({path}))),
    ]
    commit_files(lake.operations, Operation.DELETE, [equality_deletes(lake.storage, [3])])
    assert [conflict(lake.table.commit(base, change)) for change in changes] == [ConcurrentDeleteRead] * 3
    assert isinstance(lake.table.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, [3])))), Committed)
    deletes = lake.table.snapshot().equality_deletes(lake.table.snapshot().files().paths)
    assert sorted(min(lake.ids_in(path)) for path in deletes[0].applies_to) == [0, 10], "the row that came later stays"


@pytest.mark.parametrize("divided", [False, True])
def test_equality_deletes_apply_to_compacted_rows_of_the_same_partition(lake: Lake, divided: bool) -> None:
    if divided:
        definition = TableDefinition(partitioning=identities(("name",)))
        assert isinstance(lake.table.commit(lake.table.snapshot(), CommitRequest("ADD PARTITION FIELD", definition=definition)), Committed)
    base = lake.table.snapshot()
    path = path_of(lake, base, 3)
    files = FileChanges(write_rows(base, range(10)), (path,))
    change = CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset({path})), data_change=False)
    commit_files(lake.operations, Operation.DELETE, [equality_deletes(lake.storage, [3])])
    outcome = lake.table.commit(base, change)
    if divided:
        assert conflict(outcome) is ConcurrentDeleteRead
        return
    assert isinstance(outcome, Committed)
    snapshot = lake.table.snapshot()
    (deletes,) = snapshot.equality_deletes(snapshot.files().paths)
    assert len(deletes.applies_to) == 2


def test_a_file_missing_without_a_deleted_entry_conflicts(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    commit_files(lake.operations, Operation.OVERWRITE, removed=[path_of(lake, base, 3)], unsaid=True)
    assert conflict(lake.table.commit(base, change)) is ConcurrentDeleteDelete
    assert lake.ids() == list(range(10, 20))


def test_conflicts_are_detected_in_merged_manifests(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create({"commit.manifest.min-count-to-merge": "2"})
    for first in (0, 10, 20):
        lake.append(range(first, first + 10))
    base = lake.table.snapshot()
    change, same = deleting(lake, base, 3), deleting(lake, base, 5)
    lake.append([50])
    lake.delete(5)
    assert isinstance(lake.table.commit(base, change), Committed)
    assert lake.ids() == [id_ for id_ in [*range(30), 50] if id_ not in (3, 5)]
    assert conflict(lake.table.commit(base, same)) is ConcurrentDeleteDelete


def test_concurrent_transactions_of_one_application_conflict(lake: Lake) -> None:
    base = lake.table.snapshot()
    first, same, other = (
        CommitRequest("WRITE", files=FileChanges(write_rows(base, [id_])), transaction=(application, 1))
        for id_, application in ((30, "load"), (31, "load"), (32, "other"))
    )
    assert isinstance(lake.table.commit(base, first), Committed)
    assert conflict(lake.table.commit(base, same)) is ConcurrentTransaction
    assert isinstance(lake.table.commit(base, other), Committed)
    assert lake.ids() == [*range(20), 30, 32]


# ------------------------------------------------------------------ histories


def test_a_rollback_that_was_undone_does_not_conflict(lake: Lake) -> None:
    first, newest = lake.snapshots
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    roll_back(lake, first)
    roll_back(lake, newest)
    assert isinstance(lake.table.commit(base, change), Committed)
    assert lake.ids() == [0, 1, 2, *range(4, 20)]


@pytest.mark.parametrize("goes_on", [False, True], ids=["and stays", "and goes on"])
def test_a_rollback_conflicts_with_commits_on_later_snapshots(lake: Lake, goes_on: bool) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    roll_back(lake, lake.snapshots[0])
    if goes_on:
        lake.append([30])
    assert conflict(lake.table.commit(base, change)) is MetadataChanged


@pytest.mark.parametrize("expired", ["the base", "one between"])
def test_expired_snapshots_after_the_base_conflict(lake: Lake, expired: str) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    between = lake.delete(4)
    lake.append([30])
    lake.update(RemoveSnapshotsUpdate(snapshot_ids=[base.version if expired == "the base" else between]))
    assert conflict(lake.table.commit(base, change)) is MetadataChanged


def test_an_expired_first_snapshot_conflicts(tmp_path: Path) -> None:
    """pyiceberg clears the parent id of an expired parent, so the second snapshot looks like the first."""
    lake = Lake(tmp_path / "t")
    lake.create()
    base = lake.table.snapshot()
    first = lake.append([1])
    lake.append([2])
    lake.update(RemoveSnapshotsUpdate(snapshot_ids=[first]))
    change = CommitRequest("MERGE", files=FileChanges(write_rows(base, [1])), reads=Reads(frozenset(), every_file))
    assert conflict(lake.table.commit(base, change)) is MetadataChanged
    other = Lake(tmp_path / "other")
    other.create()
    base = other.table.snapshot()
    other.append([1])
    assert isinstance(other.table.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, [2])))), Committed)


def test_restoring_a_concurrently_expired_snapshot_is_refused(lake: Lake) -> None:
    base, expired = lake.table.snapshot(), lake.table.snapshot_at(version=lake.snapshots[0])
    lake.update(RemoveSnapshotsUpdate(snapshot_ids=[expired.version]))
    with pytest.raises(VersionNotFound, match="has expired in the meantime"):
        lake.table.commit(base, CommitRequest("RESTORE", restored=expired))


def test_a_recreated_table_with_equal_commit_count_conflicts(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    shutil.rmtree(lake.folder)
    other = Lake(lake.folder)
    other.create()
    other.append([1, 2])
    other.append([3])
    assert conflict(lake.table.commit(base, change)) is MetadataChanged
    assert Lake(lake.folder).ids() == [1, 2, 3]


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_commit_on_a_dropped_table_conflicts(lake: Lake, made_anew: bool) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    drop_table(lake.storage, "s.t")
    if made_anew:
        Lake(lake.folder).create()
    versions = {path for path in lake.on_disk() if path.endswith(".json")}
    assert conflict(lake.table.commit(base, change)) is MetadataChanged
    assert {path for path in lake.on_disk() if path.endswith(".json")} == versions
    assert Lake(lake.folder).table.exists() is made_anew


def test_a_commit_during_a_drop_raises_table_not_found(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    lake.storage.put("metadata/_dropped.json", b"{}")
    original_files = lake.on_disk() - {"metadata/version-hint.text"}
    with pytest.raises(TableNotFound):
        lake.table.commit(base, change)
    assert lake.on_disk() == original_files
