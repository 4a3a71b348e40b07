"""An acknowledged commit on a local disk survives a power failure: its files and its log entry are synced in the right order."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from sqlalchemy.orm import Session

from rowmerge.catalog.iceberg import IcebergCatalog
from rowmerge.delta import DeltaTable
from rowmerge.errors import StorageError
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage import disk
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Durability, Put, Storage
from rowmerge.table.commits.request import CommitRequest, Unknown
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.table.table import Table
from tests.support.delta_tables import ID_NAME, committed
from tests.support.disk_calls import DiskCalls, assert_durable, named_files, newest_commit
from tests.support.readers import read_with_delta_rs, read_with_duckdb, read_with_duckdb_iceberg, read_with_pyiceberg
from tests.support.table_operations import NOW, OPERATIONS, append, rows, write_rows

ROOT = Path(__file__).parents[3]
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> DiskCalls:
    calls = DiskCalls()
    calls.record(monkeypatch)
    return calls


def storage_of(folder: Path) -> Storage:
    return Storage(str(folder), durability=Durability.FULL)


def open_table(folder: Path, format_: str) -> Table:
    storage = storage_of(folder)
    return DeltaTable(storage, "s.t") if format_ == "delta" else IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")


def create(table: Table, partition: tuple[str, ...] = (), **properties: str) -> None:
    committed(table.create(TableDefinition(ID_NAME, identities(partition), properties), CommitRequest("CREATE TABLE")))


def add(table: Table, ids: range) -> int:
    snapshot = table.snapshot()
    return committed(table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, ids)))))


# ------------------------------------------------------------------ commits


@FORMATS
@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "vacuum"])
def test_all_files_of_a_commit_are_synced_before_it(calls: DiskCalls, tmp_path: Path, format_: str, operation: str) -> None:
    folder = tmp_path / "s/t"
    table = open_table(folder, format_)
    create(table, **({"delta.enableDeletionVectors": "true"} if format_ == "delta" else {}))
    assert_durable(calls, folder)
    for ids in (range(10), range(10, 20), range(20, 25), range(25, 30)):
        add(table, ids)
    assert_durable(calls, folder)
    OPERATIONS[operation](table)
    assert len(named_files(folder)) > (0 if format_ == "delta" else 3)
    assert_durable(calls, folder)


@FORMATS
def test_partition_folders_are_synced(calls: DiskCalls, tmp_path: Path, format_: str) -> None:
    folder = tmp_path / "t"
    table = open_table(folder, format_)
    create(table, ("name",))
    add(table, range(3))
    assert len({path.parent for path in named_files(folder) if "name=" in str(path)}) == 3
    assert_durable(calls, folder)


@FORMATS
def test_checkpoints_and_hints_are_synced_before_their_rename(calls: DiskCalls, tmp_path: Path, format_: str) -> None:
    table = open_table(tmp_path / "t", format_)
    create(table, **({"delta.checkpointInterval": "1"} if format_ == "delta" else {}))
    append(table)
    log = tmp_path / "t" / ("_delta_log" if format_ == "delta" else "metadata")
    names = ["00000000000000000001.checkpoint.parquet", "_last_checkpoint"] if format_ == "delta" else ["version-hint.text"]
    for name in names:
        assert calls.syncs(log / name)[-1] < calls.find_naming(log / name), f"a power cut leaves no empty {name}"


@FORMATS
def test_process_durability_does_not_sync(calls: DiskCalls, tmp_path: Path, format_: str) -> None:
    storage = Storage(str(tmp_path / "t"), durability=Durability.PROCESS)
    table: Table = DeltaTable(storage, "s.t") if format_ == "delta" else IcebergTable(DirectoryOperations(storage, "s.t"), "s.t")
    create(table)
    add(table, range(3))
    assert [event for event in calls.events if event[0] == "sync"] == []


# ------------------------------------------------------------------ single files


def test_parent_folders_are_synced_once(calls: DiskCalls, tmp_path: Path) -> None:
    storage = storage_of(tmp_path / "a/b/c")
    storage.put("d/e/one", b"1")
    folders = [tmp_path / below for below in ("", "a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/e")]
    assert [len(calls.syncs(folder)) for folder in folders] == [1] * 6
    storage.put("d/e/two", b"2")
    assert [len(calls.syncs(folder)) for folder in folders] == [1, 1, 1, 1, 1, 2]


def test_a_recreated_folder_is_synced_again(calls: DiskCalls, tmp_path: Path) -> None:
    storage = storage_of(tmp_path / "s")
    storage.put("t/one", b"1")
    (tmp_path / "s/t/one").unlink()
    descriptor = os.open(tmp_path / "s/t", os.O_RDONLY)  # An open descriptor prevents the reuse of the inode.
    (tmp_path / "s/t").rmdir()
    storage.put("t/one", b"1")
    os.close(descriptor)
    assert len(calls.syncs(tmp_path / "s")) == 2


def test_a_recreated_folder_with_the_same_inode_is_synced_again(calls: DiskCalls, tmp_path: Path) -> None:
    storage = storage_of(tmp_path / "s")
    storage.put("t/one", b"1")
    inode = (tmp_path / "s/t").stat().st_ino
    time.sleep(0.01)  # File systems store times with a low resolution.
    # Drop and recreate the table as another process.
    (tmp_path / "s/t/one").unlink()
    (tmp_path / "s/t").rmdir()
    for number in range(50):
        (tmp_path / str(number)).mkdir()
        if (tmp_path / str(number)).stat().st_ino == inode:
            (tmp_path / str(number)).rename(tmp_path / "s/t")
            break
    else:
        pytest.skip("this file system uses no inode again")
    storage.put("t/one", b"1")
    assert len(calls.syncs(tmp_path / "s")) == 2


def test_a_parent_folder_is_not_synced_again_for_new_files(calls: DiskCalls, tmp_path: Path) -> None:
    table = open_table(tmp_path / "t", "delta")
    create(table)
    add(table, range(3))
    calls.events.clear()
    add(table, range(3))
    assert [len(calls.syncs(folder)) for folder in (tmp_path, tmp_path / "t", tmp_path / "t/_delta_log")] == [0, 1, 1]


@pytest.mark.parametrize("durability", list(Durability))
def test_put_if_absent_creates_a_file_once_without_temporary_files(tmp_path: Path, durability: Durability) -> None:
    storage = Storage(str(tmp_path / "t"), durability=durability)
    assert storage.put_if_absent("a/b", b"one") is Put.CREATED
    assert storage.put_if_absent("a/b", b"two") is Put.EXISTED
    assert storage.get("a/b") == b"one"
    storage.put("a/b", b"three")
    assert storage.get("a/b") == b"three"
    assert [object_.path for object_ in storage.list()] == ["a/b"]


def test_a_file_instead_of_a_folder_raises_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(StorageError):
        storage_of(tmp_path).put_if_absent("a/b", b"")


# ------------------------------------------------------------------ failing disks


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    table = DeltaTable(storage_of(tmp_path / "t"), "s.t")
    create(table)
    return table


def test_a_commit_with_an_unsyncable_data_file_fails(calls: DiskCalls, table: DeltaTable, tmp_path: Path) -> None:
    files = write_rows(table.snapshot(), range(3))
    calls.failing[Path(files[0].path.removeprefix("file://")).stat().st_ino] = errno.EIO
    with pytest.raises(StorageError, match=f"{files[0].path}: Input/output error"):
        table.commit(table.snapshot(), CommitRequest("WRITE", files=FileChanges(files)))
    assert table.snapshot().version == 0


def test_a_commit_with_a_missing_data_file_fails(table: DeltaTable) -> None:
    files = write_rows(table.snapshot(), range(3))
    Path(files[0].path.removeprefix("file://")).unlink()
    with pytest.raises(StorageError, match=rf"{files[0].path}: No such file"):
        table.commit(table.snapshot(), CommitRequest("WRITE", files=FileChanges(files)))
    assert table.snapshot().version == 0


def test_an_unsyncable_commit_leaves_no_log_entry(table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, fsync = table.snapshot(), os.fsync

    def fail_sync_of_commit(descriptor: int) -> None:
        if "00000000000000000001.json" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    files = write_rows(snapshot, range(3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_sync_of_commit)
        with pytest.raises(StorageError, match="No space left"):
            table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(files)))
    names = {path.name for path in (tmp_path / "t/_delta_log").iterdir()}
    assert names == {"00000000000000000000.json", "00000000000000000000.crc"}, "no temporary file stays"
    add(table, range(3))


def test_a_commit_with_an_unsyncable_folder_has_an_unknown_outcome(calls: DiskCalls, table: DeltaTable, tmp_path: Path) -> None:
    snapshot = table.snapshot()
    files = write_rows(snapshot, range(3))
    calls.failing[(tmp_path / "t/_delta_log").stat().st_ino] = errno.EIO
    outcome = table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(files)))
    assert isinstance(outcome, Unknown) and "cannot be synced (Input/output error)" in outcome.reason
    assert DeltaTable(Storage(str(tmp_path / "t")), "s.t").snapshot().version == 1, "a power cut may still take it away"


@pytest.mark.parametrize("error", [errno.EEXIST, errno.EIO], ids=["repeated link", "lost answer"])
def test_a_link_with_a_false_error_is_synced(
    calls: DiskCalls, table: DeltaTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    link = os.link

    def failing(source: Path, target: Path) -> None:
        link(source, target)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", failing)
    add(table, range(3))
    assert table.snapshot().version == 1
    assert_durable(calls, tmp_path / "t")
    snapshot = table.snapshot()
    calls.failing[(tmp_path / "t/_delta_log").stat().st_ino] = errno.EIO
    outcome = table.commit(snapshot, CommitRequest("WRITE", files=FileChanges(write_rows(snapshot, range(3)))))
    assert isinstance(outcome, Unknown) and "Input/output error" in outcome.reason


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOTSUP])
def test_file_systems_without_folder_sync_are_accepted(calls: DiskCalls, table: DeltaTable, tmp_path: Path, error: int) -> None:
    calls.failing = {folder.stat().st_ino: error for folder in (tmp_path, tmp_path / "t", tmp_path / "t/_delta_log")}
    add(table, range(3))
    assert table.snapshot().version == 1


# ------------------------------------------------------------------ killed processes

KILLED = """
import os, signal, sys
from tests.support.table_operations import append
from tests.unit.storage.test_durability import open_table
from pathlib import Path
call = sys.argv[3]
real = os.link
def link(source, target):
    if call == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, target)
    os.kill(os.getpid(), signal.SIGKILL)
os.link = link
append(open_table(Path(sys.argv[1]), sys.argv[2]))
"""


def kill_at_link(folder: Path, format_: str, moment: str) -> None:
    """Append to a table in a process that is killed just before or after the link of the commit."""
    command = [sys.executable, "-c", KILLED, str(folder), format_, moment]
    process = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])})
    assert process.returncode == -signal.SIGKILL


def temporary_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if is_temporary(path.name)]


def readers(folder: Path, format_: str) -> Iterator[pa.Table]:
    delta = format_ == "delta"
    yield (read_with_delta_rs if delta else read_with_pyiceberg)(str(folder))
    yield (read_with_duckdb if delta else read_with_duckdb_iceberg)(str(folder))


@FORMATS
@pytest.mark.parametrize(("moment", "added"), [("before", 0), ("after", 2)])
def test_readers_ignore_the_temporary_file_of_a_killed_commit(tmp_path: Path, format_: str, moment: str, added: int) -> None:
    folder = tmp_path / "t"
    table = open_table(folder, format_)
    create(table)
    add(table, range(3))
    kill_at_link(folder, format_, moment)
    assert len(temporary_files(folder)) == 1
    assert len(rows(open_table(folder, format_))) == 3 + added
    for reader_rows in readers(folder, format_):
        assert reader_rows.num_rows == 3 + added
    if format_ == "iceberg" and moment == "before":
        assert StaticTable.from_metadata(str(folder)).scan().to_arrow().num_rows == 3, "the hint is right"
    append(open_table(folder, format_))
    assert len(rows(open_table(folder, format_))) == 5 + added
    for reader_rows in readers(folder, format_):
        assert reader_rows.num_rows == 5 + added
    time.sleep(0.005)
    open_table(folder, format_).vacuum(NOW)
    assert temporary_files(folder) == []
    assert len(rows(open_table(folder, format_))) == 5 + added


@FORMATS
def test_vacuum_keeps_young_temporary_files(tmp_path: Path, format_: str) -> None:
    folder = tmp_path / "t"
    table = open_table(folder, format_)
    create(table)
    young_file = newest_commit(folder).with_name("00000000000000000007.json#123" if format_ == "delta" else "v7.metadata.json#123")
    young_file.write_bytes(b"{")
    table.vacuum(VacuumOptions())
    assert temporary_files(folder) == [young_file]


def test_temporary_file_names_are_recognized() -> None:
    assert is_temporary("_delta_log/00000000000000000001.json#18446744073709551615")
    assert not any(map(is_temporary, ("a.json", "a#b", "a#1.json", "#", "x=1#/a")))


def test_the_cache_of_synced_folders_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_MOST_FOLDERS", 3)
    for number in range(20):
        storage_of(tmp_path / str(number)).put("a", b"")
    assert len(disk._durable_folders) < 20 and len(disk._synced_states) < 20


# ------------------------------------------------------------------ catalogs


@pytest.mark.parametrize("spelled", ["{}", "file://{}"])
@pytest.mark.parametrize("durability", list(Durability))
def test_metadata_is_synced_before_the_catalog_commit(
    calls: DiskCalls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability, spelled: str
) -> None:
    """The catalog's database determines its own durability."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    catalog = IcebergCatalog(properties, spelled.format(tmp_path / "w"), partial(Storage, durability=durability))
    catalog.create_schema("s")
    synced: list[bool] = []
    commit = Session.commit

    def recorded_commit(session: Session) -> None:
        newest = max((tmp_path / "w/s/t/metadata").glob("*.metadata.json"), key=lambda path: path.name)
        folders = [tmp_path / "w/s/t/metadata", tmp_path / "w/s/t", tmp_path / "w/s", tmp_path / "w"]
        synced.append(all(calls.syncs(path) for path in (newest, *folders)))
        commit(session)

    monkeypatch.setattr(Session, "commit", recorded_commit)
    table = catalog.new_table("s", "t", "iceberg")
    create(table)
    add(table, range(3))
    assert len(synced) == 2 and set(synced) == {durability is Durability.FULL}
