"""Version checksums: commits write correct ones without delaying statements, and reads detect versions that contradict theirs."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from rowmerge import concurrency
from rowmerge.concurrency import wait_for_background
from rowmerge.delta import DeltaTable
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.log.checkpoints import write_checkpoint
from rowmerge.delta.log.checksums import check_state, read_checksum, totals_of
from rowmerge.delta.log.log_files import checksum_path, commit_path, list_log
from rowmerge.delta.log.versions import read_state
from rowmerge.errors import ChecksumMismatch, CorruptLog, StorageError
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.request import CommitRequest, Committed
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import Positions
from tests.support import table_operations as operations
from tests.support.delta_tables import ID_NAME, Lake, committed
from tests.support.faulty_storage import Fault
from tests.support.readers import read_with_delta_rs, read_with_duckdb

MARKS = {"rowmerge.write.mode": "merge-on-read"}
ROOT = Path(__file__).parents[3]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table of four versions: two files, a file with a transaction, a deleted row, and a removed file."""
    lake = Lake(tmp_path / "t")
    files = [lake.file([n, n + 10]) for n in range(3)]
    committed(lake.create(*files[:2], properties=MARKS))
    committed(lake.commit("WRITE", added=(files[2],), transaction=("app", 7)))
    committed(lake.commit("DELETE", deleted={files[1].path: Positions([0])}))
    committed(lake.commit("DELETE", removed=(files[0].path,)))
    return lake


def parse_checksum(lake: Lake, version: int) -> dict[str, Any]:
    checksum: dict[str, Any] = json.loads((lake.folder / checksum_path(version)).read_text())
    return checksum


def rewrite_checksum(lake: Lake, version: int, **fields: Any) -> None:
    """Replace fields of a checksum; None deletes a field."""
    checksum = {name: value for name, value in (parse_checksum(lake, version) | fields).items() if value is not None}
    (lake.folder / checksum_path(version)).write_text(json.dumps(checksum))


def remove_actions(lake: Lake, version: int, action: str) -> None:
    """Delete the lines of an action from a commit, as a manual edit of the log would."""
    path = lake.folder / commit_path(version)
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f'{{"{action}"')]
    path.write_text("".join(f"{line}\n" for line in lines))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# ------------------------------------------------------------------ writing


def test_a_checksum_has_the_fields_of_the_protocol(lake: Lake) -> None:
    state = lake.table.snapshot().state
    files = lake.table.snapshot().files()
    assert state.metadata is not None
    assert state.protocol is not None
    info = json.loads((lake.folder / commit_path(3)).read_text().splitlines()[0])["commitInfo"]
    checksum = parse_checksum(lake, 3)
    (transaction,) = checksum.pop("setTransactions")
    assert checksum == {
        "txnId": info["txnId"],
        "tableSizeBytes": sum(files.sizes.to_pylist()),
        "numFiles": 2,
        "numDeletedRecordsOpt": 1,
        "numDeletionVectorsOpt": 1,
        "numMetadata": 1,
        "numProtocol": 1,
        "domainMetadata": [],
        "metadata": state.metadata.action()["metaData"],
        "protocol": state.protocol.action()["protocol"],
    }
    assert (transaction["appId"], transaction["version"]) == ("app", 7)


@pytest.mark.parametrize("operation", [name for name in operations.OPERATIONS if name != "vacuum"])
def test_the_checksum_of_each_operation_matches_the_full_state(tmp_path: Path, operation: str) -> None:
    folder = str(tmp_path / "t")
    operations.built(folder)
    operations.run(operation, folder, Fault())
    storage = Storage(folder)
    listing = list_log(storage)
    assert listing.checksums == set(listing.commits)
    for version in listing.commits:
        state, checksum = read_state(storage, listing, version), read_checksum(storage, version)
        assert checksum is not None
        check_state(storage, state, checksum, lambda: True)
        fields = ("numFiles", "tableSizeBytes", "numDeletionVectorsOpt", "numDeletedRecordsOpt")
        assert tuple(checksum[field] for field in fields) == totals_of(state.files)


def test_the_checksum_of_a_rebased_commit_counts_files_of_winners(lake: Lake) -> None:
    base = lake.table.snapshot()
    committed(Lake(lake.folder).append([50]))
    assert committed(lake.append([51], base=base)) == 5
    assert (parse_checksum(lake, 4)["numFiles"], parse_checksum(lake, 5)["numFiles"]) == (3, 4)
    assert Lake(lake.folder).ids()[-2:] == [50, 51]


def test_the_checksum_of_a_shallow_clone_totals_its_files(lake: Lake, tmp_path: Path) -> None:
    source, clone = lake.table.snapshot(), Lake(tmp_path / "clone")
    committed(clone.table.create(TableDefinition(ID_NAME), CommitRequest("CLONE", cloned=source)))
    assert parse_checksum(clone, 0)["numFiles"] == len(source.files()) == 2
    assert parse_checksum(clone, 0)["numDeletedRecordsOpt"] == 1
    assert Lake(clone.folder).ids() == Lake(lake.folder).ids()


def test_the_checksum_contains_the_in_commit_timestamp_if_enabled(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([1]), properties={"delta.enableInCommitTimestamps": "true"}))
    committed(lake.append([2]))
    info = json.loads((lake.folder / commit_path(1)).read_text().splitlines()[0])["commitInfo"]
    assert parse_checksum(lake, 1)["inCommitTimestampOpt"] == info["inCommitTimestamp"]
    committed(Lake(tmp_path / "other").create())
    assert "inCommitTimestampOpt" not in parse_checksum(Lake(tmp_path / "other"), 0)


def test_the_checksum_contains_metadata_domains(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([1, 2]), properties={"delta.enableRowTracking": "true"}))
    (domain,) = parse_checksum(lake, 0)["domainMetadata"]
    assert (domain["domain"], json.loads(domain["configuration"])) == ("delta.rowTracking", {"rowIdHighWaterMark": 1})
    rewrite_checksum(lake, 0, domainMetadata=[{**domain, "configuration": "{}"}])
    with pytest.raises(ChecksumMismatch, match="domainMetadata"):
        Lake(lake.folder).table.snapshot()


def test_the_checksum_omits_transactions_with_a_retention(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    committed(lake.create(properties={"delta.setTransactionRetentionDuration": "interval 1 day"}))
    committed(lake.commit("WRITE", added=(lake.file([1]),), transaction=("app", 7)))
    assert "setTransactions" not in parse_checksum(lake, 1)


def test_the_checksum_omits_more_than_100_transactions(lake: Lake) -> None:
    actions = "".join(json.dumps({"txn": {"appId": f"app {n}", "version": n}}) + "\n" for n in range(100))
    (lake.folder / commit_path(4)).write_text('{"commitInfo":{}}\n' + actions)
    committed(lake.append([60]))
    assert "setTransactions" in parse_checksum(lake, 3)
    assert "setTransactions" not in parse_checksum(lake, 5)


def test_an_existing_checksum_is_not_replaced(lake: Lake) -> None:
    (lake.folder / checksum_path(4)).write_text("{}")
    committed(lake.append([60]))
    assert parse_checksum(lake, 4) == {}


def test_other_readers_accept_tables_with_checksums(lake: Lake) -> None:
    assert parse_checksum(lake, 3)
    assert lake.ids() == [2, 11, 12]
    for read in (read_with_delta_rs, read_with_duckdb):
        assert read(str(lake.folder))["id"].to_pylist() == [2, 11, 12]


class Checksumless(Storage):
    """Storage that refuses to write checksums."""

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if path.endswith(".crc"):
            raise StorageError(f"{self.location}/{path}", "no space left on device")
        return Storage.put_if_absent(self, path, data)


def test_a_failed_checksum_write_does_not_fail_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = DeltaTable(Checksumless(str(tmp_path / "t")), "s.t")
    with caplog.at_level(logging.WARNING):
        assert isinstance(table.create(TableDefinition(ID_NAME), CommitRequest("CREATE TABLE")), Committed)
    assert not warnings(caplog)
    assert not list((tmp_path / "t").rglob("*.crc"))
    assert len(Lake(tmp_path / "t").table.snapshot().files()) == 0


class Distant(Storage):
    """Remote storage on which checksum writes wait for a gate."""

    is_remote = True
    gate = threading.Event()

    def put_if_absent(self, path: str, data: bytes) -> Put:
        if path.endswith(".crc"):
            assert self.gate.wait(60)
        return Storage.put_if_absent(self, path, data)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    gate = threading.Event()
    monkeypatch.setattr(Distant, "gate", gate)
    yield gate
    gate.set()
    wait_for_background(60)


def test_statements_do_not_wait_for_checksums_on_remote_storage(tmp_path: Path, gate: threading.Event) -> None:
    lake = Lake(tmp_path / "t")
    lake.table = DeltaTable(Distant(str(lake.folder)), "s.t")
    committed(lake.create(lake.file([1])))
    committed(lake.append([2]))
    assert lake.ids() == [1, 2]
    assert not list(lake.log.glob("*.crc"))
    gate.set()
    wait_for_background(60)
    assert [parse_checksum(lake, version)["numFiles"] for version in (0, 1)] == [1, 2]


def test_concurrent_checksum_writes_are_limited(tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "_MAX_BACKGROUND_THREADS", 2)
    lake = Lake(tmp_path / "t")
    lake.table = DeltaTable(Distant(str(lake.folder)), "s.t")
    committed(lake.create(lake.file([0])))
    for id_ in range(1, 5):
        committed(lake.append([id_]))
    gate.set()
    wait_for_background(60)
    assert len(list(lake.log.glob("*.crc"))) == 2
    committed(lake.append([5]))
    wait_for_background(60)
    assert parse_checksum(lake, 5)["numFiles"] == 6
    assert Lake(lake.folder).ids() == list(range(6))


ENDING = """
import sys, time
from pathlib import Path
from rowmerge.delta import DeltaTable
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.delta_tables import ID_NAME

class Distant(Storage):
    is_remote = True

    def put_if_absent(self, path, data):
        if path.endswith(".crc"):
            time.sleep(float(sys.argv[2]))
        return Storage.put_if_absent(self, path, data)

DeltaTable(Distant(sys.argv[1]), "s.t").create(TableDefinition(ID_NAME), CommitRequest("CREATE TABLE"))
"""


@pytest.mark.parametrize(("seconds", "there"), [(0.2, True), (600, False)])
def test_a_process_exits_without_waiting_for_a_slow_checksum(tmp_path: Path, seconds: float, there: bool) -> None:
    process = subprocess.run(
        [sys.executable, "-c", ENDING, str(tmp_path / "t"), str(seconds)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert (tmp_path / "t" / commit_path(0)).exists()
    assert (tmp_path / "t" / checksum_path(0)).exists() == there


# ------------------------------------------------------------------ validation


@pytest.mark.parametrize(("version", "action"), [(1, "add"), (2, "add"), (2, "remove"), (3, "remove")])
def test_a_commit_without_one_of_its_actions_contradicts_the_checksum(lake: Lake, version: int, action: str) -> None:
    remove_actions(lake, version, action)
    with pytest.raises(ChecksumMismatch, match=r"numFiles is 2, but the log has [13]") as caught:
        Lake(lake.folder).table.snapshot()
    assert isinstance(caught.value, CorruptLog)
    assert (caught.value.path, caught.value.version) == (f"file://{lake.folder}/{checksum_path(3)}", 3)
    assert "checksum.mismatch.fatal = false" in str(caught.value)


def test_a_missing_deletion_vector_contradicts_the_checksum(lake: Lake) -> None:
    path = lake.folder / commit_path(2)
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("deletionVector", None)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    with pytest.raises(
        ChecksumMismatch, match="numDeletionVectorsOpt is 1, but the log has 0; numDeletedRecordsOpt is 1, but the log has 0"
    ):
        Lake(lake.folder).table.snapshot()


def test_a_checkpoint_without_files_contradicts_the_checksum(lake: Lake) -> None:
    state = lake.table.snapshot().state
    write_checkpoint(Storage(str(lake.folder)), replace(state, files=LiveFiles()))
    with pytest.raises(ChecksumMismatch, match="numFiles is 2, but the log has 0"):
        Lake(lake.folder).table.snapshot()
    committed(lake.append([90]))
    with pytest.raises(ChecksumMismatch, match="numFiles is 3, but the log has 1"):
        Lake(lake.folder).table.snapshot_at(version=4)


@pytest.mark.parametrize(
    "fields",
    [
        {"tableSizeBytes": 1},
        {"numFiles": 3},
        {"numMetadata": 2},
        {"numProtocol": 0},
        {"numDeletionVectorsOpt": 0},
        {"numDeletedRecordsOpt": 2},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"protocol": []},
        {"domainMetadata": [{"domain": "mine", "configuration": "{}", "removed": False}]},
        {"domainMetadata": [1]},
        {"setTransactions": [{"appId": "app", "version": 8}]},
        {"setTransactions": {"app": 7}},
    ],
    ids=str,
)
def test_each_checksum_field_is_compared(lake: Lake, fields: dict[str, Any]) -> None:
    rewrite_checksum(lake, 3, **fields)
    with pytest.raises(ChecksumMismatch, match=f"{next(iter(fields))}|wrong type|the transaction app"):
        Lake(lake.folder).table.snapshot()


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "another"},
        {"schemaString": '{"type":"struct","fields":[]}'},
        {"schemaString": "[" * 100_000},
        {"partitionColumns": ["id"]},
        {"configuration": {}},
        {"name": "x"},
        {"description": "x"},
        {"format": {"provider": "orc"}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_each_metadata_field_of_the_checksum_is_compared(lake: Lake, fields: dict[str, Any]) -> None:
    rewrite_checksum(lake, 3, metadata=parse_checksum(lake, 3)["metadata"] | fields)
    with pytest.raises(ChecksumMismatch, match="metadata|wrong type"):
        Lake(lake.folder).table.snapshot()


@pytest.mark.parametrize(
    "fields",
    [
        {"numFiles": None},
        {"metadata": None, "protocol": None},
        {"setTransactions": None, "domainMetadata": None, "numDeletionVectorsOpt": None, "numDeletedRecordsOpt": None},
        {"setTransactions": [{"appId": "expired", "version": 1, "lastUpdated": 2}]},
        {"inCommitTimestampOpt": 5},
        {"unknown": [{}], "histogramOpt": {"sortedBinBoundaries": [0], "fileCounts": [7], "totalBytes": [7]}, "allFiles": []},
    ],
    ids=str,
)
def test_missing_and_additional_checksum_fields_are_ignored(lake: Lake, fields: dict[str, Any]) -> None:
    rewrite_checksum(lake, 3, **fields)
    assert Lake(lake.folder).ids() == [2, 11, 12]


def test_equivalent_schema_json_matches_the_checksum(lake: Lake) -> None:
    metadata = parse_checksum(lake, 3)["metadata"]
    spelled = json.dumps(json.loads(metadata["schemaString"]), indent=2)
    rewrite_checksum(lake, 3, metadata=metadata | {"schemaString": spelled, "name": "", "createdTime": 1})
    assert Lake(lake.folder).ids() == [2, 11, 12]


def test_a_checksum_mismatch_is_a_warning_if_not_fatal(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    rewrite_checksum(lake, 3, numFiles=9)
    table = DeltaTable(Storage(str(lake.folder)), "s.t", lambda: False)
    with caplog.at_level(logging.WARNING):
        assert len(table.snapshot().files()) == 2
    (warning,) = warnings(caplog)
    assert f"{checksum_path(3)} does not match version 3" in warning


def test_an_incremental_snapshot_is_not_compared_with_its_checksum(lake: Lake) -> None:
    committed(Lake(lake.folder).append([60]))
    rewrite_checksum(lake, 4, numFiles=9)
    assert lake.ids() == [2, 11, 12, 60]
    with pytest.raises(ChecksumMismatch):
        Lake(lake.folder).table.snapshot()


def test_an_older_version_is_compared_with_its_own_checksum(lake: Lake) -> None:
    rewrite_checksum(lake, 1, numFiles=9)
    assert Lake(lake.folder).ids() == [2, 11, 12]
    with pytest.raises(ChecksumMismatch, match=f"{checksum_path(1)}.*numFiles is 9, but the log has 3"):
        Lake(lake.folder).table.snapshot_at(version=1)


def delete(path: Path) -> None:
    path.unlink()


def write(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data) and None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    "damage",
    [delete, write(b""), write(b'{"numFiles":'), write(b"\xff"), write(b"[" * 100_000), write(b"null"), write(b"[1]")],
    ids=["missing", "empty", "torn", "not UTF-8", "deeply nested", "null", "no object"],
)
def test_a_missing_or_damaged_checksum_is_not_compared(lake: Lake, damage: Callable[[Path], None]) -> None:
    damage(lake.folder / checksum_path(3))
    assert Lake(lake.folder).ids() == [2, 11, 12]


def test_a_checksum_of_another_commit_is_not_compared(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """A slow writer can write a checksum after another engine deleted the log and recreated the table."""
    rewrite_checksum(lake, 3, txnId="of a table that was here before", numFiles=9)
    with caplog.at_level(logging.WARNING):
        assert Lake(lake.folder).ids() == [2, 11, 12]
    assert "belongs to another commit" in warnings(caplog)[0]


def test_a_checksum_of_a_deleted_table_is_not_compared_with_a_delta_rs_commit(tmp_path: Path) -> None:
    """Commits of delta-rs have no transaction id."""
    lake = Lake(tmp_path / "t")
    committed(lake.create(lake.file([1]), lake.file([2])))
    checksum = (lake.folder / checksum_path(0)).read_bytes()
    shutil.rmtree(lake.folder)
    deltalake.write_deltalake(str(lake.folder), pa.table({"id": [7], "name": ["a"]}))
    (lake.folder / checksum_path(0)).write_bytes(checksum)
    assert Lake(lake.folder).ids() == [7]


def test_commit_verification_ignores_checksums(lake: Lake) -> None:
    """A wrong checksum must not make the committer conclude that the table was recreated."""
    base = lake.table.snapshot()
    committed(Lake(lake.folder).append([60]))
    rewrite_checksum(lake, 4, numFiles=9)
    (lake.folder / commit_path(3)).touch()
    assert committed(lake.append([61], base=base)) == 5
