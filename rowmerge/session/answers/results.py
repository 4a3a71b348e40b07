"""The result of a statement: a DataFrame, and what the statement changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowmerge.execution.result import ChangeResult, RowCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class StatementResult:
    """The outcome of one statement.

    `frame`: its rows (lazy for a query, small and local else); `changes`: None unless it may change rows or files; `version`: the table's
    version afterwards, where one table was written; `seconds`: by stage (`plan`, `spark`, `commit`, `wait`), for statements that write.
    `attempts`: how often it was planned and run, more than once after lost races; `rebases`: commits that came first and changed other
    rows of the same files; `replayed`: it was done before under the same idempotency key, in `version`, and nothing now.
    """

    frame: DataFrame
    operation: str
    changes: RowCounts | None = None
    version: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    attempts: int = 1
    rebases: int = 0
    replayed: bool = False

    @classmethod
    def of(cls, frame: DataFrame, operation: str, result: ChangeResult) -> StatementResult:
        """Build the outcome of a statement that changed a table."""
        return cls(
            frame,
            operation,
            result.counts,
            result.version,
            result.timings.seconds,
            attempts=result.attempts,
            rebases=result.rebases,
            replayed=result.replayed,
        )

    @property
    def message(self) -> str:
        """One line of text about the outcome."""
        if self.changes is None:
            return self.operation
        if self.replayed:
            return f"{self.operation}: done before, in version {self.version}; nothing was done now"
        counts = self.changes
        rows = [(counts.inserted, "inserted"), (counts.updated, "updated"), (counts.deleted, "deleted")]
        row_texts = [f"{number:,} {what}" for number, what in rows if number] or ["no rows changed"]
        files = [(counts.files_added, "added"), (counts.files_removed, "removed"), (counts.files_marked, "marked")]
        file_text = ", ".join(f"{number:,} {what}" for number, what in files if number)
        parts = [", ".join(row_texts)] + ([f"files: {file_text}"] if file_text else [])
        if self.version is not None:
            parts.append(f"version {self.version}")
        if self.attempts > 1:
            parts.append(f"{self.attempts} attempts")
        return f"{self.operation}: {'; '.join(parts)}"
