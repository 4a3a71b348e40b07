"""Shallow clones of Iceberg tables: what their metadata takes over, and whose files they leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    wanted = source.table.snapshot_at(version=version)
    return Clone(target.table, "s.c", wanted, "s.t", properties, DEFAULT_COMMIT_OPTIONS).run(or_replace=or_replace).version


def files_of(lake: Lake) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in lake.folder.rglob("*") if path.is_file()}


@pytest.fixture(params=["2", "3"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "source")
    elsewhere = {"write.data.path": str(tmp_path / "source" / "elsewhere"), "write.metadata.path": str(tmp_path / "source" / "metadata")}
    lake.create({"format-version": request.param, "team": "x", **elsewhere})
    lake.append([1, 2, 3])
    lake.append([4])
    lake.delete(2)
    return lake


@pytest.fixture
def target(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "clone")


def test_a_clone_has_the_snapshot_and_the_ids_of_its_source_in_a_table_of_its_own(source, target):
    before = files_of(source)
    assert clone(source, target, more="y") == source.current.metadata.current_snapshot_id
    theirs, ours = source.current.metadata, target.current.metadata
    assert ours.table_uuid != theirs.table_uuid
    assert ours.location == target.table.location
    assert [snapshot.snapshot_id for snapshot in ours.snapshots] == [theirs.current_snapshot_id]
    assert ours.schemas == theirs.schemas
    assert (ours.last_column_id, ours.last_sequence_number) == (theirs.last_column_id, theirs.last_sequence_number)
    assert {name: ours.properties.get(name) for name in ("team", "more", "gc.enabled")} == {"team": "x", "more": "y", "gc.enabled": "false"}
    assert not [name for name in ours.properties if name.endswith(".path")]
    assert not ours.metadata_log
    assert read_with_pyiceberg(str(target.folder))["id"].to_pylist() == [1, 3, 4]
    assert files_of(source) == before


def test_what_is_done_to_a_clone_is_written_in_its_own_folder(source, target):
    clone(source, target)
    before = files_of(source)
    target.delete(3)
    target.append([10])
    target.remove(4)
    assert read_with_pyiceberg(str(target.folder))["id"].to_pylist() == [1, 10]
    assert files_of(source) == before
    assert read_with_pyiceberg(str(source.folder))["id"].to_pylist() == [1, 3, 4]
    with pytest.raises(PlanError, match="gc.enabled is false"):
        target.table.vacuum(VacuumOptions(retain_hours=0, check_retention=False))


def test_a_version_is_cloned_with_the_columns_that_it_had(source, target, tmp_path):
    old = source.current.metadata.current_snapshot_id
    snapshot = source.table.snapshot()
    wider = Struct((*snapshot.schema, Field("day", Primitive("date"))))
    source.table.commit(snapshot, CommitRequest("ADD COLUMNS", definition=TableDefinition(schema=wider)))
    clone(source, target, version=old)
    assert target.table.snapshot().schema.names == ("id", "name")
    now = Lake(tmp_path / "now")
    clone(source, now)
    assert now.table.snapshot().schema.names == ("id", "name", "day")

    partitioned = TableDefinition(partitioning=(PartitionField(("day",)),))
    source.table.commit(source.table.snapshot(), CommitRequest("ADD PARTITION FIELD", definition=partitioned))
    with pytest.raises(PlanError, match="before a column that partitions or orders"):
        clone(source, Lake(tmp_path / "late"), version=old)


def test_what_cannot_be_a_clone_is_refused_before_anything_is_written(source, target, tmp_path):
    for properties in ({"gc.enabled": "true"}, {"format-version": "1"}):
        with pytest.raises(ConfigurationError, match="of a clone|for a clone"):
            clone(source, target, **properties)
    target.operations.keeps_ids = False
    with pytest.raises(PlanError, match="its catalog gives ids of its own"):
        clone(source, target)
    target.operations.keeps_ids = True
    assert not target.folder.exists()
    clone(source, target)
    with pytest.raises(AlreadyExists):
        clone(source, target)
    with pytest.raises(PlanError, match="DROP TABLE s.t first"):
        clone(source, target, or_replace=True)


def test_a_table_without_rows_is_cloned(tmp_path, target):
    empty = Lake(tmp_path / "empty")
    empty.create()
    assert clone(empty, target) == 0
    target.append([1])
    assert read_with_pyiceberg(str(target.folder))["id"].to_pylist() == [1]
