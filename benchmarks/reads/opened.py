"""The data files that any process opens, from Linux's inotify: the kernel counts, so that all engines are counted alike."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OPEN, _OVERFLOW = 0x20, 0x4000
_EVENT = struct.Struct("iIII")
_METADATA_FOLDERS = {"_delta_log", "metadata"}
_BUFFER = 1 << 20
_LIBC = ctypes.CDLL(None, use_errno=True)


class OpenedFiles:
    """The distinct data files of some folders that were opened since the start.

    A thread reads the events, because the kernel stores only 16,384 of them.
    """

    def __init__(self, folders: list[Path]) -> None:
        self.paths: set[str] = set()
        self._overflowed = False
        self._queue = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._folders = {self._watch(folder): folder for folder in _with_subfolders(folders)}
        self._end, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read the remaining events. Raises RuntimeError if the kernel dropped events."""
        os.close(self._stop)
        self._thread.join()
        for descriptor in (self._queue, self._end):
            os.close(descriptor)
        if self._overflowed:
            raise RuntimeError("The kernel dropped inotify events, so the number of opened files is not known.")

    def _watch(self, folder: Path) -> int:
        watch: int = _LIBC.inotify_add_watch(self._queue, os.fsencode(folder), _OPEN)
        if watch < 0:
            raise OSError(ctypes.get_errno(), f"inotify cannot watch {folder}")
        return watch

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._queue, self._end], [], [])
            if self._queue in ready:
                self._add(os.read(self._queue, _BUFFER))
            elif ready:
                return

    def _add(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            watch, mask, _, length = _EVENT.unpack_from(events, at)
            name = os.fsdecode(events[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            self._overflowed |= bool(mask & _OVERFLOW)
            if name.endswith(".parquet") and not name.startswith("."):
                self.paths.add(str(self._folders[watch] / name))


@contextmanager
def opened_files(folders: list[Path]) -> Iterator[set[str]]:
    """Yield a set that contains, after the block, the data files that were opened in the block."""
    files = OpenedFiles(folders)
    try:
        yield files.paths
    finally:
        files.close()


def data_files(folders: list[Path]) -> list[Path]:
    """Return the data files in the folders of tables, of all versions."""
    return sorted(path for folder in _with_subfolders(folders) for path in folder.glob("[!.]*.parquet"))


def _with_subfolders(folders: list[Path]) -> list[Path]:
    paths = []
    for folder in folders:
        for path, subfolders, _ in os.walk(folder):
            subfolders[:] = [name for name in subfolders if name not in _METADATA_FOLDERS]
            paths.append(Path(path))
    return paths
