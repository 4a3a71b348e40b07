"""Create a Delta table at a location, read its versions, and commit to it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial

import pyarrow.compute as pc

from rowmerge.concurrency import run_both
from rowmerge.delta.commits.commit import Commit, first_commit, next_commit
from rowmerge.delta.commits.drop import FORMAT
from rowmerge.delta.log.checkpoints import is_due, try_checkpoint
from rowmerge.delta.log.checksums import put_checksum
from rowmerge.delta.log.history import find_transaction, read_history
from rowmerge.delta.log.log_files import list_and_read, list_log, list_newest
from rowmerge.delta.log.versions import is_dropped_at
from rowmerge.delta.maintenance.feature_removal import DeltaFeatures
from rowmerge.delta.maintenance.log_cleanup import clean_log
from rowmerge.delta.maintenance.symlink_manifests import SymlinkManifests
from rowmerge.delta.maintenance.vacuum import Vacuum
from rowmerge.delta.metadata.definition import metadata_after_alter, metadata_after_create, metadata_after_replace
from rowmerge.delta.metadata.properties import SYMLINK_MANIFESTS, is_true
from rowmerge.delta.metadata.shape import table_shape
from rowmerge.delta.snapshots.appends import DeltaAppends
from rowmerge.delta.snapshots.change_feed import DeltaChangeFeed
from rowmerge.delta.snapshots.metadata_tables import DeltaMetadataTables
from rowmerge.delta.snapshots.opening import LookAhead, SnapshotReader
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, as_delta_snapshot
from rowmerge.errors import CommitConflict, MetadataChanged
from rowmerge.storage.store import Storage
from rowmerge.table.commits.copies import FileCopies, SourceFiles
from rowmerge.table.commits.creation import FIRST_VERSION, CreationVersion, creation_version, format_conflict
from rowmerge.table.commits.drop_markers import delete_older_markers
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Outcome
from rowmerge.table.maintenance import IncompleteFile, Vacuumed, VacuumOptions
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import HistoryEntry

logger = logging.getLogger(__name__)


class DeltaTable:
    """A Delta table at a location. Implements `rowmerge.table.table.Table`. Several threads may use it."""

    def __init__(self, storage: Storage, name: str, is_mismatch_fatal: Callable[[], bool] = lambda: True) -> None:
        """Initialize a table at the location of `storage`. The table need not exist. `name` is the name of the table in errors.

        `is_mismatch_fatal` is called if a version does not match its checksum. It returns whether to raise an error instead of a warning.
        """
        self._storage, self.name, self.location = storage, name, storage.location
        self._reader = SnapshotReader(storage, name, is_mismatch_fatal)
        self.metadata_tables = DeltaMetadataTables(self.history)
        self._ahead: LookAhead | None = None
        """The listing for the next call of `snapshot`."""

    @property
    def branches(self) -> None:
        """Return None, because a Delta table has no branches or tags."""

    @property
    def change_feed(self) -> DeltaChangeFeed:
        return DeltaChangeFeed(self._storage, self._reader)

    @property
    def appends(self) -> DeltaAppends:
        return DeltaAppends(self._storage, lambda version: self.snapshot_at(version=version))

    @property
    def symlink_manifests(self) -> SymlinkManifests:
        return SymlinkManifests(self._storage, self.name, self.snapshot)

    @property
    def features(self) -> DeltaFeatures:
        return DeltaFeatures(self._storage, self.name, self.snapshot)

    @property
    def maintenance(self) -> None:
        """Return None, because Delta has no such procedures: checkpoints maintain the log, and VACUUM and OPTIMIZE maintain the files."""

    def with_write_properties(self, properties: Mapping[str, str]) -> DeltaTable:
        """Return this table, because only settings of Iceberg on Spark override properties of tables."""
        return self

    def import_properties(self, definition: TableDefinition | None = None) -> dict[str, str]:
        """Return no properties, because data files have the stored names of columns."""
        return {}

    def exists(self) -> bool:
        return self._first_version() is None

    def creation_version(self, *, converts: bool = False) -> CreationVersion | None:
        """Return the version with which a new table would begin, or None if the table exists.

        This is 0 in an empty folder. In the folder of a dropped table, it is the version after the drop. `converts`: whether the table
        takes over the files of an Iceberg table in the folder.
        """
        return creation_version(self._storage, FORMAT, self._first_version, converts=converts)

    def snapshot(self) -> DeltaSnapshot:
        """Return the newest version. Raises TableNotFound, CorruptLog, UnsupportedTableFeature, StorageError."""
        ahead, self._ahead = self._ahead, None
        return self._reader.open_newest(ahead)

    def look_ahead(self) -> DeltaTable | None:
        ahead = self._reader.look_ahead()
        if ahead is None:
            return None
        table = copy(self)
        table._ahead = ahead
        return table

    def snapshot_at(self, *, version: int | None = None, timestamp: int | None = None) -> DeltaSnapshot:
        """Return a version by its number or by a time. Without both, return the newest version.

        Args:
            version: The version number.
            timestamp: A time in milliseconds since the epoch, which selects the newest version that was committed at or before it.

        Raises:
            VersionNotFound: The version does not exist, or a log cleanup has deleted it.
            TableNotFound, CorruptLog, UnsupportedTableFeature, StorageError: As for `snapshot`.
        """
        if version is not None:
            return list_and_read(self._storage, lambda listing: self._reader.open(listing, version))
        if timestamp is not None:
            return self._reader.open_at(timestamp)
        return self.snapshot()

    def resolve_shape(self, definition: TableDefinition, base: Snapshot | None = None, *, replace: bool = False) -> TableShape:
        """Return the schema, partitioning and settings of the table after a change of its definition. See `Table.resolve_shape`.

        Args:
            definition: The definition of a new table, or the changed parts of an existing definition.
            base: The version to change or to replace, or None for a new table.
            replace: Whether the definition replaces the existing table instead of changing it.
        """
        if base is None:
            # The shape does not include the creation time.
            protocol, metadata = metadata_after_create(self.name, definition, now=0)
        else:
            current = as_delta_snapshot(base)
            apply_definition = metadata_after_replace if replace else metadata_after_alter
            protocol, metadata = apply_definition(self.name, current.protocol, current.metadata, definition)
        return table_shape(self.name, self._storage, protocol, metadata)

    def create(self, definition: TableDefinition, request: CommitRequest, expected_version: CreationVersion | None = None) -> Outcome:
        """Commit the first version of the table, as `rowmerge.table.table.Table.create` defines.

        DROP commits one more version, which says that the table is dropped. This version stays in the log. If it is version 8, a new table
        in the same folder begins with version 9. DROP also puts a marker: an empty file that makes the catalog read the newest version in
        the folder (`rowmerge.delta.commits.drop`).

        Args:
            definition: The columns, partitioning and properties of the table.
            request: The data files and the operation of the commit.
            expected_version: The result of `creation_version` before the data files were written. If None, for a creation without data
                files, this method calls `creation_version`.

        Raises:
            PlanError: The definition is invalid.
            ConfigurationError: The value of a property is invalid.
            UnsupportedTableFeature: The table needs a feature that the engine does not implement.
            AlreadyExists: The folder contains a table of another format or a view.
            StorageError: The store failed, and nothing was committed.
        """
        if expected_version is None:
            # If the table exists, `creation_version` returns None. Any version then leads to the same conflict, even the first one.
            expected_version = self.creation_version() or FIRST_VERSION
        conflict = self._creation_conflict(expected_version)
        if conflict is not None:
            return Conflicted(conflict)
        outcome = self._put_and_maintain_log(first_commit(self._storage, self.name, definition, request, expected_version))
        # A first version above 0 follows the version of a drop, whose marker is now obsolete.
        if expected_version.number > 0 and isinstance(outcome, Committed):
            delete_older_markers(self._storage, FORMAT, outcome.version)
        return outcome

    def commit(self, base: Snapshot, request: CommitRequest) -> Outcome:
        """Commit a change after concurrent commits that do not conflict with it, as `rowmerge.table.table.Table.commit` defines.

        Args:
            base: The version on which the change was planned.
            request: The changed files and the new definition of the table.

        Raises:
            PlanError: The new definition is invalid.
            ConfigurationError: The value of a property is invalid.
            UnsupportedTableFeature: The table needs a feature that the engine does not implement.
            TableError: The table does not allow the change, or its log is corrupt.
            StorageError: The store failed, and nothing was committed.
        """
        return self._put_and_maintain_log(next_commit(self._storage, self.name, as_delta_snapshot(base), request))

    def copy_files(self, source: Snapshot, base: Snapshot | None) -> FileCopies:
        """Copy the data files and deletion vectors of another table's version into this table's folder.

        Args:
            source: The version whose files are copied.
            base: The version of this table that the clone replaces, or None for a new table.

        Raises:
            MissingDataFile: A file of the source does not exist.
            StorageError: A file cannot be copied.
        """
        snapshot, listing = as_delta_snapshot(source), source.files()
        data = dict(zip(listing.paths, pc.fill_null(listing.sizes, 0).to_pylist(), strict=True))
        vectors = set(snapshot.file_paths) - data.keys()
        live_paths = frozenset() if base is None else frozenset(as_delta_snapshot(base).file_paths)
        return SourceFiles(source.name, snapshot.storage, data, vectors).copy_to(self._storage, live_paths, "")

    def version_of_transaction(self, application: str, version: int) -> int | None:
        """Return the newest table version with a `txn` action of the application whose transaction version is not above `version`.

        Args:
            application: The id of the application (`txn.appId`).
            version: The version of the transaction (`txn.version`).

        Returns:
            The table version, or None if the log contains no such `txn` action.

        Raises:
            CorruptLog: A file of the log cannot be parsed.
            StorageError: The store failed.
        """
        # If a concurrent cleanup deletes listed files, `list_and_read` lists the log again.
        return list_and_read(self._storage, lambda listing: find_transaction(self._storage, listing, application, version))

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return at most `limit` commits, newest first. Return all commits for None. Raises TableNotFound, CorruptLog, StorageError."""
        return list_and_read(self._storage, lambda listing: read_history(self._storage, self.name, listing, limit))

    def incomplete_files(self, snapshot: Snapshot) -> list[IncompleteFile]:
        """Return the live data files that do not exist, or whose deletion vector does not exist. Raises StorageError."""
        return as_delta_snapshot(snapshot).incomplete_files()

    def vacuum(self, options: VacuumOptions) -> Vacuumed:
        """Delete the files that no version within the retention period needs. See `Vacuum.run`."""
        return Vacuum(self._storage, self.name, self.snapshot, self.commit, options, time.time_ns() // 1_000_000).run()

    def _first_version(self) -> int | None:
        """Return the version with which a new table would begin in this folder, or None if the table exists."""
        newest = list_newest(self._storage).newest
        if newest is None:
            return 0
        return newest + 1 if is_dropped_at(self._storage, newest) else None

    def _creation_conflict(self, expected: CreationVersion) -> CommitConflict | None:
        """Return the conflict of a creation with a table of any format in the folder, or None if the folder still matches `expected`."""
        find_iceberg_conflict = partial(format_conflict, self._storage, self.name, FORMAT, expected)
        log, iceberg_conflict = run_both(partial(list_log, self._storage), find_iceberg_conflict)
        if log.newest is not None and not is_dropped_at(self._storage, log.newest):
            return MetadataChanged(self.name, log.newest, "another commit", "the table already exists")
        drop_version = -1 if log.newest is None else log.newest
        if drop_version + 1 != expected.number:
            return MetadataChanged(self.name, drop_version, "DROP TABLE", "another writer created and dropped a table of this name")
        return iceberg_conflict

    def _put_and_maintain_log(self, commit: Commit) -> Outcome:
        """Put a commit. After a concurrent commit without a conflict, put it again as the next version. Then maintain the log."""
        outcome = commit.run()
        if isinstance(outcome, Committed):
            self._reader.keep_commit(outcome.version, commit.commit_bytes)
            self._maintain_log(commit, outcome.version)
            if is_true(commit.metadata.configuration, SYMLINK_MANIFESTS):
                self.symlink_manifests.try_update(commit.previous_state)
        return outcome

    def _maintain_log(self, commit: Commit, version: int) -> None:
        """Write the checksum of a commit, and a checkpoint if one is due. Only log a failure, because the commit has succeeded."""
        for write_log_file in (self._put_checksum, self._put_checkpoint):
            try:
                write_log_file(commit, version)
            except Exception as error:  # noqa: BLE001 - an error would let the caller delete the files of the commit, or run it again
                logger.warning("Version %d of %s is committed, but the maintenance of its log failed: %s", version, self.location, error)

    def _put_checksum(self, commit: Commit, version: int) -> None:
        put_checksum(self._storage, version, commit.checksum())

    def _put_checkpoint(self, commit: Commit, version: int) -> None:
        """Write a checkpoint and clean the log, if a checkpoint is due."""
        if is_due(version, commit.metadata):
            listing = list_log(self._storage)
            state = self._reader.open(listing, version).state
            if try_checkpoint(self._storage, state):
                clean_log(self._storage, listing, state, time.time_ns() // 1_000_000)
