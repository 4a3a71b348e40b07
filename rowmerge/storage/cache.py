"""What was read of files that never change, kept in memory up to a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Cache(Generic[T]):
    """The values used last stay, while their weights together are within the limit. For any number of threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weight = 0
        self._lock = Lock()
        self._held: OrderedDict[Hashable, tuple[int, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][1]

    def put(self, key: Hashable, value: T, weight: int) -> None:
        with self._lock:
            if key in self._held or weight > self._limit:
                return
            self._held[key] = weight, value
            self._weight += weight
            while self._weight > self._limit:
                self._weight -= self._held.popitem(last=False)[1][0]
