"""Commits that change metadata and no rows. After every lost race, their updates are made again for the newest metadata."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyiceberg.table.update import TableUpdate

from rowmerge.errors import CommitStateUnknown, MetadataChanged, TableNotFound
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.metadata.parsing import check_format_version
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.storage.store import Put
from rowmerge.table.commits.request import Unknown

MakeUpdates = Callable[[CurrentMetadata], tuple[TableUpdate, ...]]
"""Returns the updates for the newest metadata, none if there is nothing to do."""


def newest(operations: TableOperations, table: str) -> CurrentMetadata:
    """Return the newest metadata. Raises TableNotFound, CorruptLog, StorageError."""
    current = operations.current()
    if current is None:
        raise TableNotFound(table)
    return current


def commit_updates(operations: TableOperations, table: str, operation: str, make_updates: MakeUpdates) -> CurrentMetadata | None:
    """Commit the updates that `make_updates` returns for the newest metadata. Return that metadata, None if there is nothing to do.

    `operation` names the commit in errors. Raises MetadataChanged if other commits won every race, CommitStateUnknown,
    UnsupportedTableFeature for a table that rowmerge cannot write, StorageError if nothing was committed, and what `make_updates` raises.
    """
    lost_races = 0
    while True:
        current = newest(operations, table)
        check_writable(table, current)
        updates = make_updates(current)
        if not updates:
            return None
        put = Put.EXISTED if operations.is_outdated(current) else operations.commit(current, updates)
        if put is Put.CREATED:
            return current
        if isinstance(put, Unknown):
            raise CommitStateUnknown(f"It is not known whether {operation} of {table} was committed: {put.reason}. Run it again.")
        lost_races += 1
        _wait_after_lost_race(operations, table, current, lost_races)


def _wait_after_lost_race(operations: TableOperations, table: str, current: CurrentMetadata, lost_races: int) -> None:
    """Wait as the table's retry policy says. Raises MetadataChanged if the policy allows no other attempt."""
    policy = IcebergSettings(current.metadata.properties).retry_policy
    if lost_races > policy.retries:
        version = newest(operations, table).metadata.current_snapshot_id or 0
        raise MetadataChanged(table, version, "a commit", f"others were faster {lost_races} times")
    time.sleep(policy.wait(lost_races))


def check_writable(table: str, current: CurrentMetadata) -> None:
    """Raise UnsupportedTableFeature for a format version that the table's catalog cannot keep."""
    check_format_version(table, current.metadata.format_version, current.newest_format)
