"""How long commits are retried and their outcome is checked: `commit.retry.total-timeout-ms` and `commit.status-check.*` of Iceberg."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table.update import SetPropertiesUpdate

from rowmerge.errors import CatalogFailed, ConfigurationError, MetadataChanged, StorageError
from rowmerge.execution.commit import Attempt, commit_with_retry
from rowmerge.execution.result import Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.catalogs.catalog_operations import CatalogOperations
from rowmerge.iceberg.catalogs.clients import CatalogClient
from rowmerge.iceberg.commits.metadata_commit import commit_updates
from rowmerge.iceberg.metadata.properties import IcebergSettings, check_properties
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.request import CommitRequest, Unknown
from rowmerge.table.metadata.settings import RetryPolicy
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from tests.support.delta_tables import ID_NAME, committed
from tests.support.iceberg_lake import Lake
from tests.support.table_operations import write_rows

CHECKS = {"commit.status-check.num-retries": "3", "commit.status-check.min-wait-ms": "20", "commit.status-check.max-wait-ms": "50"}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the waits instead of waiting."""
    recorded: list[float] = []
    monkeypatch.setattr("time.sleep", recorded.append)
    return recorded


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"commit.status-check.num-retries": "0"}, ()),
        ({"commit.status-check.num-retries": "7"}, (1, 2, 4, 8, 16, 32, 60)),
        ({"commit.status-check.min-wait-ms": "5"}, (0.005, 0.01, 0.02)),
        ({"commit.status-check.max-wait-ms": "1500"}, (1, 1.5, 1.5)),
        ({"commit.status-check.total-timeout-ms": "3000"}, (1, 2)),
        (CHECKS, (0.02, 0.04, 0.05)),
    ],
)
def test_properties_determine_when_an_unknown_commit_is_checked(properties: dict[str, str], expected: tuple[float, ...] | None) -> None:
    check_properties(properties, {})
    assert IcebergSettings(properties).status_check_waits == expected


@pytest.mark.parametrize(
    "name", [*CHECKS, "commit.status-check.total-timeout-ms", "commit.retry.total-timeout-ms"], ids=lambda name: name.rpartition(".")[2]
)
def test_a_time_must_be_a_whole_number(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is '1s'. Set it to a (whole )?number"):
        check_properties({name: "1s"}, {})


class LostStorage(Storage):
    """Storage that fails for the third version of a table."""

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if "v3." in path:
            raise StorageError(path, "the connection was lost")
        return super().put_if_absent(path, data)

    def get(self, path: str) -> bytes:
        if "v3." in path:
            raise StorageError(path, "the connection was lost")
        return super().get(path)


def test_a_folder_is_read_at_the_times_of_the_status_checks(tmp_path: Path, waits: list[float]) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(CHECKS)
    lake.append([1])
    table = IcebergTable(DirectoryOperations(LostStorage(str(lake.folder)), "s.t"), "s.t")
    base = table.snapshot()
    assert isinstance(table.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, [2])))), Unknown)
    assert [wait for wait in waits if wait] == [0.02, 0.04, 0.05]


def test_a_catalog_is_asked_at_the_times_of_the_status_checks(tmp_path: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    client = CatalogClient({"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"})
    client.create_namespace("s", {})
    operations = CatalogOperations(client, "s", "t", f"file://{tmp_path}/s/t")
    table = IcebergTable(operations, "s.t")
    committed(table.create(TableDefinition(ID_NAME, (), CHECKS, None), CommitRequest("CREATE TABLE")))
    base = table.snapshot()
    load, requests = client.load, []

    def lose(*arguments: object) -> None:
        requests.append(arguments)
        monkeypatch.setattr(client, "load", fail)
        raise ConnectionError("the connection was lost")

    def fail(*names: str) -> None:
        raise CatalogFailed("the catalog", "loading the table", "it does not answer")

    monkeypatch.setattr(client.catalog, "commit_table", lose)
    request = CommitRequest("WRITE", files=FileChanges(write_rows(base, [2])))
    assert isinstance(table.commit(base, request), Unknown)
    assert len(requests) == 4 and [wait for wait in waits if wait] == [0.02, 0.04, 0.05]
    monkeypatch.setattr(client, "load", load)
    assert table.snapshot().version == base.version


def test_a_policy_ends_retries_after_its_total_time_but_allows_the_first() -> None:
    policy = RetryPolicy(retries=3, total_timeout=1000)
    assert [policy.allows_retry(lost, elapsed) for lost, elapsed in ((1, 5.0), (2, 0.9), (2, 1.1), (3, 1.0), (4, 0.1))] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert RetryPolicy().allows_retry(10, 1e9) and not RetryPolicy(retries=0).allows_retry(1, 0)
    assert IcebergSettings({"commit.retry.total-timeout-ms": "7"}).retry_policy == RetryPolicy(total_timeout=7)


def test_a_change_of_metadata_gives_up_after_the_total_time(tmp_path: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path / "t")
    lake.create({"commit.retry.total-timeout-ms": "0"})
    monkeypatch.setattr(lake.operations, "commit", lambda base, updates: Put.EXISTED)
    with pytest.raises(MetadataChanged, match="concurrent commits came first 2 times"):
        commit_updates(lake.operations, "s.t", "a test", lambda current: (SetPropertiesUpdate(updates={"a": "b"}),))
    assert len(waits) == 1


def test_a_statement_gives_up_after_the_total_time(tmp_path: Path, waits: list[float]) -> None:
    lake = Lake(tmp_path / "t")
    lake.create({"commit.retry.total-timeout-ms": "0"})
    attempts = []

    def attempt() -> Attempt:
        snapshot = lake.table.snapshot()
        attempts.append(snapshot)
        lake.change()
        Lake(lake.folder).table.commit(
            lake.table.snapshot(),
            CommitRequest(
                "SET TBLPROPERTIES", definition=TableDefinition(properties={**snapshot.settings.properties, "n": str(len(attempts))})
            ),
        )
        return Attempt(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, [1]))), RowCounts(inserted=1))

    with pytest.raises(MetadataChanged):
        commit_with_retry(lake.table, attempt, Timings())
    assert len(attempts) == 2
