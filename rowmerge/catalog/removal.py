"""How a managed table's folder is deleted so that a kill in the middle leaves the table, or no table, and never half of one."""

from __future__ import annotations

import json
from uuid import uuid4

from rowmerge.storage.store import Storage

LOG = "_delta_log"
DROPPED = f"{LOG}/_dropped.json"
"""From the put of this file on, the table does not exist; it is the last file to go."""


def is_dropped(folder: Storage) -> bool:
    """Whether a table's deletion was begun here and not finished."""
    return folder.exists(DROPPED)


def remove_table(folder: Storage) -> None:
    """Delete a table: mark it as dropped, then finish."""
    folder.put_if_absent(DROPPED, json.dumps({"id": str(uuid4())}).encode())
    finish_removal(folder)


def finish_removal(folder: Storage) -> None:
    """Go on with a deletion from wherever it stopped: data files, then the log from its oldest entry, the marker last.

    The oldest first, so that other readers find no table rather than an old version of it. When somebody else finishes the same
    deletion and makes a new table here meanwhile, the marker is no longer the same and nothing more is deleted.
    """
    mark = _mark(folder)
    if mark is None:
        return
    objects = [o for o in folder.list() if o.path != DROPPED]
    log = [o.path for o in objects if o.path.startswith(f"{LOG}/")]
    folder.delete([o.path for o in objects if not o.path.startswith(f"{LOG}/")])
    if _mark(folder) == mark:
        folder.delete(log)
    if _mark(folder) == mark:
        folder.delete([DROPPED])
        folder.remove_folders()


def _mark(folder: Storage) -> bytes | None:
    try:
        return folder.get(DROPPED)
    except FileNotFoundError:
        return None
