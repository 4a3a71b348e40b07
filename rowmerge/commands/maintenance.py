"""Statements that keep a table in shape: VACUUM."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.names import TableName


@dataclass(frozen=True)
class Vacuum:
    """VACUUM table [RETAIN n HOURS] [DRY RUN]. `retain_hours`: None for the table's own retention."""

    target: TableName
    retain_hours: float | None = None
    dry_run: bool = False


MaintenanceCommand = Vacuum
