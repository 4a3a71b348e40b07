"""Markers of dropped tables in a table's folder.

A dropped table keeps its log, which ends with a version without files. A new table in the folder continues the version numbers. So a late
commit to the dropped table cannot have the number of one of the new table's versions. If a folder contains a marker, the catalog reads the
newest version, which may be a drop. The marker is put before that version, and deleted after the version that creates the new table. The
name of the marker contains the version, so that no process deletes the marker of another drop.

DROP commits a version with no files, a new table id and the property `rowmerge.dropped`. Then it deletes the log before this version and
the table's files: the files that the commit removes, and all older files. A late commit to the dropped table is below a checkpoint, or its
put fails. A delayed DROP deletes no files of the new table, because these are all newer. Until then, Delta readers find an empty table. A
process that creates a table in the folder first completes the deletion.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from rowmerge.errors import StorageError
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.store import Storage, StoredObject

logger = logging.getLogger(__name__)

DROP_MARKERS = "_dropped"
"""The name of the folder with the markers, inside the table's folder."""
NAMES = "_names"
"""The name of the folder with the files of renamed relations, inside the folder of a name. DROP keeps these files."""
_MARKER_PATH = re.compile(rf"{DROP_MARKERS}/(?P<format>[a-z]+)-(?P<version>\d{{20}})")


def _marker_path(format_: str, version: int) -> str:
    """Return the path of the marker for the drop in this version, such as `_dropped/delta-00000000000000000007`."""
    return f"{DROP_MARKERS}/{format_}-{version:020d}"


def announce_drop(storage: Storage, format_: str, version: int) -> None:
    """Put the marker of a drop: an empty file whose name contains the version of the drop.

    The files of a dropped table's last version look like those of a live table. To save requests, the catalog treats a folder with version
    files as a table without reading them, unless it contains a marker. In that case, the catalog reads the newest version, which may be a
    drop. So the marker must exist before the drop is put. Otherwise the catalog would list the dropped table.

    Args:
        storage: The storage of the table's folder.
        format_: The table format, `delta` or `iceberg`.
        version: The version that the drop will put.

    Raises:
        StorageError: The store failed. The marker may exist.
    """
    storage.put(_marker_path(format_, version), b"")


@contextmanager
def after_drop(table: str) -> Iterator[None]:
    """Return a context manager for the deletion of the files of a dropped table or view.

    Raises:
        StorageError: The deletion failed. The advice in the error says that `table` was dropped and that some of its files remain.
    """
    try:
        yield
    except StorageError as error:
        advice = f"{error.advice} {table} was dropped, but some of its files remain. The next CREATE of this name deletes them if it can."
        raise StorageError(error.path, error.reason, advice) from error


def versions_of_drop_markers(storage: Storage, format_: str) -> list[int]:
    """Return the versions in the names of all drop markers, in ascending order.

    A marker announces that the table may have been dropped by the version in its name. It remains until a new table is created.

    Args:
        storage: The storage of the table's folder.
        format_: The table format, `delta` or `iceberg`.

    Raises:
        StorageError: The store failed.
    """
    path_matches = [match for marker in storage.list(DROP_MARKERS) if (match := _MARKER_PATH.fullmatch(marker.path))]
    return sorted(int(match["version"]) for match in path_matches if match["format"] == format_)


def delete_marker(storage: Storage, format_: str, version: int) -> None:
    """Delete the marker of a drop whose version was withdrawn. This function never raises.

    Args:
        storage: The storage of the table's folder.
        format_: The table format, `delta` or `iceberg`.
        version: The version of the drop.
    """
    try_delete_files(storage, [[f"{storage.location}/{_marker_path(format_, version)}"]], PathOrigin.THIS_PROCESS)


def delete_older_markers(storage: Storage, format_: str, new_version: int) -> None:
    """Delete the markers of drops before the version that creates a new table. This function never raises.

    Args:
        storage: The storage of the table's folder.
        format_: The table format, `delta` or `iceberg`.
        new_version: The version that creates the new table.
    """
    try:
        old_versions = [version for version in versions_of_drop_markers(storage, format_) if version < new_version]
    except StorageError as error:
        # The table already exists, so an error would look like a failed creation. A remaining marker only costs the catalog one request.
        logger.warning("Markers of dropped tables remain at %s: %s", storage.location, error.message)
        return
    marker_paths = [f"{storage.location}/{_marker_path(format_, version)}" for version in old_versions]
    try_delete_files(storage, [marker_paths], PathOrigin.LISTING)
    storage.child(DROP_MARKERS).remove_folders()


def has_markers(objects: list[StoredObject], format_: str) -> bool:
    """Return whether a listing of a table's folder contains the marker of a drop.

    Args:
        objects: The listed objects, with paths relative to the table's folder.
        format_: The table format, `delta` or `iceberg`.
    """
    return any((match := _MARKER_PATH.fullmatch(listed.path)) and match["format"] == format_ for listed in objects)
