"""Orphan files: unreferenced files in a table's folder, left by statements that were killed or lost a race."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterable, Sequence

from pyiceberg.table.metadata import TableMetadata

from rowmerge.errors import PlanError
from rowmerge.iceberg.catalogs.metadata_folder import HINT, CurrentMetadata, version_in
from rowmerge.iceberg.maintenance.reachable import file_key
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import StoredObject, local_path
from rowmerge.table.maintenance import PrefixMismatch, PrefixRule, inner_table_prefixes


class OrphanRule:
    """The rule that decides which files in a table's folder are orphans: neither the metadata nor a snapshot refers to them.

    These files are not orphans:

    - files that the metadata or a snapshot needs
    - the version hint, the current metadata file, and metadata files of later versions
    - files of inner tables, whose folders are below the table's folder
    - hidden files, which have a name or a folder that begins with `.` or `_`, as in Iceberg's DeleteOrphanFiles. But a folder such as
      `_day=1` is not hidden if the table has a partition field `_day`.
    """

    def __init__(
        self,
        location: str,
        current: CurrentMetadata,
        needed_keys: Collection[str],
        objects: Sequence[StoredObject],
        prefixes: PrefixRule,
    ) -> None:
        """Create the rule for one table.

        Args:
            location: The location of the table's folder.
            current: The current metadata of the table.
            needed_keys: The files that the snapshots need, by `file_key`.
            objects: The objects in the folder. The metadata files and logs among them show where inner tables are.
            prefixes: How the schemes and authorities of paths are compared.
        """
        self._current, self._location, self._prefixes = current, location, prefixes
        metadata_paths = (current.path, *(entry.metadata_file for entry in current.metadata.metadata_log))
        metadata_keys = {file_key(path) for path in metadata_paths if path}
        self._needed_paths, outside_paths = self._split_paths(metadata_keys.union(needed_keys))
        # The metadata may spell the location of the folder differently, such as `s3://alias/t` for `s3://bucket/t`. Then the needed file
        # `s3://alias/t/data/a.parquet` seems to be outside the folder. So no file in the folder with the name `a.parquet` is an orphan.
        self._mismatches = {path for path in map(self._mismatch, outside_paths) if path is not None}
        if prefixes.mismatch is PrefixMismatch.DELETE:
            outside_paths = {path for path in outside_paths if self._mismatch(path) is None}
        self._outside_names = {posixpath.basename(path) for path in outside_paths}
        self._inner_prefixes = inner_table_prefixes(objects)
        self._partition_prefixes = _hidden_like_partition_prefixes(current.metadata)
        self._listed_paths = {file.path for file in objects}

    def select(self, candidates: Iterable[StoredObject]) -> list[str]:
        """Return the paths of the orphans, relative to the folder. Metadata files come last, the oldest version first.

        Raises PlanError if the metadata refer to a candidate by another scheme or authority, and the rule makes this an error.
        """
        paths = [file.path for file in candidates]
        if self._prefixes.mismatch is PrefixMismatch.ERROR:
            self._check_prefixes(paths)
        orphans = [path for path in paths if self._may_be_orphan(path)]
        # On a disk, Hadoop stores the checksums of a file in a hidden file, which no rule selects. Delete both.
        orphans += [checksum for checksum in map(checksum_of, orphans) if checksum in self._listed_paths]
        # `DirectoryOperations` relies on this order: while a metadata file exists, the name of the next version has not become free.
        return sorted(orphans, key=lambda path: (_metadata_version(path), path))

    def _check_prefixes(self, paths: Iterable[str]) -> None:
        """Raise PlanError if the metadata refer to one of the files by another scheme or authority, and to no other path of it."""
        conflicts = [path for path in paths if path in self._mismatches and path not in self._needed_paths]
        if conflicts:
            problem = f"The metadata refer to {self._location}/{min(conflicts)} by another scheme or authority, so it may be no orphan."
            advice = "Set equal_schemes or equal_authorities, or set prefix_mismatch_mode to 'IGNORE' to keep such files."
            raise PlanError(f"{problem} {advice}")

    def _mismatch(self, path: str) -> str | None:
        """Return the path relative to the folder if only its scheme or authority differs from those of the folder, or else None."""
        prefix, folder = self._prefixes.split(file_key(f"{self._location}/"))
        folder = f"{folder.rstrip('/')}/"
        path_prefix, inner_path = self._prefixes.split(path)
        return inner_path.removeprefix(folder) if inner_path.startswith(folder) and path_prefix != prefix else None

    def _split_paths(self, paths: Collection[str]) -> tuple[set[str], set[str]]:
        """Return the relative paths of the files below the folder, and the paths of the files outside it."""
        relative_paths = {path: self._relative_path(path) for path in paths}
        outside_paths = {path for path, relative_path in relative_paths.items() if relative_path is None}
        return {relative_path for relative_path in relative_paths.values() if relative_path is not None}, outside_paths

    def _relative_path(self, path: str) -> str | None:
        """Return the path of a file relative to the folder, or None for a file outside it. Aliases of its prefix count as equal."""
        relative_path = _relative_path(self._location, path)
        if relative_path is not None:
            return relative_path
        prefix, folder = self._prefixes.split(f"{self._location}/")
        path_prefix, inner_path = self._prefixes.split(path)
        return posixpath.normpath(inner_path.removeprefix(folder)) if path_prefix == prefix and inner_path.startswith(folder) else None

    def _may_be_orphan(self, path: str) -> bool:
        if path in self._needed_paths or posixpath.basename(path) in self._outside_names:
            return False
        if path == HINT or _is_current_or_later_metadata(path, self._current):
            return False
        return not path.startswith(self._inner_prefixes) and not _is_hidden(path, self._partition_prefixes)


def checksum_of(path: str) -> str:
    """Return the path at which Hadoop's local file system stores the checksums of a file."""
    folder, _, name = path.rpartition("/")
    return posixpath.join(folder, f".{name}.crc")


def with_checksums(paths: Sequence[str]) -> list[str]:
    """Return the given absolute paths, and for files on a disk also the paths of the checksum files of Hadoop's local file system."""
    return [*paths, *(checksum_of(path) for path in paths if local_path(path) is not None)]


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
