"""Many small things, each done by one of a few threads.

Runs on executors, too, sent there by value (see sink.py), so nothing here may import rowmerge.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

DISTANT = 8
"""So many threads at least where each waits for a store that is far away."""
_TASKS_OF_A_THREAD = 8


def in_threads(call: Callable[[S], T], items: Sequence[S], threads: int) -> Generator[T, None, None]:
    """What a call gives for each item, in their order. Raises what a call raises, after what other threads have begun has ended.

    A thread takes several items at a time where they are many: they are likely small, and a task for each would take as long as to do it.
    One thread reads a thousand small Parquet files in 0.17 s. Two threads that take one file after another need longer.
    """
    size = max(1, -(-len(items) // (threads * _TASKS_OF_A_THREAD)))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    pool = ThreadPoolExecutor(threads)
    try:
        for found in pool.map(lambda part: [call(item) for item in part], parts):
            yield from found
    finally:
        pool.shutdown(cancel_futures=True)
