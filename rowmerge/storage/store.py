"""Objects below one root folder or bucket prefix. `Storage.put_if_absent` is the only concurrency control of commits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url

from rowmerge.concurrency import SYNC_THREADS, map_concurrently
from rowmerge.errors import StorageError
from rowmerge.storage.configuration import FilesystemOptions, StorageConfiguration
from rowmerge.storage.disk import list_files, list_folder_names, remove_empty_folders, sync_file, sync_folder, write_file
from rowmerge.storage.retries import repeat_if_cut

DELETED_AT_ONCE = 1000
"""The largest number of keys in one DeleteObjects request of S3. For stores with smaller limits, obstore sends several requests."""


class Put(Enum):
    """The result of a conditional put."""

    CREATED = "created"
    EXISTED = "existed"


class Durability(Enum):
    """The failures that an acknowledged write to a local disk survives. Object stores have their own durability."""

    FULL = "full"
    """The write survives a power cut, because files and folders are synced before it is acknowledged."""
    PROCESS = "process"
    """The write survives the end of the process. The operating system decides when it writes files to the disk."""


@dataclass(frozen=True)
class StoredObject:
    """An object in a store. `path` is relative to the root, `size` is in bytes, `modified` is in milliseconds since the epoch.

    `etag`: a string of an object store that differs for other content. S3 counts `modified` in seconds, so two objects can be alike in it.
    """

    path: str
    size: int
    modified: int
    etag: str = ""


_LOCAL = re.compile(r"file:(?://(?:localhost)?/|/(?!/))", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def absolute_location(location: str) -> str:
    """Return a location with its scheme in lower case, unchanged percent-encoding, and no slash at the end.

    `./warehouse` becomes `file:///…/warehouse`; `s3://bucket/x/` becomes `s3://bucket/x`. The root of a disk is `file://`.
    """
    if local := _LOCAL.match(location):
        path = location[local.end() :].strip("/")
        return f"file:///{path}" if path else "file://"
    if _SCHEME.match(location):
        scheme, _, bucket_and_path = location.partition("://")
        return f"{scheme.lower()}://{bucket_and_path.rstrip('/')}"
    return "file://" + os.path.abspath(os.path.expanduser(location)).rstrip("/")


def local_path(location: str) -> Path | None:
    """Return the path of a location on this machine's disk, or None for a location in an object store."""
    return Path(location[len("file://") :] or "/") if location.startswith("file://") else None


class Storage:
    """Reads, writes, lists and deletes the objects below one root.

    Paths are relative, with `/`. They are neither patterns nor percent-encoded. Every method raises StorageError if a request fails.
    Methods that read an object raise FileNotFoundError if it does not exist.
    """

    def __init__(
        self,
        location: str,
        options: Mapping[str, Any] | StorageConfiguration | None = None,
        durability: Durability = Durability.PROCESS,
    ) -> None:
        """Parse `options`, unless they are already parsed. No request is sent. Raises ConfigurationError if an option is invalid."""
        self.location = absolute_location(location)
        self.configuration = options if isinstance(options, StorageConfiguration) else StorageConfiguration.parse(options or {})
        self._durability = durability
        self._local = local_path(self.location)
        self._client: tuple[dict[str, Any], Any] | None = None

    @property
    def filesystem_options(self) -> FilesystemOptions:
        """The arguments of Arrow's file systems, always with the newest credentials."""
        return self.configuration.filesystem_options(self.location)

    def with_configuration(self, configuration: StorageConfiguration) -> Storage:
        """Return the storage of the same location with another configuration, such as one with the credentials of a table."""
        return Storage(self.location, configuration, self._durability)

    def child(self, path: str) -> Storage:
        """Return the storage of a folder below this storage."""
        return self.at(f"{self.location}/{path}")

    def at(self, location: str) -> Storage:
        """Return the storage of another location, with the same options."""
        return Storage(location, self.configuration, self._durability)

    def without_sync(self) -> Storage:
        """Return this storage with Durability.PROCESS, for files whose loss is harmless."""
        storage = copy(self)
        storage._durability = Durability.PROCESS
        return storage

    @property
    def is_remote(self) -> bool:
        """Whether each call is a request to another machine. Optional calls then run in the background."""
        return self._local is None

    @property
    def address(self) -> str:
        """The location, with the endpoint if the store is not at its provider's default endpoint."""
        endpoint = getattr(self.client, "config", {}).get("endpoint")
        return f"{self.location} ({endpoint})" if endpoint else self.location

    @property
    def client(self) -> Any:
        """The client of obstore, created on first use and with new credentials.

        Raises:
            StorageError: The location or the options are wrong.
            ConfigurationError: The location is in a store without support, or its source of credentials gives none.
        """
        arguments = {} if self._local is not None else self.configuration.obstore_arguments(self.location)
        if self._client is None or self._client[0] != arguments:
            try:
                self._client = arguments, _create_client(self.location, arguments)
            except (BaseError, OSError, ValueError) as error:
                raise StorageError(self.location, self.reason_of(error)) from None
        return self._client[1]

    def send(self, request: Callable[[], Any]) -> Any:
        """Return the response to a request of obstore, which is repeated if the connection is cut within the response."""
        return repeat_if_cut(self.configuration.retry_config, request)

    def reason_of(self, error: Exception) -> str:
        """Return the first line of an error, without the debug dump that obstore appends and without secrets."""
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return self.configuration.without_secrets(text.split("\n", 1)[0].rstrip(". "))

    def _error(self, path: str, error: Exception) -> StorageError:
        """Build the StorageError for a failed request. The caller raises it `from None`, because obstore's message may contain secrets."""
        return StorageError(f"{self.location}/{path}", self.reason_of(error))

    def _test_path(self, test: Callable[[Path], bool], path: str = "") -> bool:
        """Apply `Path.is_file` or `Path.is_dir` to a path on a disk. Raises StorageError if the path is too long or not accessible."""
        assert self._local is not None
        try:
            return test(self._local / path)
        except OSError as error:
            raise StorageError(f"{self.location}/{path}".rstrip("/"), self.reason_of(error)) from error

    def get(self, path: str) -> bytes:
        """Return the content of an object."""
        return self._read(path, lambda store: obstore.get(store, path).bytes())

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return a range of an object's bytes.

        Args:
            path: The path of the object.
            start: The offset of the first byte.
            length: The number of bytes.
        """
        return self._read(path, lambda store: obstore.get_range(store, path, start=start, length=length))

    def size_of(self, path: str) -> int:
        """Return the size of an object in bytes."""
        return int(self._read(path, lambda store: str(obstore.head(store, path)["size"]).encode()))

    def _read(self, path: str, request: Callable[[Any], Any]) -> bytes:
        """Return the bytes that a request to the store returns. Raises FileNotFoundError if there is no object at `path`."""
        # A LocalStore creates a missing root, but a read must not create one.
        if self._local is not None and not self._test_path(Path.is_dir):
            raise FileNotFoundError(f"{self.location}/{path}")
        try:
            return bytes(self.send(lambda: request(self.client)))
        except FileNotFoundError:
            raise
        except (BaseError, OverflowError, ValueError) as error:
            raise self._error(path, error) from None

    def put(self, path: str, data: bytes) -> None:
        """Write or replace an object atomically.

        Args:
            path: The path of the object.
            data: The content of the object.

        Raises:
            StorageError: The object cannot be written. A remote store may still write it.
        """
        try:
            if self._local is not None:
                write_file(self._local / path, data, replace=True, durable=self._durability is Durability.FULL)
            else:
                self.send(partial(obstore.put, self.client, path, data))
        except (BaseError, OSError) as error:
            raise self._error(path, error) from None

    def put_if_absent(self, path: str, data: bytes) -> Put:
        """Create an object unless it exists. This call is the only concurrency control of commits.

        Call `put_until_certain` in `rowmerge/table/commits/commit.py` instead, because no outcome is final. An object store also answers
        EXISTED if the store or its client has repeated a successful put. S3 answers 409 while another put is in progress.

        Args:
            path: The path of the object.
            data: The content of the object.

        Raises:
            StorageError: It is unknown whether the object was created.
        """
        try:
            if self._local is not None:
                created = write_file(self._local / path, data, replace=False, durable=self._durability is Durability.FULL)
                return Put.CREATED if created else Put.EXISTED
            self.send(partial(obstore.put, self.client, path, data, mode="create"))
            return Put.CREATED
        except AlreadyExistsError:
            return Put.EXISTED
        except (BaseError, OSError) as error:
            raise self._error(path, error) from None

    def sync(self, paths: Iterable[str]) -> None:
        """Make files on a local disk and their folders durable, whichever process wrote them.

        Without Durability.FULL, no file is synced. Files in object stores are skipped.

        Args:
            paths: The absolute paths of the files.

        Raises:
            StorageError: A file or a folder cannot be synced.
        """
        if self._durability is not Durability.FULL:
            return
        files = [file for path in paths if (file := local_path(path)) is not None]
        try:
            map_concurrently(sync_file, files, SYNC_THREADS)
            map_concurrently(sync_folder, list({file.parent for file in files}), SYNC_THREADS)
        except OSError as error:
            raise StorageError(f"file://{error.filename}", self.reason_of(error)) from error

    def folders(self, prefix: str = "") -> list[str]:
        """Return the names, not the paths, of the folders directly below the folder `prefix`, sorted.

        Raises:
            StorageError: The folder cannot be listed.
        """
        try:
            if self._local is not None:
                return list_folder_names(self._local / prefix)
            listing = self.send(partial(obstore.list_with_delimiter, self.client, prefix=prefix or None))
        except (BaseError, OSError) as error:
            raise self._error(prefix, error) from None
        return sorted(common_prefix.rstrip("/").rsplit("/", 1)[-1] for common_prefix in listing["common_prefixes"])

    def exists(self, path: str) -> bool:
        """Return whether an object has exactly this path.

        Raises:
            StorageError: The store does not answer, or denies the access.
        """
        if self._local is not None:
            return self._test_path(Path.is_file, path)
        try:
            obstore.head(self.client, path)
        except FileNotFoundError:
            return False
        except (BaseError, ValueError) as error:
            raise self._error(path, error) from None
        return True

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects, in any order. Missing objects are ignored. An object store deletes up to 1,000 objects with one request."""
        for start in range(0, len(paths), DELETED_AT_ONCE):
            batch = paths[start : start + DELETED_AT_ONCE]
            # A bulk request does not name the object that it could not delete. Single requests do.
            if self._local is not None or len(batch) == 1 or not _delete_in_bulk(self.client, batch):
                for path in batch:
                    self._delete_one(path)

    def _delete_one(self, path: str) -> None:
        try:
            if self._local is not None:
                (self._local / path).unlink()
            else:
                self.send(partial(obstore.delete, self.client, path))
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise self._error(path, error) from None

    def remove_folders(self) -> None:
        """Remove the empty folders below the root, and the root if it is empty. Object stores have no folders."""
        if self._local is not None and self._test_path(Path.is_dir):
            remove_empty_folders(self._local)

    # The last method: below it, `list` in an annotation would mean this method.
    def list(self, prefix: str = "", *, after: str | None = None) -> list[StoredObject]:
        """Return all objects below a folder, sorted by path.

        A missing folder has no objects. On a disk, the temporary file of a killed put (`name#1`) is listed like any other object. Folders
        behind symbolic links are not listed.

        Args:
            prefix: The path of the folder, or an empty string for the root.
            after: The path after which the listed paths must sort; None for all objects.

        Raises:
            StorageError: The folder cannot be listed.
        """
        if self._local is not None:
            return sorted(starmap(StoredObject, list_files(self._local, prefix, after or "")), key=lambda file: file.path)
        try:
            listing = self.send(lambda: obstore.list(self.client, prefix=prefix or None, offset=after).collect())
        except BaseError as error:
            raise self._error(prefix, error) from None
        return sorted(map(stored_object, listing), key=lambda item: item.path)


def locate(storage: Storage, path: str) -> tuple[Storage, str]:
    """Return the storage that contains an absolute path, and the relative path in that storage.

    Args:
        storage: The storage of a table. It is returned if it contains the path.
        path: The absolute path of a file. The storage of its folder is returned if the file is outside the table.
    """
    if path.startswith(f"{storage.location}/"):
        return storage, path[len(storage.location) + 1 :]
    folder, _, name = path.rpartition("/")
    return storage.at(folder), name


def get_if_exists(storage: Storage, path: str) -> bytes | None:
    """Return the content of an object, or None if the object does not exist.

    Args:
        storage: The storage of the object.
        path: The path of the object, relative to the storage.

    Raises:
        StorageError: The object cannot be read.
    """
    try:
        return storage.get(path)
    except FileNotFoundError:
        return None


def _create_client(location: str, arguments: Mapping[str, Any]) -> Any:
    path = local_path(location)
    if path is not None:
        return LocalStore(str(path), mkdir=True)
    return from_url(_quoted_url(location), **arguments)


def _quoted_url(location: str) -> str:
    """Return the URL of a location for obstore, with a percent-encoded path. Otherwise, a URL parser would end the path at `#` or `?`."""
    scheme, _, bucket_and_path = location.partition("://")
    bucket, slash, path = bucket_and_path.partition("/")
    return f"{'s3' if scheme == 's3n' else scheme}://{bucket}{slash}{quote(path)}"


def stored_object(item: Mapping[str, Any]) -> StoredObject:
    """Return an item of obstore's listing."""
    return StoredObject(item["path"], item["size"], int(item["last_modified"].timestamp() * 1000), item["e_tag"] or "")


def _delete_in_bulk(store: Any, paths: Sequence[str]) -> bool:
    """Delete objects with one request. Return False if the store rejects the request, or if an object is missing."""
    try:
        obstore.delete(store, [*paths])
    except (BaseError, OSError):
        return False
    return True
