"""One root folder or bucket prefix, and the few things done to objects under it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url

from rowmerge.errors import StorageError

DELETED_AT_ONCE = 1000
"""What S3's DeleteObjects takes; of other stores obstore makes as many calls as they need."""


class Put(Enum):
    """How a conditional put ended."""

    CREATED = "created"
    EXISTED = "existed"


@dataclass(frozen=True)
class StoredObject:
    """`path` is relative to the storage's root; `size` in bytes; `modified` in milliseconds since the epoch."""

    path: str
    size: int
    modified: int


def absolute_location(location: str) -> str:
    """A location with its scheme, no percent-encoding and no slash at the end.

    `./warehouse` becomes `file:///…/warehouse`; `s3://bucket/x/` becomes `s3://bucket/x`.
    """
    if re.match(r"^[A-Za-z][A-Za-z0-9+.-]*://", location):
        return location.rstrip("/")
    if location.startswith("file:/"):
        return "file://" + location[len("file:") :].rstrip("/")
    return "file://" + os.path.abspath(os.path.expanduser(location)).rstrip("/")


def local_path(location: str) -> Path | None:
    """The path on this machine's disk, or None for a location elsewhere."""
    return Path(location[len("file://") :]) if location.startswith("file://") else None


class Storage:
    """Objects under one root. Paths are relative, with `/`, and mean exactly what they say (no globs, no percent-decoding).

    Every method raises StorageError; reading what is not there raises FileNotFoundError.
    """

    def __init__(self, location: str, options: Mapping[str, Any] | None = None) -> None:
        self.location = absolute_location(location)
        self._options = dict(options or {})
        self._local = local_path(self.location)
        self._store: Any = None

    def child(self, path: str) -> Storage:
        """The storage of a folder below this one."""
        return Storage(f"{self.location}/{path}", self._options)

    def at(self, location: str) -> Storage:
        """The storage of another location, with the same options."""
        return Storage(location, self._options)

    @property
    def _opened(self) -> Any:
        if self._store is None:
            try:
                if self._local is not None:
                    self._store = LocalStore(str(self._local), mkdir=True)
                else:
                    parts = urlsplit(self.location)
                    self._store = from_url(f"{parts.scheme}://{parts.netloc}{quote(parts.path)}", **self._options)
            except (BaseError, OSError, ValueError) as error:
                raise StorageError(self.location, _short(error)) from error
        return self._store

    def get(self, path: str) -> bytes:
        """The whole object."""
        if self._local is not None and not self._local.is_dir():
            raise FileNotFoundError(f"{self.location}/{path}")
        try:
            return bytes(obstore.get(self._opened, path).bytes())
        except FileNotFoundError:
            raise
        except (BaseError, ValueError) as error:
            raise StorageError(f"{self.location}/{path}", _short(error)) from error

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`."""
        if self._local is not None and not self._local.is_dir():
            raise FileNotFoundError(f"{self.location}/{path}")
        try:
            return bytes(obstore.get_range(self._opened, path, start=start, length=length))
        except FileNotFoundError:
            raise
        except (BaseError, OverflowError, ValueError) as error:
            raise StorageError(f"{self.location}/{path}", _short(error)) from error

    def put(self, path: str, data: bytes) -> None:
        """Write or replace, atomically."""
        try:
            obstore.put(self._opened, path, data)
        except (BaseError, OSError) as error:
            raise StorageError(f"{self.location}/{path}", _short(error)) from error

    def put_if_absent(self, path: str, data: bytes) -> Put:
        """Create, or find that it exists: the whole concurrency control. StorageError means that it is not known which."""
        try:
            obstore.put(self._opened, path, data, mode="create")
        except AlreadyExistsError:
            return Put.EXISTED
        except (BaseError, OSError) as error:
            raise StorageError(f"{self.location}/{path}", _short(error)) from error
        return Put.CREATED

    def folders(self, prefix: str = "") -> list[str]:
        """Names (not paths) of the folders directly below a folder, sorted."""
        if self._local is not None:
            folder = self._local / prefix
            return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if folder.is_dir() else []
        try:
            listed = obstore.list_with_delimiter(self._opened, prefix=prefix or None)
        except BaseError as error:
            raise StorageError(f"{self.location}/{prefix}", _short(error)) from error
        return sorted(common.rstrip("/").rsplit("/", 1)[-1] for common in listed["common_prefixes"])

    def exists(self, path: str) -> bool:
        """Whether there is an object of exactly this path."""
        if self._local is not None:
            return (self._local / path).is_file()
        try:
            obstore.head(self._opened, path)
        except FileNotFoundError:
            return False
        except (BaseError, ValueError) as error:
            raise StorageError(f"{self.location}/{path}", _short(error)) from error
        return True

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects, in any order; those already gone do not matter. An object store deletes up to 1,000 of them by one call."""
        for start in range(0, len(paths), DELETED_AT_ONCE):
            bulk = paths[start : start + DELETED_AT_ONCE]
            if self._local is not None or len(bulk) == 1 or not self._deleted_by_one_call(bulk):
                for path in bulk:
                    self._delete_one(path)

    def delete_in_order(self, paths: Sequence[str]) -> None:
        """Delete objects one after another, so that whoever looks meanwhile finds the last of them; those already gone do not matter."""
        for path in paths:
            self.delete([path])

    def _deleted_by_one_call(self, paths: Sequence[str]) -> bool:
        """False where the store refuses one of them, or has it no more: asked one by one, it says which."""
        try:
            obstore.delete(self._opened, [*paths])
        except (BaseError, OSError):
            return False
        return True

    def _delete_one(self, path: str) -> None:
        try:
            if self._local is not None:
                (self._local / path).unlink()
            else:
                obstore.delete(self._opened, path)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise StorageError(f"{self.location}/{path}", _short(error)) from error

    def remove_folders(self) -> None:
        """On a disk, remove the root's empty folders and, when nothing is left in it, the root; object stores have none."""
        if self._local is None or not self._local.is_dir():
            return
        for folder, _, _ in os.walk(self._local, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # not empty: something of somebody else's is in it

    # The last method: below it, `list` in an annotation would mean this one.
    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        """All objects below a folder, sorted by path; with `after`, only those whose path sorts after it. A missing folder is empty.

        On a disk, what a put left that was killed in the middle (`name#1`) is an object like others; folders behind symbolic links are not
        looked into.
        """
        if self._local is not None:
            return sorted(_walk(self._local, prefix, after or ""), key=lambda o: o.path)
        try:
            found = obstore.list(self._opened, prefix=prefix or None, offset=after).collect()
        except BaseError as error:
            raise StorageError(f"{self.location}/{prefix}", _short(error)) from error
        objects = [StoredObject(o["path"], o["size"], int(o["last_modified"].timestamp() * 1000)) for o in found]
        return sorted(objects, key=lambda o: o.path)


def _walk(root: Path, prefix: str, after: str) -> Iterator[StoredObject]:
    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise StorageError(f"file://{error.filename}", error.strerror or str(error)) from error

    for folder, _, names in os.walk(root / prefix, onerror=failed):
        below = os.path.relpath(folder, root).replace(os.sep, "/")
        for name in names:
            path = name if below == "." else f"{below}/{name}"
            if path <= after:
                continue
            try:
                found = os.stat(os.path.join(folder, name))
            except FileNotFoundError:
                continue  # deleted meanwhile, or a link to nowhere
            yield StoredObject(path, found.st_size, found.st_mtime_ns // 1_000_000)


def _short(error: Exception) -> str:
    """The first line of an error, without the debug dump that obstore appends."""
    return str(error).split("\n", 1)[0].rstrip(". ")
