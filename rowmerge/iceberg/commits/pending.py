"""Files of a snapshot that wait in memory until they are put together, right before the metadata that names them."""

from __future__ import annotations

from functools import partial
from threading import Lock

from rowmerge.concurrency import run_concurrently
from rowmerge.storage.store import Storage


class PendingFiles(Storage):
    """A table's storage that keeps puts in memory until `flush`. Storages of other locations, and lists and deletions, ignore these."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage.location, storage.configuration)
        self._storage = storage
        self._waiting: dict[str, bytes] = {}
        self._lock = Lock()

    def at(self, location: str) -> Storage:
        return self._storage.at(location)

    def get(self, path: str) -> bytes:
        waiting = self._waiting.get(path)
        return self._storage.get(path) if waiting is None else waiting

    def get_range(self, path: str, start: int, length: int) -> bytes:
        waiting = self._waiting.get(path)
        return self._storage.get_range(path, start, length) if waiting is None else waiting[start : start + length]

    def put(self, path: str, data: bytes) -> None:
        with self._lock:
            self._waiting[path] = data

    def flush(self) -> None:
        """Put all waiting files concurrently. Raises StorageError."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        run_concurrently([partial(self._storage.put, path, data) for path, data in waiting.items()])
