"""Commit the version that drops a Delta table. The log is kept, as `rowmerge.table.commits.drop_markers` explains."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from rowmerge.delta.commits.file_changes import FileActionBuilder
from rowmerge.delta.commits.verification import delete_commit_file, read_newer_checkpoint
from rowmerge.delta.log.log_files import commit_path, list_log, version_of_file
from rowmerge.delta.log.versions import is_dropped_at, read_state
from rowmerge.delta.metadata.actions import DROP_OPERATION, DROPPED_PROPERTY, LOWEST_PROTOCOL, Action, Metadata, serialize
from rowmerge.errors import CommitConflict, CorruptLog, MetadataChanged, RowmergeError, StorageError
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import ExistingObject, Rebased, commit, put_until_certain
from rowmerge.table.commits.drop_markers import announce_drop, delete_marker
from rowmerge.table.commits.request import CommitRequest, Unknown
from rowmerge.table.snapshots.files import FileChanges
from rowmerge.version import __version__

FORMAT = "delta"
_DROPPED_SCHEMA = '{"type":"struct","fields":[{"name":"dropped","type":"boolean","nullable":true,"metadata":{}}]}'
"""The schema of a dropped table. It has one column, because some readers cannot open a table without columns."""


def withdraw_creation(storage: Storage, table: str, table_id: str) -> Unknown | None:
    """Drop a table that this process created in a folder that also contains a table of the other format.

    Other writers may already have committed to the new table. So this function commits a DROP instead of deleting the first version.

    Args:
        storage: The storage of the folder.
        table: The name of the table in errors.
        table_id: The id of the created table (PROTOCOL.md, Change Metadata). A table with a different id is not dropped.

    Returns:
        Unknown if the DROP may have failed, so that the table may still exist. Otherwise None, even if another writer dropped the table.
    """
    try:
        drop = Drop(storage, table)  # reads the id of the current table
        if drop.table_id_to_drop != table_id:
            return None
        outcome = commit(drop, storage, files=FileChanges())  # a drop adds no data files
    except RowmergeError as failure:
        return Unknown(failure.message)
    return outcome if isinstance(outcome, Unknown) else None


@dataclass
class Drop:
    """The commit of a DROP TABLE. Implements `rowmerge.table.commits.commit.CommitSteps`.

    `new_id`: the table id in the version that the DROP puts. This version describes an empty table.
    """

    storage: Storage
    table: str
    new_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self._read_newest()
        self.table_id_to_drop = self._current_table_id

    @property
    def version(self) -> int:
        return self._newest_version + 1

    def put(self) -> Put | Unknown | CommitConflict:
        """Put the marker and the version of the drop. Return a conflict if the newest version already drops the table."""
        # If another engine has committed to a dropped table, the newest version is that commit, so the table is dropped again.
        if self._state is not None and is_dropped_at(self.storage, self._newest_version):
            return self._concurrent_drop_conflict()
        announce_drop(self.storage, FORMAT, self.version)
        result = put_until_certain(self.storage, commit_path(self.version), serialize(self._build_actions()))
        if isinstance(result, ExistingObject):
            return Put.EXISTED
        return self._verify_or_delete() if result is Put.CREATED else result

    def rebase(self) -> Rebased | CommitConflict:
        """Read the newest version. Return a conflict if it does not belong to the table to drop."""
        self._read_newest()
        if self.table_id_to_drop is not None and self._current_table_id is not None and self._current_table_id != self.table_id_to_drop:
            return self._concurrent_drop_conflict()
        return Rebased(merged_commits=0)

    def discard(self) -> None:
        """Keep all files, because a drop writes no files except its commit."""

    def discard_superseded(self) -> None:
        """Keep all files, because a drop writes no files except its commit."""

    def _read_newest(self) -> None:
        """Read the newest version, its state and its table id. Set the state to None if the log is empty or unreadable."""
        listing = list_log(self.storage)
        # The version of an incomplete checkpoint also counts, because its number has been used.
        versions = (version_of_file(file.path) for file in listing.files)
        self._newest_version = max((version for version in versions if version is not None), default=-1)
        try:
            self._state = None if listing.newest is None else read_state(self.storage, listing, listing.newest)
        except CorruptLog:
            # A table with an unreadable log can be dropped. Its files are then selected for removal by age.
            self._state = None
        self._current_table_id = None if self._state is None else self._state.metadata.id

    def _concurrent_drop_conflict(self) -> CommitConflict:
        return MetadataChanged(self.table, self._newest_version, DROP_OPERATION, "the table no longer exists")

    def _verify_or_delete(self) -> Put | Unknown | CommitConflict:
        """Verify after the put that readers apply the version of the drop. If they ignore it, delete its files.

        The put can succeed although another writer has already used the version, for example version 7:

        1. This process reads version 6 as the newest version.
        2. Other writers commit versions 7 to 9 and write a checkpoint at version 9. Their log cleanup deletes the commit file of version 7.
        3. This process puts the drop as version 7. Readers begin at the checkpoint, which does not contain the drop.

        Returns:
            CREATED if readers apply the version. EXISTED if the table still exists at a newer version, after which `commit` repeats the
            drop. A conflict if another writer has dropped the table. Unknown if the log cannot be read.
        """
        try:
            checkpoint = read_newer_checkpoint(self.storage, list_log(self.storage, since=self.version), self.version)
        except (StorageError, CorruptLog) as failure:
            return Unknown(failure.message)
        # The drop gives the table the id `new_id`. So a checkpoint with this id was written after the drop and contains it.
        if checkpoint is None or checkpoint.metadata.id == self.new_id:
            return Put.CREATED
        delete_commit_file(self.storage, self.version)
        delete_marker(self.storage, FORMAT, self.version)
        return Put.EXISTED if checkpoint.metadata.id == self.table_id_to_drop else self._concurrent_drop_conflict()

    def _build_actions(self) -> list[Action]:
        """Return the actions that replace the table with an empty one, and that remove the metadata domains and files of the old table.

        The empty table has the id `new_id`. A writer that planned a change to the old table notices the different id.
        """
        now = time.time_ns() // 1_000_000
        metadata = Metadata(id=self.new_id, schema_string=_DROPPED_SCHEMA, configuration={DROPPED_PROPERTY: "true"}, created=now)
        actions: list[Action] = [{"commitInfo": self._commit_info(now)}, LOWEST_PROTOCOL.action(), metadata.action()]
        if self._state is None:
            # The domains and files of an empty or unreadable log are unknown.
            return actions
        for domain, configuration in self._state.domains.items():
            actions.append({"domainMetadata": {"domain": domain, "configuration": configuration, "removed": True}})
        # A replacement without new files removes every live file.
        replacement = CommitRequest(DROP_OPERATION, replace=True)
        return [*actions, *FileActionBuilder(self.storage, metadata, replacement, now).replace_files(self._state)]

    def _commit_info(self, now: int) -> dict[str, Any]:
        return {
            "timestamp": now,
            "operation": DROP_OPERATION,
            "operationParameters": {},
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "engineInfo": f"rowmerge/{__version__}",
            "txnId": self.new_id,
        }
