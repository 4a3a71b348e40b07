"""Commits to a branch conflict only with commits to that branch, and commits to the table only with commits to `main`."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from rowmerge.errors import ConcurrentAppend, ConcurrentDeleteDelete, MetadataChanged, PlanError, VersionNotFound
from rowmerge.plan.pruning.file_pruning import every_file
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import SnapshotReference
from tests.support.delta_tables import live_rows
from tests.support.iceberg_lake import Lake
from tests.support.table_operations import write_rows
from tests.unit.iceberg.races import conflict, deleting, insert_only_merge
from tests.unit.iceberg.test_pyiceberg_races import lake_in_catalog


@pytest.fixture(params=["directory", "sql"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Create a table of one file with the ids 0 to 9, and a branch `side` of it."""
    table_lake = Lake(tmp_path / "t") if request.param == "directory" else lake_in_catalog(tmp_path)
    table_lake.create()
    table_lake.append(range(10))
    table_lake.table.branches.set_reference(
        SnapshotReference("side", False, min_snapshots=3), create=True, replace=False, if_not_exists=False
    )
    return table_lake


def ids(lake: Lake, branch: str = "side") -> list[int]:
    return sorted(live_rows(lake.table.branches.snapshot(branch))["id"].to_pylist())


def test_reads_of_an_unchanged_branch_share_a_snapshot(lake: Lake) -> None:
    branches = lake.table.branches
    snapshot = branches.snapshot("side")
    assert branches.table("side").snapshot() is branches.table("side", create=True).snapshot() is snapshot
    lake.table.branches.table("side").commit(snapshot, deleting(lake, snapshot, 1))
    assert branches.snapshot("side") is not snapshot
    assert ids(lake) == [0, *range(2, 10)]
    branches.drop("side", is_tag=False, if_exists=False)
    with pytest.raises(VersionNotFound):
        branches.table("side")


def test_the_files_of_a_dropped_branch_leave_memory(lake: Lake) -> None:
    snapshot = weakref.ref(lake.table.branches.snapshot("side"))
    lake.table.branches.drop("side", is_tag=False, if_exists=False)
    lake.table.branches.set_reference(SnapshotReference("next", False), create=True, replace=False, if_not_exists=False)
    lake.table.branches.snapshot("next")
    gc.collect()
    assert snapshot() is None


def test_commits_to_a_branch_and_to_main_do_not_conflict(lake: Lake) -> None:
    side = lake.table.branches.table("side")
    base, main = side.snapshot(), lake.table.snapshot()
    assert isinstance(lake.table.commit(main, deleting(lake, main, 1)), Committed)
    assert isinstance(side.commit(base, deleting(lake, base, 1, 2)), Committed)
    assert isinstance(lake.table.commit(main, CommitRequest("WRITE", files=FileChanges(write_rows(main, [30])))), Committed)
    assert (lake.ids(), ids(lake)) == ([0, *range(2, 10), 30], [0, *range(3, 10)])
    assert lake.current.metadata.refs["side"].min_snapshots_to_keep == 3


def test_commits_to_the_same_branch_are_checked_for_conflicts(lake: Lake) -> None:
    side = lake.table.branches.table("side")
    base = side.snapshot()
    assert isinstance(side.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, [20])))), Committed)
    assert isinstance(side.commit(base, deleting(lake, base, 4)), Committed)
    assert conflict(side.commit(base, insert_only_merge(lake, base, 7, every_file))) is ConcurrentAppend
    assert conflict(side.commit(base, deleting(lake, base, 4))) is ConcurrentDeleteDelete
    assert (lake.ids(), ids(lake)) == (list(range(10)), [0, 1, 2, 3, 5, 6, 7, 8, 9, 20])


def test_a_commit_to_a_dropped_branch_conflicts(lake: Lake) -> None:
    side = lake.table.branches.table("side")
    base = side.snapshot()
    lake.append([50])
    lake.table.branches.set_reference(SnapshotReference("side", False, lake.append([60])), create=False, replace=True, if_not_exists=False)
    assert isinstance(side.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, [20])))), Committed)
    assert ids(lake) == [*range(10), 20, 50, 60]
    lake.table.branches.drop("side", is_tag=False, if_exists=False)
    assert conflict(side.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, [21]))))) is MetadataChanged
    with pytest.raises(VersionNotFound, match="has no branch or tag side"):
        side.snapshot()


def test_fast_forward_requires_a_descendant_snapshot(lake: Lake) -> None:
    branches = lake.table.branches
    side = branches.table("side")
    base = side.snapshot()
    assert isinstance(side.commit(base, deleting(lake, base, 1)), Committed)
    assert branches.fast_forward("main", "side") == (base.version, side.snapshot().version)
    assert branches.fast_forward("main", "side") == (side.snapshot().version, side.snapshot().version)
    assert lake.ids() == ids(lake) == [0, *range(2, 10)]
    lake.append([70])
    with pytest.raises(PlanError, match="its snapshot is not an ancestor of side"):
        branches.fast_forward("main", "side")
    assert branches.fast_forward("new", "main") == (None, lake.table.snapshot().version)
    assert ids(lake, "new") == [0, *range(2, 10), 70]
