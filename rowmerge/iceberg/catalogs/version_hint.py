"""`metadata/version-hint.text` of a table in a folder: the version from which readers go on to the newest one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from rowmerge.concurrency import run_in_background
from rowmerge.errors import RowmergeError
from rowmerge.storage.store import Storage

HINT = "metadata/version-hint.text"


class VersionHint:
    """Reads and writes the hint of one table.

    DuckDB and pyiceberg read exactly the version that the hint names. So the hint gets only versions that their writer has verified, and an
    older version does not replace a newer one. The hint may still be behind, and no commit depends on it.
    """

    def __init__(self, storage: Storage, has_version: Callable[[int], bool], highest_version: Callable[[], int | None]) -> None:
        """`has_version` says whether the metadata file of a version is in the folder, `highest_version` lists the folder."""
        self._storage, self._has_version, self._highest_version = storage, has_version, highest_version
        self._lock = threading.Lock()

    def read(self) -> int | None:
        """Return the version that the hint names, None if there is no hint or it is not a number. Raises StorageError."""
        try:
            text = self._storage.get(HINT).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def advance(self, version: int) -> None:
        """Write a verified version, unless the hint names a higher one. On a distant store, a thread writes it. Never raises."""
        run_in_background(partial(self._advance, version), ignored=RowmergeError, is_distant=self._storage.is_distant)

    def _advance(self, version: int) -> None:
        """Write a version to the hint, or a newer one that exists if others have deleted its file."""
        with self._lock:
            hinted = self.read()
            if hinted is not None and hinted > version and self._has_version(hinted):
                return
            self._storage.put(HINT, str(version).encode())
            while not self._has_version(version):
                # Others have committed since the version was verified, and have deleted its file.
                highest = self._highest_version()
                if not highest or highest == version:
                    return
                version = highest
                self._storage.put(HINT, str(version).encode())
