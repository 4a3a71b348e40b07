"""Commits that change what metadata says and no row: made anew on the newest metadata after every lost race."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyiceberg.table.update import TableUpdate

from rowmerge.errors import CommitStateUnknown, MetadataChanged, TableNotFound
from rowmerge.iceberg.catalogs.operations import Current, TableOperations
from rowmerge.iceberg.metadata.parsing import check_format_version
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.storage.store import Put
from rowmerge.table.commits.request import Unknown

MakeUpdates = Callable[[Current], tuple[TableUpdate, ...]]
"""The updates for the newest metadata; none when there is nothing to do."""


def newest(operations: TableOperations, table: str) -> Current:
    """The newest metadata. Raises TableNotFound, CorruptLog, StorageError."""
    current = operations.current()
    if current is None:
        raise TableNotFound(table)
    return current


def commit_updates(operations: TableOperations, table: str, operation: str, make: MakeUpdates) -> Current | None:
    """The metadata that the updates were made for, once they are in; None when there was nothing to do.

    Raises MetadataChanged when others were faster every time, CommitStateUnknown, UnsupportedTableFeature for a table that we cannot
    write, StorageError when nothing was committed, and what `make` raises.
    """
    lost = 0
    while True:
        current = newest(operations, table)
        check_writable(table, current)
        updates = make(current)
        if not updates:
            return None
        put = Put.EXISTED if operations.is_followed(current) else operations.commit(current, updates)
        if put is Put.CREATED:
            return current
        if isinstance(put, Unknown):
            raise CommitStateUnknown(f"It is not known whether {operation} of {table} was committed: {put.reason}. Run it again.")
        policy = IcebergSettings(current.metadata.properties).retry_policy
        if lost >= policy.retries:
            version = newest(operations, table).metadata.current_snapshot_id or 0
            raise MetadataChanged(table, version, "a commit", f"others were faster {lost + 1} times")
        lost += 1
        time.sleep(policy.wait(lost))


def check_writable(table: str, current: Current) -> None:
    """Raises UnsupportedTableFeature for a format version that the table's catalog cannot keep."""
    check_format_version(table, current.metadata.format_version, current.newest_format)
