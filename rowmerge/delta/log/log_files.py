"""The folder `_delta_log`: the names of its files, its listing, and the files that a version needs."""

from __future__ import annotations

import json
import re
import uuid
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
_VERSION = r"(?P<version>0\d{19})"
"""The regular expression for a version in a file name. A version has 64 bits, so the first of its 20 digits is always 0."""
_CHECKSUM = re.compile(rf"{LOG}/{_VERSION}\.crc")
_COMMIT = re.compile(rf"{LOG}/{_VERSION}\.json")
_PART = r"\.(?P<part>\d{10})\.(?P<part_count>\d{10})\.parquet"
_CHECKPOINT = re.compile(rf"{LOG}/{_VERSION}\.checkpoint(?:{_PART}|\.[0-9A-Za-z-]+\.(?:json|parquet)|\.parquet)")
_V2_CHECKPOINT = re.compile(r"\.checkpoint\.[0-9a-fA-F]{8}-[0-9a-fA-F-]+\.(?:json|parquet)$")
_MAX_LISTINGS = 8
"""The maximum number of listings for one read, each after a cleanup has deleted files of the previous one."""
_NUMBERED = re.compile(rf"{LOG}/{_VERSION}\.")


def commit_path(version: int) -> str:
    """Return the path of a version's commit, relative to the table."""
    return f"{LOG}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """Return the path of a version's classic checkpoint, relative to the table."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def v2_checkpoint_path(version: int, checkpoint_id: uuid.UUID) -> str:
    """Return the path of the JSON file of a version's V2 checkpoint, relative to the table."""
    return f"{LOG}/{version:020d}.checkpoint.{checkpoint_id}.json"


def is_v2_checkpoint(path: str) -> bool:
    """Return whether a file of a checkpoint has a UUID in its name, as only V2 checkpoints have."""
    return _V2_CHECKPOINT.search(path) is not None


def version_of_file(path: str) -> int | None:
    """Return the version in the path of a commit, checkpoint or checksum, or None for any other file of the log."""
    match = None if is_temporary(path) else _NUMBERED.match(path)
    return int(match["version"]) if match else None


def checksum_path(version: int) -> str:
    """Return the path of a version's checksum file, relative to the table."""
    return f"{LOG}/{version:020d}.crc"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: its version, its files (several for a multi-part checkpoint), and their newest modification time.

    `modified`: milliseconds since the epoch.
    """

    version: int
    paths: tuple[str, ...]
    modified: int


@dataclass(frozen=True)
class LogListing:
    """The files in the log: commits by version, complete checkpoints (newest first), versions with a checksum, and all files."""

    commits: Mapping[int, StoredObject] = field(default_factory=dict)
    checkpoints: tuple[Checkpoint, ...] = ()
    checksums: frozenset[int] = frozenset()
    files: tuple[StoredObject, ...] = ()

    @property
    def newest(self) -> int | None:
        """The newest version, or None if the log is empty."""
        return max([*self.commits, *(checkpoint.version for checkpoint in self.checkpoints)], default=None)

    @cached_property
    def continuous_commits(self) -> range:
        """The versions of the newest commits, back to the first gap."""
        newest = -1 if self.newest is None else self.newest
        oldest = newest + 1
        # A cleanup may have left older commits, or a slow writer may have committed a version that a cleanup had deleted.
        while oldest - 1 in self.commits:
            oldest -= 1
        return range(oldest, newest + 1)

    @property
    def oldest_readable(self) -> int:
        """The oldest version that is readable together with all later versions."""
        oldest = self.continuous_commits.start
        if oldest == 0:
            return 0
        versions = [checkpoint.version for checkpoint in self.checkpoints]
        if connected_versions := [version for version in versions if version >= oldest - 1]:
            return min(connected_versions)
        # A commit is missing, and there is no checkpoint after it. The error of a reader names the missing commit.
        return 0 if 0 in self.commits else min(versions, default=0)

    def modified(self, version: int) -> int:
        """Return the modification time of a version's commit or checkpoint, in milliseconds since the epoch."""
        if version in self.commits:
            return self.commits[version].modified
        return next(checkpoint.modified for checkpoint in self.checkpoints if checkpoint.version == version)


def list_log(storage: Storage, *, since: int = 0) -> LogListing:
    """List the commits, checkpoints and checksums in the log.

    Args:
        storage: The storage of the table.
        since: The lowest version whose files are listed. 0 lists the whole log.

    Raises:
        StorageError: The store is unavailable.
    """
    commits: dict[int, StoredObject] = {}
    checksums: list[int] = []
    checkpoint_files: list[tuple[re.Match[str], StoredObject]] = []
    # `after` is exclusive. The digits of a version alone, such as `…/0005`, sort after `…/0004.json` and before `…/0005.json`.
    files = storage.list(LOG, after=f"{LOG}/{since:020d}" if since else None)
    for file in files:
        if match := _COMMIT.fullmatch(file.path):
            commits[int(match["version"])] = file
        elif match := _CHECKSUM.fullmatch(file.path):
            checksums.append(int(match["version"]))
        elif match := _CHECKPOINT.fullmatch(file.path):
            checkpoint_files.append((match, file))
    return LogListing(commits, _complete_checkpoints(checkpoint_files), frozenset(checksums), tuple(files))


def _complete_checkpoints(files: Sequence[tuple[re.Match[str], StoredObject]]) -> tuple[Checkpoint, ...]:
    """Return the checkpoints without missing parts, newest first."""
    checkpoints = [Checkpoint(int(match["version"]), (file.path,), file.modified) for match, file in files if not match["part"]]
    checkpoints += _multi_part_checkpoints([(match, file) for match, file in files if match["part"]])
    return tuple(sorted(checkpoints, key=lambda checkpoint: checkpoint.version, reverse=True))


def _multi_part_checkpoints(files: Sequence[tuple[re.Match[str], StoredObject]]) -> Iterator[Checkpoint]:
    """Yield the multi-part checkpoints without missing parts."""
    files_by_part: dict[tuple[int, int], dict[int, StoredObject]] = defaultdict(dict)
    for match, file in files:
        files_by_part[int(match["version"]), int(match["part_count"])][int(match["part"])] = file
    for (version, part_count), parts in files_by_part.items():
        if sorted(parts) == list(range(1, part_count + 1)):
            paths = tuple(parts[part].path for part in sorted(parts))
            yield Checkpoint(version, paths, max(file.modified for file in parts.values()))


def list_newest(storage: Storage) -> LogListing:
    """List the log files that the newest version needs.

    The listing starts at the checkpoint in the hint `_last_checkpoint`. If the hint is missing or wrong, the whole log is listed.
    """
    hint = _last_checkpoint(storage)
    if hint:
        listing = list_log(storage, since=hint)
        if any(checkpoint.version >= hint for checkpoint in listing.checkpoints):
            return listing
    return list_log(storage)


def list_and_read(storage: Storage, read: Callable[[LogListing], T]) -> T:
    """List the log and read files from the listing. Retry after CorruptLog, because a cleanup may have deleted listed files.

    With a very short `delta.logRetentionDuration`, the next cleanup may delete the files of the second listing, too. So the function lists
    the log up to _MAX_LISTINGS times, as long as each listing has a newer version than the previous one.

    Args:
        storage: The storage of the table.
        read: The function that reads files of a listing.

    Returns:
        The result of `read`.

    Raises:
        CorruptLog: A file is still missing or unreadable.
        StorageError: The store is unavailable.
    """
    listing = list_log(storage)
    for attempt in range(_MAX_LISTINGS - 1):
        try:
            return read(listing)
        except CorruptLog:
            newest, listing = listing.newest, list_log(storage)
            if attempt > 0 and listing.newest == newest:
                raise
    return read(listing)


def resolve_version(listing: LogListing, table: str, version: int | None) -> int:
    """Return the version that a statement reads.

    Args:
        listing: The whole log.
        table: The name of the table, for the errors.
        version: The requested version, or None for the newest version.

    Raises:
        TableNotFound: The log is empty.
        VersionNotFound: The requested version does not exist, or a cleanup has deleted it.
    """
    newest = listing.newest
    if newest is None:
        raise TableNotFound(table)
    if version is None:
        return newest
    oldest = listing.oldest_readable
    if not oldest <= version <= newest:
        raise VersionNotFound(f"{table} has no version {version}: versions {oldest} to {newest} can be read. Choose one of these.")
    return version


def require_commits(listing: LogListing, location: str, base_version: int, last_version: int) -> range:
    """Check that a listing has all commits between two versions, and return the versions of these commits.

    Args:
        listing: A listing of the log.
        location: The location of the table, for the error.
        base_version: The version before the first required commit, for example the version of a checkpoint.
        last_version: The version of the last required commit.

    Raises:
        CorruptLog: A commit is missing. The error names the first missing one.
    """
    versions = range(base_version + 1, last_version + 1)
    for version in versions:
        if version not in listing.commits:
            raise CorruptLog(f"{location}/{commit_path(version)}", f"it is missing, but version {last_version} exists")
    return versions


def read_documents(storage: Storage, paths: Sequence[str]) -> list[Document]:
    """Read files of the log. Many files are read concurrently.

    Args:
        storage: The storage of the table.
        paths: The paths of the files, relative to the table.

    Returns:
        The contents of the files, in the order of `paths`.

    Raises:
        CorruptLog: A file is missing.
        StorageError: The store is unavailable.
    """
    # For one or two files, threads are not worth their cost.
    if len(paths) < 3:
        return [_read_document(storage, path) for path in paths]
    return map_concurrently(lambda path: _read_document(storage, path), paths)


def read_commits(storage: Storage, versions: Sequence[int], *, batch_size: int = 100) -> Iterator[tuple[int, Document]]:
    """Yield each version and the content of its commit, in the order of `versions`.

    Args:
        storage: The storage of the table.
        versions: The versions of the commits to read.
        batch_size: The number of commits that are read at a time.

    Raises:
        CorruptLog: A commit is missing.
    """
    for start in range(0, len(versions), batch_size):
        batch = versions[start : start + batch_size]
        yield from zip(batch, read_documents(storage, [commit_path(version) for version in batch]), strict=True)


def _read_document(storage: Storage, path: str) -> Document:
    """Read a file of the log by its path relative to the table. Raises CorruptLog if the file is missing."""
    try:
        return Document(f"{storage.location}/{path}", storage.get(path))
    except FileNotFoundError as error:
        raise CorruptLog(f"{storage.location}/{path}", "it was deleted while the table was read") from error


def _last_checkpoint(storage: Storage) -> int | None:
    """Return the version in the hint `_last_checkpoint`, or None if the hint is missing or invalid."""
    try:
        version = json.loads(storage.get(LAST_CHECKPOINT))["version"]
    except (FileNotFoundError, StorageError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, int) and version >= 0 else None
