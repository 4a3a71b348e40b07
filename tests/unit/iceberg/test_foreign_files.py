"""Metadata with paths outside the table does not delete these files, through its log or its manifests."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyiceberg.table.update import SetPropertiesUpdate

from rowmerge.errors import LiveFileProtected
from rowmerge.iceberg.maintenance import vacuum
from rowmerge.iceberg.maintenance.reachable import FileKind
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.snapshots.files import AddedFile
from tests.support.iceberg_lake import Lake

NOW = VacuumOptions(retain_hours=0, check_retention=False)
CLEANUP_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table that deletes old metadata, with a symbolic link to a folder of other files."""
    lake = Lake(tmp_path / "t")
    lake.create(CLEANUP_PROPERTIES)
    lake.append([1])
    (tmp_path / "others").mkdir()
    for folder in (tmp_path, tmp_path / "others"):
        for name in ("victim.txt", "v1.metadata.json"):
            (folder / name).write_text("precious")
    (tmp_path / "t/metadata/link").symlink_to(tmp_path / "others")
    return lake


def add_to_log(lake: Lake, path: str) -> Lake:
    """Add an entry to the metadata log of the newest version, and reopen the table."""
    file = max((lake.folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    content = json.loads(file.read_text())
    entry = {"timestamp-ms": content["last-updated-ms"] - 1, "metadata-file": path.format(t=lake.folder, newest=file.name)}
    file.write_text(json.dumps({**content, "metadata-log": [entry, *content["metadata-log"]]}))
    return Lake(lake.folder)


@pytest.mark.parametrize(
    "path",
    [
        "file://{t}/../victim.txt",
        "file://{t}/../v1.metadata.json",
        "file://{t}/metadata/../../v1.metadata.json",
        "file://{t}/metadata/%2e%2e/%2e%2e/v1.metadata.json",
        "file://{t}/metadata/..%2f..%2fv1.metadata.json",
        "file://{t}/metadata/link/v1.metadata.json",
        "file:{t}/../others/v1.metadata.json",
        "{t}/../victim.txt",
    ],
)
def test_metadata_log_entries_outside_the_table_are_not_deleted(lake: Lake, tmp_path: Path, path: str) -> None:
    reopened = add_to_log(lake, path)
    reopened.append([2])
    reopened.append([3])
    assert reopened.ids() == [1, 2, 3]
    for folder in (tmp_path, tmp_path / "others"):
        assert {"victim.txt", "v1.metadata.json"} <= {file.name for file in folder.iterdir()}


@pytest.mark.parametrize("spelled", ["{t}/data/{name}", "{t}/metadata/../data/{name}", "{t}/metadata/%2e%2e/data/{name}"])
def test_metadata_log_entries_of_data_files_are_not_deleted(lake: Lake, spelled: str) -> None:
    (path,) = lake.paths
    reopened = add_to_log(lake, "file://" + spelled.replace("{name}", path.rpartition("/")[2]))
    reopened.append([2])
    assert reopened.ids() == [1, 2]


def test_metadata_log_entries_of_the_current_version_are_not_deleted(lake: Lake) -> None:
    reopened = add_to_log(lake, "file://{t}/metadata/./v3.metadata.json")
    reopened.append([2])
    assert reopened.current.version == 3
    assert Lake(lake.folder).ids() == [1, 2]


# ------------------------------------------------------------------ expiry and VACUUM


def add_and_remove_foreign_file(lake: Lake, path: Path) -> None:
    """Add a file of another table to the table, then remove it."""
    source = Lake(path)
    source.create()
    source.append([7, 8])
    (file,) = source.table.snapshot().files().rows.to_pylist()
    lake.change(added=(AddedFile(file["path"], file["size"], 2),))
    lake.remove(7)


def expire(lake: Lake) -> tuple[str, ...]:
    time.sleep(0.005)
    return lake.table.vacuum(NOW).paths


def test_expiry_deletes_expired_files_in_configured_locations(lake: Lake, tmp_path: Path) -> None:
    for number, name in enumerate(("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")):
        source = tmp_path / f"source{number}"
        lake = Lake(tmp_path / f"t{number}")
        lake.create()
        add_and_remove_foreign_file(lake, source)
        lake.update(SetPropertiesUpdate(updates={name: f"{source}/data/"}))  # ALTER TABLE rejects `write.metadata.path` here.
        unnamed = source / "data/unnamed.parquet"
        unnamed.touch()
        deleted_paths = expire(lake)
        assert [path for path in deleted_paths if "source" in path] and list((source / "data").iterdir()) == [unnamed], name


@pytest.mark.parametrize("location", [None, "{source}/metadata", "{source}/dat", "{source}/data/../metadata"])
def test_expiry_keeps_files_outside_configured_locations(lake: Lake, tmp_path: Path, location: str | None) -> None:
    source = tmp_path / "source"
    table = Lake(tmp_path / "second")
    table.create({} if location is None else {"write.data.path": location.format(source=source)})
    add_and_remove_foreign_file(table, source)
    assert not [path for path in expire(table) if "source" in path]
    assert Lake(source).ids() == [7, 8]


def test_expiry_stops_before_it_deletes_a_live_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.append([2])
    live = lake.paths[0]
    monkeypatch.setattr(vacuum, "files_of_expired_snapshots", lambda *_: {live: FileKind.DATA})
    expiry = vacuum._Expiry(lake.current, files={live: FileKind.DATA})
    monkeypatch.setattr(vacuum.Vacuum, "_expire", lambda self, options: expiry)
    original_files = lake.on_disk()
    with pytest.raises(LiveFileProtected, match="so nothing was deleted"):
        expire(lake)
    assert lake.on_disk() == original_files
