"""Tables in a pyiceberg catalog: load and create their metadata, and commit updates with requirements."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from json import JSONDecodeError

from pydantic import ValidationError
from pyiceberg import exceptions
from pyiceberg.io import load_file_io
from pyiceberg.table import StagedTable, Table, update as table_update
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate

from rowmerge.errors import CatalogFailed, RowmergeError
from rowmerge.iceberg.catalogs.clients import CatalogClient
from rowmerge.iceberg.catalogs.commit_status import CommitStatus, commit_status
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.metadata.properties import IcebergSettings, file_locations
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.metadata.registry import DELETE_AFTER_COMMIT
from rowmerge.iceberg.metadata.updates import apply_updates, metadata_files_to_delete
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Put
from rowmerge.table.commits.commit import RETRY_WAITS
from rowmerge.table.commits.creation import FIRST_VERSION, CreationVersion
from rowmerge.table.commits.request import Unknown

_DENIALS = (exceptions.BadRequestError, exceptions.ForbiddenError, exceptions.UnauthorizedError)
_REFUSALS = (*_DENIALS, exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError, NotImplementedError, ValueError)
"""Errors after which nothing was committed, and another attempt would fail in the same way."""
_UNREADABLE_ANSWERS = (ValidationError, JSONDecodeError)
"""Errors for a malformed response from a catalog. They are ValueErrors, too, but the commit may have succeeded."""
_NOT_FINAL = (408, 409, 419, 425, 429)
"""The HTTP status codes 4xx that are not a final refusal: the request can be sent again, or has already been sent again."""


@dataclass(frozen=True)
class _Request:
    """A commit in the form in which the catalog receives it.

    `status_in` returns whether metadata contains the commit. It decides the outcome if the response of the catalog is lost.
    """

    table: Table
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    status_in: Callable[[CurrentMetadata], CommitStatus]


class CatalogOperations:
    """Implements `rowmerge.iceberg.catalogs.operations.TableOperations`. The catalog writes metadata files to paths of its choice.

    `DirectoryOperations` puts a metadata file if it is absent, and verifies afterwards that the file continues the table. This class sends
    the catalog updates with requirements. The requirements decide which commit wins, and ensure that it continues the table.
    """

    keeps_ids = False
    records_metadata_path = True

    def __init__(self, client: CatalogClient, namespace: str, table: str, location: str) -> None:
        """Prepare the operations of one table, which may not exist yet.

        Args:
            client: The client of the catalog.
            namespace: The namespace of the table, as the catalog spells it.
            table: The name of the table, as the catalog spells it.
            location: The table's current or future location.
        """
        self._client, self._identifier = client, (namespace, table)
        self.storage = client.storages.open(location, self._identifier)
        self.highest_format_version = client.highest_format_version
        self._last_loaded: CurrentMetadata | None = None

    def current(self) -> CurrentMetadata | None:
        loaded, newest = self._client.load(*self._identifier), self._last_loaded
        if loaded is None:
            newest = None
        elif newest is None or _has_changed(newest, loaded):
            newest = CurrentMetadata(loaded.metadata, loaded.metadata_location, highest_format_version=self.highest_format_version)
        self._last_loaded = newest
        return newest  # not the attribute, into which a concurrent call may have put older metadata

    def look_ahead(self) -> None:
        """Return None, because a catalog loads the metadata of a table together with its name."""

    def creation_version(self) -> CreationVersion | None:
        return FIRST_VERSION if self.current() is None else None

    def create(self, metadata: TableMetadata, expected: CreationVersion | None = None) -> Put | Unknown:
        """Create the table, as documented in `TableOperations.create`.

        Args:
            metadata: The metadata of the new table.
            expected: Unused. A requirement of the commit states that the table is absent.
        """
        catalog = self._client.catalog
        file_io = load_file_io({**catalog.properties, **metadata.properties}, metadata.location)
        staged = StagedTable(self._identifier, metadata, metadata.location, file_io, catalog)
        if self._client.load(*self._identifier) is not None:
            return Put.EXISTED

        def status_in(newest: CurrentMetadata) -> CommitStatus:
            return CommitStatus.COMMITTED if newest.metadata.table_uuid == metadata.table_uuid else CommitStatus.ABSENT

        return self._send(_Request(staged, (table_update.AssertCreate(),), _creation_updates(metadata), status_in=status_in))

    def tables_in_folder(self) -> list[str]:
        """Return the names of the other tables at the location of this table. This loads every table of the catalog."""
        names = [(namespace, table) for namespace in self._client.namespaces() for table in self._client.tables(namespace)]
        others = (name for name in names if name != self._identifier)
        return [".".join(name) for name in others if self._client.location(*name) == self.storage.location]

    def is_outdated(self, base: CurrentMetadata) -> bool:
        """Return False, because `commit` loads the table right before it commits."""
        return False

    def commit(self, base: CurrentMetadata, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        """Commit updates, as documented in `TableOperations.commit`.

        A catalog has no requirement that properties are unchanged. So this method compares them right before it commits. Another writer may
        still change a property between the comparison and the commit. Then the table gets both changes, as if the property was set later.

        Args:
            base: The metadata that the updates change.
            updates: The changes of the metadata.
        """
        loaded_table = self._client.load(*self._identifier)
        if loaded_table is None or _has_changed(base, loaded_table):
            return Put.EXISTED  # Another writer has dropped or changed the table first.
        requirements = (*_definition_requirements(base.metadata), *_reference_requirements(base.metadata, updates))
        # If no response arrives, `status_in` shows whether the newest metadata of the table contains this commit.
        outcome = self._send(_Request(loaded_table, requirements, updates, status_in=lambda newest: commit_status(newest, base, updates)))
        if outcome is Put.CREATED and self._client.writes_metadata_files:  # The server of a REST catalog deletes its files itself.
            self._try_delete_metadata(base.metadata)
        return outcome

    def _try_delete_metadata(self, base: TableMetadata) -> None:
        """Delete the metadata files that left the metadata log since `base`, if the table has the property for it. Never raise an error."""
        with suppress(RowmergeError):
            newest = self.current() if DELETE_AFTER_COMMIT.value(base.properties) else None
            # Another process may have given the name, and even the folder, to a new table since the commit.
            if newest is None or newest.metadata.table_uuid != base.table_uuid:
                return
            properties, log = newest.metadata.properties, newest.metadata.metadata_log
            folder = IcebergSettings(properties).metadata_location(self.storage.location)
            groups = [[path] for path in metadata_files_to_delete(base, newest.metadata, {folder})]
            live_paths = [newest.path, *(entry.metadata_file for entry in log)]
            try_delete_files(self.storage, groups, PathOrigin.METADATA, locations=file_locations(properties), live_paths=live_paths)

    def _send(self, request: _Request) -> Put | Unknown:
        """Send a commit to the catalog until the outcome is known or no attempts are left. Wait between the attempts.

        The requirements of the commit fail after its success, so it is safe to send it again.

        Returns:
            CREATED if the catalog contains the commit, EXISTED if another commit came first, Unknown if neither is certain.

        Raises:
            CatalogFailed: The catalog has refused the commit, and would refuse it again.
        """
        errors: list[Exception] = []
        waits = IcebergSettings(request.table.metadata.properties).status_check_waits
        for wait in (*(RETRY_WAITS if waits is None else waits), 0):
            try:
                self._client.catalog.commit_table(request.table, request.requirements, request.updates)
                return Put.CREATED
            except Exception as error:  # noqa: BLE001 - clients of catalogs raise any class, and the commit may have happened
                errors.append(error)
            # An error does not prove that nothing was committed: a request may succeed although its response is lost.
            outcome = self._outcome_after_errors(request, errors)
            if outcome is not None:
                return outcome
            time.sleep(wait)
        return Unknown(self._failure(errors[0]).message)  # the cause; later errors may be its consequences

    def _outcome_after_errors(self, request: _Request, errors: Sequence[Exception]) -> Put | Unknown | None:
        """Return the outcome of a commit whose attempts all raised errors, or None if it must be sent again.

        Raises CatalogFailed if the table does not contain the commit, and the catalog has refused each attempt with a final error.
        """
        try:
            newest = self.current()
        except RowmergeError:
            return None  # The newest metadata is unknown, and may contain this commit even after a refusal.
        if newest is None and isinstance(errors[-1], exceptions.TableAlreadyExistsError) and self._client.load_view(*self._identifier):
            return Put.EXISTED  # A view has the name of the new table.
        is_refused = all(map(_is_final, errors))
        outcome = self._outcome_without_table(request, errors) if newest is None else _outcome_by_metadata(request, newest)
        if outcome is None and is_refused:  # Another attempt would fail in the same way.
            raise self._failure(errors[-1]) from None
        return outcome

    def _outcome_without_table(self, request: _Request, errors: Sequence[Exception]) -> Unknown | None:
        """Return the outcome of a commit whose table the catalog does not contain after the attempts, or None if it is not committed."""
        # A staged table is a new one. If the catalog has refused each creation, it cannot contain the table.
        if isinstance(request.table, StagedTable) and all(map(_is_final, errors)):
            return None
        # Otherwise, the commit may have happened, and another writer may have dropped or renamed the table since.
        problem = "the catalog no longer contains the table, but another writer may have renamed the table after the commit"
        return Unknown(f"{problem}. The first error was: {self._failure(errors[0]).reason}")

    def _failure(self, error: Exception) -> CatalogFailed:
        return self._client.failure(f"committing {'.'.join(self._identifier)}", error)


def _outcome_by_metadata(request: _Request, newest: CurrentMetadata) -> Put | Unknown | None:
    """Return the outcome of a commit that the newest metadata of the table proves. Return None if the commit can be sent again.

    Returns:
        CREATED if the metadata contains the commit. EXISTED if another commit came first, so that the metadata no longer fulfils the
        requirements of this commit. Unknown if the metadata does not show whether it contains the commit. None if it does not contain the
        commit and fulfils the requirements.
    """
    status = request.status_in(newest)
    if status is CommitStatus.COMMITTED:
        return Put.CREATED
    if status is CommitStatus.UNKNOWN:
        return Unknown("the catalog refused the commit or did not respond, and later commits do not show whether they follow this commit")
    return None if _is_acceptable(request, newest.metadata) else Put.EXISTED


def _is_acceptable(request: _Request, metadata: TableMetadata) -> bool:
    """Return whether metadata fulfils the requirements of a commit, and its updates can be applied."""
    try:
        for requirement in request.requirements:
            requirement.validate(metadata)
        # A commit to another branch fulfils the requirements, but has taken the sequence number and the row ids of the snapshot.
        apply_updates(metadata, request.updates)
    except (exceptions.CommitFailedException, LookupError, ValueError):
        return False
    return True


def _has_changed(base: CurrentMetadata, table: Table) -> bool:
    """Return whether the metadata in the catalog differs from `base`. A catalog without metadata files provides no path to compare."""
    is_same_file = base.path and base.path == table.metadata_location
    return not is_same_file and _comparable_content(base.metadata) != _comparable_content(table.metadata)


def _comparable_content(metadata: TableMetadata) -> object:
    return metadata.model_dump(exclude={"last_updated_ms", "metadata_log"})


def _is_final(error: Exception) -> bool:
    """Return whether an error proves that the catalog has committed nothing, and will not commit this request later."""
    if isinstance(error.__cause__, exceptions.WaitingForLockException):  # of a Hive metastore, which has not begun the commit
        return True
    response = getattr(error.__cause__, "response", None)
    status = getattr(response, "status_code", None)
    if status is not None:
        return 400 <= status < 500 and status not in _NOT_FINAL
    return isinstance(error, _REFUSALS) and not isinstance(error, _UNREADABLE_ANSWERS)


def _definition_requirements(base: TableMetadata) -> tuple[TableRequirement, ...]:
    """Return the requirements that main and the table's definition are the same as in `base`. Properties and other branches may differ."""
    return (
        table_update.AssertTableUUID(uuid=base.table_uuid),
        table_update.AssertRefSnapshotId(ref=MAIN, snapshot_id=base.current_snapshot_id),
        table_update.AssertCurrentSchemaId(current_schema_id=base.current_schema_id),
        table_update.AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id),
        table_update.AssertDefaultSpecId(default_spec_id=base.default_spec_id),
        table_update.AssertLastAssignedPartitionId(last_assigned_partition_id=base.last_partition_id),
        table_update.AssertDefaultSortOrderId(default_sort_order_id=base.default_sort_order_id),
    )


def _reference_requirements(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> tuple[TableRequirement, ...]:
    """Return the requirements that references other than main are unchanged.

    They cover all references if the updates remove snapshots or references, otherwise only the references that the updates move.
    """
    snapshot_ids: dict[str, int | None] = {name: ref.snapshot_id for name, ref in base.refs.items()}
    if any(isinstance(update, table_update.RemoveSnapshotsUpdate | table_update.RemoveSnapshotRefUpdate) for update in updates):
        names = list(base.refs)
    else:
        names = list({update.ref_name for update in updates if isinstance(update, table_update.SetSnapshotRefUpdate)})
    return tuple(table_update.AssertRefSnapshotId(ref=name, snapshot_id=snapshot_ids.get(name)) for name in names if name != MAIN)


def _creation_updates(metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """Return the updates that create a table with its definition, snapshots and references."""
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    assert order is not None
    # The id -1 means the schema, spec or order that was added last.
    return (
        table_update.AssignUUIDUpdate(uuid=metadata.table_uuid),
        table_update.UpgradeFormatVersionUpdate(format_version=metadata.format_version),
        table_update.AddSchemaUpdate(schema_=metadata.schema()),
        table_update.SetCurrentSchemaUpdate(schema_id=-1),
        table_update.AddPartitionSpecUpdate(spec=metadata.spec()),
        table_update.SetDefaultSpecUpdate(spec_id=-1),
        table_update.AddSortOrderUpdate(sort_order=order),
        table_update.SetDefaultSortOrderUpdate(sort_order_id=-1),
        table_update.SetLocationUpdate(location=metadata.location),
        table_update.SetPropertiesUpdate(updates=metadata.properties),
        *(table_update.AddSnapshotUpdate(snapshot=snapshot) for snapshot in metadata.snapshots),
        *(table_update.SetSnapshotRefUpdate(**{"ref-name": name, **ref.model_dump()}) for name, ref in metadata.refs.items()),
    )
