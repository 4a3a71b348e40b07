"""Making a change the table's next version: actions, the conditional put, and what to do when others were first."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.concurrency import run_concurrently
from rowmerge.delta.commits.concurrent_commits import winner_of
from rowmerge.delta.commits.conflicts import Ours, find_conflict
from rowmerge.delta.commits.drop import FORMAT, withdraw_creation
from rowmerge.delta.commits.file_changes import FileWriter
from rowmerge.delta.commits.restore import restored_table
from rowmerge.delta.files.statistics import clustering_columns
from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.checksums import checksum_after
from rowmerge.delta.log.history import has_in_commit_timestamps, in_commit_timestamp, read_commit_info
from rowmerge.delta.log.log_files import LOG, LogListing, commit_path, list_log
from rowmerge.delta.log.ndjson import Document, commit_info, is_drop, other_actions
from rowmerge.delta.log.replay import State, advance, empty_state
from rowmerge.delta.log.versions import read_state
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, parameter_text, serialize
from rowmerge.delta.metadata.definition import changed_table, cloned_table, new_table, replaced_table, timestamps_from
from rowmerge.delta.metadata.features import check_writable, is_on
from rowmerge.delta.metadata.properties import (
    DELETION_VECTORS,
    IN_COMMIT_TIMESTAMPS,
    DeltaSettings,
    tombstone_retention,
    transaction_retention,
)
from rowmerge.delta.metadata.row_tracking import assign_row_ids, assigns_row_ids, preserves_row_ids
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, own_snapshot
from rowmerge.errors import AppendOnly, CommitConflict, CorruptLog, MetadataChanged, RowmergeError, UnsupportedTableFeature
from rowmerge.storage.deletion import Origin, clean_up
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import Existing, commit, put_settled
from rowmerge.table.commits.creation import FIRST_VERSION, CreationVersion, conflict_after_put
from rowmerge.table.commits.request import Change, Outcome, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import Positions
from rowmerge.version import __version__

_CLUSTERING = "delta.clustering"
_CLEANED = "the log was cleaned or the table was dropped since"


@dataclass
class Commit:
    """One change on its way into a table's log.

    `base` is None for the commit that creates the table. `expected` is then what the creation expects of the folder.
    """

    storage: Storage
    table: str
    base: DeltaSnapshot | None
    change: Change
    protocol: Protocol
    metadata: Metadata
    now: int
    expected: CreationVersion = FIRST_VERSION
    transaction_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    written: bytes = b""
    """What was put last: after Committed, the commit."""

    def __post_init__(self) -> None:
        self._state = replace(empty_state(), version=self.expected.number - 1) if self.base is None else self.base.state
        self._writer = FileWriter(self.storage, self.base, self.metadata, self._state.domains, self.change, self.now)
        self._deleted = dict(self.change.files.deleted)
        self._fixed: list[Action] | None = None
        self._file_actions: list[Action] = []
        self._actions: list[Action] = []
        self._ours: Ours | None = None
        self._winner: Document | None = None

    def run(self) -> Outcome:
        """Write the deletion vectors and put the commit, behind others' commits where they do not conflict.

        Raises what `FileWriter` raises, CorruptLog, StorageError when it is certain that nothing was committed.
        """
        return commit(self, self.storage, self.change.files)

    def checksum(self) -> bytes:
        """The checksum of the version, after Committed. Raises CorruptLog."""
        return checksum_after(self._state, self._actions, f"{self.storage.location}/{LOG}")

    # ------------------------------------------------------------------ steps of the protocol

    @property
    def version(self) -> int:
        return self._state.version + 1

    def put(self) -> Put | Unknown | CommitConflict:
        state = self._state
        self._fixed = self._fixed if self._fixed is not None else self._writer.actions(state, self._deleted)
        self._file_actions = [*self._fixed, *self._writer.replacement_of(state)]
        actions = self._with_row_ids(self._file_actions, state, self.version)
        self._actions = [*self._small(state, self.version), *actions]
        self.written = serialize(self._actions)
        path = commit_path(self.version)
        put = put_settled(self.storage, path, self.written)
        if isinstance(put, Existing):
            self._winner = Document(f"{self.storage.location}/{path}", put.data)
            return Put.EXISTED
        if put is not Put.CREATED:
            return put
        return self._continued() if self.base is not None else self._verify_only_table()

    def follow(self) -> int | CommitConflict:
        version, document = self.version, self._winner
        assert document is not None
        if self.base is None:
            operation = str(commit_info(other_actions(document)).get("operation", "a commit"))
            return MetadataChanged(self.table, version, operation, "the table exists now")
        if is_drop(document):
            return MetadataChanged(self.table, version, "DROP TABLE", "the table was dropped")
        winner = winner_of(document, version, self.storage, self.base.metadata.stored_partition_columns)
        self._ours = self._ours or self._reads_and_removals(self.base)
        if (conflict := find_conflict(winner, self._ours)) is not None:
            return conflict
        self._state = advance(self._state, [document])
        again = winner.added_again(self._deleted)
        if again:
            self._deleted |= {path: self._deleted[path] | (winner.newly_deleted(path) or Positions()) for path in again}
            self._fixed = None
        return int(bool(again))

    def discard(self) -> None:
        self._writer.discard()

    def discard_superseded(self) -> None:
        self._writer.discard_superseded()

    # ------------------------------------------------------------------ whether it is still the same table

    def _continued(self) -> Put | Unknown | CommitConflict:
        """Say whether the commit that was put is a version of the table that it was planned on.

        Between the plan and the put, others may have dropped and created the table, or may have cleaned the log. Then the name of the
        commit was free again. The log is listed from the base on. Without a checkpoint at or above the commit, no cleanup has freed its
        name, because each cleanup leaves a newer checkpoint. If the file of the base is still the same, so is the table.
        """
        version = self.version
        try:
            listing = list_log(self.storage, since=0 if self.base is None else self.base.version)
            if newer := [checkpoint for checkpoint in listing.checkpoints if checkpoint.version >= version]:
                included = self._is_included(read_checkpoint(self.storage, newer[0]))
                if included is None:
                    return Unknown(f"a newer checkpoint does not say whether it contains version {version}")
                return Put.CREATED if included else self._withdrawn(_CLEANED)
            if version not in listing.commits:
                return Unknown(f"{commit_path(version)} was put, and is gone")
            if self.base is None or self._is_of_base(listing):
                return Put.CREATED
            if listing.newest == version:
                return self._withdrawn("the table was dropped, and another one was created in its folder")
            return Unknown("another table was created in the folder, and others have committed to it")
        except RowmergeError as failure:
            return Unknown(failure.message)

    def _verify_only_table(self) -> Put | Unknown | CommitConflict:
        """Say whether the new table is the only one in its folder. Drop it if it is not, as `rowmerge.table.commits.creation` explains."""
        put: Put | Unknown | CommitConflict
        conflict: CommitConflict | Unknown | None
        calls: list[Callable[[], Any]] = [
            self._continued,
            partial(conflict_after_put, self.storage, self.table, FORMAT, self.expected),
        ]
        put, conflict = run_concurrently(calls)
        if put is not Put.CREATED or conflict is None:
            return put
        if isinstance(conflict, Unknown):
            return conflict
        return withdraw_creation(self.storage, self.table, self.metadata.id) or conflict

    def _is_included(self, state: State) -> bool | None:
        """Whether a checkpoint that is not older than this commit contains it, None if nothing tells.

        Names of data files are unique. So the state has a file that this commit added, live or as a tombstone, if it contains the commit.
        Of a file that the commit removed, it has a tombstone with the commit's time. Both end with the retention of tombstones. Until then
        the files decide, because transactions and definitions of other commits may be the same.
        """
        touched = {action["remove"]["path"] for action in self._file_actions if "remove" in action}
        added = [action["add"]["path"] for action in self._file_actions if "add" in action and action["add"]["path"] not in touched]
        files, tombstones = state.files.column("path"), state.tombstones
        there = [paths.filter(pc.is_in(paths, value_set=pa.array(added, pa.string()))) for paths in (files, tombstones["path"])]
        same = pc.is_in(tombstones["path"], value_set=pa.array(sorted(touched), pa.string()))
        times = tombstones["deletionTimestamp"].filter(same)
        if any(len(paths) for paths in there) or pc.any(pc.equal(times, self.now)).as_py():
            return True
        if self.base is None or state.metadata is None or state.metadata.id != self.metadata.id:
            return state.metadata is not None and state.metadata.id == self.metadata.id
        retention = min(tombstone_retention(metadata.configuration) for metadata in (self.metadata, state.metadata))
        if (added or touched) and _now() - self.now < retention:
            return False
        if self.change.transaction is not None:
            application, version = self.change.transaction
            newest = state.transactions.get(application)
            if newest is None:
                return False if transaction_retention(self.metadata.configuration) is None else None
            if newest.version == version and not (added or touched):
                # Another run of the same transaction leaves the same state.
                return True
            # A later version of the application may be the commit of another process.
            return False if newest.version < version else None
        return True if self.metadata != self.base.metadata and state.metadata == self.metadata else None

    def _is_of_base(self, listing: LogListing) -> bool:
        """Whether the version before the commit is still a version of the base's table."""
        base = self.base
        assert base is not None
        if base.commit is not None and listing.commits.get(base.version) == base.commit:
            return True
        try:
            before = read_state(self.storage, list_log(self.storage), self.version - 1)
        except CorruptLog:
            # Commits between are missing, so no reader has come as far as this commit.
            return False
        return before.metadata is not None and before.metadata.id == base.metadata.id

    def _withdrawn(self, reason: str) -> Unknown | CommitConflict:
        """Delete the commit, which no reader applies, and return the conflict."""
        clean_up(self.storage, [[f"{self.storage.location}/{commit_path(self.version)}"]], Origin.WRITTEN)
        return MetadataChanged(self.table, self.version, "another commit", reason)

    def _with_row_ids(self, actions: list[Action], state: State, version: int) -> list[Action]:
        if not assigns_row_ids(self.protocol, self.metadata):
            return actions
        return assign_row_ids(actions, state.domains, version, f"{self.storage.location}/{LOG}")

    def _reads_and_removals(self, base: DeltaSnapshot) -> Ours:
        transaction = self.change.transaction
        files = self.change.files
        known = base.deleted_positions(list(files.deleted)) if files.deleted else {}
        return Ours(
            table=self.table,
            location=self.storage.location,
            metadata=base.metadata,
            reads=self.change.reads,
            # A replacement takes out whatever is there by then.
            removed=frozenset() if self.change.replace else frozenset(files.removed),
            deleted={path: rows - known.get(path, Positions()) for path, rows in files.deleted.items()},
            data_change=self.change.data_change,
            # A replacement takes every file out, so an append cannot be thought to have come after it.
            # Nor can one to a table whose new definition was held against every row.
            serializable=_everything(self.change) or _definition_alone(self.change) or self._isolation_level == "Serializable",
            domains=frozenset({_CLUSTERING}) if _everything(self.change) else frozenset(),
            application=transaction[0] if transaction else None,
        )

    def _small(self, state: State, version: int) -> Iterator[Action]:
        """Everything but the file actions; commitInfo first, as in-commit timestamps want it."""
        yield {"commitInfo": self._info(state, version)}
        if self.protocol != state.protocol:
            yield self.protocol.action()
        if self.metadata != state.metadata:
            yield self.metadata.action()
        if self.change.transaction:
            application, number = self.change.transaction
            yield {"txn": {"appId": application, "version": number, "lastUpdated": self.now}}
        if _everything(self.change) or self.change.cloned is not None:
            yield from self._clustering(state)

    def _clustering(self, state: State) -> Iterator[Action]:
        """A new table has no clustering, whatever the old one had; a restored one has the one of then, a clone that of the other table."""
        before, like = state.domains.get(_CLUSTERING), self.change.restored or self.change.cloned
        after = None if like is None else own_snapshot(like).state.domains.get(_CLUSTERING)
        if before != after:
            yield {"domainMetadata": {"domain": _CLUSTERING, "configuration": after or before, "removed": after is None}}

    @property
    def _isolation_level(self) -> str:
        return DeltaSettings(self.metadata.configuration).isolation_level(self.change.operation)

    def _info(self, state: State, version: int) -> dict[str, Any]:
        change = self.change
        time_ = self._in_commit_timestamp(state)
        blind = change.reads.may_match is None and not change.reads.paths and not _removes(change)
        info: dict[str, Any] = {} if time_ is None else {"inCommitTimestamp": time_}
        info |= {
            "timestamp": self.now if time_ is None else time_,
            "operation": change.operation,
            "operationParameters": {name: parameter_text(value) for name, value in change.parameters.items() if value is not None},
            "isolationLevel": self._isolation_level if change.data_change else "SnapshotIsolation",
            "isBlindAppend": blind,
            "operationMetrics": {name: parameter_text(value) for name, value in change.metrics.items()},
            "engineInfo": f"rowmerge/{__version__}",
            "txnId": self.transaction_id,
        }
        if preserves_row_ids(self.protocol, self.metadata):
            # What would copy or update rows without their ids is refused before it gets here.
            info["tags"] = {"delta.rowTracking.preserved": "true"}
        if version:
            info["readVersion"] = self.base.version if self.base is not None else version - 1
        return info

    def _in_commit_timestamp(self, state: State) -> int | None:
        """Later than that of the version before; None when the table does not have them."""
        if not has_in_commit_timestamps(self.protocol, self.metadata, state.version + 1):
            return None
        info = state.commit_info
        if state.version >= 0 and "inCommitTimestamp" not in info:
            info = read_commit_info(self.storage, state.version)
        return max(self.now, (in_commit_timestamp(self.storage, state.version, info) or -1) + 1)


def creation(storage: Storage, table: str, definition: TableDefinition, change: Change, version: CreationVersion) -> Commit:
    """The first commit of a table, at the version with which it begins.

    Raises PlanError, ConfigurationError, UnsupportedTableFeature.
    """
    now = _now()
    if change.cloned is None:
        protocol, metadata = new_table(table, definition, now)
    else:
        source = own_snapshot(change.cloned)
        protocol, metadata = cloned_table(table, (source.protocol, source.metadata), None, definition, now)
    if version.number and is_on(metadata, IN_COMMIT_TIMESTAMPS):
        # The version of the drop has no in-commit timestamp. So the log says from which version on there are some.
        metadata = replace(metadata, configuration={**metadata.configuration, **timestamps_from(version.number, now)})
    return Commit(storage, table, None, change, protocol, metadata, now, version)


def next_commit(storage: Storage, table: str, base: DeltaSnapshot, change: Change) -> Commit:
    """A commit on a version. Raises PlanError, ConfigurationError, UnsupportedTableFeature, AppendOnly."""
    protocol, metadata, now = base.protocol, base.metadata, _now()
    if change.cloned is not None:
        check_writable(table, protocol, metadata)
        source, definition = own_snapshot(change.cloned), change.definition or TableDefinition()
        protocol, metadata = cloned_table(table, (source.protocol, source.metadata), (protocol, metadata), definition, now)
    elif change.restored is not None:
        check_writable(table, protocol, metadata)
        protocol, metadata = restored_table(protocol, metadata, own_snapshot(change.restored))
        check_writable(table, protocol, metadata)
    elif change.replace:
        protocol, metadata = replaced_table(table, protocol, metadata, change.definition or TableDefinition())
    else:
        if change.definition is None or not change.files.empty:
            check_writable(table, protocol, metadata)
        if change.definition is not None:
            # What stands in the way of writing may just be what is being unset.
            clustering = tuple(clustering_columns(base.state.domains))
            protocol, metadata = changed_table(table, protocol, metadata, change.definition, clustering)
    if change.data_change and _removes(change) and protocol.supports("appendOnly") and is_on(base.metadata, "delta.appendOnly"):
        raise AppendOnly(table, change.operation)
    if change.files.deleted and not (protocol.supports("deletionVectors") and is_on(metadata, DELETION_VECTORS)):
        advice = (
            f"Switch them on with ALTER TABLE {table} SET TBLPROPERTIES ('rowmerge.write.mode' = 'merge-on-read'), or rewrite the files."
        )
        raise UnsupportedTableFeature(table, "deletionVectors", action="mark rows as deleted in", advice=advice)
    return Commit(storage, table, base, change, protocol, metadata, now)


def _everything(change: Change) -> bool:
    """Whether the change says what all of the table is afterwards."""
    return change.replace or change.restored is not None


def _removes(change: Change) -> bool:
    return bool(_everything(change) or change.files.removed or change.files.deleted)


def _definition_alone(change: Change) -> bool:
    return change.definition is not None and change.files.empty


def _now() -> int:
    return time.time_ns() // 1_000_000
