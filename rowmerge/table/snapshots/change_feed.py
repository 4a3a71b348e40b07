"""The change data feed of a table: the files and rows that each version inserted, updated or deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rowmerge.table.snapshots.files import Positions
from rowmerge.table.snapshots.snapshot import Snapshot

INSERT, DELETE = "insert", "delete"
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
"""The names of the additional columns of change rows, which follow the columns of the table."""


@dataclass(frozen=True)
class Bound:
    """One end of a range of versions: either a version number, or a time in milliseconds since the epoch."""

    version: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True)
class ChangedFile:
    """The change rows of one version in one file.

    `timestamp`: the time of the version, in milliseconds since the epoch. `change`: INSERT or DELETE, or None if the column CHANGE_TYPE in
    the file contains the type of each change. `partition`: the typed partition values by logical column name. `rows`: row positions in the
    file. `listed`: whether the change rows are the rows at these positions. Otherwise, they are all other rows of the file.
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
    """All changes from version `first` to version `last`, both inclusive, with the columns of `snapshot`."""

    snapshot: Snapshot
    first: int
    last: int
    files: tuple[ChangedFile, ...] = ()


class ChangeFeed(Protocol):
    """The change data feed of a table. Each table format that records changes implements this interface."""

    def changes(self, newest: Snapshot, first: Bound, last: Bound | None) -> TableChanges:
        """Return the change rows in a range of versions.

        Args:
            newest: The newest version of the table. Later versions are ignored.
            first: The first version of the range, or a time. A time selects the first version at or after it.
            last: The last version of the range, or a time, which selects the last version at or before it. None for `newest`.

        Raises:
            ChangesNotRecorded: A version in the range has no change rows.
            VersionNotFound: A bound is in the future, or a log cleanup has deleted its version.
            IncompatibleSchemaChange: Change rows cannot be read with the columns of the result.
            PlanError: The range ends before it begins.
            CorruptLog: The log cannot be read.
        """
