"""VACUUM deletes what no version within the retention needs, and nothing else."""

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
    """Three files; then one is removed, one is marked twice, one stays as it is."""
    lake = Lake(tmp_path)
    files = [lake.file([n, n + 10, n + 20]) for n in range(3)]
    committed(lake.create(*files, properties={"rowmerge.write.mode": "merge-on-read"}))
    committed(lake.commit("DELETE", removed=(files[0].path,), deleted={files[1].path: Positions([0])}))
    committed(lake.commit("DELETE", deleted={files[1].path: Positions([0, 1])}))
    return lake


def on_disk(lake: Lake) -> set[str]:
    """What is in the table's folder beside its log."""
    return {o.path for o in Storage(str(lake.folder)).list() if not o.path.startswith("_delta_log/")}


def aged(lake: Lake, days: float, *paths: str) -> None:
    """Make files look as if they had been written days ago, all of the folder's when none is named."""
    then = time.time() - days * DAY
    for path in paths or [o.path for o in Storage(str(lake.folder)).list()]:
        os.utime(lake.folder / path, (then, then))


def vacuumed(lake: Lake) -> Vacuumed:
    """VACUUM without retention, a moment after the last change: what has the same millisecond is kept."""
    time.sleep(0.005)
    return lake.table.vacuum(NOW)


def junk(lake: Lake, path: str, days: float = 30) -> str:
    file = lake.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"left over")
    aged(lake, days, path)
    return path


def test_without_retention_exactly_the_newest_version_is_left(lake: Lake) -> None:
    before = on_disk(lake)
    done = vacuumed(lake)
    assert on_disk(lake) == referenced_paths(lake.table.snapshot())
    assert {path.removeprefix(f"file://{lake.folder}/") for path in done.paths} == before - on_disk(lake)
    assert len(done.paths) == 2
    assert lake.ids() == [2, 12, 21, 22]


def test_within_the_retention_nothing_goes(lake: Lake) -> None:
    before = on_disk(lake)
    aged(lake, 30)
    assert lake.table.vacuum(VacuumOptions()).paths == ()
    assert on_disk(lake) == before
    assert [len(lake.table.snapshot_at(version=version).files()) for version in (0, 1)] == [3, 2]


def test_what_was_removed_longer_ago_than_the_retention_goes(lake: Lake) -> None:
    path = lake.folder / commit_path(1)
    past = int((time.time() - 8 * DAY) * 1000)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("remove", {})["deletionTimestamp"] = past
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    aged(lake, 30)
    again = Lake(lake.folder)
    assert len(again.table.vacuum(VacuumOptions()).paths) == 1
    assert again.ids() == [2, 12, 21, 22]


def test_a_longer_retention_keeps_what_the_checkpoint_has_forgotten(tmp_path: Path) -> None:
    """Tombstones leave the checkpoints after the table's own retention; the commits still tell of them."""
    lake = Lake(tmp_path)
    file = lake.file([1])
    committed(lake.create(file, properties={"delta.checkpointInterval": "2", "delta.deletedFileRetentionDuration": "interval 0 days"}))
    committed(lake.commit("DELETE", removed=(file.path,)))
    time.sleep(0.01)
    committed(lake.append([2]))
    aged(lake, 5, Path(file.path).name)
    again = Lake(tmp_path)
    assert again.table.snapshot().state.tombstones.num_rows == 0
    assert again.table.vacuum(VacuumOptions(retain_hours=24)).paths == ()
    assert again.table.vacuum(VacuumOptions(retain_hours=0)).paths == (file.path,)


def test_a_file_that_is_about_to_be_committed_is_safe(lake: Lake) -> None:
    running = lake.file([7])
    lake.table.vacuum(VacuumOptions())
    committed(lake.commit("WRITE", added=(running,)))
    assert 7 in lake.ids()


def test_looking_only_deletes_nothing_and_writes_no_version(lake: Lake) -> None:
    before, version = on_disk(lake), lake.table.snapshot().version
    told = lake.table.vacuum(VacuumOptions(0, dry_run=True, check_retention=False))
    assert len(told.paths) == 2
    assert all(path.startswith(f"file://{lake.folder}/") for path in told.paths)
    assert (on_disk(lake), lake.table.snapshot().version) == (before, version)


def test_leftovers_go_and_hidden_files_stay(lake: Lake) -> None:
    vacuumed(lake)
    before = on_disk(lake)
    left_over = ["part-1.parquet", "deletion_vector_x.bin#1", "x=1/part-2.parquet", "_change_data/cdc-1.parquet", "_delta_index/bloom"]
    hidden = ["_staging/part-3.parquet", ".part-4.tmp", "_SUCCESS", "x=1/.hidden", "x=1/_temporary/0/part-5.parquet", "_p=1/part-6"]
    for path in left_over + hidden:
        junk(lake, path)
    young = junk(lake, "part-7.parquet", days=0.5)
    done = lake.table.vacuum(VacuumOptions())
    assert sorted(path.removeprefix(f"file://{lake.folder}/") for path in done.paths) == sorted(left_over)
    assert on_disk(lake) == before | set(hidden) | {young}


def test_folders_of_a_partition_column_are_not_hidden_by_its_name(tmp_path: Path) -> None:
    lake = Lake(tmp_path, UNDERSCORED, ("_p",))
    kept = lake.file([1], "_p=a", {"_p": "a"})
    committed(lake.create(kept))
    path = junk(lake, "_p=a/left-over.parquet")
    assert vacuumed(lake).paths == (f"file://{tmp_path}/{path}",)
    assert lake.ids() == [1]


@pytest.mark.parametrize("folder", ["p=a%2Fb", "p=a%20b", "p=a b", "p=é#", "p=%25", "p=a+b;c", "p=__HIVE_DEFAULT_PARTITION__"])
def test_odd_folders_of_live_files_are_recognized(tmp_path: Path, folder: str) -> None:
    lake = Lake(tmp_path)
    kept, gone = lake.file([1], folder), lake.file([2], folder)
    committed(lake.create(kept, gone))
    committed(lake.commit("DELETE", removed=(gone.path,)))
    assert vacuumed(lake).paths == (gone.path,)
    assert lake.ids() == [1]


def test_files_elsewhere_are_never_touched(tmp_path: Path) -> None:
    source, clone = Lake(tmp_path / "source"), Lake(tmp_path / "clone")
    shared = source.file([1, 2])
    committed(source.create(shared))
    committed(clone.create(shared))
    committed(clone.commit("DELETE", removed=(shared.path,), added=(clone.file([3]),)))
    assert vacuumed(clone).paths == ()
    assert source.ids() == [1, 2]


def test_live_files_by_absolute_path_are_kept_however_the_table_is_reached(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    file = lake.file([1])
    committed(lake.create(file))
    commit = lake.folder / commit_path(0)
    commit.write_text(commit.read_text().replace(f'"path":"{Path(file.path).name}"', f'"path":"{file.path}"'))
    (tmp_path / "link").symlink_to(lake.folder)
    for folder in (lake.folder, tmp_path / "link"):
        assert vacuumed(Lake(folder)).paths == ()


def test_a_table_in_a_folder_below_is_not_touched(lake: Lake) -> None:
    inner = Lake(lake.folder / "inner")
    committed(inner.create(inner.file([1])))
    vacuumed(lake)
    assert inner.ids() == [1]


def test_behind_a_symbolic_link_nothing_is_deleted(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> None:
    precious = tmp_path_factory.mktemp("precious")
    (precious / "file").write_text("precious")
    (lake.folder / "link").symlink_to(precious)
    vacuumed(lake)
    assert (precious / "file").exists()


def test_a_checksum_goes_with_its_file(lake: Lake) -> None:
    gone = junk(lake, "part-1.parquet")
    checksum = junk(lake, ".part-1.parquet.crc")
    vacuumed(lake)
    assert {gone, checksum} & on_disk(lake) == set()


def test_change_data_within_the_retention_is_kept(lake: Lake) -> None:
    commit = lake.folder / commit_path(2)
    cdc = {"cdc": {"path": "_change_data/cdc-1.parquet", "partitionValues": {}, "size": 9, "dataChange": False}}
    commit.write_text(commit.read_text() + json.dumps(cdc) + "\n")
    path = junk(lake, "_change_data/cdc-1.parquet")
    Lake(lake.folder).table.vacuum(VacuumOptions())
    assert path in on_disk(lake)
    vacuumed(Lake(lake.folder))
    assert path not in on_disk(lake)


def test_a_retention_below_the_tables_is_refused(lake: Lake) -> None:
    before = on_disk(lake)
    with pytest.raises(PlanError, match="RETAIN 167 HOURS is shorter than the table's retention of 168 hours"):
        lake.table.vacuum(VacuumOptions(retain_hours=167))
    with pytest.raises(PlanError, match="retentionDurationCheck"):
        lake.table.vacuum(VacuumOptions(retain_hours=0, dry_run=True))
    assert on_disk(lake) == before
    assert lake.table.vacuum(VacuumOptions(retain_hours=168)).paths == ()


def test_the_retention_is_a_property_of_the_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1]), properties={"delta.deletedFileRetentionDuration": "interval 2 days"}))
    old, young = junk(lake, "old", days=3), junk(lake, "young", days=1)
    lake.table.vacuum(VacuumOptions())
    assert old not in on_disk(lake)
    assert young in on_disk(lake)


def test_the_history_tells_of_it(lake: Lake) -> None:
    done = vacuumed(lake)
    end, start = lake.table.history(2)
    assert (end.version, end.operation, start.operation) == (done.version, "VACUUM END", "VACUUM START")
    assert start.parameters == {"retentionCheckEnabled": "false", "defaultRetentionMillis": "604800000", "specifiedRetentionMillis": "0"}
    assert start.metrics["numFilesToDelete"] == "2"
    assert end.parameters == {"status": "COMPLETED"}
    assert end.metrics == {"numDeletedFiles": "2", "numVacuumedDirectories": "1"}
    version = lake.table.snapshot().version
    assert lake.table.vacuum(VacuumOptions(record=False)).version == version


def test_a_table_that_may_not_be_written_is_not_vacuumed(lake: Lake) -> None:
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "telepathy"],
    }
    (lake.folder / commit_path(3)).write_text(json.dumps({"protocol": features}) + "\n")
    before = on_disk(lake)
    with pytest.raises(UnsupportedTableFeature, match="telepathy"):
        vacuumed(lake)
    assert on_disk(lake) == before


def test_a_failed_deletion_is_told_in_the_history(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Storage, paths: list[str]) -> None:
        raise StorageError(paths[0], "permission denied")

    monkeypatch.setattr(Storage, "delete", refuse)
    with pytest.raises(StorageError):
        vacuumed(lake)
    assert lake.table.history(1)[0].parameters == {"status": "FAILED"}


def test_what_comes_back_meanwhile_is_not_deleted(lake: Lake) -> None:
    """A file that left the table is added again between the listing and the deletion."""
    base = lake.table.snapshot_at(version=0)
    (name,) = referenced_paths(base) - referenced_paths(lake.table.snapshot())
    add = next(line for line in (lake.folder / commit_path(0)).read_text().splitlines() if name in line)
    table, commit = lake.table, lake.table.commit

    def restoring(*arguments: object) -> object:
        outcome = commit(*arguments)  # type: ignore[arg-type]
        (lake.folder / commit_path(4)).write_text(add + "\n")
        return outcome

    table.commit = restoring  # type: ignore[method-assign, assignment]
    vacuumed(lake)
    assert name in on_disk(lake)


def test_a_live_file_that_vacuum_takes_for_an_old_one_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)
    lake.create(lake.file([1, 2]), lake.file([3]))
    for path in tmp_path.glob("*.parquet"):
        os.utime(path, (0, 0))
    monkeypatch.setattr(vacuum, "referenced_paths", lambda snapshot: frozenset())
    monkeypatch.setattr(vacuum.Vacuum, "_needed_paths", lambda self, snapshot, cut_off: set())
    with pytest.raises(LiveFileProtected, match="is a live file of the table"):
        lake.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))
    assert Lake(tmp_path).ids() == [1, 2, 3]
    assert lake.table.history()[0].parameters["status"] == "FAILED"
