"""Log cleanup deletes entries outside the retention, oldest first, and keeps the log readable for every reader."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.log.checkpoints import checkpoint_tables, write_checkpoint
from rowmerge.delta.log.log_files import checkpoint_path, commit_path, list_log
from rowmerge.delta.maintenance import log_cleanup as cleanup
from rowmerge.delta.maintenance.log_cleanup import clean_log
from rowmerge.errors import ConfigurationError, StorageError, VersionNotFound
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.change_feed import Bound
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.delta_tables import Lake, committed
from tests.support.readers import read_with_delta_rs
from tests.unit.delta.test_checkpoint_kinds import v2_json, v2_parquet
from tests.unit.delta.test_late_commits import Paused, assert_rows

DAY = 86_400_000
EVERY_FIFTH = {"delta.checkpointInterval": "5"}
Act = Callable[[], object]


def lake_with_history(folder: Path, versions: int = 13, **properties: str) -> Lake:
    """Create a table with this number of versions after the first, each of which appends its number, and a checkpoint every five."""
    lake = Lake(folder / "t")
    committed(lake.create(lake.file([0]), properties={**EVERY_FIFTH, "delta.enableChangeDataFeed": "true", **properties}))
    for id_ in range(1, versions + 1):
        committed(lake.append([id_]))
    return lake


def age(lake: Lake, versions: range, days: float = 40) -> None:
    """Set the modification times of these versions' log entries to some days ago, one millisecond apart by version."""
    for path in lake.log.iterdir():
        number = path.name.lstrip(".")[:20]
        if number.isdigit() and int(number) in versions:
            moment = time.time() - days * 86_400 + int(number) / 1000
            os.utime(path, (moment, moment))


def clean(lake: Lake, *, now: int | None = None, storage: Storage | None = None) -> None:
    """Clean the log as a checkpoint of the newest version does."""
    storage = storage or Storage(str(lake.folder))
    state = Lake(lake.folder).table.snapshot().state
    clean_log(storage, list_log(storage), state, time.time_ns() // 1_000_000 if now is None else now)


def entries(lake: Lake) -> set[str]:
    return {path.relative_to(lake.log).as_posix() for path in lake.log.rglob("*") if path.is_file()}


def versions(lake: Lake, kind: str = "json") -> list[int]:
    return sorted(int(path.name[:20]) for path in lake.log.glob(f"{'[0-9]' * 20}.{kind}"))


def set_properties(lake: Lake, **properties: str) -> None:
    definition = TableDefinition(properties={**lake.table.snapshot().settings.properties, **properties})
    committed(lake.table.commit(lake.table.snapshot(), CommitRequest("SET TBLPROPERTIES", definition=definition)))


# ------------------------------------------------------------------ deleted and retained entries


def test_a_checkpoint_cleans_the_log_up_to_the_newest_expired_checkpoint(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path)
    age(lake, range(13))
    committed(lake.append([14]))
    assert versions(lake) == list(range(15))
    committed(lake.append([15]))
    assert versions(lake) == versions(lake, "crc") == list(range(10, 16))
    assert versions(lake, "checkpoint.parquet") == [10, 15]
    assert_rows(lake, list(range(16)))
    committed(Lake(lake.folder).append([16]))
    assert_rows(lake, list(range(17)))


def test_only_versions_since_the_oldest_checkpoint_are_readable(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, 14)
    age(lake, range(13))
    committed(lake.append([15]))
    table = Lake(lake.folder).table
    for version in range(10, 16):
        assert len(table.snapshot_at(version=version).files()) == version + 1
        assert read_with_delta_rs(str(lake.folder), version=version).num_rows == version + 1
    with pytest.raises(VersionNotFound, match="no version 9: versions 10 to 15 can be read"):
        table.snapshot_at(version=9)
    assert [entry.version for entry in table.history()] == list(range(15, 9, -1))
    assert table.snapshot_at(timestamp=int((time.time() - 39 * 86_400) * 1000)).version == 12
    with pytest.raises(VersionNotFound, match="Choose a later time"):
        table.snapshot_at(timestamp=int((time.time() - 41 * 86_400) * 1000))
    newest = table.snapshot()
    with pytest.raises(VersionNotFound, match="cleaned up to version 9. Begin at version 10"):
        table.change_feed.changes(newest, Bound(version=3), None)
    assert {file.version for file in table.change_feed.changes(newest, Bound(version=11), None).changed_files} == set(range(11, 16))


@pytest.mark.parametrize(
    ("properties", "first"),
    [
        ({}, 10),
        ({"delta.enableExpiredLogCleanup": "false"}, 0),
        ({"delta.enableExpiredLogCleanup": "True"}, 10),
        ({"delta.logRetentionDuration": "interval 50 days"}, 0),
        ({"delta.logRetentionDuration": "interval 1 week"}, 10),
        ({"delta.logRetentionDuration": "interval 0 seconds"}, 15),
    ],
    ids=str,
)
def test_table_properties_control_log_cleanup(tmp_path: Path, properties: dict[str, str], first: int) -> None:
    lake = lake_with_history(tmp_path, 14, **properties)
    age(lake, range(13))
    committed(lake.append([15]))
    clean(lake)
    assert versions(lake)[0] == first
    assert_rows(lake, list(range(16)))


@pytest.mark.parametrize(
    ("retention", "hour", "first"),
    [
        # The commits are from 3:00. A retention of one day at 6:00 reaches back to midnight of the day before.
        ("interval 1 day", 6, 0),
        ("interval 1 day", 27, 10),
        # A retention below one day is exact: 23 hours before 1:00 is 2:00, and 23 hours before 6:00 is 7:00.
        ("interval 23 hours", 1, 0),
        ("interval 23 hours", 6, 10),
    ],
)
def test_a_retention_in_days_is_rounded_to_midnight(tmp_path: Path, retention: str, hour: int, first: int) -> None:
    lake = lake_with_history(tmp_path, **{"delta.logRetentionDuration": retention})
    midnight = 20_000 * DAY
    moment = (midnight - DAY) // 1000 + 3 * 3600
    for path in lake.log.iterdir():
        os.utime(path, (moment, moment))
    clean(lake, now=midnight + hour * 3_600_000)
    assert versions(lake)[0] == first


def test_cleanup_without_an_expired_checkpoint_deletes_no_entries(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path)
    age(lake, range(5))
    original_entries = entries(lake)
    clean(lake)
    assert entries(lake) == original_entries


def test_commit_ages_are_monotonic_across_versions(tmp_path: Path) -> None:
    """Clocks of writers differ; raw file times would make the remaining versions not contiguous."""
    lake = lake_with_history(tmp_path)
    age(lake, range(13))
    os.utime(lake.folder / commit_path(7))
    clean(lake)
    assert versions(lake)[0] == 5
    assert_rows(lake, list(range(14)))


def test_cleanup_deletes_all_kinds_of_log_entries_and_no_other_files(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path)
    expired_names = [
        f"{3:020d}.{7:020d}.compacted.json",
        f"{10:020d}.{12:020d}.compacted.json",
        f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet",
        f"{6:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
        f".{2:020d}.json.crc",
        f".{5:020d}.checkpoint.parquet.crc",
        f"{3:020d}.json#1",
        f"{3:020d}.crc#2",
    ]
    retained_names = [
        f"{11:020d}.{12:020d}.compacted.json",
        f"{12:020d}.json#1",
        f".{10:020d}.json.crc",
        "readme.txt",
        "_dropped.json",
        f"{3:020d}.unknown",
        f"{3:020d}",
        f"_staged_commits/{3:020d}.80a083e8-7026-4e79-81be-64bd76c43a11.json",
    ]
    for name in (*expired_names, *retained_names):
        (lake.log / name).parent.mkdir(exist_ok=True)
        (lake.log / name).write_text("{}")
    age(lake, range(13))
    for name in retained_names:
        os.utime(lake.log / name, (0, 0))
    original_entries = entries(lake)
    clean(lake)
    deleted = original_entries - entries(lake)
    assert deleted == {*expired_names, *(f"{v:020d}.{kind}" for v in range(10) for kind in ("json", "crc")), f"{5:020d}.checkpoint.parquet"}
    (lake.log / "_dropped.json").unlink()
    assert_rows(lake, list(range(14)))


def test_in_commit_timestamps_determine_the_age_of_commits(tmp_path: Path) -> None:
    """Files of a copied table may be younger or older than its commits."""
    lake = lake_with_history(tmp_path, **{"delta.enableInCommitTimestamps": "true"})
    age(lake, range(13))
    clean(lake)
    assert versions(lake)[0] == 0
    for version in range(8):
        path = lake.folder / commit_path(version)
        first, *actions = path.read_text().splitlines()
        info = json.loads(first)
        info["commitInfo"]["inCommitTimestamp"] = version + 1
        path.write_text("".join(f"{line}\n" for line in (json.dumps(info), *actions)))
        (lake.log / f"{version:020d}.crc").unlink()
    age(lake, range(13))
    clean(lake)
    assert versions(lake)[0] == 5
    assert_rows(lake, list(range(14)))


# ------------------------------------------------------------------ checkpoints


@pytest.mark.parametrize("damage", [b"", b"PAR1 torn PAR1 torn PAR1", b"PAR1\xff\xff\xff\xffPAR1"])
def test_cleanup_uses_an_older_checkpoint_if_the_newest_is_damaged(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    lake = lake_with_history(tmp_path)
    (lake.log / f"{10:020d}.checkpoint.parquet").write_bytes(damage)
    age(lake, range(13))
    with caplog.at_level(logging.WARNING):
        clean(lake)
    assert versions(lake)[0] == 5
    assert f"{10:020d}.checkpoint.parquet" in caplog.text
    assert Lake(lake.folder).ids() == list(range(14))


def test_cleanup_ignores_an_incomplete_multi_part_checkpoint(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path)
    checkpoint = lake.log / f"{10:020d}.checkpoint.parquet"
    shutil.copy(checkpoint, lake.log / f"{10:020d}.checkpoint.{1:010d}.{2:010d}.parquet")
    checkpoint.unlink()
    age(lake, range(13))
    clean(lake)
    assert versions(lake)[0] == 5
    assert Lake(lake.folder).ids() == list(range(14))


@pytest.mark.parametrize("kind", [v2_json, v2_parquet])
def test_sidecars_are_deleted_with_the_last_checkpoint_that_references_them(tmp_path: Path, kind: Callable[..., list[Path]]) -> None:
    lake = lake_with_history(tmp_path)
    sidecars: dict[int, list[str]] = {}
    for version in (5, 10):
        actions = pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=version).state, 0))
        _, *sidecar_files = kind(lake.log, version, actions)
        sidecars[version] = [path.name for path in sidecar_files]
        (lake.log / f"{version:020d}.checkpoint.parquet").unlink()
    folder = lake.log / "_sidecars"
    young, orphan = folder / "young.parquet", folder / "orphan.parquet"
    hadoop = folder / f".{sidecars[5][0]}.crc"
    for path in (young, orphan, hadoop):
        path.write_bytes(b"")
    age(lake, range(13))
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    last_midnight = time.time() // 86_400 * 86_400
    os.utime(young, (last_midnight - 86_400,) * 2)
    os.utime(orphan, (last_midnight - 86_401,) * 2)
    clean(lake)
    assert versions(lake)[0] == 10
    assert {path.name for path in folder.iterdir()} == {*sidecars[10], "young.parquet"}
    reopened_table = Lake(lake.folder).table
    assert [len(reopened_table.snapshot_at(version=version).files()) for version in (10, 13)] == [11, 14]
    assert_rows(lake, list(range(14)))


def test_cleanup_ignores_a_checkpoint_with_a_missing_sidecar(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path)
    actions = pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=10).state, 0))
    _, sidecar, *_ = v2_json(lake.log, 10, actions)
    sidecar.unlink()
    (lake.log / f"{10:020d}.checkpoint.parquet").unlink()
    age(lake, range(13))
    clean(lake)
    assert versions(lake)[0] == 5


def test_sidecars_are_retained_while_a_checkpoint_is_unreadable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = lake_with_history(tmp_path)
    actions = pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=5).state, 0))
    _, *sidecars = v2_json(lake.log, 5, actions)
    for path in sidecars:
        os.utime(path, (0, 0))
    (lake.log / f"{12:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text('{"sidecar":')
    age(lake, range(12))
    with caplog.at_level(logging.WARNING):
        clean(lake)
    assert versions(lake)[0] == 10
    assert all(path.exists() for path in sidecars)
    assert "are kept, because a checkpoint" in caplog.text


@pytest.mark.parametrize(("protected", "first"), [(None, 10), (0, 10), (10, 10), (11, 0), (100, 0)])
def test_protected_checkpoints_are_deleted_only_together(tmp_path: Path, protected: int | None, first: int) -> None:
    lake = lake_with_history(tmp_path, 12, **{"delta.feature.checkpointProtection": "supported"})
    metadata = lake.table.snapshot().metadata.action()["metaData"]
    if protected is not None:
        metadata["configuration"]["delta.requireCheckpointProtectionBeforeVersion"] = str(protected)
    (lake.folder / commit_path(13)).write_text(f'{{"commitInfo":{{}}}}\n{json.dumps({"metaData": metadata})}\n')
    age(lake, range(13))
    clean(lake)
    assert versions(lake)[0] == first
    committed(Lake(lake.folder).append([13]))
    assert_rows(lake, list(range(14)))


PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


def test_users_cannot_change_the_checkpoint_protection_property(tmp_path: Path) -> None:
    """Statements that redefine the table keep the property."""
    lake = lake_with_history(tmp_path, 12, **{"delta.feature.checkpointProtection": "supported"})
    metadata = lake.table.snapshot().metadata.action()["metaData"]
    metadata["configuration"][PROTECTED] = "13"
    (lake.folder / commit_path(13)).write_text(f'{{"commitInfo":{{}}}}\n{json.dumps({"metaData": metadata})}\n')
    table = Lake(lake.folder).table
    current = dict(table.snapshot().settings.properties)
    for properties in ({**current, PROTECTED: "5"}, {name: value for name, value in current.items() if name != PROTECTED}):
        change = CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties=properties))
        with pytest.raises(ConfigurationError, match=f"{PROTECTED} of s.t cannot be changed"):
            table.commit(table.snapshot(), change)
    definition = TableDefinition(lake.schema, (), {"delta.checkpointInterval": "100"}, None)
    untimed = TableDefinition(lake.schema, (), {"delta.checkpointInterval": "100", "delta.enableInCommitTimestamps": "false"}, None)
    other = lake_with_history(tmp_path / "other", 1)
    changes = [
        CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={**current, "delta.checkpointInterval": "100"})),
        CommitRequest("CREATE OR REPLACE TABLE", definition=definition, replace=True),
        CommitRequest("CREATE OR REPLACE TABLE", definition=untimed, replace=True),
        CommitRequest("RESTORE", restored=table.snapshot_at(version=3)),
        CommitRequest("CLONE", cloned=other.table.snapshot(), replace=True, definition=TableDefinition()),
    ]
    for change in changes:
        committed(table.commit(table.snapshot(), change))
        assert table.snapshot().settings.properties[PROTECTED] == "13", change.operation
    clone = Lake(tmp_path / "clone")
    committed(clone.table.create(TableDefinition(lake.schema), CommitRequest("CLONE", cloned=table.snapshot())))
    assert PROTECTED not in clone.table.snapshot().settings.properties
    for value in ("1", "-1", "x"):
        with pytest.raises(ConfigurationError, match=PROTECTED):
            Lake(tmp_path / "new").create(properties={PROTECTED: value})


def test_checkpoint_protection_requires_the_table_feature(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, 12)
    metadata = lake.table.snapshot().metadata.action()["metaData"]
    metadata["configuration"]["delta.requireCheckpointProtectionBeforeVersion"] = "100"
    (lake.folder / commit_path(13)).write_text(f'{{"commitInfo":{{}}}}\n{json.dumps({"metaData": metadata})}\n')
    age(lake, range(13))
    clean(lake)
    assert versions(lake)[0] == 10


# ------------------------------------------------------------------ interruptions and concurrent changes


class Stopping(Storage):
    """Storage that refuses deletions after a number of them, which leaves the log as a killed process would."""

    def __init__(self, location: str, deletions: int) -> None:
        super().__init__(location)
        self.order: list[str] = []
        self._deletions = deletions

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            if len(self.order) == self._deletions:
                raise StorageError(f"{self.location}/{path}", "no permission to delete")
            self.order.append(path)
            Storage.delete(self, [path])


def test_the_log_is_readable_after_an_interrupted_cleanup(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, 14)
    age(lake, range(13))
    shutil.copytree(lake.folder, tmp_path / "original")
    for deletions in range(22):
        shutil.rmtree(lake.folder)
        shutil.copytree(tmp_path / "original", lake.folder)
        storage = Stopping(str(lake.folder), deletions)
        table = DeltaTable(storage, "s.t")
        change = CommitRequest("WRITE", files=FileChanges((lake.file([15]),)), reads=Reads())
        assert isinstance(table.commit(table.snapshot(), change), Committed)
        assert len(storage.order) == min(deletions, 21)
        numbers = [int(path.rpartition("/")[2][:20]) for path in storage.order]
        assert numbers == sorted(numbers)
        if deletions > 12:
            assert storage.order[11:13] == [commit_path(5), checkpoint_path(5)]
        reopened_table = Lake(lake.folder).table
        oldest = list_log(storage).oldest_readable
        assert oldest == (0 if deletions < 2 else 5 if deletions < 13 else 10)
        for version in range(oldest, 16):
            assert len(reopened_table.snapshot_at(version=version).files()) == version + 1
        if oldest:
            with pytest.raises(VersionNotFound):
                reopened_table.snapshot_at(version=oldest - 1)
        if deletions % 4 == 1:
            assert_rows(lake, list(range(16)))
        clean(lake)
        assert versions(lake) == list(range(10, 16))


@pytest.mark.parametrize("protected", [False, True])
def test_a_long_log_is_cleaned_in_steps_unless_checkpoints_are_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    monkeypatch.setattr(cleanup, "_MAX_DELETED_ENTRIES", 6)
    lake = lake_with_history(tmp_path, **({"delta.feature.checkpointProtection": "supported"} if protected else {}))
    age(lake, range(13))
    for first in (3, 6, 8, 10) if not protected else (10,):
        clean(lake)
        assert versions(lake)[0] == first
        assert_rows(lake, list(range(14)))
    assert list_log(Storage(str(lake.folder))).oldest_readable == 10


def test_a_failed_cleanup_does_not_fail_the_statement(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = lake_with_history(tmp_path, 14)
    age(lake, range(13))
    lake.table = DeltaTable(Stopping(str(lake.folder), 0), "s.t")
    with caplog.at_level(logging.WARNING):
        committed(lake.append([15]))
    assert versions(lake) == list(range(16))
    assert "no permission to delete" in caplog.text


def test_an_invalid_retention_property_does_not_fail_the_statement(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = lake_with_history(tmp_path, 12)
    metadata = lake.table.snapshot().metadata.action()["metaData"]
    metadata["configuration"]["delta.logRetentionDuration"] = "interval 2 months"
    (lake.folder / commit_path(13)).write_text(f'{{"commitInfo":{{}}}}\n{json.dumps({"metaData": metadata})}\n')
    committed(lake.append([14]))
    age(lake, range(13))
    with caplog.at_level(logging.WARNING):
        committed(lake.append([15]))
    assert "delta.logRetentionDuration" in caplog.text
    assert versions(lake) == list(range(16))


class Interrupted(Storage):
    """Storage that runs an action after listings of the log; `at` is the index of the first one, and `times` is their number."""

    def __init__(self, location: str, act: Act, at: int = 0, times: int = 1) -> None:
        super().__init__(location)
        self._act, self._at, self._times = act, at, times

    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        objects = Storage.list(self, prefix, after=after)
        if prefix == "_delta_log":
            if -self._times < self._at <= 0:
                self._act()
            self._at -= 1
        return objects


def test_cleanup_keeps_the_log_of_a_concurrently_recreated_table(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path)
    age(lake, range(13))

    def recreate_table() -> None:
        shutil.rmtree(lake.log)
        lake_with_history(tmp_path, 13)
        age(lake, range(13), 41)

    state = Lake(lake.folder).table.snapshot().state
    storage = Interrupted(str(lake.folder), recreate_table)
    clean_log(storage, list_log(storage), state, time.time_ns() // 1_000_000)
    assert versions(lake) == list(range(14))
    assert Lake(lake.folder).ids() == list(range(14))


def test_concurrent_cleanups_keep_the_log_readable(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path)
    age(lake, range(13))
    clean(lake, storage=Interrupted(str(lake.folder), lambda: clean(lake)))
    clean(lake, storage=Interrupted(str(lake.folder), lambda: clean(lake), 1))
    assert versions(lake) == list(range(10, 14))
    assert_rows(lake, list(range(14)))


READERS: dict[str, Callable[[DeltaTable], object]] = {
    "snapshot": lambda table: len(table.snapshot().files()),
    "time travel": lambda table: len(table.snapshot_at(version=12).files()),
    "time": lambda table: table.snapshot_at(timestamp=time.time_ns() // 1_000_000).version,
    "history": lambda table: [entry.version for entry in table.history()],
    "transaction": lambda table: table.version_of_transaction("app", 1),
    "vacuum": lambda table: table.vacuum(VacuumOptions(1200, record=False)).paths,
}


@pytest.mark.parametrize("name", READERS)
def test_readers_retry_if_listed_log_files_are_cleaned(tmp_path: Path, name: str) -> None:
    lake = lake_with_history(tmp_path)
    age(lake, range(13))
    storage = Interrupted(str(lake.folder), lambda: clean(lake), 1 if name == "vacuum" else 0)
    result = READERS[name](DeltaTable(storage, "s.t"))
    assert versions(lake)[0] == 10
    assert result == READERS[name](Lake(lake.folder).table)


@pytest.mark.parametrize("name", ["snapshot", "history", "transaction"])
def test_readers_retry_while_a_writer_with_a_short_retention_commits(tmp_path: Path, name: str) -> None:
    """Each of the first five listings is outdated when its files are read."""
    lake = lake_with_history(tmp_path, 4, **{"delta.logRetentionDuration": "interval 0 seconds", "delta.checkpointInterval": "1"})
    committed(lake.commit("WRITE", added=(lake.file([40]),), transaction=("app", 1)))

    def overtake_reader() -> None:
        for id_ in (50, 51):
            committed(Lake(lake.folder).append([id_]))

    table = DeltaTable(Interrupted(str(lake.folder), overtake_reader, times=5), "s.t")
    assert READERS[name](table) == READERS[name](Lake(lake.folder).table)
    assert versions(lake)[-1] == 15


def test_a_version_cleaned_during_its_read_raises_version_not_found(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path)
    age(lake, range(13))
    with pytest.raises(VersionNotFound, match="no version 3: versions 10 to 13"):
        DeltaTable(Interrupted(str(lake.folder), lambda: clean(lake)), "s.t").snapshot_at(version=3)


def lake_with_short_retention(folder: Path) -> Lake:
    return lake_with_history(folder, 4, **{"delta.logRetentionDuration": "interval 1 second"})


def overtake(lake: Lake, first: int) -> Act:
    """Return an action that commits versions of another writer until a commit after the retention of one second cleans the log."""

    def act() -> None:
        other = Lake(lake.folder)
        for id_ in range(first, first + 11):
            committed(other.append([id_]))
        time.sleep(1.1)
        while versions(lake)[0] <= 5:
            first_ = max(other.ids()) + 1
            committed(other.append([first_]))

    return act


def test_a_commit_based_on_a_cleaned_version_conflicts(tmp_path: Path) -> None:
    lake = lake_with_short_retention(tmp_path)
    table = DeltaTable(Paused(str(lake.folder), put=overtake(lake, 5)), "s.t")
    change = CommitRequest("WRITE", files=FileChanges((lake.file([999]),)), reads=Reads())
    outcome = table.commit(Lake(lake.folder).table.snapshot(), change)
    assert isinstance(outcome, Conflicted)
    assert 5 not in versions(lake)
    ids = Lake(lake.folder).ids()
    assert 999 not in ids
    assert_rows(lake, ids)


def test_a_commit_contained_in_a_later_checkpoint_succeeds(tmp_path: Path) -> None:
    """The commit's log file is deleted before its verification, but a checkpoint contains the commit."""
    lake = lake_with_short_retention(tmp_path)
    table = DeltaTable(Paused(str(lake.folder), listing=overtake(lake, 6)), "s.t")
    change = CommitRequest("WRITE", files=FileChanges((lake.file([5]),)), reads=Reads())
    assert table.commit(Lake(lake.folder).table.snapshot(), change) == Committed(5)
    assert 5 not in versions(lake)
    ids = Lake(lake.folder).ids()
    assert ids == list(range(len(ids)))
    assert_rows(lake, ids)


@pytest.mark.parametrize("number", [0, 4])
def test_a_stale_commit_below_the_oldest_checkpoint_is_not_a_version(tmp_path: Path, number: int) -> None:
    lake = lake_with_history(tmp_path)
    stale_commit = (lake.folder / commit_path(number)).read_text().replace("WRITE", "STALE").replace("CREATE TABLE AS SELECT", "STALE")
    age(lake, range(13))
    clean(lake)
    (lake.folder / commit_path(number)).write_text(stale_commit)
    table = Lake(lake.folder).table
    assert [entry.version for entry in table.history()] == [13, 12, 11, 10]
    with pytest.raises(VersionNotFound, match=f"no version {number}: versions 10 to 13 can be read"):
        table.snapshot_at(version=number)
    assert table.snapshot_at(timestamp=int((time.time() - 39 * 86_400) * 1000)).version == 12
    assert_rows(lake, list(range(14)))
    clean(lake)
    assert number in versions(lake), "its writer may be about to withdraw it"
    os.utime(lake.folder / commit_path(number), (0, 0))
    clean(lake)
    assert versions(lake) == [10, 11, 12, 13]


# ------------------------------------------------------------------ tombstones and transactions


def test_vacuum_on_a_cleaned_log_keeps_files_within_the_retention(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, 12, **{"delta.logRetentionDuration": "interval 2 days", "rowmerge.write.mode": "merge-on-read"})
    first, second = lake.table.snapshot().files().paths[:2]
    committed(lake.commit("DELETE", removed=(first,)))
    committed(lake.commit("UPDATE", added=(lake.file([20, 21]),)))
    (last,) = [path for path in lake.table.snapshot().files().paths if path not in (first, second)][-1:]
    committed(lake.commit("DELETE", deleted={last: Positions([0])}))
    write_checkpoint(Storage(str(lake.folder)), lake.table.snapshot().state)
    age(lake, range(16), 3)
    committed(lake.append([16]))
    clean(lake)
    assert versions(lake)[0] == 15
    for path in lake.folder.glob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    assert Lake(lake.folder).table.vacuum(VacuumOptions()).paths == (), "the tombstone is younger than a week"
    os.utime(lake.folder / commit_path(15), (0, 0))
    assert Path(first.removeprefix("file://")).exists()
    now = VacuumOptions(0, check_retention=False, record=False)
    assert first in Lake(lake.folder).table.vacuum(now).paths
    assert 0 not in Lake(lake.folder).ids()
    assert_rows(lake, Lake(lake.folder).ids())


def test_checkpoints_omit_expired_transactions(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, 2, **{"delta.setTransactionRetentionDuration": "interval 1 hour"})
    committed(lake.commit("WRITE", added=(lake.file([3]),), transaction=("young", 1)))
    now = time.time_ns() // 1_000_000
    old, ageless = {"appId": "old", "version": 1, "lastUpdated": now - 3_600_001}, {"appId": "ageless", "version": 1}
    (lake.folder / commit_path(4)).write_text("".join(json.dumps(a) + "\n" for a in ({"commitInfo": {}}, {"txn": old}, {"txn": ageless})))
    assert Lake(lake.folder).table.snapshot().has_transaction("old", 1)
    write_checkpoint(Storage(str(lake.folder)), Lake(lake.folder).table.snapshot().state)
    snapshot = Lake(lake.folder).table.snapshot()
    assert [snapshot.has_transaction(name, 1) for name in ("young", "ageless", "old")] == [True, True, False]
    set_properties(lake, **{"delta.setTransactionRetentionDuration": "interval 1 week"})
    assert Lake(lake.folder).table.version_of_transaction("young", 1) == 3


def test_a_transaction_of_a_cleaned_version_has_no_version_number(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, 2)
    committed(lake.commit("WRITE", added=(lake.file([3]),), transaction=("app", 1)))
    for id_ in range(4, 15):
        committed(lake.append([id_]))
    assert lake.table.version_of_transaction("app", 1) == 3
    age(lake, range(13))
    committed(lake.append([15]))
    table = Lake(lake.folder).table
    assert table.snapshot().has_transaction("app", 1)
    assert table.version_of_transaction("app", 1) is None


def test_history_before_a_replacement_stays_until_it_expires(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, 13)
    definition = TableDefinition(lake.schema, (), EVERY_FIFTH, None)
    change = CommitRequest("CREATE OR REPLACE TABLE AS SELECT", definition=definition, replace=True, files=FileChanges((lake.file([100]),)))
    committed(lake.table.commit(lake.table.snapshot(), change))
    age(lake, range(13))
    committed(lake.append([101]))
    assert versions(lake)[0] == 10
    assert_rows(lake, [100, 101])
    assert len(Lake(lake.folder).table.snapshot_at(version=11).files()) == 12
