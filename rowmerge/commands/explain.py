"""EXPLAIN of the statements that the engine plans itself."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.rows import RowCommand


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [EXTENDED] of a command that changes rows: its plan is printed, nothing is run."""

    command: RowCommand
    extended: bool = False
