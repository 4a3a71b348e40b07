"""Several calls side by side: of a store that is far away, they take as long as the longest of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_CALLS = 8


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls give, in their order. Raises what the first of them raises that fails, after all of them have ended."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(_CALLS, len(calls))) as callers:
        return [future.result() for future in [callers.submit(call) for call in calls]]
