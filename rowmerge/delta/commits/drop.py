"""Commit the version that drops a Delta table. Its log stays, as `rowmerge.table.commits.drop_markers` explains."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from rowmerge.delta.commits.file_changes import FileActionBuilder
from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.log_files import commit_path, list_log, version_of_file
from rowmerge.delta.log.versions import is_dropped_at, read_state
from rowmerge.delta.metadata.actions import DROP, DROPPED, LOWEST_PROTOCOL, Action, Metadata, serialize
from rowmerge.errors import CommitConflict, CorruptLog, MetadataChanged, RowmergeError, StorageError
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import ExistingObject, commit, put_until_certain
from rowmerge.table.commits.drop_markers import delete_marker, put_marker
from rowmerge.table.commits.request import CommitRequest, Unknown
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.version import __version__

FORMAT = "delta"
_COLUMN = '{"type":"struct","fields":[{"name":"dropped","type":"boolean","nullable":true,"metadata":{}}]}'
"""The schema of a dropped table. Some readers do not open a table without columns."""


def withdraw_creation(storage: Storage, table: str, table_id: str) -> Unknown | None:
    """Drop the table with this id, which was created just now, if it is still there. Return Unknown if it may stay."""
    # The first version alone cannot be deleted, because others may have committed after it.
    try:
        drop = Drop(storage, table)
        outcome = commit(drop, storage, FileChanges()) if drop.dropped_id == table_id else None
    except RowmergeError as failure:
        return Unknown(failure.message)
    return outcome if isinstance(outcome, Unknown) else None


@dataclass
class Drop:
    """One DROP TABLE. Implements `rowmerge.table.commits.commit.CommitSteps`. `id` is the table id of the version that it puts."""

    storage: Storage
    table: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self._read_newest()
        self.dropped_id = self._current_id

    @property
    def version(self) -> int:
        return self._newest_version + 1

    def put(self) -> Put | Unknown | CommitConflict:
        """Put the marker and the version of the drop. Return a conflict if the newest version is that of another drop."""
        # Another engine may have committed to the dropped table. Then it is dropped again.
        if self._state is not None and is_dropped_at(self.storage, self._newest_version):
            return self._dropped_by_others()
        put_marker(self.storage, FORMAT, self.version)
        result = put_until_certain(self.storage, commit_path(self.version), serialize(self._build_actions()))
        if isinstance(result, ExistingObject):
            return Put.EXISTED
        return self._verify_continuation() if result is Put.CREATED else result

    def rebase(self) -> int | CommitConflict:
        """Read the newest version. Return a conflict if it belongs to another table than the one to drop."""
        self._read_newest()
        if self.dropped_id is not None and self._current_id is not None and self._current_id != self.dropped_id:
            return self._dropped_by_others()
        return 0

    def discard(self) -> None:
        """Do nothing: a drop writes no files but its commit."""

    def discard_superseded(self) -> None:
        """Do nothing, like `discard`."""

    @property
    def _current_id(self) -> str | None:
        return None if self._state is None else self._state.metadata.id

    def _read_newest(self) -> None:
        listing = list_log(self.storage)
        # The version of an incomplete checkpoint counts, because its number was used.
        versions = (version_of_file(file.path) for file in listing.files)
        self._newest_version = max((version for version in versions if version is not None), default=-1)
        try:
            self._state = None if listing.newest is None else read_state(self.storage, listing, listing.newest)
        except CorruptLog:
            # A log that cannot be read is dropped all the same. Its files are deleted by their age.
            self._state = None

    def _dropped_by_others(self) -> CommitConflict:
        return MetadataChanged(self.table, self._newest_version, DROP, "the table is gone")

    def _verify_continuation(self) -> Put | Unknown | CommitConflict:
        """Verify that the commit that was put drops the table. Delete it if a cleanup had freed its name (see `verification`)."""
        try:
            listing = list_log(self.storage, since=self.version)
            newer_checkpoints = [checkpoint for checkpoint in listing.checkpoints if checkpoint.version >= self.version]
            metadata = read_checkpoint(self.storage, newer_checkpoints[0]).metadata if newer_checkpoints else None
        except (StorageError, CorruptLog) as failure:
            return Unknown(failure.message)
        if metadata is None or metadata.id == self.id:
            return Put.CREATED
        # The number of the version had been freed, so its file lies below a checkpoint, and its marker says nothing.
        try_delete_files(self.storage, [[f"{self.storage.location}/{commit_path(self.version)}"]], PathOrigin.THIS_PROCESS)
        delete_marker(self.storage, FORMAT, self.version)
        return Put.EXISTED if metadata.id == self.dropped_id else self._dropped_by_others()

    def _build_actions(self) -> list[Action]:
        """Return the actions that replace the table by an empty one with another id, and remove all of its domains and files."""
        now = time.time_ns() // 1_000_000
        metadata = Metadata(id=self.id, schema_string=_COLUMN, configuration={DROPPED: "true"}, created=now)
        actions: list[Action] = [{"commitInfo": self._commit_info(now)}, LOWEST_PROTOCOL.action(), metadata.action()]
        if self._state is None:
            # The log is empty or unreadable, so it tells no domains and files.
            return actions
        for domain, configuration in self._state.domains.items():
            actions.append({"domainMetadata": {"domain": domain, "configuration": configuration, "removed": True}})
        # A replacement by nothing removes every live file.
        replacement = CommitRequest(DROP, replace=True)
        return actions + FileActionBuilder(self.storage, metadata, replacement, now).replace_files(self._state)

    def _commit_info(self, now: int) -> dict[str, Any]:
        return {
            "timestamp": now,
            "operation": DROP,
            "operationParameters": {},
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "engineInfo": f"rowmerge/{__version__}",
            "txnId": self.id,
        }
