"""The request for a commit by a command, and the outcome of the commit.

`Outcome` is Committed, Conflicted or Unknown. The files of a change are deleted only if the change is certainly not committed: after a
conflict, or after a RowmergeError of the format. After Unknown, an interrupt or any other exception, all files are kept.
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
    """The files and rows that a command read. They determine whether a concurrent commit would have changed the outcome of the command.

    `rows` does not contain rows that failed the command's condition. If a concurrent commit deletes other rows of a file, the commit merges
    both deletion vectors, and no statement has to run again.
    """

    paths: frozenset[str] = frozenset()
    """The paths of the files whose rows the command read."""
    may_match: FileMask | None = None
    """Selects the files that the command would have read, from those of a concurrent commit. None for a command that reads no files."""
    columns: tuple[str, ...] = ()
    """The columns whose bounds `may_match` compares."""
    rows: Mapping[str, Positions] | None = None
    """The rows, by path, on which the command depends without changing them. None: the command depends on all rows of `paths`."""
    has_matching_rows: FileMask | None = None
    """Selects the files with at least one row that the command would have read, from those that `may_match` selects. The function reads
    the rows of the files, which must not have deleted rows. None: the rows cannot be compared."""


@dataclass(frozen=True)
class FeatureStep:
    """A step in which ALTER TABLE … DROP FEATURE changes what no other statement can change.

    `feature`: the feature of a Delta table, or None for a commit without changes, after which a checkpoint follows. `in_protocol`: whether
    the step removes the feature from the protocol. Otherwise, it removes what the newest version has of the feature. `protects_history`:
    whether the step also protects the checkpoints of older versions.
    """

    feature: str | None = None
    in_protocol: bool = False
    protects_history: bool = False


@dataclass(frozen=True)
class CommitRequest:
    """A request for one commit: the operation, the changed files, the files and rows that it read, and any new table definition."""

    operation: str
    """The name of the operation in the history: `MERGE`, `UPDATE`, `DELETE`, `WRITE`, `CREATE TABLE`, `CREATE TABLE AS SELECT`, …"""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    files: FileChanges = field(default_factory=FileChanges)
    reads: Reads = field(default_factory=Reads)
    definition: TableDefinition | None = None
    replace: bool = False
    """Whether the commit replaces the whole table. It then removes all live files, and `definition` is complete."""
    restored: Snapshot | None = None
    """For RESTORE, the version whose files, schema and properties become current. `files` and `definition` are then empty."""
    cloned: Snapshot | None = None
    """For CLONE, the version of another table whose files, schema and properties are copied. The properties in `definition` override the
    copied ones. With `replace`, the clone replaces an existing table."""
    copies: Mapping[str, str] | None = None
    """For a deep CLONE, the path of the copy of each file of `cloned`, by the path of the file. None for a shallow clone."""
    feature_step: FeatureStep | None = None
    """For ALTER TABLE … DROP FEATURE, the step that the commit makes. Every concurrent change of files is a conflict."""
    data_change: bool = True
    replaces_partitions: bool = False
    """Whether the commit replaces the partitions of the added files (INSERT OVERWRITE with dynamic partitions)."""
    transaction: tuple[str, int] | None = None
    """The application id and the transaction version, for writers that require exactly-once semantics."""
    copied_files: frozenset[str] = frozenset()
    """For COPY INTO, the keys of the files that it loads (`rowmerge.table.metadata.copied_files`). The commit records them in the table."""
    user_metadata: str | None = None
    """A text for the history of the table, which the user sets."""
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    """Properties for the summary of the new snapshot of an Iceberg table, which the user sets."""

    @property
    def changes_nothing(self) -> bool:
        """Whether the commit would leave the table unchanged."""
        copies_version = self.restored is not None or self.cloned is not None
        has_special_change = self.replace or copies_version or self.copied_files or self.feature_step is not None
        return self.files.empty and self.definition is None and not has_special_change


@dataclass(frozen=True)
class Committed:
    """The outcome of a successful commit.

    `version`: the committed version. `rebases`: the number of concurrent commits that deleted other rows in the same files.
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
    """Describe the files of a conflict for its error: the first path and the number of other paths."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{min(paths)}{more}"


def named_rows(rows: Positions, path: str) -> str:
    """Describe the rows of a conflict for its error: the first row and the number of other rows.

    Args:
        rows: The positions of the conflicting rows, at least one.
        path: The path of the file.
    """
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"row {rows.min()}{more} of {path}"
