"""A store with the latency of an object store: each call takes some time, and sequential calls are counted as round trips."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from rowmerge.storage.store import DELETED_AT_ONCE, Put, Storage, StoredObject

_Result = TypeVar("_Result")


@dataclass
class RoundTrips:
    """The calls of all stores that share it, each with its start and end. `seconds`: the duration of one call."""

    seconds: float = 0.03
    calls: list[tuple[float, float, str]] = field(default_factory=list)

    @property
    def in_sequence(self) -> int:
        """Return the number of calls that followed each other. Concurrent calls count once, so the latency is multiplied by this number."""
        count, free = 0, 0.0
        for end, start, _ in sorted((end, start, name) for start, end, name in self.calls):
            if start >= free:
                count, free = count + 1, end
        return count

    @property
    def names(self) -> list[str]:
        return [name for _, _, name in sorted(self.calls)]

    def forget(self) -> None:
        self.calls.clear()

    def around(self, name: str, do: Callable[[], _Result]) -> _Result:
        start = time.monotonic()
        time.sleep(self.seconds)
        try:
            return do()
        finally:
            # No statement waits for a daemon thread.
            if not threading.current_thread().daemon:
                self.calls.append((start, time.monotonic(), name))


class DistantStorage(Storage):
    """A storage whose calls, and those of storages derived from it, are round trips."""

    is_remote = True

    def __init__(self, location: str, options: Mapping[str, Any] | None = None, *, trips: RoundTrips) -> None:
        super().__init__(location, options)
        self.trips = trips

    def child(self, path: str) -> DistantStorage:
        return DistantStorage(f"{self.location}/{path}", self.configuration, trips=self.trips)

    def at(self, location: str) -> DistantStorage:
        return DistantStorage(location, self.configuration, trips=self.trips)

    def get(self, path: str) -> bytes:
        return self.trips.around(f"get {path}", lambda: Storage.get(self, path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self.trips.around(f"get_range {path}", lambda: Storage.get_range(self, path, start, length))

    def put(self, path: str, data: bytes) -> None:
        self.trips.around(f"put {path}", lambda: Storage.put(self, path, data))

    def put_if_absent(self, path: str, data: bytes) -> Put:
        return self.trips.around(f"put_if_absent {path}", lambda: Storage.put_if_absent(self, path, data))

    def folders(self, prefix: str = "") -> list[str]:
        return self.trips.around(f"folders {prefix}", lambda: Storage.folders(self, prefix))

    def exists(self, path: str) -> bool:
        return self.trips.around(f"exists {path}", lambda: Storage.exists(self, path))

    def delete(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), DELETED_AT_ONCE):
            bulk = paths[start : start + DELETED_AT_ONCE]
            self.trips.around(f"delete {len(bulk)}", partial(Storage.delete, self, bulk))

    # The last method: below it, `list` in an annotation would mean this one.
    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        return self.trips.around(f"list {prefix} after {after}", lambda: Storage.list(self, prefix, after=after))
