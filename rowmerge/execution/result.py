"""What a command did, in numbers, and where its time went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RowCounts:
    """Rows and files of one command. `files_marked` got a deletion vector; `bytes_added` are the new data files'."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    files_marked: int = 0
    bytes_added: int = 0

    @property
    def affected(self) -> int:
        return self.inserted + self.updated + self.deleted


@dataclass
class Timings:
    """Seconds by stage: `plan`, `spark`, `commit`, and `wait` after lost races; a retried command adds up."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage, less the time that nested blocks add to other stages."""
        begun, before = time.perf_counter(), sum(self.seconds.values())
        try:
            yield
        finally:
            nested = sum(self.seconds.values()) - before
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - begun - nested


@dataclass(frozen=True)
class ChangeResult:
    """The version after the command (the one before, when nothing had to change) and what it did.

    `attempts`: how often it was planned and run, more than once after lost races; `rebases`: commits that came first and changed other
    rows of the same files; `replayed`: it was done before under the same transaction, in `version` where that is known, and nothing now.
    """

    version: int
    counts: RowCounts
    timings: Timings
    attempts: int = 1
    rebases: int = 0
    replayed: bool = False
