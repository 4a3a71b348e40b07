"""Open versions of a Delta table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rowmerge.concurrency import run_concurrently
from rowmerge.delta.log.checksums import check_state, read_checksum
from rowmerge.delta.log.history import has_in_commit_timestamps, in_commit_timestamp, read_commit_info, version_at
from rowmerge.delta.log.log_files import LOG, LogListing, list_and_read, list_log, list_newest, resolve_version
from rowmerge.delta.log.replay import State
from rowmerge.delta.log.versions import is_dropped_at, read_state
from rowmerge.delta.metadata.features import check_readable
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import CorruptLog, TableNotFound, VersionNotFound
from rowmerge.storage.store import Storage

_MAX_COMMIT_BYTES = 16 * 1024 * 1024
"""The maximum size in bytes of a commit that stays in memory until the next statement."""


OLD_DROP_MARKER = f"{LOG}/_dropped.json"
"""The file with which rowmerge 0.1.0 begins to drop a table. From then on, the table does not exist."""


@dataclass(frozen=True)
class LookAhead:
    """A listing of the log from a cached version on."""

    listing: LogListing
    cached: DeltaSnapshot


class SnapshotReader:
    """A thread-safe reader of the versions of one table. It caches the newest version, so that the next open reads only new commits."""

    def __init__(self, storage: Storage, name: str, is_mismatch_fatal: Callable[[], bool]) -> None:
        """Initialize a reader for the table in the folder of `storage`. `name` is the name of the table in errors.

        `is_mismatch_fatal` is called if a version does not match its checksum. It returns whether to raise an error instead of a warning.
        """
        self._storage, self._name, self._is_mismatch_fatal = storage, name, is_mismatch_fatal
        self._lock = threading.Lock()
        self._newest: DeltaSnapshot | None = None
        self._own_commits: dict[int, bytes] = {}

    def look_ahead(self) -> LookAhead | None:
        """List the log from the cached version on, for `open_newest`.

        Return None without a cached version, and if the log no longer contains it. Also return None if rowmerge 0.1.0 has begun to drop
        the table.
        """
        cached = self._newest
        listing = None if cached is None else list_log(self._storage, since=cached.version)
        if cached is None or listing is None or not _has_commit_of(listing, cached):
            return None
        return None if any(file.path == OLD_DROP_MARKER for file in listing.files) else LookAhead(listing, cached)

    def open_newest(self, ahead: LookAhead | None = None) -> DeltaSnapshot:
        """Return the newest version: that of `ahead`, or without one, that of a new listing.

        Raises TableNotFound, CorruptLog, UnsupportedTableFeature, StorageError.
        """
        with self._lock:
            listing, cached = self._list_newest() if ahead is None else (ahead.listing, ahead.cached)
            try:
                self._newest = self._open(listing, requested_version=None, cached_snapshot=cached)
            except CorruptLog:
                # The listed part of the log is not sufficient. An older checkpoint may be readable, or a cleanup has deleted files.
                self._newest = list_and_read(self._storage, lambda listing: self._open(listing, None, cached_snapshot=None))
            return self._newest

    def open_at(self, timestamp_ms: int) -> DeltaSnapshot:
        """Return the newest version that was committed at or before a time, in milliseconds since the epoch.

        Raises VersionNotFound if all versions are newer, and also the errors of `open_newest`.
        """

        def read(listing: LogListing) -> DeltaSnapshot:
            # The newest version determines which versions have in-commit timestamps.
            newest = self.open_newest()
            version = version_at(self._storage, listing, newest.protocol, newest.metadata, timestamp_ms)
            if version is None:
                raise VersionNotFound(f"{self._name} has no version at or before {timestamp_ms} (ms since 1970). Choose a later time.")
            return self.open(listing, version)

        # A concurrent log cleanup may delete a listed file before it is read. In that case, `list_and_read` calls `read` again.
        return list_and_read(self._storage, read)

    def open(self, listing: LogListing, version: int) -> DeltaSnapshot:
        """Return a version of the table.

        Args:
            listing: A listing of the whole log.
            version: The version number.

        Raises:
            VersionNotFound: The version does not exist, a log cleanup has deleted it, or it is the drop of a table.
            TableNotFound, CorruptLog, UnsupportedTableFeature, StorageError: As for `open_newest`.
        """
        with self._lock:
            # If the table was dropped and recreated, the cached version belongs to the old table.
            cached = self._newest if self._newest is not None and _has_commit_of(listing, self._newest) else None
            return self._open(listing, version, cached)

    def keep_commit(self, version: int, data: bytes) -> None:
        """Keep the content of a commit by this process in memory, so that the next snapshot does not have to read the commit file.

        Args:
            version: The committed version.
            data: The content of its commit file.
        """
        self._own_commits = {version: data} if len(data) <= _MAX_COMMIT_BYTES else {}

    def _list_newest(self) -> tuple[LogListing, DeltaSnapshot | None]:
        """Return a listing of the log from the cached version on, and this version. If none is cached, list from a checkpoint on."""
        cached = self._newest
        if cached is not None:
            listing = list_log(self._storage, since=cached.version)
            if _has_commit_of(listing, cached):
                return listing, cached
        return list_newest(self._storage), None

    def _open(self, listing: LogListing, requested_version: int | None, cached_snapshot: DeltaSnapshot | None) -> DeltaSnapshot:
        """Open a version from a listing of the log, or the newest version for None. If the cached version is older, apply commits to it.

        Raises TableNotFound (newest version) or VersionNotFound if the version is the drop of a table.
        """
        version = resolve_version(listing, self._name, requested_version)
        if cached_snapshot is not None and cached_snapshot.version == version:
            return cached_snapshot
        base_state = cached_snapshot.state if cached_snapshot is not None and cached_snapshot.version < version else None
        state = self._read_state(listing, version, base_state)
        # Another engine that commits to a dropped table keeps the property `rowmerge.dropped`. So only the commit of the DROP is decisive.
        if state.metadata.is_dropped and is_dropped_at(self._storage, version):
            if requested_version is None:
                raise TableNotFound(self._name)
            raise VersionNotFound(f"{self._name} has no version {version}: this version dropped an older table. Choose a later version.")
        check_readable(self._name, state.protocol, state.metadata)
        return DeltaSnapshot(self._storage, self._name, state, self._read_timestamp(listing, state), listing.commits.get(version))

    def _read_timestamp(self, listing: LogListing, state: State) -> int:
        """Return the in-commit timestamp of a version or, without one, the modification time of its file, in milliseconds."""
        modified = listing.modified(state.version)
        if not has_in_commit_timestamps(state.protocol, state.metadata, state.version):
            return modified
        info = state.commit_info or read_commit_info(self._storage, state.version)
        return in_commit_timestamp(self._storage, state.version, info) or modified

    def _read_state(self, listing: LogListing, version: int, older_state: State | None) -> State:
        """Return the state of a version. Verify its checksum, unless the state is derived from `older_state`."""
        if older_state is not None or version not in listing.checksums:
            return read_state(self._storage, listing, version, older_state, self._own_commits)
        read_version = partial(read_state, self._storage, listing, version)
        calls: list[Callable[[], Any]] = [read_version, partial(read_checksum, self._storage, version)]
        state, checksum = run_concurrently(calls, is_remote=self._storage.is_remote)
        if checksum is not None:
            check_state(self._storage, state, checksum, self._is_mismatch_fatal)
        assert isinstance(state, State)
        return state


def without_dropped_table(storage: Storage, listing: LogListing) -> LogListing:
    """Return the log of the current table, without versions of an older table that was dropped in the same folder.

    A new table continues the version numbers of a dropped table. Before its creation, all log files below the commit of the DROP are
    deleted. So this commit can only be the oldest one, and all versions above it belong to the new table.

    Args:
        storage: The storage of the table's folder.
        listing: A listing of the whole log.

    Raises:
        CorruptLog: The oldest commit cannot be parsed.
        StorageError: The store failed.
    """
    oldest = min(listing.commits, default=0)
    if oldest == 0 or not is_dropped_at(storage, oldest):
        return listing
    commits = {version: commit for version, commit in listing.commits.items() if version > oldest}
    checkpoints = tuple(checkpoint for checkpoint in listing.checkpoints if checkpoint.version > oldest)
    return replace(listing, commits=commits, checkpoints=checkpoints)


def _has_commit_of(listing: LogListing, snapshot: DeltaSnapshot) -> bool:
    """Return whether the log still contains the commit file of a snapshot. That of another table differs in size, time or ETag."""
    return snapshot.commit is not None and listing.commits.get(snapshot.version) == snapshot.commit
