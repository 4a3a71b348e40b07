"""A version of a table's metadata, and the files `metadata/v<N>.metadata.json` and `version-hint.text` of a table in a folder."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from rowmerge.concurrency import run_concurrently, run_in_background
from rowmerge.errors import RowmergeError, UnsupportedTableFeature
from rowmerge.iceberg.metadata.parsing import NEWEST_FORMAT, parse_metadata
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.iceberg.metadata.registry import ICEBERG_PROPERTIES, METADATA_PATH
from rowmerge.iceberg.metadata.updates import serialize_metadata
from rowmerge.storage.deletion import PathOrigin, try_delete_files
from rowmerge.storage.listing import PAGE, list_page
from rowmerge.storage.store import Put, Storage, StoredObject, get_if_exists
from rowmerge.table.commits.commit import ExistingObject, put_until_certain
from rowmerge.table.commits.request import Unknown

FOLDER = "metadata"
HINT = f"{FOLDER}/version-hint.text"
"""The file that contains the version from which readers start to look for the newest one."""
_METADATA_FILE = re.compile(r"(?:.*/)?metadata/v(\d+)(?:\.(?:gz|zstd))?\.metadata\.json(?:\.gz)?$")
_NUMBERED_FILE = re.compile(rf"{FOLDER}/v(\d+)\.")
_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".zstd.metadata.json")


@dataclass(frozen=True)
class CurrentMetadata:
    """A table's metadata as of one moment.

    `path` is the absolute path of the metadata file, `version` the number in its name, and `digest` the MD5 hash of its bytes. Some
    catalogs provide none of these. `highest_format_version` is the highest format version that the table's catalog can store.
    """

    metadata: TableMetadata
    path: str
    version: int | None = None
    highest_format_version: int = NEWEST_FORMAT
    digest: str = ""

    def check_write(self, table: str) -> None:
        """Check the properties of a table before a statement writes files, as `PropertyRegistry.check_write` does.

        A table in a folder must not have `write.metadata.path`, because its readers look for metadata files in the folder `metadata`.
        Iceberg on Spark does not commit to such a table either.

        Args:
            table: The name of the table in messages.

        Raises:
            UnsupportedTableFeature: A property is rejected.
        """
        ICEBERG_PROPERTIES.check_write(table, self.metadata.properties)
        path = self.metadata.properties.get(METADATA_PATH.name)
        if path is not None and self.version is not None:
            advice = f"A table in a folder has its metadata there. Use ALTER TABLE … UNSET TBLPROPERTIES ('{METADATA_PATH.name}')."
            raise UnsupportedTableFeature(table, f"{METADATA_PATH.name} = {path}", action="write to", advice=advice)


@dataclass(frozen=True)
class Comparison:
    """The state of a version's file, and the paths of the files of the next version."""

    is_unchanged: bool
    next_paths: list[str]


class MetadataFolder:
    """Represents the metadata files of one table. Path arguments are relative to the table's location unless stated otherwise."""

    def __init__(self, storage: Storage, table: str) -> None:
        self._storage, self._table = storage, table
        self._has_hashes = True
        """Whether the ETags of the store seem to be MD5 hashes."""

    def highest_version(self) -> int | None:
        """Return the highest version in the folder, or None if there is none. The listing skips manifests, whose names sort first."""
        return max(self._modification_times(f"{FOLDER}/v"), default=None)

    def paths_of(self, version: int) -> list[str]:
        """Return the paths of a version's metadata files: uncompressed or compressed (HadoopTableOperations of Iceberg)."""
        if self._storage.is_remote:
            files = self._files_of(version)
            return [path for path in _paths(version) if path in files]
        return [path for path in _paths(version) if self._storage.exists(path)]

    def paths_from(self, version: int) -> tuple[list[str], list[str]]:
        """Return the paths of a version's metadata files, and those of the next version. A remote store is listed once for both."""
        if not self._storage.is_remote:
            return self.paths_of(version), self.paths_of(version + 1)
        files = self._files_of(version, version + 1)
        first, second = ([path for path in _paths(each) if path in files] for each in (version, version + 1))
        return first, second

    def _files_of(self, *versions: int) -> dict[str, StoredObject]:
        """List the metadata files of versions in a remote store, by path. One request suffices, unless the folder has very many files.

        For each version, listings of the store have at most four files, directly after the path without the ending.
        """
        starts = sorted(f"{FOLDER}/v{version}" for version in versions)
        files = list_page(self._storage, FOLDER, starts[0])
        # `/` sorts after the `.` of the endings, and before the digits of other versions.
        if len(starts) > 1 and len(files) >= PAGE and files[-1].path < f"{starts[-1]}/":
            files += list_page(self._storage, FOLDER, starts[-1])
        return {file.path: file for file in files}

    def read(self, version: int, cached: CurrentMetadata | None = None) -> CurrentMetadata | None:
        """Read a version's metadata.

        Args:
            version: The number of the version.
            cached: Metadata that was read earlier, or None. It is returned if the file still has the same bytes.

        Returns:
            The metadata, or None if the version has no file.

        Raises:
            CorruptLog: The file cannot be parsed.
            StorageError: The file cannot be read.
            UnsupportedTableFeature: The table has a feature that rowmerge cannot read.
        """
        # If a version has several files, for example a compressed one, the first of them counts for every writer.
        paths = self.paths_of(version)
        data = get_if_exists(self._storage, paths[0]) if paths else None
        if data is None:
            return None
        path, digest = self.absolute(paths[0]), _digest(data)
        # Parsing the same bytes again is slow.
        if cached is not None and (cached.path, cached.digest) == (path, digest):
            return cached
        return CurrentMetadata(parse_metadata(data, path, self._table), path, version, digest=digest)

    def describe(self, version: int, metadata: TableMetadata) -> CurrentMetadata:
        """Return the metadata of a version that was put, as `read` would return it.

        Args:
            version: The number of the version.
            metadata: The metadata that was put.
        """
        digest = _digest(serialize_metadata(metadata))
        return CurrentMetadata(metadata, self.absolute(metadata_path(version)), version, digest=digest)

    def compare(self, current: CurrentMetadata) -> Comparison:
        """Return whether the file of `current` still exists with the bytes that were read, and the files of the next version.

        The ETag of S3 is the MD5 hash of the content, unless the bucket is encrypted with a key of KMS. Then one listing answers both
        questions. In other stores, the file is read.
        """
        assert current.version is not None
        path, next_version = self.relative(current.path), current.version + 1
        if not self._storage.is_remote:
            return Comparison(self._has_digest(path, current.digest), self.paths_of(next_version))
        calls: list[Callable[[], Any]] = [partial(self._files_of, current.version, next_version)]
        if not self._has_hashes:
            calls.append(partial(self._has_digest, path, current.digest))
        files, *is_unchanged = run_concurrently(calls)
        if not is_unchanged:
            is_same_etag = path in files and files[path].etag.strip('"') == current.digest
            is_unchanged = [is_same_etag or (path in files and self._has_digest(path, current.digest))]
            # If the ETag is not the hash, the next comparison reads the file at the same time.
            self._has_hashes = is_same_etag or not is_unchanged[0]
        return Comparison(is_unchanged[0], [next_path for next_path in _paths(next_version) if next_path in files])

    def _has_digest(self, path: str, digest: str) -> bool:
        return _digest(get_if_exists(self._storage, path)) == digest

    def contains(self, version: int, metadata: TableMetadata) -> bool:
        """Return whether the file of a version contains exactly the expected metadata.

        Args:
            version: The number of the version.
            metadata: The expected metadata.
        """
        return get_if_exists(self._storage, metadata_path(version)) == serialize_metadata(metadata)

    def has_later_version_with_older_file(self, version: int, newest: int) -> bool:
        """Return whether a later version has an older file. Then this version is stale, because the later version was put first.

        Args:
            version: The number of the version, whose file was put recently.
            newest: The highest of the later versions.
        """
        times = self._modification_times()
        return version in times and any(times[successor] < times[version] for successor in times if version < successor <= newest)

    def _modification_times(self, start_path: str | None = None) -> dict[int, int]:
        """List the folder, and return the modification time (ms) of each version's metadata file.

        Files whose paths sort before `start_path` are skipped.
        """
        matches = [(_METADATA_FILE.match(file.path), file.modified) for file in self._storage.list(FOLDER, after=start_path)]
        return {int(match[1]): modified for match, modified in matches if match is not None}

    def put(self, version: int, metadata: TableMetadata) -> Put | Unknown:
        """Put a version if it is absent.

        Args:
            version: The number of the version.
            metadata: The metadata of the version.

        Returns:
            CREATED, EXISTED if another writer has put the version, or Unknown if the outcome is uncertain.

        Raises:
            StorageError: The version was certainly not put.
        """
        waits = IcebergSettings(metadata.properties).status_check_waits
        result = put_until_certain(self._storage, metadata_path(version), serialize_metadata(metadata), waits)
        return Put.EXISTED if isinstance(result, ExistingObject) else result

    def try_delete_files(self, paths: Sequence[str], live: Sequence[str] = ()) -> None:
        """Delete metadata files one after the other. After a failure, the remaining files are orphans.

        Args:
            paths: The paths of the files, relative to the table's location.
            live: The absolute paths of the metadata files that the table needs.
        """
        try_delete_files(self._storage, [[self.absolute(path)] for path in paths], PathOrigin.METADATA, live_paths=live)

    def absolute(self, path: str) -> str:
        return f"{self._storage.location}/{path}"

    def relative(self, path: str) -> str:
        return path[len(self._storage.location) + 1 :]


class VersionHint:
    """Represents the version hint of one table.

    DuckDB and pyiceberg read exactly the version in the hint. So only verified versions are written to the hint, and an older version never
    replaces a newer one. The hint may still lag behind, and no commit depends on it.
    """

    def __init__(self, storage: Storage, folder: MetadataFolder) -> None:
        self._storage, self._folder = storage, folder
        self._lock = threading.Lock()

    def read(self) -> int | None:
        """Return the version in the hint, or None if the hint is missing or is not a number.

        Raises StorageError if the hint cannot be read.
        """
        text = (get_if_exists(self._storage, HINT) or b"").decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else None

    def advance(self, version: int) -> None:
        """Write a verified version, unless the hint has a higher one. For a remote store, use a background thread. Never raise an error."""
        run_in_background(partial(self._advance, version), ignored=RowmergeError, is_remote=self._storage.is_remote)

    def _advance(self, version: int) -> None:
        """Write a version to the hint, unless the hint has a higher one that exists."""
        with self._lock:
            hint = self.read()
            if hint is None or hint <= version or not self._folder.paths_of(hint):
                self._write(version)

    def _write(self, version: int) -> None:
        """Write a version to the hint. If other writers have deleted its file after later commits, write the highest version instead."""
        self._storage.put(HINT, str(version).encode())
        if self._folder.paths_of(version):
            return
        highest = self._folder.highest_version()
        if highest and highest != version:
            self._write(highest)


def metadata_path(version: int) -> str:
    """Return the path of a new version's metadata file, relative to the table's location."""
    return f"{FOLDER}/v{version}.metadata.json"


def version_in(path: str) -> int | None:
    """Return the version in the relative path of a metadata file, or of a temporary file for one. Return None for other files."""
    match = _NUMBERED_FILE.match(path)
    return int(match[1]) if match else None


def _paths(version: int) -> list[str]:
    """Return the paths that the metadata file of a version can have. The first one that exists counts."""
    return [f"{FOLDER}/v{version}{ending}" for ending in _ENDINGS]


def _digest(data: bytes | None) -> str:
    """Return the MD5 hash of a metadata file's bytes in hexadecimal digits, or an empty string for a missing file."""
    return "" if data is None else hashlib.md5(data, usedforsecurity=False).hexdigest()
