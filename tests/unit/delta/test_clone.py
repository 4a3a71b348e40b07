"""Shallow clones: the actions in their logs, and the source files that they leave unchanged."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from rowmerge.errors import ConfigurationError
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS
from rowmerge.execution.restore_and_clone import Clone
from rowmerge.execution.result import ChangeResult
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import Positions
from tests.support.delta_tables import Lake
from tests.support.readers import read_with_delta_rs

ROW_IDS = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}


def clone(source: Lake, target: Lake, *, or_replace: bool = False, **properties: str) -> tuple[ChangeResult, dict[str, int]]:
    result = Clone(target.table, "s.c", source.table.snapshot(), "s.t", properties, DEFAULT_COMMIT_OPTIONS).run(or_replace=or_replace)
    return result, dict(result.result_row)


def actions(lake: Lake, version: int) -> dict[str, list[dict[str, Any]]]:
    actions_by_name: dict[str, list[dict[str, Any]]] = {}
    for line in (lake.log / f"{version:020}.json").read_text().splitlines():
        for name, fields in json.loads(line).items():
            actions_by_name.setdefault(name, []).append(fields)
    return actions_by_name


def files_of(lake: Lake) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in lake.folder.rglob("*") if path.is_file()}


@pytest.fixture
def source(tmp_path: Path) -> Lake:
    """Create a table of two files, one with a deleted row, in a folder whose name needs encoding."""
    lake = Lake(tmp_path / "a %25 ü b" / "source")
    lake.create(properties=ROW_IDS)
    lake.append([1, 2, 3])
    lake.append([4])
    (path, *_) = [row["path"] for row in lake.table.snapshot().files().rows.to_pylist() if row["records"] == 3]
    lake.commit("DELETE", deleted={path: Positions([1])})
    return lake


@pytest.fixture
def target(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "clone")


def test_a_clone_references_source_files_and_deletion_vectors_by_absolute_uri(source, target):
    source_files = files_of(source)
    result, counts = clone(source, target)
    assert result.version == 0
    cloned = actions(target, 0)
    assert cloned["commitInfo"][0]["operation"] == "CLONE"
    assert cloned["commitInfo"][0]["operationParameters"] == {"source": "s.t", "sourceVersion": "3"}
    size = sum(row["size"] for row in source.table.snapshot().files().rows.to_pylist())
    metrics = {"sourceTableSize": size, "sourceNumOfFiles": 2, "numRemovedFiles": 0}
    metrics |= {"numCopiedFiles": 0, "removedFilesSize": 0, "copiedFilesSize": 0}
    assert cloned["commitInfo"][0]["operationMetrics"] == {name: str(value) for name, value in metrics.items()}
    assert list(counts.values()) == list(metrics.values())

    for add in cloned["add"]:
        assert add["path"].startswith("file:///")
        assert " " not in add["path"]
        assert Path(unquote(add["path"]).removeprefix("file://")).is_file()
    (vector,) = [add["deletionVector"] for add in cloned["add"] if "deletionVector" in add]
    assert vector["storageType"] == "p"
    assert Path(unquote(vector["pathOrInlineDv"]).removeprefix("file://")).is_file()
    assert target.ids() == [1, 3, 4]
    assert read_with_delta_rs(str(target.folder))["id"].to_pylist() == [1, 3, 4]
    assert files_of(source) == source_files


def test_a_clone_has_its_own_table_id_and_row_ids(source, target):
    clone(source, target, team="x")
    source_metadata, clone_metadata = source.table.snapshot().metadata, target.table.snapshot().metadata
    assert clone_metadata.id != source_metadata.id
    assert clone_metadata.schema == source_metadata.schema
    assert clone_metadata.configuration["team"] == "x"
    names = [name for name in source_metadata.configuration if "materialized" in name]
    assert names
    assert all(clone_metadata.configuration[name] != source_metadata.configuration[name] for name in names)
    added = actions(target, 0)["add"]
    assert sorted(add["baseRowId"] for add in added) in ([0, 1], [0, 3])
    assert {add["defaultRowCommitVersion"] for add in added} == {0}


def test_a_repeated_clone_commits_only_changed_files(source, target):
    clone(source, target)
    target.append([10])
    source.append([5])
    result, counts = clone(source, target, or_replace=True)
    assert (result.version, counts["num_removed_files"], counts["source_num_of_files"]) == (2, 1, 3)
    cloned = actions(target, 2)
    assert len(cloned["add"]) == 1
    assert [remove["path"].startswith("file:") for remove in cloned["remove"]] == [False]
    assert target.ids() == [1, 3, 4, 5]
    assert "metaData" not in cloned


def test_a_repeated_clone_replaces_changed_deletion_vectors(source, target):
    clone(source, target)
    (path, *_) = [row["path"] for row in source.table.snapshot().files().rows.to_pylist() if row["records"] == 3]
    source.commit("DELETE", deleted={path: Positions([0, 1])})
    clone(source, target, or_replace=True)
    cloned = actions(target, 1)
    assert [entry["path"] for entry in cloned["add"]] == [entry["path"] for entry in cloned["remove"]]
    assert target.ids() == [3, 4]


def test_deletes_and_vacuum_in_a_clone_leave_source_files_unchanged(source, target):
    source_files = files_of(source)
    clone(source, target)
    files = {row["records"]: row["path"] for row in target.table.snapshot().files().rows.to_pylist()}
    target.commit("DELETE", deleted={files[3]: Positions([0, 1])}, removed=(files[1],))
    assert target.ids() == [3]
    own_version = target.append([11]).version
    target.commit("DELETE", removed=tuple(row["path"] for row in target.table.snapshot().files().rows.to_pylist()))
    # With a retention of zero, files must be older than now.
    time.sleep(0.05)
    target.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))
    assert files_of(source) == source_files
    assert source.ids() == [1, 3, 4]
    assert own_version == 2
    assert not list(target.folder.glob("*.parquet"))


def test_a_clone_of_a_clone_references_the_original_files(source, target, tmp_path):
    clone(source, target)
    second = Lake(tmp_path / "second")
    clone(target, second)
    assert {add["path"] for add in actions(second, 0)["add"]} == {add["path"] for add in actions(target, 0)["add"]}
    assert second.ids() == [1, 3, 4]


def test_invalid_properties_of_a_clone_are_refused(source, target):
    with pytest.raises(ConfigurationError, match="cannot be changed from none to id"):
        clone(source, target, **{"delta.columnMapping.mode": "id"})
    with pytest.raises(ConfigurationError, match="There is no table property delta.nothing"):
        clone(source, target, **{"delta.nothing": "1"})
    assert not target.table.exists()


def test_a_clone_inherits_in_commit_timestamps_unless_it_replaces_a_table(tmp_path):
    timed, untimed = Lake(tmp_path / "timed"), Lake(tmp_path / "plain")
    timed.create(timed.file([1]), properties={"delta.enableInCommitTimestamps": "true"})
    untimed.create(untimed.file([2]))
    target = Lake(tmp_path / "made")
    clone(timed, target)
    assert "inCommitTimestamp" in actions(target, 0)["commitInfo"][0]
    clone(timed, untimed, or_replace=True)
    assert "inCommitTimestamp" not in actions(untimed, 1)["commitInfo"][0]
    assert "delta.enableInCommitTimestamps" not in untimed.table.snapshot().metadata.configuration
    clone(untimed, target, or_replace=True)
    assert actions(target, 1)["commitInfo"][0]["inCommitTimestamp"] > actions(target, 0)["commitInfo"][0]["inCommitTimestamp"]
    assert [lake.ids() for lake in (timed, untimed, target)] == [[1], [1], [1]]


def test_a_clone_keeps_physical_column_names_and_the_highest_column_id(tmp_path):
    mapped, wide = Lake(tmp_path / "mapped"), Lake(tmp_path / "wide")
    mapped.create(properties={"delta.columnMapping.mode": "name"})
    wide.create(properties={"delta.columnMapping.mode": "name"})
    schema = wide.table.snapshot().schema
    added = Struct((*schema, Field("more", Primitive("long"))))
    wide.table.commit(wide.table.snapshot(), CommitRequest("ADD COLUMNS", definition=TableDefinition(schema=added)))
    clone(mapped, wide, or_replace=True)
    metadata = wide.table.snapshot().metadata
    assert metadata.stored_schema.names == mapped.table.snapshot().metadata.stored_schema.names
    assert metadata.configuration["delta.columnMapping.maxColumnId"] == "3"


def test_a_checkpoint_of_a_clone_contains_source_files(source, target):
    clone(source, target)
    for id_ in range(20, 32):
        target.append([id_])
    reopened = Lake(target.folder)
    assert reopened.ids() == [1, 3, 4, *range(20, 32)]
    assert list(target.log.glob("*.checkpoint*"))
    assert read_with_delta_rs(str(target.folder))["id"].to_pylist() == reopened.ids()
