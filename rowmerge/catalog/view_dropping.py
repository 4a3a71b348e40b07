"""Drop a view so that no waiting statement on it reaches a table or a view that others create in its place.

A view has its versions in the same files as an Iceberg table. So it is dropped in the same way: a version without a view ends it, and a new
relation in the folder continues the version numbers. See `rowmerge.table.commits.drop_markers`.
"""

from __future__ import annotations

from rowmerge.catalog.layout import FolderContent, ViewFolder, inspect_folder
from rowmerge.catalog.removal import finish_drops
from rowmerge.errors import CommitStateUnknown
from rowmerge.iceberg.commits.drop import put_drop
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.drop_markers import after_drop
from rowmerge.table.commits.request import Unknown


def drop_view(folder: Storage, name: str, view: ViewFolder) -> None:
    """Drop a view of a folder, also if it gets new versions meanwhile. If others drop it first, do not drop what replaces it.

    Raises StorageError if the view is certainly still there, or was dropped and its files cannot be deleted. Raises CommitStateUnknown.
    """
    content: FolderContent | None = view
    while isinstance(content, ViewFolder) and content.content.get("view-uuid") == view.content.get("view-uuid"):
        put = put_drop(folder, content.version + 1)
        if isinstance(put, Unknown):
            raise CommitStateUnknown(
                f"It is not known whether {name} was dropped: {put.reason}. Look whether it exists, and drop it again."
            )
        if put is Put.CREATED:
            break
        content = inspect_folder(folder)
    with after_drop(name):
        finish_drops(folder, name)
