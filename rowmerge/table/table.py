"""The interface of a table format: open a table, read its versions, commit to it, and use the features that only some formats have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.request import CommitRequest, Outcome
from rowmerge.table.maintenance import TableMaintenance, Vacuumed, VacuumOptions
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.change_feed import ChangeFeed
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class HistoryEntry:
    """One commit as DESCRIBE HISTORY shows it."""

    version: int
    timestamp: int
    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, str]
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    engine: str | None = None


@dataclass(frozen=True)
class SnapshotReference:
    """A branch or a tag. `snapshot_id`: None for the newest snapshot. Ages: in milliseconds, None for those of the properties."""

    name: str
    tag: bool
    snapshot_id: int | None = None
    max_age: int | None = None
    min_snapshots: int | None = None
    max_snapshot_age: int | None = None


class Branches(Protocol):
    """The branches and tags of a table. Each change is one commit of the metadata alone.

    Changes raise UnsupportedTableFeature, CommitConflict, CommitStateUnknown, StorageError.
    """

    def table(self, branch: str) -> Table:
        """Return the table whose newest snapshot is that of the branch, and whose commits move the branch alone.

        Raises VersionNotFound with similar names, PlanError for a tag.
        """

    def snapshot(self, reference: str) -> Snapshot:
        """Return the newest version of a branch, with the columns that the table has now, or a tag's version, with its own.

        Raises VersionNotFound with similar names.
        """

    def snapshot_id(self, reference: str) -> int:
        """Return the id of the snapshot that a branch or tag names. Raises VersionNotFound."""

    def set_reference(self, reference: SnapshotReference, *, create: bool, replace: bool, if_not_exists: bool) -> None:
        """Create a branch or a tag, or replace an existing one: give it another snapshot and other retention settings.

        The flags are the words of the SQL statement `ALTER TABLE … CREATE OR REPLACE BRANCH` of Iceberg's extensions. CREATE alone raises
        an error for an existing reference, and REPLACE alone raises an error for a missing one. At least one of both is given.

        Args:
            reference: The branch or tag with its new values.
            create: The statement has CREATE, so the reference may be missing.
            replace: The statement has REPLACE, so the reference may exist.
            if_not_exists: The statement has IF NOT EXISTS, so an existing reference stays as it is, without an error.

        Raises:
            AlreadyExists: The reference exists, and the statement may not replace it.
            VersionNotFound: The reference does not exist and may not be created, or its snapshot does not exist.
            PlanError: The reference is the main branch, or the table has a reference of the other kind (branch or tag) with this name.
        """

    def fast_forward(self, branch: str, to: str) -> tuple[int | None, int]:
        """Move a branch to a newer snapshot. Create the branch if it does not exist.

        Args:
            branch: The name of the branch.
            to: The name of another branch or a tag. Its snapshot must descend from that of the branch.

        Returns:
            The snapshot id of the branch before and after the move. The first one is None for a new branch.

        Raises:
            VersionNotFound: No branch or tag has the name `to`.
            PlanError: The branches have diverged.
        """

    def drop(self, name: str, *, tag: bool, if_exists: bool) -> None:
        """Drop a branch or a tag.

        Args:
            name: The name of the branch or tag.
            tag: Whether `name` must be a tag. Otherwise it must be a branch.
            if_exists: Whether an unknown name is ignored.

        Raises:
            VersionNotFound: No branch or tag has this name.
            PlanError: The reference is the main branch, or it is of the other kind.
        """


class Table(Protocol):
    """A table at a location, opened by its format."""

    @property
    def name(self) -> str:
        """The name of the table in messages: the catalog's name, or the location."""

    @property
    def location(self) -> str:
        """The table's folder, as in `TableShape.location`."""

    @property
    def branches(self) -> Branches | None:
        """The branches and tags, None for a format without them."""

    @property
    def change_feed(self) -> ChangeFeed | None:
        """The change rows of versions, None for a format that records none."""

    @property
    def maintenance(self) -> TableMaintenance | None:
        """The procedures that maintain snapshots and manifests, None for a format without them."""

    def exists(self) -> bool:
        """Return whether the table exists. Raises StorageError."""

    def snapshot(self) -> Snapshot:
        """Return the newest version. Raises TableNotFound, CorruptLog, UnsupportedTableFeature."""

    def snapshot_at(self, *, version: int | None = None, timestamp: int | None = None) -> Snapshot:
        """Return a version by its number or by a time, the newest version for neither.

        Args:
            version: The number or the snapshot id of the version.
            timestamp: Milliseconds since the epoch. It selects the newest version that was committed at or before this time.

        Raises:
            VersionNotFound: No such version exists.
        """

    def resolve_shape(self, definition: TableDefinition, base: Snapshot | None = None, *, replace: bool = False) -> TableShape:
        """Return the shape that a definition gives to a new table, or to an existing table after a change of its definition.

        Write data files for this shape, and commit its schema, which has the ids and names of columns in files. For an invalid definition,
        it raises the errors of `create` and `commit`.

        Args:
            definition: The definition of a new table, or the changed values of an existing one.
            base: The version to change or to replace, None for a new table.
            replace: Whether the definition replaces the table. Otherwise it changes the table.
        """

    def creation_version(self) -> CreationVersion | None:
        """Return the version that `create` puts, and the state of the folder that it requires. Return None if the table exists.

        Call this before you write data files.

        Raises AlreadyExists if the folder has a table of another format or a view, CorruptLog, StorageError.
        """

    def create(self, definition: TableDefinition, request: CommitRequest, expected_version: CreationVersion | None = None) -> Outcome:
        """Commit the first version of a table that does not exist. Return Conflicted if others have created the table first.

        Args:
            definition: The columns, partitioning, properties and rules of the table.
            request: The data files and the operation of the commit.
            expected_version: The result of `creation_version` before the data files were written, None if there are none. If others have
                created and dropped a table since, their DROP may delete these files by their age. Then the outcome is Conflicted, too.
        """

    def commit(self, base: Snapshot, request: CommitRequest) -> Outcome:
        """Commit a change after concurrent commits that do not conflict with it.

        Args:
            base: The version of this table on which the change was planned.
            request: The changed files and the new definition of the table.

        Raises:
            RowmergeError: Nothing was committed, as after an error of `create`. The caller deletes the files of the change.
        """

    def version_of_transaction(self, application: str, version: int) -> int | None:
        """Return the table version that a transaction has committed, None if the history no longer contains it.

        Args:
            application: The id of the application (`CommitRequest.transaction`).
            version: The version of the transaction.
        """

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the commits, newest first, at most `limit`. Raises TableNotFound, CorruptLog, StorageError."""

    def vacuum(self, options: VacuumOptions) -> Vacuumed:
        """Delete the files that no version within the retention needs. Raises PlanError for a retention that is not safe, StorageError."""
