"""Commit a change to an Iceberg table: write the snapshot's files, create the metadata updates, and check concurrent commits.

`Commit` and `Creation` implement the steps of `rowmerge.table.commits.commit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import RemoveSnapshotRefUpdate, TableUpdate

from rowmerge.concurrency import run_both
from rowmerge.errors import CommitConflict, ConcurrentDeleteDelete, ConcurrentTransaction, MetadataChanged, VersionNotFound
from rowmerge.iceberg.catalogs.operations import DirectoryOperations, TableOperations
from rowmerge.iceberg.commits.conflicts import ConcurrentCommit, PlannedCommit, concurrent_commits, find_conflict
from rowmerge.iceberg.commits.drop import withdraw_creation
from rowmerge.iceberg.commits.snapshot_entry import new_snapshot_id, snapshot_updates
from rowmerge.iceberg.commits.snapshot_files import SnapshotFiles
from rowmerge.iceberg.manifests.content import UNASSIGNED, Entry
from rowmerge.iceberg.metadata.definition import alteration_updates, replacement_updates
from rowmerge.iceberg.metadata.properties import copied_files, record_copied_files, without_copied_files
from rowmerge.iceberg.metadata.refs import MAIN, WAP_ID, base_of, point_branch_at
from rowmerge.iceberg.metadata.updates import apply_updates
from rowmerge.iceberg.snapshots.file_listing import list_files
from rowmerge.iceberg.snapshots.live_files import LiveFiles, live_files
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot
from rowmerge.storage.store import Put
from rowmerge.table.commits.commit import Rebased, commit
from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.request import CommitRequest, Outcome, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileListing, Positions

_NO_SNAPSHOT = 0
"""The version that outcomes and conflicts report for a table without a snapshot."""


@dataclass
class Commit:
    """One change to a table. Implements `rowmerge.table.commits.commit.CommitSteps`.

    `staged_id`: the id under which the snapshot can be published. No branch points at it before. None for a snapshot of `base.branch`.
    """

    operations: TableOperations
    table: str
    base: IcebergSnapshot
    change: CommitRequest
    staged_id: str | None = None

    def __post_init__(self) -> None:
        self.snapshot_id = new_snapshot_id()
        self._definition = self._definition_updates()
        self._head = self.base.current

    def run(self) -> Outcome:
        """Commit the change.

        Raises StorageError, CorruptLog or an error about the table's definition only if nothing was committed.
        """
        return commit(self, self.operations.storage, self.change.files)

    @property
    def version(self) -> int:
        if self.change.restored is not None:
            return self.change.restored.version
        if self._adds_snapshot:
            return self.snapshot_id
        return _NO_SNAPSHOT if self.change.replace else self._snapshot_id_in(self._head.metadata) or _NO_SNAPSHOT

    def put(self) -> Put | Unknown | CommitConflict:
        updates, is_outdated = run_both(self._snapshot_updates, partial(self.operations.is_outdated, self._head))
        return Put.EXISTED if is_outdated else self.operations.commit(self._head, (*self._definition, *updates))

    def rebase(self) -> Rebased | Literal[Put.CREATED] | CommitConflict:
        """Check the concurrent commits for conflicts. Without a conflict, base the next put on the newest metadata.

        Returns:
            The first conflict, or Rebased if there is none. CREATED if the newest metadata already contains the snapshot of this commit.
        """
        newest = self.operations.current()
        if newest is None:
            return MetadataChanged(self.table, _NO_SNAPSHOT, "DROP TABLE", "the table was dropped")
        if self.base.branch != MAIN and self.base.branch in self._head.metadata.refs.keys() - newest.metadata.refs.keys():
            return MetadataChanged(self.table, _NO_SNAPSHOT, "DROP BRANCH", f"the branch {self.base.branch} was dropped")
        ref = newest.metadata.refs.get(self.base.branch)
        if ref is not None and ref.snapshot_ref_type is SnapshotRefType.TAG:
            return MetadataChanged(self.table, ref.snapshot_id, "CREATE TAG", f"{self.base.branch} is a tag now")
        if newest.metadata.snapshot_by_id(self.snapshot_id) is not None:
            return Put.CREATED
        result = self._merge_concurrent_commits(newest.metadata)
        if isinstance(result, Rebased):
            self._head = newest
        return result

    def discard(self) -> None:
        self._files.discard()

    def discard_superseded(self) -> None:
        self._files.discard_superseded()

    @cached_property
    def _live(self) -> LiveFiles:
        """Return the live files of the snapshot on which the next snapshot will be based."""
        return self.base.live

    def _merge_concurrent_commits(self, newest: TableMetadata) -> Rebased | CommitConflict:
        """Merge concurrent commits into the planned commit and its live files, unless one of them conflicts with the change.

        The last attempt of this commit was based on the metadata `self._head`. The concurrent commits are those since then.

        Returns:
            The first conflict, or Rebased with the number of commits that delete other rows of the same files.
        """
        difference = _definition_difference(self._head.metadata, newest, self.change)
        if difference:
            return self._metadata_conflict(newest, difference)
        if self.change.copied_files & copied_files(newest.properties):
            head_id = self._snapshot_id_in(newest) or _NO_SNAPSHOT
            return ConcurrentTransaction(self.table, head_id, "COPY INTO", "it loaded a file that this statement loads, too")
        old_id, new_id = self._snapshot_id_in(self._head.metadata), self._snapshot_id_in(newest)
        commits = concurrent_commits(self.operations.storage, newest, newest_id=new_id, base_id=old_id)
        if commits is None:  # others have set the branch to another snapshot, or have expired snapshots
            return self._metadata_conflict(newest, "its snapshot history was changed or has expired")
        result = self._merge_into_plan(commits)
        if not isinstance(result, Rebased):
            return result
        file_conflict = self._reload_live_files(newest)
        return result if file_conflict is None else file_conflict

    def _merge_into_plan(self, commits: Sequence[ConcurrentCommit]) -> Rebased | CommitConflict:
        """Compare each concurrent commit with the change, oldest first. Return the first conflict, or else the count for the outcome."""
        commits_to_same_files = 0
        for concurrent in commits:
            conflict = find_conflict(concurrent, self._planned_commit)
            if conflict is not None:
                return conflict
            if self._planned_commit.deletes_in_same_files(concurrent):
                commits_to_same_files += 1
            self._planned_commit = self._planned_commit.rebased_on(concurrent)
        return Rebased(commits_to_same_files)

    def _metadata_conflict(self, newest: TableMetadata, difference: str) -> CommitConflict:
        return MetadataChanged(self.table, self._snapshot_id_in(newest) or _NO_SNAPSHOT, "a commit", difference)

    def _reload_live_files(self, newest: TableMetadata) -> CommitConflict | None:
        """Read the live files of the branch's newest snapshot. Return a conflict if the change affects a file that is no longer live."""
        newest_id = self._snapshot_id_in(newest)
        if newest_id == self._snapshot_id_in(self._head.metadata):
            return None
        self._live = live_files(self.operations.storage, base_of(newest, self.base.branch), self._live.unpartitioned_spec_ids, self._live)
        # Another writer may drop a manifest without writing entries for its files.
        changed_paths = self._planned_commit.changed_paths
        missing_paths = changed_paths - self._live.by_path(changed_paths).keys()
        return ConcurrentDeleteDelete(self.table, newest_id or _NO_SNAPSHOT, "a commit", min(missing_paths)) if missing_paths else None

    def _snapshot_id_in(self, metadata: TableMetadata) -> int | None:
        """Return the id of the branch's newest snapshot in metadata, or None if the branch has no snapshot."""
        head = base_of(metadata, self.base.branch)
        return None if head is None else head.snapshot_id

    @cached_property
    def _planned_commit(self) -> PlannedCommit:
        """Return the properties of the change that the conflict rules compare with a concurrent commit."""
        change, deleted_rows = self.change, self.change.files.deleted
        application_id = None if change.transaction is None else change.transaction[0]
        # The change lists all deleted rows of a file, including those that were deleted before.
        already_deleted = self.base.deleted_positions(list(deleted_rows)) if deleted_rows else {}
        newly_deleted = {path: positions - already_deleted.get(path, Positions()) for path, positions in deleted_rows.items()}
        return PlannedCommit(
            table=self.table,
            reads=change.reads,
            # A replacement removes the files that are live when it commits.
            removed_paths=frozenset() if change.replace else frozenset(change.files.removed),
            deleted_rows=newly_deleted,
            data_change=change.data_change,
            is_serializable=_is_serializable(self.base, change),
            list_added_files=self._list_added_files,
            application_id=application_id,
            moves_within_partitions=_moves_within_partitions(self.base, change),
        )

    def _list_added_files(self, entries: Sequence[Entry]) -> FileListing:
        """Return the data files that a concurrent commit added, with the bounds of the columns that the change read."""
        base = self.base
        files = LiveFiles(self.operations.storage, data=tuple(entries))
        return list_files(files, base.iceberg_schema, base.schema, base.metadata, self.change.reads.columns)

    def _definition_updates(self) -> tuple[TableUpdate, ...]:
        if self.change.replace:
            return replacement_updates(self.table, self.base.metadata, self.change.definition or TableDefinition())
        copied = record_copied_files(self.change.copied_files, self.snapshot_id)
        if self.change.definition is not None:
            return (*alteration_updates(self.table, self.base.metadata, self.change.definition), *copied)
        return copied

    @cached_property
    def target_metadata(self) -> TableMetadata:
        """Return the table's metadata with the new definition, before the snapshot is added."""
        return apply_updates(self.base.metadata, self._definition) if self._definition else self.base.metadata

    @cached_property
    def _files(self) -> SnapshotFiles:
        added, sequence_number = self.change.files.added, self._data_sequence_number()
        storage, overrides = self.operations.storage, self.base.write_properties
        return SnapshotFiles(storage, self.target_metadata, self.snapshot_id, added, sequence_number, write_properties=overrides)

    def _data_sequence_number(self) -> int:
        """Return the sequence number of the rows in added files; UNASSIGNED stands for that of the new snapshot.

        Moved rows keep the sequence number of the snapshot that they were read in. So later equality deletes still apply to them.
        """
        base_version = self.base.iceberg_version
        only_moves_rows = not self.change.data_change and bool(self.change.files.removed)
        if not only_moves_rows or base_version is None or self.target_metadata.format_version == 1:
            return UNASSIGNED
        return UNASSIGNED if base_version.sequence_number is None else base_version.sequence_number

    @property
    def _adds_snapshot(self) -> bool:
        change = self.change
        changes_files = bool(change.files.added) if change.replace else not change.files.empty
        return changes_files or change.transaction is not None

    def _snapshot_updates(self) -> tuple[TableUpdate, ...]:
        """Write the files of the change's snapshot, and return the metadata updates that add the snapshot to the branch."""
        head, live, change = self._head.metadata, self._live, self.change
        if change.restored is not None:
            return (self._restore(head, change.restored.version),)
        if not change.replace:
            return self._add_snapshot(base_of(head, self.base.branch), live, change.files.removed)
        empty_table = (RemoveSnapshotRefUpdate(ref_name=MAIN),) if head.current_snapshot_id is not None else ()
        return empty_table + self._add_snapshot(None, LiveFiles(self.operations.storage), ())

    def _restore(self, head: TableMetadata, snapshot_id: int) -> TableUpdate:
        """Return the update that points the branch at an older snapshot. Raises VersionNotFound if the snapshot has expired."""
        if head.snapshot_by_id(snapshot_id) is None:
            raise VersionNotFound(f"The snapshot {snapshot_id} of {self.table} has expired in the meantime. See DESCRIBE HISTORY.")
        return point_branch_at(head, self.base.branch, snapshot_id)

    def _add_snapshot(self, parent: Snapshot | None, live: LiveFiles, removed_paths: Sequence[str]) -> tuple[TableUpdate, ...]:
        """Write the snapshot that follows `parent`. Return the updates that add it, or no updates if the change adds no snapshot."""
        if not self._adds_snapshot:
            return ()
        head = self._head.metadata
        written_snapshot = self._files.write_snapshot(head, parent, live, removed_paths, self.change.files.deleted)
        origin = {} if self.staged_id is None else {WAP_ID: self.staged_id}
        return snapshot_updates(head, self.base.branch, parent, written_snapshot, self.change, origin)


@dataclass
class Creation(Commit):
    """The first commit of a table. `base` contains the metadata of the new table and no snapshot.

    `expected_version` is passed to `TableOperations.create` as the argument `expected`.
    """

    expected_version: CreationVersion | None = None

    def put(self) -> Put | Unknown | CommitConflict:
        metadata, updates = self.base.metadata, self._snapshot_updates()
        put = self.operations.create(apply_updates(metadata, updates) if updates else metadata, self.expected_version)
        if isinstance(put, CommitConflict) and isinstance(self.operations, DirectoryOperations):
            return withdraw_creation(self.operations, self.table, metadata.table_uuid) or put
        return put

    def rebase(self) -> Literal[Put.CREATED] | CommitConflict:
        newest = self.operations.current()
        if newest is not None and newest.metadata.table_uuid == self.base.metadata.table_uuid:
            return Put.CREATED
        if newest is None:
            return MetadataChanged(self.table, _NO_SNAPSHOT, "DROP TABLE", "the table was dropped")
        version = newest.metadata.current_snapshot_id or _NO_SNAPSHOT
        return MetadataChanged(self.table, version, "another commit", "the table exists already")


def _is_serializable(base: IcebergSnapshot, change: CommitRequest) -> bool:
    """Return whether concurrently added rows that the change would have read are a conflict (`write.<operation>.isolation-level`)."""
    if change.replace or change.restored is not None or (change.definition is not None and change.files.empty):
        return True
    return base.settings.isolation_level(change.operation) == "serializable"


def _moves_within_partitions(base: IcebergSnapshot, change: CommitRequest) -> bool:
    """Return whether the change only moves rows to other files, from files of the current partition spec."""
    if change.data_change:
        return False
    return all(entry.file.spec_id == base.metadata.default_spec_id for entry in base.live.by_path(change.files.removed).values())


def _definition_difference(old: TableMetadata, new: TableMetadata, change: CommitRequest) -> str:
    """Return the first difference between two definitions of a table as a clause, or an empty string if they are equal.

    A concurrent COPY INTO adds properties, which matter only to a replacement of the table.
    """
    old_properties, new_properties = dict(old.properties), dict(new.properties)
    if not change.replace:
        old_properties, new_properties = without_copied_files(old_properties), without_copied_files(new_properties)
    aspects = {
        "it is another table": (old.table_uuid, new.table_uuid),
        "its schema changed": (old.current_schema_id, new.current_schema_id),
        "its partitioning changed": (old.default_spec_id, new.default_spec_id),
        "its sort order changed": (old.default_sort_order_id, new.default_sort_order_id),
        "its format version changed": (old.format_version, new.format_version),
        "its location changed": (old.location, new.location),
        "its properties changed": (old_properties, new_properties),
    }
    return next((clause for clause, (old_value, new_value) in aspects.items() if old_value != new_value), "")
