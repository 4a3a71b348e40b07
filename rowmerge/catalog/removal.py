"""Drop a managed table so that a kill in the middle leaves the table, or no table, and never half of one."""

from __future__ import annotations

from functools import partial

from rowmerge.delta import dropping as delta
from rowmerge.iceberg import dropping as iceberg
from rowmerge.iceberg.operations import DROPPED
from rowmerge.storage.at_once import at_once
from rowmerge.storage.deletion import Origin, delete_files
from rowmerge.storage.store import Storage

LOG, METADATA = "_delta_log", "metadata"
"""The folders in which a Delta table has its log, and an Iceberg table or a view its metadata.

rowmerge 0.1.0 puts DROPPED in one of them to drop the table. From then on the table does not exist. DROPPED is the last file to go."""


def is_dropped(folder: Storage) -> bool:
    """Whether rowmerge 0.1.0 began to delete a table here, and has not finished."""
    return any(at_once([partial(folder.exists, f"{log}/{DROPPED}") for log in (LOG, METADATA)]))


def drop_table(folder: Storage, table: str, log: str) -> None:
    """Drop the table that has its log or metadata in `log`. Raises StorageError if it is certainly still there, CommitStateUnknown."""
    (delta if log == LOG else iceberg).drop_table(folder, table)


def finish_drops(folder: Storage, table: str) -> None:
    """Delete what dropped tables left in a folder, because a process was killed. Raises StorageError, CommitStateUnknown."""
    for log in (LOG, METADATA):
        if folder.exists(f"{log}/{DROPPED}"):
            # A process of rowmerge 0.1.0 may still run, and then delete the versions that it has listed. So a new table must not use their
            # names, and the version of a drop comes after them.
            drop_table(folder, table, log)
            delete_files(folder, [[f"{folder.location}/{log}/{DROPPED}"]], Origin.LISTED)
    delta.finish_drop(folder)
    iceberg.finish_drop(folder, table)
