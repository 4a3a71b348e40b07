"""Commit a change as the next version of a Delta table: build its actions, put them, and rebase them on concurrent commits."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from rowmerge.concurrency import run_both
from rowmerge.delta.commits.concurrent_commits import ConcurrentCommit, operation_of, read_concurrent_commit
from rowmerge.delta.commits.conflicts import PlannedCommit, find_conflict, sets_all_files
from rowmerge.delta.commits.definition import protocol_and_metadata_after
from rowmerge.delta.commits.drop import FORMAT, withdraw_creation
from rowmerge.delta.commits.file_changes import FileActionBuilder
from rowmerge.delta.commits.verification import PutCommit, Rejected, delete_commit_file, verify_put
from rowmerge.delta.files.statistics import CLUSTERING
from rowmerge.delta.log.checksums import checksum_after
from rowmerge.delta.log.history import has_in_commit_timestamps, in_commit_timestamp, read_commit_info, timestamps_from
from rowmerge.delta.log.log_files import LOG, commit_path
from rowmerge.delta.log.ndjson import Document, is_drop, non_file_actions
from rowmerge.delta.log.replay import State, advance, empty_state, has_deletion_vectors
from rowmerge.delta.metadata.actions import Action, Metadata, Protocol, copied_files, parameter_text, serialize, transaction_actions
from rowmerge.delta.metadata.definition import metadata_after_clone, metadata_after_create
from rowmerge.delta.metadata.feature_removal import domain_actions
from rowmerge.delta.metadata.features import is_enabled
from rowmerge.delta.metadata.properties import (
    APPEND_ONLY,
    DELETION_VECTORS,
    IN_COMMIT_TIMESTAMPS,
    ROW_TRACKING,
    SYMLINK_MANIFESTS,
    DeltaSettings,
    is_true,
)
from rowmerge.delta.metadata.row_tracking import assign_row_ids, assigns_row_ids
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot, as_delta_snapshot
from rowmerge.errors import AppendOnly, CommitConflict, MetadataChanged, PlanError, RowmergeError, UnsupportedTableFeature
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import ExistingObject, Rebased, commit, put_until_certain
from rowmerge.table.commits.creation import FIRST_VERSION, CreationVersion, recheck_other_format
from rowmerge.table.commits.request import CommitRequest, Outcome, Unknown
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import Positions
from rowmerge.version import __version__


@dataclass
class Commit:
    """A commit of a change to the log of a Delta table. Implements `rowmerge.table.commits.commit.CommitSteps`.

    `table`: the name of the table in errors. `base`: the version on which the change was planned, or None for the commit that creates the
    table. `protocol` and `metadata`: the table's protocol and metadata after the change. `now`: the time of the commit, in milliseconds
    since the epoch. `expected`: the version number that a creation must put, and the state of the folder that the creation requires.
    """

    storage: Storage
    table: str
    base: DeltaSnapshot | None
    change: CommitRequest
    protocol: Protocol
    metadata: Metadata
    now: int
    expected: CreationVersion = FIRST_VERSION
    transaction_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    commit_bytes: bytes = b""
    """The content of the last put. If the outcome is Committed, this is the content of the commit file."""

    def __post_init__(self) -> None:
        self._state = replace(empty_state(), version=self.expected.number - 1) if self.base is None else self.base.state
        self._builder = FileActionBuilder(self.storage, self.metadata, self.change, self.now, self.base, self._state.domains)
        self._deleted_positions = dict(self.change.files.deleted)
        self._cached_change_actions: list[Action] | None = None
        self._file_actions: list[Action] = []
        self._actions: list[Action] = []
        self._concurrent_file: Document | None = None

    def run(self) -> Outcome:
        """Commit the change. Raises CorruptLog, StorageError or an error of `FileActionBuilder` only if nothing was committed."""
        return commit(self, self.storage, self.change.files)

    def checksum(self) -> bytes:
        """Return the content of the checksum file for the committed version. Raises CorruptLog if an action is invalid."""
        return checksum_after(self._state, self._builder.without_restated(self._actions), f"{self.storage.location}/{LOG}")

    @property
    def version(self) -> int:
        return self._state.version + 1

    @property
    def previous_state(self) -> State:
        """The version before the commit: after concurrent commits, a newer one than `base`."""
        return self._state

    def put(self) -> Put | Unknown | CommitConflict:
        """Put the change as the next version, and verify that readers apply it.

        A successful put is not sufficient. A log cleanup, or a DROP before a CREATE, may have deleted an older commit file of the same
        version. Readers then ignore the new file. After the put of a table's first version, the method also checks for a
        concurrent creation in another format.
        """
        self._build_actions()
        self.commit_bytes = serialize(self._actions)
        path = commit_path(self.version)
        result = put_until_certain(self.storage, path, self.commit_bytes)
        if isinstance(result, ExistingObject):
            self._concurrent_file = Document(f"{self.storage.location}/{path}", result.data)
            return Put.EXISTED
        if isinstance(result, Unknown):
            return result
        return self._verify_creation() if self.base is None else self._verify_or_delete()

    def rebase(self) -> Rebased | CommitConflict:
        """Plan the change again for the version after the concurrent commit. If the two conflict, return the conflict."""
        concurrent_file = self._concurrent_file
        assert concurrent_file is not None  # a rebase follows a put that returned EXISTED
        if self.base is None:
            # The change is a creation, and the concurrent commit has created a table first.
            operation = operation_of(non_file_actions(concurrent_file))
            return MetadataChanged(self.table, self.version, operation, "the table exists now")
        if is_drop(concurrent_file):
            return MetadataChanged(self.table, self.version, "DROP TABLE", "the table was dropped")
        concurrent = read_concurrent_commit(concurrent_file, self.version, self.storage, self.base.metadata.stored_partition_columns)
        conflict = find_conflict(concurrent, self._planned)
        if conflict is not None:
            return conflict
        self._state = advance(self._state, [concurrent_file])
        is_merged = self._merge_deletions(concurrent)
        # The commit counts as merged only if both commits delete rows of the same file.
        return Rebased(merged_commits=1 if is_merged else 0)

    def discard(self) -> None:
        self._builder.discard()

    def discard_superseded(self) -> None:
        self._builder.discard_superseded()

    def _merge_deletions(self, concurrent: ConcurrentCommit) -> bool:
        """Add the rows that a concurrent commit deleted to the deletion vectors of this change.

        Returns:
            Whether both commits change the deletion vector of the same file.
        """
        if not self._deleted_positions:
            # Without deletions, `added_paths`, which may contain very many paths, need not be converted.
            return False
        # The concurrent commit added these files again, with a different deletion vector or different statistics.
        changed_paths = self._deleted_positions.keys() & frozenset(concurrent.added_paths.to_pylist())
        for path in changed_paths:
            # None: the concurrent commit restored rows of the file, so there is no row to add.
            newly_deleted = concurrent.newly_deleted(path) or Positions()
            self._deleted_positions[path] = self._deleted_positions[path] | newly_deleted
        if changed_paths:
            # The cached actions refer to the old deletion vectors. The next put builds them again.
            self._cached_change_actions = None
        return bool(changed_paths)

    def _verify_or_delete(self) -> Put | Unknown | CommitConflict:
        """Verify after the put that readers apply the commit to the table for which it was planned. If they do not, delete the commit file.

        Readers ignore the commit if, between the plan and the put, the table was dropped and created again, or its log was cleaned
        (`verify_put`).

        Returns:
            CREATED if readers apply the commit. A conflict if they ignore the commit. Unknown if the log is inconclusive or unreadable.
        """
        unverified = PutCommit(self.storage, self.base, self.version, self.change, self.metadata, self._file_actions, self.now)
        try:
            verdict = verify_put(unverified)
        except RowmergeError as failure:
            return Unknown(failure.message)
        if not isinstance(verdict, Rejected):
            return verdict
        delete_commit_file(self.storage, self.version)
        return MetadataChanged(self.table, self.version, "another commit", verdict.reason)

    def _verify_creation(self) -> Put | Unknown | CommitConflict:
        """Verify after the put of the first version that the folder contains no other table. Otherwise, drop the new table.

        Delta stores versions in `_delta_log`, and Iceberg stores them in `metadata`. So the put succeeds even if a concurrent statement
        creates an Iceberg table or a view in the same folder (`rowmerge.table.commits.creation`).

        Returns:
            `Put.CREATED` if the new table exists and is the only one. A conflict if this method dropped the new table, or if readers ignore
            it because they begin at a newer checkpoint of another Delta table. Unknown if the log or the folder cannot be read, or if the
            drop failed.
        """
        # Each check sends requests and does not need the result of the other, so both run at the same time.
        find_iceberg_conflict = partial(recheck_other_format, self.storage, self.table, FORMAT, self.expected)
        delta_result, iceberg_conflict = run_both(self._verify_or_delete, find_iceberg_conflict)
        if delta_result is not Put.CREATED:
            return delta_result  # readers ignore the new table, and its commit file is deleted, or the log is inconclusive
        if iceberg_conflict is None:
            return Put.CREATED
        if isinstance(iceberg_conflict, Unknown):
            return iceberg_conflict
        if self.expected.is_conversion:  # a drop would delete the files of the other table
            delete_commit_file(self.storage, self.version)
            return iceberg_conflict
        # The folder contains two tables, so this statement fails, and its table is dropped.
        failed_drop = withdraw_creation(self.storage, self.table, self.metadata.id)
        return iceberg_conflict if failed_drop is None else failed_drop

    @cached_property
    def _planned(self) -> PlannedCommit:
        assert self.base is not None
        return PlannedCommit(self.table, self.base, self.change, DeltaSettings(self.metadata.configuration))

    def _build_actions(self) -> None:
        """Build the actions of the next version. Write deletion vectors, unless the vectors of an earlier attempt are still complete."""
        if self._cached_change_actions is None:
            self._cached_change_actions = self._builder.build_actions(self._state, self._deleted_positions)
        self._file_actions = [*self._cached_change_actions, *self._builder.replace_files(self._state)]
        self._refuse_deletion_vectors()
        file_actions = self._file_actions
        if assigns_row_ids(self.protocol, self.metadata):
            file_actions = assign_row_ids(file_actions, self._state.domains, self.version, f"{self.storage.location}/{LOG}")
        self._actions = [*self._non_file_actions(), *file_actions]

    def _refuse_deletion_vectors(self) -> None:
        """Raise PlanError if the change enables symlink manifests on files with deletion vectors, or adds such a file beside manifests."""
        if not is_true(self.metadata.configuration, SYMLINK_MANIFESTS):
            return
        is_enabling = not is_true(self._state.metadata.configuration, SYMLINK_MANIFESTS)
        adds_vectors = any("deletionVector" in action.get("add", {}) for action in self._file_actions)
        old_state = as_delta_snapshot(self.change.restored).state if self.change.restored is not None else self._state
        if adds_vectors or (is_enabling and not self.change.replace and has_deletion_vectors(old_state)):
            reason = f"Files of {self.table} have deletion vectors, which engines that read symlink manifests ignore"
            raise PlanError(f"{reason}. Before {SYMLINK_MANIFESTS} is set, run REORG TABLE … APPLY (PURGE), which removes them.")

    def _non_file_actions(self) -> Iterator[Action]:
        """Yield all actions except file actions. `commitInfo` is the first action, as in-commit timestamps require."""
        yield {"commitInfo": self._commit_info()}
        if self.protocol != self._state.protocol:
            yield self.protocol.action()
        if self.metadata != self._state.metadata:
            yield self.metadata.action()
        # A new table in place of this one has loaded no file.
        keys = copied_files(self._state.transactions) if self.change.replace else self.change.copied_files
        yield from transaction_actions(self._state.transactions, self.change.transaction, keys, self.now)
        if self.change.feature_step is not None:
            yield from domain_actions(self._state.domains, self.change.feature_step)
        # These changes set all files of the version, and with them the clustering of the files.
        if sets_all_files(self.change) or self.change.cloned is not None:
            yield from self._clustering_actions()

    def _clustering_actions(self) -> Iterator[Action]:
        """Yield the change of the clustering domain. RESTORE and CLONE copy that of their source. A replacement removes clustering."""
        source = self.change.restored or self.change.cloned
        old_clustering = self._state.domains.get(CLUSTERING)
        clustering = None if source is None else as_delta_snapshot(source).state.domains.get(CLUSTERING)
        if clustering != old_clustering:
            is_removed = clustering is None
            yield {"domainMetadata": {"domain": CLUSTERING, "configuration": clustering or old_clustering, "removed": is_removed}}

    def _commit_info(self) -> dict[str, Any]:
        """Return the fields of `commitInfo` for the next version (PROTOCOL.md, Commit Provenance Information)."""
        change, timestamp = self.change, self._in_commit_timestamp()
        settings = DeltaSettings(self.metadata.configuration)
        reads_table = change.reads.may_match is not None or bool(change.reads.paths)
        info: dict[str, Any] = {} if timestamp is None else {"inCommitTimestamp": timestamp}
        info |= {
            "timestamp": self.now if timestamp is None else timestamp,
            "operation": change.operation,
            "operationParameters": {name: parameter_text(value) for name, value in change.parameters.items() if value is not None},
            # As in delta-spark, a commit that only moves rows needs no more than snapshot isolation.
            "isolationLevel": settings.isolation_level(change.operation) if change.data_change else "SnapshotIsolation",
            "isBlindAppend": not reads_table and not _removes_rows(change),
            "operationMetrics": {name: parameter_text(value) for name, value in change.metrics.items()},
            "engineInfo": f"rowmerge/{__version__}",
            "txnId": self.transaction_id,
        }
        if change.user_metadata is not None:
            info["userMetadata"] = change.user_metadata
        if is_enabled(self.protocol, self.metadata, ROW_TRACKING):
            # Changes that would copy or update rows without their ids have already been rejected.
            info["tags"] = {"delta.rowTracking.preserved": "true"}
        if self.version:
            # A creation has no base. If its version is above 0, it follows the version that dropped the previous table.
            info["readVersion"] = self.version - 1 if self.base is None else self.base.version
        return info

    def _in_commit_timestamp(self) -> int | None:
        """Return a time in milliseconds that is later than the previous version's, or None for a table without in-commit timestamps."""
        if not has_in_commit_timestamps(self.protocol, self.metadata, self.version):
            return None
        info, previous_version = self._state.commit_info, self._state.version
        if previous_version >= 0 and "inCommitTimestamp" not in info:
            info = read_commit_info(self.storage, previous_version)
        previous_timestamp = in_commit_timestamp(self.storage, previous_version, info) or -1
        return max(self.now, previous_timestamp + 1)


def first_commit(storage: Storage, table: str, definition: TableDefinition, change: CommitRequest, version: CreationVersion) -> Commit:
    """Return the first commit of a table, which may be a clone of another table.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in errors.
        definition: The columns, partitioning and properties of the table. For a clone, these properties override those of the source.
        change: The data files and the operation of the commit. For a clone, `change.cloned` is the source.
        version: The version to put. If the folder contains the log of a dropped table, the new table continues its version numbers.

    Raises:
        PlanError: The definition is invalid.
        ConfigurationError: The value of a property is invalid.
        UnsupportedTableFeature: The table needs a feature that the engine does not implement.
    """
    now = time.time_ns() // 1_000_000
    if change.cloned is None:
        protocol, metadata = metadata_after_create(table, definition, now)
    else:
        source = as_delta_snapshot(change.cloned)
        protocol, metadata = metadata_after_clone(table, (source.protocol, source.metadata), replaced=None, definition=definition, now=now)
    continues_dropped_log = version.number > 0
    if continues_dropped_log and is_true(metadata.configuration, IN_COMMIT_TIMESTAMPS):
        # The versions of the dropped table may lack in-commit timestamps. In that case, the protocol requires the properties that record
        # the first version with an in-commit timestamp (PROTOCOL.md, In-Commit Timestamps).
        metadata = replace(metadata, configuration={**metadata.configuration, **timestamps_from(version.number, now)})
    return Commit(storage, table, base=None, change=change, protocol=protocol, metadata=metadata, now=now, expected=version)


def next_commit(storage: Storage, table: str, base: DeltaSnapshot, change: CommitRequest) -> Commit:
    """Return the commit for a change to an existing table.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in errors.
        base: The version on which the change was planned.
        change: The changed files and the new definition of the table.

    Raises:
        AppendOnly: The change removes rows, and the table has the property `delta.appendOnly`.
        UnsupportedTableFeature: The table needs a feature that the engine does not implement, or the change needs deletion vectors.
        PlanError: The new definition is invalid.
        ConfigurationError: The value of a property is invalid.
    """
    now = time.time_ns() // 1_000_000
    protocol, metadata = protocol_and_metadata_after(table, base, change, now)
    # The property before the change counts, so that no statement can unset the property and remove rows at the same time.
    if change.data_change and _removes_rows(change) and is_enabled(protocol, base.metadata, APPEND_ONLY):
        raise AppendOnly(table, change.operation)
    if change.files.deleted and not is_enabled(protocol, metadata, DELETION_VECTORS):
        statement = f"ALTER TABLE {table} SET TBLPROPERTIES ('rowmerge.write.mode' = 'merge-on-read')"
        advice = f"Enable deletion vectors with {statement}, or rewrite the files."
        raise UnsupportedTableFeature(table, "deletionVectors", action="mark rows as deleted in", advice=advice)
    return Commit(storage, table, base=base, change=change, protocol=protocol, metadata=metadata, now=now)


def _removes_rows(change: CommitRequest) -> bool:
    return bool(sets_all_files(change) or change.files.removed or change.files.deleted)
