"""Verify after the put of a commit that readers apply it as a version of the table for which it was planned.

Between the plan and the put, other writers may have dropped and recreated the table, or cleaned its log. Both delete old commit files, so
a put may succeed although its version was already used. Readers ignore such a file, because they begin at a newer checkpoint. Each cleanup
keeps a checkpoint. So without a checkpoint at or above the commit, no cleanup has deleted an older file of the same version.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.log_files import LogListing, commit_path, list_log
from rowmerge.delta.log.replay import State
from rowmerge.delta.log.versions import read_state
from rowmerge.delta.metadata.actions import Action, Metadata
from rowmerge.delta.metadata.properties import tombstone_retention, transaction_retention
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import CorruptLog
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.request import CommitRequest, Unknown


@dataclass(frozen=True)
class Rejected:
    """The verdict for a commit that no reader applies. `reason`: why readers ignore the commit, for the error."""

    reason: str


Verdict = Literal[Put.CREATED] | Rejected | Unknown
"""Whether readers apply a commit: CREATED if they do, Rejected if they do not, and Unknown if the log is inconclusive."""


_IN_CHECKPOINT: Verdict = Put.CREATED
_NOT_IN_CHECKPOINT = Rejected("the log was cleaned or the table was dropped since")


@dataclass(frozen=True)
class PutCommit:
    """A commit after its put, whose effect for readers is not verified yet.

    `base`: the version on which the change was planned, or None for the first commit of a table. `version`: the version that was put.
    `metadata`: the table's metadata after the change. `now`: the time of the commit, in milliseconds since the epoch.
    """

    storage: Storage
    base: DeltaSnapshot | None
    version: int
    change: CommitRequest
    metadata: Metadata
    file_actions: Sequence[Action]
    now: int

    @cached_property
    def removed_paths(self) -> set[str]:
        return {action["remove"]["path"] for action in self.file_actions if "remove" in action}

    @cached_property
    def new_paths(self) -> set[str]:
        """The paths that the commit adds for the first time, without files that only get a new deletion vector (`remove` and `add`)."""
        return {action["add"]["path"] for action in self.file_actions if "add" in action} - self.removed_paths

    @property
    def changes_files(self) -> bool:
        return bool(self.new_paths or self.removed_paths)


def verify_put(commit: PutCommit) -> Verdict:
    """Return whether readers apply a commit, after its put, as a version of the table for which it was planned.

    Two things may have happened before the put. A log cleanup may have deleted the commit file that another process put as the same
    version. Or the table may have been dropped, and a new table created in its folder. The caller deletes a rejected commit.

    Returns:
        The verdict of the first case that applies:

        - There is a checkpoint at or above the commit. CREATED if it contains the commit, Rejected if not, Unknown if it does not tell.
        - The commit file is missing. Unknown.
        - The version before the commit belongs to the same table, or the commit is the first one. CREATED.
        - The commit follows a version of another table, and is the newest version. Rejected, because it can be deleted without a gap.
        - The commit follows a version of another table, and other versions follow it. Unknown.

    Raises:
        CorruptLog: A checkpoint or a commit cannot be parsed.
        ConfigurationError: The value of a retention property is invalid.
        StorageError: The store failed.
    """
    listing = list_log(commit.storage, since=0 if commit.base is None else commit.base.version)
    checkpoint = read_newer_checkpoint(commit.storage, listing, commit.version)
    if checkpoint is not None:
        # Readers begin at this checkpoint, so the commit exists for them only if the checkpoint contains it.
        return _verify_in_checkpoint(commit, checkpoint)
    if commit.version not in listing.commits:
        return Unknown(f"{commit_path(commit.version)} was written, but no longer exists")
    # A cleanup always keeps a newer checkpoint. None exists, so no cleanup has deleted a file of this version. Only a DROP is possible.
    if commit.base is None or _follows_base(commit, commit.base, listing):
        return Put.CREATED
    # The commit follows a version of another table. Only the newest version can be deleted without a gap in the log.
    if listing.newest == commit.version:
        return Rejected("the table was dropped, and another table was created in its folder")
    return Unknown("another table was created in the folder, and other writers have committed to it")


def delete_commit_file(storage: Storage, version: int) -> None:
    """Delete a commit file that readers ignore. A failure is only logged.

    Args:
        storage: The storage of the table's folder.
        version: The version of the commit file, which this process has put.
    """
    try_delete_files(storage, [[f"{storage.location}/{commit_path(version)}"]], PathOrigin.THIS_PROCESS)


def read_newer_checkpoint(storage: Storage, listing: LogListing, version: int) -> State | None:
    """Return the state of the newest checkpoint, or None if there is no checkpoint at or above `version`.

    Args:
        storage: The storage of the table's folder.
        listing: A listing of the log that includes all files from `version` on.
        version: The version of a commit.

    Raises:
        CorruptLog: The checkpoint cannot be parsed.
        StorageError: The store failed.
    """
    newest = next(iter(listing.checkpoints), None)  # the listing has the newest checkpoint first
    return None if newest is None or newest.version < version else read_checkpoint(storage, newest)


def _follows_base(commit: PutCommit, base: DeltaSnapshot, listing: LogListing) -> bool:
    """Return whether the version directly before the commit belongs to the same table as `base`."""
    # The unchanged commit file of the base is sufficient proof and needs no further request.
    if base.commit is not None and listing.commits.get(base.version) == base.commit:
        return True
    try:
        previous_state = read_state(commit.storage, list_log(commit.storage), commit.version - 1)
    except CorruptLog:
        # Commits between the base and this commit are missing, so no reader can read up to this commit.
        return False
    return previous_state.metadata.id == base.metadata.id


def _verify_in_checkpoint(commit: PutCommit, state: State) -> Verdict:
    """Return whether the state of a checkpoint contains a commit. The checkpoint is not older than the commit.

    The evidence, from the strongest to the weakest:

    - A new data file or a tombstone of the commit proves that the state contains the commit.
    - A different table id proves that the state does not contain the commit.
    - The same table id proves that the state contains the first commit of a table.
    - The absence of both files and tombstones proves the opposite, unless the tombstones may have expired.
    - The commit's transaction or new metadata is decisive if no other commit can have the same values.
    """
    if _has_file(state, commit.new_paths) or _has_tombstone(state, commit.removed_paths, deleted_at=commit.now):
        return _IN_CHECKPOINT
    if state.metadata.id != commit.metadata.id:
        return _NOT_IN_CHECKPOINT
    if commit.base is None:
        return _IN_CHECKPOINT
    if commit.changes_files and _keeps_tombstones(commit, state.metadata):
        return _NOT_IN_CHECKPOINT
    if commit.change.transaction is not None:
        return _verify_transaction(commit, commit.change.transaction, state)
    has_new_metadata = commit.metadata != commit.base.metadata and state.metadata == commit.metadata
    return _IN_CHECKPOINT if has_new_metadata else _undecided(commit)


def _keeps_tombstones(commit: PutCommit, newer_metadata: Metadata) -> bool:
    """Return whether checkpoints must still contain the tombstones of a commit, by the shorter retention in the two versions."""
    retention = min(tombstone_retention(metadata.configuration) for metadata in (commit.metadata, newer_metadata))
    return time.time_ns() // 1_000_000 - commit.now < retention


def _verify_transaction(commit: PutCommit, transaction: tuple[str, int], state: State) -> Verdict:
    """Return whether a state contains a commit, judged by the newest `txn` action of the commit's application."""
    application, version = transaction
    newest = state.transactions.get(application)
    if newest is None:
        return _NOT_IN_CHECKPOINT if transaction_retention(commit.metadata.configuration) is None else _undecided(commit)
    if newest.version < version:
        return _NOT_IN_CHECKPOINT
    # Two runs of the same transaction have the same `txn`. A later `txn` of the application may come from another process.
    return _IN_CHECKPOINT if newest.version == version and not commit.changes_files else _undecided(commit)


def _has_file(state: State, paths: set[str]) -> bool:
    """Return whether a state contains one of these new files, live or as a tombstone. File names are unique to a commit."""
    commit_paths = pa.array(sorted(paths), pa.string())
    columns = (state.files.column("path"), state.tombstones["path"])
    return any(pc.any(pc.is_in(column, value_set=commit_paths)).as_py() for column in columns)


def _has_tombstone(state: State, paths: set[str], deleted_at: int) -> bool:
    """Return whether a state contains a tombstone of one of these files with this deletion time (milliseconds since the epoch)."""
    is_removed = pc.is_in(state.tombstones["path"], value_set=pa.array(sorted(paths), pa.string()))
    return bool(pc.any(pc.equal(state.tombstones["deletionTimestamp"].filter(is_removed), deleted_at)).as_py())


def _undecided(commit: PutCommit) -> Unknown:
    return Unknown(f"a newer checkpoint does not say whether it contains version {commit.version}")
