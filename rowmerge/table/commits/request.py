"""A commit as a command asks for it, and its outcome.

`Outcome` is a value: Committed, Conflicted or Unknown. The files of a change are deleted only if it is certainly not committed: after a
conflict, or a RowmergeError of the format. After Unknown, an interrupt or any other exception, every file stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rowmerge.errors import CommitConflict
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, FileMask, Positions
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class Reads:
    """What a command looked at, so that a format can tell whether a concurrent commit would have changed its outcome.

    A row that only failed a condition is not among the rows that decided. If another commit marks rows of the same file, the deletion
    vector is written again on top of the other one, and no statement runs again.
    """

    paths: frozenset[str] = frozenset()
    """Files whose rows the command read."""
    may_match: FileMask | None = None
    """Which files that others add would have been read too; None: none (a blind append)."""
    columns: tuple[str, ...] = ()
    """Columns whose bounds `may_match` looks at."""
    rows: Mapping[str, Positions] | None = None
    """Of the files in `paths` that have any, the rows that decided what is done without being changed by it. None: every row did."""
    matching: FileMask | None = None
    """Of the files that `may_match`, those that do hold rows which the command would have read: it reads them. They have no deleted
    rows. None: it cannot be told."""


@dataclass(frozen=True)
class CommitRequest:
    """One commit: what was done, what was read to do it, and what the table becomes."""

    operation: str
    """`MERGE`, `UPDATE`, `DELETE`, `WRITE`, `CREATE TABLE`, `CREATE TABLE AS SELECT`, `CREATE OR REPLACE TABLE AS SELECT`, …"""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    files: FileChanges = field(default_factory=FileChanges)
    reads: Reads = field(default_factory=Reads)
    definition: TableDefinition | None = None
    replace: bool = False
    """The whole table is replaced: all live files leave, `definition` is complete."""
    restored: Snapshot | None = None
    """The version whose files, schema and properties come back, instead of `files` and `definition`."""
    cloned: Snapshot | None = None
    """A version of another table, whose files, schema and properties this one gets, the `definition`'s properties above them. `replace`:
    there is a table already."""
    data_change: bool = True
    transaction: tuple[str, int] | None = None
    """(application id, version) for exactly-once writers."""

    @property
    def changes_nothing(self) -> bool:
        """Whether the table would be the same after it."""
        return self.files.empty and self.definition is None and not self.replace and self.restored is None and self.cloned is None


@dataclass(frozen=True)
class Committed:
    """`rebases`: how many of the commits that came first changed files that this one marks too, deleting other rows in them."""

    version: int
    rebases: int = 0


@dataclass(frozen=True)
class Conflicted:
    conflict: CommitConflict


@dataclass(frozen=True)
class Unknown:
    """A put failed after it may have happened."""

    reason: str


Outcome = Committed | Conflicted | Unknown
