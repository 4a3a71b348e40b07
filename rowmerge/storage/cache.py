"""An in-memory cache for content of immutable files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Cache(Generic[T]):
    """A cache of values up to a total weight. It evicts the least recently used values first. Any number of threads may use it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weight = 0
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, tuple[int, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key, or None if the cache does not contain the key."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            _, value = self._entries[key]
            return value

    def put(self, key: Hashable, value: T, weight: int) -> None:
        """Add a value, and evict others if the total weight exceeds the limit.

        Args:
            key: The key of the value. If the key already has a value, the old value stays.
            value: The value, which must never change.
            weight: The weight of the value, in the unit of the limit. A value above the limit is not added.
        """
        with self._lock:
            if key in self._entries or weight > self._limit:
                return
            self._entries[key] = weight, value
            self._weight += weight
            while self._weight > self._limit:
                _, (evicted_weight, _) = self._entries.popitem(last=False)
                self._weight -= evicted_weight
