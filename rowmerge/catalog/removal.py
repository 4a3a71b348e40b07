"""How a managed table's folder is deleted so that a kill in the middle leaves the table, or no table, and never half of one."""

from __future__ import annotations

import json
from functools import partial
from uuid import uuid4

from rowmerge.iceberg.operations import DROPPED
from rowmerge.storage.at_once import at_once
from rowmerge.storage.deletion import Origin, delete_files
from rowmerge.storage.store import Storage
from rowmerge.table.commit import put_once

LOG, METADATA = "_delta_log", "metadata"
"""The folders in which a Delta table has its log, and an Iceberg table or a view its metadata.

From the put of DROPPED in one of them on, the table does not exist; it is the last file to go."""


def is_dropped(folder: Storage) -> bool:
    """Whether a table's deletion was begun here and not finished."""
    return any(at_once([partial(folder.exists, f"{log}/{DROPPED}") for log in (LOG, METADATA)]))


def remove_table(folder: Storage, log: str) -> None:
    """Delete a table with its log or metadata in a folder: mark it as dropped, then finish."""
    put_once(folder, f"{log}/{DROPPED}", json.dumps({"id": str(uuid4())}).encode(), f"the mark that drops the table at {folder.location}")
    finish_removal(folder)


def finish_removal(folder: Storage) -> None:
    """Go on with a deletion from wherever it stopped: data files, then the log from its oldest entry, the marker last.

    The oldest first, so that other readers find no table rather than an old version of it. When somebody else finishes the same
    deletion and makes a new table here meanwhile, the marker is no longer the same and nothing more is deleted.
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
