"""The result of a statement: a DataFrame, and the counts of changed rows and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from rowmerge.execution.result import ChangeResult
from rowmerge.execution.row_counts import RowCounts
from rowmerge.session.answers.frames import empty_frame
from rowmerge.spark.spark_session import SKIP_FILES
from rowmerge.table.snapshots.files import MatchingFiles
from rowmerge.table.snapshots.snapshot import RowFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ScanReason(Enum):
    """The reason for the files that a query reads of a table without a test of conditions. The value explains it to users."""

    METADATA = "the metadata of the table contain the result"
    CACHED = "all rows of this version are cached, so that files are read once at most"
    FEW_FILES = "according to the metadata, these files contain all rows of the result"

    OFF = f"files are not skipped, because {SKIP_FILES} is false"
    NO_CONDITION = "the query has no condition"
    OPAQUE = "the part of the query that reads the table is not analysed"
    NO_CONDITION_ON_TABLE = "no condition of the query restricts the rows of this table alone"


@dataclass(frozen=True)
class TableScan:
    """The files of one table, or of its changes, that a query reads.

    `conditions`: the conditions of the query on the table's columns, each of which can exclude files. `matching`: the files to read, or
    None for all files. `dynamic`: the conditions with subqueries that EXPLAIN has not evaluated, each with what happens to it when the
    query runs. `reason`: why there are no conditions, or None if there are.
    """

    snapshot: RowFiles
    conditions: tuple[str, ...] = ()
    matching: MatchingFiles | None = None
    dynamic: Mapping[str, str] = field(default_factory=dict)
    reason: ScanReason | None = None

    @property
    def files(self) -> int:
        """The number of files to read."""
        return len(self._matching.listing)

    @property
    def size(self) -> int:
        """The size of the files to read in bytes."""
        return self._matching.listing.total_size

    @property
    def total_files(self) -> int | None:
        """The number of files of the version, or None if the metadata that was read does not tell."""
        return self._matching.total_files

    @property
    def total_size(self) -> int | None:
        """The size of all files of the version in bytes, or None if the metadata that was read does not tell."""
        return self._matching.total_size

    @property
    def _matching(self) -> MatchingFiles:
        # A scan without conditions lists its files here, because most statements never use its counts.
        return MatchingFiles.all_of(self.snapshot.files()) if self.matching is None else self.matching


@dataclass(frozen=True)
class StatementResult:
    """The outcome of one statement.

    `frame`: the rows, which are lazy for a query, and otherwise few and local. `operation`: the name of the statement. `changes`: the
    counts of changed rows and files, or None if the statement changes none. `version`: the version of the table after a statement that
    writes one table. `seconds`: the seconds in each stage (`plan`, `spark`, `commit`, `wait`) of a statement that writes, and in a
    `compaction` after it. `attempts`: the number of times that the statement was planned and run, more than one after conflicts.
    `rebases`: the number of concurrent commits that changed other rows of the same files. `replayed`: whether an earlier statement with
    the same idempotency key committed `version`, so that this statement changed nothing. `scans`: the tables that the queries in the
    statement read. The files that a MERGE, UPDATE or DELETE reads in its target are not among them.
    """

    frame: DataFrame
    operation: str
    changes: RowCounts | None = None
    version: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    attempts: int = 1
    rebases: int = 0
    replayed: bool = False
    scans: tuple[TableScan, ...] = ()

    @classmethod
    def from_change(cls, frame: DataFrame, operation: str, result: ChangeResult, scans: Sequence[TableScan] = ()) -> StatementResult:
        """Return the outcome of a statement that changed a table.

        Args:
            frame: The rows that the statement returns.
            operation: The name of the statement, such as `MERGE`.
            result: The result of the commit.
            scans: The tables that the queries in the statement read.
        """
        seconds, attempts = result.timings.seconds, result.attempts
        return cls(frame, operation, result.counts, result.version, seconds, attempts, result.rebases, result.replayed, tuple(scans))

    @property
    def message(self) -> str:
        """The outcome in one line, such as `MERGE: 3 inserted; files: 1 added; version 7`."""
        if self.changes is None:
            return self.operation
        if self.replayed:
            return f"{self.operation}: already committed as version {self.version}; nothing was changed"
        counts = self.changes
        row_counts = _join_counts(inserted=counts.inserted, updated=counts.updated, deleted=counts.deleted)
        file_counts = _join_counts(added=counts.files_added, removed=counts.files_removed, marked=counts.files_marked)
        facts = [row_counts or "no rows changed"]
        if file_counts:
            facts.append(f"files: {file_counts}")
        if self.version is not None:
            facts.append(f"version {self.version}")
        if self.attempts > 1:
            facts.append(f"{self.attempts} attempts")
        return f"{self.operation}: {'; '.join(facts)}"


def _join_counts(**counts: int) -> str:
    """Return the counts above 0 as text: `3 inserted, 1,200 deleted`."""
    return ", ".join(f"{count:,} {change}" for change, count in counts.items() if count)


def empty_result(spark: SparkSession, operation: str) -> StatementResult:
    """Return the outcome of a statement that returns no rows and changes no rows or files.

    Args:
        spark: The Spark session of the empty DataFrame.
        operation: The name of the statement, such as `CREATE VIEW`.
    """
    return StatementResult(empty_frame(spark), operation)
