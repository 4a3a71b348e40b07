"""Calls to a distant store that no statement waits for, because their results only save time for later readers."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable

from rowmerge.errors import RowmergeError
from rowmerge.storage.store import Storage

logger = logging.getLogger(__name__)

_MOST_THREADS = 8
_SECONDS_AT_EXIT = 1.0

_threads: set[threading.Thread] = set()


def run_unawaited(storage: Storage, call: Callable[[], None]) -> None:
    """Run a call now if the storage is a local disk, else in a daemon thread. While many such threads run, leave the call out.

    The call must be optional: if it raises RowmergeError, a debug message is logged. A process that ends waits for it for at most a second.
    """
    if not storage.is_distant:
        _run(storage, call)
    elif len(_threads) < _MOST_THREADS:
        thread = threading.Thread(target=_run, args=(storage, call), daemon=True)
        _threads.add(thread)
        thread.start()


def wait_for_threads(seconds: float = _SECONDS_AT_EXIT) -> None:
    """Wait until the calls that run in threads have ended, for at most `seconds` in all."""
    deadline = time.monotonic() + seconds
    for thread in list(_threads):
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(wait_for_threads)


def _run(storage: Storage, call: Callable[[], None]) -> None:
    try:
        call()
    except RowmergeError as error:
        logger.debug("A call to %s that no statement needs failed: %s", storage.location, error)
    finally:
        _threads.discard(threading.current_thread())
