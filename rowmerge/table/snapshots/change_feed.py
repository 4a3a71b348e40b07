"""The change rows of a table: the files and rows that each version inserted, updated or deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rowmerge.table.snapshots.files import Positions
from rowmerge.table.snapshots.snapshot import Snapshot

INSERT, DELETE = "insert", "delete"
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
"""The columns of change rows after the columns of the table."""


@dataclass(frozen=True)
class Bound:
    """One end of a range of versions: a version, or a time (ms since the epoch)."""

    version: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True)
class ChangedFile:
    """The change rows of one version in one file. `timestamp`: the time of the version, in milliseconds since the epoch.

    `change`: INSERT or DELETE, None if the column CHANGE_TYPE of the file has the kind of each change. `partition`: the typed partition
    values by logical column name. `rows`: positions in the file. `listed`: the change rows are those at `rows`, otherwise all others.
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
    """All changes of the versions `first` to `last`, both included, in the columns of `snapshot`."""

    snapshot: Snapshot
    first: int
    last: int
    files: tuple[ChangedFile, ...] = ()


class ChangeFeed(Protocol):
    """The change rows of a table."""

    def changes(self, newest: Snapshot, first: Bound, last: Bound | None) -> TableChanges:
        """Return the change rows of a range of versions.

        Args:
            newest: The newest version of the table. Later versions are ignored.
            first: The first version of the range, or a time. The range begins with the first version at or after the time.
            last: The last version of the range, or a time. The range ends with the last version at or before the time. None: `newest`.

        Raises:
            ChangesNotRecorded: A version of the range has no change rows.
            VersionNotFound: A bound is not in the log, because it is in the future, or because the log was cleaned.
            IncompatibleSchemaChange: Change rows cannot be read in the columns of the result.
            PlanError: The range ends before it begins.
            CorruptLog: The log cannot be read.
        """
