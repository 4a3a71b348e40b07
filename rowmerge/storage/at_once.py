"""Several calls side by side: of a store that is far away, they take as long as the longest of them.

Requests that do not depend on each other run together. Data that this process wrote, or that never changes, is not read again.
`tests/engine/test_round_trips.py` limits the number of requests that follow each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")
_CALLS = 8


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls give, in their order. Raises what the first of them raises that fails, after all of them have ended."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(_CALLS, len(calls))) as callers:
        return [future.result() for future in [callers.submit(call) for call in calls]]


def ahead(call: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """What a call gives for each item, in their order, some calls ahead of whoever works on what it gave. Raises what a call raises."""
    with ThreadPoolExecutor(_CALLS) as callers:
        begun: deque[Future[T]] = deque()
        for item in items:
            begun.append(callers.submit(call, item))
            if len(begun) == _CALLS:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
