"""A table's metadata in a catalog of pyiceberg: read, created and replaced by commits of requirements and updates."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.io import load_file_io
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    AssignUUIDUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from rowmerge.errors import CatalogFailed, RowmergeError
from rowmerge.iceberg.catalogs import CatalogClient
from rowmerge.iceberg.operations import Current
from rowmerge.storage.store import Put, Storage
from rowmerge.table.snapshot import Unknown

_WAITS = (0.1, 0.2, 0.4, 0.8)
"""Seconds between attempts at a catalog that failed."""
_REFUSED = (BadRequestError, ForbiddenError, UnauthorizedError, NoSuchTableError, NoSuchNamespaceError, NotImplementedError, ValueError)
"""What says that nothing was committed, and that another attempt would end in the same way."""


class CatalogOperations:
    """Implements `rowmerge.iceberg.operations.TableOperations`. The catalog writes metadata files; where, is its own affair."""

    def __init__(self, client: CatalogClient, namespace: str, table: str, storage: Storage) -> None:
        """`namespace`, `table`: as the catalog spells them; `storage`: of the folder where the table lies, or will."""
        self._client, self._identifier, self._storage = client, (namespace, table), storage
        self._known: Current | None = None
        self._loaded: Table | None = None

    @property
    def storage(self) -> Storage:
        return self._storage

    def current(self) -> Current | None:
        loaded = self._client.load(*self._identifier)
        self._loaded = loaded
        if loaded is None:
            self._known = None
        elif self._known is None or self._known.path != loaded.metadata_location or self._known.metadata != loaded.metadata:
            self._known = Current(loaded.metadata, loaded.metadata_location)
        return self._known

    def create(self, metadata: TableMetadata) -> Put | Unknown:
        properties = {**self._client.catalog.properties, **metadata.properties}
        staged = StagedTable(
            self._identifier, metadata, metadata.location, load_file_io(properties, metadata.location), self._client.catalog
        )
        return self._send(staged, (AssertCreate(),), creating(metadata), lambda newest: newest.table_uuid == metadata.table_uuid)

    def commit(self, base: Current, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        table = self._loaded or self._client.load(*self._identifier)
        if table is None:
            raise CatalogFailed(self._client.name, self._doing, "the table was dropped meanwhile")
        added = [update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)]

        def done(newest: TableMetadata) -> bool:
            if added:
                return newest.table_uuid == base.metadata.table_uuid and all(newest.snapshot_by_id(each) is not None for each in added)
            return _content(newest) == _content(update_table_metadata(base.metadata, updates))

        return self._send(table, (*unchanged(base.metadata), *_references(base.metadata, updates)), updates, done)

    # ------------------------------------------------------------ inside

    @property
    def _doing(self) -> str:
        return f"committing {'.'.join(self._identifier)}"

    def _send(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        done: Callable[[TableMetadata], bool],
    ) -> Put | Unknown:
        """Commit. After a failure that leaves the outcome open it is sent again: the requirements let it happen once."""
        reason = ""
        for wait in (*_WAITS, 0):
            try:
                self._client.catalog.commit_table(table, requirements, updates)
                return Put.CREATED
            except (CommitFailedException, TableAlreadyExistsError):
                return self._lost(done, reason)
            except _REFUSED as error:
                # What a catalog makes of updates that no longer fit is its own affair too.
                if self._moved(table) or reason:
                    return self._lost(done, reason)
                raise self._client.failed(self._doing, error) from None
            except Exception as error:  # noqa: BLE001 - clients of catalogs raise what they like, and it may have happened
                reason = self._client.failed(self._doing, error).message
            time.sleep(wait)
        return Unknown(reason)

    def _moved(self, table: Table) -> bool:
        """Whether somebody else replaced the metadata that was loaded."""
        newest = self._client.load(*self._identifier)
        return not isinstance(table, StagedTable) and newest is not None and newest.metadata != table.metadata

    def _lost(self, done: Callable[[TableMetadata], bool], reason: str) -> Put | Unknown:
        """Somebody was first; after an attempt that failed (`reason`), it may have been that one."""
        try:
            newest = self.current()
        except RowmergeError as error:
            return Unknown(reason or error.message) if reason else Put.EXISTED
        return Put.CREATED if newest is not None and done(newest.metadata) else Put.EXISTED


def unchanged(base: TableMetadata) -> tuple[TableRequirement, ...]:
    """That the table's rows and definition are still those of `base`; properties and other branches may have changed."""
    return (
        AssertTableUUID(uuid=base.table_uuid),
        AssertRefSnapshotId(ref="main", snapshot_id=base.current_snapshot_id),
        AssertCurrentSchemaId(current_schema_id=base.current_schema_id),
        AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id),
        AssertDefaultSpecId(default_spec_id=base.default_spec_id),
        AssertLastAssignedPartitionId(last_assigned_partition_id=base.last_partition_id),
        AssertDefaultSortOrderId(default_sort_order_id=base.default_sort_order_id),
    )


def _references(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> tuple[TableRequirement, ...]:
    """That branches and tags are where they were, for updates that take snapshots away."""
    if not any(isinstance(update, RemoveSnapshotsUpdate | RemoveSnapshotRefUpdate) for update in updates):
        return ()
    others = ((name, ref.snapshot_id) for name, ref in base.refs.items() if name != "main")
    return tuple(AssertRefSnapshotId(ref=name, snapshot_id=snapshot_id) for name, snapshot_id in others)


def creating(metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """The updates that make a new table: its definition, and its snapshots with it."""
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    assert order is not None
    return (
        AssignUUIDUpdate(uuid=metadata.table_uuid),
        UpgradeFormatVersionUpdate(format_version=metadata.format_version),
        AddSchemaUpdate(schema_=metadata.schema()),
        SetCurrentSchemaUpdate(schema_id=-1),
        AddPartitionSpecUpdate(spec=metadata.spec()),
        SetDefaultSpecUpdate(spec_id=-1),
        AddSortOrderUpdate(sort_order=order),
        SetDefaultSortOrderUpdate(sort_order_id=-1),
        SetLocationUpdate(location=metadata.location),
        SetPropertiesUpdate(updates=metadata.properties),
        *(AddSnapshotUpdate(snapshot=snapshot) for snapshot in metadata.snapshots),
        *(
            SetSnapshotRefUpdate(
                ref_name=name,
                type=ref.snapshot_ref_type,
                snapshot_id=ref.snapshot_id,
                max_ref_age_ms=ref.max_ref_age_ms,
                max_snapshot_age_ms=ref.max_snapshot_age_ms,
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            )
            for name, ref in metadata.refs.items()
        ),
    )


def _content(metadata: TableMetadata) -> object:
    return metadata.model_dump(exclude={"last_updated_ms", "metadata_log"})
