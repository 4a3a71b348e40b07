"""Commits that meet what two commands alone do not show: compactions and then deletes, foreign snapshots, histories cut or gone back."""

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
from tests.support.table_operations import written
from tests.unit.iceberg.foreign_commits import commit_files, deletes_of_many, equality_deletes
from tests.unit.iceberg.races import conflict, deleting, keeping_out, path_of


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two files: the ids 0 to 9 and 10 to 19."""
    made = Lake(tmp_path / "t")
    made.create()
    made.append(range(10))
    made.append(range(10, 20))
    return made


def compact(lake: Lake, *ids: int) -> None:
    """The files that hold these ids become one."""
    base = lake.table.snapshot()
    paths = sorted({path_of(lake, base, id_) for id_ in ids})
    known = base.deleted_positions(paths)
    rows = [id_ for path in paths for at, id_ in enumerate(lake.ids_in(path)) if at not in known.get(path, ())]
    files = FileChanges(written(base, rows), tuple(paths))
    outcome = lake.table.commit(base, CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset(paths)), data_change=False))
    assert isinstance(outcome, Committed)


def back_to(lake: Lake, snapshot: int) -> None:
    lake.update(point_branch_at(lake.current.metadata, MAIN, snapshot))


# ------------------------------------------------------------------ metadata under another name


class Overtaken(Storage):
    """Another writer's compressed metadata of the same version arrives right after ours."""

    theirs = b""

    def put_if_absent(self, path: str, data: bytes) -> Put:
        put = super().put_if_absent(path, data)
        if self.theirs and path.endswith(".metadata.json"):
            super().put(path.replace(".metadata", ".gz.metadata"), self.theirs)
            self.theirs = b""
        return put


@pytest.mark.parametrize("arrives", ["before ours", "after ours"])
def test_a_version_that_another_writer_compressed_is_a_commit_before_ours(lake: Lake, arrives: str) -> None:
    base = lake.table.snapshot()
    lake.append(range(20, 30))
    theirs = lake.folder / "metadata" / "v4.metadata.json"
    storage = Overtaken(str(lake.folder))
    if arrives == "before ours":
        theirs.with_name("v4.gz.metadata.json").write_bytes(gzip.compress(theirs.read_bytes()))
    else:
        storage.theirs = gzip.compress(theirs.read_bytes())
    theirs.unlink()
    table = IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")
    outcome = table.commit(base, CommitRequest("WRITE", files=FileChanges(written(base, range(30, 40)))))
    assert isinstance(outcome, Committed)
    assert {path.name for path in (lake.folder / "metadata").glob("v[45].*")} == {"v4.gz.metadata.json", "v5.metadata.json"}
    assert sorted(id_ for path in table.snapshot().files().paths for id_ in lake.ids_in(path)) == list(range(40))


# ------------------------------------------------------------------ compactions


def test_a_compaction_alone_minds_nobody_who_read_its_rows(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = keeping_out(lake, base, 3)
    compact(lake, 3, 13)
    assert isinstance(lake.table.commit(base, change), Committed)
    assert lake.ids() == [*range(20), 100]


@pytest.mark.parametrize("with_its_file", [False, True])
def test_a_row_that_mattered_is_followed_through_compactions(lake: Lake, with_its_file: bool) -> None:
    base = lake.table.snapshot()
    change = keeping_out(lake, base, 3)
    compact(lake, 3, 13)
    compact(lake, 3)
    if with_its_file:
        lake.change(removed=(path_of(lake, lake.table.snapshot(), 3),))
    else:
        lake.delete(3)
    assert conflict(lake.table.commit(base, change)) is ConcurrentDeleteRead


def test_a_compaction_and_a_delete_of_its_rows_never_both_stand(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    compact(lake, 3, 13)
    assert conflict(lake.table.commit(base, change)) is ConcurrentDeleteRead
    base = lake.table.snapshot()
    path = path_of(lake, base, 3)
    files = FileChanges(written(base, range(20)), (path,))
    lake.delete(3)
    change = CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset({path})), data_change=False)
    assert conflict(lake.table.commit(base, change)) is ConcurrentDeleteRead
    assert lake.ids() == [0, 1, 2, *range(4, 20)]


# ------------------------------------------------------------------ delete files


def test_deletes_that_many_shared_and_were_rewritten_are_not_lost(lake: Lake) -> None:
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


def test_two_that_supersede_one_delete_file_leave_one_with_the_rows_of_both(lake: Lake) -> None:
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


def test_the_last_rows_of_a_file_may_leave_by_two_commits(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, *range(5))
    lake.delete(*range(5, 10))
    assert isinstance(lake.table.commit(base, change), Committed)
    assert lake.ids() == list(range(10, 20))
    assert lake.table.snapshot().files().rows.num_rows == 1 and not lake.table.snapshot().live.deletes


def test_equality_deletes_stop_whoever_read_rows_to_change_any(lake: Lake) -> None:
    base = lake.table.snapshot()
    path = path_of(lake, base, 3)
    changes = [
        deleting(lake, base, 4),
        keeping_out(lake, base, 3),
        CommitRequest("MERGE", files=FileChanges(written(base, range(10)), (path,)), reads=Reads(frozenset({path}))),
    ]
    commit_files(lake.operations, Operation.DELETE, [equality_deletes(lake.storage, [3])])
    assert [conflict(lake.table.commit(base, change)) for change in changes] == [ConcurrentDeleteRead] * 3
    assert isinstance(lake.table.commit(base, CommitRequest("WRITE", files=FileChanges(written(base, [3])))), Committed)
    deletes = lake.table.snapshot().equality_deletes(lake.table.snapshot().files().paths)
    assert sorted(min(lake.ids_in(path)) for path in deletes[0].applies_to) == [0, 10], "the row that came later stays"


@pytest.mark.parametrize("divided", [False, True])
def test_equality_deletes_go_along_with_rows_that_move_unless_they_change_their_partition(lake: Lake, divided: bool) -> None:
    if divided:
        definition = TableDefinition(partitioning=identities(("name",)))
        assert isinstance(lake.table.commit(lake.table.snapshot(), CommitRequest("ADD PARTITION FIELD", definition=definition)), Committed)
    base = lake.table.snapshot()
    path = path_of(lake, base, 3)
    files = FileChanges(written(base, range(10)), (path,))
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


def test_a_file_that_left_without_a_word_is_missed(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    commit_files(lake.operations, Operation.OVERWRITE, removed=[path_of(lake, base, 3)], unsaid=True)
    assert conflict(lake.table.commit(base, change)) is ConcurrentDeleteDelete
    assert lake.ids() == list(range(10, 20))


def test_winners_that_merge_manifests_are_understood(tmp_path: Path) -> None:
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


def test_an_application_writes_its_transaction_once(lake: Lake) -> None:
    base = lake.table.snapshot()
    mine, same, other = (
        CommitRequest("WRITE", files=FileChanges(written(base, [id_])), transaction=(application, 1))
        for id_, application in ((30, "load"), (31, "load"), (32, "other"))
    )
    assert isinstance(lake.table.commit(base, mine), Committed)
    assert conflict(lake.table.commit(base, same)) is ConcurrentTransaction
    assert isinstance(lake.table.commit(base, other), Committed)
    assert lake.ids() == [*range(20), 30, 32]


# ------------------------------------------------------------------ histories


def test_a_table_that_went_back_and_forward_is_the_same_one(lake: Lake) -> None:
    first, newest = lake.snapshots
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    back_to(lake, first)
    back_to(lake, newest)
    assert isinstance(lake.table.commit(base, change), Committed)
    assert lake.ids() == [0, 1, 2, *range(4, 20)]


@pytest.mark.parametrize("goes_on", [False, True], ids=["and stays", "and goes on"])
def test_a_table_that_went_back_has_another_history(lake: Lake, goes_on: bool) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    back_to(lake, lake.snapshots[0])
    if goes_on:
        lake.append([30])
    assert conflict(lake.table.commit(base, change)) is MetadataChanged


@pytest.mark.parametrize("expired", ["the base", "one between"])
def test_where_snapshots_expired_between_nobody_can_tell(lake: Lake, expired: str) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    between = lake.delete(4)
    lake.append([30])
    lake.update(RemoveSnapshotsUpdate(snapshot_ids=[base.version if expired == "the base" else between]))
    assert conflict(lake.table.commit(base, change)) is MetadataChanged


def test_the_first_snapshots_of_a_table_that_expired_are_missed(tmp_path: Path) -> None:
    """pyiceberg takes away the name of a parent that it expires: the second snapshot then looks like the first."""
    lake = Lake(tmp_path / "t")
    lake.create()
    base = lake.table.snapshot()
    first = lake.append([1])
    lake.append([2])
    lake.update(RemoveSnapshotsUpdate(snapshot_ids=[first]))
    change = CommitRequest("MERGE", files=FileChanges(written(base, [1])), reads=Reads(frozenset(), every_file))
    assert conflict(lake.table.commit(base, change)) is MetadataChanged
    other = Lake(tmp_path / "other")
    other.create()
    base = other.table.snapshot()
    other.append([1])
    assert isinstance(other.table.commit(base, CommitRequest("WRITE", files=FileChanges(written(base, [2])))), Committed)


def test_a_snapshot_that_expired_meanwhile_is_not_restored(lake: Lake) -> None:
    base, wanted = lake.table.snapshot(), lake.table.snapshot_at(version=lake.snapshots[0])
    lake.update(RemoveSnapshotsUpdate(snapshot_ids=[wanted.version]))
    with pytest.raises(VersionNotFound, match="has expired since"):
        lake.table.commit(base, CommitRequest("RESTORE", restored=wanted))


def test_a_table_of_the_same_name_and_as_many_commits_is_another_one(lake: Lake) -> None:
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
def test_a_table_that_was_dropped_stays_so(lake: Lake, made_anew: bool) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    drop_table(lake.storage, "s.t")
    if made_anew:
        Lake(lake.folder).create()
    versions = {path for path in lake.on_disk() if path.endswith(".json")}
    assert conflict(lake.table.commit(base, change)) is MetadataChanged
    assert {path for path in lake.on_disk() if path.endswith(".json")} == versions
    assert Lake(lake.folder).table.exists() is made_anew


def test_no_commit_comes_into_a_table_that_is_being_dropped(lake: Lake) -> None:
    base = lake.table.snapshot()
    change = deleting(lake, base, 3)
    lake.storage.put("metadata/_dropped.json", b"{}")
    before = lake.on_disk() - {"metadata/version-hint.text"}
    with pytest.raises(TableNotFound):
        lake.table.commit(base, change)
    assert lake.on_disk() == before
