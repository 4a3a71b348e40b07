"""Checkpoints of every kind that others write are read alike, and what lies beside them in the log does no harm."""

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
    """Six versions: files, one of them marked and one removed, a transaction."""
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
    """Small actions in JSON, the files in two sidecars."""
    small, sidecars = _split(log, version, actions)
    path = log / f"{version:020d}.checkpoint.{uuid.uuid4()}.json"
    lines = [{"checkpointMetadata": {"version": version}}, *_json(small), *({"sidecar": sidecar} for sidecar in sidecars)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [path, *(log / "_sidecars" / sidecar["path"] for sidecar in sidecars)]


def v2_parquet(log: Path, version: int, actions: pa.Table) -> list[Path]:
    small, sidecars = _split(log, version, actions)
    type_ = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
    more = pa.table({"sidecar": pa.array(sidecars, type_), "checkpointMetadata": pa.array([{"version": version}, None])})
    path = log / f"{version:020d}.checkpoint.{uuid.uuid4()}.parquet"
    pq.write_table(pa.concat_tables([small, more], promote_options="default"), path)
    return [path, *(log / "_sidecars" / sidecar["path"] for sidecar in sidecars)]


def v2_without_sidecars(log: Path, version: int, actions: pa.Table) -> list[Path]:
    path = log / f"{version:020d}.checkpoint.{uuid.uuid4()}.parquet"
    more = pa.table({"checkpointMetadata": pa.array([{"version": version}])})
    pq.write_table(pa.concat_tables([actions, more], promote_options="default"), path)
    return [path]


def _split(log: Path, version: int, actions: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    (log / "_sidecars").mkdir(exist_ok=True)
    files = actions.filter(pc.or_(actions["add"].is_valid(), actions["remove"].is_valid())).select(["add", "remove"])
    small = actions.filter(pc.and_(actions["add"].is_null(), actions["remove"].is_null())).drop_columns(["add", "remove"])
    sidecars = []
    for part in (files.slice(0, 2), files.slice(2)):
        path = log / "_sidecars" / f"{uuid.uuid4()}.parquet"
        pq.write_table(part, path)
        sidecars.append({"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 1})
    return small, sidecars


def _json(small: pa.Table) -> list[dict[str, Any]]:
    lines = []
    for row in small.to_pylist():
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


def checkpointed(lake: Lake, kind: Write, *, version: int = 4) -> list[Path]:
    """A checkpoint of a version, whose commits up to it are then deleted."""
    paths = kind(lake.log, version, pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=version).state, 0)))
    for old in range(version + 1):
        (lake.folder / commit_path(old)).unlink()
    return paths


@pytest.mark.parametrize("hint", ["none", "right", "older", "of nothing", "broken"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_any_kind_is_the_table(lake: Lake, kind: Write, hint: str) -> None:
    before, state = lake.ids(), lake.table.snapshot().state
    checkpointed(lake, kind)
    hints = {"right": '{"version":4,"size":9}', "older": '{"version":2}', "of nothing": '{"version":5}', "broken": '{"versio'}
    if hint in hints:
        (lake.log / "_last_checkpoint").write_text(hints[hint])
    again = Lake(lake.folder)
    assert again.ids() == before == [2, 3, 11, 12, 13, 50]
    found = again.table.snapshot().state
    assert (found.protocol, found.metadata, found.transactions) == (state.protocol, state.metadata, state.transactions)
    assert sorted(found.tombstones["key"].to_pylist()) == sorted(state.tombstones["key"].to_pylist())
    committed(again.append([60]))
    assert Lake(lake.folder).ids() == [*before, 60]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_checkpoint_lacks_is_named(lake: Lake, kind: Write) -> None:
    *_, last = checkpointed(lake, kind)
    if len(list(lake.log.rglob("*.parquet"))) > 1:
        last.unlink()
    else:
        last.write_bytes(last.read_bytes()[:-9])
    with pytest.raises(CorruptLog) as corrupt:
        Lake(lake.folder).table.snapshot()
    # A multi-part checkpoint with a part missing is no checkpoint: then the first commit is what lacks.
    named = commit_path(0) if kind is multi_part else last.name
    assert named in str(corrupt.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_checkpoint_is_passed_over_while_the_commits_are_there(lake: Lake, kind: Write) -> None:
    before = lake.ids()
    *_, last = kind(lake.log, 4, pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=4).state, 0)))
    last.write_bytes(b"PAR1 torn")
    (lake.log / "_last_checkpoint").write_text('{"version":4}')
    assert Lake(lake.folder).ids() == before


def test_the_best_of_several_checkpoints_of_a_version_is_enough(lake: Lake) -> None:
    before = lake.ids()
    state = pa.concat_tables(checkpoint_tables(lake.table.snapshot_at(version=4).state, 0))
    (lake.log / f"{4:020d}.checkpoint.parquet").write_bytes(b"torn")
    v2_json(lake.log, 4, state)
    multi_part(lake.log, 4, state)
    for version in range(5):
        (lake.folder / commit_path(version)).unlink()
    assert Lake(lake.folder).ids() == before


def test_compacted_logs_and_checksums_are_no_commits(lake: Lake) -> None:
    before = lake.ids()
    shutil.copy(lake.folder / commit_path(1), lake.log / f"{0:020d}.{5:020d}.compacted.json")
    (lake.log / f"{6:020d}.crc").write_text('{"tableSizeBytes":0,"numFiles":0}')
    (lake.log / f".{5:020d}.json.crc").write_bytes(b"crc")
    (lake.log / f"{6:020d}.json#1").write_bytes(b'{"add":')
    assert Lake(lake.folder).ids() == before


def test_a_written_checkpoint_holds_what_the_commits_said(tmp_path: Path) -> None:
    """Domains, row ids, tags and transactions too; read back by others when the commits are gone."""
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
    before = Lake(tmp_path).table.snapshot().state
    write_checkpoint(Storage(str(tmp_path)), before)
    path.unlink()
    after = Lake(tmp_path).table.snapshot().state
    assert after.domains == before.domains == {"delta.rowTracking": '{"rowIdHighWaterMark":1}'}
    assert (after.transactions, after.protocol) == (before.transactions, before.protocol)
    (add,) = (row for table in after.files.tables() for row in table.to_pylist())
    assert (add["baseRowId"], add["defaultRowCommitVersion"], dict(add["tags"])) == (0, 0, {"a": "b"})
    assert add["clusteringProvider"] == "liquid"
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == rows_of(read_with_duckdb(str(tmp_path), "id")) == [(1, "n1"), (2, "n2")]


def test_a_version_between_checkpoints_is_read_from_the_older_one(lake: Lake) -> None:
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
