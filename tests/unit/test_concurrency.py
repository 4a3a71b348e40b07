"""Concurrent calls: the order of results, errors, and the thread of each call."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from pyspark import cloudpickle

from rowmerge import concurrency
from rowmerge.concurrency import (
    STORE_THREADS,
    map_ahead,
    map_concurrently,
    map_in_batches,
    run_concurrently,
    run_in_background,
    wait_for_background,
)
from rowmerge.spark import executors

MAPS: dict[str, Callable[[Callable[[int], int], list[int]], list[int]]] = {
    "run_concurrently": lambda function, items: run_concurrently([partial(function, item) for item in items]),
    "map_concurrently": map_concurrently,
    "map_in_batches": lambda function, items: list(map_in_batches(function, items, STORE_THREADS)),
    "map_ahead": lambda function, items: list(map_ahead(function, items)),
}
ALL = pytest.mark.parametrize("run", MAPS.values(), ids=MAPS.keys())


def this_thread(_: int = 0) -> int:
    return threading.get_ident()


@ALL
@pytest.mark.parametrize("count", [0, 1, 2, 200])
def test_results_are_in_the_order_of_the_items(run: Callable[..., list[int]], count: int) -> None:
    assert run(lambda item: item * 2, list(range(count))) == [2 * item for item in range(count)]


@ALL
def test_calls_run_at_the_same_time(run: Callable[..., list[int]]) -> None:
    barrier = threading.Barrier(STORE_THREADS, timeout=30)
    assert sorted(run(lambda item: barrier.wait(), list(range(STORE_THREADS)))) == list(range(STORE_THREADS))


@ALL
def test_the_error_of_the_first_item_that_fails_is_raised(run: Callable[..., list[int]]) -> None:
    def fail(item: int) -> int:
        if item > 2:
            raise ValueError(str(item))
        return item

    with pytest.raises(ValueError, match="^3$"):
        run(fail, list(range(8)))


def test_calls_to_a_local_disk_and_single_calls_need_no_thread() -> None:
    assert run_concurrently([this_thread] * 3, is_remote=False) == [this_thread()] * 3
    assert run_concurrently([this_thread]) == map_concurrently(this_thread, [1]) == [this_thread()]
    assert this_thread() not in map_concurrently(this_thread, [1, 2])


def test_later_batches_do_not_start_after_the_caller_stops() -> None:
    started = []
    with closing(map_in_batches(started.append, range(10_000), 2)) as results:
        next(results)
    count = len(started)
    assert count < 10_000
    assert len(started) == count


def test_map_ahead_starts_few_items_before_the_caller_needs_them() -> None:
    started: list[int] = []
    results = map_ahead(lambda item: started.append(item), range(1000))
    next(results)
    assert len(started) <= STORE_THREADS
    next(results)
    assert len(started) <= STORE_THREADS + 1


def test_a_dropped_iterator_of_map_ahead_waits_for_no_thread() -> None:
    """The garbage collector can close it anywhere, also while `threading` has a lock that a join needs."""
    is_released = threading.Event()
    results = map_ahead(lambda item: item == 0 or is_released.wait(60), range(STORE_THREADS))
    assert next(results)
    watchdog = threading.Timer(10, is_released.set)
    watchdog.start()
    del results
    assert not is_released.is_set(), "the iterator waited for its threads"
    watchdog.cancel()
    is_released.set()


@pytest.mark.parametrize("is_remote", [True, False])
def test_an_error_of_an_optional_call_is_a_debug_message(caplog: pytest.LogCaptureFixture, is_remote: bool) -> None:
    def fail() -> None:
        raise KeyError("lost")

    with caplog.at_level(logging.DEBUG, logger=concurrency.__name__):
        run_in_background(fail, ignored=KeyError, is_remote=is_remote)
        wait_for_background(60)
    assert [record.levelname for record in caplog.records] == ["DEBUG"] and "lost" in caplog.text


def test_an_optional_call_on_a_local_disk_runs_now() -> None:
    threads: list[int] = []
    run_in_background(lambda: threads.append(this_thread()), ignored=KeyError, is_remote=False)
    assert threads == [this_thread()]


def test_the_functions_work_where_rowmerge_is_not_installed(tmp_path: Path) -> None:
    assert executors.concurrency is concurrency
    pickled = tmp_path / "function"
    pickled.write_bytes(cloudpickle.dumps((map_in_batches, map_concurrently)))
    code = (
        "import pickle, sys; sys.modules['rowmerge'] = None; batches, each = pickle.load(open(sys.argv[1], 'rb')); "
        "assert list(batches(str, [1, 2], 2)) == each(str, [1, 2]) == ['1', '2']"
    )
    subprocess.run([sys.executable, "-c", code, str(pickled)], check=True)
