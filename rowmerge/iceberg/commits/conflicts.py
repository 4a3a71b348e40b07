"""Whether a snapshot that was committed meanwhile can go together with ours: one small rule for each way it cannot.

The model are the validations of Iceberg's RowDelta and OverwriteFiles (docs of `write.<operation>.isolation-level`); what they decide by
file is decided here by statistics and by row. Both commits stand when ours would have done the same had it begun after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from rowmerge.errors import CommitConflict, ConcurrentAppend, ConcurrentDeleteDelete, ConcurrentDeleteRead, ConcurrentTransaction
from rowmerge.iceberg.commits.concurrent_commits import Winner
from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.table.commits.conflict_details import named_files, named_rows
from rowmerge.table.commits.request import Reads
from rowmerge.table.snapshots.files import FileListing, Positions


@dataclass(frozen=True)
class Ours:
    """What the rules need to know of our own commit: the files that we remove, the rows that we delete in files that stay.

    `listed` makes a file listing of entries, with the bounds that `reads.may_match` looks at; `moved`: the files to which compactions
    that committed meanwhile brought rows that we read.
    """

    table: str
    reads: Reads
    removed: frozenset[str]
    deleted: Mapping[str, Positions]
    data_change: bool
    serializable: bool
    listed: Callable[[Sequence[Entry]], FileListing]
    application: str | None = None
    moves_within_partitions: bool = False
    """Whether rows come to other files of the same partition spec, and nothing else happens."""
    moved: frozenset[str] = frozenset()

    @property
    def touched(self) -> frozenset[str]:
        return self.removed | self.deleted.keys()

    def after(self, winner: Winner) -> Ours:
        """As the next winner is to find it: where this one took rows that we read to other files, we have read those."""
        if not winner.replaces or not winner.removed_paths & (self.reads.paths | self.moved):
            return self
        return replace(self, moved=self.moved | {plain_path(entry.file.path) for entry in winner.added})


def find_conflict(winner: Winner, ours: Ours) -> CommitConflict | None:
    """The first rule that a winner breaks, as the error to tell; None when both commits can stand."""
    return next((conflict for rule in RULES if (conflict := rule(winner, ours)) is not None), None)


# ------------------------------------------------------------------ rules


def transactions_differ(winner: Winner, ours: Ours) -> CommitConflict | None:
    summary = winner.snapshot.summary
    theirs = None if summary is None else summary.additional_properties.get("rowmerge.transaction.application")
    same = ours.application is not None and ours.application == theirs
    return _conflict(ConcurrentTransaction, winner, ours, f"application {ours.application}") if same else None


def nothing_read_was_added(winner: Winner, ours: Ours) -> CommitConflict | None:
    """No file that we would have read came in. A compaction brings no rows.

    Under snapshot isolation it may come in, but not from a MERGE: of two that look for one key and insert it, only one is to do so.
    """
    reads = ours.reads
    if reads.may_match is None or not ours.data_change or winner.replaces or not winner.added:
        return None
    if not ours.serializable and winner.operation != "MERGE":
        return None
    listing = ours.listed(winner.added)
    hits = listing.filter(pc.fill_null(reads.may_match(listing), True))
    if len(hits) and reads.matching is not None:
        hits = hits.filter(reads.matching(hits))
    return _conflict(ConcurrentAppend, winner, ours, named_files(hits.paths)) if len(hits) else None


def nothing_read_was_removed(winner: Winner, ours: Ours) -> CommitConflict | None:
    """No file is gone of which a row mattered to us, and no such row from a file that stays."""
    reads = ours.reads
    for path in sorted(reads.paths & winner.removed_paths):
        mattered = None if reads.rows is None else reads.rows.get(path, Positions())
        if (mattered is None or mattered or path in ours.touched) and not (winner.replaces and path not in ours.touched):
            return _conflict(ConcurrentDeleteRead, winner, ours, path)
    for path in sorted(reads.paths & winner.newly_deleted.keys()):
        gone = winner.newly_deleted[path]
        if rows := gone if reads.rows is None else gone & reads.rows.get(path, Positions()):
            return _conflict(ConcurrentDeleteRead, winner, ours, named_rows(rows, path), "deleted or updated rows that this statement read")
    return None


def nothing_moved_was_removed(winner: Winner, ours: Ours) -> CommitConflict | None:
    """Rows that we read and that a compaction took elsewhere have not left from there. Which row went where is not told."""
    left = frozenset() if winner.replaces else winner.removed_paths
    for path in sorted(ours.moved & (left | winner.newly_deleted.keys())):
        return _conflict(ConcurrentDeleteRead, winner, ours, path)
    return None


def nothing_was_removed_twice(winner: Winner, ours: Ours) -> CommitConflict | None:
    """No file that we remove is gone or has lost rows, and no row that we delete in a file that stays."""
    for path in sorted(ours.touched & winner.removed_paths):
        return _conflict(ConcurrentDeleteDelete, winner, ours, path)
    for path in sorted(ours.touched & winner.newly_deleted.keys()):
        gone = winner.newly_deleted[path]
        if path in ours.removed:
            return _conflict(ConcurrentDeleteDelete, winner, ours, path)
        if rows := gone & ours.deleted[path]:
            return _conflict(
                ConcurrentDeleteDelete, winner, ours, named_rows(rows, path), "deleted or updated rows that this statement changes"
            )
    return None


def no_equality_deletes_came(winner: Winner, ours: Ours) -> CommitConflict | None:
    """Equality deletes say which rows left only when rows are read: whoever read or changed any begins again.

    They apply to rows that were only moved to other files of their partitions, too: such files are as old as what they were made of.
    """
    if winner.equality_deletes and not ours.moves_within_partitions and (ours.reads.paths or ours.touched):
        return _conflict(ConcurrentDeleteRead, winner, ours, winner.equality_deletes[0].file.path)
    return None


RULES: tuple[Callable[[Winner, Ours], CommitConflict | None], ...] = (
    transactions_differ,
    nothing_read_was_added,
    nothing_read_was_removed,
    nothing_moved_was_removed,
    nothing_was_removed_twice,
    no_equality_deletes_came,
)


def _conflict(kind: type[CommitConflict], winner: Winner, ours: Ours, detail: str = "", rule: str = "") -> CommitConflict:
    return kind(ours.table, winner.version, winner.operation, detail, rule)
