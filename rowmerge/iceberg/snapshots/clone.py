"""CLONE: the metadata of a new table. The only snapshot of a shallow clone references the manifests of another table's snapshot."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as IcebergVersion, SnapshotLogEntry

from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.iceberg.metadata.properties import FILE_LOCATIONS, check_properties, without_copied_files
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.metadata.registry import COMMENT, FORMAT_VERSION, GC_ENABLED, ICEBERG_PROPERTIES
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot


def cloned_metadata(table: str, location: str, source: IcebergSnapshot, properties: Mapping[str, str], *, shallow: bool) -> TableMetadata:
    """Return the metadata of a clone of a snapshot. That of a deep clone has no snapshot yet.

    A clone keeps the ids of columns, specs and sort orders, because a shallow one uses the manifests of the source. Its `gc.enabled` is
    false, as with the Spark procedure `snapshot` of Iceberg, so that expiring snapshots does not delete the source's files.

    Args:
        table: The name of the clone in messages.
        location: The absolute location of the clone.
        source: The snapshot to clone.
        properties: Table properties, which override those of the source.
        shallow: Whether the clone refers to the files of the source.

    Raises:
        ConfigurationError: A property is not valid, or its value is not possible for a clone.
        PlanError: The snapshot's schema lacks a column of the current partition spec or sort order.
    """
    metadata = source.metadata
    cloned = cloned_properties(source, properties, shallow=shallow)
    _check_source_columns(table, source)
    return metadata.model_copy(
        update={
            "location": location,
            "table_uuid": uuid.uuid4(),
            "last_updated_ms": time.time_ns() // 1_000_000,
            "current_schema_id": source.iceberg_schema.schema_id,
            "properties": cloned,
            "metadata_log": [],
            "statistics": [],
            "partition_statistics": [],
            **_history_with_only(source.iceberg_version if shallow else None),
        }
    )


def cloned_properties(source: IcebergSnapshot, properties: Mapping[str, str], *, shallow: bool) -> dict[str, str]:
    """Return the properties of a clone.

    A clone writes to its own folder, so it does not inherit properties that name folders. It is described by its own comment.

    Args:
        source: The snapshot to clone.
        properties: Table properties, which override those of the source.
        shallow: Whether the clone refers to the files of the source.

    Raises:
        ConfigurationError: A property is not valid, or its value is not possible for a clone.
    """
    _check_properties(source, properties, shallow=shallow)
    inheritable = without_copied_files(source.metadata.properties)
    own_names = (*FILE_LOCATIONS, COMMENT.name, GC_ENABLED.name)
    inherited = {name: value for name, value in inheritable.items() if name not in own_names}
    overrides = ICEBERG_PROPERTIES.normalize({name: value for name, value in properties.items() if name != FORMAT_VERSION.name})
    return {**inherited, **overrides, **({GC_ENABLED.name: "false"} if shallow else {})}


def _history_with_only(snapshot: IcebergVersion | None) -> dict[str, Any]:
    """Return the metadata fields for the history of a table with only this snapshot, or with no snapshots if it is None."""
    if snapshot is None:
        return {"current_snapshot_id": None, "snapshots": [], "snapshot_log": [], "refs": {}}
    id_ = snapshot.snapshot_id
    return {
        "current_snapshot_id": id_,
        "snapshots": [snapshot],
        "snapshot_log": [SnapshotLogEntry(snapshot_id=id_, timestamp_ms=snapshot.timestamp_ms)],
        "refs": {MAIN: SnapshotRef.model_validate({"snapshot-id": id_, "type": SnapshotRefType.BRANCH})},
    }


def _check_properties(source: IcebergSnapshot, properties: Mapping[str, str], *, shallow: bool) -> None:
    """Raise ConfigurationError for an invalid property, and for a `gc.enabled` or `format-version` that is not possible for a clone."""
    check_properties(properties, {})
    if shallow and properties.get(GC_ENABLED.name, "false").strip().lower() != "false":
        raise ConfigurationError(f"{GC_ENABLED.name} must be false for a clone, whose files belong to {source.name}. Leave it out.")
    format_version = str(source.metadata.format_version)
    if (FORMAT_VERSION.parse(properties) or format_version) != format_version:
        advice = f"{source.name} has {format_version}. Leave out the property, or set it afterwards with ALTER TABLE."
        raise ConfigurationError(f"{FORMAT_VERSION.name} of a clone must be that of its source: {advice}")


def _check_source_columns(table: str, source: IcebergSnapshot) -> None:
    """Raise PlanError if the snapshot's schema lacks a column of the current partition spec or sort order."""
    metadata = source.metadata
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    fields = [*metadata.spec().fields, *(() if order is None else order.fields)]
    if any(source.iceberg_schema.find_column_name(field.source_id) is None for field in fields):
        raise PlanError(
            f"{table} cannot be a clone of this version of {source.name}, which lacks a column that now partitions or sorts the table. "
            f"Clone the newest version, or copy the rows: CREATE TABLE … AS SELECT * FROM … VERSION AS OF …"
        )
