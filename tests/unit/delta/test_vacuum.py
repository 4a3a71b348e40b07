"""VACUUM deletes only files that no version within the retention needs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from rowmerge.delta.log.log_files import commit_path
from rowmerge.delta.maintenance import vacuum
from rowmerge.delta.maintenance.vacuum import referenced_paths
from rowmerge.errors import LiveFileProtected, PlanError, StorageError, UnsupportedTableFeature
from rowmerge.storage.store import Storage
from rowmerge.table.maintenance import Vacuumed, VacuumOptions
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.snapshots.files import Positions
from tests.support.delta_tables import Lake, committed

NOW = VacuumOptions(retain_hours=0, check_retention=False)
DAY = 24 * 3600
UNDERSCORED = Struct((Field("id", Primitive("long")), Field("name", Primitive("string")), Field("_p", Primitive("string"))))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table of three files: one is removed, one gets two deletion vectors, one stays unchanged."""
    lake = Lake(tmp_path)
    files = [lake.file([n, n + 10, n + 20]) for n in range(3)]
    committed(lake.create(*files, properties={"rowmerge.write.mode": "merge-on-read"}))
    committed(lake.commit("DELETE", removed=(files[0].path,), deleted={files[1].path: Positions([0])}))
    committed(lake.commit("DELETE", deleted={files[1].path: Positions([0, 1])}))
    return lake


def on_disk(lake: Lake) -> set[str]:
    """Return the paths in the table's folder outside its log."""
    return {o.path for o in Storage(str(lake.folder)).list() if not o.path.startswith("_delta_log/")}


def set_age(lake: Lake, days: float, *paths: str) -> None:
    """Set modification times to some days ago; without paths, those of all files in the folder."""
    then = time.time() - days * DAY
    for path in paths or [o.path for o in Storage(str(lake.folder)).list()]:
        os.utime(lake.folder / path, (then, then))


def vacuum_now(lake: Lake) -> Vacuumed:
    """Run VACUUM without retention, a moment after the last change, because files of the same millisecond are retained."""
    time.sleep(0.005)
    return lake.table.vacuum(NOW)


def write_orphan(lake: Lake, path: str, days: float = 30) -> str:
    file = lake.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"left over")
    set_age(lake, days, path)
    return path


def test_vacuum_without_retention_keeps_only_the_newest_version(lake: Lake) -> None:
    original_files = on_disk(lake)
    result = vacuum_now(lake)
    assert on_disk(lake) == referenced_paths(lake.table.snapshot())
    assert {path.removeprefix(f"file://{lake.folder}/") for path in result.paths} == original_files - on_disk(lake)
    assert len(result.paths) == 2
    assert lake.ids() == [2, 12, 21, 22]


def test_vacuum_deletes_no_files_within_the_retention(lake: Lake) -> None:
    original_files = on_disk(lake)
    set_age(lake, 30)
    assert lake.table.vacuum(VacuumOptions()).paths == ()
    assert on_disk(lake) == original_files
    assert [len(lake.table.snapshot_at(version=version).files()) for version in (0, 1)] == [3, 2]


def test_vacuum_deletes_files_removed_before_the_retention(lake: Lake) -> None:
    path = lake.folder / commit_path(1)
    deletion_time = int((time.time() - 8 * DAY) * 1000)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("remove", {})["deletionTimestamp"] = deletion_time
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    set_age(lake, 30)
    reopened = Lake(lake.folder)
    assert len(reopened.table.vacuum(VacuumOptions()).paths) == 1
    assert reopened.ids() == [2, 12, 21, 22]


def test_a_longer_retention_keeps_files_without_checkpointed_tombstones(tmp_path: Path) -> None:
    """Checkpoints drop tombstones after the table's own retention; the commits still contain them."""
    lake = Lake(tmp_path)
    file = lake.file([1])
    committed(lake.create(file, properties={"delta.checkpointInterval": "2", "delta.deletedFileRetentionDuration": "interval 0 days"}))
    committed(lake.commit("DELETE", removed=(file.path,)))
    time.sleep(0.01)
    committed(lake.append([2]))
    set_age(lake, 5, Path(file.path).name)
    reopened = Lake(tmp_path)
    assert reopened.table.snapshot().state.tombstones.num_rows == 0
    assert reopened.table.vacuum(VacuumOptions(retain_hours=24)).paths == ()
    assert reopened.table.vacuum(VacuumOptions(retain_hours=0)).paths == (file.path,)


def test_vacuum_keeps_files_of_running_commits(lake: Lake) -> None:
    running = lake.file([7])
    lake.table.vacuum(VacuumOptions())
    committed(lake.commit("WRITE", added=(running,)))
    assert 7 in lake.ids()


def test_a_dry_run_deletes_no_files_and_commits_no_version(lake: Lake) -> None:
    original_files, version = on_disk(lake), lake.table.snapshot().version
    result = lake.table.vacuum(VacuumOptions(0, dry_run=True, check_retention=False))
    assert len(result.paths) == 2
    assert all(path.startswith(f"file://{lake.folder}/") for path in result.paths)
    assert (on_disk(lake), lake.table.snapshot().version) == (original_files, version)


def test_vacuum_deletes_orphan_files_and_keeps_hidden_files(lake: Lake) -> None:
    vacuum_now(lake)
    original_files = on_disk(lake)
    orphans = ["part-1.parquet", "deletion_vector_x.bin#1", "x=1/part-2.parquet", "_change_data/cdc-1.parquet", "_delta_index/bloom"]
    hidden = ["_staging/part-3.parquet", ".part-4.tmp", "_SUCCESS", "x=1/.hidden", "x=1/_temporary/0/part-5.parquet", "_p=1/part-6"]
    for path in orphans + hidden:
        write_orphan(lake, path)
    young = write_orphan(lake, "part-7.parquet", days=0.5)
    result = lake.table.vacuum(VacuumOptions())
    assert sorted(path.removeprefix(f"file://{lake.folder}/") for path in result.paths) == sorted(orphans)
    assert on_disk(lake) == original_files | set(hidden) | {young}


def test_folders_of_an_underscored_partition_column_are_not_hidden(tmp_path: Path) -> None:
    lake = Lake(tmp_path, UNDERSCORED, ("_p",))
    live = lake.file([1], "_p=a", {"_p": "a"})
    committed(lake.create(live))
    path = write_orphan(lake, "_p=a/left-over.parquet")
    assert vacuum_now(lake).paths == (f"file://{tmp_path}/{path}",)
    assert lake.ids() == [1]


@pytest.mark.parametrize("folder", ["p=a%2Fb", "p=a%20b", "p=a b", "p=é#", "p=%25", "p=a+b;c", "p=__HIVE_DEFAULT_PARTITION__"])
def test_vacuum_recognizes_live_files_in_oddly_named_folders(tmp_path: Path, folder: str) -> None:
    lake = Lake(tmp_path)
    live, removed_file = lake.file([1], folder), lake.file([2], folder)
    committed(lake.create(live, removed_file))
    committed(lake.commit("DELETE", removed=(removed_file.path,)))
    assert vacuum_now(lake).paths == (removed_file.path,)
    assert lake.ids() == [1]


def test_vacuum_keeps_files_outside_the_table_folder(tmp_path: Path) -> None:
    source, clone = Lake(tmp_path / "source"), Lake(tmp_path / "clone")
    shared = source.file([1, 2])
    committed(source.create(shared))
    committed(clone.create(shared))
    committed(clone.commit("DELETE", removed=(shared.path,), added=(clone.file([3]),)))
    assert vacuum_now(clone).paths == ()
    assert source.ids() == [1, 2]


def test_vacuum_through_a_symbolic_link_keeps_live_files_with_absolute_paths(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    file = lake.file([1])
    committed(lake.create(file))
    commit = lake.folder / commit_path(0)
    commit.write_text(commit.read_text().replace(f'"path":"{Path(file.path).name}"', f'"path":"{file.path}"'))
    (tmp_path / "link").symlink_to(lake.folder)
    for folder in (lake.folder, tmp_path / "link"):
        assert vacuum_now(Lake(folder)).paths == ()


def test_vacuum_keeps_a_table_in_a_subfolder(lake: Lake) -> None:
    inner = Lake(lake.folder / "inner")
    committed(inner.create(inner.file([1])))
    vacuum_now(lake)
    assert inner.ids() == [1]


def test_vacuum_does_not_follow_symbolic_links(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> None:
    precious = tmp_path_factory.mktemp("precious")
    (precious / "file").write_text("precious")
    (lake.folder / "link").symlink_to(precious)
    vacuum_now(lake)
    assert (precious / "file").exists()


def test_vacuum_deletes_the_crc_file_of_a_deleted_file(lake: Lake) -> None:
    orphan = write_orphan(lake, "part-1.parquet")
    checksum = write_orphan(lake, ".part-1.parquet.crc")
    vacuum_now(lake)
    assert {orphan, checksum} & on_disk(lake) == set()


def test_vacuum_keeps_change_data_within_the_retention(lake: Lake) -> None:
    commit = lake.folder / commit_path(2)
    cdc = {"cdc": {"path": "_change_data/cdc-1.parquet", "partitionValues": {}, "size": 9, "dataChange": False}}
    commit.write_text(commit.read_text() + json.dumps(cdc) + "\n")
    path = write_orphan(lake, "_change_data/cdc-1.parquet")
    Lake(lake.folder).table.vacuum(VacuumOptions())
    assert path in on_disk(lake)
    vacuum_now(Lake(lake.folder))
    assert path not in on_disk(lake)


def test_a_retention_below_the_table_property_is_refused(lake: Lake) -> None:
    original_files = on_disk(lake)
    with pytest.raises(PlanError, match="RETAIN 167 HOURS is shorter than the table's retention period of 168 hours"):
        lake.table.vacuum(VacuumOptions(retain_hours=167))
    with pytest.raises(PlanError, match="retentionDurationCheck"):
        lake.table.vacuum(VacuumOptions(retain_hours=0, dry_run=True))
    assert on_disk(lake) == original_files
    assert lake.table.vacuum(VacuumOptions(retain_hours=168)).paths == ()


def test_the_default_retention_is_the_table_property(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1]), properties={"delta.deletedFileRetentionDuration": "interval 2 days"}))
    old, young = write_orphan(lake, "old", days=3), write_orphan(lake, "young", days=1)
    lake.table.vacuum(VacuumOptions())
    assert old not in on_disk(lake)
    assert young in on_disk(lake)


def test_vacuum_is_recorded_in_the_history(lake: Lake) -> None:
    result = vacuum_now(lake)
    end, start = lake.table.history(2)
    assert (end.version, end.operation, start.operation) == (result.version, "VACUUM END", "VACUUM START")
    assert start.parameters == {"retentionCheckEnabled": "false", "defaultRetentionMillis": "604800000", "specifiedRetentionMillis": "0"}
    assert start.metrics["numFilesToDelete"] == "2"
    assert end.parameters == {"status": "COMPLETED"}
    assert end.metrics == {"numDeletedFiles": "2", "numVacuumedDirectories": "1"}
    version = lake.table.snapshot().version
    assert lake.table.vacuum(VacuumOptions(record=False)).version == version


def test_vacuum_of_a_table_with_unsupported_features_is_refused(lake: Lake) -> None:
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "telepathy"],
    }
    (lake.folder / commit_path(3)).write_text(json.dumps({"protocol": features}) + "\n")
    original_files = on_disk(lake)
    with pytest.raises(UnsupportedTableFeature, match="telepathy"):
        vacuum_now(lake)
    assert on_disk(lake) == original_files


def test_a_failed_vacuum_is_recorded_in_the_history(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Storage, paths: list[str]) -> None:
        raise StorageError(paths[0], "permission denied")

    monkeypatch.setattr(Storage, "delete", refuse)
    with pytest.raises(StorageError):
        vacuum_now(lake)
    assert lake.table.history(1)[0].parameters == {"status": "FAILED"}


def test_vacuum_keeps_files_restored_during_its_run(lake: Lake) -> None:
    """Another commit adds a removed file again between the listing and the deletion."""
    base = lake.table.snapshot_at(version=0)
    (name,) = referenced_paths(base) - referenced_paths(lake.table.snapshot())
    add = next(line for line in (lake.folder / commit_path(0)).read_text().splitlines() if name in line)
    table, commit = lake.table, lake.table.commit

    def commit_and_restore(*arguments: object) -> object:
        outcome = commit(*arguments)  # type: ignore[arg-type]
        (lake.folder / commit_path(4)).write_text(add + "\n")
        return outcome

    table.commit = commit_and_restore  # type: ignore[method-assign, assignment]
    vacuum_now(lake)
    assert name in on_disk(lake)


def test_vacuum_stops_before_it_deletes_a_live_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)
    lake.create(lake.file([1, 2]), lake.file([3]))
    for path in tmp_path.glob("*.parquet"):
        os.utime(path, (0, 0))
    monkeypatch.setattr(vacuum, "referenced_paths", lambda snapshot: frozenset())
    monkeypatch.setattr(vacuum.Vacuum, "_needed_paths", lambda self, snapshot, cut_off: set())
    with pytest.raises(LiveFileProtected, match="so nothing was deleted"):
        lake.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))
    assert Lake(tmp_path).ids() == [1, 2, 3]
    assert lake.table.history()[0].parameters["status"] == "FAILED"
