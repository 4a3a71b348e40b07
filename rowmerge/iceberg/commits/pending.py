"""Files that nothing names before a table's metadata does: they are put side by side, right before it."""

from __future__ import annotations

from functools import partial
from threading import Lock

from rowmerge.concurrency import run_concurrently
from rowmerge.storage.store import Storage


class PendingFiles(Storage):
    """A table's storage that holds back what is put until `flush`. Other locations are written at once; nothing is listed or deleted here
    before."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage.location, storage.configuration)
        self._behind = storage
        self._waiting: dict[str, bytes] = {}
        self._lock = Lock()

    def at(self, location: str) -> Storage:
        return self._behind.at(location)

    def get(self, path: str) -> bytes:
        waiting = self._waiting.get(path)
        return self._behind.get(path) if waiting is None else waiting

    def get_range(self, path: str, start: int, length: int) -> bytes:
        waiting = self._waiting.get(path)
        return self._behind.get_range(path, start, length) if waiting is None else waiting[start : start + length]

    def put(self, path: str, data: bytes) -> None:
        with self._lock:
            self._waiting[path] = data

    def flush(self) -> None:
        """Put what waits. Raises StorageError."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        run_concurrently([partial(self._behind.put, path, data) for path, data in waiting.items()])
