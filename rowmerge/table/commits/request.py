"""The request for a commit by a command, and the outcome of the commit.

`Outcome` is a value: Committed, Conflicted or Unknown. The files of a change are deleted only if it is certainly not committed: after a
conflict, or a RowmergeError of the format. After Unknown, an interrupt or any other exception, every file stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rowmerge.errors import CommitConflict
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, FileMask, Positions
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class Reads:
    """The files and rows that a command read. They decide whether a concurrent commit would have changed the outcome of the command.

    `rows` has no row that failed the command's condition. If a concurrent commit deletes other rows of a file, the commit merges both
    deletion vectors, and no statement runs again.
    """

    paths: frozenset[str] = frozenset()
    """Files whose rows the command read."""
    may_match: FileMask | None = None
    """The mask of the files of concurrent commits that the command would have read. None: it would have read none (a blind append)."""
    columns: tuple[str, ...] = ()
    """The columns whose bounds `may_match` compares."""
    rows: Mapping[str, Positions] | None = None
    """The rows of files in `paths` on which the command depends without changing them. None: the command depends on all rows."""
    has_matching_rows: FileMask | None = None
    """The exact mask: of the files that `may_match` selects, those with a row that the command would have read. It reads the rows of the
    files, which must not have deleted rows. None: the rows cannot be compared."""


@dataclass(frozen=True)
class CommitRequest:
    """One commit: the operation, the changed files, the files and rows that it depends on, and the new definition of the table."""

    operation: str
    """`MERGE`, `UPDATE`, `DELETE`, `WRITE`, `CREATE TABLE`, `CREATE TABLE AS SELECT`, `CREATE OR REPLACE TABLE AS SELECT`, …"""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    files: FileChanges = field(default_factory=FileChanges)
    reads: Reads = field(default_factory=Reads)
    definition: TableDefinition | None = None
    replace: bool = False
    """The commit replaces the whole table: it removes all live files, and `definition` is complete."""
    restored: Snapshot | None = None
    """The version whose files, schema and properties RESTORE makes current. Then `files` and `definition` are empty."""
    cloned: Snapshot | None = None
    """The version of another table whose files, schema and properties CLONE copies. The properties of `definition` override them.
    `replace`: the clone replaces a table."""
    data_change: bool = True
    transaction: tuple[str, int] | None = None
    """(application id, version) for exactly-once writers."""

    @property
    def changes_nothing(self) -> bool:
        """Whether the table stays the same."""
        return self.files.empty and self.definition is None and not self.replace and self.restored is None and self.cloned is None


@dataclass(frozen=True)
class Committed:
    """The outcome of a commit that succeeded.

    `rebases`: the number of concurrent commits that deleted other rows of files in which this commit deletes rows.
    """

    version: int
    rebases: int = 0


@dataclass(frozen=True)
class Conflicted:
    """The outcome of a commit that is certainly not committed, because it conflicts with a concurrent commit."""

    conflict: CommitConflict


@dataclass(frozen=True)
class Unknown:
    """The outcome of a commit that may or may not be committed, because a put failed or could not be verified."""

    reason: str


Outcome = Committed | Conflicted | Unknown


def named_files(paths: Collection[str]) -> str:
    """Return the first of the files, and the number of the others, for the error of a conflict."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{min(paths)}{more}"


def named_rows(rows: Positions, path: str) -> str:
    """Return the first of the rows of a file, and the number of the others, for the error of a conflict.

    Args:
        rows: The rows of the conflict, at least one.
        path: The path of the file.
    """
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"row {rows.min()}{more} of {path}"
