"""Clean the log: delete the log entries that no version within the retention period needs (PROTOCOL.md, Metadata Cleanup)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from itertools import takewhile

from rowmerge.delta.log.checkpoint_reading import sidecar_paths
from rowmerge.delta.log.history import version_at
from rowmerge.delta.log.log_files import LOG, SIDECARS, Checkpoint, LogListing, list_log
from rowmerge.delta.log.replay import State
from rowmerge.delta.metadata.properties import log_retention, protected_before
from rowmerge.errors import CorruptLog
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Storage, StoredObject

logger = logging.getLogger(__name__)

_DAY = 86_400_000
_MAX_DELETED_ENTRIES = 10_000
"""The maximum number of entries that one cleanup deletes, so that no statement waits long. The next cleanup deletes more."""
_KIND = r"json|crc|checkpoint\.[^/]+|\d{20}\.compacted\.json"
_ENTRY = re.compile(rf"{LOG}/\.?(?P<version>\d{{20}})\.(?P<kind>{_KIND})(?:\.crc|#\d+)?")
"""The path of a log entry: a commit, checksum, checkpoint or compacted commit, its `.crc` file from Hadoop, or its temporary file."""


def clean_log(storage: Storage, listing: LogListing, state: State, now: int, *, retention: int | None = None) -> None:
    """Delete the log entries that are older than the retention period. A failed deletion is only logged.

    The caller must already have written a checkpoint.

    Args:
        storage: The storage of the table.
        listing: The whole log.
        state: The state of the version that the new checkpoint contains.
        now: The current time in milliseconds since the epoch.
        retention: The retention period of DROP FEATURE in milliseconds, which is exact, or None for that of the table's properties.

    Raises:
        CorruptLog: A commit is unreadable.
        ConfigurationError: The retention in the table's properties is invalid.
    """
    table_retention = log_retention(state.metadata.configuration)
    if retention is None and table_retention is None:
        return
    cut_off = _cut_off_time(now, table_retention or 0) if retention is None else now - retention
    if not _expired_checkpoints(listing, state, cut_off):
        return  # only entries before an expired checkpoint may be deleted
    # After `listing`, another client may have cleaned the log, or deleted it and created a new table in the folder.
    current_listing = list_log(storage)
    commit_file = current_listing.commits.get(state.version)
    # If the commit file has the same size and time as in `listing`, the log belongs to the same table.
    if commit_file is not None and commit_file == listing.commits.get(state.version):
        _delete_expired(storage, current_listing, state, cut_off, now)


def _delete_expired(storage: Storage, listing: LogListing, state: State, cut_off: int, now: int) -> None:
    """Delete the expired entries, and then the sidecars that only expired checkpoints use.

    `cut_off`: the time up to which entries expire. `now`: the current time. Both are in milliseconds since the epoch.
    """
    # The entries before a checkpoint are deleted oldest first, so an interrupted cleanup leaves a readable log.
    entries = _expired_entries(storage, listing, state, cut_off)
    # A protected checkpoint must be deleted together with all versions that it protects.
    if not state.protocol.supports("checkpointProtection"):
        entries = entries[:_MAX_DELETED_ENTRIES]
    sidecars = _unused_sidecars(storage, listing, entries, now)
    paths = [[f"{storage.location}/{file.path}" for file in files] for files in (entries, sidecars)]
    try_delete_files(storage, paths, PathOrigin.LISTING)


def _cut_off_time(now: int, retention: int) -> int:
    """Return the time up to which commits expire: the last midnight (UTC) before the retention period. All times are in milliseconds."""
    # The protocol counts a retention in days, so delta-spark rounds to midnight. Delta Kernel and delta-rs do not round.
    # A retention below one day is not a number of days.
    time = now - retention
    return time - time % _DAY if retention >= _DAY else time


def _expired_entries(storage: Storage, listing: LogListing, state: State, cut_off: int) -> list[StoredObject]:
    """Return the entries before the newest readable expired checkpoint, in the order in which they must be deleted."""
    newest = version_at(storage, listing, state.protocol, state.metadata, cut_off)
    for checkpoint in _expired_checkpoints(listing, state, cut_off):
        if newest is not None and checkpoint.version <= newest and _is_readable(storage, listing, checkpoint):
            return _entries_before(checkpoint, listing, cut_off)
    return []


def _expired_checkpoints(listing: LogListing, state: State, cut_off: int) -> list[Checkpoint]:
    """Return the checkpoints up to the newest expired commit, newest first, or an empty list if there is no entry to delete."""
    versions = listing.continuous_commits
    # Commits are in the order of their times, so the expired commits are those before the first unexpired one.
    newest = max(takewhile(lambda version: listing.commits[version].modified <= cut_off, versions), default=-1)
    oldest = versions.start - 1
    expired = [checkpoint for checkpoint in listing.checkpoints if oldest <= checkpoint.version <= newest]
    checkpoints = [checkpoint for checkpoint in expired if _may_clean(state, checkpoint)]
    return checkpoints if checkpoints and _entries_before(checkpoints[0], listing, cut_off) else []


def _entries_before(checkpoint: Checkpoint, listing: LogListing, cut_off: int) -> list[StoredObject]:
    """Return the entries before a checkpoint that are not younger than the cut-off time, in the order in which they must be deleted."""
    # A younger entry may be the commit of a slow writer, which has not verified it yet.
    old_files = {file.path: file for file in listing.files if file.modified <= cut_off}
    entries = filter(None, map(_ENTRY.fullmatch, old_files))
    older_entries = [entry for entry in entries if _is_before(entry, checkpoint.version)]
    return [old_files[entry.string] for entry in sorted(older_entries, key=_deletion_rank)]


def _is_before(entry: re.Match[str], checkpoint_version: int) -> bool:
    """Return whether a checkpoint of the version `checkpoint_version` makes a log entry unnecessary."""
    version = int(entry["version"])
    # A compacted commit from the checkpoint's version on is unnecessary too.
    return version <= checkpoint_version if entry["kind"].endswith("compacted.json") else version < checkpoint_version


def _deletion_rank(entry: re.Match[str]) -> tuple[int, bool, str]:
    # The checkpoint of a version is deleted after its commit: it may protect older readers from the commit (Checkpoint Protection, d).
    return int(entry["version"]), entry["kind"].startswith("checkpoint"), entry.string


def _is_readable(storage: Storage, listing: LogListing, checkpoint: Checkpoint) -> bool:
    """Return whether all files of a checkpoint have valid Parquet footers, and all its sidecars exist."""
    files = {file.path: file for file in listing.files}
    try:
        sidecars = sidecar_paths(storage, [files[path] for path in checkpoint.paths])
    except CorruptLog as error:
        logger.warning("The cleanup of the log at %s skips an unreadable checkpoint: %s", storage.location, error)
        return False
    return all(path in files for path in sidecars if path.startswith(f"{SIDECARS}/"))


def _may_clean(state: State, checkpoint: Checkpoint) -> bool:
    """Return whether the feature `checkpointProtection` allows a cleanup up to a checkpoint (its requirements a and c in PROTOCOL.md)."""
    # A cleanup that deletes all protected versions together may ignore their features.
    is_protected = state.protocol.supports("checkpointProtection")
    return not is_protected or checkpoint.version >= protected_before(state.metadata.configuration)


def _unused_sidecars(storage: Storage, listing: LogListing, expired_entries: list[StoredObject], now: int) -> list[StoredObject]:
    """Return the sidecars that only expired checkpoints use and that were written before yesterday (UTC).

    A checkpoint can consist of several files. If only some of them are among `expired_entries`, its sidecars are still used.
    """
    old_sidecars = _old_sidecars(listing, now)
    expired_paths = {file.path for file in expired_entries}
    has_expired_file = any(not expired_paths.isdisjoint(checkpoint.paths) for checkpoint in listing.checkpoints)
    if not old_sidecars or not has_expired_file:
        return []
    remaining_checkpoints = [checkpoint for checkpoint in listing.checkpoints if not expired_paths.issuperset(checkpoint.paths)]
    try:
        used_names = _sidecar_file_names(storage, listing, remaining_checkpoints)
    except CorruptLog as error:
        logger.warning("Sidecars at %s are kept, because a checkpoint that may refer to them is unreadable: %s", storage.location, error)
        return []
    return [file for file in old_sidecars if _sidecar_name(file.path) not in used_names]


def _old_sidecars(listing: LogListing, now: int) -> list[StoredObject]:
    """Return the sidecars that were written before yesterday (UTC). A younger sidecar may belong to an incomplete checkpoint."""
    yesterday = now - now % _DAY - _DAY
    return [file for file in listing.files if file.path.startswith(f"{SIDECARS}/") and file.modified < yesterday]


def _sidecar_file_names(storage: Storage, listing: LogListing, checkpoints: Iterable[Checkpoint]) -> set[str]:
    """Return the file names of the checkpoints' sidecars. Raises CorruptLog if a checkpoint is unreadable.

    Names identify sidecars more reliably than paths, which can be absolute or relative.
    """
    files = {file.path: file for file in listing.files}
    names: set[str] = set()
    for checkpoint in checkpoints:
        names.update(map(_sidecar_name, sidecar_paths(storage, [files[path] for path in checkpoint.paths])))
    return names


def _sidecar_name(path: str) -> str:
    """Return the file name of a sidecar from its path, or from the path of the `.crc` file that Hadoop writes next to it."""
    name = path.rpartition("/")[2]
    return name[1:].removesuffix(".crc") if name.startswith(".") else name
