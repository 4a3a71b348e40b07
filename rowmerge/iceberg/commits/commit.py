"""Making a change the table's next metadata: files of the snapshot, updates, and what to do when others were first."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    TableUpdate,
)

from rowmerge.concurrency import run_concurrently
from rowmerge.errors import CommitConflict, ConcurrentDeleteDelete, MetadataChanged, VersionNotFound
from rowmerge.iceberg.catalogs.operations import Current, DirectoryOperations, TableOperations
from rowmerge.iceberg.commits.concurrent_commits import winners
from rowmerge.iceberg.commits.conflicts import Ours, find_conflict
from rowmerge.iceberg.commits.drop import withdraw_creation
from rowmerge.iceberg.commits.snapshot_entry import new_snapshot
from rowmerge.iceberg.commits.snapshot_files import Place, SnapshotFiles
from rowmerge.iceberg.manifests.content import UNASSIGNED, Entry
from rowmerge.iceberg.metadata.definition import changing_updates, replacing_updates
from rowmerge.iceberg.metadata.refs import MAIN, branch_at, head_of
from rowmerge.iceberg.metadata.updates import ROW_LINEAGE, updated
from rowmerge.iceberg.snapshots.file_listing import list_files
from rowmerge.iceberg.snapshots.live_files import LiveFiles, live_files
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot
from rowmerge.storage.store import Put
from rowmerge.table.commits.commit import commit
from rowmerge.table.commits.creation import CreationVersion
from rowmerge.table.commits.request import Change, Outcome, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileListing, Positions

logger = logging.getLogger(__name__)


@dataclass
class Commit:
    """One change on its way into a table's metadata."""

    operations: TableOperations
    table: str
    base: IcebergSnapshot
    change: Change

    def __post_init__(self) -> None:
        self.snapshot_id = uuid.uuid4().int >> 65
        self._definition = self._definition_updates()
        self._head = self.base.current

    def run(self) -> Outcome:
        """Write the snapshot's files and put the metadata, behind others' commits where they do not conflict.

        Raises StorageError, CorruptLog and what the definition raises when it is certain that nothing was committed.
        """
        return commit(self, self.operations.storage, self.change.files)

    # ------------------------------------------------------------------ steps of the protocol

    @property
    def version(self) -> int:
        if self.change.restored is not None:
            return self.change.restored.version
        if self._makes_snapshot:
            return self.snapshot_id
        return 0 if self.change.replace else self._id(self._head.metadata) or 0

    def put(self) -> Put | Unknown | CommitConflict:
        steps: list[Callable[[], Any]] = [
            partial(self._snapshot_updates, self._head, self._live),
            partial(self.operations.is_followed, self._head),
        ]
        updates, followed = run_concurrently(steps)
        return Put.EXISTED if followed else self.operations.commit(self._head, (*self._definition, *updates))

    def follow(self) -> int | CommitConflict | None:
        newest = self.operations.current()
        if newest is None:
            return MetadataChanged(self.table, 0, "DROP TABLE", "the table is gone")
        if self.branch not in newest.metadata.refs and self.branch != MAIN:
            return MetadataChanged(self.table, 0, "DROP BRANCH", f"the branch {self.branch} is gone")
        if newest.metadata.snapshot_by_id(self.snapshot_id) is not None:
            return None
        conflict, rebased = self._against(self._head, newest)
        if conflict is not None:
            return conflict
        if self._id(newest.metadata) != self._id(self._head.metadata):
            storage, live = self.operations.storage, self._live
            self._live = live_files(storage, head_of(newest.metadata, self.branch), live.unpartitioned, live)
            if (conflict := self._gone(self._live, newest.metadata)) is not None:
                return conflict
        self._head = newest
        return rebased

    def discard(self) -> None:
        self._files.discard()

    def discard_superseded(self) -> None:
        self._files.discard_superseded()

    @cached_property
    def _live(self) -> LiveFiles:
        """The files of the head, with which the next snapshot goes on."""
        return self.base.live

    # ------------------------------------------------------------------ conflicts

    def _against(self, head: Current, newest: Current) -> tuple[CommitConflict | None, int]:
        """The conflict with what came between, and how many of these snapshots deleted other rows in files that we mark too."""
        if what := _what_changed(head.metadata, newest.metadata):
            return MetadataChanged(self.table, self._id(newest.metadata) or 0, "a commit", what), 0
        since = winners(self.operations.storage, newest.metadata, self._id(newest.metadata), self._id(head.metadata))
        if since is None:
            return MetadataChanged(self.table, self._id(newest.metadata) or 0, "a commit", "its history is another one"), 0
        rebased = 0
        for winner in since:
            ours = self._ours
            if (conflict := find_conflict(winner, ours)) is not None:
                return conflict, 0
            rebased += bool(ours.deleted.keys() & winner.newly_deleted.keys()) if ours.deleted else 0
            self._ours = ours.after(winner)
        return None, rebased

    def _gone(self, live: LiveFiles, newest: TableMetadata) -> CommitConflict | None:
        """A file that we change and that is not there, whatever the snapshots between tell: a writer may leave a manifest out unsaid."""
        touched = self._ours.touched
        gone = touched - live.by_path(touched).keys()
        return ConcurrentDeleteDelete(self.table, self._id(newest) or 0, "a commit", min(gone)) if gone else None

    @property
    def branch(self) -> str:
        return self.base.branch

    def _id(self, metadata: TableMetadata) -> int | None:
        """The newest snapshot of the branch that the change was planned on."""
        head = head_of(metadata, self.branch)
        return None if head is None else head.snapshot_id

    @cached_property
    def _ours(self) -> Ours:
        change, base = self.change, self.base
        known = base.deleted_positions(list(change.files.deleted)) if change.files.deleted else {}
        everything = change.replace or change.restored is not None
        definition_alone = change.definition is not None and change.files.empty

        specs = {entry.file.spec_id for entry in base.live.by_path(change.files.removed).values()}

        def listed(entries: Sequence[Entry]) -> FileListing:
            files = LiveFiles(self.operations.storage, data=tuple(entries))
            return list_files(files, entries, base.iceberg_schema, base.schema, base.metadata.spec(), change.reads.columns)

        return Ours(
            table=self.table,
            reads=change.reads,
            # A replacement takes out whatever is there by then.
            removed=frozenset() if change.replace else frozenset(change.files.removed),
            deleted={path: rows - known.get(path, Positions()) for path, rows in change.files.deleted.items()},
            data_change=change.data_change,
            serializable=everything or definition_alone or base.settings.isolation_level(change.operation) == "serializable",
            listed=listed,
            application=change.transaction[0] if change.transaction else None,
            moves_within_partitions=not change.data_change and specs <= {base.metadata.default_spec_id},
        )

    # ------------------------------------------------------------------ updates

    def _definition_updates(self) -> tuple[TableUpdate, ...]:
        if self.change.replace:
            return replacing_updates(self.table, self.base.metadata, self.change.definition or TableDefinition())
        if self.change.definition is not None:
            return changing_updates(self.table, self.base.metadata, self.change.definition)
        return ()

    @cached_property
    def after(self) -> TableMetadata:
        """The table as the snapshot's files find it."""
        return updated(self.base.metadata, self._definition) if self._definition else self.base.metadata

    @cached_property
    def _files(self) -> SnapshotFiles:
        change, at = self.change, self.base.at
        # Rows that were only moved are as old as the snapshot they were read in: equality deletes that came since apply to them.
        moved = not change.data_change and bool(change.files.removed) and at is not None and self.after.format_version > 1
        age = at.sequence_number if moved and at is not None else None
        return SnapshotFiles(self.operations.storage, self.after, self.snapshot_id, change.files.added, UNASSIGNED if age is None else age)

    @property
    def _makes_snapshot(self) -> bool:
        change = self.change
        if change.replace:
            return bool(change.files.added) or change.transaction is not None
        return not change.files.empty or change.transaction is not None

    def _snapshot_updates(self, head: Current, live: LiveFiles) -> tuple[TableUpdate, ...]:
        change = self.change
        if change.restored is not None:
            if head.metadata.snapshot_by_id(change.restored.version) is None:
                raise VersionNotFound(f"The snapshot {change.restored.version} of {self.table} expired meanwhile. See DESCRIBE HISTORY.")
            return (branch_at(head.metadata, self.branch, change.restored.version),)
        emptied = (RemoveSnapshotRefUpdate(ref_name=MAIN),) if change.replace and head.metadata.current_snapshot_id is not None else ()
        if not self._makes_snapshot:
            return emptied
        parent = None if change.replace else head_of(head.metadata, self.branch)
        before = LiveFiles(self.operations.storage) if change.replace else live
        removed = () if change.replace else change.files.removed
        made = self._files.produce(before, removed, change.files.deleted, self._place(head.metadata, parent))
        snapshot = new_snapshot(head.metadata, change, made, parent, self.snapshot_id, self.after.current_schema_id)
        return (*emptied, AddSnapshotUpdate(snapshot=snapshot), branch_at(head.metadata, self.branch, snapshot.snapshot_id))

    def _place(self, head: TableMetadata, parent: IcebergVersion | None) -> Place:
        place = Place.after(head, parent)
        upgrades = place.first_row_id is None and self.after.format_version >= ROW_LINEAGE
        return replace(place, first_row_id=0) if upgrades else place


@dataclass
class Creation(Commit):
    """The first commit of a table, with its rows if there are any. `base` has the new table's metadata and no snapshot.

    `version_before_writing`: see `TableOperations.create`.
    """

    version_before_writing: CreationVersion | None = None

    def put(self) -> Put | Unknown | CommitConflict:
        metadata = self.base.metadata
        updates = self._snapshot_updates(self.base.current, self._live)
        put = self.operations.create(updated(metadata, updates) if updates else metadata, self.version_before_writing)
        if isinstance(put, CommitConflict) and isinstance(self.operations, DirectoryOperations):
            return withdraw_creation(self.operations, self.table, metadata.table_uuid) or put
        return put

    def follow(self) -> CommitConflict | None:
        newest = self.operations.current()
        if newest is not None and newest.metadata.table_uuid == self.base.metadata.table_uuid:
            return None
        if newest is None:
            return MetadataChanged(self.table, 0, "DROP TABLE", "the table was dropped")
        return MetadataChanged(self.table, newest.metadata.current_snapshot_id or 0, "another commit", "the table exists already")

    @cached_property
    def _live(self) -> LiveFiles:
        return LiveFiles(self.operations.storage)


def creation(
    operations: TableOperations, table: str, metadata: TableMetadata, change: Change, version: CreationVersion | None = None
) -> Outcome:
    """Create a table, with its rows if there are any. `version`: see `TableOperations.create`.

    Raises StorageError when certainly nothing was created.
    """
    base = IcebergSnapshot(operations.storage, table, Current(metadata, "", None), None, metadata.schema())
    return Creation(operations, table, base, change, version_before_writing=version).run()


def _what_changed(old: TableMetadata, new: TableMetadata) -> str:
    """What of a table's definition is another one; empty when nothing is."""
    parts = {
        "it is another table": (old.table_uuid, new.table_uuid),
        "its schema changed": (old.current_schema_id, new.current_schema_id),
        "its partitioning changed": (old.default_spec_id, new.default_spec_id),
        "its sort order changed": (old.default_sort_order_id, new.default_sort_order_id),
        "its format version changed": (old.format_version, new.format_version),
        "its location changed": (old.location, new.location),
        "its properties changed": (dict(old.properties), dict(new.properties)),
    }
    return next((told for told, (before, after) in parts.items() if before != after), "")
