"""A table's metadata in a catalog of pyiceberg: read, created and replaced by commits of requirements and updates."""

from __future__ import annotations

import time
from collections.abc import Callable
from json import JSONDecodeError

from pydantic import ValidationError
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
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
)

from rowmerge.errors import RowmergeError
from rowmerge.iceberg.catalogs.clients import CatalogClient
from rowmerge.iceberg.catalogs.commit_status import is_committed
from rowmerge.iceberg.catalogs.operations import Current
from rowmerge.iceberg.metadata.updates import apply_updates
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import WAITS
from rowmerge.table.commits.creation import FIRST_VERSION, CreationVersion
from rowmerge.table.commits.request import Unknown

_REFUSED = (BadRequestError, ForbiddenError, UnauthorizedError, NoSuchTableError, NoSuchNamespaceError, NotImplementedError, ValueError)
"""What says that nothing was committed, and that another attempt would end in the same way."""
_UNREADABLE = (ValidationError, JSONDecodeError)
"""An answer that is none: ValueErrors too, but the commit may have happened."""
_NOT_FINAL = (408, 409, 419, 425, 429)
"""Of HTTP's refusals (4xx), those after which the request may be sent again, or has been."""
_FOLLOWED = "the catalog refused it, or gave no answer, and what others committed since does not tell whether they followed it"
_GONE = "the catalog has no such table any more, and others may have renamed it with the commit in it"


class CatalogOperations:
    """Implements `rowmerge.iceberg.catalogs.operations.TableOperations`. The catalog writes metadata files; where, is its own affair.

    `DirectoryOperations` puts a metadata file if it is absent, and verifies afterwards that the file continues the table. This class sends
    the catalog updates with requirements. The requirements decide which commit wins, and that it continues the table.
    """

    keeps_ids = False

    def __init__(self, client: CatalogClient, namespace: str, table: str, storage: Storage) -> None:
        """`namespace`, `table`: as the catalog spells them; `storage`: of the folder where the table lies, or will."""
        self._client, self._identifier, self._storage = client, (namespace, table), storage
        self._known: Current | None = None

    @property
    def newest_format(self) -> int:
        return self._client.newest_format

    @property
    def storage(self) -> Storage:
        return self._storage

    def current(self) -> Current | None:
        loaded = self._client.load(*self._identifier)
        if loaded is None:
            self._known = None
        elif self._known is None or _differ(self._known, loaded):
            self._known = Current(loaded.metadata, loaded.metadata_location, newest_format=self.newest_format)
        return self._known

    def creation_version(self) -> CreationVersion | None:
        return FIRST_VERSION if self.current() is None else None

    def create(self, metadata: TableMetadata, version: CreationVersion | None = None) -> Put | Unknown:
        properties = {**self._client.catalog.properties, **metadata.properties}
        staged = StagedTable(
            self._identifier, metadata, metadata.location, load_file_io(properties, metadata.location), self._client.catalog
        )
        if self._client.load(*self._identifier) is not None:
            return Put.EXISTED
        return self._send(staged, (AssertCreate(),), creating(metadata), lambda newest: newest.metadata.table_uuid == metadata.table_uuid)

    def is_followed(self, base: Current) -> bool:
        """The catalog is asked at the commit alone."""
        return False

    def commit(self, base: Current, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        """As TableOperations says. No catalog can require properties to be as they were, so it is asked for them right before: a change
        of properties alone in the instant between counts as one that came after the commit."""
        table = self._client.load(*self._identifier)
        if table is None or _differ(base, table):
            return Put.EXISTED
        requirements = (*unchanged(base.metadata), *_references(base.metadata, updates))
        return self._send(table, requirements, updates, lambda newest: is_committed(newest, base, updates))

    # ------------------------------------------------------------ inside

    def _send(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        done: Callable[[Current], bool | None],
    ) -> Put | Unknown:
        """Commit. After a refusal or a failure, the catalog's current metadata decides, because a proxy may have sent the commit twice.

        `done` says whether metadata contains the commit, None if nothing tells.
        The requirements let it happen once. So the commit is sent again while the metadata fulfils them and does not contain it.
        Raises CatalogFailed if the catalog refuses the commit for good.
        """
        reason, is_final = "", True
        for wait in (*WAITS, 0):
            try:
                self._client.catalog.commit_table(table, requirements, updates)
                return Put.CREATED
            except Exception as error:  # noqa: BLE001 - clients of catalogs raise what they like, and it may have happened
                failed = self._client.failed(f"committing {'.'.join(self._identifier)}", error)
                is_final = is_final and _is_final(error)
                reason = reason or failed.message
            try:
                newest = self.current()
            except RowmergeError:
                # The current metadata may refer to the files of this commit.
                time.sleep(wait)
                continue
            if newest is None and not (is_final and isinstance(table, StagedTable)):
                return Unknown(_GONE)
            if newest is not None and (outcome := _outcome(newest, requirements, updates, done)) is not None:
                return outcome
            if is_final:
                raise failed from None
            time.sleep(wait)
        return Unknown(reason)


def _outcome(
    newest: Current,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
    done: Callable[[Current], bool | None],
) -> Put | Unknown | None:
    """Return CREATED if the commit is in, EXISTED if it is not and cannot come in any more, Unknown if nothing tells, None if it may
    still come in."""
    is_in = done(newest)
    if is_in is not False:
        return Put.CREATED if is_in else Unknown(_FOLLOWED)
    try:
        for requirement in requirements:
            requirement.validate(newest.metadata)
        # A commit to another branch takes the sequence number and the row ids of the snapshot.
        apply_updates(newest.metadata, updates)
    except (CommitFailedException, LookupError, ValueError):
        return Put.EXISTED
    return None


def _differ(base: Current, table: Table) -> bool:
    """Whether the catalog has other metadata by now. A catalog may keep no files of it, and then has no names of them."""
    same_file = base.path and base.path == table.metadata_location
    return not same_file and _content(base.metadata) != _content(table.metadata)


def _is_final(error: Exception) -> bool:
    """Whether the catalog certainly committed nothing, and never will for this request."""
    status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
    if status is not None:
        return 400 <= status < 500 and status not in _NOT_FINAL
    return isinstance(error, _REFUSED) and not isinstance(error, _UNREADABLE)


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
    """That branches and tags are where they were, for updates that take snapshots away; else of the one that is moved."""
    others: dict[str, int | None] = {name: ref.snapshot_id for name, ref in base.refs.items() if name != "main"}
    if not any(isinstance(update, RemoveSnapshotsUpdate | RemoveSnapshotRefUpdate) for update in updates):
        moved = {update.ref_name for update in updates if isinstance(update, SetSnapshotRefUpdate)}
        others = {name: others.get(name) for name in moved - {"main"}}
    return tuple(AssertRefSnapshotId(ref=name, snapshot_id=snapshot_id) for name, snapshot_id in others.items())


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
