"""What a statement gives back: a DataFrame, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowmerge.changes.result import RowChanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class StatementResult:
    """The outcome of one statement.

    `frame`: its rows (lazy for a query, small and local else); `changes`: None unless it may change rows; `version`: the table's version
    afterwards, where one table was written; `seconds`: by stage (`plan`, `spark`, `commit`), for statements that write.
    """

    frame: DataFrame
    operation: str
    changes: RowChanges | None = None
    version: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """One line for a person."""
        if self.changes is None:
            return self.operation
        counts = self.changes
        rows = [(counts.inserted, "inserted"), (counts.updated, "updated"), (counts.deleted, "deleted")]
        told = [f"{number:,} {what}" for number, what in rows if number] or ["no rows changed"]
        files = [(counts.files_added, "added"), (counts.files_removed, "removed"), (counts.files_marked, "marked")]
        changed = ", ".join(f"{number:,} {what}" for number, what in files if number)
        parts = [", ".join(told)] + ([f"files: {changed}"] if changed else [])
        if self.version is not None:
            parts.append(f"version {self.version}")
        return f"{self.operation}: {'; '.join(parts)}"
