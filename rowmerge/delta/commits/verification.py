"""Verify after a put that the commit is a version of the table that it was planned on.

Between the plan and the put, others may have dropped and created the table, or may have cleaned the log. Then the name of the commit was
free again. Without a checkpoint at or above the commit, no cleanup has freed its name, because each cleanup leaves a newer checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
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
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.request import Change, Unknown


@dataclass(frozen=True)
class Rejected:
    """No reader applies the commit, for this reason."""

    reason: str


class _Inclusion(Enum):
    """Whether a checkpoint contains a commit."""

    INCLUDED = "included"
    MISSING = "missing"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class PutCommit:
    """A commit that was put as `version`. `base` is None for the first commit of a table; `now` is the commit's time in milliseconds."""

    storage: Storage
    base: DeltaSnapshot | None
    version: int
    change: Change
    metadata: Metadata
    file_actions: Sequence[Action]
    now: int

    @cached_property
    def removed_paths(self) -> list[str]:
        return sorted({action["remove"]["path"] for action in self.file_actions if "remove" in action})

    @cached_property
    def added_paths(self) -> list[str]:
        """The files that only this commit adds. A file that it also removes gets another deletion vector."""
        removed_paths = set(self.removed_paths)
        return [action["add"]["path"] for action in self.file_actions if "add" in action and action["add"]["path"] not in removed_paths]


def verify_put(commit: PutCommit) -> Literal[Put.CREATED] | Rejected | Unknown:
    """Return CREATED if a commit that was put continues its table. Raises CorruptLog, StorageError, ConfigurationError."""
    listing = list_log(commit.storage, since=0 if commit.base is None else commit.base.version)
    newer_checkpoints = [checkpoint for checkpoint in listing.checkpoints if checkpoint.version >= commit.version]
    if not newer_checkpoints:
        return _verify_in_log(commit, listing)
    match _find_in_checkpoint(commit, read_checkpoint(commit.storage, newer_checkpoints[0])):
        case _Inclusion.INCLUDED:
            return Put.CREATED
        case _Inclusion.MISSING:
            return Rejected("the log was cleaned or the table was dropped since")
        case _Inclusion.UNDECIDED:
            return Unknown(f"a newer checkpoint does not say whether it contains version {commit.version}")


def _verify_in_log(commit: PutCommit, listing: LogListing) -> Literal[Put.CREATED] | Rejected | Unknown:
    """Verify a commit that no checkpoint may contain. `listing`: the log from the base on."""
    if commit.version not in listing.commits:
        return Unknown(f"{commit_path(commit.version)} was put, and is gone")
    if commit.base is None or _follows_base(commit, commit.base, listing):
        return Put.CREATED
    if listing.newest == commit.version:
        return Rejected("the table was dropped, and another one was created in its folder")
    return Unknown("another table was created in the folder, and others have committed to it")


def _follows_base(commit: PutCommit, base: DeltaSnapshot, listing: LogListing) -> bool:
    """Return whether the version before the commit is a version of the base's table. If the base's file is still the same, it is."""
    if base.commit is not None and listing.commits.get(base.version) == base.commit:
        return True
    try:
        previous_state = read_state(commit.storage, list_log(commit.storage), commit.version - 1)
    except CorruptLog:
        # Commits between are missing, so no reader has come as far as this commit.
        return False
    return previous_state.metadata is not None and previous_state.metadata.id == base.metadata.id


def _find_in_checkpoint(commit: PutCommit, state: State) -> _Inclusion:
    """Return whether the state of a checkpoint that is not older than a commit contains the commit.

    The files decide until the retention of tombstones ends, because transactions and definitions of other commits may be the same.
    """
    if _has_file_of(commit, state):
        return _Inclusion.INCLUDED
    if state.metadata is None or state.metadata.id != commit.metadata.id:
        return _Inclusion.MISSING
    if commit.base is None:
        return _Inclusion.INCLUDED
    retention = min(tombstone_retention(metadata.configuration) for metadata in (commit.metadata, state.metadata))
    if (commit.added_paths or commit.removed_paths) and time.time_ns() // 1_000_000 - commit.now < retention:
        return _Inclusion.MISSING
    if commit.change.transaction is not None:
        return _find_transaction(commit, commit.change.transaction, state)
    has_new_metadata = commit.metadata != commit.base.metadata and state.metadata == commit.metadata
    return _Inclusion.INCLUDED if has_new_metadata else _Inclusion.UNDECIDED


def _has_file_of(commit: PutCommit, state: State) -> bool:
    """Return whether a state has a file that a commit added, live or as a tombstone, or a tombstone that the commit left.

    Names of data files are unique. The tombstone of a file that the commit removed has the time of the commit.
    """
    tombstones = state.tombstones
    added_paths, removed_paths = (pa.array(paths, pa.string()) for paths in (commit.added_paths, commit.removed_paths))
    is_added = [pc.is_in(paths, value_set=added_paths) for paths in (state.files.column("path"), tombstones["path"])]
    deletion_times = tombstones["deletionTimestamp"].filter(pc.is_in(tombstones["path"], value_set=removed_paths))
    return any(pc.any(mask).as_py() for mask in [*is_added, pc.equal(deletion_times, commit.now)])


def _find_transaction(commit: PutCommit, transaction: tuple[str, int], state: State) -> _Inclusion:
    """Return whether the `txn` of a commit shows that a state contains the commit."""
    application, version = transaction
    newest = state.transactions.get(application)
    if newest is None:
        expires = transaction_retention(commit.metadata.configuration) is not None
        return _Inclusion.UNDECIDED if expires else _Inclusion.MISSING
    if newest.version < version:
        return _Inclusion.MISSING
    # Another run of the same transaction leaves the same state. A later version of the application may be another process's commit.
    is_same_state = newest.version == version and not (commit.added_paths or commit.removed_paths)
    return _Inclusion.INCLUDED if is_same_state else _Inclusion.UNDECIDED
