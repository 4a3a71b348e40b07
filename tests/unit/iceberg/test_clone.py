"""Shallow clones of Iceberg tables: their metadata, and the source files that they leave unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table.update import SetPropertiesUpdate

from rowmerge.errors import AlreadyExists, ConfigurationError, PlanError
from rowmerge.execution.commit import DEFAULT_COMMIT_OPTIONS
from rowmerge.execution.restore_and_clone import Clone
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.maintenance import VacuumOptions
from rowmerge.table.metadata.partitioning import PartitionField
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from tests.support.iceberg_lake import Lake
from tests.support.readers import read_with_pyiceberg


def clone(source: Lake, target: Lake, *, version: int | None = None, or_replace: bool = False, **properties: str) -> int:
    snapshot = source.table.snapshot_at(version=version)
    return Clone(target.table, "s.c", snapshot, "s.t", properties, DEFAULT_COMMIT_OPTIONS).run(or_replace=or_replace).version


def files_of(lake: Lake) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in lake.folder.rglob("*") if path.is_file()}


@pytest.fixture(params=["2", "3"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "source")
    lake.create({"format-version": request.param, "team": "x", "write.data.path": str(tmp_path / "source" / "elsewhere")})
    # Another engine may set it, although a table in a folder rejects it.
    lake.update(SetPropertiesUpdate(updates={"write.metadata.path": str(tmp_path / "source" / "metadata")}))
    lake.append([1, 2, 3])
    lake.append([4])
    lake.delete(2)
    return lake


@pytest.fixture
def target(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "clone")


def test_a_clone_has_the_source_snapshot_and_its_own_table_uuid(source, target):
    source_files = files_of(source)
    assert clone(source, target, more="y") == source.current.metadata.current_snapshot_id
    source_metadata, clone_metadata = source.current.metadata, target.current.metadata
    assert clone_metadata.table_uuid != source_metadata.table_uuid
    assert clone_metadata.location == target.table.location
    assert [snapshot.snapshot_id for snapshot in clone_metadata.snapshots] == [source_metadata.current_snapshot_id]
    assert clone_metadata.schemas == source_metadata.schemas
    assert (clone_metadata.last_column_id, clone_metadata.last_sequence_number) == (
        source_metadata.last_column_id,
        source_metadata.last_sequence_number,
    )
    assert {name: clone_metadata.properties.get(name) for name in ("team", "more", "gc.enabled")} == {
        "team": "x",
        "more": "y",
        "gc.enabled": "false",
    }
    assert not [name for name in clone_metadata.properties if name.endswith(".path")]
    assert not clone_metadata.metadata_log
    assert read_with_pyiceberg(str(target.folder))["id"].to_pylist() == [1, 3, 4]
    assert files_of(source) == source_files


def test_changes_of_a_clone_leave_source_files_unchanged(source, target):
    clone(source, target)
    source_files = files_of(source)
    target.delete(3)
    target.append([10])
    target.remove(4)
    assert read_with_pyiceberg(str(target.folder))["id"].to_pylist() == [1, 10]
    assert files_of(source) == source_files
    assert read_with_pyiceberg(str(source.folder))["id"].to_pylist() == [1, 3, 4]
    with pytest.raises(PlanError, match="gc.enabled is false"):
        target.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))


def test_a_clone_of_an_older_snapshot_has_its_schema(source, target, tmp_path):
    older_version = source.current.metadata.current_snapshot_id
    snapshot = source.table.snapshot()
    wider = Struct((*snapshot.schema, Field("day", Primitive("date"))))
    source.table.commit(snapshot, CommitRequest("ADD COLUMNS", definition=TableDefinition(schema=wider)))
    clone(source, target, version=older_version)
    assert target.table.snapshot().schema.names == ("id", "name")
    newest_clone = Lake(tmp_path / "now")
    clone(source, newest_clone)
    assert newest_clone.table.snapshot().schema.names == ("id", "name", "day")

    partitioned = TableDefinition(partitioning=(PartitionField(("day",)),))
    source.table.commit(source.table.snapshot(), CommitRequest("ADD PARTITION FIELD", definition=partitioned))
    with pytest.raises(PlanError, match="lacks a column that now partitions or sorts"):
        clone(source, Lake(tmp_path / "late"), version=older_version)


def test_invalid_clones_are_refused_before_files_are_written(source, target, tmp_path):
    for properties in ({"gc.enabled": "true"}, {"format-version": "1"}):
        with pytest.raises(ConfigurationError, match="of a clone|for a clone"):
            clone(source, target, **properties)
    target.operations.keeps_ids = False
    with pytest.raises(PlanError, match="its catalog assigns new ids"):
        clone(source, target)
    target.operations.keeps_ids = True
    assert not target.folder.exists()
    clone(source, target)
    with pytest.raises(AlreadyExists):
        clone(source, target)
    with pytest.raises(PlanError, match="DROP TABLE s.t first"):
        clone(source, target, or_replace=True)


def test_an_empty_table_can_be_cloned(tmp_path, target):
    empty_lake = Lake(tmp_path / "empty")
    empty_lake.create()
    assert clone(empty_lake, target) == 0
    target.append([1])
    assert read_with_pyiceberg(str(target.folder))["id"].to_pylist() == [1]
