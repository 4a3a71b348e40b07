"""Whether a commit that was made meanwhile can go together with ours: one small rule for each way it cannot.

The rules follow delta-spark's conflict checker, in its order; what it decides by partition alone is decided here by statistics too, and
what it decides by file is decided by row. Both commits stand when ours would have done the same had it begun after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.commits.concurrent_commits import Winner
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
from rowmerge.table.snapshots.files import Positions


@dataclass(frozen=True)
class Ours:
    """What the rules need to know of our own commit: the files that we remove, and the rows that we delete in files that stay."""

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
    def touched(self) -> frozenset[str]:
        return self.removed | self.deleted.keys()


def find_conflict(winner: Winner, ours: Ours) -> CommitConflict | None:
    """The first rule that a winner breaks, as the error to tell; None when both commits can stand."""
    return next((conflict for rule in RULES if (conflict := rule(winner, ours)) is not None), None)


# ------------------------------------------------------------------ rules


def protocol_stays(winner: Winner, ours: Ours) -> CommitConflict | None:
    return _conflict(ProtocolChanged, winner, ours) if winner.protocol else None


def metadata_stays(winner: Winner, ours: Ours) -> CommitConflict | None:
    return _conflict(MetadataChanged, winner, ours) if winner.metadata else None


def domains_differ(winner: Winner, ours: Ours) -> CommitConflict | None:
    both = sorted(winner.domains & ours.domains)
    return _conflict(MetadataChanged, winner, ours, f"the metadata domain {both[0]}") if both else None


def transactions_differ(winner: Winner, ours: Ours) -> CommitConflict | None:
    same = ours.application is not None and ours.application in winner.applications
    return _conflict(ConcurrentTransaction, winner, ours, f"application {ours.application}") if same else None


def nothing_read_was_added(winner: Winner, ours: Ours) -> CommitConflict | None:
    """No file that we would have read came in. A blind append counts only under Serializable: it can as well have come after us."""
    reads = ours.reads
    if reads.may_match is None or not ours.data_change or (winner.blind_append and not ours.serializable):
        return None
    # A file that we read and whose vector changed is a removed file to us: the next rule's case.
    known = pc.is_in(winner.added_paths, value_set=pa.array(sorted(reads.paths & winner.removed_paths), pa.string()))
    news = winner.added.filter(pc.and_(pc.fill_null(winner.added["dataChange"], True), pc.invert(known)))
    if not news.num_rows:
        return None
    listing = list_files(LiveFiles.of(news), ours.location, ours.metadata, reads.columns)
    hits = listing.filter(pc.fill_null(reads.may_match(listing), True))
    if len(hits) and reads.matching is not None and not pc.any(pc.greater(hits.deleted, 0)).as_py():
        hits = hits.filter(reads.matching(hits))
    return _conflict(ConcurrentAppend, winner, ours, named_files(hits.paths)) if len(hits) else None


def nothing_read_was_removed(winner: Winner, ours: Ours) -> CommitConflict | None:
    """No file is gone of which a row mattered to us, and no such row from a file that stays."""
    reads = ours.reads
    for path in sorted(reads.paths & winner.removed_paths):
        gone = winner.newly_deleted(path)
        mattered = None if reads.rows is None else reads.rows.get(path, Positions())
        if gone is None:
            if mattered is None or mattered or path in ours.touched:
                return _conflict(ConcurrentDeleteRead, winner, ours, path)
        elif rows := gone if mattered is None else gone & mattered:
            return _conflict(ConcurrentDeleteRead, winner, ours, named_rows(rows, path), "deleted or updated rows that this statement read")
    return None


def nothing_was_removed_twice(winner: Winner, ours: Ours) -> CommitConflict | None:
    """No file that we remove is gone or has lost rows, and no row that we delete in a file that stays."""
    for path in sorted(ours.touched & winner.removed_paths):
        gone = winner.newly_deleted(path)
        if gone is None or path in ours.removed:
            return _conflict(ConcurrentDeleteDelete, winner, ours, path)
        if rows := gone & ours.deleted[path]:
            return _conflict(
                ConcurrentDeleteDelete, winner, ours, named_rows(rows, path), "deleted or updated rows that this statement changes"
            )
    return None


RULES: tuple[Callable[[Winner, Ours], CommitConflict | None], ...] = (
    protocol_stays,
    metadata_stays,
    domains_differ,
    transactions_differ,
    nothing_read_was_added,
    nothing_read_was_removed,
    nothing_was_removed_twice,
)


def _conflict(kind: type[CommitConflict], winner: Winner, ours: Ours, detail: str = "", rule: str = "") -> CommitConflict:
    return kind(ours.table, winner.version, winner.operation, detail, rule)
