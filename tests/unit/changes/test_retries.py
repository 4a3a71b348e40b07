"""Retries after lost races: their number, their waits, and the error of the last one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table.update import SetPropertiesUpdate

from rowmerge.errors import ConcurrentDeleteRead, ConfigurationError, MetadataChanged
from rowmerge.execution.commit import Attempt, CommitOptions, commit_with_retry
from rowmerge.execution.result import ChangeResult, Timings
from rowmerge.execution.row_counts import RowCounts
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.metadata.settings import RetryPolicy
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.delta_tables import Lake, committed
from tests.support.iceberg_lake import Lake as IcebergLake

QUICK = {"rowmerge.commit.retry.min-wait-ms": "1", "rowmerge.commit.retry.max-wait-ms": "2"}


def lake_of(folder: Path, **properties: str) -> Lake:
    lake = Lake(folder)
    retry_properties = {f"rowmerge.commit.retry.{name.replace('_', '-')}": value for name, value in properties.items()}
    committed(lake.create(lake.file(range(20)), properties={**QUICK, **retry_properties}))
    return lake


def delete_first(lake: Lake, overtaken: int, options: CommitOptions, winner: Callable[[int], object] | None = None) -> ChangeResult:
    """Delete the file's next row. In each of the first `overtaken` attempts, a concurrent commit deletes the same row."""
    turns = [0]

    def attempt() -> Attempt:
        snapshot = lake.table.snapshot()
        (path,) = snapshot.files().paths
        old_positions = snapshot.deleted_positions([path]).get(path, Positions())
        row = next(n for n in range(20) if n not in old_positions)
        if turns[0] < overtaken:
            turns[0] += 1
            committed(lake.commit("UPDATE", deleted={path: old_positions | Positions([row])}, reads=Reads()))
        change = CommitRequest(
            "DELETE", files=FileChanges(deleted={path: old_positions | Positions([row])}), reads=Reads(frozenset({path}))
        )
        return Attempt(snapshot, change, RowCounts(deleted=1))

    return commit_with_retry(lake.table, attempt, Timings(), options)


def test_the_result_has_the_number_of_attempts(tmp_path: Path) -> None:
    result = delete_first(lake_of(tmp_path), 3, CommitOptions())
    assert (result.attempts, result.version) == (4, 4)
    assert 0 < result.timings.seconds["wait"] < 5


def test_without_retries_the_first_conflict_is_raised(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    with pytest.raises(ConcurrentDeleteRead) as caught:
        delete_first(lake, 1, CommitOptions(retries=0))
    error = caught.value
    assert (error.table, error.operation, error.version, error.earlier) == ("s.t", "UPDATE", 1, ())
    assert error.message.endswith("Nothing was written. Run the statement again.")
    assert lake.table.snapshot().version == 1


def test_the_last_conflict_lists_the_earlier_ones(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, num_retries="2")
    with pytest.raises(ConcurrentDeleteRead) as caught:
        delete_first(lake, 9, CommitOptions())
    message = caught.value.message
    assert message.startswith("ConcurrentDeleteRead on s.t: UPDATE committed version 3 first and deleted or updated rows")
    assert "attempt 3, the last one. Attempt 1: ConcurrentDeleteRead, UPDATE committed version 1 first" in message
    assert "Attempt 2: ConcurrentDeleteRead, UPDATE committed version 2 first" in message
    assert message.endswith("Run the statement again, or allow more attempts with the table property 'rowmerge.commit.retry.num-retries'.")
    assert [error.version for error in caught.value.earlier] == [1, 2]
    assert lake.ids() == list(range(3, 20))


def test_the_caller_overrides_the_retries_of_the_table(tmp_path: Path) -> None:
    assert delete_first(lake_of(tmp_path, num_retries="0"), 2, CommitOptions(retries=2)).attempts == 3


def test_a_changed_table_definition_restarts_the_planning(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    others = [CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={**QUICK, "owner": "me"}))]

    def attempt() -> Attempt:
        snapshot = lake.table.snapshot()
        if others:
            committed(lake.table.commit(snapshot, others.pop()))
        return Attempt(snapshot, CommitRequest("WRITE", files=FileChanges((lake.file([50]),))), RowCounts(inserted=1))

    result = commit_with_retry(lake.table, attempt, Timings())
    assert (result.attempts, result.version) == (2, 2)
    others.append(CommitRequest("COMMENT ON", definition=TableDefinition(description="new")))
    with pytest.raises(MetadataChanged):
        commit_with_retry(lake.table, attempt, Timings(), CommitOptions(retries=0))


def test_waits_double_up_to_a_maximum_with_random_jitter() -> None:
    policy = RetryPolicy(min_wait=100, max_wait=1_000)
    for lost, longest in ((1, 0.1), (2, 0.2), (4, 0.8), (5, 1.0), (200, 1.0)):
        waits = [policy.wait(lost) for _ in range(50)]
        assert longest / 2 <= min(waits) < max(waits) <= longest


@pytest.mark.parametrize("prefix", ["rowmerge.commit.retry", "commit.retry"])
def test_a_statement_waits_as_long_as_the_properties_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    properties = {f"{prefix}.num-retries": "4", f"{prefix}.min-wait-ms": "100000", f"{prefix}.max-wait-ms": "400000"}
    lake = IcebergLake(tmp_path)
    lake.create(properties)
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)

    def attempt() -> Attempt:
        snapshot = lake.table.snapshot()
        lake.update(SetPropertiesUpdate(updates={"owner": str(len(waits))}))
        return Attempt(snapshot, CommitRequest("WRITE", definition=TableDefinition(description="new")), RowCounts())

    with pytest.raises(MetadataChanged, match="attempt 5, the last one"):
        commit_with_retry(lake.table, attempt, Timings())
    assert [longest / 2 <= wait <= longest for wait, longest in zip(waits, (100, 200, 400, 400), strict=True)] == [True] * 4


@pytest.mark.parametrize("value", ["-1", "many", "1.5", ""])
def test_a_retry_property_must_be_a_number(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rowmerge\.commit\.retry\.num-retries is .*whole number"):
        lake_of(tmp_path, num_retries=value)


def test_the_time_of_a_nested_stage_counts_once() -> None:
    timings, begun = Timings(), time.perf_counter()
    with timings.measure("spark"), timings.measure("plan"):
        time.sleep(0.05)
    assert timings.seconds["plan"] >= 0.05
    assert sum(timings.seconds.values()) <= time.perf_counter() - begun
