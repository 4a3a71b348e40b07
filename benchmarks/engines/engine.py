"""What the benchmark asks of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from benchmarks.scenarios import Scenario, Step


class Engine(Protocol):
    """One engine in one setting, in a process of its own."""

    format: str
    """Of its tables: `delta` or `iceberg`."""
    ends: bool
    """Whether tables end with the rows that the statements say."""

    @property
    def versions(self) -> Mapping[str, str]:
        """What runs, in which version."""

    def prepare(self, place: Path, layout: str) -> None:
        """Give a table, just loaded, the engine's setting."""

    def open(self, place: Path, *, known: bool) -> None:
        """The table to work on; `known`: its newest version is looked up here, so that the statement finds it known."""

    def source(self, name: str, path: Path) -> None:
        """Make a Parquet file known under a name; its rows are read when a statement reads them."""

    def plan(self, step: Step, scenario: Scenario) -> None:
        """What is not part of the measurement; called right before each step."""

    def run(self, step: Step, scenario: Scenario) -> str | None:
        """Carry out a step to its end; of a query, its one row."""

    def stages(self) -> Mapping[str, float]:
        """Seconds of the last step by what they were spent on, as far as the engine says."""
