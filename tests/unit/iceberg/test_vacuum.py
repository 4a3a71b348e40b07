"""VACUUM of an Iceberg table expires old snapshots and deletes only files that no snapshot needs."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import (
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
)

from rowmerge.errors import CorruptLog, PlanError, VersionNotFound
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.maintenance.expiry import expiry_updates
from rowmerge.iceberg.maintenance.vacuum import Vacuum
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Put, Storage
from rowmerge.table.maintenance import Expired, ExpiryOptions, OrphanOptions, Vacuumed, VacuumOptions
from rowmerge.table.snapshots.files import AddedFile
from tests.support.iceberg_lake import DAY, Lake, needed
from tests.support.readers import read_with_pyiceberg

NOW = VacuumOptions(retain_hours=0, check_retention=False)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table of three files, delete rows of two files, and remove a file."""
    lake = Lake(tmp_path / "t")
    lake.create()
    for first in (0, 10, 20):
        lake.append(range(first, first + 3))
    lake.delete(1)
    lake.delete(11)
    lake.remove(20)
    return lake


def vacuum_now(lake: Lake, options: VacuumOptions = NOW) -> Vacuumed:
    """Run VACUUM, a moment after the last change, because files of the same millisecond are retained."""
    time.sleep(0.005)
    return lake.table.vacuum(options)


def expiry(lake: Lake, later: float = 0) -> Vacuum:
    """Return a VACUUM that runs at the time of `later` days from now."""
    return Vacuum(lake.operations, "s.t", time.time_ns() // 1_000_000 + int(later * DAY * 1000))


def branch(name: str, snapshot_id: int, kind: str = "branch", **more: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot_id, **more)


def test_vacuum_without_retention_keeps_only_the_newest_snapshot(lake: Lake) -> None:
    original_files, newest = lake.on_disk(), lake.table.snapshot().version
    result = vacuum_now(lake)
    assert lake.snapshots == [newest] == [result.version]
    assert lake.on_disk() == needed(lake.folder)
    assert {path.removeprefix(f"file://{lake.folder}/") for path in result.paths} == original_files - lake.on_disk()
    assert lake.ids() == [0, 2, 10, 12]
    assert read_with_pyiceberg(lake.table.location)["id"].to_pylist() == [0, 2, 10, 12]


def test_vacuum_deletes_no_files_within_the_retention(lake: Lake) -> None:
    original_files = lake.on_disk()
    lake.aged(30)
    assert vacuum_now(lake, VacuumOptions()).paths == ()
    assert lake.on_disk() == original_files


def test_all_snapshots_except_the_newest_expire_after_five_days(lake: Lake) -> None:
    lake.aged(2)
    assert len(expiry(lake, 4.9).run(VacuumOptions()).paths) == 0
    assert len(lake.snapshots) == 6
    expiry(lake, 5.1).run(VacuumOptions())
    assert len(lake.snapshots) == 1
    assert lake.on_disk() == needed(lake.folder)


def test_a_dry_run_lists_the_same_paths_and_deletes_no_files(lake: Lake) -> None:
    lake.junk("data/left.parquet")
    original_files = lake.on_disk()
    time.sleep(0.005)
    result = lake.table.vacuum(VacuumOptions(0, dry_run=True, check_retention=False))
    assert lake.on_disk() == original_files
    assert set(result.paths) == set(vacuum_now(lake).paths)


def test_a_retention_below_a_day_is_refused(lake: Lake) -> None:
    with pytest.raises(PlanError, match="RETAIN 23 HOURS is shorter than 24 hours"):
        lake.table.vacuum(VacuumOptions(retain_hours=23))
    assert lake.table.vacuum(VacuumOptions(retain_hours=24)).paths == ()


# ------------------------------------------------------------------ retained snapshots


def test_snapshots_of_branches_and_tags_are_retained(lake: Lake) -> None:
    first, second, third, *_ = lake.snapshots
    lake.update(branch("kept", second, "tag"), branch("side", third, min_snapshots_to_keep=2))
    rows = {id_: lake.ids(id_) for id_ in (second, third)}
    vacuum_now(lake)
    assert set(lake.snapshots) == {second, third, lake.table.snapshot().version}
    assert {id_: lake.ids(id_) for id_ in rows} == rows
    assert first not in lake.snapshots
    assert read_with_pyiceberg(lake.table.location, snapshot_id=second).num_rows == 6


def test_branch_and_tag_retention_settings_are_applied(lake: Lake) -> None:
    metadata = lake.current.metadata
    ids, newest = lake.snapshots, metadata.snapshots[-1].timestamp_ms
    ages = {"max_snapshot_age_ms": 10 * DAY * 1000}

    def remaining(*references: SetSnapshotRefUpdate, days: float, **options: int) -> list[int]:
        reopened = Lake(lake.folder)
        reopened.update(*references)
        updates = expiry_updates("s.t", reopened.current.metadata, ExpiryOptions(**options), newest + int(days * DAY * 1000))
        reopened.update(*(RemoveSnapshotRefUpdate(ref_name=reference.ref_name) for reference in references))
        expired = {id_ for update in updates for id_ in getattr(update, "snapshot_ids", ())}
        return [id_ for id_ in ids if id_ not in expired]

    assert remaining(days=6) == ids[-1:]
    assert remaining(days=6, retain_last=3) == ids[-3:]
    assert remaining(branch("b", ids[2], **ages), days=6) == [*ids[:3], ids[-1]]
    assert remaining(branch("b", ids[2], min_snapshots_to_keep=2), days=6) == [*ids[1:3], ids[-1]]
    assert remaining(branch("b", ids[2], max_ref_age_ms=DAY * 1000), days=6) == ids[-1:]
    assert remaining(branch("t", ids[0], "tag"), days=600) == [ids[0], ids[-1]]


def test_a_tag_beyond_its_maximum_age_is_dropped(lake: Lake) -> None:
    lake.update(branch("short", lake.snapshots[0], "tag", max_ref_age_ms=DAY * 1000))
    expiry(lake, 2).expire(ExpiryOptions())
    assert set(lake.current.metadata.refs) == {"main"}
    assert len(lake.snapshots) == 6 - 1 + 1  # The snapshot is within the retention, so only the tag is dropped.


def test_requested_snapshots_expire_regardless_of_age(lake: Lake) -> None:
    second, third = lake.snapshots[1:3]
    lake.update(branch("kept", third, "tag"))
    assert expiry(lake).expire(ExpiryOptions(snapshot_ids=(second,))) == Expired(manifest_lists=1)
    assert second not in lake.snapshots
    with pytest.raises(PlanError, match="the branches or tags kept refer to it"):
        expiry(lake).expire(ExpiryOptions(snapshot_ids=(third,)))
    with pytest.raises(VersionNotFound, match="no snapshot 5"):
        expiry(lake).expire(ExpiryOptions(snapshot_ids=(5,)))


def test_expiry_reports_counts_of_deleted_files(lake: Lake) -> None:
    # One removed data file, no delete file, because each is still needed, and a manifest list per snapshot.
    result = expiry(lake, 6).expire(ExpiryOptions())
    assert (result.data_files, result.position_delete_files, result.equality_delete_files, result.manifest_lists) == (1, 0, 0, 5)
    assert result.manifests > 0
    assert lake.on_disk() == needed(lake.folder)


def test_a_timestamp_in_a_gap_of_the_history_selects_no_snapshot(lake: Lake) -> None:
    """The time of an expired snapshot must not select the snapshot before it."""
    first, second = lake.current.metadata.snapshots[:2]
    lake.update(branch("kept", first.snapshot_id, "tag"))
    expiry(lake, 6).expire(ExpiryOptions())
    assert lake.ids(first.snapshot_id) == [0, 1, 2]
    with pytest.raises(VersionNotFound):
        lake.table.snapshot_at(timestamp=second.timestamp_ms)
    assert lake.table.snapshot_at(timestamp=lake.current.metadata.last_updated_ms).version == lake.snapshots[-1]


# ------------------------------------------------------------------ orphans


def test_orphan_files_are_deleted_after_three_days(lake: Lake) -> None:
    old = [lake.junk(path, 4) for path in ("data/left.parquet", "metadata/left-m0.avro", "metadata/v99x.metadata.json", "data/p=1/a#1")]
    young = [lake.junk(path, 2) for path in ("data/running.parquet", "metadata/running-m0.avro")]
    result = vacuum_now(lake, VacuumOptions())
    assert {path.rpartition("/t/")[2] for path in result.paths} == set(old)
    assert set(young) < lake.on_disk()
    assert lake.ids() == [0, 2, 10, 12]


def test_vacuum_keeps_hidden_files_and_files_of_other_tables(lake: Lake) -> None:
    hidden = [lake.junk(path) for path in ("_keep/a.parquet", "data/.hidden", "metadata/_kept.json", "data/_x=1/a.parquet")]
    inner = [lake.junk(f"inner/{path}") for path in ("metadata/v1.metadata.json", "data/a.parquet")]
    others = [lake.junk(f"delta/{path}") for path in ("_delta_log/00000000000000000000.json", "a.parquet")]
    lake.aged(30)
    vacuum_now(lake)
    assert {*hidden, *inner, *others} < lake.on_disk()


def test_hadoop_checksum_files_are_deleted_with_their_files(lake: Lake) -> None:
    for path in [path for path in lake.on_disk("data") if path.endswith(".parquet")]:
        lake.junk(path.replace("data/", "data/.") + ".crc", 0)
    orphans = [lake.junk(path) for path in ("data/left.parquet", "data/.left.parquet.crc")]
    unmatched_checksum = lake.junk("data/.other.parquet.crc")
    vacuum_now(lake)
    assert not lake.on_disk() & set(orphans)
    assert unmatched_checksum in lake.on_disk()
    files = {path for path in lake.on_disk("data") if path.endswith(".parquet")}
    assert {path for path in lake.on_disk("data") if path.endswith(".crc")} == {
        unmatched_checksum,
        *(f"data/.{path[5:]}.crc" for path in files),
    }


def test_vacuum_keeps_metadata_in_the_metadata_log_and_deletes_older(lake: Lake) -> None:
    lake.update(SetPropertiesUpdate(updates={"write.metadata.previous-versions-max": "2"}))
    lake.append([50])
    lake.aged(30)
    assert len([path for path in lake.on_disk("metadata") if path.endswith(".metadata.json")]) == 9
    vacuum_now(lake, VacuumOptions())
    assert {path for path in lake.on_disk("metadata") if path.endswith(".metadata.json")} == {
        f"metadata/v{version}.metadata.json" for version in (7, 8, 9)
    }
    assert IcebergTable(DirectoryOperations(Storage(str(lake.folder)), "s.t"), "s.t").snapshot().version == lake.table.snapshot().version


def test_old_metadata_is_deleted_after_commit_if_enabled(lake: Lake) -> None:
    properties = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"}
    lake.update(SetPropertiesUpdate(updates=properties))
    lake.append([50])
    numbers = sorted(int(match[1]) for path in lake.on_disk() if (match := re.search(r"/v(\d+)\.metadata", path)))
    assert numbers == [7, 8, 9]


def test_a_late_writer_does_not_reuse_a_deleted_metadata_version(lake: Lake) -> None:
    sleeping = DirectoryOperations(lake.storage, "s.t")
    base = sleeping.current()
    assert base is not None
    properties = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
    lake.update(SetPropertiesUpdate(updates=properties))
    for id_ in (50, 60, 70):
        lake.append([id_])
    assert f"metadata/v{(base.version or 0) + 1}.metadata.json" not in lake.on_disk()
    original_files = lake.on_disk()
    assert sleeping.commit(base, (SetPropertiesUpdate(updates={"mine": "1"}),)) is Put.EXISTED
    assert lake.on_disk() == original_files
    assert Lake(lake.folder).ids() == [0, 2, 10, 12, 50, 60, 70]


def test_orphan_removal_keeps_all_snapshots(lake: Lake) -> None:
    old, young = lake.junk("data/left.parquet", 4), lake.junk("data/younger.parquet", 2)
    then = time.time_ns() // 1_000_000 - DAY * 1000
    three_days_ago = then - 2 * DAY * 1000
    assert [path.rpartition("/t/")[2] for path in expiry(lake).remove_orphans(OrphanOptions(three_days_ago, dry_run=True))] == [old]
    assert len(expiry(lake).remove_orphans(OrphanOptions(then))) == 2
    assert not lake.on_disk() & {old, young}
    assert len(lake.snapshots) == 6


# ------------------------------------------------------------------ other files and errors


def test_statistics_files_are_deleted_with_their_snapshot(lake: Lake) -> None:
    first, newest = lake.snapshots[0], lake.snapshots[-1]
    for id_ in (first, newest):
        paths = [lake.junk(f"metadata/{id_}.{ending}", 0) for ending in ("stats", "partitions.parquet")]
        location = [f"{lake.table.location}/{path}" for path in paths]
        common_fields = {"snapshot-id": id_, "file-size-in-bytes": 9}
        statistics = StatisticsFile(
            **common_fields, **{"statistics-path": location[0], "file-footer-size-in-bytes": 1, "blob-metadata": []}
        )
        partitions = PartitionStatisticsFile(**common_fields, **{"statistics-path": location[1]})
        lake.update(
            SetStatisticsUpdate(snapshot_id=id_, statistics=statistics), SetPartitionStatisticsUpdate(partition_statistics=partitions)
        )
    assert expiry(lake, 6).expire(ExpiryOptions()).statistics_files == 2
    assert {path for path in lake.on_disk("metadata") if str(first) in path} == set()
    assert len({path for path in lake.on_disk("metadata") if re.search(rf"/{newest}\.", path)}) == 2
    assert lake.on_disk() == needed(lake.folder)


def test_vacuum_keeps_files_outside_the_table_folder(lake: Lake, tmp_path: Path) -> None:
    other_lake = Lake(tmp_path / "elsewhere")
    other_lake.create()
    other_lake.append([7, 8])
    (path,) = other_lake.table.snapshot().files().paths
    added = other_lake.table.snapshot()
    (size,) = added.files().sizes.to_pylist()
    lake.change(added=(AddedFile(path, size, 2),))
    lake.remove(7)
    result = vacuum_now(lake)
    assert path not in result.paths
    assert other_lake.ids() == [7, 8]


def test_vacuum_is_refused_if_gc_is_disabled(lake: Lake) -> None:
    lake.update(SetPropertiesUpdate(updates={"gc.enabled": "false"}))
    original_files = lake.on_disk()
    for run in (
        lambda: vacuum_now(lake),
        lambda: expiry(lake).expire(ExpiryOptions()),
        lambda: expiry(lake).remove_orphans(OrphanOptions(0)),
    ):
        with pytest.raises(PlanError, match=r"gc\.enabled is false"):
            run()
    assert lake.on_disk() == original_files


def test_a_vector_file_is_retained_while_one_vector_is_needed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create({"format-version": "3"})
    lake.append([1, 2, 3])
    lake.append([4, 5, 6])
    lake.delete(1, 4)
    (vectors,) = {path for path in lake.on_disk() if path.endswith(".puffin")}
    lake.delete(2)
    lake.aged(30)
    expiry(lake).expire(ExpiryOptions(older_than=2**62))
    assert vectors in lake.on_disk() and lake.ids() == [3, 5, 6]
    lake.delete(5)
    lake.aged(30)
    expiry(lake).expire(ExpiryOptions(older_than=2**62))
    assert vectors not in lake.on_disk() and lake.ids() == [3, 6]


def test_vacuum_stops_before_deletions_at_an_unreadable_manifest_list(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.iceberg.manifests.manifest_files._own_files", Cache(0))
    newest = lake.current.metadata.current_snapshot()
    assert newest is not None
    Path(newest.manifest_list.removeprefix("file://")).write_bytes(b"broken")
    original_files = lake.on_disk()
    with pytest.raises(CorruptLog):
        vacuum_now(lake)
    assert lake.on_disk() == original_files
    assert len(lake.snapshots) == 6


def test_vacuum_deletes_files_of_a_killed_vacuum(lake: Lake) -> None:
    # A kill between commit and deletions leaves the files of expired snapshots.
    lake.update(RemoveSnapshotsUpdate(snapshot_ids=lake.snapshots[:-1]))
    lake.aged(4)
    assert len(vacuum_now(lake, VacuumOptions()).paths) > 5
    assert lake.on_disk() == needed(lake.folder)


def test_vacuum_keeps_files_of_a_concurrent_commit(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Lake(lake.folder)
    commit = lake.operations.commit

    def append_and_commit(*arguments: object) -> object:
        monkeypatch.setattr(lake.operations, "commit", commit)
        other.append([90])
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.operations, "commit", append_and_commit)
    vacuum_now(lake)
    assert lake.snapshots == [other.table.snapshot().version]
    assert lake.ids() == [0, 2, 10, 12, 90]
    assert lake.on_disk() == needed(lake.folder)
