"""Commits that change metadata but no rows. After a lost race, the updates are computed again from the newest metadata."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyiceberg.table.update import SetLocationUpdate, TableUpdate

from rowmerge.errors import CommitStateUnknown, MetadataChanged, TableNotFound
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.metadata.parsing import check_format_version
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.storage.store import Put
from rowmerge.table.commits.request import Unknown

MakeUpdates = Callable[[CurrentMetadata], tuple[TableUpdate, ...]]
"""A function that returns the updates for the newest metadata, or no updates if no change is necessary."""


def newest(operations: TableOperations, table: str) -> CurrentMetadata:
    """Return the newest metadata of a table.

    Args:
        operations: The operations of the table.
        table: The name of the table in error messages.

    Raises:
        CorruptLog: The metadata cannot be parsed.
        StorageError: The metadata cannot be read.
        TableNotFound: The table does not exist.
    """
    current = operations.current()
    if current is None:
        raise TableNotFound(table)
    return current


def commit_updates(operations: TableOperations, table: str, operation: str, make_updates: MakeUpdates) -> CurrentMetadata | None:
    """Commit updates to a table's metadata, and retry on the newest metadata as long as other commits come first.

    Args:
        operations: The operations of the table.
        table: The name of the table in error messages.
        operation: The name of the commit in error messages.
        make_updates: The function that returns the updates for the newest metadata. It is called once for each attempt.

    Returns:
        The metadata to which the updates were committed, or None if `make_updates` returned no updates.

    Raises:
        CommitStateUnknown: It is not known whether the updates were committed.
        CorruptLog: The metadata cannot be parsed.
        MetadataChanged: Other commits came first in every attempt that the table's retry policy allows.
        StorageError: The updates were certainly not committed.
        TableNotFound: The table does not exist.
        UnsupportedTableFeature: rowmerge cannot write this table.
    """
    lost_races, start = 0, time.monotonic()
    while True:  # until the retry policy allows no other attempt
        current = newest(operations, table)
        check_writable(table, current)
        updates = make_updates(current)
        if not updates:
            return None
        # If `current` is outdated already, another commit came first, as after a commit with the result EXISTED.
        outcome = Put.EXISTED if operations.is_outdated(current) else operations.commit(current, updates)
        if outcome is Put.CREATED:
            return current
        if isinstance(outcome, Unknown):
            raise CommitStateUnknown(f"It is not known whether {operation} of {table} was committed: {outcome.reason}. Run it again.")
        lost_races += 1
        _wait_or_give_up(operations, table, current, lost_races, time.monotonic() - start)


def set_location(operations: TableOperations, table: str, location: str) -> None:
    """Set the folder for the new files of a table in a catalog. The old files stay where they are.

    Args:
        operations: The operations of the table.
        table: The name of the table in error messages.
        location: The new folder.

    Raises:
        CommitStateUnknown: It is not known whether the location was set.
        MetadataChanged: Other commits came first in every attempt that the table's retry policy allows.
        StorageError: The location was certainly not set.
    """
    commit_updates(operations, table, "SET LOCATION", lambda current: (SetLocationUpdate(location=location),))


def _wait_or_give_up(operations: TableOperations, table: str, current: CurrentMetadata, lost_races: int, elapsed: float) -> None:
    """Wait for the time that the table's retry policy specifies. Raises MetadataChanged if the policy allows no further attempt."""
    policy = IcebergSettings(current.metadata.properties).retry_policy
    if not policy.allows_retry(lost_races, elapsed):
        version = newest(operations, table).metadata.current_snapshot_id or 0
        raise MetadataChanged(table, version, "a commit", f"concurrent commits came first {lost_races} times")
    time.sleep(policy.wait(lost_races))


def check_writable(table: str, current: CurrentMetadata) -> None:
    """Check that the table's catalog can store the format version of the table.

    Args:
        table: The name of the table in error messages.
        current: The current metadata of the table.

    Raises:
        UnsupportedTableFeature: The format version is too high for the catalog.
    """
    check_format_version(table, current.metadata.format_version, current.highest_format_version)
