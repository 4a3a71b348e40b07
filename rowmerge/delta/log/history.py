"""The history of a table: the commitInfo of its versions, and the version at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import islice, takewhile
from typing import Any, TypeVar

from rowmerge.delta.log.log_files import LogListing, commit_path, read_documents
from rowmerge.delta.log.ndjson import Document, commit_info, is_drop, non_file_actions
from rowmerge.delta.metadata.actions import Metadata, Protocol, parameter_text
from rowmerge.delta.metadata.features import is_on
from rowmerge.delta.metadata.properties import IN_COMMIT_TIMESTAMPS, in_commit_timestamps_begin
from rowmerge.errors import CorruptLog
from rowmerge.storage.store import Storage
from rowmerge.table.table import HistoryEntry

_BATCH = 100
_MAPS = ("operationParameters", "operationMetrics")
_Field = TypeVar("_Field")


def read_history(storage: Storage, listing: LogListing, limit: int | None) -> list[HistoryEntry]:
    """Return the newest versions first, back to the creation of the table. Raises CorruptLog, StorageError."""
    commits = islice(_commits_newest_first(storage, listing), limit)
    return [_history_entry(version, commit_info(non_file_actions(document)), listing.modified(version)) for version, document in commits]


def find_transaction(storage: Storage, listing: LogListing, application: str, number: int) -> int | None:
    """Return the newest version whose commit has a `txn` of an application up to this number. Raises CorruptLog, StorageError."""
    for version, document in _commits_newest_first(storage, listing):
        if b'"txn"' not in document.data:
            continue
        for action in non_file_actions(document):
            if (fields := action.get("txn")) and fields["appId"] == application and fields["version"] <= number:
                return version
    return None


def _commits_newest_first(storage: Storage, listing: LogListing) -> Iterator[tuple[int, Document]]:
    """Yield the versions and commits of the table, back to the last drop in its place or the oldest readable version.

    An older commit may come from a killed writer that did not withdraw it after a cleanup.
    """
    oldest = listing.oldest_readable
    versions = [version for version in reversed(listing.continuous_commits) if version >= oldest]
    for start in range(0, len(versions), _BATCH):
        batch = versions[start : start + _BATCH]
        documents = read_documents(storage, [commit_path(version) for version in batch])
        for version, document in zip(batch, documents, strict=True):
            if is_drop(document):
                return
            yield version, document


def read_commit_info(storage: Storage, version: int) -> Mapping[str, Any]:
    """Return the `commitInfo` of one version, empty without one. Raises CorruptLog, StorageError."""
    return commit_info(non_file_actions(read_documents(storage, [commit_path(version)])[0]))


def has_in_commit_timestamps(protocol: Protocol, metadata: Metadata, version: int) -> bool:
    """Return whether a version's commit has its time (PROTOCOL.md, In-Commit Timestamps)."""
    if not (protocol.supports("inCommitTimestamp") and is_on(metadata, IN_COMMIT_TIMESTAMPS)):
        return False
    return version >= in_commit_timestamps_begin(metadata.configuration)


def in_commit_timestamp(storage: Storage, version: int, info: Mapping[str, Any]) -> int | None:
    """Return the time in a version's `commitInfo`, None without one. Raises CorruptLog for a time that is no number."""
    timestamp = info.get("inCommitTimestamp")
    if not isinstance(timestamp, int | None):
        document = read_documents(storage, [commit_path(version)])[0]
        line = next((number for number, line in enumerate(document.data.split(b"\n"), 1) if b'"commitInfo"' in line), None)
        raise CorruptLog(document.path, f"inCommitTimestamp of the action commitInfo is no number: {timestamp!r:.80}", line=line)
    return timestamp


def version_at(storage: Storage, listing: LogListing, protocol: Protocol, metadata: Metadata, timestamp: int) -> int | None:
    """Return the newest version committed at or before a time (milliseconds since the epoch), None if there is none.

    `protocol` and `metadata` are those of the newest version. Times never decrease from one version to the next.
    """
    versions = listing.continuous_commits
    timestamped = [version for version in versions if has_in_commit_timestamps(protocol, metadata, version)]
    # Times stand in the commits, so the search reads as few of them as possible.
    count = bisect_right(timestamped, timestamp, key=lambda v: in_commit_timestamp(storage, v, read_commit_info(storage, v)) or 0)
    if count:
        return timestamped[count - 1]
    untimestamped = versions[: len(versions) - len(timestamped)]
    return max(takewhile(lambda version: listing.commits[version].modified <= timestamp, untimestamped), default=None)


def _history_entry(version: int, info: Mapping[str, Any], modified: int) -> HistoryEntry:
    """Return the history entry of a commit. A field of another type than in Delta's own commits is ignored."""

    def field(name: str, kind: type[_Field]) -> _Field | None:
        value = info.get(name)
        return value if isinstance(value, kind) else None

    parameters, metrics = ({key: parameter_text(value) for key, value in (field(name, dict) or {}).items()} for name in _MAPS)
    return HistoryEntry(
        version=version,
        timestamp=field("inCommitTimestamp", int) or modified,
        operation=field("operation", str) or "",
        parameters=parameters,
        metrics=metrics,
        read_version=field("readVersion", int),
        isolation_level=field("isolationLevel", str),
        is_blind_append=field("isBlindAppend", bool),
        engine=field("engineInfo", str),
    )
