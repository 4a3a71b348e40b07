"""Drop an Iceberg table whose catalog is its folder, and delete the files of a dropped table of any catalog.

In a folder, a drop puts a version without snapshots, and deletes the files of earlier versions. `rowmerge.table.commits.drop_markers`
explains why that version stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rowmerge.errors import CommitStateUnknown, CorruptLog, RowmergeError, UnsupportedTableFeature
from rowmerge.iceberg.catalogs.metadata_folder import HINT, CurrentMetadata, MetadataFolder, version_in
from rowmerge.iceberg.catalogs.operations import DirectoryOperations, is_dropped
from rowmerge.iceberg.commits.drop import FORMAT, Drop
from rowmerge.iceberg.maintenance.orphans import with_checksums
from rowmerge.iceberg.maintenance.reachable import file_key, needed_files
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.properties import file_locations
from rowmerge.iceberg.metadata.registry import GC_ENABLED
from rowmerge.storage.deletion import Deletion, PathOrigin, delete_files
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Storage, StoredObject, absolute_location
from rowmerge.table.commits.commit import commit
from rowmerge.table.commits.creation import has_relation_of_other_format
from rowmerge.table.commits.drop_markers import DROP_MARKERS, NAMES, after_drop, versions_of_drop_markers
from rowmerge.table.commits.request import Unknown
from rowmerge.table.maintenance import inner_table_prefixes
from rowmerge.table.snapshots.files import FileChanges


def drop_table(storage: Storage, table: str) -> None:
    """Drop the table of a folder, even if its metadata cannot be read, and delete its files.

    If another writer drops the table first and creates a new one in the folder, the new table stays.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in error messages.

    Raises:
        CommitStateUnknown: It is not known whether the table was dropped. No file has been deleted.
        StorageError: The table was certainly not dropped, or it was dropped and its files cannot be deleted.
    """
    drop = Drop(DirectoryOperations(storage, table), table)
    outcome = commit(drop, storage, FileChanges())
    if isinstance(outcome, Unknown):
        advice = "Check whether it still exists. If so, drop it again."
        raise CommitStateUnknown(f"It is not known whether {table} was dropped: {outcome.reason}. {advice}")
    with after_drop(table):  # An error message from here on says that the table is dropped, but some of its files remain.
        finish_drop(storage, table, delete_files)


def delete_dropped_files(storage: Storage, dropped: CurrentMetadata) -> None:
    """Delete the files of a table that was removed from its catalog, data files first and metadata files last.

    These are the files to which `dropped`, the last metadata of the table, refers. Other files in the table's location stay. Files outside
    the table's location and its data and metadata paths stay, too: `add_files` may have registered them, or another table may own them.
    A table with `gc.enabled` = false keeps all files.

    Args:
        storage: The storage of the table's location.
        dropped: The last metadata of the table, read before the catalog removed it.

    Raises:
        CorruptLog: A manifest or manifest list is damaged or missing.
        StorageError: A file cannot be read or deleted.
    """
    properties = dropped.metadata.properties
    if properties.get(GC_ENABLED.name, "true").strip().lower() == "false":
        return
    path_groups = [sorted({plain_path(path) for path in paths}) for paths in _referenced_files(storage, dropped)]
    delete_files(storage, [with_checksums(paths) for paths in path_groups], PathOrigin.METADATA, locations=file_locations(properties))
    storage.remove_folders()


def _referenced_files(storage: Storage, current: CurrentMetadata) -> list[Iterable[str]]:
    """Return the paths of the files to which metadata refers, in groups. Each group comes before the files that contain its paths."""
    metadata = current.metadata
    manifest_lists = [snapshot.manifest_list for snapshot in metadata.snapshots]
    manifests = {manifest.path: manifest for path in manifest_lists for manifest in read_manifest_list(storage, path)}
    content = [entry.file.path for entries in read_manifests(storage, list(manifests.values())) for entry in entries]
    statistics = [file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)]
    old_metadata = [entry.metadata_file for entry in metadata.metadata_log]
    return [content, manifests, manifest_lists, [*old_metadata, *statistics], [current.path]]


def finish_drop(storage: Storage, table: str, delete: Deletion) -> None:
    """Delete the files of a dropped table from its folder, unless a new table was created after the drop.

    DROP TABLE first puts a marker file, which announces the drop. Then it puts the drop version: a metadata file without snapshots, which
    stays in the folder. For example, if version 4 is the drop, then version 3 was the last one of the table. A process that is killed
    after the drop leaves the files of the table. The next process that creates a table in the folder deletes them with this function.

    Another writer may create a table in the folder at the same time. All files of the new table are younger than the drop version, so none
    of them is deleted. Files in the other folders that the properties of the dropped table name are deleted only if it needs them.

    Args:
        storage: The storage of the folder.
        table: The name of the table in error messages.
        delete: `delete_files`, which raises an error if a file cannot be deleted, or `try_delete_files`, which then leaves the file.

    Raises:
        CorruptLog: The metadata of a table of another format in the folder is malformed.
        StorageError: The folder cannot be listed, or `delete` failed.
    """
    # Most folders have no marker of a drop, so most calls end before the long listing.
    if not versions_of_drop_markers(storage, FORMAT):
        return
    folder = MetadataFolder(storage, table)
    objects = storage.list()
    metadata_files = _metadata_files(objects)
    put_times = {file.version: file.modified for file in metadata_files}
    drop_version = max(put_times, default=None)
    if drop_version is None or not _is_drop(storage, folder, drop_version):
        return
    dropped_table = _read_dropped_table(storage, folder, last_version=drop_version - 1)
    needed_keys = set(dropped_table.needed_paths)
    dropped_paths = _paths_of_dropped_table(storage, objects, needed_keys, dropped_at=put_times[drop_version])
    if dropped_table.locations:
        # Delete files outside the folder first. If this process is killed, the metadata in the folder still refers to them.
        outside_paths = [path for path in dropped_table.needed_paths if not path.startswith(f"{file_key(storage.location)}/")]
        delete(storage, [with_checksums(outside_paths)], PathOrigin.METADATA, locations=dropped_table.locations)
    # Delete the oldest metadata first. While the drop version exists, a slow commit of the dropped table cannot put a version after it.
    metadata_groups = [[folder.absolute(file.path)] for file in metadata_files if file.version < drop_version]
    delete(storage, [dropped_paths, *metadata_groups], PathOrigin.LISTING)


class _MetadataFile(NamedTuple):
    """A metadata file in a listing of the folder. `modified` is in milliseconds since the epoch."""

    version: int
    path: str
    modified: int


def _metadata_files(objects: list[StoredObject]) -> list[_MetadataFile]:
    """Return the metadata files in a listing, the oldest version first."""
    return sorted(_MetadataFile(version, file.path, file.modified) for file in objects if (version := _version_of(file)) is not None)


def _is_drop(storage: Storage, folder: MetadataFolder, version: int) -> bool:
    """Return whether a version is that of a drop. A marker is put first, so the version may also be that of a concurrent view or table."""
    if version not in versions_of_drop_markers(storage, FORMAT):
        return False
    try:
        current = folder.read(version)
    except (CorruptLog, UnsupportedTableFeature):
        return False
    return current is not None and is_dropped(current.metadata)


def _version_of(file: StoredObject) -> int | None:
    return None if is_temporary(file.path) else version_in(file.path)


def _paths_of_dropped_table(storage: Storage, objects: list[StoredObject], needed_keys: set[str], dropped_at: int) -> list[str]:
    """Return the absolute paths of the dropped table's files, except metadata files. Files of tables in inner folders stay.

    - In most folders, these are the files that the table's last version needs, and all other files that are older than the drop.
    - If the folder also contains a table of another format, these are only the needed files. Other old files may belong to that table.

    Args:
        storage: The storage of the folder.
        objects: The objects in the folder.
        needed_keys: The files that the table's last version needs, by `file_key`, which has one spelling for `s3://` and `s3a://`.
        dropped_at: The modification time of the drop's version, in milliseconds since the epoch.
    """
    excluded_prefixes = ("_delta_log/", f"{DROP_MARKERS}/", f"{NAMES}/", HINT, *inner_table_prefixes(objects))
    files = [file for file in objects if _version_of(file) is None and not file.path.startswith(excluded_prefixes)]
    has_other_table = has_relation_of_other_format(storage, objects, FORMAT)
    old_paths = set() if has_other_table else {file.path for file in files if file.modified < dropped_at}
    absolute_paths = {file.path: f"{storage.location}/{file.path}" for file in files}
    return [path for relative_path, path in absolute_paths.items() if relative_path in old_paths or file_key(path) in needed_keys]


class _DroppedTable(NamedTuple):
    """The last version of a dropped table.

    `needed_paths`: the files that it needs, by `file_key`. `locations`: the other folders that its properties name, if it owns its files.
    """

    needed_paths: Sequence[str] = ()
    locations: Sequence[str] = ()


def _read_dropped_table(storage: Storage, folder: MetadataFolder, last_version: int) -> _DroppedTable:
    """Return the files of the last version of a dropped table. Return none if its metadata or a manifest is unreadable."""
    try:
        current = folder.read(last_version)
        if current is None:
            return _DroppedTable()
        properties = current.metadata.properties
        # A clone uses the files of its source, and a copied folder those of the original.
        is_copy = absolute_location(current.metadata.location) != storage.location
        owns_files = not is_copy and properties.get(GC_ENABLED.name, "true").strip().lower() != "false"
        return _DroppedTable(list(needed_files(storage, current.metadata)), file_locations(properties) if owns_files else ())
    except RowmergeError:
        return _DroppedTable()
