"""An Iceberg table in a catalog: open its snapshots, create it, commit to it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from itertools import islice

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.errors import ConfigurationError, PlanError, UnsupportedTableFeature, VersionNotFound
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.commit import Commit, Creation
from rowmerge.iceberg.commits.deep_clone import DeepCloneCreation, DeepCloneReplacement, copy_files
from rowmerge.iceberg.commits.metadata_commit import newest
from rowmerge.iceberg.inspection.appends import IcebergAppends
from rowmerge.iceberg.inspection.snapshots import history_entry
from rowmerge.iceberg.inspection.tables import IcebergMetadataTables
from rowmerge.iceberg.maintenance.branches import IcebergBranches, find_reference
from rowmerge.iceberg.maintenance.vacuum import Vacuum
from rowmerge.iceberg.manifests.metrics import check_metrics_columns
from rowmerge.iceberg.metadata.definition import alteration_updates, new_metadata, replacement_updates
from rowmerge.iceberg.metadata.parsing import check_format_version
from rowmerge.iceberg.metadata.refs import MAIN, ancestors, base_of, transactions
from rowmerge.iceberg.metadata.registry import METADATA_CODEC, METADATA_PATH, NAME_MAPPING
from rowmerge.iceberg.metadata.shape import settings_of, table_shape
from rowmerge.iceberg.metadata.updates import apply_updates
from rowmerge.iceberg.procedures import IcebergMaintenance
from rowmerge.iceberg.snapshots.clone import cloned_metadata
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot, as_iceberg_snapshot
from rowmerge.storage.store import absolute_location
from rowmerge.table.commits.copies import FileCopies
from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.request import CommitRequest, Outcome
from rowmerge.table.maintenance import IncompleteFile, Vacuumed, VacuumOptions
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import HistoryEntry


@dataclass
class _Reused:
    """What the next statement on a table reuses: the newest snapshot, and the table with the last `with_write_properties`."""

    snapshot: IcebergSnapshot | None = None
    variant: IcebergTable | None = None


class IcebergTable:
    """An Iceberg table, which implements `rowmerge.table.table.Table` and caches its newest snapshot. Threads may share a table."""

    change_feed = None
    """None, because an Iceberg table does not have a change data feed."""
    features = symlink_manifests = None
    """None: Iceberg has a format version instead of features, and engines that read symlink manifests read Iceberg tables too."""

    def __init__(
        self,
        operations: TableOperations,
        name: str,
        branch: str = MAIN,
        *,
        creates_branch: bool = False,
        staged_id: str | None = None,
        write_properties: Mapping[str, str] | None = None,
    ) -> None:
        self._operations, self.name, self._branch = operations, name, branch
        self._creates_branch, self._staged_id = creates_branch, staged_id
        self.location = operations.storage.location
        self.branches = IcebergBranches(operations, name, self._open_branch, self._open_reference, self._open_staging)
        self.maintenance = IcebergMaintenance(operations, name)
        self.appends = IcebergAppends(operations.storage)
        self.metadata_tables = IcebergMetadataTables(operations.storage)
        self._write_properties = write_properties
        self._lock = threading.Lock()
        self._reused = _Reused()
        self._branch_tables: dict[str, IcebergTable] = {}
        self._ahead: CurrentMetadata | None = None  # the newest metadata, for the next read of it

    def with_write_properties(self, properties: Mapping[str, str]) -> IcebergTable:
        variant = self._reused.variant
        if variant is None or variant._write_properties != properties:
            creates_branch, staged_id = self._creates_branch, self._staged_id
            variant = IcebergTable(
                self._operations,
                self.name,
                self._branch,
                creates_branch=creates_branch,
                staged_id=staged_id,
                write_properties=properties,
            )
            self._reused.variant = variant  # so that the next statement reuses the manifests that it has read
        return variant._with_ahead(self._ahead)

    def look_ahead(self) -> IcebergTable | None:
        current = self._operations.look_ahead()
        return None if current is None else self._with_ahead(current)

    def _with_ahead(self, current: CurrentMetadata | None) -> IcebergTable:
        """Return this table if `current` is None, else a table that shares its caches and whose newest metadata is `current` once."""
        if current is None:
            return self
        table = copy(self)
        table._ahead = current
        return table

    def import_properties(self, definition: TableDefinition | None = None) -> dict[str, str]:
        """Return a name mapping, by which readers find the columns of files without field ids, unless the table has one.

        `definition`: the definition of a new table, or None for the existing table.
        """
        metadata = self._current().metadata if definition is None else self._new_metadata(definition)
        if NAME_MAPPING.name in metadata.properties:
            return {}
        return {NAME_MAPPING.name: create_mapping_from_schema(metadata.schema()).model_dump_json()}

    def exists(self) -> bool:
        return self._operations.current() is not None

    def creation_version(self, *, converts: bool = False) -> CreationVersion | None:
        """Return the version that `create` requires: the number of the first metadata file, or 0 for a table in a catalog.

        Return None if the table already exists. `converts` has no effect: no statement makes an Iceberg table of a Delta table's files.
        """
        return self._operations.creation_version()

    def snapshot(self) -> IcebergSnapshot:
        """Open the newest snapshot of the table. Raises TableNotFound, CorruptLog, UnsupportedTableFeature, StorageError."""
        with self._lock:
            return self._snapshot_of(self._current())

    def _snapshot_of(self, current: CurrentMetadata) -> IcebergSnapshot:
        """Return the newest snapshot in metadata. Repeated calls with the same metadata return the same object with its listed files."""
        if self._reused.snapshot is None or self._reused.snapshot.current is not current:
            self._reused.snapshot = self._open_newest(current)
        return self._reused.snapshot

    def snapshot_at(self, *, version: int | None = None, timestamp: int | None = None) -> IcebergSnapshot:
        """Open an earlier snapshot, with the schema that was current at its commit. Without arguments, open the newest snapshot.

        Args:
            version: The id of the snapshot; None to select it by `timestamp`.
            timestamp: A time in milliseconds since the epoch, to open the snapshot that was current on the main branch at this time.

        Raises:
            VersionNotFound: The table has no such snapshot.
            TableNotFound, CorruptLog, UnsupportedTableFeature, StorageError: As in `snapshot`.
        """
        current = self._current()
        if version is not None:
            return self._open_past(current, _snapshot_by_id(self.name, current.metadata, version), MAIN)
        if timestamp is not None:
            return self._open_past(current, _snapshot_by_time(self.name, current.metadata, timestamp), MAIN)
        return self.snapshot()

    def resolve_shape(self, definition: TableDefinition, base: Snapshot | None = None, *, replace: bool = False) -> TableShape:
        """Return the shape of the table as defined by a statement: columns with field ids, folders and settings. Commit nothing.

        A definition contains only what the statement specifies. The shape is complete, and writers of data files need it before the commit.

        Args:
            definition: The definition of a statement that creates, replaces or alters the table.
            base: The current version of the table; None for a new table.
            replace: Whether `definition` replaces the entire definition of `base`, as in CREATE OR REPLACE TABLE.

        Raises:
            PlanError, ConfigurationError, TypeMismatch, UnsupportedTableFeature: The definition is not valid.
        """
        if base is None:
            metadata = self._new_metadata(definition)  # which also checks the format version
        else:
            base_metadata = as_iceberg_snapshot(base).metadata
            build_updates = replacement_updates if replace else alteration_updates
            metadata = apply_updates(base_metadata, build_updates(self.name, base_metadata, definition))
            self._check_catalog(metadata, base_metadata)
        return table_shape(self.name, self._operations.storage, metadata, metadata.schema(), self._write_properties)

    def create(self, definition: TableDefinition, request: CommitRequest, expected_version: CreationVersion | None = None) -> Outcome:
        """Commit the first snapshot of a new table.

        Args:
            definition: The definition of the table. For a clone, only its properties are used.
            request: The data files of the first snapshot, or the snapshot to clone.
            expected_version: The result of `creation_version` from before the data files were written; None if there are no data files.

        Returns:
            The outcome: committed, in conflict with a concurrent creation, or unknown.

        Raises:
            PlanError, ConfigurationError, TypeMismatch, UnsupportedTableFeature: The definition is not valid.
            StorageError: The store fails.
        """
        if request.cloned is None:
            metadata = self._new_metadata(definition)
        else:
            metadata = self._cloned_metadata(as_iceberg_snapshot(request.cloned), definition, shallow=request.copies is None)
        # A commit starts from a snapshot of a table. Here this is an empty table, whose metadata is not in a file yet.
        current = CurrentMetadata(metadata, path="")
        base = IcebergSnapshot(self._operations.storage, self.name, current, None, metadata.schema(), self._branch)
        creation = Creation if request.copies is None else DeepCloneCreation
        return creation(self._operations, self.name, base, request, self._staged_id, expected_version=expected_version).run()

    def commit(self, base: Snapshot, request: CommitRequest) -> Outcome:
        """Commit a change that was planned on a snapshot of this table.

        If a concurrent commit does not conflict with the change, rebase the change on the newest snapshot ("Optimistic Concurrency" in the
        Iceberg specification).

        Args:
            base: The snapshot on which the change was planned.
            request: The added, removed and changed files, and the new definition of the table if the change alters it.

        Returns:
            The outcome: committed, in conflict with a concurrent commit, or unknown.

        Raises:
            PlanError: The change is a shallow clone, which cannot replace a table.
            UnsupportedTableFeature: The engine or the catalog cannot write a feature of the table.
            RowmergeError: The commit failed for another reason, and the table is unchanged.
        """
        snapshot = as_iceberg_snapshot(base)
        if request.cloned is not None and request.copies is None:
            raise PlanError(
                f"{self.name} cannot be replaced by a shallow clone: a replaced Iceberg table keeps the ids of its columns and snapshots, "
                f"and a clone has the ids of its source. DROP TABLE {self.name} first."
            )
        snapshot.check_features()  # not the properties, which ALTER TABLE may remove
        name = self.name if snapshot.branch == MAIN else f"{self.name}.branch_{snapshot.branch}"
        kind = Commit if request.copies is None else DeepCloneReplacement
        commit = kind(self._operations, name, snapshot, request, self._staged_id)
        self._check_catalog(commit.target_metadata, snapshot.metadata)
        return commit.run()

    def copy_files(self, source: Snapshot, base: Snapshot | None) -> FileCopies:
        replaced = None if base is None else as_iceberg_snapshot(base)
        return copy_files(as_iceberg_snapshot(source), replaced, self._operations.storage)

    def version_of_transaction(self, application: str, version: int) -> int | None:
        """Return the id of the newest snapshot that an application committed with `version` or a lower version, or None without one.

        Args:
            application: The name with which the application identifies its transactions.
            version: The number that the application assigned to a transaction.
        """
        commits = transactions(self.snapshot().metadata, application)
        return next((snapshot_id for committed_version, snapshot_id in commits if committed_version <= version), None)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return entries for the newest snapshot and its ancestors, newest first and at most `limit` of them.

        Raises TableNotFound, CorruptLog, StorageError.
        """
        snapshot = self.snapshot()
        return [history_entry(ancestor) for ancestor in islice(ancestors(snapshot.metadata, snapshot.version), limit)]

    def incomplete_files(self, snapshot: Snapshot) -> list[IncompleteFile]:
        return as_iceberg_snapshot(snapshot).incomplete_files()

    def vacuum(self, options: VacuumOptions) -> Vacuumed:
        """Expire old snapshots, and delete files that no snapshot needs. Raises StorageError, and PlanError for an unsafe retention."""
        return Vacuum(self._operations, self.name).run(options)

    def _open_branch(self, name: str, *, creates_branch: bool) -> IcebergTable:
        """Return the table as seen from a branch. Raises VersionNotFound for an unknown name, and PlanError for a tag.

        `creates_branch`: whether an unknown name is a new branch, which begins at the newest snapshot of main. The table may be a new one.
        """
        newest_metadata = self._operations.current()
        if creates_branch and (newest_metadata is None or name not in newest_metadata.metadata.refs):
            return IcebergTable(self._operations, self.name, name, creates_branch=True, write_properties=self._write_properties)
        metadata = self._current().metadata
        if find_reference(self.name, metadata, name).snapshot_ref_type is SnapshotRefType.TAG:
            advice = f"Write to a branch: ALTER TABLE {self.name} CREATE BRANCH …."
            raise PlanError(f"{name} of {self.name} is a tag, which always refers to the same snapshot and accepts no writes. {advice}")
        return self._branch_table(name, metadata)

    def _branch_table(self, name: str, metadata: TableMetadata) -> IcebergTable:
        """Return the table on an existing branch. Repeated calls return the same object, which reuses the files that it has listed.

        `metadata`: the newest metadata, by which the tables on dropped branches are forgotten.
        """
        if name == self._branch:
            return self
        for dropped_branch in self._branch_tables.keys() - metadata.refs.keys():
            self._branch_tables.pop(dropped_branch, None)
        branch_table = IcebergTable(self._operations, self.name, name, write_properties=self._write_properties)
        return self._branch_tables.setdefault(name, branch_table)

    def _open_staging(self, staged_id: str) -> IcebergTable:
        """Return the table, each of whose commits adds a snapshot with this id that no branch points at."""
        return IcebergTable(self._operations, self.name, self._branch, staged_id=staged_id, write_properties=self._write_properties)

    def _open_reference(self, reference: str) -> IcebergSnapshot:
        """Open a branch with the table's current schema, or a tag with its snapshot's schema (see Iceberg's SnapshotUtil.schemaFor)."""
        current = self._current()
        ref = find_reference(self.name, current.metadata, reference)
        if ref.snapshot_ref_type is SnapshotRefType.BRANCH:
            branch_table = self._branch_table(reference, current.metadata)
            with branch_table._lock:
                return branch_table._snapshot_of(current)
        snapshot = current.metadata.snapshot_by_id(ref.snapshot_id)
        assert snapshot is not None, "the metadata contains the snapshot of every reference, as checked when it was read"
        return self._open_past(current, snapshot, f"tag {reference}")

    def _open_past(self, current: CurrentMetadata, snapshot: IcebergVersion, branch: str) -> IcebergSnapshot:
        """Open a snapshot with the schema that was current at its commit."""
        past_schema = None if snapshot.schema_id is None else current.metadata.schema_by_id(snapshot.schema_id)
        schema = current.metadata.schema() if past_schema is None else past_schema
        return IcebergSnapshot(self._operations.storage, self.name, current, snapshot, schema, branch)

    def _open_newest(self, current: CurrentMetadata) -> IcebergSnapshot:
        """Open the newest snapshot of the branch, and reuse the manifests that this table has read. Raises VersionNotFound."""
        metadata, branch = current.metadata, self._branch
        if branch != MAIN and not self._creates_branch:
            find_reference(self.name, metadata, branch)  # Raises VersionNotFound for an unknown branch.
        head, manifest_files = base_of(metadata, branch), {} if self._reused.snapshot is None else self._reused.snapshot.manifest_files
        return IcebergSnapshot(
            self._operations.storage, self.name, current, head, metadata.schema(), branch, manifest_files, self._write_properties
        )

    def _new_metadata(self, definition: TableDefinition) -> TableMetadata:
        metadata = new_metadata(self.name, self.location, definition)
        self._check_catalog(metadata)
        return metadata

    def _check_catalog(self, metadata: TableMetadata, base: TableMetadata | None = None) -> None:
        """Check that the catalog can store new metadata. A table of another engine may already have a property that it cannot honour.

        Args:
            metadata: The new metadata.
            base: The metadata that it follows or clones, or None for a new table.

        Raises:
            UnsupportedTableFeature: The format version is too high for the catalog.
            ConfigurationError: The metadata would be compressed or have another folder, and the catalog does not record its path.
                Or a property of metrics names a column that the table lacks.
        """
        check_format_version(self.name, metadata.format_version, self._operations.highest_format_version)
        old_properties = {} if base is None else base.properties
        check_metrics_columns(self.name, metadata.schema(), metadata.properties, old_properties)
        if not self._operations.records_metadata_path:
            _check_folder_properties(self.name, metadata, old_properties)

    def _cloned_metadata(self, source: IcebergSnapshot, definition: TableDefinition, *, shallow: bool) -> TableMetadata:
        """Return the metadata of a clone. Raises PlanError if the catalog assigns new ids, which would differ from those in manifests."""
        if not self._operations.keeps_ids:
            raise PlanError(
                f"{self.name} cannot be a clone: its catalog assigns new ids to schemas and partition specs, but the cloned manifests "
                f"contain the ids of {source.name}. Use CREATE TABLE … AS SELECT * FROM …"
            )
        metadata = cloned_metadata(self.name, self.location, source, definition.properties or {}, shallow=shallow)
        self._check_catalog(metadata, source.metadata)
        return metadata

    def _current(self) -> CurrentMetadata:
        """Return the current metadata. Raises UnsupportedTableFeature for a table that was copied or moved from another location."""
        ahead, self._ahead = self._ahead, None
        current = newest(self._operations, self.name) if ahead is None else ahead
        if absolute_location(current.metadata.location) != self.location:
            advice = f"Its metadata is at {self.location}."
            raise UnsupportedTableFeature(self.name, f"the location {current.metadata.location}", action="open", advice=advice)
        return current


def _check_folder_properties(table: str, metadata: TableMetadata, old_properties: Mapping[str, str]) -> None:
    """Raise ConfigurationError if new metadata of a table in a folder would have another name or another folder than readers expect."""
    consequences = {METADATA_PATH.name: "Readers look for its metadata files in its folder."}
    if settings_of(metadata).compresses_metadata:
        reason = "The compressed metadata of a version has another name in its folder, so two writers could commit the same version."
        consequences[METADATA_CODEC.name] = reason
    for name, consequence in consequences.items():
        value = metadata.properties.get(name)
        if value is not None and value != old_properties.get(name):
            raise ConfigurationError(
                f"The table property {name} is {value!r}, but {table} is not in a catalog. {consequence} Leave the property out."
            )


def _snapshot_by_id(table: str, metadata: TableMetadata, snapshot_id: int) -> IcebergVersion:
    """Return the snapshot with an id. Raises VersionNotFound for an unknown id, with the newest ids in the message."""
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        newest_ids = ", ".join(str(entry.snapshot_id) for entry in metadata.snapshots[-5:]) or "none"
        raise VersionNotFound(f"{table} has no snapshot {snapshot_id}. The newest snapshots are: {newest_ids}.")
    return snapshot


def _snapshot_by_time(table: str, metadata: TableMetadata, timestamp: int) -> IcebergVersion:
    """Return the snapshot that was current at a time (ms since the epoch) according to the snapshot log. Raises VersionNotFound."""
    past_ids = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= timestamp]
    snapshot = metadata.snapshot_by_id(past_ids[-1]) if past_ids else None
    if snapshot is None:
        raise VersionNotFound(f"{table} has no snapshot from {timestamp} (ms since 1970) or earlier. Choose a later time.")
    return snapshot
