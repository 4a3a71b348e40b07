"""Putting a version together: the best checkpoint that can be read, and the commits after it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.log_files import LogListing, commit_path, list_newest, needed_commits, read_documents, usable_checkpoints
from rowmerge.delta.log.ndjson import Document, is_drop
from rowmerge.delta.log.replay import State, advance, empty_state
from rowmerge.errors import CorruptLog
from rowmerge.storage.store import Storage

logger = logging.getLogger(__name__)


def read_state(
    storage: Storage, listing: LogListing, version: int, before: State | None = None, own: Mapping[int, bytes] | None = None
) -> State:
    """The state at a version of a listed log, going on from an older state where one is known; `own`: commits after it that need not be
    read, for they were put by us.

    A checkpoint that cannot be read is passed over for an older one. Raises CorruptLog, StorageError.
    """
    state = _from_checkpoint(storage, listing, version) if before is None else before
    commits = needed_commits(listing, storage.location, state.version, version)
    known = {} if before is None or own is None else {v: own[v] for v in commits if len(own.get(v, b"")) == listing.commits[v].size}
    read = iter(read_documents(storage, [commit_path(commit) for commit in commits if commit not in known]))
    documents = [
        Document(f"{storage.location}/{commit_path(commit)}", known[commit]) if commit in known else next(read) for commit in commits
    ]
    return advance(state, documents)


def _from_checkpoint(storage: Storage, listing: LogListing, version: int) -> State:
    """The newest checkpoint that can be read, or nothing if version 0 is there. Raises CorruptLog if the commits after it are not."""
    unreadable: list[CorruptLog] = []
    state = empty_state()
    for checkpoint in usable_checkpoints(listing, version):
        try:
            state = read_checkpoint(storage, checkpoint)
            break
        except CorruptLog as error:
            unreadable.append(error)
    try:
        needed_commits(listing, storage.location, state.version, version)
    except CorruptLog as missing:
        raise (unreadable or [missing])[0] from missing
    for skipped in unreadable:
        logger.warning("A checkpoint was skipped, and version %d was read from older files. %s", version, skipped.message)
    return state


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
