"""Metadata updates share unchanged history with the base and give the same result as pyiceberg."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetPropertiesUpdate, SetSnapshotRefUpdate, update_table_metadata

from rowmerge.iceberg.metadata.updates import apply_updates, serialize_metadata
from tests.support.iceberg_lake import Lake


def _without_times(metadata: TableMetadata) -> TableMetadata:
    log = [entry.model_copy(update={"timestamp_ms": 0}) for entry in metadata.snapshot_log]
    return metadata.model_copy(update={"snapshot_log": log, "last_updated_ms": 0})


def test_updated_metadata_shares_unchanged_snapshots_with_its_base(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create({"write.metadata.previous-versions-max": "2"})
    for id_ in range(4):
        lake.append([id_])
    current = lake.current
    base, first = current.metadata, current.metadata.snapshots[0].snapshot_id
    original = serialize_metadata(base)
    for updates in (
        (SetPropertiesUpdate(updates={"a": "1"}),),
        (SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=first),),
        (RemoveSnapshotsUpdate(snapshot_ids=[first]),),
    ):
        updated, pyiceberg_updated = (
            apply_updates(base, updates, location=current.path),
            update_table_metadata(base, updates, metadata_location=current.path),
        )
        assert _without_times(updated) == _without_times(pyiceberg_updated)
        assert updated.snapshots[-1] is base.snapshots[-1] or len(updated.snapshots) < len(base.snapshots)
        assert TableMetadataUtil.parse_raw(serialize_metadata(updated).decode()) == updated
    assert serialize_metadata(base) == original


def test_metadata_after_a_commit_equals_the_stored_metadata(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create()
    for id_ in range(3):
        lake.append([id_])
    cached, reopened = lake.current, Lake(tmp_path / "t").current
    assert (cached.path, cached.version, cached.metadata) == (reopened.path, reopened.version, reopened.metadata)
