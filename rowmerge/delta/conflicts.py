"""Whether a commit that was made meanwhile can go together with ours: one small rule for each way it cannot.

The rules follow delta-spark's conflict checker, in its order; what it decides by partition alone is decided here by statistics too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.actions import Metadata
from rowmerge.delta.listing import list_files
from rowmerge.delta.ndjson import Document, file_actions, other_actions
from rowmerge.delta.paths import absolute_paths
from rowmerge.errors import (
    CommitConflict,
    ConcurrentAppend,
    ConcurrentDeleteDelete,
    ConcurrentDeleteRead,
    ConcurrentTransaction,
    MetadataChanged,
    ProtocolChanged,
)
from rowmerge.table.snapshot import Reads


@dataclass(frozen=True)
class Winner:
    """A commit that took a version before us. Paths are absolute and plain; `added` and `removed` are rows of `rowmerge.delta.columns`."""

    version: int
    info: Mapping[str, Any]
    protocol: bool
    metadata: bool
    domains: frozenset[str]
    applications: frozenset[str]
    added: pa.Table
    added_paths: pa.ChunkedArray
    removed_paths: frozenset[str]

    @property
    def operation(self) -> str:
        return str(self.info.get("operation", "a commit"))

    @property
    def blind_append(self) -> bool:
        """Whether it only added files, without looking at the table."""
        return bool(self.info.get("isBlindAppend")) and not self.removed_paths


@dataclass(frozen=True)
class Ours:
    """What the rules need to know of our own commit. `touched` are the files that we remove or mark."""

    table: str
    location: str
    metadata: Metadata
    reads: Reads
    touched: frozenset[str]
    data_change: bool
    serializable: bool
    domains: frozenset[str] = frozenset()
    application: str | None = None


def winner_of(document: Document, version: int, location: str, partition_columns: tuple[str, ...]) -> Winner:
    """What a commit did. Raises CorruptLog."""
    actions = other_actions(document)
    files = file_actions([document], partition_columns)
    return Winner(
        version=version,
        info=commit_info(actions),
        protocol=any("protocol" in action for action in actions),
        metadata=any("metaData" in action for action in actions),
        domains=frozenset(action["domainMetadata"]["domain"] for action in actions if "domainMetadata" in action),
        applications=frozenset(action["txn"]["appId"] for action in actions if "txn" in action),
        added=files.adds,
        added_paths=absolute_paths(location, files.adds["path"]),
        removed_paths=frozenset(absolute_paths(location, files.removes["path"]).to_pylist()),
    )


def commit_info(actions: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The fields of a commit's `commitInfo`, empty without one."""
    return next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})


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
    listing = list_files(news, ours.location, ours.metadata, reads.columns)
    hits = listing["path"].filter(pc.fill_null(reads.may_match(listing), True))
    return _conflict(ConcurrentAppend, winner, ours, _named(frozenset(hits.to_pylist()))) if len(hits) else None


def nothing_read_was_removed(winner: Winner, ours: Ours) -> CommitConflict | None:
    gone = ours.reads.paths & winner.removed_paths
    return _conflict(ConcurrentDeleteRead, winner, ours, _named(gone)) if gone else None


def nothing_was_removed_twice(winner: Winner, ours: Ours) -> CommitConflict | None:
    twice = ours.touched & winner.removed_paths
    return _conflict(ConcurrentDeleteDelete, winner, ours, _named(twice)) if twice else None


RULES: tuple[Callable[[Winner, Ours], CommitConflict | None], ...] = (
    protocol_stays,
    metadata_stays,
    domains_differ,
    transactions_differ,
    nothing_read_was_added,
    nothing_read_was_removed,
    nothing_was_removed_twice,
)


def _conflict(kind: type[CommitConflict], winner: Winner, ours: Ours, detail: str = "") -> CommitConflict:
    return kind(ours.table, winner.version, winner.operation, detail)


def _named(paths: frozenset[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{min(paths)}{more}"
