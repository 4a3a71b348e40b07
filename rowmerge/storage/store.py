"""One root folder or bucket prefix, and the few things done to objects under it.

`put_if_absent` is the whole concurrency control. S3 answers 409 while another put is in progress. The first conditional put to a bucket
probes whether the store honours `If-None-Match`. `Storage.delete` sends a thousand paths in one request. `delete_in_order` is for logs and
views, whose readers must find the last object until all others are deleted.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url

from rowmerge.concurrency import run_concurrently
from rowmerge.errors import ConditionalPutsUnsupported, StorageError
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.disk import sync_file, sync_folder, write_file

DELETED_AT_ONCE = 1000
"""What S3's DeleteObjects takes; of other stores obstore makes as many calls as they need."""

_PROBES = 2
"""Another process may delete a probe object as part of a table that it drops. So one overwritten object proves nothing."""
_NOT_IMPLEMENTED = "501 Not Implemented"

_probed_buckets: set[tuple[str, str]] = set()
"""Bucket and fingerprint of the configuration of the stores that honour conditional puts."""
_probing = threading.Lock()


class Put(Enum):
    """How a conditional put ended."""

    CREATED = "created"
    EXISTED = "existed"


class Durability(Enum):
    """What an acknowledged write to a local disk survives. An object store decides that for itself."""

    FULL = "full"
    """A power cut: files and folders are synced before the write is acknowledged."""
    PROCESS = "process"
    """The death of the process. The operating system writes files to the disk when it sees fit."""


@dataclass(frozen=True)
class StoredObject:
    """`path` is relative to the storage's root; `size` in bytes; `modified` in milliseconds since the epoch."""

    path: str
    size: int
    modified: int


_LOCAL = re.compile(r"file:(?://(?:localhost)?/|/(?!/))", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def absolute_location(location: str) -> str:
    """A location with its scheme, no percent-encoding and no slash at the end.

    `./warehouse` becomes `file:///…/warehouse`; `s3://bucket/x/` becomes `s3://bucket/x`. The root of a disk is `file://`.
    """
    if local := _LOCAL.match(location):
        path = location[local.end() :].strip("/")
        return f"file:///{path}" if path else "file://"
    if _SCHEME.match(location):
        scheme, _, rest = location.partition("://")
        return f"{scheme}://{rest.rstrip('/')}"
    return "file://" + os.path.abspath(os.path.expanduser(location)).rstrip("/")


def local_path(location: str) -> Path | None:
    """The path on this machine's disk, or None for a location elsewhere."""
    return Path(location[len("file://") :] or "/") if location.startswith("file://") else None


class Storage:
    """Objects under one root. Paths are relative, with `/`, and mean exactly what they say (no globs, no percent-decoding).

    Every method raises StorageError; reading what is not there raises FileNotFoundError.
    """

    def __init__(
        self,
        location: str,
        options: Mapping[str, Any] | StorageConfiguration | None = None,
        durability: Durability = Durability.PROCESS,
    ) -> None:
        """`options`: storage options, or what `StorageConfiguration.parse` made of them. Raises ConfigurationError."""
        self.location = absolute_location(location)
        self.configuration = options if isinstance(options, StorageConfiguration) else StorageConfiguration.parse(options or {})
        self._durability = durability
        self._local = local_path(self.location)
        self._store: Any = None

    def child(self, path: str) -> Storage:
        """The storage of a folder below this one."""
        return Storage(f"{self.location}/{path}", self.configuration, self._durability)

    def at(self, location: str) -> Storage:
        """The storage of another location, with the same options."""
        return Storage(location, self.configuration, self._durability)

    @property
    def is_distant(self) -> bool:
        """Whether each call is a request to another machine, so that nobody should wait for one that can run in the background."""
        return self._local is None

    @property
    def _opened(self) -> Any:
        if self._store is None:
            try:
                if self._local is not None:
                    self._store = LocalStore(str(self._local), mkdir=True)
                else:
                    # A URL parser would take `#` and `?` for the end of the path, and drop line breaks.
                    scheme, _, rest = self.location.partition("://")
                    bucket, slash, path = rest.partition("/")
                    arguments = self.configuration.obstore_arguments(self.location)
                    self._store = from_url(f"{scheme}://{bucket}{slash}{quote(path)}", **arguments)
            except (BaseError, OSError, ValueError) as error:
                raise StorageError(self.location, self._reason(error)) from error
        return self._store

    def _passes(self, test: Callable[[Path], bool], path: str = "") -> bool:
        """Whether a path on a disk passes a test. Raises StorageError for one that is too long, or that nobody may look at."""
        assert self._local is not None
        try:
            return test(self._local / path)
        except OSError as error:
            raise StorageError(f"{self.location}/{path}".rstrip("/"), self._reason(error)) from error

    def get(self, path: str) -> bytes:
        """The whole object."""
        if self._local is not None and not self._passes(Path.is_dir):
            raise FileNotFoundError(f"{self.location}/{path}")
        try:
            return bytes(obstore.get(self._opened, path).bytes())
        except FileNotFoundError:
            raise
        except (BaseError, ValueError) as error:
            raise StorageError(f"{self.location}/{path}", self._reason(error)) from error

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`."""
        if self._local is not None and not self._passes(Path.is_dir):
            raise FileNotFoundError(f"{self.location}/{path}")
        try:
            return bytes(obstore.get_range(self._opened, path, start=start, length=length))
        except FileNotFoundError:
            raise
        except (BaseError, OverflowError, ValueError) as error:
            raise StorageError(f"{self.location}/{path}", self._reason(error)) from error

    def put(self, path: str, data: bytes) -> None:
        """Write or replace, atomically."""
        try:
            if self._local is not None:
                write_file(self._local / path, data, replace=True, durable=self._syncs)
            else:
                obstore.put(self._opened, path, data)
        except (BaseError, OSError) as error:
            raise StorageError(f"{self.location}/{path}", self._reason(error)) from error

    def put_if_absent(self, path: str, data: bytes) -> Put:
        """Create an object, or learn that it exists: the whole concurrency control.

        `put_settled` in `rowmerge/table/commits/commit.py` calls it, because neither answer is final: an object store answers EXISTED, too,
        to a put that it or the client has repeated, and to one that meets another put in progress. StorageError means that the outcome is
        open.
        """
        try:
            if self._local is not None:
                created = write_file(self._local / path, data, replace=False, durable=self._syncs)
                return Put.CREATED if created else Put.EXISTED
            obstore.put(self._opened, path, data, mode="create")
        except AlreadyExistsError:
            return Put.EXISTED
        except (BaseError, OSError) as error:
            raise StorageError(f"{self.location}/{path}", self._reason(error)) from error
        return Put.CREATED

    def check_conditional_puts(self) -> None:
        """Verify, once per bucket and process, that a store honours conditional puts. Local disks do.

        Raises ConditionalPutsUnsupported, StorageError if the store cannot be written to.
        """
        if self._local is not None:
            return
        key = (self.location.partition("://")[2].partition("/")[0], self.configuration.fingerprint)
        with _probing:
            if key in _probed_buckets:
                return
            if all(self._overwrites() for _ in range(_PROBES)):
                raise ConditionalPutsUnsupported(self._address, "it ignores them, so two writers could overwrite each other's commits")
            _probed_buckets.add(key)

    def _overwrites(self) -> bool:
        """Whether the second of two conditional puts replaces what the first one wrote. Raises ConditionalPutsUnsupported, StorageError."""
        probe = f".rowmerge-probe-{uuid4()}"
        try:
            self.put_if_absent(probe, b"1")
            return self.put_if_absent(probe, b"2") is Put.CREATED
        except NotImplementedError as error:
            raise ConditionalPutsUnsupported(self._address, f"the storage options disable them ({self._reason(error)})") from error
        except StorageError as error:
            if _NOT_IMPLEMENTED in error.reason:
                raise ConditionalPutsUnsupported(self._address, f"it refuses them ({error.reason})") from error
            raise
        finally:
            with suppress(StorageError):  # without permission to delete, the probe stays
                self.delete([probe])

    @property
    def _address(self) -> str:
        """The location, and the endpoint of a store that is not its provider's own."""
        endpoint = getattr(self._opened, "config", {}).get("endpoint")
        return f"{self.location} ({endpoint})" if endpoint else self.location

    def sync(self, paths: Iterable[str]) -> None:
        """Make files on a local disk durable that others wrote, by their absolute paths, and the folders that hold them.

        Files elsewhere are skipped, and without Durability.FULL all of them. Raises StorageError.
        """
        files = [file for path in paths if (file := local_path(path)) is not None] if self._syncs else []
        try:
            run_concurrently([partial(sync_file, file) for file in files])
            run_concurrently([partial(sync_folder, folder) for folder in {file.parent for file in files}])
        except OSError as error:
            raise StorageError(f"file://{error.filename}", self._reason(error)) from error

    def without_sync(self) -> Storage:
        """Return this storage with Durability.PROCESS, for files that nothing depends on."""
        storage = copy(self)
        storage._durability = Durability.PROCESS
        return storage

    @property
    def _syncs(self) -> bool:
        return self._durability is Durability.FULL

    def folders(self, prefix: str = "") -> list[str]:
        """Names (not paths) of the folders directly below a folder, sorted."""
        if self._local is not None:
            folder = self._local / prefix
            try:
                return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if folder.is_dir() else []
            except OSError as error:
                raise StorageError(f"{self.location}/{prefix}", self._reason(error)) from error
        try:
            listed = obstore.list_with_delimiter(self._opened, prefix=prefix or None)
        except BaseError as error:
            raise StorageError(f"{self.location}/{prefix}", self._reason(error)) from error
        return sorted(common.rstrip("/").rsplit("/", 1)[-1] for common in listed["common_prefixes"])

    def exists(self, path: str) -> bool:
        """Whether there is an object of exactly this path."""
        if self._local is not None:
            return self._passes(Path.is_file, path)
        try:
            obstore.head(self._opened, path)
        except FileNotFoundError:
            return False
        except (BaseError, ValueError) as error:
            raise StorageError(f"{self.location}/{path}", self._reason(error)) from error
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
            raise StorageError(f"{self.location}/{path}", self._reason(error)) from error

    def remove_folders(self) -> None:
        """On a disk, remove the root's empty folders and, when nothing is left in it, the root; object stores have none."""
        if self._local is None or not self._passes(Path.is_dir):
            return
        for folder, _, _ in os.walk(self._local, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # not empty: something of somebody else's is in it

    def _reason(self, error: Exception) -> str:
        """Return the first line of an error, without the debug dump that obstore appends and without secrets."""
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return self.configuration.without_secrets(text.split("\n", 1)[0].rstrip(". "))

    # The last method: below it, `list` in an annotation would mean this one.
    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        """All objects below a folder, sorted by path; with `after`, only those whose path sorts after it. A missing folder is empty.

        On a disk, the temporary file of a put that was killed (`name#1`) is an object like others; folders behind symbolic links are not
        looked into.
        """
        if self._local is not None:
            return sorted(_walk(self._local, prefix, after or ""), key=lambda o: o.path)
        try:
            found = obstore.list(self._opened, prefix=prefix or None, offset=after).collect()
        except BaseError as error:
            raise StorageError(f"{self.location}/{prefix}", self._reason(error)) from error
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
