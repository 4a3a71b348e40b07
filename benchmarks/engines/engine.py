"""The interface of an engine in the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from benchmarks.scenarios import Scenario, Step


class Engine(Protocol):
    """One engine with one configuration, in its own process."""

    format: str
    """Of its tables: `delta` or `iceberg`."""
    ends: bool
    """Whether tables end with the rows that the statements say."""

    @property
    def versions(self) -> Mapping[str, str]:
        """The names and versions of the engine's packages."""

    def prepare(self, place: Path, layout: str) -> None:
        """Configure a table that was just loaded."""

    def open(self, place: Path, *, preload: bool) -> None:
        """Set the table for the next steps. `preload`: load its newest version now, so that the statement does not load it."""

    def source(self, name: str, path: Path) -> None:
        """Register a Parquet file under a name. A statement that reads the name reads the file."""

    def plan(self, step: Step, scenario: Scenario) -> None:
        """Prepare a step, without measuring it. The worker calls this directly before each step."""

    def run(self, step: Step, scenario: Scenario) -> str | None:
        """Run a step to its end. For a query, return its only row."""

    def stages(self) -> Mapping[str, float]:
        """Return the seconds of the last step by stage, as far as the engine reports them."""
