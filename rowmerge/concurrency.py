"""Calls that run in several threads at the same time.

Requests to a remote store that do not depend on each other run at the same time. `tests/engine/test_round_trips.py` limits the number of
requests that follow each other. One thread reads a thousand small Parquet files in 0.17 s. Two threads that each take one file after
another need longer.

Executors run these functions too. The functions are sent to executors by value (see executors.py), so nothing here may import rowmerge.
"""

from __future__ import annotations

import atexit
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")

logger = logging.getLogger(__name__)

STORE_THREADS = 8
"""The number of threads if each of them waits for a remote store."""
SYNC_THREADS = 32
"""The number of threads that sync files to a local disk. A file system writes its journal once for all files that wait at the same time."""
_BATCHES_PER_THREAD = 8
_MAX_BACKGROUND_THREADS = 8

_background_threads: set[threading.Thread] = set()


def run_concurrently(calls: Sequence[Callable[[], T]], *, is_remote: bool = True) -> list[T]:
    """Run calls in up to STORE_THREADS threads and return their results, in the order of the calls.

    Raises the error of the first call that fails, in the order of the calls. Calls that have started finish before the error is raised.

    Args:
        calls: The calls. A single call runs in this thread.
        is_remote: Whether the calls wait for another machine. If not, they run one after another in this thread, because starting threads
            takes longer than calls to a local disk.
    """
    if len(calls) < 2 or not is_remote:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(STORE_THREADS, len(calls))) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def run_both(first: Callable[[], S], second: Callable[[], T]) -> tuple[S, T]:
    """Run two calls at the same time, as `run_concurrently` does, and return their results.

    Args:
        first: A call, whose error is raised if both calls fail.
        second: A call that does not depend on `first`.
    """
    calls: list[Callable[[], Any]] = [first, second]
    first_result, second_result = run_concurrently(calls)
    return first_result, second_result


def map_concurrently(function: Callable[[S], T], items: Sequence[S], threads: int = STORE_THREADS) -> list[T]:
    """Apply a function to items in several threads and return the results, in the order of the items.

    A single item needs no thread. Raises the error of the first item that fails. Started items finish before the error is raised, and later
    items do not start.

    Args:
        function: The function, which other threads call.
        items: The arguments of the calls.
        threads: The number of threads.
    """
    return list(map_in_batches(function, items, threads))


def map_in_batches(function: Callable[[S], T], items: Sequence[S], threads: int) -> Generator[T, None, None]:
    """Apply a function to items in several threads and yield the results, in the order of the items.

    A single item needs no thread. Many items are divided into batches, because one task per item would take longer than the work on them.
    Raises the error of the first item that fails. After an error, and when the caller closes the generator, started batches finish and
    later batches do not start.

    Args:
        function: The function, which other threads call.
        items: The arguments of the calls.
        threads: The number of threads.
    """
    batch_size = max(1, math.ceil(len(items) / (threads * _BATCHES_PER_THREAD)))
    batches = [items[start : start + batch_size] for start in range(0, len(items), batch_size)]
    if len(items) < 2:  # the start of a thread takes as long as the work on a small item
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        for results in pool.map(lambda batch: [function(item) for item in batch], batches):
            yield from results
    finally:
        pool.shutdown(cancel_futures=True)


def map_ahead(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Apply a function to items and yield the results, in the order of the items, while threads work on the next STORE_THREADS items.

    At most this many results are in memory, unlike those of `map_in_batches`. Raises the error of the first item that fails. After an
    error, and when the caller drops the iterator, started items continue in their threads and the others do not start.

    Args:
        function: The function, which other threads call.
        items: The arguments of the calls. The iterator takes them one by one, STORE_THREADS ahead of the results.
    """
    pool = ThreadPoolExecutor(STORE_THREADS)
    try:
        futures: deque[Future[T]] = deque()
        for item in items:
            futures.append(pool.submit(function, item))
            if len(futures) == STORE_THREADS:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    finally:
        # The garbage collector may close a dropped iterator while its thread holds a lock of `threading`. Joining threads needs that lock.
        pool.shutdown(wait=False, cancel_futures=True)


def run_in_background(call: Callable[[], object], *, ignored: type[Exception], is_remote: bool) -> None:
    """Run an optional call in a daemon thread if it waits for another machine, else in this thread.

    Skip the call if the largest number of such threads are already running. At exit, the process waits up to one second for them.

    Args:
        call: The call, such as the put of a file that only makes later reads faster.
        ignored: The class of the errors that are logged as debug messages.
        is_remote: Whether the call waits for another machine. If not, it runs now, in this thread.
    """
    if not is_remote:
        _run_optional(call, ignored)
    elif len(_background_threads) < _MAX_BACKGROUND_THREADS:
        thread = threading.Thread(target=_run_optional, args=(call, ignored), daemon=True)
        _background_threads.add(thread)
        thread.start()


def wait_for_background(seconds: float = 1.0) -> None:
    """Wait until the calls of `run_in_background` have ended, but at most `seconds` in total."""
    deadline = time.monotonic() + seconds
    for thread in list(_background_threads):
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(wait_for_background)


def _run_optional(call: Callable[[], object], ignored: type[Exception]) -> None:
    """Run a call, and log an error of the class `ignored`."""
    try:
        call()
    except ignored as error:
        logger.debug("An optional background call failed: %s", error)
    finally:
        _background_threads.discard(threading.current_thread())
