"""Files on a local disk: each appears under its name as a whole, and survives a power cut if the caller asks for that.

The driver syncs the data files of a change, whichever process wrote them, and their folders. A commit is written to a temporary file,
synced, and linked under its name. The link fails if the name is taken. Then the folder is synced, and the commit is acknowledged. If this
last sync fails, the outcome is Unknown. Names of new folders are synced up to the root, once for each folder and process.
With `durability='process'` nothing is synced.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from rowmerge.errors import NotDurable

_TEMPORARY = re.compile(r"#\d+$")
_ATTEMPTS = 5
"""Others may remove an empty folder before a file is in it. So many times it is made again."""
_CANNOT_SYNC_FOLDERS = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})
"""What file systems answer that have no operation to sync a folder."""
_MOST_FOLDERS = 100_000

_durable_folders: set[tuple[str, int]] = set()
"""Path and inode of the folders whose own names, and those of all folders above them, are durable."""
_synced_states: dict[str, tuple[int, int]] = {}
"""Inode and time of modification of folders when their names were synced last, by path.

A folder that others remove and make again may get the same inode. Then the folder above it has another state.
"""


def is_temporary(path: str) -> bool:
    """Whether a file is the temporary file of `write_file`. A killed process leaves it. delta-rs and DuckDB never list such names."""
    return _TEMPORARY.search(path) is not None


def write_file(path: Path, data: bytes, *, replace: bool, durable: bool) -> bool:
    """Write a file to a temporary name, sync it, give it its name, and sync its folder. Missing folders are made.

    Returns False if there is such a file already and `replace` is false. Without `durable`, nothing is synced.
    Raises NotDurable if the file has its name but its folder cannot be synced, and OSError if the file does not have its name.
    """
    temporary = Path(f"{path}#{secrets.randbits(64)}")
    try:
        with _new_file(temporary) as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        elif not _link(temporary, path):
            return False
    finally:
        with suppress(OSError):
            temporary.unlink()
    if durable:
        try:
            sync_folder(path.parent)
        except OSError as error:
            raise NotDurable(f"file://{path}", error.strerror or str(error)) from error
    return True


def sync_file(path: Path) -> None:
    """Make the content of a file durable, whoever wrote it. Raises OSError."""
    _sync(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, and the folder's own name and those of all folders above it unless they are durable.

    Raises OSError.
    """
    _sync_names(folder)
    named = []
    for each in (folder, *folder.parents):
        key, above = (str(each), each.stat().st_ino), each.parent
        if above == each or (key in _durable_folders and _synced_states.get(str(above)) == _state(above)):
            break
        _sync_names(above, is_ours=False)
        named.append(key)
    if len(_durable_folders) > _MOST_FOLDERS:
        _durable_folders.clear()
        _synced_states.clear()
    _durable_folders.update(named)


def _sync_names(folder: Path, *, is_ours: bool = True) -> None:
    state = _state(folder)
    try:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        # Without permission to open a folder above, this user makes no folders there.
        is_other_users = isinstance(error, PermissionError) and not is_ours
        if error.errno not in _CANNOT_SYNC_FOLDERS and not is_other_users:
            raise
    _synced_states[str(folder)] = state


def _state(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_ino, found.st_mtime_ns


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def _new_file(path: Path) -> BinaryIO:
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            return path.open("xb")
        with suppress(FileNotFoundError):
            path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("xb")


def _link(temporary: Path, path: Path) -> bool:
    """Give a file its name if no other file has it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    return True
