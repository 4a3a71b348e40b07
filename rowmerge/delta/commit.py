"""Making a change the table's next version: actions, the conditional put, and what to do when others were first."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rowmerge.delta.actions import Action, Metadata, Protocol, serialize, text
from rowmerge.delta.conflicts import Ours, find_conflict
from rowmerge.delta.definition import changed_table, cloned_table, new_table, replaced_table
from rowmerge.delta.features import check_writable, is_on
from rowmerge.delta.file_changes import FileWriter
from rowmerge.delta.history import has_in_commit_timestamps, read_commit_info
from rowmerge.delta.log import LOG, commit_path, read_documents
from rowmerge.delta.ndjson import Document, other_actions
from rowmerge.delta.properties import DELETION_VECTORS, isolation_level, serializable
from rowmerge.delta.replay import State, advance, empty_state
from rowmerge.delta.restore import restored_table
from rowmerge.delta.row_tracking import gives_ids, keeps_ids, with_ids
from rowmerge.delta.snapshot import DeltaSnapshot
from rowmerge.delta.statistics import clustering_columns
from rowmerge.delta.winners import commit_info, winner_of
from rowmerge.errors import AppendOnly, MetadataChanged, RowmergeError, StorageError, UnsupportedTableFeature
from rowmerge.storage.store import Put, Storage, local_path
from rowmerge.table.files import Positions
from rowmerge.table.snapshot import Change, Committed, Conflicted, Outcome, TableDefinition, Unknown
from rowmerge.version import __version__

_CLUSTERING = "delta.clustering"
_WAITS = (0.1, 0.2, 0.4, 0.8)
"""Seconds between looks at a store that failed."""


@dataclass
class Commit:
    """One change on its way into a table's log. `base` is None for the commit that creates the table."""

    storage: Storage
    table: str
    base: DeltaSnapshot | None
    change: Change
    protocol: Protocol
    metadata: Metadata
    now: int
    transaction_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    written: bytes = b""
    """What was put last: after Committed, the commit."""

    def run(self) -> Outcome:
        """Write the deletion vectors and put the commit, behind others' commits where they do not conflict.

        Raises what `FileWriter` raises, CorruptLog, StorageError when it is certain that nothing was committed.
        """
        state = empty_state() if self.base is None else self.base.state
        writer = FileWriter(self.storage, self.base, self.metadata, state.domains, self.change, self.now)
        try:
            outcome = self._put_after_winners(state, writer)
        except RowmergeError:
            # Certainly not in. After anything else, an interrupt in the middle of the put for one, the commit may stand on these files.
            writer.discard()
            raise
        if isinstance(outcome, Conflicted):
            writer.discard()
        elif isinstance(outcome, Committed):
            writer.discard_superseded()
        return outcome

    def _put_after_winners(self, state: State, writer: FileWriter) -> Outcome:
        deleted = dict(self.change.files.deleted)
        fixed = writer.actions(state, deleted)
        ours: Ours | None = None
        rebases = 0
        while True:
            version = state.version + 1
            actions = [*self._small(state, version), *self._with_row_ids([*fixed, *writer.replacement_of(state)], state, version)]
            self.written = serialize(actions)
            put = self._put(version, self.written)
            if isinstance(put, Unknown):
                return put
            if put is Put.CREATED:
                return Committed(version, rebases)
            try:
                document = self._winner(version)
            except RowmergeError as error:
                # A store may repeat a put by itself and find what its first try wrote.
                return Unknown(error.message)
            if self._is_own(document):
                return Committed(version, rebases)
            if self.base is None:
                operation = str(commit_info(other_actions(document)).get("operation", "a commit"))
                return Conflicted(MetadataChanged(self.table, version, operation, "the table exists now"))
            winner = winner_of(document, version, self.storage, self.base.metadata.stored_partition_columns)
            ours = ours or self._ours(self.base)
            if (conflict := find_conflict(winner, ours)) is not None:
                return Conflicted(conflict)
            state = advance(state, [document], document.path)
            if again := winner.added_again(deleted):
                deleted |= {path: deleted[path] | (winner.newly_deleted(path) or Positions()) for path in again}
                fixed = writer.actions(state, deleted)
                rebases += 1

    def _with_row_ids(self, actions: list[Action], state: State, version: int) -> list[Action]:
        if not gives_ids(self.protocol, self.metadata):
            return actions
        return with_ids(actions, state.domains, version, f"{self.storage.location}/{LOG}")

    def _ours(self, base: DeltaSnapshot) -> Ours:
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
            serializable=_everything(self.change) or _definition_alone(self.change) or serializable(self.metadata.configuration),
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
        after = like.state.domains.get(_CLUSTERING) if isinstance(like, DeltaSnapshot) else None
        if before != after:
            yield {"domainMetadata": {"domain": _CLUSTERING, "configuration": after or before, "removed": after is None}}

    def _info(self, state: State, version: int) -> dict[str, Any]:
        change = self.change
        time_ = self._in_commit_timestamp(state)
        blind = change.reads.may_match is None and not change.reads.paths and not _removes(change)
        isolation = isolation_level(self.metadata.configuration)
        info: dict[str, Any] = {} if time_ is None else {"inCommitTimestamp": time_}
        info |= {
            "timestamp": self.now if time_ is None else time_,
            "operation": change.operation,
            "operationParameters": {name: text(value) for name, value in change.parameters.items() if value is not None},
            "isolationLevel": isolation if change.data_change else "SnapshotIsolation",
            "isBlindAppend": blind,
            "operationMetrics": {name: text(value) for name, value in change.metrics.items()},
            "engineInfo": f"rowmerge/{__version__}",
            "txnId": self.transaction_id,
        }
        if keeps_ids(self.protocol, self.metadata):
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
        return max(self.now, int(info.get("inCommitTimestamp", -1)) + 1)

    def _put(self, version: int, data: bytes) -> Put | Unknown:
        """Put the commit; after a failure, look whether it is there. Raises StorageError when it certainly is not."""
        path, reason = commit_path(version), ""
        for wait in (*_WAITS, 0):
            try:
                return self.storage.put_if_absent(path, data)
            except StorageError as failure:
                try:
                    return Put.CREATED if self._is_own(Document(path, self.storage.get(path))) else Put.EXISTED
                except FileNotFoundError:
                    # A disk has done what it will do; a request to an object store may still arrive, and may be repeated until then.
                    if local_path(self.storage.location) is not None:
                        raise failure from None
                    reason = failure.message
                except StorageError:
                    reason = failure.message
            time.sleep(wait)
        return Unknown(reason)

    def _winner(self, version: int) -> Document:
        """The commit that has the version. Raises StorageError when the store fails for long, CorruptLog."""
        for wait in _WAITS:
            try:
                return read_documents(self.storage, [commit_path(version)])[0]
            except StorageError:
                time.sleep(wait)
        return read_documents(self.storage, [commit_path(version)])[0]

    def _is_own(self, document: Document) -> bool:
        return self.transaction_id.encode() in document.data


def creation(storage: Storage, table: str, definition: TableDefinition, change: Change) -> Commit:
    """The first commit of a table. Raises PlanError, ConfigurationError, UnsupportedTableFeature."""
    now = _now()
    if isinstance(change.cloned, DeltaSnapshot):
        protocol, metadata = cloned_table(table, (change.cloned.protocol, change.cloned.metadata), None, definition, now)
    else:
        protocol, metadata = new_table(table, definition, now)
    return Commit(storage, table, None, change, protocol, metadata, now)


def next_commit(storage: Storage, table: str, base: DeltaSnapshot, change: Change) -> Commit:
    """A commit on a version. Raises PlanError, ConfigurationError, UnsupportedTableFeature, AppendOnly."""
    protocol, metadata, now = base.protocol, base.metadata, _now()
    if isinstance(change.cloned, DeltaSnapshot):
        check_writable(table, protocol, metadata)
        source, definition = (change.cloned.protocol, change.cloned.metadata), change.definition or TableDefinition()
        protocol, metadata = cloned_table(table, source, (protocol, metadata), definition, now)
    elif isinstance(change.restored, DeltaSnapshot):
        check_writable(table, protocol, metadata)
        protocol, metadata = restored_table(protocol, metadata, change.restored)
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
