"""The state at a version: the newest readable checkpoint, and the commits after it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.log_files import Checkpoint, LogListing, commit_path, list_newest, needed_commits, read_documents
from rowmerge.delta.log.ndjson import Document, is_drop
from rowmerge.delta.log.replay import State, advance, empty_state
from rowmerge.errors import CorruptLog
from rowmerge.storage.store import Storage

logger = logging.getLogger(__name__)


def read_state(
    storage: Storage, listing: LogListing, version: int, base: State | None = None, own_commits: Mapping[int, bytes] | None = None
) -> State:
    """Return the state at a version of a listed log: an older state `base` or a checkpoint, and the commits after it.

    `own_commits`: commits after `base` that this process wrote, by version, which need not be read. An unreadable checkpoint is skipped
    for an older one. Raises CorruptLog, StorageError.
    """
    if base is None:
        base, own_commits = _read_newest_checkpoint(storage, listing, version), None
    return advance(base, _read_commits(storage, listing, base.version, version, own_commits or {}))


def _read_commits(storage: Storage, listing: LogListing, after: int, to: int, own_commits: Mapping[int, bytes]) -> list[Document]:
    """Return the commits of the versions from `after` + 1 to `to`. Raises CorruptLog, StorageError."""
    versions = needed_commits(listing, storage.location, after, to)
    documents: dict[int, Document] = {}
    for own_version, commit in own_commits.items():
        # A listed file of another size is not the one that we wrote.
        if own_version in versions and len(commit) == listing.commits[own_version].size:
            documents[own_version] = Document(f"{storage.location}/{commit_path(own_version)}", commit)
    unread_versions = [version for version in versions if version not in documents]
    documents |= zip(unread_versions, read_documents(storage, [commit_path(version) for version in unread_versions]), strict=True)
    return [documents[version] for version in versions]


def _read_newest_checkpoint(storage: Storage, listing: LogListing, version: int) -> State:
    """Return the state of the newest readable checkpoint up to a version. Raises CorruptLog if a commit after it is missing."""
    checkpoints = [checkpoint for checkpoint in listing.checkpoints if checkpoint.version <= version]
    checkpoint_state, checkpoint_errors = _try_checkpoints(storage, checkpoints)
    try:
        needed_commits(listing, storage.location, checkpoint_state.version, version)
    except CorruptLog as missing_commit:
        if not checkpoint_errors:
            raise
        # A readable newest checkpoint would make the missing commit unnecessary, so the checkpoint is the error to report.
        raise checkpoint_errors[0] from missing_commit
    for error in checkpoint_errors:
        logger.warning("A checkpoint was skipped, and version %d was read from older files. %s", version, error.message)
    return checkpoint_state


def _try_checkpoints(storage: Storage, checkpoints: Iterable[Checkpoint]) -> tuple[State, list[CorruptLog]]:
    """Return the state of the first readable checkpoint, or the state before version 0, and the errors of those before it."""
    errors: list[CorruptLog] = []
    for checkpoint in checkpoints:
        try:
            return read_checkpoint(storage, checkpoint), errors
        except CorruptLog as error:
            errors.append(error)
    return empty_state(), errors


def is_dropped_at(storage: Storage, version: int) -> bool:
    """Return whether a version of a log is that of a dropped table. Raises CorruptLog, StorageError."""
    try:
        return is_drop(read_documents(storage, [commit_path(version)])[0])
    except CorruptLog:
        # Only a checkpoint has the version: its commit was cleaned up. Cleanups never delete the commit of a drop.
        return False


def has_dropped_table(storage: Storage) -> bool:
    """Return whether the newest version of a log is that of a dropped table. Raises CorruptLog, StorageError."""
    newest = list_newest(storage).newest
    return newest is not None and is_dropped_at(storage, newest)
