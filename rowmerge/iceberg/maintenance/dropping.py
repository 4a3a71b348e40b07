"""Drop an Iceberg table that a folder is the catalog of: put a version without snapshots, and delete the files before it.

See `rowmerge.table.drop_markers` for why that version stays.
"""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.types import BooleanType, NestedField

from rowmerge.errors import CommitConflict, CommitStateUnknown, CorruptLog, MetadataChanged, RowmergeError, UnsupportedTableFeature
from rowmerge.iceberg.catalogs.operations import DROPPED_TABLE, FOLDER, Current, DirectoryOperations, is_dropped
from rowmerge.iceberg.catalogs.version_hint import HINT
from rowmerge.iceberg.maintenance.reachable import file_key, needed_files
from rowmerge.storage.deletion import Origin, delete_files
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.commit import commit
from rowmerge.table.drop_markers import MARKERS, marked_versions, put_marker
from rowmerge.table.files import FileChanges
from rowmerge.table.snapshot import Unknown

FORMAT = "iceberg"
OPERATION = "DROP TABLE"
_LOG = "_delta_log"
_VERSION = re.compile(rf"{FOLDER}/v(\d+)\.")


def drop_table(storage: Storage, table: str) -> None:
    """Drop the table of a folder, even if its metadata cannot be read, and delete its files.

    If others drop the table first, it does nothing to a table that they create in its place.
    Raises StorageError if the table is certainly still there, CommitStateUnknown.
    """
    outcome = commit(Drop(DirectoryOperations(storage, table), table), storage, FileChanges())
    if isinstance(outcome, Unknown):
        raise CommitStateUnknown(
            f"It is not known whether {table} was dropped: {outcome.reason}. Look whether it exists, and drop it again."
        )
    finish_drop(storage, table)


def finish_drop(storage: Storage, table: str) -> None:
    """Delete what a dropped table left in the folder, if the newest version is that of a drop.

    Others may create a table meanwhile. All of its files are younger than the version of the drop, as `Table.create` verifies, so none of
    them is deleted.
    Raises CorruptLog, StorageError.
    """
    if not marked_versions(storage, FORMAT):
        return
    operations = DirectoryOperations(storage, table)
    objects = storage.list()
    versions = {version: each for each in objects if (version := _version(each)) is not None}
    newest = max(versions, default=None)
    # Views have versions in the same folder. The name of a view that replaces a dropped table is not marked.
    if newest in marked_versions(storage, FORMAT) and (last := operations.read(newest)) is not None and is_dropped(last.metadata):
        _delete_older(storage, operations, objects, newest, versions[newest].modified)


@dataclass
class Drop:
    """One DROP TABLE. Implements `rowmerge.table.commit.CommitSteps`."""

    operations: DirectoryOperations
    table: str

    def __post_init__(self) -> None:
        self._read()
        self._dropped_uuid = self._uuid
        self._metadata = _dropped_metadata(self.operations.storage.location)

    @property
    def version(self) -> int:
        return self._newest + 1

    def put(self) -> Put | Unknown | CommitConflict:
        if self._base is not None and is_dropped(self._base.metadata):
            return self._superseded()
        put_marker(self.operations.storage, FORMAT, self.version)
        return self.operations.put_first(self._base, self.version, self._metadata)

    def follow(self) -> int | CommitConflict:
        self._read()
        if self._dropped_uuid is not None and self._uuid is not None and self._uuid != self._dropped_uuid:
            return self._superseded()
        return 0

    def discard(self) -> None:
        """Do nothing: a drop writes no files but its version."""

    def discard_superseded(self) -> None:
        """Do nothing, like `discard`."""

    # ------------------------------------------------------------------ inside

    @property
    def _uuid(self) -> uuid.UUID | None:
        return None if self._base is None else self._base.metadata.table_uuid

    def _read(self) -> None:
        self._base: Current | None
        try:
            self._base = self.operations.newest()
        except (CorruptLog, UnsupportedTableFeature):
            # A table that cannot be read is dropped all the same. Its files are deleted by their age.
            self._base = None
        version = None if self._base is None else self._base.version
        self._newest = version or self.operations.highest_version() or 0

    def _superseded(self) -> CommitConflict:
        return MetadataChanged(self.table, self._newest, OPERATION, "the table is gone")


def _dropped_metadata(location: str) -> TableMetadata:
    now = time.time_ns() // 1_000_000
    # Some readers do not open a table without columns.
    schema = Schema(NestedField(1, "dropped", BooleanType(), required=False), schema_id=0)
    fields: dict[str, Any] = {
        "location": location,
        "table_uuid": uuid.uuid4(),
        "last_updated_ms": now,
        "last_column_id": 1,
        "schemas": [schema],
        "current_schema_id": 0,
        "partition_specs": [{"spec-id": 0, "fields": []}],
        "default_spec_id": 0,
        "last_partition_id": 999,
        "sort_orders": [{"order-id": 0, "fields": []}],
        "default_sort_order_id": 0,
        "properties": {DROPPED_TABLE: "true"},
    }
    return TableMetadataV2(**fields)


def _version(file: StoredObject) -> int | None:
    match = None if is_temporary(file.path) else _VERSION.match(file.path)
    return int(match[1]) if match else None


def _delete_older(storage: Storage, operations: DirectoryOperations, objects: list[StoredObject], version: int, dropped_at: int) -> None:
    """Delete the metadata before a drop, and the files of the folder that are older than the drop or that the dropped table needs."""
    needed = _needed(storage, operations, version - 1)
    controls = (f"{_LOG}/", f"{MARKERS}/", HINT)
    others = [each for each in objects if _version(each) is None and not each.path.startswith(controls)]
    paths = {each.path: f"{storage.location}/{each.path}" for each in others}
    groups = [[paths[each.path] for each in others if each.modified < dropped_at or file_key(paths[each.path]) in needed]]
    # The oldest metadata goes first, as `DirectoryOperations` relies on.
    metadata = sorted((number, each.path) for each in objects if (number := _version(each)) is not None and number < version)
    groups += [[f"{storage.location}/{path}"] for _, path in metadata]
    delete_files(storage, groups, Origin.LISTED)


def _needed(storage: Storage, operations: DirectoryOperations, version: int) -> set[str]:
    """Return the files that the last version of a dropped table needs, as far as its metadata can be read."""
    try:
        last = operations.read(version)
        return set() if last is None else set(needed_files(storage, last.metadata))
    except RowmergeError:
        return set()
