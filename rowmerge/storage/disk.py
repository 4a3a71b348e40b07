"""Files on a local disk. A file gets its name when it is complete, and survives a power cut if the caller requires that.

The driver syncs the data files of a change, whichever process wrote them, and their folders. A commit is written to a temporary file,
synced, and linked under its name. The link fails if the name exists. Then the folder is synced, and the commit is acknowledged. If the
last sync fails, the outcome is Unknown. Names of new folders are synced up to the root, once for each folder and process.
With `durability='process'` nothing is synced.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from rowmerge.errors import NotDurable, StorageError

_TEMPORARY = re.compile(r"#\d+$")
_ATTEMPTS = 5
"""The number of attempts to create a folder. Other processes may remove the folder while it is empty."""
_CANNOT_SYNC_FOLDERS = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})
"""The error codes of file systems that cannot sync a folder."""
_MOST_FOLDERS = 100_000

_durable_folders: set[tuple[str, int]] = set()
"""The path and inode of each folder whose own name and whose parents' names are durable."""
_synced_states: dict[str, tuple[int, int]] = {}
"""The inode and modification time of each folder when its entries were last synced, by path.

A folder that another process removes and creates again may get the same inode. Then the modification time of its parent differs.
"""


def is_temporary(path: str) -> bool:
    """Return whether a file is a temporary file that a killed `write_file` left. delta-rs and DuckDB never list such names."""
    return _TEMPORARY.search(path) is not None


def write_file(path: Path, data: bytes, *, replace: bool, durable: bool) -> bool:
    """Write a file atomically: write a temporary file, and then give it the final name. Create missing folders.

    Args:
        path: The path of the file.
        data: The content of the file.
        replace: Whether an existing file is replaced.
        durable: Whether the file and its folders are synced to the disk.

    Returns:
        False if the file exists and `replace` is false.

    Raises:
        NotDurable: The file has its final name, but its folder cannot be synced.
        OSError: The file could not be written under its final name.
    """
    temporary_path = Path(f"{path}#{secrets.randbits(64)}")
    try:
        _write_new_file(temporary_path, data, durable=durable)
        if replace:
            os.replace(temporary_path, path)
        elif not _link_if_absent(temporary_path, path):
            return False
    finally:
        with suppress(OSError):
            temporary_path.unlink()
    if durable:
        _sync_new_name(path)
    return True


def _write_new_file(path: Path, data: bytes, *, durable: bool) -> None:
    with _create_file(path) as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Make the content of a file durable, whichever process wrote it. Raises OSError if the file cannot be synced."""
    _sync(path, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable, and the names of the folder and of its parents up to the root.

    A power cut can remove a file whose name is not durable. The name of a file or folder is an entry of its parent. It becomes durable when
    the parent is synced. So this function syncs the parents from `folder` upwards. It stops at the first folder that an earlier call of
    this process has made durable up to the root, because a sync takes milliseconds. Raises OSError if a folder cannot be synced.

    `_durable_folders` contains these folders, by path and inode. Another process may remove a folder and create it again. Then the new
    folder is not durable, although it may have the same inode. But its parent no longer has the state in `_synced_states`.
    """
    _sync_entries(folder)
    newly_durable = []
    for child in [folder, *folder.parents][:-1]:  # without the root, which has no parent
        path_and_inode = (str(child), child.stat().st_ino)
        if path_and_inode in _durable_folders and _is_unchanged_since_sync(child.parent):
            break
        _sync_entries(child.parent, is_parent=True)
        newly_durable.append(path_and_inode)
    # Without a limit, a process that writes to many partitions would fill the memory. Folders that are removed here are synced again.
    if len(_durable_folders) > _MOST_FOLDERS:
        _durable_folders.clear()
        _synced_states.clear()
    _durable_folders.update(newly_durable)


def _is_unchanged_since_sync(parent: Path) -> bool:
    """Return whether a folder has had the same entries since this process last synced it.

    Another process may have removed a folder in it, and created it again with the same inode and without a sync. Each of the two changes
    the modification time of the parent.
    """
    return _synced_states.get(str(parent)) == _inode_and_time(parent)


def list_folder_names(folder: Path) -> list[str]:
    """Return the names of the folders directly below a folder, sorted. A missing folder contains none.

    Raises OSError if the folder is unreadable.
    """
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if folder.is_dir() else []


def remove_empty_folders(root: Path) -> None:
    """Remove the empty folders below a folder, and the folder itself if it is empty."""
    for folder, _, _ in os.walk(root, topdown=False):
        with suppress(OSError):  # the folder is not empty
            os.rmdir(folder)


def _sync_new_name(path: Path) -> None:
    """Sync the folder of a file that has just been renamed or linked. Raises NotDurable."""
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise NotDurable(f"file://{path}", error.strerror or str(error)) from error


def _sync_entries(folder: Path, *, is_parent: bool = False) -> None:
    """Sync the entries of a folder, and record its state."""
    state = _inode_and_time(folder)  # before the sync: a later change of the folder gives it another state
    try:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        # A parent that this user may not open belongs to another user, who created the folder in it.
        is_of_other_user = is_parent and isinstance(error, PermissionError)
        if error.errno not in _CANNOT_SYNC_FOLDERS and not is_of_other_user:
            raise
    _synced_states[str(folder)] = state


def _inode_and_time(folder: Path) -> tuple[int, int]:
    """Return the inode and the modification time of a folder."""
    status = folder.stat()
    return status.st_ino, status.st_mtime_ns


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        os.close(descriptor)


def _create_file(path: Path) -> BinaryIO:
    """Open a new file for writing. Create its folder, and retry if another process removes the folder at the same time."""
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError):
            return path.open("xb")
        with suppress(FileNotFoundError):
            path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("xb")


def _link_if_absent(temporary: Path, path: Path) -> bool:
    """Link a temporary file under its final path. Return False if another file has that path."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    return True


def list_files(root: Path, prefix: str, start_path: str) -> Iterator[tuple[str, int, int]]:
    """Yield the path, the size and the time of modification in milliseconds of files below a folder.

    Args:
        root: The folder to which paths are relative.
        prefix: The path of the folder to list.
        start_path: The path after which the paths of the files sort.

    Raises:
        StorageError: A folder cannot be listed.
    """
    for folder, _, names in os.walk(root / prefix, onerror=_raise_unless_missing):
        relative_folder = os.path.relpath(folder, root).replace(os.sep, "/")
        for name in names:
            path = name if relative_folder == "." else f"{relative_folder}/{name}"
            status = _status(os.path.join(folder, name)) if path > start_path else None
            if status is not None:
                yield (path, status.st_size, status.st_mtime_ns // 1_000_000)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None  # deleted meanwhile, or a broken symbolic link


def _raise_unless_missing(error: OSError) -> None:
    """Raise StorageError for a folder that cannot be listed, unless the folder is missing."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise StorageError(f"file://{error.filename}", error.strerror or str(error)) from error
