"""Snapshots of a table share manifests that are read once."""

from __future__ import annotations

from dataclasses import replace
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


def test_a_snapshot_shares_manifests_with_its_parent(lake: Lake) -> None:
    parent = lake.table.snapshot()
    files = parent.files(("id",))
    lake.append([30])
    child = lake.table.snapshot()
    assert child.files(("id",)).rows.num_rows == len(files) + 1
    shared = parent.live.files_by_key.keys() & child.live.files_by_key.keys()
    assert len(shared) == 3
    assert all(child.live.files_by_key[key] is parent.live.files_by_key[key] for key in shared)


def test_shared_manifests_give_the_same_listing_as_a_new_process(lake: Lake) -> None:
    lake.table.snapshot().files(("id",))
    lake.delete(3, 14)
    lake.table.snapshot().files(("id",))
    lake.remove(20)
    lake.append([40, 41])
    unshared_snapshot = IcebergTable(DirectoryOperations(lake.storage, "s.t"), "s.t").snapshot()
    columns = ("id", "name")
    assert sorted(lake.table.snapshot().files(columns).rows.to_pylist(), key=str) == sorted(
        unshared_snapshot.files(columns).rows.to_pylist(), key=str
    )
    assert sorted(unshared_snapshot.files().deleted.to_pylist()) == [0, 1, 1]


def test_unread_snapshots_pass_on_the_last_read_manifests(lake: Lake) -> None:
    read_files = lake.table.snapshot().live
    other = Lake(lake.folder)
    for id_ in (50, 51):
        other.append([id_])
        between = lake.table.snapshot()
        assert between.manifest_files is read_files.files_by_key
    assert set(read_files.files_by_key) < set(between.live.files_by_key)
    assert between.manifest_files is between.live.files_by_key


def test_a_file_seems_empty_only_if_each_of_its_rows_is_deleted(tmp_path: Path) -> None:
    """Readers omit empty files. Two position-delete files of one data file may list the same row."""
    lake = Lake(tmp_path / "t")
    lake.create()
    lake.append([1, 2])
    (path,) = lake.paths
    for _ in range(2):
        lake.add_deletes(replace(lake.shared_deletes(1), referenced_data_file=path))
    assert lake.table.snapshot().files().deleted.to_pylist() == [1]
    lake.add_deletes(replace(lake.shared_deletes(2), referenced_data_file=path))
    assert lake.table.snapshot().files().deleted.to_pylist() == [2]
