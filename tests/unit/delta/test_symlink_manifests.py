"""Symlink manifests list the live data files of each partition after every commit, also after failures and concurrent commits."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rowmerge.delta import DeltaTable
from rowmerge.delta.maintenance import symlink_manifests
from rowmerge.delta.maintenance.symlink_manifests import FOLDER
from rowmerge.errors import ConfigurationError, PlanError, RowmergeError, StorageError
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest, Reads
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.settings import WriteMode
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.delta_tables import ID_NAME, Lake, committed
from tests.support.faulty_storage import Fault, FaultyStorage, Kind

ENABLED = "delta.compatibility.symlinkFormatManifest.enabled"
MANIFESTS = {ENABLED: "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
PARTITIONED = Struct((*ID_NAME, Field("p", Primitive("string"))))


def manifests(lake: Lake) -> dict[str, list[str]]:
    """Return the lines of each manifest of a table, by the manifest's folder."""
    root = lake.folder / FOLDER
    return {path.parent.relative_to(root).as_posix(): path.read_text().splitlines() for path in sorted(root.rglob("manifest"))}


def expected_manifests(lake: Lake) -> dict[str, list[str]]:
    """Return the manifests that describe the newest version of a table with the partition column p."""
    files: dict[str, list[str]] = {}
    for file in lake.table.snapshot().files().files():
        value = (file.partition or {})["p"]
        files.setdefault("p=__HIVE_DEFAULT_PARTITION__" if value is None else f"p={value}".replace("/", "%2F"), []).append(file.path)
    return {folder: sorted(paths) for folder, paths in files.items()}


def partitioned_lake(folder: Path, **properties: str) -> Lake:
    lake = Lake(folder, PARTITIONED, ("p",))
    files = [lake.file([number], f"f{number}", {"p": value}) for number, value in enumerate(("a", "a", "b/c", None))]
    committed(lake.create(*files, properties={**MANIFESTS, **properties}))
    return lake


def set_properties(lake: Lake, properties: Mapping[str, str]) -> None:
    change = CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={**properties_of(lake), **properties}))
    committed(lake.table.commit(lake.table.snapshot(), change))


def properties_of(lake: Lake) -> Mapping[str, str]:
    return lake.table.snapshot().settings.properties


def path_of(lake: Lake, partition: str | None) -> str:
    return next(file.path for file in lake.table.snapshot().files().files() if (file.partition or {})["p"] == partition)


# ------------------------------------------------------------------ content


def test_each_partition_has_a_manifest_with_absolute_paths(tmp_path: Path) -> None:
    lake = partitioned_lake(tmp_path)
    assert sorted(manifests(lake)) == ["p=__HIVE_DEFAULT_PARTITION__", "p=a", "p=b%2Fc"]
    assert manifests(lake) == expected_manifests(lake)
    assert all(Path(path.removeprefix("file://")).is_file() for paths in manifests(lake).values() for path in paths)


def test_a_table_without_partitions_has_one_manifest_even_without_files(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties=MANIFESTS))
    assert manifests(lake) == {".": []}
    committed(lake.append([1]))
    assert manifests(lake) == {".": list(lake.table.snapshot().files().paths)}


def test_an_empty_partitioned_table_has_no_manifests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(tmp_path, PARTITIONED, ("p",))
    committed(lake.create(properties=MANIFESTS))
    assert manifests(lake) == {}
    committed(lake.commit("WRITE", added=(lake.file([1], "f", {"p": "a"}),)))
    assert list(manifests(lake)) == ["p=a"]
    committed(lake.commit("DELETE", removed=(path_of(lake, "a"),)))
    assert manifests(lake) == {}
    assert not caplog.records


def test_commits_write_only_the_manifests_of_changed_partitions(tmp_path: Path) -> None:
    lake = partitioned_lake(tmp_path)
    for path in (lake.folder / FOLDER).rglob("manifest"):
        os.utime(path, (0, 0))
    committed(lake.commit("WRITE", added=(lake.file([9], "f9", {"p": "b/c"}), lake.file([10], "f10", {"p": "new"}))))
    assert manifests(lake) == expected_manifests(lake)
    written_folders = {path.parent.name for path in (lake.folder / FOLDER).rglob("manifest") if path.stat().st_mtime}
    assert written_folders == {"p=b%2Fc", "p=new"}


def test_the_manifest_of_an_empty_partition_is_deleted_with_its_folder(tmp_path: Path) -> None:
    lake = partitioned_lake(tmp_path)
    committed(lake.commit("DELETE", removed=(path_of(lake, "b/c"),)))
    assert sorted(manifests(lake)) == ["p=__HIVE_DEFAULT_PARTITION__", "p=a"]
    assert manifests(lake) == expected_manifests(lake)
    assert not (lake.folder / FOLDER / "p=b%2Fc").exists()


def test_without_the_property_only_generate_writes_manifests(tmp_path: Path) -> None:
    lake = partitioned_lake(tmp_path, **{ENABLED: "false"})
    assert not (lake.folder / FOLDER).exists()
    assert lake.table.symlink_manifests.generate() == 0
    first = manifests(lake)
    assert first == expected_manifests(lake)
    committed(lake.commit("WRITE", added=(lake.file([9], "f9", {"p": "a"}),)))
    assert manifests(lake) == first
    assert lake.table.symlink_manifests.generate() == 1
    assert manifests(lake) == expected_manifests(lake) != first


def test_a_replacement_with_other_partitions_replaces_all_manifests(tmp_path: Path) -> None:
    lake = partitioned_lake(tmp_path)
    definition = TableDefinition(ID_NAME, (), MANIFESTS)
    change = CommitRequest("REPLACE TABLE", replace=True, definition=definition)
    committed(lake.table.commit(lake.table.snapshot(), change))
    assert manifests(lake) == {".": []}


# ------------------------------------------------------------------ failures and concurrent commits


class FullForManifests(Storage):
    """Storage in which manifests cannot be written."""

    def put(self, path: str, data: bytes) -> None:
        if path.startswith(FOLDER):
            raise StorageError(f"{self.location}/{path}", "no space left on device")
        super().put(path, data)


def test_a_failed_manifest_is_repaired_by_the_next_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = partitioned_lake(tmp_path)
    full_table = DeltaTable(FullForManifests(str(tmp_path)), "s.t")
    added = lake.file([9], "f9", {"p": "a"})
    with caplog.at_level(logging.WARNING):
        request = CommitRequest("WRITE", files=FileChanges(added=(added,)))
        assert committed(full_table.commit(full_table.snapshot(), request)) == 1
    assert "Version 1 of s.t is committed, but its manifests are not: " in caplog.text and "Run GENERATE" in caplog.text
    assert manifests(lake) != expected_manifests(lake)
    # The next commit changes another partition.
    committed(Lake(tmp_path, PARTITIONED, ("p",)).commit("DELETE", removed=(path_of(lake, "b/c"),)))
    assert manifests(lake) == expected_manifests(lake)


@pytest.mark.parametrize("repair", ["commit", "generate"])
def test_manifests_are_repaired_after_commits_of_other_engines(tmp_path: Path, repair: str) -> None:
    lake = partitioned_lake(tmp_path)
    obsolete, stale = lake.folder / FOLDER / "p=old" / "manifest", lake.folder / FOLDER / "p=a" / "manifest"
    other = DeltaTable(FullForManifests(str(tmp_path)), "s.t")
    request = CommitRequest("DELETE", files=FileChanges(removed=(path_of(lake, "a"),)))
    committed(other.commit(other.snapshot(), request))
    obsolete.parent.mkdir()
    obsolete.write_text("file:///x\n")
    stale.write_text("file:///y\n")
    if repair == "generate":
        lake.table.symlink_manifests.generate()
    else:
        committed(lake.commit("WRITE", added=(lake.file([9], "f9", {"p": "new"}),)))
    assert manifests(lake) == expected_manifests(lake)


class Overtaken(Storage):
    """Storage in which another writer commits before the first manifest is put."""

    act: Any = None

    def put(self, path: str, data: bytes) -> None:
        if path.startswith(FOLDER) and self.act is not None:
            act, self.act = self.act, None
            act()
        super().put(path, data)


def test_a_slow_writer_does_not_leave_manifests_of_an_older_version(tmp_path: Path) -> None:
    lake = partitioned_lake(tmp_path)
    storage = Overtaken(str(tmp_path))
    slow_table = DeltaTable(storage, "s.t")
    other = Lake(tmp_path, PARTITIONED, ("p",))
    storage.act = lambda: committed(other.commit("WRITE", added=(other.file([10], "f10", {"p": "a"}),)))
    request = CommitRequest("WRITE", files=FileChanges(added=(lake.file([9], "f9", {"p": "a"}),)))
    committed(slow_table.commit(slow_table.snapshot(), request))
    assert storage.act is None and lake.table.snapshot().version == 2
    assert manifests(lake) == expected_manifests(lake)
    assert len(manifests(lake)["p=a"]) == 4


def test_the_manifests_of_a_killed_slow_writer_are_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = partitioned_lake(tmp_path)
    write_concurrently = symlink_manifests.map_concurrently

    def put_late_and_die(put: Any, paths: Any) -> None:
        monkeypatch.setattr(symlink_manifests, "map_concurrently", write_concurrently)
        committed(lake.commit("WRITE", added=(lake.file([11], "newer", {"p": "a"}),)))  # another writer finishes its manifests
        write_concurrently(put, paths)
        raise StorageError("put", "the process is killed")

    monkeypatch.setattr(symlink_manifests, "map_concurrently", put_late_and_die)
    committed(lake.commit("WRITE", added=(lake.file([10], "older", {"p": "a"}),)))
    assert manifests(lake) != expected_manifests(lake), "the older manifest has overwritten the newer one"
    committed(lake.commit("WRITE", added=(lake.file([12], "elsewhere", {"p": "z"}),)))
    assert manifests(lake) == expected_manifests(lake)
    (dead_writer,) = (lake.folder / FOLDER).glob("_writing-*")
    os.utime(dead_writer, (0, 0))
    committed(lake.commit("WRITE", added=(lake.file([13], "later", {"p": "z"}),)))
    assert not list((lake.folder / FOLDER).glob("_writing-*"))


@pytest.mark.parametrize("statement", ["commit", "generate"])
def test_manifests_are_repaired_after_a_writer_ends_at_any_call(tmp_path: Path, statement: str) -> None:
    def write(table: DeltaTable, lake: Lake) -> None:
        if statement == "generate":
            assert table.symlink_manifests is not None
            table.symlink_manifests.generate()
            return
        files = FileChanges(added=(lake.file([9], "f9", {"p": "new"}),), removed=(path_of(lake, "b/c"),))
        table.commit(table.snapshot(), CommitRequest("WRITE", files=files, reads=Reads()))

    partitioned_lake(tmp_path / "all")
    fault = Fault()
    write(DeltaTable(FaultyStorage(str(tmp_path / "all"), fault), "s.t"), Lake(tmp_path / "all", PARTITIONED, ("p",)))
    assert any(FOLDER in call for call in fault.calls)
    for at in range(1, len(fault.calls) + 1):
        lake = partitioned_lake(tmp_path / str(at))
        with suppress(RowmergeError):
            write(DeltaTable(FaultyStorage(str(lake.folder), Fault(Kind.LOST, at)), "s.t"), lake)
        committed(Lake(lake.folder, PARTITIONED, ("p",)).commit("WRITE", added=(lake.file([10], "later", {"p": "z"}),)))
        assert manifests(lake) == expected_manifests(lake), f"{fault.calls[at - 1]}, call {at}"


def test_vacuum_keeps_manifests(tmp_path: Path) -> None:
    lake = partitioned_lake(tmp_path)
    for path in lake.folder.rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    lake.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))
    assert manifests(lake) == expected_manifests(lake)


# ------------------------------------------------------------------ deletion vectors and column mapping


def test_tables_with_manifests_have_no_deletion_vectors_and_rewrite_files(tmp_path: Path) -> None:
    shape = partitioned_lake(tmp_path).table.snapshot().shape
    assert "delta.enableDeletionVectors" not in shape.settings.properties
    assert (shape.settings.write_mode("MERGE"), shape.supports_merge_on_read) == (WriteMode.COPY_ON_WRITE, False)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (VECTORS, f"{ENABLED} = true excludes delta.enableDeletionVectors = true"),
        ({"rowmerge.write.mode": "merge-on-read"}, f"{ENABLED} = true excludes rowmerge.write.mode = merge-on-read"),
        ({"delta.columnMapping.mode": "name"}, f"{ENABLED} = true excludes delta.columnMapping.mode = name"),
    ],
)
def test_properties_that_exclude_manifests_are_rejected_in_either_order(tmp_path: Path, properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Lake(tmp_path / "created").create(properties={**MANIFESTS, **properties})
    lake = Lake(tmp_path / "altered")
    committed(lake.create(properties={**properties, "rowmerge.write.mode": properties.get("rowmerge.write.mode", "copy-on-write")}))
    with pytest.raises(ConfigurationError, match=message):
        set_properties(lake, MANIFESTS)
    lake = Lake(tmp_path / "enabled")
    committed(lake.create(properties=MANIFESTS))
    with pytest.raises(ConfigurationError, match=message):
        set_properties(lake, properties)


def test_manifests_cannot_be_enabled_on_files_with_deletion_vectors(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    file = lake.file([1, 2])
    committed(lake.create(file, properties=VECTORS))
    committed(lake.commit("DELETE", deleted={file.path: Positions([0])}))
    disabled = {"delta.enableDeletionVectors": "false"}
    with pytest.raises(PlanError, match=r"Before delta.compatibility.* is set, run REORG TABLE … APPLY \(PURGE\)"):
        set_properties(lake, {**disabled, **MANIFESTS})
    with pytest.raises(PlanError, match=r"s.t has deletion vectors, .* Run REORG TABLE s.t APPLY \(PURGE\)"):
        lake.table.symlink_manifests.generate()
    assert not (lake.folder / FOLDER).exists()
    committed(lake.commit("REORG", added=(lake.file([2]),), removed=(file.path,), data_change=False))
    set_properties(lake, {**disabled, **MANIFESTS})
    assert manifests(lake) == {".": list(lake.table.snapshot().files().paths)}


def test_generate_rejects_tables_with_column_mapping(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties={"delta.columnMapping.mode": "name"}))
    with pytest.raises(PlanError, match="s.t has column mapping"):
        lake.table.symlink_manifests.generate()
