"""Checkpoints of every kind give the same table, and unrelated files in the log have no effect."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rowmerge.delta.log.checkpoints import checkpoint_tables, write_checkpoint
from rowmerge.delta.log.log_files import checkpoint_path, commit_path
from rowmerge.errors import CorruptLog
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions
from tests.support.delta_tables import Lake, committed
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of

Write = Callable[[Path, int, pa.Table], list[Path]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table of six versions with files, a deletion vector, a removed file and a transaction."""
    lake = Lake(tmp_path)
    files = [lake.file([n, n + 10]) for n in range(4)]
    committed(lake.create(*files[:2], properties={"rowmerge.write.mode": "merge-on-read", "delta.checkpointInterval": "100"}))
    committed(lake.commit("WRITE", added=(files[2],), transaction=("app", 7)))
    committed(lake.commit("WRITE", added=(files[3],)))
    committed(lake.commit("DELETE", removed=(files[0].path,)))
    committed(lake.commit("DELETE", deleted={files[1].path: Positions([0])}))
    committed(lake.append([50]))
    return lake


def classic(log: Path, version: int, actions: pa.Table) -> list[Path]:
    path = log / f"{version:020d}.checkpoint.parquet"
    pq.write_table(actions, path)
    return [path]


def multi_part(log: Path, version: int, actions: pa.Table) -> list[Path]:
    count = 3
    paths = [log / f"{version:020d}.checkpoint.{part:010d}.{count:010d}.parquet" for part in range(1, count + 1)]
    for part, path in enumerate(paths):
        pq.write_table(actions.take(pa.array(range(part, actions.num_rows, count))), path)
    return paths


def v2_json(log: Path, version: int, actions: pa.Table) -> list[Path]:
    """Write non-file actions as JSON, and the file actions in two sidecars."""
    non_file_actions, sidecars = _split(log, version, actions)
    path = log / f"{version:020d}.checkpoint.{uuid.uuid4()}.json"
    lines = [{"checkpointMetadata": {"version": version}}, *_json(non_file_actions), *({"sidecar": sidecar} for sidecar in sidecars)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [path, *(log / "_sidecars" / sidecar["path"] for sidecar in sidecars)]


def v2_parquet(log: Path, version: int, actions: pa.Table) -> list[Path]:
    non_file_actions, sidecars = _split(log, version, actions)
    type_ = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
    more = pa.table({"sidecar": pa.array(sidecars, type_), "checkpointMetadata": pa.array([{"version": version}, None])})
    path = log / f"{version:020d}.checkpoint.{uuid.uuid4()}.parquet"
    pq.write_table(pa.concat_tables([non_file_actions, more], promote_options="default"), path)
    return [path, *(log / "_sidecars" / sidecar["path"] for sidecar in sidecars)]


def v2_without_sidecars(log: Path, version: int, actions: pa.Table) -> list[Path]:
    path = log / f"{version:020d}.checkpoint.{uuid.uuid4()}.parquet"
    more = pa.table({"checkpointMetadata": pa.array([{"version": version}])})
    pq.write_table(pa.concat_tables([actions, more], promote_options="default"), path)
    return [path]


def _split(log: Path, version: int, actions: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    (log / "_sidecars").mkdir(exist_ok=True)
    files = actions.filter(pc.or_(actions["add"].is_valid(), actions["remove"].is_valid())).select(["add", "remove"])
    non_file_actions = actions.filter(pc.and_(actions["add"].is_null(), actions["remove"].is_null())).drop_columns(["add", "remove"])
    sidecars = []
    for part in (files.slice(0, 2), files.slice(2)):
        path = log / "_sidecars" / f"{uuid.uuid4()}.parquet"
        pq.write_table(part, path)
        sidecars.append({"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 1})
    return non_file_actions, sidecars


def _json(non_file_actions: pa.Table) -> list[dict[str, Any]]:
    lines = []
    for row in non_file_actions.to_pylist():
        action = {name: value for name, value in row.items() if value is not None}
        for fields in action.values():
            for name in ("configuration", "options"):
                if isinstance(fields.get(name), list):
                    fields[name] = dict(fields[name])
            if "format" in fields:
                fields["format"]["options"] = {}
        lines.append(action)
    return lines


KINDS: list[Write] = [classic, multi_part, v2_json, v2_parquet, v2_without_sidecars]


def replace_commits_by_checkpoint(lake: Lake, kind: Write, *, version: int = 4) -> list[Path]:
    """Write a checkpoint of a version and delete the commits up to it."""
    paths = kind(lake.log, version, pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=version).state, 0)))
    for replaced_version in range(version + 1):
        (lake.folder / commit_path(replaced_version)).unlink()
    return paths


@pytest.mark.parametrize("hint", ["none", "right", "older", "of nothing", "broken"])
@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_of_all_kinds_restore_the_table_state(lake: Lake, kind: Write, hint: str) -> None:
    expected_ids, state = lake.ids(), lake.table.snapshot().state
    replace_commits_by_checkpoint(lake, kind)
    hints = {"right": '{"version":4,"size":9}', "older": '{"version":2}', "of nothing": '{"version":5}', "broken": '{"versio'}
    if hint in hints:
        (lake.log / "_last_checkpoint").write_text(hints[hint])
    reopened = Lake(lake.folder)
    assert reopened.ids() == expected_ids == [2, 3, 11, 12, 13, 50]
    restored = reopened.table.snapshot().state
    assert (restored.protocol, restored.metadata, restored.transactions) == (state.protocol, state.metadata, state.transactions)
    assert sorted(restored.tombstones["key"].to_pylist()) == sorted(state.tombstones["key"].to_pylist())
    committed(reopened.append([60]))
    assert Lake(lake.folder).ids() == [*expected_ids, 60]


@pytest.mark.parametrize("kind", KINDS)
def test_missing_checkpoint_parts_are_reported_by_name(lake: Lake, kind: Write) -> None:
    *_, last = replace_commits_by_checkpoint(lake, kind)
    if len(list(lake.log.rglob("*.parquet"))) > 1:
        last.unlink()
    else:
        last.write_bytes(last.read_bytes()[:-9])
    with pytest.raises(CorruptLog) as corrupt:
        Lake(lake.folder).table.snapshot()
    # A multi-part checkpoint without all parts is ignored, so the first commit is reported as missing.
    missing_file = commit_path(0) if kind is multi_part else last.name
    assert missing_file in str(corrupt.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_checkpoint_is_skipped_if_all_commits_exist(lake: Lake, kind: Write) -> None:
    expected_ids = lake.ids()
    *_, last = kind(lake.log, 4, pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=4).state, 0)))
    last.write_bytes(b"PAR1 torn")
    (lake.log / "_last_checkpoint").write_text('{"version":4}')
    assert Lake(lake.folder).ids() == expected_ids


def test_one_readable_checkpoint_of_a_version_is_sufficient(lake: Lake) -> None:
    expected_ids = lake.ids()
    state = pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=4).state, 0))
    (lake.log / f"{4:020d}.checkpoint.parquet").write_bytes(b"torn")
    v2_json(lake.log, 4, state)
    multi_part(lake.log, 4, state)
    for version in range(5):
        (lake.folder / commit_path(version)).unlink()
    assert Lake(lake.folder).ids() == expected_ids


def test_compacted_logs_and_checksums_are_not_read_as_commits(lake: Lake) -> None:
    expected_ids = lake.ids()
    shutil.copy(lake.folder / commit_path(1), lake.log / f"{0:020d}.{5:020d}.compacted.json")
    (lake.log / f"{6:020d}.crc").write_text('{"tableSizeBytes":0,"numFiles":0}')
    (lake.log / f".{5:020d}.json.crc").write_bytes(b"crc")
    (lake.log / f"{6:020d}.json#1").write_bytes(b'{"add":')
    assert Lake(lake.folder).ids() == expected_ids


def test_a_written_checkpoint_contains_all_actions_of_the_commits(tmp_path: Path) -> None:
    """Verify domains, row ids, tags and transactions too, with other readers and without the commits."""
    lake = Lake(tmp_path)
    committed(lake.create(lake.file([1, 2])))
    path = lake.folder / commit_path(0)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"] |= {"baseRowId": 0, "defaultRowCommitVersion": 0, "tags": {"a": "b"}, "clusteringProvider": "liquid"}
        if "protocol" in line:
            features = ["rowTracking", "domainMetadata", "clustering"]
            line["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    lines.append({"domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":1}', "removed": False}})
    lines.append({"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False}})
    lines.append({"txn": {"appId": "app", "version": 3, "lastUpdated": 5}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (lake.folder / commit_path(1)).write_text('{"domainMetadata":{"domain":"mine","configuration":"{}","removed":true}}\n')
    committed_state = Lake(tmp_path).table.snapshot().state
    write_checkpoint(Storage(str(tmp_path)), committed_state)
    path.unlink()
    restored_state = Lake(tmp_path).table.snapshot().state
    assert restored_state.domains == committed_state.domains == {"delta.rowTracking": '{"rowIdHighWaterMark":1}'}
    assert (restored_state.transactions, restored_state.protocol) == (committed_state.transactions, committed_state.protocol)
    (add,) = (row for table in restored_state.files.tables() for row in table.to_pylist())
    assert (add["baseRowId"], add["defaultRowCommitVersion"], dict(add["tags"])) == (0, 0, {"a": "b"})
    assert add["clusteringProvider"] == "liquid"
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == rows_of(read_with_duckdb(str(tmp_path), "id")) == [(1, "n1"), (2, "n2")]


def test_a_version_between_checkpoints_is_read_from_the_older_checkpoint(lake: Lake) -> None:
    write_checkpoint(Storage(str(lake.folder)), lake.table.snapshot_at(version=2).state)
    write_checkpoint(Storage(str(lake.folder)), lake.table.snapshot().state)
    expected = len(lake.table.snapshot_at(version=3).files())
    for version in range(3):
        (lake.folder / commit_path(version)).unlink()
    assert len(Lake(lake.folder).table.snapshot_at(version=3).files()) == expected
    (lake.folder / checkpoint_path(5)).unlink()
    (lake.folder / commit_path(4)).unlink()
    with pytest.raises(CorruptLog, match=f"{4:020d}.json is unreadable: it is missing"):
        Lake(lake.folder).table.snapshot()
