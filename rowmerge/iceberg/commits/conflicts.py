"""Concurrent commits, and the conflicts of a change with them: one rule for each kind of conflict.

The rules follow the validations of Iceberg's RowDelta and OverwriteFiles (docs of `write.<operation>.isolation-level`). Iceberg decides by
file; these rules decide by statistics and by row. Both commits can stand if the change would have been the same had it started after the
other commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import pyarrow.compute as pc
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from rowmerge.errors import CommitConflict, ConcurrentAppend, ConcurrentDeleteDelete, ConcurrentDeleteRead, ConcurrentTransaction
from rowmerge.iceberg.deletes.deletion_vectors import read_deletion_vectors
from rowmerge.iceberg.deletes.position_deletes import read_position_deletes
from rowmerge.iceberg.manifests.content import Content, Entry, Status
from rowmerge.iceberg.manifests.manifest_files import read_manifest, read_manifest_list
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import APPLICATION
from rowmerge.iceberg.metadata.refs import ancestors, summary_properties
from rowmerge.storage.store import Storage
from rowmerge.table.commits.request import Reads, named_files, named_rows
from rowmerge.table.snapshots.files import FileListing, Positions

REPLACE = "replace"
"""The operation of a snapshot that writes the same rows to other files."""


@dataclass(frozen=True)
class ConcurrentCommit:
    """A snapshot of another statement, with the entries of the data files and delete files that it added and removed."""

    snapshot: Snapshot
    entries: tuple[Entry, ...]
    storage: Storage

    @property
    def operation(self) -> str:
        summary = self.snapshot.summary
        return "a commit" if summary is None else summary.additional_properties.get("rowmerge.operation", summary.operation.value)

    @property
    def only_moves_rows(self) -> bool:
        """Return whether no row changed, only the files that contain the rows."""
        return self.snapshot.summary is not None and self.snapshot.summary.operation.value == REPLACE

    @property
    def added(self) -> tuple[Entry, ...]:
        """Return the added data files."""
        return self._entries_of(Status.ADDED, Content.DATA)

    @cached_property
    def removed_paths(self) -> frozenset[str]:
        """Return the absolute paths of the removed data files."""
        return frozenset(plain_path(entry.file.path) for entry in self._entries_of(Status.DELETED, Content.DATA))

    @property
    def removes_rows(self) -> bool:
        """Return whether data files were removed, or delete files were added. Both may also be the result of a compaction."""
        return bool(self.removed_paths) or any(
            entry.status is Status.ADDED and entry.file.content is not Content.DATA for entry in self.entries
        )

    @property
    def equality_deletes(self) -> tuple[Entry, ...]:
        return self._entries_of(Status.ADDED, Content.EQUALITY_DELETES)

    @cached_property
    def newly_deleted_rows(self) -> dict[str, Positions]:
        """Return the rows that the commit deleted in remaining data files, by the path of the data file.

        These are the rows of added delete files, without the rows of the delete files that they replace.
        """
        in_added = self._positions_in(self._entries_of(Status.ADDED, Content.POSITION_DELETES))
        in_replaced = self._positions_in(self._entries_of(Status.DELETED, Content.POSITION_DELETES))
        deleted = {path: positions - in_replaced.get(path, Positions()) for path, positions in in_added.items()}
        return {path: positions for path, positions in deleted.items() if positions}

    def _entries_of(self, status: Status, content: Content) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.status == status and entry.file.content == content)

    def _positions_in(self, deletes: tuple[Entry, ...]) -> dict[str, Positions]:
        """Return the deleted positions of each data file."""
        by_path: dict[str, Positions] = defaultdict(Positions)
        vectors = [delete.file for delete in deletes if delete.file.format.upper() == "PUFFIN"]
        files = [delete.file for delete in deletes if delete.file.format.upper() != "PUFFIN"]
        for deleted in (read_position_deletes(self.storage, files), read_deletion_vectors(self.storage, vectors)):
            for path, positions in deleted.items():
                by_path[path] |= positions
        return by_path


def concurrent_commits(
    storage: Storage, metadata: TableMetadata, newest_id: int | None, base_id: int | None
) -> list[ConcurrentCommit] | None:
    """Return the commits after one snapshot up to another one, oldest first, with the files that they added and removed.

    Args:
        storage: The storage of the table.
        metadata: The newest metadata of the table.
        newest_id: The id of the last snapshot, or None if the branch has no snapshot.
        base_id: The id of the snapshot before the first commit, or None to start with the first snapshot of the table.

    Returns:
        The commits, or None if `base_id` is not an ancestor of `newest_id` or snapshots between them have expired.

    Raises:
        CorruptLog: A manifest or manifest list is damaged or missing.
        StorageError: A manifest or manifest list cannot be read.
    """
    snapshots = list(takewhile(lambda snapshot: snapshot.snapshot_id != base_id, ancestors(metadata, newest_id)))
    if not snapshots:
        return [] if newest_id == base_id else None
    oldest = snapshots[-1]
    # Without a base, the oldest snapshot must be the first one of the table, and not one whose parent has expired.
    continues_base = oldest.parent_snapshot_id == base_id and (base_id is not None or is_first(storage, oldest))
    return [read_commit(storage, snapshot) for snapshot in reversed(snapshots)] if continues_base else None


def is_first(storage: Storage, snapshot: Snapshot) -> bool:
    """Return whether a snapshot without a parent contains no files of older snapshots. Some writers remove the id of an expired parent."""
    manifests = read_manifest_list(storage, snapshot.manifest_list)
    return all(manifest.added_snapshot_id == snapshot.snapshot_id and manifest.existing_files == 0 for manifest in manifests)


def read_commit(storage: Storage, snapshot: Snapshot) -> ConcurrentCommit:
    """Return the commit of a snapshot, with the files that it added and removed.

    Args:
        storage: The storage of the table.
        snapshot: The snapshot.

    Raises:
        CorruptLog: A manifest or the manifest list is damaged or missing.
        StorageError: A manifest or the manifest list cannot be read.
    """
    manifests = read_manifest_list(storage, snapshot.manifest_list)
    own_manifests = [manifest for manifest in manifests if manifest.added_snapshot_id == snapshot.snapshot_id]
    entries = [entry for manifest in own_manifests for entry in read_manifest(storage, manifest)]
    changes = (entry for entry in entries if entry.status != Status.EXISTING and entry.snapshot_id == snapshot.snapshot_id)
    return ConcurrentCommit(snapshot, tuple(changes), storage)


@dataclass(frozen=True)
class PlannedCommit:
    """The data about a change that the conflict rules need: the files that it removes, and the rows that it deletes in remaining files.

    `list_added_files` returns a listing of the data files that a concurrent commit added, with the bounds that `reads.may_match` compares.
    `compaction_output_paths` are the files to which concurrent compactions moved rows that the change read.
    """

    table: str
    reads: Reads
    removed_paths: frozenset[str]
    deleted_rows: Mapping[str, Positions]
    data_change: bool
    is_serializable: bool
    list_added_files: Callable[[Sequence[Entry]], FileListing]
    application_id: str | None = None
    moves_within_partitions: bool = False
    """Whether the change only moves rows to other files of the same partition spec."""
    compaction_output_paths: frozenset[str] = frozenset()

    def depends_on_rows_of(self, path: str) -> bool:
        """Return whether the change depends on rows of a data file that it read. If `reads.rows` is None, it depends on all rows."""
        return self.reads.rows is None or bool(self.reads.rows.get(path))

    @property
    def changed_paths(self) -> frozenset[str]:
        """Return the paths of the data files that the change removes, or from which it deletes rows."""
        return self.removed_paths | self.deleted_rows.keys()

    def rebased_on(self, concurrent: ConcurrentCommit) -> PlannedCommit:
        """Return the planned commit to compare with the commits after a concurrent one.

        If a compaction removed files that the change read, it moved their rows to new files. Later deletes in the new files may affect
        these rows, so the planned commit records the new files (`compaction_output_paths`).
        """
        if not concurrent.only_moves_rows or concurrent.removed_paths.isdisjoint(self.reads.paths | self.compaction_output_paths):
            return self
        new_paths = {plain_path(entry.file.path) for entry in concurrent.added}
        return replace(self, compaction_output_paths=self.compaction_output_paths | new_paths)

    def deletes_in_same_files(self, concurrent: ConcurrentCommit) -> bool:
        """Return whether both commits delete rows in the same remaining file. Delete files are only read if the change deletes rows."""
        return bool(self.deleted_rows) and not self.deleted_rows.keys().isdisjoint(concurrent.newly_deleted_rows)


def find_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return the first conflict between a concurrent commit and a change, or None if both commits can stand.

    Args:
        concurrent: A commit since the version on which the change was planned.
        planned: The change, rebased on all earlier concurrent commits.
    """
    conflicts = (rule(concurrent, planned) for rule in RULES)
    return next((conflict for conflict in conflicts if conflict is not None), None)


def transaction_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return a conflict if both commits are transactions of one application.

    Args:
        concurrent: A commit since the version on which the change was planned.
        planned: The change.
    """
    application_id = summary_properties(concurrent.snapshot).get(APPLICATION)
    if planned.application_id is None or planned.application_id != application_id:
        return None
    return _conflict(ConcurrentTransaction, concurrent, planned, f"application {application_id}")


def added_rows_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return a conflict if the concurrent commit added a file with rows that the change would have read.

    Under snapshot isolation, such rows are allowed (`_forbids_added_rows`). The rule compares the condition of the change first with the
    column bounds of the added files, then with their rows.

    Args:
        concurrent: A commit since the version on which the change was planned.
        planned: The change. Without `reads.may_match` it is a blind append, which reads no file.
    """
    if planned.reads.may_match is None or not _forbids_added_rows(concurrent, planned):
        return None
    added_files = planned.list_added_files(concurrent.added)
    # Null means that the bounds decide nothing, so the file may match.
    matching_files = added_files.filter(pc.fill_null(planned.reads.may_match(added_files), True))
    if len(matching_files) and planned.reads.has_matching_rows is not None:
        matching_files = matching_files.filter(planned.reads.has_matching_rows(matching_files))
    if not len(matching_files):
        return None
    return _conflict(ConcurrentAppend, concurrent, planned, named_files(matching_files.paths))


def _forbids_added_rows(concurrent: ConcurrentCommit, planned: PlannedCommit) -> bool:
    """Return whether the added rows of a concurrent commit are a conflict if the change would have read them.

    A compaction adds files but no rows, and a change that only moves rows reads no condition. Snapshot isolation allows added rows, unless
    a MERGE added them. If two MERGEs find no row with the same key, only one of them may insert it.
    """
    is_checked = planned.is_serializable or concurrent.operation == "MERGE"
    return is_checked and planned.data_change and bool(concurrent.added) and not concurrent.only_moves_rows


def removed_rows_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return a conflict if the concurrent commit deleted rows that the change read, either with their data file or by a delete file.

    Args:
        concurrent: A commit since the version on which the change was planned.
        planned: The change.
    """
    for path in sorted(planned.reads.paths & concurrent.removed_paths):
        # A compaction also removes a file, but moves its rows, so it deletes none of the rows that the change read.
        deletes_read_rows = planned.depends_on_rows_of(path) and not concurrent.only_moves_rows
        # After any removal, the change can no longer delete rows of the file.
        if deletes_read_rows or path in planned.changed_paths:
            return _conflict(ConcurrentDeleteRead, concurrent, planned, path)
    return _deletes_of_read_rows_conflict(concurrent, planned)


def _deletes_of_read_rows_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return a conflict if the concurrent commit added delete files for rows that the change read. The data files remain."""
    read_rows = planned.reads.rows
    for path in sorted(planned.reads.paths & concurrent.newly_deleted_rows.keys()):
        conflicting_rows = concurrent.newly_deleted_rows[path]
        if read_rows is not None:
            conflicting_rows = conflicting_rows & read_rows.get(path, Positions())
        if conflicting_rows:
            action = "deleted or updated rows that this statement read"
            return _conflict(ConcurrentDeleteRead, concurrent, planned, named_rows(conflicting_rows, path), action)
    return None


def moved_rows_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return a conflict if rows were deleted in files to which earlier compactions moved rows that the change read.

    For example, the change read file A, and three concurrent commits follow:

    1. A compaction moves the rows of A to file B. No conflict: `PlannedCommit.rebased_on` adds B to `compaction_output_paths`.
    2. A compaction moves the rows of B to file C. No conflict: `rebased_on` adds C, too.
    3. DELETE removes a row of C. This is a conflict. The metadata does not show which rows came from A, so the row may be one of them.

    Args:
        concurrent: A commit since the version on which the change was planned.
        planned: The change, with the `compaction_output_paths` of all earlier concurrent commits.
    """
    # A compaction removes files, but no rows.
    removed_paths = frozenset() if concurrent.only_moves_rows else concurrent.removed_paths
    conflicting_paths = planned.compaction_output_paths & (removed_paths | concurrent.newly_deleted_rows.keys())
    return _conflict(ConcurrentDeleteRead, concurrent, planned, min(conflicting_paths)) if conflicting_paths else None


def double_removal_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return a conflict if both commits delete the same row, or if one removes a file from which the other deletes rows.

    The files that the change removes, or from which it deletes rows, are its `changed_paths`. Both commits may delete different rows from
    the same remaining file, because the second commit keeps the deletions of the first.

    Args:
        concurrent: A commit since the version on which the change was planned.
        planned: The change.
    """
    # The concurrent commit removed a file that the change also removes, or from which it deletes rows.
    removed_paths = planned.changed_paths & concurrent.removed_paths
    if removed_paths:
        return _conflict(ConcurrentDeleteDelete, concurrent, planned, min(removed_paths))
    # The concurrent commit deleted rows from a file that the change removes, or from which it also deletes rows.
    for path in sorted(planned.changed_paths & concurrent.newly_deleted_rows.keys()):
        if path in planned.removed_paths:
            # The change may have copied the deleted rows to another file.
            return _conflict(ConcurrentDeleteDelete, concurrent, planned, path)
        rows_of_both = concurrent.newly_deleted_rows[path] & planned.deleted_rows[path]
        if rows_of_both:
            action = "deleted or updated rows that this statement changes"
            return _conflict(ConcurrentDeleteDelete, concurrent, planned, named_rows(rows_of_both, path), action)
    return None


def equality_deletes_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return a conflict if equality deletes were added, and the change read or changed files.

    Only a scan would show whether they delete rows of these files, so the rule assumes that they do. A change that only moves rows within
    their partitions has no conflict. Its new files keep the old sequence number, so the equality deletes apply to them, too.

    Args:
        concurrent: A commit since the version on which the change was planned.
        planned: The change.
    """
    depends_on_files = bool(planned.reads.paths or planned.changed_paths)
    if not concurrent.equality_deletes or not depends_on_files or planned.moves_within_partitions:
        return None
    return _conflict(ConcurrentDeleteRead, concurrent, planned, concurrent.equality_deletes[0].file.path)


RULES: tuple[Callable[[ConcurrentCommit, PlannedCommit], CommitConflict | None], ...] = (
    transaction_conflict,
    added_rows_conflict,
    removed_rows_conflict,
    moved_rows_conflict,
    double_removal_conflict,
    equality_deletes_conflict,
)


def _conflict(
    kind: type[CommitConflict], concurrent: ConcurrentCommit, planned: PlannedCommit, detail: str = "", action: str = ""
) -> CommitConflict:
    return kind(planned.table, concurrent.snapshot.snapshot_id, concurrent.operation, detail, action)
