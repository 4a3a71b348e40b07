"""Find the conflict of a planned commit with a concurrent commit: one rule for each kind of conflict.

The rules follow delta-spark's conflict checker, in its order. Where delta-spark compares partitions alone, these rules compare statistics,
too. Where it compares files, these rules compare rows. Both commits stand if the planned one would do the same after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.commits.concurrent_commits import ConcurrentCommit
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.snapshots.file_listing import list_files
from rowmerge.errors import (
    CommitConflict,
    ConcurrentAppend,
    ConcurrentDeleteDelete,
    ConcurrentDeleteRead,
    ConcurrentTransaction,
    MetadataChanged,
    ProtocolChanged,
)
from rowmerge.table.commits.conflict_details import named_files, named_rows
from rowmerge.table.commits.request import Reads
from rowmerge.table.snapshots.files import FileListing, FileMask, Positions

_DELETED_ROWS = "deleted or updated rows that this statement"


@dataclass(frozen=True)
class PlannedCommit:
    """What the rules compare of a commit before its put: the files that it removes, the rows that it deletes in other files, …"""

    table: str
    location: str
    metadata: Metadata
    reads: Reads
    removed: frozenset[str]
    deleted: Mapping[str, Positions]
    data_change: bool
    serializable: bool
    domains: frozenset[str] = frozenset()
    application: str | None = None

    @property
    def changed_paths(self) -> frozenset[str]:
        return self.removed | self.deleted.keys()


def find_conflict(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return the error of the first rule that a concurrent commit breaks, None if both commits can stand."""
    conflicts = (rule(concurrent, planned) for rule in RULES)
    return next((conflict for conflict in conflicts if conflict is not None), None)


def protocol_stays(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    return _conflict(ProtocolChanged, concurrent, planned) if concurrent.has_protocol else None


def metadata_stays(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    return _conflict(MetadataChanged, concurrent, planned) if concurrent.has_metadata else None


def domains_differ(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    common_domains = sorted(concurrent.domains & planned.domains)
    return _conflict(MetadataChanged, concurrent, planned, f"the metadata domain {common_domains[0]}") if common_domains else None


def transactions_differ(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    if planned.application is None or planned.application not in concurrent.applications:
        return None
    return _conflict(ConcurrentTransaction, concurrent, planned, f"application {planned.application}")


def nothing_read_was_added(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ConcurrentAppend if a new file may have rows that the planned commit would have read."""
    # A blind append counts only under Serializable, because it can as well come after the planned commit.
    is_later_append = concurrent.is_blind_append and not planned.serializable
    if planned.reads.may_match is None or not planned.data_change or is_later_append:
        return None
    new_files = _new_files(concurrent, planned.reads)
    if not new_files.num_rows:
        return None
    listing = list_files(LiveFiles.of(new_files), planned.location, planned.metadata, planned.reads.columns)
    matching_files = _select_matching(listing, planned.reads.may_match, planned.reads.matching)
    return _conflict(ConcurrentAppend, concurrent, planned, named_files(matching_files.paths)) if len(matching_files) else None


def _new_files(concurrent: ConcurrentCommit, reads: Reads) -> pa.Table:
    """Return the files that a concurrent commit added with a change of data."""
    # A file that was read and gets another deletion vector is not new: `nothing_read_was_removed` compares its rows.
    read_paths = pa.array(sorted(reads.paths & concurrent.removed_paths), pa.string())
    is_read = pc.is_in(concurrent.added_paths, value_set=read_paths)
    return concurrent.added.filter(pc.and_(pc.fill_null(concurrent.added["dataChange"], True), pc.invert(is_read)))


def _select_matching(listing: FileListing, may_match: FileMask, matching: FileMask | None) -> FileListing:
    """Return the files that the statistics cannot exclude. `matching` reads their rows, unless a file has deleted rows."""
    candidates = listing.filter(pc.fill_null(may_match(listing), True))
    has_deleted_rows = pc.any(pc.greater(candidates.deleted, 0)).as_py()
    if not len(candidates) or matching is None or has_deleted_rows:
        return candidates
    return candidates.filter(matching(candidates))


def nothing_read_was_removed(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ConcurrentDeleteRead if the concurrent commit deleted a file or row on which the planned commit depends."""
    decided_by_all_rows = planned.reads.rows is None
    rows_by_path = planned.reads.rows or {}
    for path in sorted(planned.reads.paths & concurrent.removed_paths):
        read_rows, deleted_rows = rows_by_path.get(path, Positions()), concurrent.newly_deleted(path)
        if deleted_rows is None:
            if decided_by_all_rows or read_rows or path in planned.changed_paths:
                return _conflict(ConcurrentDeleteRead, concurrent, planned, path)
            continue
        common_rows = deleted_rows if decided_by_all_rows else deleted_rows & read_rows
        if common_rows:
            return _conflict(ConcurrentDeleteRead, concurrent, planned, named_rows(common_rows, path), f"{_DELETED_ROWS} read")
    return None


def nothing_was_removed_twice(concurrent: ConcurrentCommit, planned: PlannedCommit) -> CommitConflict | None:
    """Return ConcurrentDeleteDelete if a file that the planned commit removes has changed, or a row that it deletes is deleted."""
    for path in sorted(planned.changed_paths & concurrent.removed_paths):
        deleted_rows = concurrent.newly_deleted(path)
        if deleted_rows is None or path in planned.removed:
            return _conflict(ConcurrentDeleteDelete, concurrent, planned, path)
        if common_rows := deleted_rows & planned.deleted[path]:
            return _conflict(ConcurrentDeleteDelete, concurrent, planned, named_rows(common_rows, path), f"{_DELETED_ROWS} changes")
    return None


RULES: tuple[Callable[[ConcurrentCommit, PlannedCommit], CommitConflict | None], ...] = (
    protocol_stays,
    metadata_stays,
    domains_differ,
    transactions_differ,
    nothing_read_was_added,
    nothing_read_was_removed,
    nothing_was_removed_twice,
)


def _conflict(
    kind: type[CommitConflict], concurrent: ConcurrentCommit, planned: PlannedCommit, detail: str = "", rule: str = ""
) -> CommitConflict:
    return kind(planned.table, concurrent.version, concurrent.operation, detail, rule)
