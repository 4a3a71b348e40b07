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
    """Delete what dropped tables left in a folder, because a process was killed. Raises StorageError."""
    _finish_old_removal(folder)
    delta.finish_drop(folder)
    iceberg.finish_drop(folder, table)


def _finish_old_removal(folder: Storage) -> None:
    """Go on with a deletion that rowmerge 0.1.0 began: data files, then the log from its oldest entry, the marker last.

    The oldest goes first, so that other readers find no table rather than an old version of it. If another process finishes the same
    deletion and creates a new table here meanwhile, the marker is no longer the same, and nothing more is deleted.
    """
    for log in (LOG, METADATA):
        dropped = f"{log}/{DROPPED}"
        mark = _mark(folder, dropped)
        if mark is None:
            continue
        objects = [f"{folder.location}/{o.path}" for o in folder.list() if o.path != dropped]
        log_prefix = f"{folder.location}/{log}/"
        delete_files(folder, [[path for path in objects if not path.startswith(log_prefix)]], Origin.LISTED)
        if _mark(folder, dropped) == mark:
            delete_files(folder, [[path] for path in objects if path.startswith(log_prefix)], Origin.LISTED)
        if _mark(folder, dropped) == mark:
            delete_files(folder, [[f"{folder.location}/{dropped}"]], Origin.LISTED)
            folder.remove_folders()


def _mark(folder: Storage, dropped: str) -> bytes | None:
    try:
        return folder.get(dropped)
    except FileNotFoundError:
        return None
