"""Publications of a staged snapshot that race with each other and with expiry. pyiceberg and DuckDB read the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowmerge.errors import PlanError, VersionNotFound
from rowmerge.iceberg.maintenance.expiry import expiry_updates
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.maintenance import ExpiryOptions, VacuumOptions
from rowmerge.table.snapshots.files import FileChanges
from tests.support.delta_tables import committed
from tests.support.iceberg_lake import Lake
from tests.support.readers import read_with_duckdb_iceberg, read_with_pyiceberg
from tests.support.table_operations import write_rows
from tests.unit.iceberg.test_pyiceberg_races import lake_in_catalog


@pytest.fixture(params=["directory", "sql"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Create a table with the id 1, and stage the id 2 as `audit`."""
    table_lake = Lake(tmp_path / "t") if request.param == "directory" else lake_in_catalog(tmp_path)
    table_lake.create()
    table_lake.append([1])
    stage(table_lake, "audit", 2)
    return table_lake


def stage(lake: Lake, staged_id: str, id_: int) -> int:
    assert lake.table.branches is not None
    table = lake.table.branches.staging_table(staged_id)
    snapshot = table.snapshot()
    request = CommitRequest("WRITE", parameters={"mode": "Append"}, files=FileChanges(write_rows(snapshot, [id_])))
    return committed(table.commit(snapshot, request))


def publish(lake: Lake, staged_id: str = "audit") -> int:
    branches = lake.table.branches
    assert branches is not None
    return branches.publish(branches.staged_snapshot_id(staged_id))


def assert_ids(lake: Lake, *ids: int) -> None:
    assert lake.ids() == list(ids)
    location = lake.current.path
    assert read_with_pyiceberg(location, "id")["id"].to_pylist() == read_with_duckdb_iceberg(location, "id")["id"].to_pylist() == list(ids)


def overtake(lake: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Run an action of another process directly before the next commit of the table."""
    commit = lake.operations.commit

    def commit_second(*arguments: Any) -> Any:
        monkeypatch.setattr(lake.operations, "commit", commit)
        act()
        return commit(*arguments)

    monkeypatch.setattr(lake.operations, "commit", commit_second)


def other_process(lake: Lake) -> Lake:
    """Return the same table, opened a second time."""
    return Lake(lake.folder) if lake.operations.keeps_ids else lake_in_catalog(lake.folder.parent)


@pytest.mark.parametrize("is_parent_current", [True, False])
def test_one_of_two_concurrent_publications_succeeds(lake: Lake, monkeypatch: pytest.MonkeyPatch, is_parent_current: bool) -> None:
    if not is_parent_current:
        lake.append([3])
    other = other_process(lake)
    overtake(lake, monkeypatch, lambda: publish(other))
    with pytest.raises(PlanError, match="already"):
        publish(lake)
    assert_ids(lake, 1, 2, *([] if is_parent_current else [3]))


def test_two_snapshots_are_published_concurrently(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    stage(lake, "second", 4)
    other = other_process(lake)
    overtake(lake, monkeypatch, lambda: publish(other, "second"))
    publish(lake)
    assert_ids(lake, 1, 2, 4)


def test_a_staged_snapshot_that_expires_before_its_publication_is_not_published(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append([3])
    other = other_process(lake)
    overtake(lake, monkeypatch, lambda: other.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False)))
    with pytest.raises(VersionNotFound, match="may have expired"):
        publish(lake)
    assert_ids(lake, 1, 3)
    lake.append([5])
    assert_ids(lake, 1, 3, 5)


def test_a_snapshot_that_is_published_during_an_expiry_keeps_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append([3])
    other = other_process(lake)
    overtake(lake, monkeypatch, lambda: publish(other))
    lake.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))
    assert_ids(lake, 1, 2, 3)


def test_a_young_staged_snapshot_does_not_expire(lake: Lake) -> None:
    lake.append([3])
    metadata = lake.current.metadata
    day = 24 * 3_600_000
    assert list(expiry_updates("s.t", metadata, ExpiryOptions(), metadata.last_updated_ms + day)) == []
    (update,) = expiry_updates("s.t", metadata, ExpiryOptions(), metadata.last_updated_ms + 6 * day)
    (staged_id,) = [
        snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.summary and "wap.id" in snapshot.summary.additional_properties
    ]
    assert staged_id in update.snapshot_ids
    lake.table.vacuum(VacuumOptions())
    publish(lake)
    assert_ids(lake, 1, 2, 3)
