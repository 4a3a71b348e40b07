"""With `delta.checkpointPolicy` = v2, checkpoints have sidecars, which every reader reads and which cleanups delete in time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmerge.delta.log import checkpoints
from rowmerge.delta.log.checkpoints import try_checkpoint, write_checkpoint
from rowmerge.delta.log.log_files import LAST_CHECKPOINT, commit_path
from rowmerge.errors import ConfigurationError, StorageError
from rowmerge.storage.store import Storage
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.snapshots.files import Positions
from tests.support.delta_tables import Lake, committed
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of
from tests.unit.delta.test_checkpoints import SCHEMA, checkpoint_lake, with_checkpoint_only
from tests.unit.delta.test_cleanup import age, clean, lake_with_history, set_properties, versions

V2 = {"delta.checkpointPolicy": "v2"}


def v2_lake(folder: Path, **properties: str) -> Lake:
    """Create a table of four versions with a deletion vector, two tombstones and a transaction. The ids are 1, 3, 50 and 60."""
    lake = Lake(folder)
    files = [lake.file([n, n + 2]) for n in range(2)]
    committed(lake.create(*files, properties={**V2, **properties}))
    committed(lake.commit("DELETE", removed=(files[0].path,)))
    committed(lake.commit("WRITE", added=(lake.file([50, 51]), lake.file([60])), transaction=("app", 7)))
    marked = next(file.path for file in lake.table.snapshot().files().files() if file.records == 2 and file.path != files[1].path)
    committed(lake.commit("DELETE", deleted={marked: Positions([1])}))
    return lake


def top_level_actions(lake: Lake, version: int) -> dict[str, list[dict[str, Any]]]:
    """Return the fields of the actions in the JSON file of a V2 checkpoint, by kind."""
    (path,) = lake.log.glob(f"{version:020d}.checkpoint.*.json")
    actions: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        for kind, fields in json.loads(line).items():
            actions.setdefault(kind, []).append(fields)
    return actions


def sidecars(lake: Lake) -> set[str]:
    return {path.name for path in lake.log.glob("_sidecars/*")}


def write_newest(lake: Lake) -> None:
    write_checkpoint(Storage(str(lake.folder)), lake.table.snapshot().state)


def delete_commits(lake: Lake, newest: int, first: int = 0) -> None:
    for version in range(first, newest + 1):
        (lake.folder / commit_path(version)).unlink()


def test_a_v2_checkpoint_has_non_file_actions_in_json_and_file_actions_in_sidecars(tmp_path: Path) -> None:
    lake = v2_lake(tmp_path)
    write_newest(lake)
    assert not list(lake.log.glob("*.parquet"))
    actions = top_level_actions(lake, 3)
    assert sorted(actions) == ["checkpointMetadata", "metaData", "protocol", "sidecar", "txn"]
    assert "v2Checkpoint" in actions["protocol"][0]["readerFeatures"]
    (sidecar,) = actions["sidecar"]
    path = lake.log / "_sidecars" / sidecar["path"]
    assert (sidecar["sizeInBytes"], sidecars(lake)) == (path.stat().st_size, {path.name})
    rows = pq.read_table(path)
    assert rows.column_names == ["remove", "add"]
    assert [len(rows[name].drop_null()) for name in rows.column_names] == [2, 3]
    tags = {"sidecarNumActions": "5", "sidecarSizeInBytes": str(path.stat().st_size), "numOfAddFiles": "3"}
    assert actions["checkpointMetadata"] == [{"version": 3, "tags": tags}]


def test_the_hint_names_the_v2_checkpoint(tmp_path: Path) -> None:
    lake = v2_lake(tmp_path)
    write_newest(lake)
    hint = json.loads((lake.folder / LAST_CHECKPOINT).read_text())
    (path,) = lake.log.glob("*.checkpoint.*.json")
    assert (hint["version"], hint["numOfAddFiles"], hint["size"]) == (3, 3, 5 + 5)
    assert (hint["v2Checkpoint"]["path"], hint["v2Checkpoint"]["sizeInBytes"]) == (path.name, path.stat().st_size)


@pytest.mark.parametrize("max_actions", [1, 2, 50_000])
def test_every_reader_reads_a_table_from_its_v2_checkpoint_alone(tmp_path: Path, max_actions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_MAX_SIDECAR_ACTIONS", max_actions)
    lake = v2_lake(tmp_path)
    state = lake.table.snapshot().state
    write_newest(lake)
    assert len(sidecars(lake)) == -(-5 // max_actions)
    assert {pq.read_metadata(lake.log / "_sidecars" / name).num_rows for name in sidecars(lake)} <= {1, 2, 5}
    delete_commits(lake, 2)
    restored_state = Lake(tmp_path).table.snapshot().state
    assert (restored_state.protocol, restored_state.metadata) == (state.protocol, state.metadata)
    assert restored_state.transactions == state.transactions
    assert sorted(restored_state.tombstones["key"].to_pylist()) == sorted(state.tombstones["key"].to_pylist())
    assert Lake(tmp_path).ids() == [1, 3, 50, 60]
    expected_rows = [(1, "n1"), (3, "n3"), (50, "n50"), (60, "n60")]
    assert rows_of(read_with_delta_rs(str(tmp_path), "id")) == rows_of(read_with_duckdb(str(tmp_path), "id")) == expected_rows


def test_commits_follow_a_v2_checkpoint_for_every_reader(tmp_path: Path) -> None:
    lake = v2_lake(tmp_path)
    write_newest(lake)
    delete_commits(lake, 2)
    committed(Lake(tmp_path).append([70]))
    assert [row[0] for row in rows_of(read_with_delta_rs(str(tmp_path), "id"))] == [1, 3, 50, 60, 70]
    assert [row[0] for row in rows_of(read_with_duckdb(str(tmp_path), "id"))] == [1, 3, 50, 60, 70]


def test_a_table_without_files_has_a_v2_checkpoint_without_sidecars(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create(properties=V2))
    write_newest(lake)
    assert "sidecar" not in top_level_actions(lake, 0)
    assert not sidecars(lake)
    (lake.folder / commit_path(0)).unlink()
    (lake.log / f"{0:020d}.crc").unlink()
    assert Lake(tmp_path).ids() == []
    assert read_with_duckdb(str(tmp_path)).num_rows == read_with_delta_rs(str(tmp_path)).num_rows == 0


def test_the_policy_can_be_changed_in_both_directions(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, 4)
    committed(lake.append([5]))
    assert (versions(lake, "checkpoint.parquet"), sidecars(lake)) == ([5], set())
    set_properties(lake, **V2)
    for id_ in (6, 7, 8, 9):
        committed(lake.append([id_]))
    assert [path.name[:20] for path in lake.log.glob("*.checkpoint.*.json")] == [f"{10:020d}"]
    v2_sidecars = sidecars(lake)
    assert len(v2_sidecars) == 1
    set_properties(lake, **{"delta.checkpointPolicy": "classic"})
    for id_ in (10, 11, 12, 13):
        committed(lake.append([id_]))
    assert (versions(lake, "checkpoint.parquet"), sidecars(lake)) == ([5, 15], v2_sidecars)
    table = Lake(lake.folder).table
    assert table.snapshot().protocol.supports("v2Checkpoint")
    for version in (5, 10, 15):
        expected = len(table.snapshot_at(version=version).files())
        assert read_with_delta_rs(str(lake.folder), version=version).num_rows == expected
    delete_commits(lake, 14)
    assert Lake(lake.folder).ids() == list(range(14))
    assert read_with_duckdb(str(lake.folder)).num_rows == read_with_delta_rs(str(lake.folder)).num_rows == 14


@pytest.mark.parametrize("policy", ["v1", "", "v2 v2"])
def test_other_checkpoint_policies_are_rejected(tmp_path: Path, policy: str) -> None:
    lake = Lake(tmp_path)
    with pytest.raises(ConfigurationError, match=f"delta.checkpointPolicy is '{policy}'. Set it to classic or v2"):
        lake.create(properties={"delta.checkpointPolicy": policy})
    committed(lake.create())
    with pytest.raises(ConfigurationError, match="Set it to classic or v2"):
        set_properties(lake, **{"delta.checkpointPolicy": policy})


def test_without_the_table_feature_checkpoints_are_classic(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    committed(lake.create())
    metadata = lake.table.snapshot().metadata.action()["metaData"]
    metadata["configuration"] = V2
    (lake.folder / commit_path(1)).write_text(json.dumps({"commitInfo": {}}) + "\n" + json.dumps({"metaData": metadata}) + "\n")
    write_newest(Lake(tmp_path))
    assert versions(lake, "checkpoint.parquet") == [1]


class FullWithoutSidecars(Storage):
    """Storage with space for sidecars only."""

    def put(self, path: str, data: bytes) -> None:
        if "_sidecars" not in path:
            raise StorageError(f"{self.location}/{path}", "no space left on device")
        super().put(path, data)


def test_sidecars_of_an_interrupted_checkpoint_have_no_effect(tmp_path: Path) -> None:
    lake = v2_lake(tmp_path)
    assert not try_checkpoint(FullWithoutSidecars(str(tmp_path)), lake.table.snapshot().state)
    assert len(sidecars(lake)) == 1
    assert not (lake.folder / LAST_CHECKPOINT).exists()
    assert Lake(tmp_path).ids() == [1, 3, 50, 60]
    assert read_with_duckdb(str(tmp_path)).num_rows == read_with_delta_rs(str(tmp_path)).num_rows == 4


def test_a_cleanup_deletes_only_old_sidecars_that_no_checkpoint_needs(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, **V2)
    expired, needed = ({fields["path"] for fields in top_level_actions(lake, version)["sidecar"]} for version in (5, 10))
    assert sidecars(lake) == expired | needed
    folder = lake.log / "_sidecars"
    (folder / "interrupted.parquet").write_bytes(b"")
    (lake.log / "mine.parquet").write_bytes(b"")
    age(lake, range(13))
    clean(lake)
    # The entries before version 10 have expired, but the sidecars are younger than a day.
    assert versions(lake) == list(range(10, 14))
    assert sidecars(lake) == {*expired, *needed, "interrupted.parquet"}
    set_properties(lake, **{"delta.checkpointInterval": "15"})
    committed(lake.append([14]))
    age(lake, range(16))
    for path in (*folder.iterdir(), lake.log / "mine.parquet"):
        os.utime(path, (time.time() - 3 * 86_400,) * 2)
    newest = {fields["path"] for fields in top_level_actions(lake, 15)["sidecar"]}
    (folder / "young.parquet").write_bytes(b"")
    clean(lake)
    assert versions(lake) == [15]
    assert sidecars(lake) == {*newest, "young.parquet"}
    assert (lake.log / "mine.parquet").exists()
    assert Lake(lake.folder).ids() == list(range(15))
    assert read_with_duckdb(str(lake.folder)).num_rows == read_with_delta_rs(str(lake.folder)).num_rows == 15


class Overtaken(Storage):
    """Storage on which an action runs between the sidecars of a checkpoint and the file that refers to them."""

    act: Any = None

    def put(self, path: str, data: bytes) -> None:
        if ".checkpoint." in path and self.act is not None:
            act, self.act = self.act, None
            act()
        super().put(path, data)


def test_cleanup_and_vacuum_keep_the_sidecars_of_a_slow_writer(tmp_path: Path) -> None:
    lake = lake_with_history(tmp_path, **V2)
    storage, old_names = Overtaken(str(lake.folder)), sidecars(lake)

    def clean_and_vacuum() -> None:
        assert len(sidecars(lake) - old_names) == 1, "the slow writer has put its sidecar"
        age(lake, range(13))
        for name in old_names:
            os.utime(lake.log / "_sidecars" / name, (0, 0))
        clean(lake)
        lake.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False, record=False))

    storage.act = clean_and_vacuum
    write_checkpoint(storage, lake.table.snapshot().state)
    assert storage.act is None and versions(lake)[0] == 10
    names = {fields["path"] for version in (10, 13) for fields in top_level_actions(lake, version)["sidecar"]}
    assert sidecars(lake) == names, "the cleanup has deleted the sidecars of the expired checkpoint only"
    delete_commits(lake, 12, first=10)
    assert Lake(lake.folder).ids() == list(range(14))
    assert read_with_duckdb(str(lake.folder)).num_rows == read_with_delta_rs(str(lake.folder)).num_rows == 14


def test_vacuum_keeps_sidecars(tmp_path: Path) -> None:
    lake = v2_lake(tmp_path)
    write_newest(lake)
    delete_commits(lake, 2)
    for path in lake.folder.rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    vacuumed = lake.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False, record=False))
    assert not [path for path in vacuumed.paths if "_delta_log" in path]
    assert len(sidecars(lake)) == 1
    assert Lake(tmp_path).ids() == [1, 3, 50, 60]


def test_partition_values_and_statistics_are_read_from_sidecars(tmp_path: Path) -> None:
    lake = checkpoint_lake(tmp_path, delta__checkpointPolicy="v2", delta__checkpoint__writeStatsAsJson="false")
    original = lake.table.snapshot().files(SCHEMA.names).rows.to_pylist()
    restored = with_checkpoint_only(lake)
    assert len(sidecars(restored)) == 1
    assert restored.table.snapshot().files(SCHEMA.names).rows.to_pylist() == original
    rows = rows_of(read_with_delta_rs(str(tmp_path), "id"))
    assert rows_of(read_with_duckdb(str(tmp_path), "id")) == rows
    assert [row[0] for row in rows] == [0, 2, 7, 12, 22]


def test_many_actions_are_divided_into_parts_of_limited_size() -> None:
    tables = [pa.table({"x": range(count)}) for count in (0, 3, 0, 4, 1)]
    parts = [pa.concat_tables(part)["x"].to_pylist() for part in checkpoints._in_parts(tables, 3)]
    assert parts == [[0, 1, 2], [0, 1, 2], [3, 0]]
