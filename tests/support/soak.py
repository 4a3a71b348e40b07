"""Run the soak tests in pieces: a run stops after some minutes, and the next run continues with the tests that have not passed.

The file `.soak/<commit>` at the top of the repository lists the tests that have passed on a commit. A run on another commit, or with
uncommitted changes, starts with an empty list.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class SoakPlugin:
    """Skip the tests that earlier runs passed, and stop when the time is over."""

    def __init__(self, minutes: float) -> None:
        self.end = time.monotonic() + 60 * minutes
        self.passed_file = ROOT / ".soak" / _commit()

    def passed(self) -> set[str]:
        """Return the ids of the tests that have passed on this commit."""
        return set(self.passed_file.read_text(encoding="utf-8").splitlines()) if self.passed_file.exists() else set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        passed = self.passed()
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed_file.parent.mkdir(exist_ok=True)
            with self.passed_file.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if time.monotonic() > self.end:
            item.session.shouldstop = "the minutes of this soak run are over; run it again to continue"


def _commit() -> str:
    """Return the hash of the checked-out commit; with uncommitted changes, also the time, so that nothing is skipped."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return f"{head}-{time.time_ns()}" if changed else head
