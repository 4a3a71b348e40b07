"""The folder `_delta_log`: names of its files, what is in it, and which of them make up a version."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from rowmerge.concurrency import map_concurrently
from rowmerge.delta.log.ndjson import Document
from rowmerge.errors import CorruptLog, StorageError, TableNotFound, VersionNotFound
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Storage, StoredObject

T = TypeVar("T")

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
SIDECARS = f"{LOG}/_sidecars"
_VERSION = r"(0\d{19})"
"""A version in a file's name; it has 64 bits, so the first of the 20 digits is 0. What looks else is no file of the log."""
_CHECKSUM = re.compile(rf"{LOG}/{_VERSION}\.crc")
_COMMIT = re.compile(rf"{LOG}/{_VERSION}\.json")
_CHECKPOINT = re.compile(rf"{LOG}/{_VERSION}\.checkpoint(?:\.(\d{{10}})\.(\d{{10}})\.parquet|\.[0-9A-Za-z-]+\.(?:json|parquet)|\.parquet)")
_NUMBERED = re.compile(rf"{LOG}/{_VERSION}\.")


def commit_path(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def version_of_file(path: str) -> int | None:
    """Return the version whose commit, checkpoint or checksum a file of the log is, None for another file."""
    match = None if is_temporary(path) else _NUMBERED.match(path)
    return int(match[1]) if match else None


def checksum_path(version: int) -> str:
    return f"{LOG}/{version:020d}.crc"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: its version and its files, several for a multi-part one."""

    version: int
    paths: tuple[str, ...]
    modified: int


@dataclass(frozen=True)
class LogListing:
    """The content of the folder: commits by version, complete checkpoints newest first, versions with a checksum, and all files."""

    commits: Mapping[int, StoredObject] = field(default_factory=dict)
    checkpoints: tuple[Checkpoint, ...] = ()
    checksums: frozenset[int] = frozenset()
    files: tuple[StoredObject, ...] = ()

    @property
    def newest(self) -> int | None:
        """The newest version that is there, None for an empty folder."""
        versions = [*self.commits, *(checkpoint.version for checkpoint in self.checkpoints)]
        return max(versions, default=None)

    @cached_property
    def continuous_commits(self) -> range:
        """The commits up to the newest version, from the oldest after which none is missing.

        Older ones are remains of a cleanup, or a commit that a slow writer put after a cleanup had freed its name.
        """
        newest = -1 if self.newest is None else self.newest
        oldest = newest + 1
        while oldest - 1 in self.commits:
            oldest -= 1
        return range(oldest, newest + 1)

    @property
    def oldest_readable(self) -> int:
        """The oldest version that can be put together, and each one after it."""
        oldest = self.continuous_commits.start
        if oldest == 0:
            return 0
        versions = [checkpoint.version for checkpoint in self.checkpoints]
        if connected_versions := [version for version in versions if version >= oldest - 1]:
            return min(connected_versions)
        # The log has a gap without a checkpoint after it. The error that a reader gets names the missing commit.
        return 0 if 0 in self.commits else min(versions, default=0)

    def modified(self, version: int) -> int:
        """When a version was committed, going by its file: milliseconds since the epoch."""
        if version in self.commits:
            return self.commits[version].modified
        return next(checkpoint.modified for checkpoint in self.checkpoints if checkpoint.version == version)


def list_log(storage: Storage, *, since: int = 0) -> LogListing:
    """The commits and checkpoints of versions from `since` on. Raises StorageError."""
    commits: dict[int, StoredObject] = {}
    single: list[Checkpoint] = []
    checksums: list[int] = []
    parts: dict[tuple[int, int], dict[int, StoredObject]] = defaultdict(dict)
    objects = storage.list(LOG, after=f"{LOG}/{since:020d}" if since else None)
    for found in objects:
        if match := _COMMIT.fullmatch(found.path):
            commits[int(match[1])] = found
        elif match := _CHECKSUM.fullmatch(found.path):
            checksums.append(int(match[1]))
        elif match := _CHECKPOINT.fullmatch(found.path):
            if match[2]:
                parts[int(match[1]), int(match[3])][int(match[2])] = found
            else:
                single.append(Checkpoint(int(match[1]), (found.path,), found.modified))
    for (version, count), there in parts.items():
        if sorted(there) == list(range(1, count + 1)):
            files = [there[part] for part in sorted(there)]
            single.append(Checkpoint(version, tuple(file.path for file in files), max(file.modified for file in files)))
    checkpoints = tuple(sorted(single, key=lambda checkpoint: checkpoint.version, reverse=True))
    return LogListing(commits, checkpoints, frozenset(checksums), tuple(objects))


def list_newest(storage: Storage) -> LogListing:
    """The part of the log that is needed for its newest version: from the last checkpoint on, where the hint about it is true."""
    hint = _last_checkpoint(storage)
    if hint:
        listing = list_log(storage, since=hint)
        if any(checkpoint.version >= hint for checkpoint in listing.checkpoints):
            return listing
    return list_log(storage)


def read_listed(storage: Storage, read: Callable[[LogListing], T]) -> T:
    """Read files that a listing of the log names, and once more with a new listing: a cleanup may have deleted some in between."""
    try:
        return read(list_log(storage))
    except CorruptLog:
        return read(list_log(storage))


def chosen_version(listing: LogListing, table: str, version: int | None) -> int:
    """The version asked for, or the newest. Raises TableNotFound, VersionNotFound."""
    newest = listing.newest
    if newest is None:
        raise TableNotFound(table)
    if version is None:
        return newest
    if not listing.oldest_readable <= version <= newest:
        raise VersionNotFound(
            f"{table} has no version {version}: versions {listing.oldest_readable} to {newest} can be read. Choose one of these."
        )
    return version


def needed_commits(listing: LogListing, location: str, after: int, to: int) -> list[int]:
    """The versions from `after` + 1 to `to`. Raises CorruptLog naming the first that is missing."""
    for version in range(after + 1, to + 1):
        if version not in listing.commits:
            raise CorruptLog(f"{location}/{commit_path(version)}", f"it is missing, although version {to} is there")
    return list(range(after + 1, to + 1))


def usable_checkpoints(listing: LogListing, version: int) -> Iterator[Checkpoint]:
    """Checkpoints up to a version, newest first."""
    return (checkpoint for checkpoint in listing.checkpoints if checkpoint.version <= version)


def read_documents(storage: Storage, paths: Sequence[str]) -> list[Document]:
    """Whole files of the log. Raises CorruptLog for one that is gone, StorageError."""
    if len(paths) < 3:
        return [_document(storage, path) for path in paths]
    return map_concurrently(lambda path: _document(storage, path), paths)


def _document(storage: Storage, path: str) -> Document:
    try:
        return Document(f"{storage.location}/{path}", storage.get(path))
    except FileNotFoundError as error:
        raise CorruptLog(f"{storage.location}/{path}", "it vanished while the table was read") from error


def _last_checkpoint(storage: Storage) -> int | None:
    """The hint's version; None when it is missing or makes no sense, for it is never needed."""
    try:
        version = json.loads(storage.get(LAST_CHECKPOINT))["version"]
    except (FileNotFoundError, StorageError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, int) and version >= 0 else None
