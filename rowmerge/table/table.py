"""The interface that each table format implements: read the versions of a table, commit to it, and use format-specific features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rowmerge.table.commits.copies import FileCopies
from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.features import TableFeatures
from rowmerge.table.commits.request import CommitRequest, Outcome
from rowmerge.table.maintenance import IncompleteFile, SymlinkManifests, TableMaintenance, Vacuumed, VacuumOptions
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.appends import Appends
from rowmerge.table.snapshots.change_feed import ChangeFeed
from rowmerge.table.snapshots.metadata_tables import MetadataTables
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class HistoryEntry:
    """One commit in the form that DESCRIBE HISTORY shows. Fields that the commit does not record are None.

    `timestamp`: the time of the commit, in milliseconds since the epoch. `read_version`: the version on which the change was based.
    """

    version: int
    timestamp: int
    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, str]
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    user_metadata: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class SnapshotReference:
    """A branch or a tag, with its snapshot and its retention settings.

    `tag`: whether the reference is a tag. `snapshot_id`: the snapshot of the reference, or None for the newest snapshot of the table.
    `max_age`: how long the reference is kept, in milliseconds. `min_snapshots`: how many snapshots of a branch are always kept.
    `max_snapshot_age`: how long other snapshots of a branch are kept, in milliseconds. None: the setting in the table's properties.
    """

    name: str
    tag: bool
    snapshot_id: int | None = None
    max_age: int | None = None
    min_snapshots: int | None = None
    max_snapshot_age: int | None = None


class Branches(Protocol):
    """The branches and tags of a table. Each change is one commit that changes only the metadata.

    Every method that changes them raises UnsupportedTableFeature, CommitConflict, CommitStateUnknown and StorageError.
    """

    def table(self, branch: str, *, create: bool = False) -> Table:
        """Return the table as seen on a branch. Its newest snapshot is that of the branch, and its commits move only the branch.

        Args:
            branch: The name of the branch.
            create: Whether the first commit creates a branch that does not exist. Until then, its newest snapshot is that of main.

        Raises:
            VersionNotFound: The branch does not exist, and `create` is false. The error suggests similar names.
            PlanError: `branch` is a tag.
        """

    def staging_table(self, staged_id: str) -> Table:
        """Return the table, whose commits stage snapshots: the table contains them, but no branch does until they are published.

        Args:
            staged_id: The id under which the snapshots can be published.
        """

    def snapshot(self, reference: str) -> Snapshot:
        """Return the newest version of a branch with the current columns of the table, or the version of a tag with its own columns.

        Raises VersionNotFound, which suggests similar names, if no branch or tag has the name `reference`.
        """

    def snapshot_id(self, reference: str) -> int:
        """Return the id of the snapshot to which a branch or tag refers. Raises VersionNotFound if neither has this name."""

    def set_reference(self, reference: SnapshotReference, *, create: bool, replace: bool, if_not_exists: bool) -> None:
        """Create a branch or a tag, or replace the snapshot and the retention settings of an existing one.

        The flags correspond to the keywords of `ALTER TABLE … CREATE OR REPLACE BRANCH` in Iceberg's SQL extensions. Only `create` raises
        an error for an existing reference, and only `replace` raises an error for a missing one. At least one of the two is true.

        Args:
            reference: The branch or tag with its new values.
            create: Whether the statement contains CREATE, so that the reference need not exist.
            replace: Whether the statement contains REPLACE, so that the reference may already exist.
            if_not_exists: Whether the statement contains IF NOT EXISTS, so that an existing reference stays unchanged without an error.

        Raises:
            AlreadyExists: The reference exists, and the statement does not replace it.
            VersionNotFound: The reference does not exist and may not be created, or its snapshot does not exist.
            PlanError: The reference is the main branch, or the table has a reference of the other kind (branch or tag) with this name.
        """

    def fast_forward(self, branch: str, to: str) -> tuple[int | None, int]:
        """Move a branch to a newer snapshot. Create the branch if it does not exist.

        Args:
            branch: The name of the branch.
            to: The name of another branch or of a tag. Its snapshot must be a descendant of the branch's snapshot.

        Returns:
            The snapshot ids of the branch before and after the move. The first id is None for a new branch.

        Raises:
            VersionNotFound: No branch or tag has the name `to`.
            PlanError: The branches have diverged.
        """

    def publish(self, snapshot_id: int) -> int:
        """Publish a snapshot on the main branch (Iceberg's `cherrypick_snapshot`), and return the id of the current snapshot after it.

        Args:
            snapshot_id: The id of the snapshot, which a statement staged or committed to another branch.

        Raises:
            VersionNotFound: The table has no such snapshot.
            PlanError: The snapshot is published already, or its changes do not apply to the current snapshot.
        """

    def staged_snapshot_id(self, staged_id: str) -> int:
        """Return the id of the newest snapshot that was staged under an id. Raises VersionNotFound if there is none."""

    def drop(self, name: str, *, is_tag: bool, if_exists: bool) -> None:
        """Drop a branch or a tag.

        Args:
            name: The name of the branch or tag.
            is_tag: Whether `name` must be a tag. Otherwise it must be a branch.
            if_exists: Whether an unknown name is ignored instead of raising an error.

        Raises:
            VersionNotFound: No branch or tag has this name.
            PlanError: The reference is the main branch, or it is a branch instead of a tag or a tag instead of a branch.
        """


class Table(Protocol):
    """A table at a location. Each table format implements this interface."""

    @property
    def name(self) -> str:
        """The name of the table in messages: its name in the catalog, or its location."""

    @property
    def location(self) -> str:
        """The table's folder, as in `TableShape.location`."""

    @property
    def branches(self) -> Branches | None:
        """The branches and tags, or None for a format that has no branches or tags."""

    @property
    def change_feed(self) -> ChangeFeed | None:
        """The change data feed, or None for a format that records no changes."""

    @property
    def appends(self) -> Appends:
        """The rows that each version adds, for streams."""

    @property
    def maintenance(self) -> TableMaintenance | None:
        """The procedures that maintain snapshots and manifests, or None for a format without such procedures."""

    @property
    def symlink_manifests(self) -> SymlinkManifests | None:
        """The symlink manifests, or None for a format without them."""

    @property
    def features(self) -> TableFeatures | None:
        """The table features, or None for a format that has none."""

    @property
    def metadata_tables(self) -> MetadataTables:
        """The metadata tables, such as `files` and `snapshots`."""

    def with_write_properties(self, properties: Mapping[str, str]) -> Table:
        """Return the table for a statement that writes rows, with properties that override those of an Iceberg table.

        Its metadata does not contain them. They set the distribution, compression and delete files of the rows that are written.
        """

    def import_properties(self, definition: TableDefinition | None = None) -> Mapping[str, str]:
        """Return the properties that a table needs, in addition to its own, to read data files without field ids.

        Args:
            definition: The definition of a new table, or None for the existing table.
        """

    def exists(self) -> bool:
        """Return whether the table exists. Raises StorageError."""

    def snapshot(self) -> Snapshot:
        """Return the newest version. Raises TableNotFound, CorruptLog, UnsupportedTableFeature."""

    def look_ahead(self) -> Table | None:
        """Look for newer versions, and return a table whose next call of `snapshot` uses the result instead of another request.

        A statement that looks up a name needs this request anyway, and others at the same time. Use the returned table in this statement
        only. It shares all caches with this table.

        Returns:
            None if this process has not read the table before, or if its last version does not exist any longer.

        Raises:
            StorageError: The store failed.
        """

    def snapshot_at(self, *, version: int | None = None, timestamp: int | None = None) -> Snapshot:
        """Return a version by its number or by a time. Without both, return the newest version.

        Args:
            version: The version number (Delta) or the snapshot id (Iceberg).
            timestamp: A time in milliseconds since the epoch, which selects the newest version that was committed at or before it.

        Raises:
            VersionNotFound: The version does not exist, or no version is old enough.
        """

    def resolve_shape(self, definition: TableDefinition, base: Snapshot | None = None, *, replace: bool = False) -> TableShape:
        """Return the shape of a new table, or of an existing table after a change of its definition.

        Write data files in this shape, and commit its schema, which contains the ids and names of columns in files. An invalid definition
        raises the same errors as in `create` and `commit`.

        Args:
            definition: The definition of a new table, or the changed parts of an existing definition.
            base: The version to change or to replace, or None for a new table.
            replace: Whether the definition replaces the existing table instead of changing it.
        """

    def creation_version(self, *, converts: bool = False) -> CreationVersion | None:
        """Return the version that `create` will put, and the state of the folder that it requires. Return None if the table exists.

        Call this method before writing data files. `converts`: whether the table takes over the files of a table of the other format.

        Raises AlreadyExists if the folder contains a table of another format or a view. Also raises CorruptLog and StorageError.
        """

    def create(self, definition: TableDefinition, request: CommitRequest, expected_version: CreationVersion | None = None) -> Outcome:
        """Commit the first version of a table that does not exist yet. Return Conflicted if another writer created the table first.

        Args:
            definition: The columns, partitioning, properties and rules of the table.
            request: The data files and the operation of the commit.
            expected_version: The result of `creation_version` before the data files were written, or None without data files. If another
                writer has created and dropped a table since, its DROP may delete these files by age, so the outcome is also Conflicted.
        """

    def commit(self, base: Snapshot, request: CommitRequest) -> Outcome:
        """Commit a change after concurrent commits that do not conflict with it.

        Args:
            base: The version of this table on which the change was planned.
            request: The changed files and the new definition of the table.

        Raises:
            RowmergeError: Nothing was committed, so the caller deletes the files of the change. The same applies to errors of `create`.
        """

    def copy_files(self, source: Snapshot, base: Snapshot | None) -> FileCopies:
        """Copy the files of another table's version into this table's folder, for a deep clone.

        Args:
            source: The version whose files are copied.
            base: The version of this table that the clone replaces, whose copies are not made again, or None for a new table.

        Raises:
            MissingDataFile: A file of the source does not exist.
            StorageError: A file cannot be copied.
        """

    def version_of_transaction(self, application: str, version: int) -> int | None:
        """Return the table version that a transaction committed, or None if the history does not contain the transaction.

        Args:
            application: The id of the application (`CommitRequest.transaction`).
            version: The version of the transaction.
        """

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return at most `limit` commits, newest first. Return all commits for None. Raises TableNotFound, CorruptLog, StorageError."""

    def incomplete_files(self, snapshot: Snapshot) -> list[IncompleteFile]:
        """Return the live data files of a version of this table that do not exist, or whose deletion vector does not exist.

        Raises:
            MissingDataFile: A delete file of an Iceberg table does not exist, so that the rows of other files are unknown.
            StorageError: The store failed.
        """

    def vacuum(self, options: VacuumOptions) -> Vacuumed:
        """Delete the files that no version within the retention period needs.

        Raises PlanError if the retention period is too short to be safe. Raises StorageError if the store failed.
        """
