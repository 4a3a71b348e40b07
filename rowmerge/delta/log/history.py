"""What was done to a table: the commitInfo of its versions, and which version was current at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from rowmerge.delta.log.log_files import LogListing, commit_path, read_documents
from rowmerge.delta.log.ndjson import Document, commit_info, is_drop, other_actions
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
    """Newest first, back to the creation of the table. Raises CorruptLog, StorageError."""
    commits = islice(_newest_first(storage, listing), limit)
    return [_entry(version, commit_info(other_actions(document)), listing.modified(version)) for version, document in commits]


def find_transaction(storage: Storage, listing: LogListing, application: str, number: int) -> int | None:
    """The newest version whose commit has this version of an application, or an older one of it. Raises CorruptLog, StorageError."""
    for version, document in _newest_first(storage, listing):
        if b'"txn"' not in document.data:
            continue
        for action in other_actions(document):
            if (fields := action.get("txn")) and fields["appId"] == application and fields["version"] <= number:
                return version
    return None


def _newest_first(storage: Storage, listing: LogListing) -> Iterator[tuple[int, Document]]:
    """Yield the commits of the table. Those of a table that was dropped in its place are not among them.

    Nor are commits before the oldest readable version: after a cleanup, such a commit may be that of a writer that was killed before it
    withdrew it.
    """
    oldest = listing.oldest_readable
    versions = [version for version in reversed(listing.continuous_commits) if version >= oldest]
    for start in range(0, len(versions), _BATCH):
        batch = versions[start : start + _BATCH]
        for version, document in zip(batch, read_documents(storage, [commit_path(version) for version in batch]), strict=True):
            if is_drop(document):
                return
            yield version, document


def read_commit_info(storage: Storage, version: int) -> Mapping[str, Any]:
    """The `commitInfo` of one version, empty without one. Raises CorruptLog, StorageError."""
    return commit_info(other_actions(read_documents(storage, [commit_path(version)])[0]))


def has_in_commit_timestamps(protocol: Protocol, metadata: Metadata, version: int) -> bool:
    """Whether a version's time stands in its commit (PROTOCOL.md, In-Commit Timestamps)."""
    if not (protocol.supports("inCommitTimestamp") and is_on(metadata, IN_COMMIT_TIMESTAMPS)):
        return False
    return version >= in_commit_timestamps_begin(metadata.configuration)


def in_commit_timestamp(storage: Storage, version: int, info: Mapping[str, Any]) -> int | None:
    """The time in a version's `commitInfo`, None if it has none. Raises CorruptLog for one that is no number."""
    timestamp = info.get("inCommitTimestamp")
    if not isinstance(timestamp, int | None):
        document = read_documents(storage, [commit_path(version)])[0]
        line = next((number for number, line in enumerate(document.data.split(b"\n"), 1) if b'"commitInfo"' in line), None)
        raise CorruptLog(document.path, f"inCommitTimestamp of the action commitInfo is no number: {timestamp!r:.80}", line=line)
    return timestamp


def version_at(storage: Storage, listing: LogListing, protocol: Protocol, metadata: Metadata, timestamp: int) -> int | None:
    """The newest version that was committed at or before a time (ms since the epoch); None when there was none yet.

    `protocol` and `metadata` are those of the newest version. Times never go back from one version to the next.
    """
    versions = listing.continuous_commits
    stamped = [version for version in versions if has_in_commit_timestamps(protocol, metadata, version)]
    low, high = 0, len(stamped)
    while low < high:
        middle = (low + high) // 2
        if (in_commit_timestamp(storage, stamped[middle], read_commit_info(storage, stamped[middle])) or 0) <= timestamp:
            low = middle + 1
        else:
            high = middle
    if low:
        return stamped[low - 1]
    found, latest = None, 0
    for version in versions[: len(versions) - len(stamped)]:
        latest = max(latest, listing.commits[version].modified)
        if latest <= timestamp:
            found = version
    return found


def _entry(version: int, info: Mapping[str, Any], modified: int) -> HistoryEntry:
    """What a commit says about itself; a field of another type than Delta's own writers give it is left out."""

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
