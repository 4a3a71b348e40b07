"""The change rows of a table: which rows of which files each version changed, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rowmerge.table.snapshots.files import Positions
from rowmerge.table.snapshots.snapshot import Snapshot

INSERT, DELETE = "insert", "delete"
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
"""The columns that change rows have behind the table's own."""


@dataclass(frozen=True)
class Bound:
    """One end of a range of versions: a version, or a time (ms since the epoch)."""

    version: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True)
class ChangedFile:
    """Rows of one file that are change rows of one version, which was committed at `timestamp` (ms since the epoch).

    `change`: what happened to them; None: each row says it itself, in the file's column CHANGE_TYPE. `partition`: typed values by logical
    column name. `rows`: positions in the file; `listed`: the change rows are these, else all others.
    """

    version: int
    timestamp: int
    path: str
    change: str | None
    partition: Mapping[str, Any]
    rows: Positions = field(default_factory=Positions)
    listed: bool = False


@dataclass(frozen=True)
class TableChanges:
    """All changes of the versions `first` to `last`, both of them included, in the columns that `snapshot` has."""

    snapshot: Snapshot
    first: int
    last: int
    files: tuple[ChangedFile, ...] = ()


class ChangeFeed(Protocol):
    """The change rows of a table."""

    def changes(self, newest: Snapshot, first: Bound, last: Bound | None) -> TableChanges:
        """Return the change rows of the versions `first` to `last`, both included; `newest` is taken for the newest version.

        A time means the first version at or after it as `first`, the last version at or before it as `last`. Raises ChangesNotRecorded,
        VersionNotFound, IncompatibleSchemaChange, PlanError for a range that ends before it begins, CorruptLog.
        """
