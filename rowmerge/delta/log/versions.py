"""Read the state of a version from the newest readable checkpoint and the commits after it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from rowmerge.delta.log.checkpoint_reading import read_checkpoint
from rowmerge.delta.log.log_files import Checkpoint, LogListing, commit_path, list_newest, read_documents, require_commits
from rowmerge.delta.log.ndjson import Document, is_drop
from rowmerge.delta.log.replay import State, advance, empty_state
from rowmerge.errors import CorruptLog
from rowmerge.storage.store import Storage

logger = logging.getLogger(__name__)


def read_state(
    storage: Storage, listing: LogListing, version: int, base: State | None = None, own_commits: Mapping[int, bytes] | None = None
) -> State:
    """Return the state of a version. It is computed from an older state or a checkpoint, and the commits after that.

    Args:
        storage: The storage of the table.
        listing: A listing of the log that includes the version.
        version: The version.
        base: An older state, or None to start from the newest readable checkpoint.
        own_commits: The contents of commits after `base` that this process wrote, by version. They are not read again.

    Raises:
        CorruptLog: A needed commit is missing or unreadable.
        StorageError: The store is unavailable.
    """
    if base is None:
        base = _read_newest_checkpoint(storage, listing, version)
        own_commits = None  # the given commits follow a given base only
    versions = require_commits(listing, storage.location, base_version=base.version, last_version=version)
    return advance(base, _read_commits(storage, listing, versions, own_commits or {}))


def _read_commits(storage: Storage, listing: LogListing, versions: Sequence[int], own_commits: Mapping[int, bytes]) -> list[Document]:
    """Return the commits of these versions. `own_commits`: the contents of commits that this process wrote, by version."""
    documents: dict[int, Document] = {}
    for own_version, commit in own_commits.items():
        # If the listed file has another size, another writer has dropped and recreated the table and replaced the commit.
        if own_version in versions and len(commit) == listing.commits[own_version].size:
            documents[own_version] = Document(f"{storage.location}/{commit_path(own_version)}", commit)
    unread_versions = [version for version in versions if version not in documents]
    documents.update(zip(unread_versions, read_documents(storage, [*map(commit_path, unread_versions)]), strict=True))
    return [documents[version] for version in versions]


def _read_newest_checkpoint(storage: Storage, listing: LogListing, version: int) -> State:
    """Return the state of the newest readable checkpoint up to a version, or the empty state if there is none.

    An unreadable checkpoint is skipped, with a warning, if the log still has all commits after the older checkpoint. Otherwise, the
    version cannot be read, and CorruptLog is raised.
    """
    checkpoints = [checkpoint for checkpoint in listing.checkpoints if checkpoint.version <= version]
    checkpoint_state, checkpoint_errors = _read_first_readable(storage, checkpoints)
    try:
        # A cleanup of the log deletes commits before the newest checkpoint, so a state from an older checkpoint may lack commits.
        require_commits(listing, storage.location, base_version=checkpoint_state.version, last_version=version)
    except CorruptLog as missing_commit_error:
        if not checkpoint_errors:
            raise
        # With a readable newest checkpoint, the missing commit would not be needed. So the damaged checkpoint is the cause to report.
        raise checkpoint_errors[0] from missing_commit_error
    for error in checkpoint_errors:
        logger.warning("An unreadable checkpoint is skipped, and version %d is read from older files. %s", version, error.message)
    return checkpoint_state


def _read_first_readable(storage: Storage, checkpoints: Iterable[Checkpoint]) -> tuple[State, list[CorruptLog]]:
    """Return the state of the first readable checkpoint, and the errors of the unreadable checkpoints before it.

    If all checkpoints are unreadable, the state is the empty state.
    """
    errors: list[CorruptLog] = []
    for checkpoint in checkpoints:
        try:
            return read_checkpoint(storage, checkpoint), errors
        except CorruptLog as error:
            errors.append(error)
    return empty_state(), errors


def is_dropped_at(storage: Storage, version: int) -> bool:
    """Return whether a version dropped the table. Return False if its commit is missing or unreadable.

    Args:
        storage: The storage of the table.
        version: The version.

    Raises:
        StorageError: The store is unavailable.
    """
    try:
        return is_drop(read_documents(storage, [commit_path(version)])[0])
    except CorruptLog:
        # A cleanup deleted the commit, and only a checkpoint has the version. A cleanup never deletes the commit of a drop.
        return False


def has_dropped_table(storage: Storage) -> bool:
    """Return whether the newest version of a log dropped the table. Raises StorageError if the store is unavailable."""
    newest = list_newest(storage).newest
    return newest is not None and is_dropped_at(storage, newest)
