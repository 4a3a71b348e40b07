"""Orphan files: unreferenced files in a table's folder, left by statements that were killed or lost a race."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Sequence

from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.catalogs.metadata_folder import HINT, CurrentMetadata, version_in
from rowmerge.iceberg.maintenance.reachable import file_key
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import StoredObject, local_path
from rowmerge.table.maintenance import inner_tables


def find_orphans(
    location: str, current: CurrentMetadata, needed: Collection[str], objects: Sequence[StoredObject], older_than: int
) -> list[str]:
    """Return the orphan files in a listing of the table's folder, relative to it. They are older than `older_than` (ms).

    `needed`: the files that the snapshots need, by `file_key`. These files stay, too: hidden files, files of tables in folders below,
    metadata files that the metadata log names or that are newer than the table's, and files with the name of one that is needed elsewhere.
    """
    metadata_paths = (current.path, *(entry.metadata_file for entry in current.metadata.metadata_log))
    metadata_keys = {file_key(path) for path in metadata_paths if path}
    needed_paths, names_elsewhere = _split_by_location(location, metadata_keys.union(needed))
    inner_prefixes, partition_prefixes = inner_tables(objects), _partition_prefixes(current.metadata)

    def must_stay(path: str) -> bool:
        if path in needed_paths or posixpath.basename(path) in names_elsewhere:
            return True
        if path == HINT or _is_newer_metadata(path, current):
            return True
        return path.startswith(inner_prefixes) or _is_hidden(path, partition_prefixes)

    orphans = [file.path for file in objects if file.modified < older_than and not must_stay(file.path)]
    listed_paths = {file.path for file in objects}
    orphans += [checksum for checksum in map(checksum_of, orphans) if checksum in listed_paths]
    # The oldest metadata goes first: a writer that sleeps on it must not find the next one gone and its own still there.
    return sorted(orphans, key=lambda path: (_version_or_first(path), path))


def checksum_of(path: str) -> str:
    """Return the path at which Hadoop's local file system keeps the checksums of a file."""
    folder, _, name = path.rpartition("/")
    return posixpath.join(folder, f".{name}.crc")


def with_checksums(paths: Sequence[str]) -> list[str]:
    """Return absolute paths, and for those on a disk also the checksum files that Hadoop's local file system writes beside them."""
    return [*paths, *(checksum_of(path) for path in paths if local_path(path) is not None)]


def _split_by_location(location: str, paths: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the relative paths of the files below the location, and the names of all others."""
    relative_paths = {path: _relative_path(location, path) for path in paths}
    names_elsewhere = {posixpath.basename(path) for path, relative_path in relative_paths.items() if relative_path is None}
    return {relative_path for relative_path in relative_paths.values() if relative_path is not None}, names_elsewhere


def _relative_path(location: str, path: str) -> str | None:
    """Return the path of a file below a location, relative to that, else None. On a disk, also look behind symbolic links."""
    root = f"{file_key(location)}/"
    if path.startswith(root):
        return posixpath.normpath(path.removeprefix(root))
    folder, file = local_path(location), local_path(path)
    if folder is None or file is None:
        return None
    real = os.path.relpath(os.path.realpath(file), os.path.realpath(folder))
    return None if real.startswith("..") else real


def _partition_prefixes(metadata: TableMetadata) -> tuple[str, ...]:
    """Return the prefixes of partition folders whose names begin like those of hidden folders."""
    return tuple(f"{field.name}=" for spec in metadata.partition_specs for field in spec.fields if field.name[:1] in "._")


def _is_hidden(path: str, prefixes: tuple[str, ...]) -> bool:
    return any(part.startswith((".", "_")) and not part.startswith(prefixes) for part in path.split("/"))


def _is_newer_metadata(path: str, current: CurrentMetadata) -> bool:
    """Return whether a metadata file follows the current version. A temporary file does not."""
    return not is_temporary(path) and current.version is not None and _version_or_first(path) >= current.version


def _version_or_first(path: str) -> int:
    """Return the version in the name of a metadata file, -1 for other files."""
    version = version_in(path)
    return -1 if version is None else version
