"""Orphan files: unreferenced files in a table's folder, left by statements that were killed or lost a race."""

from __future__ import annotations

import gzip
import os
import posixpath
from collections.abc import Callable, Collection, Sequence
from functools import partial

from pyiceberg.table.metadata import TableMetadata

from rowmerge.concurrency import run_concurrently
from rowmerge.iceberg.catalogs.metadata_folder import HINT, CurrentMetadata, version_in
from rowmerge.iceberg.maintenance.reachable import file_key
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Storage, StoredObject, get_if_exists, local_path
from rowmerge.table.maintenance import inner_table_prefixes


def find_orphans(
    location: str, current: CurrentMetadata, needed_keys: Collection[str], objects: Sequence[StoredObject], older_than: int
) -> list[str]:
    """Return the orphan files in a listing of a table's folder: old files to which neither the metadata nor a snapshot refers.

    Args:
        location: The location of the table's folder.
        current: The current metadata of the table.
        needed_keys: The files that the snapshots need, by `file_key`.
        objects: The objects in the folder.
        older_than: The time in milliseconds since the epoch. Only files that were written before this time are orphans.

    Returns:
        Paths relative to the folder. Metadata files come last, the oldest version first.
    """
    may_be_orphan = _orphan_rule(location, current, needed_keys, objects)
    orphans = [file.path for file in objects if file.modified < older_than and may_be_orphan(file.path)]
    # On a disk, Hadoop stores the checksums of a file in a hidden file, which no rule selects. Delete both.
    listed_paths = {file.path for file in objects}
    orphans += [checksum for checksum in map(checksum_of, orphans) if checksum in listed_paths]
    # `DirectoryOperations` relies on this order: while a metadata file exists, the name of the next version has not become free.
    return sorted(orphans, key=lambda path: (_metadata_version(path), path))


def has_other_table(storage: Storage, current: CurrentMetadata, objects: Sequence[StoredObject]) -> bool:
    """Return whether a listing of a table's folder contains metadata of another table, which may be live or dropped.

    A catalog can give the location of a renamed table to a new one. In a folder that is its own catalog, this cannot happen.

    Args:
        storage: The storage of the table's folder.
        current: The current metadata of the table.
        objects: The objects in the folder.

    Raises:
        StorageError: A metadata file cannot be read.
    """
    if current.version is not None:
        return False
    known_keys = {file_key(path) for path in (current.path, *(entry.metadata_file for entry in current.metadata.metadata_log)) if path}
    paths = [file.path for file in objects if file.path.endswith((".metadata.json", ".metadata.json.gz"))]
    unknown_paths = [path for path in paths if file_key(f"{storage.location}/{path}") not in known_keys]
    table_id = str(current.metadata.table_uuid).encode()
    contents = run_concurrently([partial(get_if_exists, storage, path) for path in unknown_paths], is_remote=storage.is_remote)
    return any(content is not None and table_id not in decompressed(content) for content in contents)


def decompressed(data: bytes) -> bytes:
    """Return the content of a file that may be compressed with gzip."""
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def _orphan_rule(
    location: str, current: CurrentMetadata, needed_keys: Collection[str], objects: Sequence[StoredObject]
) -> Callable[[str], bool]:
    """Return the function that decides by a file's path, relative to the table's folder, whether the file may be an orphan.

    These files are not orphans:

    - files that the metadata or a snapshot needs
    - the version hint, the current metadata file, and metadata files of later versions
    - files of inner tables, whose folders are below the table's folder
    - hidden files, which have a name or a folder that begins with `.` or `_`, as in Iceberg's DeleteOrphanFiles. But a folder such as
      `_day=1` is not hidden if the table has a partition field `_day`.

    Args:
        location: The location of the table's folder.
        current: The current metadata of the table.
        needed_keys: The files that the snapshots need, by `file_key`.
        objects: The objects in the folder. The metadata files and logs among them show where inner tables are.
    """
    metadata_paths = (current.path, *(entry.metadata_file for entry in current.metadata.metadata_log))
    metadata_keys = {file_key(path) for path in metadata_paths if path}
    # The metadata may spell the location of the folder differently, such as `s3://alias/t` for `s3://bucket/t`. Then the needed file
    # `s3://alias/t/data/a.parquet` seems to be outside the folder. So no file in the folder with the name `a.parquet` is an orphan.
    needed_paths, names_outside_folder = _relative_paths_and_outside_names(location, metadata_keys.union(needed_keys))
    inner_prefixes, partition_prefixes = inner_table_prefixes(objects), _hidden_like_partition_prefixes(current.metadata)

    def may_be_orphan(path: str) -> bool:
        if path in needed_paths or posixpath.basename(path) in names_outside_folder:
            return False
        if path == HINT or _is_current_or_later_metadata(path, current):
            return False
        return not path.startswith(inner_prefixes) and not _is_hidden(path, partition_prefixes)

    return may_be_orphan


def checksum_of(path: str) -> str:
    """Return the path at which Hadoop's local file system stores the checksums of a file."""
    folder, _, name = path.rpartition("/")
    return posixpath.join(folder, f".{name}.crc")


def with_checksums(paths: Sequence[str]) -> list[str]:
    """Return the given absolute paths, and for files on a disk also the paths of the checksum files of Hadoop's local file system."""
    return [*paths, *(checksum_of(path) for path in paths if local_path(path) is not None)]


def _relative_paths_and_outside_names(location: str, paths: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the relative paths of the files below a location, and the names of the files outside it."""
    relative_paths = {path: _relative_path(location, path) for path in paths}
    outside_names = {posixpath.basename(path) for path, relative_path in relative_paths.items() if relative_path is None}
    return {relative_path for relative_path in relative_paths.values() if relative_path is not None}, outside_names


def _relative_path(location: str, path: str) -> str | None:
    """Return the path of a file relative to a location, or None for a file outside it. On a disk, resolve symbolic links."""
    root = f"{file_key(location)}/"
    if path.startswith(root):
        return posixpath.normpath(path.removeprefix(root))
    folder, file = local_path(location), local_path(path)
    if folder is None or file is None:
        return None
    relative_path = os.path.relpath(os.path.realpath(file), os.path.realpath(folder))
    return None if relative_path.startswith("..") else relative_path


def _hidden_like_partition_prefixes(metadata: TableMetadata) -> tuple[str, ...]:
    """Return the prefixes of partition folders whose names begin like those of hidden folders."""
    return tuple(f"{field.name}=" for spec in metadata.partition_specs for field in spec.fields if field.name[:1] in "._")


def _is_hidden(path: str, partition_prefixes: tuple[str, ...]) -> bool:
    """Return whether a file or one of its folders is hidden: its name begins with `.` or `_`, and it is not a partition folder."""
    return any(name.startswith((".", "_")) and not name.startswith(partition_prefixes) for name in path.split("/"))


def _is_current_or_later_metadata(path: str, current: CurrentMetadata) -> bool:
    """Return whether a path is that of the current metadata file or of a later version. A temporary file is neither."""
    return not is_temporary(path) and current.version is not None and _metadata_version(path) >= current.version


def _metadata_version(path: str) -> int:
    """Return the version in the name of a metadata file, or -1 for other files."""
    version = version_in(path)
    return -1 if version is None else version
