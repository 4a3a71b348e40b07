"""Drop a Delta table: commit a version without files, and delete the files and the log before it.

See `rowmerge.table.drop_markers` for why the log stays.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace

from rowmerge.delta.commits.file_changes import FileWriter
from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.checkpoints import try_checkpoint
from rowmerge.delta.log.log_files import LAST_CHECKPOINT, LOG, commit_path, list_log, list_newest, read_documents, version_of_file
from rowmerge.delta.log.ndjson import Document, file_actions, is_drop, other_actions
from rowmerge.delta.log.replay import State, described
from rowmerge.delta.log.versions import read_state
from rowmerge.delta.maintenance.vacuum import paths_below
from rowmerge.delta.metadata.actions import DROPPED, Action, Metadata, Protocol, serialize
from rowmerge.errors import CommitConflict, CommitStateUnknown, CorruptLog, MetadataChanged, StorageError
from rowmerge.storage.deletion import Origin, clean_up, delete_files
from rowmerge.storage.store import Put, Storage, StoredObject
from rowmerge.table.commit import Existing, commit, put_settled
from rowmerge.table.drop_markers import MARKERS, delete_marker, has_markers, marked_versions, put_marker
from rowmerge.table.files import FileChanges
from rowmerge.table.snapshot import Change, Unknown
from rowmerge.version import __version__

FORMAT = "delta"
OPERATION = "DROP TABLE"
_COLUMN = '{"type":"struct","fields":[{"name":"dropped","type":"boolean","nullable":true,"metadata":{}}]}'
"""The schema of a dropped table. Some readers do not open a table without columns."""
_ICEBERG = "metadata/"


def drop_table(storage: Storage, table: str) -> None:
    """Drop the table of a folder, even if its log cannot be read, and delete its files.

    If others drop the table first, it does nothing to a table that they create in its place.
    Raises StorageError if the table is certainly still there, CommitStateUnknown.
    """
    outcome = commit(Drop(storage, table), storage, FileChanges())
    if isinstance(outcome, Unknown):
        raise CommitStateUnknown(
            f"It is not known whether {table} was dropped: {outcome.reason}. Look whether it exists, and drop it again."
        )
    finish_drop(storage)


def is_dropped_at(storage: Storage, version: int) -> bool:
    """Whether a version of a log is that of a dropped table. Raises CorruptLog, StorageError."""
    try:
        return is_drop(read_documents(storage, [commit_path(version)])[0])
    except CorruptLog:
        # A version that only a checkpoint has: its commit was cleaned up. That of a drop stays.
        return False


def has_dropped_table(storage: Storage) -> bool:
    """Whether the newest version of a log is that of a dropped table. Raises CorruptLog, StorageError."""
    newest = list_newest(storage).newest
    return newest is not None and is_dropped_at(storage, newest)


def finish_drop(storage: Storage) -> None:
    """Write the checkpoint of a drop, and delete what the dropped table left in the folder, if the newest version is that of a drop.

    Others may create a table meanwhile. All of its files are younger than the commit of the drop, as `Table.create` verifies, so none of
    them is deleted.
    Raises CorruptLog, StorageError.
    """
    if not marked_versions(storage, FORMAT):
        return
    listing = list_log(storage)
    version = listing.newest
    if version is None or version not in listing.commits:
        return
    document = read_documents(storage, [commit_path(version)])[0]
    if not is_drop(document):
        return
    if all(checkpoint.version < version for checkpoint in listing.checkpoints):
        # It holds no tombstones and no transactions, so nothing of the dropped table is part of the new one.
        state = replace(described(other_actions(document), f"{storage.location}/{LOG}"), version=version)
        if not try_checkpoint(storage, state):
            return
    _delete_older(storage, document, version, listing.commits[version].modified)


@dataclass
class Drop:
    """One DROP TABLE. Implements `rowmerge.table.commit.CommitSteps`."""

    storage: Storage
    table: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self._newest = -1
        self._state: State | None = None
        self._read()
        self._dropped_id = self._id

    @property
    def version(self) -> int:
        return self._newest + 1

    def put(self) -> Put | Unknown | CommitConflict:
        # Another engine may have committed to the dropped table. Then it is dropped again.
        if self._state is not None and is_dropped_at(self.storage, self._newest):
            return self._superseded()
        put_marker(self.storage, FORMAT, self.version)
        put = put_settled(self.storage, commit_path(self.version), serialize(self._actions()))
        if isinstance(put, Existing):
            return Put.EXISTED
        return self._continued() if put is Put.CREATED else put

    def follow(self) -> int | CommitConflict:
        self._read()
        if self._dropped_id is not None and self._id is not None and self._id != self._dropped_id:
            return self._superseded()
        return 0

    def discard(self) -> None:
        """Do nothing: a drop writes no files but its commit."""

    def discard_superseded(self) -> None:
        """Do nothing, like `discard`."""

    # ------------------------------------------------------------------ inside

    @property
    def _id(self) -> str | None:
        return None if self._state is None or self._state.metadata is None else self._state.metadata.id

    def _read(self) -> None:
        listing = list_log(self.storage)
        # Also the version of a checkpoint that lacks parts: its number was used.
        self._newest = max((v for each in listing.files if (v := version_of_file(each.path)) is not None), default=-1)
        try:
            self._state = None if listing.newest is None else read_state(self.storage, listing, listing.newest)
        except CorruptLog:
            # A log that cannot be read is dropped all the same. Its files are deleted by their age.
            self._state = None

    def _superseded(self) -> CommitConflict:
        return MetadataChanged(self.table, self._newest, OPERATION, "the table is gone")

    def _continued(self) -> Put | Unknown | CommitConflict:
        """Say whether the commit that was put drops the table. Its name may have been freed by a cleanup, as `Commit` explains."""
        try:
            listing = list_log(self.storage, since=self.version)
            newer = [checkpoint for checkpoint in listing.checkpoints if checkpoint.version >= self.version]
            if not newer:
                return Put.CREATED
            metadata = read_checkpoint(self.storage, newer[0]).metadata
        except (StorageError, CorruptLog) as failure:
            return Unknown(failure.message)
        if metadata is None or metadata.id == self.id:
            return Put.CREATED
        # Its number had been freed, so its file lies below a checkpoint, and its marker says nothing.
        clean_up(self.storage, [[f"{self.storage.location}/{commit_path(self.version)}"]], Origin.WRITTEN)
        delete_marker(self.storage, FORMAT, self.version)
        return Put.EXISTED if metadata.id == self._dropped_id else self._superseded()

    def _actions(self) -> list[Action]:
        now = time.time_ns() // 1_000_000
        metadata = Metadata(id=self.id, schema_string=_COLUMN, configuration={DROPPED: "true"}, created=now)
        info = {
            "timestamp": now,
            "operation": OPERATION,
            "operationParameters": {},
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "engineInfo": f"rowmerge/{__version__}",
            "txnId": self.id,
        }
        actions: list[Action] = [{"commitInfo": info}, Protocol(1, 2).action(), metadata.action()]
        if self._state is None:
            return actions
        domains = self._state.domains.items()
        actions += [{"domainMetadata": {"domain": name, "configuration": text, "removed": True}} for name, text in domains]
        writer = FileWriter(self.storage, None, metadata, {}, Change(OPERATION, replace=True), now)
        return [*actions, *writer.replacement_of(self._state)]


def _delete_older(storage: Storage, document: Document, version: int, dropped_at: int) -> None:
    """Delete the log before a drop, and the files of the folder that are older than the drop or that its commit removes."""
    removes = file_actions([document], ()).removes
    removed = set(paths_below(storage.location, removes["path"], removes["deletionVector"]))
    objects = storage.list()
    controls = (f"{LOG}/", f"{MARKERS}/", *([_ICEBERG] if has_markers(objects, "iceberg") else []))
    files = [each for each in objects if not each.path.startswith(controls) and (each.modified < dropped_at or each.path in removed)]
    log = [each for each in objects if each.path.startswith(f"{LOG}/") and _is_older_log(each, version, dropped_at)]
    delete_files(storage, [[f"{storage.location}/{each.path}" for each in group] for group in (files, log)], Origin.LISTED)


def _is_older_log(file: StoredObject, version: int, dropped_at: int) -> bool:
    of_version = version_of_file(file.path)
    if of_version is not None:
        return of_version < version
    return file.modified < dropped_at and file.path != LAST_CHECKPOINT
