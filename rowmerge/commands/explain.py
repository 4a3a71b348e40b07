"""EXPLAIN of the statements that the engine plans itself."""

from __future__ import annotations

from dataclasses import dataclass

from rowmerge.commands.definitions import CreateTable
from rowmerge.commands.rows import RowCommand


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [EXTENDED|FORMATTED|…] of a command that changes rows, or makes a table of a query: its plan is printed, nothing is run.

    With a `mode`, Spark's plan of the query in it is printed in that mode too.
    """

    command: RowCommand | CreateTable
    mode: str = ""
