"""Drop an Iceberg table that a folder is the catalog of, and delete the files of a dropped table of any catalog.

In a folder, a drop puts a version without snapshots, and deletes the files before it. `rowmerge.table.commits.drop_markers` explains why
that version stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from rowmerge.errors import CommitStateUnknown, CorruptLog, RowmergeError, UnsupportedTableFeature
from rowmerge.iceberg.catalogs.metadata_folder import HINT, CurrentMetadata, MetadataFolder, version_in
from rowmerge.iceberg.catalogs.operations import DirectoryOperations, is_dropped
from rowmerge.iceberg.commits.drop import FORMAT, Drop
from rowmerge.iceberg.maintenance.orphans import with_checksums
from rowmerge.iceberg.maintenance.reachable import file_key, needed_files
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import GC_ENABLED, file_locations
from rowmerge.storage.deletion import Deletion, Origin, delete_files
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.commit import commit
from rowmerge.table.commits.creation import has_other_table
from rowmerge.table.commits.drop_markers import MARKERS, after_drop, marked_versions
from rowmerge.table.commits.request import Unknown
from rowmerge.table.maintenance import inner_tables
from rowmerge.table.snapshots.files import FileChanges

_LOG = "_delta_log"


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


def delete_dropped_files(storage: Storage, dropped: CurrentMetadata) -> None:
    """Delete the files that the metadata of a table names that has left its catalog, data first and metadata last.

    Files outside the table's places stay, such as files that `add_files` registered or the files of a shallow clone's source. So do files
    that the metadata does not name, and all files of a table with `gc.enabled` = false. Raises CorruptLog, StorageError.
    """
    properties = dropped.metadata.properties
    if properties.get(GC_ENABLED, "true").strip().lower() == "false":
        return
    groups = [sorted({plain_path(path) for path in paths}) for paths in _named_files(storage, dropped)]
    delete_files(storage, [with_checksums(paths) for paths in groups], Origin.NAMED, locations=file_locations(properties))
    storage.remove_folders()


def _named_files(storage: Storage, current: CurrentMetadata) -> list[Iterable[str]]:
    """Return the files that metadata names, each group before the group that names it."""
    metadata = current.metadata
    manifest_lists = [snapshot.manifest_list for snapshot in metadata.snapshots]
    manifests = {manifest.path: manifest for path in manifest_lists for manifest in read_manifest_list(storage, path)}
    content = [entry.file.path for entries in read_manifests(storage, list(manifests.values())) for entry in entries]
    statistics = [file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)]
    old_metadata = [entry.metadata_file for entry in metadata.metadata_log]
    return [content, manifests, manifest_lists, [*old_metadata, *statistics], [current.path]]


def finish_drop(storage: Storage, table: str, delete: Deletion) -> None:
    """Delete what a dropped table left in the folder, if the newest version is that of a drop.

    Others may create a table meanwhile. All of its files are younger than the version of the drop, as `Table.create` verifies, so none of
    them is deleted. Raises CorruptLog, StorageError.
    """
    if not marked_versions(storage, FORMAT):
        return
    folder = MetadataFolder(storage, table)
    objects = storage.list()
    metadata_files = _metadata_files(objects)
    put_times = {version: file.modified for version, file in metadata_files}
    newest = max(put_times, default=None)
    if newest is None or newest not in marked_versions(storage, FORMAT) or not _is_drop(folder, newest):
        return
    content_paths = _content_paths(storage, objects, _needed_keys(storage, folder, newest - 1), dropped_at=put_times[newest])
    # `DirectoryOperations` relies on the deletion of metadata in this order, oldest first.
    old_metadata = sorted((version, file.path) for version, file in metadata_files if version < newest)
    metadata_groups = [[folder.absolute(path)] for _, path in old_metadata]
    delete(storage, [content_paths, *metadata_groups], Origin.LISTED)


def _metadata_files(objects: list[StoredObject]) -> list[tuple[int, StoredObject]]:
    """Return the metadata files in a listing, with their versions."""
    versions = [_version_of(file) for file in objects]
    return [(version, file) for version, file in zip(versions, objects, strict=True) if version is not None]


def _is_drop(folder: MetadataFolder, version: int) -> bool:
    """Return whether a version is that of a drop. A marked version may be a view that was faster than the drop, or a table."""
    try:
        current = folder.read(version)
    except (CorruptLog, UnsupportedTableFeature):
        return False
    return current is not None and is_dropped(current.metadata)


def _version_of(file: StoredObject) -> int | None:
    return None if is_temporary(file.path) else version_in(file.path)


def _content_paths(storage: Storage, objects: list[StoredObject], needed: set[str], dropped_at: int) -> list[str]:
    """Return the files other than metadata that are older than the drop or that the dropped table needs. Paths are absolute.

    Tables in folders below stay. If the folder has a table of another format, its files are older, too. So age decides nothing then.
    """
    # Files of a table of another format may be as old, so their age decides nothing.
    older_than = 0 if has_other_table(storage, objects, FORMAT) else dropped_at
    excluded = (f"{_LOG}/", f"{MARKERS}/", HINT, *inner_tables(objects))
    files = [file for file in objects if _version_of(file) is None and not file.path.startswith(excluded)]
    paths = [(f"{storage.location}/{file.path}", file.modified) for file in files]
    return [path for path, modified in paths if modified < older_than or file_key(path) in needed]


def _needed_keys(storage: Storage, folder: MetadataFolder, version: int) -> set[str]:
    """Return the files that the last version of a dropped table needs, as far as its metadata can be read."""
    try:
        current = folder.read(version)
        return set() if current is None else set(needed_files(storage, current.metadata))
    except RowmergeError:
        return set()
