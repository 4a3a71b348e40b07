"""Processes of the machine: whether they run, and which others they have started."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def is_running(pid: int) -> bool:
    """Return whether a process runs: whether it exists and is no zombie, which is a process whose parent has not read its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have started."""
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except FileNotFoundError:  # it has just ended
        return []
    return children + [each for child in children for each in descendants(child)]


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition is true. Fail after some seconds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
