"""Drop an Iceberg table that a folder is the catalog of: put a version without snapshots, and delete the files before it.

See `rowmerge.table.commits.drop_markers` for why that version stays.
"""

from __future__ import annotations

import re

from rowmerge.errors import CommitStateUnknown, CorruptLog, RowmergeError, UnsupportedTableFeature
from rowmerge.iceberg.catalogs.operations import FOLDER, DirectoryOperations, is_dropped
from rowmerge.iceberg.catalogs.version_hint import HINT
from rowmerge.iceberg.commits.drop import FORMAT, Drop
from rowmerge.iceberg.maintenance.reachable import file_key, needed_files
from rowmerge.storage.deletion import Deletion, Origin, delete_files
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.commit import commit
from rowmerge.table.commits.creation import has_other_table
from rowmerge.table.commits.drop_markers import MARKERS, after_drop, marked_versions
from rowmerge.table.commits.inner_tables import inner_tables
from rowmerge.table.commits.request import Unknown
from rowmerge.table.snapshots.files import FileChanges

_LOG = "_delta_log"
_VERSION = re.compile(rf"{FOLDER}/v(\d+)\.")


def drop_table(storage: Storage, table: str) -> None:
    """Drop the table of a folder, even if its metadata cannot be read, and delete its files.

    If others drop the table first, it does nothing to a table that they create in its place.
    Raises StorageError if the table is certainly still there, or was dropped and its files cannot be deleted. Raises CommitStateUnknown.
    """
    outcome = commit(Drop(DirectoryOperations(storage, table), table), storage, FileChanges())
    if isinstance(outcome, Unknown):
        raise CommitStateUnknown(
            f"It is not known whether {table} was dropped: {outcome.reason}. Look whether it exists, and drop it again."
        )
    with after_drop(table):
        finish_drop(storage, table, delete_files)


def finish_drop(storage: Storage, table: str, delete: Deletion) -> None:
    """Delete what a dropped table left in the folder, if the newest version is that of a drop.

    Others may create a table meanwhile. All of its files are younger than the version of the drop, as `Table.create` verifies, so none of
    them is deleted.
    Raises CorruptLog, StorageError.
    """
    if not marked_versions(storage, FORMAT):
        return
    operations = DirectoryOperations(storage, table)
    objects = storage.list()
    versions = {version: each for each in objects if (version := _version(each)) is not None}
    newest = max(versions, default=None)
    if newest is not None and newest in marked_versions(storage, FORMAT) and _is_drop(operations, newest):
        paths = _older(storage, operations, objects, newest, versions[newest].modified)
        delete(storage, paths, Origin.LISTED)


def _is_drop(operations: DirectoryOperations, version: int) -> bool:
    """Whether a version is that of a drop. A marked version may be a view that was faster than the drop, or a table."""
    try:
        last = operations.read(version)
    except (CorruptLog, UnsupportedTableFeature):
        return False
    return last is not None and is_dropped(last.metadata)


def _version(file: StoredObject) -> int | None:
    match = None if is_temporary(file.path) else _VERSION.match(file.path)
    return int(match[1]) if match else None


def _older(
    storage: Storage, operations: DirectoryOperations, objects: list[StoredObject], version: int, dropped_at: int
) -> list[list[str]]:
    """Return the metadata before a drop, and the files of the folder that are older than the drop or that the dropped table needs.

    Tables in folders below stay. If the folder has a table of another format, its files are older, too. So age decides nothing then.
    """
    needed = _needed(storage, operations, version - 1)
    controls = (f"{_LOG}/", f"{MARKERS}/", HINT, *inner_tables(objects))
    others = [each for each in objects if _version(each) is None and not each.path.startswith(controls)]
    paths = {each.path: f"{storage.location}/{each.path}" for each in others}
    oldest = 0 if has_other_table(storage, objects, FORMAT) else dropped_at
    groups = [[paths[each.path] for each in others if each.modified < oldest or file_key(paths[each.path]) in needed]]
    # The oldest metadata goes first, as `DirectoryOperations` relies on.
    metadata = sorted((number, each.path) for each in objects if (number := _version(each)) is not None and number < version)
    return [*groups, *([f"{storage.location}/{path}"] for _, path in metadata)]


def _needed(storage: Storage, operations: DirectoryOperations, version: int) -> set[str]:
    """Return the files that the last version of a dropped table needs, as far as its metadata can be read."""
    try:
        last = operations.read(version)
        return set() if last is None else set(needed_files(storage, last.metadata))
    except RowmergeError:
        return set()
