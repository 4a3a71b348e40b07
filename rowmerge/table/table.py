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

    def set(self, reference: SnapshotReference, *, create: bool, replace: bool, if_not_exists: bool) -> None:
        """Create or replace a branch or a tag. Raises AlreadyExists, VersionNotFound, PlanError for the main branch."""

    def fast_forward(self, branch: str, to: str) -> tuple[int | None, int]:
        """Move a branch to the snapshot of another branch or a tag, which must descend from it. Create a branch that does not exist.

        Return the branch's snapshot ids before (None for a new branch) and after. Raises VersionNotFound, PlanError for diverged branches.
        """

    def drop(self, name: str, *, tag: bool, if_exists: bool) -> None:
        """Drop a branch or a tag. Raises VersionNotFound for an unknown name, PlanError for the main branch and for the other kind."""


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
        """Return a version by number, or the newest version committed at or before a time (ms since the epoch). Raises VersionNotFound."""

    def shape(self, definition: TableDefinition, base: Snapshot | None = None, *, replace: bool = False) -> TableShape:
        """Return the shape that a definition gives to a new table, to the version `base`, or with `replace` to the replacement of `base`.

        Write data files for this shape and commit its schema: the schema holds the ids and names of columns in files. Raises what
        `create` and `commit` raise for an invalid definition.
        """

    def creation_version(self) -> CreationVersion | None:
        """Return what `create` compares, None if the table exists. Read it before you write data files.

        Raises AlreadyExists if the folder has a table of another format or a view, CorruptLog, StorageError.
        """

    def create(self, definition: TableDefinition, change: CommitRequest, version: CreationVersion | None = None) -> Outcome:
        """Commit the first version of a table that does not exist. Return Conflicted if others created the table first.

        `version`: what `creation_version` returned before the data files of `change` were written. If others have created and dropped a
        table since, their DROP may delete these files by their age. Then the outcome is Conflicted, too. None: there are no data files.
        """

    def commit(self, base: Snapshot, change: CommitRequest) -> Outcome:
        """Commit a change that was planned on `base`, a version of this table, after concurrent commits that do not conflict with it.

        `commit` and `create` raise RowmergeError only if nothing was committed. Then the caller deletes the files of the change.
        """

    def version_of_transaction(self, application: str, version: int) -> int | None:
        """Return the version that a transaction of an application made, None if the history no longer contains it."""

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the commits, newest first, at most `limit`. Raises TableNotFound, CorruptLog, StorageError."""

    def vacuum(self, options: VacuumOptions) -> Vacuumed:
        """Delete the files that no version within the retention needs. Raises PlanError for a retention that is not safe, StorageError."""
