"""A Delta table at a location: opening its versions, creating it, committing to it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from rowmerge.concurrency import run_concurrently
from rowmerge.delta.commits.commit import Commit, creation, next_commit
from rowmerge.delta.commits.drop import FORMAT
from rowmerge.delta.log.checkpoints import is_due, try_checkpoint
from rowmerge.delta.log.checksums import check_state, put_checksum, read_checksum
from rowmerge.delta.log.history import (
    find_transaction,
    has_in_commit_timestamps,
    in_commit_timestamp,
    read_commit_info,
    read_history,
    version_at,
)
from rowmerge.delta.log.log_files import LogListing, list_log, list_newest, read_listed, resolve_version
from rowmerge.delta.log.replay import State
from rowmerge.delta.log.versions import is_dropped_at, read_state
from rowmerge.delta.maintenance.log_cleanup import clean_log
from rowmerge.delta.maintenance.vacuum import Vacuum
from rowmerge.delta.metadata.actions import Metadata
from rowmerge.delta.metadata.definition import changed_table, new_table, replaced_table
from rowmerge.delta.metadata.features import check_readable
from rowmerge.delta.metadata.shape import table_shape
from rowmerge.delta.snapshots.change_feed import DeltaChangeFeed
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, own_snapshot
from rowmerge.errors import CorruptLog, MetadataChanged, TableNotFound, VersionNotFound
from rowmerge.storage.store import Storage
from rowmerge.table.commits.creation import FIRST_VERSION, CreationVersion, conflict_with_other, creation_version
from rowmerge.table.commits.drop_markers import delete_markers
from rowmerge.table.commits.request import Change, Committed, Conflicted, Outcome
from rowmerge.table.maintenance import Vacuumed, VacuumOptions
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import HistoryEntry

logger = logging.getLogger(__name__)

_OWN = 16 * 1024 * 1024
"""The largest commit that is kept until the next statement."""


class DeltaTable:
    """Implements `rowmerge.table.table.Table`. Keeps its newest version, so that opening it again reads only new commits.

    May be used by several threads.
    """

    def __init__(self, storage: Storage, name: str, is_mismatch_fatal: Callable[[], bool] = lambda: True) -> None:
        """`is_mismatch_fatal`: whether a version that does not fit its checksum is an error rather than a warning, asked at a mismatch."""
        self._storage, self._name, self._is_mismatch_fatal = storage, name, is_mismatch_fatal
        self._lock = threading.Lock()
        self._opened: DeltaSnapshot | None = None
        self._own: dict[int, bytes] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def location(self) -> str:
        return self._storage.location

    @property
    def branches(self) -> None:
        """None: a Delta table has no branches and tags."""

    @property
    def change_feed(self) -> DeltaChangeFeed:
        return DeltaChangeFeed(self._storage, self._without_dropped, self._snapshot_in)

    @property
    def maintenance(self) -> None:
        """None: checkpoints maintain the log, VACUUM and OPTIMIZE maintain the files."""

    def exists(self) -> bool:
        return self._first_version() is None

    def creation_version(self) -> CreationVersion | None:
        """Return the version after that of a dropped table, 0 in an empty folder, None if the table exists."""
        return creation_version(self._storage, FORMAT, self._first_version)

    def snapshot(self) -> DeltaSnapshot:
        """The newest version. Raises TableNotFound, CorruptLog, UnsupportedTableFeature, StorageError."""
        with self._lock:
            known = self._opened
            listing = LogListing() if known is None else list_log(self._storage, since=known.version)
            if known is None or not _is_in(known, listing):
                known, listing = None, list_newest(self._storage)
            try:
                self._opened = self._open(listing, None, known)
            except CorruptLog:
                # The part of the log that was listed does not do; an older checkpoint may.
                self._opened = self._open(list_log(self._storage), None, None)
            return self._opened

    def snapshot_at(self, *, version: int | None = None, timestamp: int | None = None) -> DeltaSnapshot:
        """A version by number or time. Raises VersionNotFound, and what `snapshot` raises."""
        if version is None and timestamp is None:
            return self.snapshot()

        def read(listing: LogListing) -> DeltaSnapshot:
            return self._snapshot_in(listing, self._version_at(listing, timestamp) if version is None else version)

        return read_listed(self._storage, read)

    def shape(self, definition: TableDefinition, base: Snapshot | None = None, *, replace: bool = False) -> TableShape:
        """Return the shape that a definition gives to the table. See `rowmerge.table.table.Table.shape`."""
        if base is None:
            protocol, metadata = new_table(self._name, definition, 0)
        else:
            change, own = replaced_table if replace else changed_table, own_snapshot(base)
            protocol, metadata = change(self._name, own.protocol, own.metadata, definition)
        return table_shape(self._name, self._storage, protocol, metadata)

    def create(self, definition: TableDefinition, change: Change, version: CreationVersion | None = None) -> Outcome:
        """Commit version 0, or the version after that of the table which was dropped in the folder. See `Table.create`.

        Raises PlanError, ConfigurationError, UnsupportedTableFeature, AlreadyExists, StorageError.
        """
        expected = version or self.creation_version() or FIRST_VERSION
        newest: int | None
        calls: list[Callable[[], Any]] = [
            lambda: list_log(self._storage).newest,
            partial(conflict_with_other, self._storage, self._name, FORMAT, expected),
        ]
        newest, conflict = run_concurrently(calls)
        if newest is not None and not is_dropped_at(self._storage, newest):
            return Conflicted(MetadataChanged(self._name, newest, "another commit", "the table exists already"))
        dropped = -1 if newest is None else newest
        if dropped + 1 != expected.number:
            return Conflicted(MetadataChanged(self._name, dropped, "DROP TABLE", "others created and dropped a table of this name"))
        if conflict is not None:
            return Conflicted(conflict)
        outcome = self._run(creation(self._storage, self._name, definition, change, expected))
        if newest is not None and isinstance(outcome, Committed):
            delete_markers(self._storage, FORMAT, outcome.version)
        return outcome

    def commit(self, base: Snapshot, change: Change) -> Outcome:
        """Commit a change that was planned on `base`, one of this table's snapshots.

        Raises PlanError, ConfigurationError, UnsupportedTableFeature, TableError, and StorageError when nothing was committed.
        """
        return self._run(next_commit(self._storage, self._name, own_snapshot(base), change))

    def version_of_transaction(self, application: str, version: int) -> int | None:
        """By the newest commit with a `txn` of the application that is no newer. Raises CorruptLog, StorageError."""
        return read_listed(self._storage, lambda listing: find_transaction(self._storage, listing, application, version))

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Newest first. Raises TableNotFound, CorruptLog, StorageError."""

        def read(listing: LogListing) -> list[HistoryEntry]:
            if listing.newest is None:
                raise TableNotFound(self._name)
            return read_history(self._storage, listing, limit)

        return read_listed(self._storage, read)

    def vacuum(self, options: VacuumOptions) -> Vacuumed:
        """Delete the files that no version within the retention needs.

        Raises UnsupportedTableFeature, PlanError for a retention that is not safe, StorageError, CommitStateUnknown.
        """
        return Vacuum(self._storage, self._name, self.snapshot, self.commit, options, time.time_ns() // 1_000_000).run()

    # ------------------------------------------------------------------ inside

    def _first_version(self) -> int | None:
        newest = list_newest(self._storage).newest
        if newest is None:
            return 0
        return newest + 1 if is_dropped_at(self._storage, newest) else None

    def _run(self, commit: Commit) -> Outcome:
        outcome = commit.run()
        if isinstance(outcome, Committed):
            # The next snapshot need not read it. Others' commits between the two are read.
            self._own = {outcome.version: commit.written} if len(commit.written) <= _OWN else {}
            self._follow_up(commit, outcome.version)
        return outcome

    def _follow_up(self, commit: Commit, version: int) -> None:
        """Write the checksum of a commit, a checkpoint when it is due, and clean the log.

        The version is committed: whatever is wrong here must not look like a failed commit.
        """
        calls: list[Callable[[], object]] = [
            lambda: put_checksum(self._storage, version, commit.checksum()),
            lambda: self._checkpoint(version, commit.metadata),
        ]
        for call in calls:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - whoever sees an error deletes the files of the commit, or runs it again
                logger.warning("Version %d of %s is committed, but its log is not in shape: %s", version, self.location, error)

    def _without_dropped(self, listing: LogListing) -> LogListing:
        """Return the log of this table, without the version of a table that was dropped in its place."""
        oldest = min(listing.commits, default=0)
        if oldest == 0 or not is_dropped_at(self._storage, oldest):
            return listing
        commits = {version: commit for version, commit in listing.commits.items() if version > oldest}
        return replace(listing, commits=commits, checkpoints=tuple(each for each in listing.checkpoints if each.version > oldest))

    def _checkpoint(self, version: int, metadata: Metadata) -> None:
        """Write a checkpoint when it is due, and clean the log."""
        if is_due(version, metadata):
            listing = list_log(self._storage)
            state = self._snapshot_in(listing, version).state
            if try_checkpoint(self._storage, state):
                clean_log(self._storage, listing, state, time.time_ns() // 1_000_000)

    def _version_at(self, listing: LogListing, timestamp: int | None) -> int:
        assert timestamp is not None
        newest = self.snapshot()
        version = version_at(self._storage, listing, newest.protocol, newest.metadata, timestamp)
        if version is None:
            raise VersionNotFound(f"{self._name} has no version that is {timestamp} (ms since 1970) or older. Choose a later time.")
        return version

    def _snapshot_in(self, listing: LogListing, version: int) -> DeltaSnapshot:
        with self._lock:
            known = self._opened if self._opened is not None and _is_in(self._opened, listing) else None
            return self._open(listing, version, known)

    def _open(self, listing: LogListing, version: int | None, known: DeltaSnapshot | None) -> DeltaSnapshot:
        """A version of a listed log, the newest for None, going on from a known one where that is older."""
        asked, version = version, resolve_version(listing, self._name, version)
        if known is not None and known.version == version:
            return known
        before = known.state if known is not None and known.version < version else None
        state = self._read_state(listing, version, before)
        assert state.protocol is not None
        assert state.metadata is not None
        if state.metadata.is_dropped and is_dropped_at(self._storage, version):
            if asked is None:
                raise TableNotFound(self._name)
            raise VersionNotFound(f"{self._name} has no version {version}: an older table was dropped at it. Choose a later version.")
        check_readable(self._name, state.protocol, state.metadata)
        timestamp = listing.modified(version)
        if has_in_commit_timestamps(state.protocol, state.metadata, version):
            info = state.commit_info or read_commit_info(self._storage, version)
            timestamp = in_commit_timestamp(self._storage, version, info) or timestamp
        return DeltaSnapshot(self._storage, self._name, state, timestamp, listing.commits.get(version))

    def _read_state(self, listing: LogListing, version: int, before: State | None) -> State:
        """A version that goes on from an older state, or one that is read in full and then compared with its checksum."""
        if before is not None or version not in listing.checksums:
            return read_state(self._storage, listing, version, before, self._own)
        calls: list[Callable[[], Any]] = [
            partial(read_state, self._storage, listing, version),
            partial(read_checksum, self._storage, version),
        ]
        state, checksum = run_concurrently(calls, is_distant=self._storage.is_distant)
        if checksum is not None:
            check_state(self._storage, state, checksum, self._is_mismatch_fatal)
        assert isinstance(state, State)
        return state


def _is_in(snapshot: DeltaSnapshot, listing: LogListing) -> bool:
    """Whether the log still has the commit file of a snapshot. One of another size or time is of a table that was created anew."""
    return snapshot.commit is not None and listing.commits.get(snapshot.version) == snapshot.commit
