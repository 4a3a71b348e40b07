"""The statistics file of a snapshot: a theta sketch of each column, in Puffin ("Table Statistics" in the Iceberg specification)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetStatisticsUpdate, TableUpdate

from rowmerge.errors import VersionNotFound
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates, newest
from rowmerge.iceberg.deletes.puffin import blob_offsets, encode_puffin
from rowmerge.iceberg.metadata.locations import located
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.table.maintenance import DistinctValues

_BLOB_TYPE = "apache-datasketches-theta-v1"
_DISTINCT = "ndv"
"""The property with the estimated number of distinct values."""


def put_table_statistics(
    operations: TableOperations, table: str, snapshot_id: int, columns: Mapping[tuple[str, ...], DistinctValues]
) -> str:
    """Write the sketches of a snapshot's columns, and register the file in the metadata. It replaces earlier statistics of the snapshot.

    Args:
        operations: The operations of the table.
        table: The name of the table in messages.
        snapshot_id: The id of the snapshot.
        columns: The sketch of each column, by its path in the schema of the snapshot.

    Returns:
        The absolute path of the file.

    Raises:
        VersionNotFound: The snapshot does not exist, or has expired.
        StorageError: The file cannot be written.
        CommitConflict, CommitStateUnknown: The file could not be registered.
    """
    metadata = newest(operations, table).metadata
    snapshot = snapshot_of(table, metadata, snapshot_id)
    blobs = [sketch.data for sketch in columns.values()]
    descriptions = _descriptions(_schema_of(metadata, snapshot), snapshot, columns)
    content, footer_size = encode_puffin(blobs, descriptions)
    path = new_statistics_path(operations, metadata, f"{snapshot_id}-{uuid.uuid4()}.stats")
    storage, relative_path = located(operations.storage, path)
    storage.put(relative_path, content)
    places = zip(descriptions, blob_offsets(blobs), blobs, strict=True)
    statistics = {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": len(content),
        "file-footer-size-in-bytes": footer_size,
        "blob-metadata": [{**description, "offset": offset, "length": len(blob)} for description, offset, blob in places],
    }

    def make_updates(current: CurrentMetadata) -> tuple[TableUpdate, ...]:
        snapshot_of(table, current.metadata, snapshot_id)
        return (SetStatisticsUpdate(snapshot_id=snapshot_id, statistics=StatisticsFile.model_validate(statistics)),)

    commit_updates(operations, table, "the statistics of columns", make_updates)
    return path


def snapshot_of(table: str, metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Return the snapshot with an id.

    Args:
        table: The name of the table in messages.
        metadata: The metadata of the table.
        snapshot_id: The id of the snapshot.

    Raises:
        VersionNotFound: The table has no such snapshot.
    """
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise VersionNotFound(f"{table} has no snapshot {snapshot_id}. See DESCRIBE HISTORY {table}.")
    return snapshot


def new_statistics_path(operations: TableOperations, metadata: TableMetadata, name: str) -> str:
    """Return the absolute path of a new statistics file in the folder of the metadata files.

    Args:
        operations: The operations of the table.
        metadata: The metadata of the table, whose properties may set the folder.
        name: The name of the file.
    """
    return f"{IcebergSettings(metadata.properties).metadata_location(operations.storage.location)}/{name}"


def _schema_of(metadata: TableMetadata, snapshot: Snapshot) -> Schema:
    """Return the schema of a snapshot, or the current one if the snapshot does not record its schema."""
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    return schemas.get(metadata.current_schema_id if snapshot.schema_id is None else snapshot.schema_id, metadata.schema())


def _descriptions(schema: Schema, snapshot: Snapshot, columns: Mapping[tuple[str, ...], DistinctValues]) -> Sequence[dict[str, object]]:
    """Return the entries of the blobs in the footer, without their places in the file."""
    return [
        {
            "type": _BLOB_TYPE,
            "snapshot-id": snapshot.snapshot_id,
            "sequence-number": snapshot.sequence_number or 0,
            "fields": [schema.find_field(".".join(path)).field_id],
            "properties": {_DISTINCT: str(sketch.count)},
        }
        for path, sketch in columns.items()
    ]
