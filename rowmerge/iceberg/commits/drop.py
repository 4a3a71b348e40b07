"""Put the version that drops an Iceberg table in a folder. `rowmerge.table.commits.drop_markers` explains why this version stays."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.types import BooleanType, NestedField

from rowmerge.errors import CommitConflict, CorruptLog, MetadataChanged, RowmergeError, UnsupportedTableFeature
from rowmerge.iceberg.catalogs.metadata_folder import metadata_path
from rowmerge.iceberg.catalogs.operations import DirectoryOperations, is_dropped
from rowmerge.iceberg.metadata.updates import serialize_metadata
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import ExistingObject, Rebased, commit, put_until_certain
from rowmerge.table.commits.creation import DROPPED_TABLE
from rowmerge.table.commits.drop_markers import announce_drop
from rowmerge.table.commits.request import Unknown
from rowmerge.table.snapshots.files import FileChanges

FORMAT = "iceberg"


def put_drop(storage: Storage, version: int) -> Literal[Put.CREATED] | ExistingObject | Unknown:
    """Put the version that drops a view in a folder. The views and tables of a folder share the version numbers.

    Args:
        storage: The storage of the view's folder.
        version: The number of the version.

    Returns:
        CREATED, the object of another writer that put the version first, or Unknown if neither is certain.

    Raises:
        StorageError: The version was certainly not put.
    """
    announce_drop(storage, FORMAT, version)  # Every stored drop version must have a marker, even if this process is killed.
    return put_until_certain(storage, metadata_path(version), serialize_metadata(_dropped_metadata(storage.location)))


def withdraw_creation(operations: DirectoryOperations, table: str, table_uuid: uuid.UUID) -> Unknown | None:
    """Drop a table that was just created, because its creation has a conflict. Other writers may already have committed to it.

    Args:
        operations: The operations of the table's folder.
        table: The name of the table in error messages.
        table_uuid: The uuid of the created table. A table with another uuid stays.

    Returns:
        Unknown if the table may still exist, otherwise None.
    """
    try:
        drop = Drop(operations, table)
        if drop.dropped_uuid != table_uuid:  # Another writer has already dropped the table.
            return None
        outcome = commit(drop, operations.storage, FileChanges())
    except RowmergeError as failure:
        return Unknown(failure.message)
    return outcome if isinstance(outcome, Unknown) else None


@dataclass
class Drop:
    """One DROP TABLE statement. Implements `rowmerge.table.commits.commit.CommitSteps`."""

    operations: DirectoryOperations
    table: str

    def __post_init__(self) -> None:
        self._read_newest()
        self.dropped_uuid = self._newest_uuid
        self._metadata = _dropped_metadata(self.operations.storage.location)

    @property
    def version(self) -> int:
        return self._newest_version + 1

    def put(self) -> Put | Unknown | CommitConflict:
        if self._base is not None and is_dropped(self._base.metadata):
            return self._table_missing()
        announce_drop(self.operations.storage, FORMAT, self.version)
        return self.operations.put_creation_or_drop(self._base, self.version, self._metadata)

    def rebase(self) -> Rebased | CommitConflict:
        self._read_newest()
        if self.dropped_uuid is not None and self._newest_uuid not in (None, self.dropped_uuid):
            return self._table_missing()
        return Rebased(merged_commits=0)

    def discard(self) -> None:
        """Delete nothing, because a drop writes no files except its version."""

    def discard_superseded(self) -> None:
        """Delete nothing, like `discard`."""

    def _read_newest(self) -> None:
        try:
            self._base = self.operations.newest()
        except (CorruptLog, UnsupportedTableFeature):
            # An unreadable table is dropped, too. Its files are selected for deletion by their age.
            self._base = None
        self._newest_uuid = None if self._base is None else self._base.metadata.table_uuid
        base_version = None if self._base is None else self._base.version
        self._newest_version = base_version or self.operations.folder.highest_version() or 0

    def _table_missing(self) -> CommitConflict:
        return MetadataChanged(self.table, self._newest_version, "DROP TABLE", "the table was dropped")


def _dropped_metadata(location: str) -> TableMetadata:
    """Return the metadata of a dropped table: without snapshots, and with the property that marks the drop."""
    # Some readers do not open a table without columns.
    schema = Schema(NestedField(1, "dropped", BooleanType(), required=False), schema_id=0)
    fields: dict[str, Any] = {
        "location": location,
        "table_uuid": uuid.uuid4(),
        "last_updated_ms": time.time_ns() // 1_000_000,
        "last_column_id": 1,
        "schemas": [schema],
        "current_schema_id": 0,
        "partition_specs": [{"spec-id": 0, "fields": []}],
        "default_spec_id": 0,
        "last_partition_id": 999,  # The ids of partition fields start at 1000.
        "sort_orders": [{"order-id": 0, "fields": []}],
        "default_sort_order_id": 0,
        "properties": {DROPPED_TABLE: "true"},
    }
    return TableMetadataV2(**fields)
