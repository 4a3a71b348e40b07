"""The rows that each version adds to a table, in the order of the versions. A stream reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class Append:
    """The rows that one version of a table adds.

    `files`: a snapshot that contains only the data files with the new rows. A compaction adds no rows, so it has no files. `change`: what
    the version does to older rows, as a clause for a message, or None if it only adds rows.
    """

    files: Snapshot
    change: str | None = None


class Appends(Protocol):
    """The rows that each version adds. Each table format implements this interface."""

    def versions_after(self, newest: Snapshot, version: int) -> Sequence[int]:
        """Return the versions after a version, oldest first, up to the newest one.

        Args:
            newest: The newest version of the table.
            version: The version before the first result. The version of an empty table precedes all others.

        Raises:
            VersionNotFound: The version is not in the history of the newest version, or a later one was cleaned or has expired.
        """

    def first_version_since(self, newest: Snapshot, timestamp: int) -> int | None:
        """Return the oldest version that was committed at or after a time, or None if all versions are older.

        Args:
            newest: The newest version of the table.
            timestamp: The time in milliseconds since the epoch.
        """

    def all_rows(self, newest: Snapshot, version: int) -> Snapshot:
        """Return a version with all its files, but with the columns of the newest version.

        Args:
            newest: The newest version of the table.
            version: The version whose files are read.

        Raises:
            VersionNotFound: The version does not exist, was cleaned or has expired.
        """

    def read(self, newest: Snapshot, version: int) -> Append:
        """Return the rows that a version adds, with the columns of the newest version.

        Args:
            newest: The newest version of the table.
            version: The version to read.

        Raises:
            VersionNotFound: The version does not exist, was cleaned or has expired.
            CorruptLog: The metadata of the version cannot be read.
        """
