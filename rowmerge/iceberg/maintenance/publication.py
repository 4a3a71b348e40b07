"""Publish staged snapshots: CALL system.publish_changes and cherrypick_snapshot.

The steps follow Iceberg's CherryPickOperation. A snapshot whose parent is the current snapshot becomes the current snapshot. Otherwise,
only an append or a dynamic overwrite can be published: its changes of files are applied to the current snapshot. Other changes, such as a
MERGE, depend on the rows of their parent.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import TableUpdate

from rowmerge.errors import CommitStateUnknown, PlanError, RowmergeError, VersionNotFound
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.conflicts import ConcurrentCommit, concurrent_commits, read_commit
from rowmerge.iceberg.commits.metadata_commit import commit_updates
from rowmerge.iceberg.commits.snapshot_entry import OPERATION, PARAMETERS, REPLACES_PARTITIONS, new_snapshot_id, snapshot_updates
from rowmerge.iceberg.commits.snapshot_files import SnapshotFiles
from rowmerge.iceberg.metadata.partition_values import unpartitioned_spec_ids
from rowmerge.iceberg.metadata.refs import (
    MAIN,
    PUBLISHED_WAP_ID,
    SOURCE_SNAPSHOT_ID,
    WAP_ID,
    ancestors,
    point_branch_at,
    summary_properties,
    transaction_of,
)
from rowmerge.iceberg.snapshots.live_files import live_files
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.metadata.json_objects import decode_json


def staged_snapshot_id(table: str, metadata: TableMetadata, staged_id: str) -> int:
    """Return the id of the snapshot that was staged under an id of `spark.wap.id`.

    Args:
        table: The name of the table in error messages.
        metadata: The current metadata of the table.
        staged_id: The id under which the snapshot was staged.

    Raises:
        VersionNotFound: No snapshot was staged under this id.
        PlanError: Several snapshots were staged under this id, as in Iceberg's `publish_changes`.
    """
    ids_by_snapshot = {snapshot.snapshot_id: summary_properties(snapshot).get(WAP_ID) for snapshot in metadata.snapshots}
    snapshot_ids = [snapshot_id for snapshot_id, id_ in ids_by_snapshot.items() if id_ == staged_id]
    if len(snapshot_ids) > 1:
        ids = ", ".join(map(str, snapshot_ids))
        raise PlanError(
            f"{table} has several snapshots that were staged as {staged_id}: {ids}. Publish each with CALL system.cherrypick_snapshot. "
            f"Next time, stage one statement per id, or use a branch (spark.wap.branch)."
        )
    if not snapshot_ids:
        staged_ids = ", ".join(sorted({id_ for id_ in ids_by_snapshot.values() if id_})) or "none"
        raise VersionNotFound(f"{table} has no snapshot that was staged as {staged_id}. Its staged snapshots are: {staged_ids}.")
    return snapshot_ids[0]


@dataclass
class Publication:
    """The publication of one snapshot on the main branch. `published_id`: the snapshot that the last attempt made current."""

    operations: TableOperations
    table: str
    snapshot_id: int
    published_id: int = field(default=0, init=False)
    _files: SnapshotFiles | None = field(default=None, init=False)

    def commit(self) -> int:
        """Publish the snapshot, and return the id of the current snapshot after it.

        Raises:
            VersionNotFound: The table has no such snapshot.
            PlanError: The snapshot is published already, or its changes do not apply to the current snapshot.
            RowmergeError: The commit failed, as described in `commit_updates`.
        """
        try:
            commit_updates(self.operations, self.table, "the publication of a snapshot", self._updates)
        except CommitStateUnknown:
            raise
        except RowmergeError:
            self._discard()
            raise
        return self.published_id

    def _updates(self, current: CurrentMetadata) -> tuple[TableUpdate, ...]:
        """Return the updates that publish the snapshot on the current metadata. `commit_updates` calls it again after a lost race."""
        self._discard()  # The files of the preceding attempt do not follow the current snapshot.
        metadata, head = current.metadata, current.metadata.current_snapshot()
        source = metadata.snapshot_by_id(self.snapshot_id)
        if source is None:
            raise VersionNotFound(f"{self.table} has no snapshot {self.snapshot_id}. It may have expired.")
        self._check_unpublished(metadata, source)
        self._check_columns(metadata, source)
        current.check_write(self.table)
        if source.parent_snapshot_id == (None if head is None else head.snapshot_id):
            self.published_id = source.snapshot_id
            return (point_branch_at(metadata, MAIN, source.snapshot_id),)
        return self._apply(metadata, head, read_commit(self.operations.storage, source))

    def _check_unpublished(self, metadata: TableMetadata, source: Snapshot) -> None:
        """Raise PlanError if the main branch contains the snapshot, or another one with the same id of `spark.wap.id`."""
        history = list(ancestors(metadata, metadata.current_snapshot_id))
        if any(snapshot.snapshot_id == source.snapshot_id for snapshot in history):
            raise PlanError(f"The main branch of {self.table} already contains the snapshot {source.snapshot_id}.")
        staged_id = summary_properties(source).get(WAP_ID)
        summaries = [summary_properties(snapshot) for snapshot in history]
        if staged_id and any(staged_id in (summary.get(WAP_ID), summary.get(PUBLISHED_WAP_ID)) for summary in summaries):
            raise PlanError(f"The changes of {self.table} that were staged as {staged_id} are published already.")
        if any(summary.get(SOURCE_SNAPSHOT_ID) == str(source.snapshot_id) for summary in summaries):
            raise PlanError(f"The snapshot {source.snapshot_id} of {self.table} is published already.")

    def _check_columns(self, metadata: TableMetadata, source: Snapshot) -> None:
        """Raise PlanError if the table was replaced since the snapshot was written, or requires values of a column that it lacks."""
        source_schema = None if source.schema_id is None else metadata.schema_by_id(source.schema_id)
        if source_schema is None:
            return
        source_ids, schema = set(source_schema.field_ids), metadata.schema()
        new_columns = [field.name for field in schema.fields if field.required and field.field_id not in source_ids]
        if new_columns:
            raise self._inapplicable(f"It has no values of the column {new_columns[0]}, which is NOT NULL")
        if source_ids.isdisjoint(schema.field_ids):
            raise self._inapplicable("The table was replaced after it")

    def _apply(self, metadata: TableMetadata, head: Snapshot | None, source: ConcurrentCommit) -> tuple[TableUpdate, ...]:
        """Write the snapshot with the changes of `source` that follows the current one, and return the updates that add it."""
        source_summary = summary_properties(source.snapshot)
        replaces_partitions = source_summary.get(REPLACES_PARTITIONS) == "true"
        if replaces_partitions:
            self._check_replaced_partitions(metadata, source)
        elif not _is_append(source.snapshot):
            raise self._inapplicable("Only appends, dynamic overwrites, and snapshots whose parent is current can be published")
        storage = self.operations.storage
        removed_paths = source.removed_paths
        live = live_files(storage, head, unpartitioned_spec_ids(metadata))
        if not live.by_path(removed_paths).keys() >= removed_paths:
            raise self._inapplicable("A file that it replaces is no longer in the table")
        published_files = tuple(entry.file for entry in source.added)
        self._files = SnapshotFiles(storage, metadata, new_snapshot_id(), added=(), published=published_files)
        snapshot = self._files.write_snapshot(metadata, head, live, removed_paths, {})
        self.published_id = snapshot.snapshot_id
        origin = {SOURCE_SNAPSHOT_ID: str(source.snapshot.snapshot_id)}
        if WAP_ID in source_summary:
            origin[PUBLISHED_WAP_ID] = str(source_summary[WAP_ID])
        transaction = next(iter(transaction_of(source.snapshot)), None)
        change = CommitRequest(source.operation, replaces_partitions=replaces_partitions, transaction=transaction)
        return snapshot_updates(metadata, MAIN, head, snapshot, change, origin)

    def _check_replaced_partitions(self, metadata: TableMetadata, source: ConcurrentCommit) -> None:
        """Raise PlanError if a commit after the parent of a dynamic overwrite changed a partition that it replaces."""
        parent_id = source.snapshot.parent_snapshot_id
        commits = concurrent_commits(self.operations.storage, metadata, metadata.current_snapshot_id, parent_id)
        if commits is None:
            raise self._inapplicable("Its parent is not an ancestor of the current snapshot")
        partitions = {(entry.file.spec_id, entry.file.partition) for entry in source.entries}
        if any((entry.file.spec_id, entry.file.partition) in partitions for commit in commits for entry in commit.entries):
            raise self._inapplicable("A later commit changed a partition that it replaces")

    def _inapplicable(self, reason: str) -> PlanError:
        advice = "Run its statement again, or write to a branch (spark.wap.branch)."
        return PlanError(f"The snapshot {self.snapshot_id} of {self.table} cannot be published. {reason}. {advice}")

    def _discard(self) -> None:
        """Delete the files of the last attempt, if there was one."""
        if self._files is not None:
            self._files.discard()


def _is_append(snapshot: Snapshot) -> bool:
    """Return whether a snapshot only appends rows, whatever rows the table has.

    The summary of a MERGE or an INSERT OVERWRITE that removed no row says `append`, too. But it may have to remove rows of other snapshots.
    """
    if snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND:
        return False
    properties = summary_properties(snapshot)
    if OPERATION not in properties:  # of another engine
        return True
    try:
        mode = decode_json(str(properties.get(PARAMETERS, "{}"))).get("mode")
    except (ValueError, AttributeError):
        return False
    return properties[OPERATION] == "WRITE" and mode == "Append"
