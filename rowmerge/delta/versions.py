"""Putting a version together: the best checkpoint that can be read, and the commits after it."""

from __future__ import annotations

from collections.abc import Mapping

from rowmerge.delta.checkpoint_reading import read_checkpoint
from rowmerge.delta.log import LOG, LogListing, commit_path, needed_commits, read_documents, usable_checkpoints
from rowmerge.delta.ndjson import Document
from rowmerge.delta.replay import State, advance, empty_state
from rowmerge.errors import CorruptLog
from rowmerge.storage.store import Storage


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
    return advance(state, documents, f"{storage.location}/{LOG}")


def _from_checkpoint(storage: Storage, listing: LogListing, version: int) -> State:
    unreadable: CorruptLog | None = None
    for checkpoint in usable_checkpoints(listing, version):
        try:
            return read_checkpoint(storage, checkpoint)
        except CorruptLog as error:
            unreadable = unreadable or error
    if unreadable is not None and 0 not in listing.commits:
        raise unreadable
    return empty_state()
