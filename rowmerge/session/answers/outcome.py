"""The outcome of statements without rows, which can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rowmerge.errors import RowmergeError
from rowmerge.execution.row_counts import RowCounts

if TYPE_CHECKING:
    from rowmerge.session.answers.results import StatementResult, TableScan


@dataclass(frozen=True)
class FileReads:
    """The data files that queries read, in all tables together, after files were skipped.

    `size` and `total_size` are in bytes. The totals are None if the metadata that was read does not tell them.
    """

    files: int
    total_files: int | None
    size: int
    total_size: int | None

    @classmethod
    def of_scans(cls, scans: Sequence[TableScan]) -> FileReads | None:
        """Return the sums of scans, or None if there are no scans, or the sums need metadata that cannot be read."""
        if not scans:
            return None
        try:
            total_files, total_size = _sum(scan.total_files for scan in scans), _sum(scan.total_size for scan in scans)
            return cls(sum(scan.files for scan in scans), total_files, sum(scan.size for scan in scans), total_size)
        except RowmergeError:
            # The counts may need metadata that the statement has not read. The statement has succeeded without them.
            return None


@dataclass(frozen=True)
class StatementOutcome:
    """The outcome of the last of several statements: a StatementResult without its DataFrame, and the files that all statements read.

    The fields with the names of StatementResult have the same meanings as there.
    """

    operation: str
    changes: RowCounts | None = None
    version: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    attempts: int = 1
    rebases: int = 0
    replayed: bool = False
    reads: FileReads | None = None

    @classmethod
    def of(cls, result: StatementResult, scans: Sequence[TableScan] | None = None) -> StatementOutcome:
        """Return the outcome of a statement.

        Args:
            result: The result of the statement.
            scans: The scans of several statements of which it is the last one, or None for the scans of the result alone.
        """
        reads = FileReads.of_scans(result.scans if scans is None else scans)
        seconds = dict(result.seconds)
        return cls(result.operation, result.changes, result.version, seconds, result.attempts, result.rebases, result.replayed, reads)


def _sum(counts: Any) -> int | None:
    """Return the sum, or None if one of the counts is None."""
    numbers = list(counts)
    return None if None in numbers else sum(numbers)
