"""Find conflicts between a planned commit and a concurrent commit, with one rule for each kind of conflict.

The rules follow delta-spark's conflict checker, in the same order. Where delta-spark compares only partitions, these rules also compare
statistics. Where delta-spark compares files, these rules compare rows. Two commits do not conflict if the planned commit would make the
same change after the concurrent commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.commits.concurrent_commits import ConcurrentCommit, operation_of
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.statistics import CLUSTERING
from rowmerge.delta.metadata.properties import DeltaSettings
from rowmerge.delta.snapshots.file_listing import list_files
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import (
    CommitConflict,
    ConcurrentAppend,
    ConcurrentDeleteDelete,
    ConcurrentDeleteRead,
    ConcurrentTransaction,
    MetadataChanged,
    ProtocolChanged,
)
from rowmerge.table.commits.request import CommitRequest, Reads, named_files, named_rows
from rowmerge.table.metadata.copied_files import RESERVED
from rowmerge.table.snapshots.files import FileListing, Positions


@dataclass(frozen=True)
class PlannedCommit:
    """A change to the version `base` that has not been put yet. The rules compare it with concurrent commits."""

    table: str
    base: DeltaSnapshot
    change: CommitRequest
    settings: DeltaSettings

    @cached_property
    def removed(self) -> frozenset[str]:
        """The paths of the files that the change removes. Empty for a replacement, which removes all files that are live at its commit."""
        return frozenset() if self.change.replace else frozenset(self.change.files.removed)

    @cached_property
    def newly_deleted(self) -> dict[str, Positions]:
        """The rows that the change deletes in remaining files, by path, without the rows that were already deleted in `base`."""
        all_positions = self.change.files.deleted
        base_positions = self.base.deleted_positions(list(all_positions)) if all_positions else {}
        return {path: rows - base_positions.get(path, Positions()) for path, rows in all_positions.items()}

    @cached_property
    def changed_paths(self) -> frozenset[str]:
        return self.removed | self.change.files.deleted.keys()

    @property
    def is_serializable(self) -> bool:
        """Whether the change conflicts with a concurrent blind append, because the append cannot be ordered after the change."""
        # A replacement removes every file, including appended files. A change of only the definition was validated against every row.
        changes_only_definition = self.change.definition is not None and self.change.files.empty
        if sets_all_files(self.change) or changes_only_definition:
            return True
        return self.settings.isolation_level(self.change.operation) == "Serializable"


def sets_all_files(change: CommitRequest) -> bool:
    """Return whether a change defines all files of the new version (a replacement or RESTORE)."""
    return change.replace or change.restored is not None


def find_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return the first conflict between a planned commit and a concurrent commit, in the order of RULES. Return None without a conflict.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    return next(filter(None, (rule(concurrent, planned) for rule in RULES)), None)


def protocol_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ProtocolChanged if the concurrent commit has a `protocol` action.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    return _conflict(ProtocolChanged, concurrent, planned) if concurrent.fields_of("protocol") else None


def metadata_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return MetadataChanged if the concurrent commit has a `metaData` action.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    return _conflict(MetadataChanged, concurrent, planned) if concurrent.fields_of("metaData") else None


def feature_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ConcurrentAppend if the planned commit removes a table feature, and the concurrent commit changes files.

    The new files may use the feature, or have the names that columns have with it.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    step = planned.change.feature_step
    if step is None or step.feature is None or not len(concurrent.added_paths):
        return None
    return _conflict(ConcurrentAppend, concurrent, planned, named_files(concurrent.added_paths.to_pylist()))


def clustering_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return MetadataChanged if both commits set the clustering columns.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    changed_domains = [fields["domain"] for fields in concurrent.fields_of("domainMetadata")]
    has_conflict = CLUSTERING in changed_domains and sets_all_files(planned.change)
    return _conflict(MetadataChanged, concurrent, planned, f"the metadata domain {CLUSTERING}") if has_conflict else None


def transaction_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ConcurrentTransaction if both commits are transactions of the same application, or COPY INTO of the same file.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    own_ids = {f"{RESERVED}{key}" for key in planned.change.copied_files}
    if planned.change.transaction is not None:
        own_ids.add(planned.change.transaction[0])
    common_ids = [fields["appId"] for fields in concurrent.fields_of("txn") if fields["appId"] in own_ids]
    return _conflict(ConcurrentTransaction, concurrent, planned, f"application {common_ids[0]}") if common_ids else None


def added_rows_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ConcurrentAppend if a concurrently added file may contain rows that the planned commit would have read.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    reads = planned.change.reads
    # Without `may_match`, the command would have read no added file. Without `data_change`, it only moves rows, as OPTIMIZE does.
    if reads.may_match is None or not planned.change.data_change:
        return None
    # Without Serializable, an INSERT that read nothing can be ordered after the planned commit.
    if concurrent.is_blind_append and not planned.is_serializable:
        return None
    # A commit adds a file again to change its deletion vector. Such a file, with a path that was read, is not new.
    new_files = _new_files(concurrent, read_paths=reads.paths)
    if not new_files.num_rows:
        return None
    listing = list_files(LiveFiles.of(new_files), planned.base.storage.location, planned.base.metadata, reads.columns)
    # The mask is null for a file whose statistics are inconclusive. Such a file may match.
    candidates = listing.filter(pc.fill_null(reads.may_match(listing), True))
    matching_files = _files_with_matching_rows(candidates, reads)
    return _conflict(ConcurrentAppend, concurrent, planned, named_files(matching_files.paths)) if len(matching_files) else None


def _files_with_matching_rows(files: FileListing, reads: Reads) -> FileListing:
    """Return the files with at least one row that the command would have read. Return all files if their rows cannot be compared."""
    # `has_matching_rows` reads the rows of files and does not support files with deleted rows (`Reads`).
    has_deleted_rows = pc.any(pc.greater(files.deleted, 0)).as_py()
    if not len(files) or reads.has_matching_rows is None or has_deleted_rows:
        return files
    return files.filter(reads.has_matching_rows(files))


def _new_files(concurrent: ConcurrentCommit, read_paths: frozenset[str]) -> pa.Table:
    """Return the files that a concurrent commit added with `dataChange` and that the planned commit has not read (`read_paths`)."""
    # A file that was read is not new: the commit only changes its deletion vector, and `removed_rows_conflict` compares its rows.
    changed_paths = pa.array(sorted(read_paths & concurrent.removed_paths), pa.string())
    is_changed = pc.is_in(concurrent.added_paths, value_set=changed_paths)
    changes_data = pc.fill_null(concurrent.added_files["dataChange"], True)
    return concurrent.added_files.filter(pc.and_(changes_data, pc.invert(is_changed)))


def removed_rows_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ConcurrentDeleteRead if the concurrent commit deleted a file or row on which the planned commit depends.

    To delete single rows of a file, a commit removes the file and adds it again with a new deletion vector. In this case, the commits
    conflict only if the planned commit read a deleted row. Otherwise, they conflict if the planned commit depends on any row of the file.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    for path in sorted(planned.change.reads.paths & concurrent.removed_paths):
        deleted_rows = concurrent.newly_deleted(path)
        if deleted_rows is None:
            # The concurrent commit removed the whole file or restored some of its rows, so individual rows cannot be compared.
            if _depends_on_file(planned, path):
                return _conflict(ConcurrentDeleteRead, concurrent, planned, detail=path)
            continue
        deleted_read_rows = _select_read_rows(planned.change.reads, path, deleted_rows)
        if deleted_read_rows:
            detail = named_rows(deleted_read_rows, path)
            return _conflict(ConcurrentDeleteRead, concurrent, planned, detail, rule="deleted or updated rows that this statement read")
    return None


def _depends_on_file(planned: PlannedCommit, path: str) -> bool:
    """Return whether the planned commit changes a file or depends on any of its rows."""
    rows = planned.change.reads.rows
    return path in planned.changed_paths or rows is None or bool(rows.get(path))


def _select_read_rows(reads: Reads, path: str, rows: Positions) -> Positions:
    """Return the subset of `rows` on which the command depends. If `reads.rows` is None, the command depends on all rows."""
    return rows if reads.rows is None else rows & reads.rows.get(path, Positions())


def double_removal_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ConcurrentDeleteDelete if both commits delete the same row, or if one removes a file in which the other deletes rows.

    Args:
        concurrent: A commit of another writer after the base version of the planned commit.
        planned: The commit that would follow the concurrent commit.
    """
    for path in sorted(planned.changed_paths & concurrent.removed_paths):
        deleted_rows = concurrent.newly_deleted(path)
        # None: the concurrent commit removed the file or restored some of its rows.
        # A planned commit that removes the file may have copied rows that the concurrent commit deleted.
        if deleted_rows is None or path in planned.removed:
            return _conflict(ConcurrentDeleteDelete, concurrent, planned, detail=path)
        if rows_of_both := deleted_rows & planned.newly_deleted[path]:
            rows = named_rows(rows_of_both, path)
            return _conflict(ConcurrentDeleteDelete, concurrent, planned, rows, rule="deleted or updated rows that this statement changes")
    return None


RULES: tuple[Callable[[ConcurrentCommit, PlannedCommit], CommitConflict | None], ...] = (
    protocol_conflict,
    metadata_conflict,
    feature_conflict,
    clustering_conflict,
    transaction_conflict,
    added_rows_conflict,
    removed_rows_conflict,
    double_removal_conflict,
)


def _conflict(
    kind: type[CommitConflict], concurrent: ConcurrentCommit, planned: PlannedCommit, detail: str = "", rule: str = ""
) -> CommitConflict:
    return kind(planned.table, concurrent.version, operation_of(concurrent.non_file_actions), detail, rule)
