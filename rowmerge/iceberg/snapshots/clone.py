"""SHALLOW CLONE: a new table's metadata, whose one snapshot is another table's, manifests and all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import SnapshotLogEntry

from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.iceberg.metadata.definition import COMMENT
from rowmerge.iceberg.metadata.properties import FILE_LOCATIONS, FORMAT_VERSION, GC_ENABLED, check_properties
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot


def cloned_metadata(table: str, location: str, source: IcebergSnapshot, asked: Mapping[str, str]) -> TableMetadata:
    """Ids of columns, specs and orders are those of the source, for its manifests speak of them; `asked` are properties above its own.

    `gc.enabled` is false, as after Iceberg's own procedure `snapshot`: what deletes the files of snapshots must not delete another
    table's. Raises ConfigurationError, PlanError for a version from before a column that partitions or orders the table.
    """
    metadata, at = source.metadata, source.at
    check_properties(asked)
    if asked.get(GC_ENABLED, "false").strip().lower() != "false":
        raise ConfigurationError(f"{GC_ENABLED} is false for a clone: its files belong to {source.name}. Leave the property out.")
    if asked.get(FORMAT_VERSION, str(metadata.format_version)) != str(metadata.format_version):
        advice = f"{source.name} has {metadata.format_version}. Leave the property out, or set it afterwards with ALTER TABLE."
        raise ConfigurationError(f"{FORMAT_VERSION} of a clone is that of its source: {advice}")
    _check_sources(table, source)
    # A clone writes into its own folder.
    kept = {name: value for name, value in metadata.properties.items() if name not in (*FILE_LOCATIONS, COMMENT)}
    given = {name: value for name, value in asked.items() if name != FORMAT_VERSION}
    now = time.time_ns() // 1_000_000
    return metadata.model_copy(
        update={
            "location": location,
            "table_uuid": uuid.uuid4(),
            "last_updated_ms": now,
            "current_schema_id": source.iceberg_schema.schema_id,
            "properties": {**kept, **given, GC_ENABLED: "false"},
            "current_snapshot_id": None if at is None else at.snapshot_id,
            "snapshots": [] if at is None else [at],
            "snapshot_log": [] if at is None else [SnapshotLogEntry(snapshot_id=at.snapshot_id, timestamp_ms=at.timestamp_ms)],
            "refs": {} if at is None else {MAIN: _branch_at(at.snapshot_id)},
            "metadata_log": [],
            "statistics": [],
            "partition_statistics": [],
        }
    )


def _branch_at(snapshot_id: int) -> SnapshotRef:
    return SnapshotRef(
        snapshot_id=snapshot_id,
        snapshot_ref_type=SnapshotRefType.BRANCH,
        min_snapshots_to_keep=None,
        max_snapshot_age_ms=None,
        max_ref_age_ms=None,
    )


def _check_sources(table: str, source: IcebergSnapshot) -> None:
    metadata = source.metadata
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    fields = [*metadata.spec().fields, *(() if order is None else order.fields)]
    if any(source.iceberg_schema.find_column_name(field.source_id) is None for field in fields):
        raise PlanError(
            f"{table} cannot be a clone of this version of {source.name}: it is from before a column that partitions or orders the table. "
            f"Clone the newest version, or write the older one anew: CREATE TABLE … AS SELECT * FROM … VERSION AS OF …"
        )
