"""What snapshots of a table have in common is read once, and what was made of it is the next snapshot's too."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.iceberg import DirectoryOperations, IcebergTable
from tests.support.iceberg_lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "t")
    lake.create()
    for first in (0, 10, 20):
        lake.append(range(first, first + 10))
    return lake


def test_a_snapshot_has_the_manifests_of_the_one_before(lake: Lake) -> None:
    before = lake.table.snapshot()
    files = before.files(("id",))
    lake.append([30])
    after = lake.table.snapshot()
    assert after.files(("id",)).rows.num_rows == len(files) + 1
    shared = before.live.files_by_state.keys() & after.live.files_by_state.keys()
    assert len(shared) == 3
    assert all(after.live.files_by_state[key] is before.live.files_by_state[key] for key in shared)


def test_snapshots_that_share_manifests_list_what_a_new_process_lists(lake: Lake) -> None:
    lake.table.snapshot().files(("id",))
    lake.delete(3, 14)
    lake.table.snapshot().files(("id",))
    lake.remove(20)
    lake.append([40, 41])
    fresh = IcebergTable(DirectoryOperations(lake.storage, "s.t"), "s.t").snapshot()
    columns = ("id", "name")
    assert sorted(lake.table.snapshot().files(columns).rows.to_pylist(), key=str) == sorted(fresh.files(columns).rows.to_pylist(), key=str)
    assert sorted(fresh.files().deleted.to_pylist()) == [0, 1, 1]


def test_a_snapshot_that_was_not_looked_into_passes_on_what_is_known(lake: Lake) -> None:
    known = lake.table.snapshot().live
    other = Lake(lake.folder)
    for id_ in (50, 51):
        other.append([id_])
        between = lake.table.snapshot()
        assert between.files_read is known
    assert set(known.files_by_state) < set(between.live.files_by_state)
    assert between.files_read is between.live
