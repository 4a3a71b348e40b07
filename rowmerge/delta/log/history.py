"""The history of a table: the `commitInfo` and the time of each version, and the version at a given time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice, takewhile
from typing import Any, TypeVar

from rowmerge.delta.log.log_files import LogListing, commit_path, read_commits, read_documents
from rowmerge.delta.log.ndjson import Document, commit_info, is_drop, non_file_actions
from rowmerge.delta.metadata.actions import Metadata, Protocol, parameter_text
from rowmerge.delta.metadata.features import is_enabled
from rowmerge.delta.metadata.properties import IN_COMMIT_TIMESTAMPS, LOG_PROPERTIES, in_commit_timestamps_begin
from rowmerge.errors import CorruptLog, TableNotFound
from rowmerge.storage.store import Storage
from rowmerge.table.table import HistoryEntry

_Field = TypeVar("_Field")


def read_history(storage: Storage, table: str, listing: LogListing, limit: int | None) -> list[HistoryEntry]:
    """Read the history of a table, newest version first, back to its creation or its oldest readable version.

    Args:
        storage: The storage of the table.
        table: The name of the table, for the error.
        listing: The whole log.
        limit: The maximum number of versions to return. None returns all of them.

    Raises:
        TableNotFound: The log is empty.
        CorruptLog: A commit is unreadable.
    """
    if listing.newest is None:
        raise TableNotFound(table)
    commits = islice(_commits_newest_first(storage, listing), limit)
    return [_history_entry(version, commit_info(non_file_actions(document)), listing.modified(version)) for version, document in commits]


def find_transaction(storage: Storage, listing: LogListing, app_id: str, max_transaction_version: int) -> int | None:
    """Return the newest table version with a transaction (`txn`) of an application, or None if there is none.

    Args:
        storage: The storage of the table.
        listing: The whole log.
        app_id: The `appId` of the transaction.
        max_transaction_version: The highest `version` to search for. Transactions with a higher `version` are ignored.

    Raises:
        CorruptLog: A commit is unreadable.
    """
    for version, document in _commits_newest_first(storage, listing):
        if b'"txn"' not in document.data:
            continue
        transactions = [action["txn"] for action in non_file_actions(document) if action.get("txn")]
        if any(txn["appId"] == app_id and txn["version"] <= max_transaction_version for txn in transactions):
            return version
    return None


def _commits_newest_first(storage: Storage, listing: LogListing) -> Iterator[tuple[int, Document]]:
    """Yield each version and its commit, newest first, back to the last drop of a table or to the oldest readable version."""
    oldest = listing.oldest_readable
    versions = [version for version in reversed(listing.continuous_commits) if version >= oldest]
    for version, document in read_commits(storage, versions):
        if is_drop(document):
            # Older commits belong to the dropped table, or come from a killed writer that committed after a cleanup of the log.
            return
        yield version, document


def read_commit_info(storage: Storage, version: int) -> Mapping[str, Any]:
    """Return the fields of the `commitInfo` of one version, or an empty mapping if its commit has no `commitInfo`.

    Args:
        storage: The storage of the table.
        version: The version.

    Raises:
        CorruptLog: The commit is missing or unreadable.
        StorageError: The store is unavailable.
    """
    return commit_info(non_file_actions(read_documents(storage, [commit_path(version)])[0]))


def has_in_commit_timestamps(protocol: Protocol, metadata: Metadata, version: int) -> bool:
    """Return whether the commit of a version has an in-commit timestamp (PROTOCOL.md, In-Commit Timestamps).

    Args:
        protocol: The protocol of the newest version.
        metadata: The metadata of the newest version.
        version: A version of the table.
    """
    return is_enabled(protocol, metadata, IN_COMMIT_TIMESTAMPS) and version >= in_commit_timestamps_begin(metadata.configuration)


def timestamps_from(version: int, now: int) -> dict[str, str]:
    """Return the properties that record the first version with an in-commit timestamp (PROTOCOL.md, In-Commit Timestamps).

    `version`: that version. `now`: its timestamp in milliseconds since the epoch.
    """
    return dict(zip(LOG_PROPERTIES[2:], (str(version), str(now)), strict=True))


def in_commit_timestamp(storage: Storage, version: int, info: Mapping[str, Any]) -> int | None:
    """Return the in-commit timestamp of a version in milliseconds since the epoch, or None if it has none.

    Args:
        storage: The storage of the table, which is read again only for an error message.
        version: The version.
        info: The fields of the version's `commitInfo`.

    Raises:
        CorruptLog: The timestamp is not a number.
    """
    timestamp = info.get("inCommitTimestamp")
    if not isinstance(timestamp, int | None):
        raise _timestamp_error(storage, version, timestamp)
    return timestamp


def _timestamp_error(storage: Storage, version: int, timestamp: object) -> CorruptLog:
    """Return the error for an in-commit timestamp that is not a number. Reads the commit again to find the line of `commitInfo`."""
    document = read_documents(storage, [commit_path(version)])[0]
    line = next((number for number, line in enumerate(document.data.split(b"\n"), 1) if b'"commitInfo"' in line), None)
    return CorruptLog(document.path, f"inCommitTimestamp of the action commitInfo is not a number: {timestamp!r:.80}", line=line)


def version_at(storage: Storage, listing: LogListing, protocol: Protocol, metadata: Metadata, timestamp: int) -> int | None:
    """Return the newest version that was committed at or before a time, or None if all versions are newer.

    Args:
        storage: The storage of the table.
        listing: The whole log.
        protocol: The protocol of the newest version.
        metadata: The metadata of the newest version.
        timestamp: The time in milliseconds since the epoch.
    """
    versions = listing.continuous_commits
    # Once enabled, in-commit timestamps are in all later versions. These never decrease, so a binary search reads few commits.
    timestamped_versions = [version for version in versions if has_in_commit_timestamps(protocol, metadata, version)]
    count_at_or_before = bisect_right(timestamped_versions, timestamp, key=partial(_read_timestamp, storage))
    if count_at_or_before:
        return timestamped_versions[count_at_or_before - 1]
    # Older versions have only the modification times of their commit files. The first newer file ends the search.
    older_versions = versions[: len(versions) - len(timestamped_versions)]
    return max(takewhile(lambda version: listing.commits[version].modified <= timestamp, older_versions), default=None)


def _read_timestamp(storage: Storage, version: int) -> int:
    return in_commit_timestamp(storage, version, read_commit_info(storage, version)) or 0


def _history_entry(version: int, info: Mapping[str, Any], modified: int) -> HistoryEntry:
    """Return the history entry of a commit. Fields whose type differs from that in delta-spark's commits are ignored.

    `info`: the fields of `commitInfo`. `modified`: the modification time of the commit's file in milliseconds since the epoch, which is
    used if the commit has no in-commit timestamp.
    """
    return HistoryEntry(
        version=version,
        timestamp=_typed_field(info, "inCommitTimestamp", int) or modified,
        operation=_typed_field(info, "operation", str) or "",
        parameters=_parameter_texts(info, "operationParameters"),
        metrics=_parameter_texts(info, "operationMetrics"),
        read_version=_typed_field(info, "readVersion", int),
        isolation_level=_typed_field(info, "isolationLevel", str),
        is_blind_append=_typed_field(info, "isBlindAppend", bool),
        user_metadata=_typed_field(info, "userMetadata", str),
        engine=_typed_field(info, "engineInfo", str),
    )


def _typed_field(info: Mapping[str, Any], name: str, type_: type[_Field]) -> _Field | None:
    """Return a field of `commitInfo`, or None if it is missing or has a different type."""
    value = info.get(name)
    return value if isinstance(value, type_) else None


def _parameter_texts(info: Mapping[str, Any], name: str) -> dict[str, str]:
    return {key: parameter_text(value) for key, value in (_typed_field(info, name, dict) or {}).items()}
