"""Drop a view so that no statement on it that waits meanwhile reaches a table or a view that others create in its place.

A view has its versions where an Iceberg table has them. So a view is dropped as such a table is: a version without a view ends it, and what
is created in the folder continues the version numbers. See `rowmerge.table.commits.drop_markers`.
"""

from __future__ import annotations

from rowmerge.catalog.layout import Found, ViewFolder, look
from rowmerge.catalog.removal import finish_drops
from rowmerge.errors import CommitStateUnknown
from rowmerge.iceberg.commits.drop import put_drop
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.drop_markers import after_drop
from rowmerge.table.commits.request import Unknown


def drop_view(folder: Storage, name: str, view: ViewFolder) -> None:
    """Drop a view of a folder, whatever its newest version is by then. If others drop it first, it drops nothing else.

    Raises StorageError if the view is certainly still there, or was dropped and its files cannot be deleted. Raises CommitStateUnknown.
    """
    found: Found | None = view
    while isinstance(found, ViewFolder) and found.content.get("view-uuid") == view.content.get("view-uuid"):
        put = put_drop(folder, found.version + 1)
        if isinstance(put, Unknown):
            raise CommitStateUnknown(
                f"It is not known whether {name} was dropped: {put.reason}. Look whether it exists, and drop it again."
            )
        if put is Put.CREATED:
            break
        found = look(folder)
    with after_drop(name):
        finish_drops(folder, name)
