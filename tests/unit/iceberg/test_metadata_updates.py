"""Updates of metadata: they share its past with it, and say what pyiceberg's own do."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetPropertiesUpdate, SetSnapshotRefUpdate, update_table_metadata

from rowmerge.iceberg.metadata.updates import apply_updates, serialize_metadata
from tests.support.iceberg_lake import Lake


def _timeless(metadata: TableMetadata) -> TableMetadata:
    log = [entry.model_copy(update={"timestamp_ms": 0}) for entry in metadata.snapshot_log]
    return metadata.model_copy(update={"snapshot_log": log, "last_updated_ms": 0})


def test_the_past_is_shared_and_stays_what_it_was(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create({"write.metadata.previous-versions-max": "2"})
    for id_ in range(4):
        lake.append([id_])
    current = lake.current
    base, first = current.metadata, current.metadata.snapshots[0].snapshot_id
    before = serialize_metadata(base)
    for updates in (
        (SetPropertiesUpdate(updates={"a": "1"}),),
        (SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=first),),
        (RemoveSnapshotsUpdate(snapshot_ids=[first]),),
    ):
        ours, theirs = (
            apply_updates(base, updates, location=current.path),
            update_table_metadata(base, updates, metadata_location=current.path),
        )
        assert _timeless(ours) == _timeless(theirs)
        assert ours.snapshots[-1] is base.snapshots[-1] or len(ours.snapshots) < len(base.snapshots)
        assert TableMetadataUtil.parse_raw(serialize_metadata(ours).decode()) == ours
    assert serialize_metadata(base) == before


def test_what_was_committed_is_not_read_again_and_is_what_is_there(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create()
    for id_ in range(3):
        lake.append([id_])
    ours, read = lake.current, Lake(tmp_path / "t").current
    assert (ours.path, ours.version, ours.metadata) == (read.path, read.version, read.metadata)
