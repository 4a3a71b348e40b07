"""Find out what a folder holds: a Delta or an Iceberg table, a view, a pointer to a table elsewhere, leftovers, or nothing. Open its table.

The folder of a relation is `<warehouse>/<schema>/<name>/`. It holds `_delta_log/` (a Delta table), `metadata/v<N>.metadata.json` (an
Iceberg table, or a view after the Iceberg view spec), or a pointer to a table elsewhere. Each name has one folder name, and each folder
name has one name. The next version of a view is put if it is absent, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from rowmerge.catalog import errors
from rowmerge.catalog.names import plain_location
from rowmerge.catalog.removal import LOG, METADATA, is_dropped
from rowmerge.catalog.views import file_of, version_of
from rowmerge.concurrency import run_concurrently
from rowmerge.delta import DeltaTable
from rowmerge.delta.log.versions import has_dropped_table
from rowmerge.errors import CorruptLog, FilesNotFound
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.commit import put_once
from rowmerge.table.commits.creation import is_iceberg_drop
from rowmerge.table.commits.drop_markers import MARKERS
from rowmerge.table.metadata.json_objects import parse_object
from rowmerge.table.table import Table

POINTER = ".rowmerge-location.json"
"""File in the folder of an external table, with the location of the table."""

_NUMBERED = re.compile(r"metadata/v\d+(\.gz|\.zstd)?\.metadata\.json(\.gz)?")


@dataclass(frozen=True)
class TableFolder:
    """The folder of a table. `format` is `delta` or `iceberg`.

    `versioned`: the metadata files of an Iceberg table are numbered. Other Iceberg tables belong to another catalog.
    """

    format: str
    versioned: bool = True


@dataclass(frozen=True)
class ExternalTable:
    """The folder of a table at another `location`. `format` is `delta` or `iceberg`."""

    location: str
    format: str


@dataclass(frozen=True)
class ViewFolder:
    """The folder of a view, with its newest version, and the metadata of this version."""

    version: int
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Leftovers:
    """The folder of a table whose deletion rowmerge 0.1.0 began and did not finish."""


FolderContent = TableFolder | ExternalTable | ViewFolder | Leftovers


def inspect_folder(folder: Storage, table_metadata: Cache[bool] | None = None) -> FolderContent | None:
    """Return what a folder holds, None for nothing. Raises CorruptLog for an invalid pointer or metadata of a view, StorageError.

    `table_metadata` remembers metadata files of tables. While such a file exists, the folder holds the same table, not a view.
    """
    list_metadata = partial(folder.list, METADATA)
    calls: list[Callable[[], Any]] = [folder.folders, partial(is_dropped, folder), partial(_has_log, folder), list_metadata]
    subfolders, is_drop_unfinished, has_log, metadata_files = run_concurrently(calls)
    if is_drop_unfinished and (LOG in subfolders or METADATA in subfolders):
        return Leftovers()
    has_drops = MARKERS in subfolders
    if LOG in subfolders and (has_log or _has_old_log(folder)) and not (has_drops and has_dropped_table(folder)):
        return TableFolder("delta")
    content = None
    if METADATA in subfolders:
        content = _inspect_metadata(folder, metadata_files, None if has_drops else table_metadata)
    return content or read_pointer(folder)


def _has_log(folder: Storage) -> bool:
    return any(run_concurrently([partial(folder.exists, f"{LOG}/{name}") for name in (f"{0:020d}.json", "_last_checkpoint")]))


def _has_old_log(folder: Storage) -> bool:
    # The first entries of a long log are cleaned up. Then the log is listed, which takes longer than two look-ups.
    return any(file.path.endswith((".json", ".parquet")) for file in folder.list(LOG))


def _inspect_metadata(folder: Storage, listed_files: Sequence[StoredObject], table_metadata: Cache[bool] | None) -> FolderContent | None:
    """Return the view or the Iceberg table whose metadata files are listed, None if it was dropped."""
    metadata_files = {file.path: file for file in listed_files if file.path.endswith((".metadata.json", ".metadata.json.gz"))}
    versions = [version for version in map(version_of, metadata_files) if version is not None]
    if not versions:
        return TableFolder("iceberg", any(map(_NUMBERED.fullmatch, metadata_files))) if metadata_files else None
    newest = max(versions)
    if table_metadata is None:
        return _read_metadata(folder, newest)
    if any(table_metadata.get((folder.location, file)) for file in metadata_files.values()):
        return TableFolder("iceberg")
    content = _read_metadata(folder, newest)
    if isinstance(content, TableFolder):
        table_metadata.put((folder.location, metadata_files[file_of(newest)]), True, 1)
    return content


def _read_metadata(folder: Storage, version: int) -> FolderContent | None:
    """Return the view or the Iceberg table of a metadata file, None for a dropped one."""
    data = folder.get_if_exists(file_of(version))
    if data is None:
        return None  # the view or table was dropped between the listing and the read
    content = parse_object(data, f"{folder.location}/{file_of(version)}")
    if "view-uuid" in content:
        return ViewFolder(version, content)
    return None if is_iceberg_drop(content) else TableFolder("iceberg")


def read_pointer(folder: Storage) -> ExternalTable | None:
    """Return the external table of a folder, None without a pointer file. Raises CorruptLog."""
    data = folder.get_if_exists(POINTER)
    if data is None:
        return None
    path = f"{folder.location}/{POINTER}"
    content = parse_object(data, path)
    location, format_ = content.get("location"), content.get("format", "delta")
    if not isinstance(location, str) or not location or format_ not in ("delta", "iceberg"):
        raise CorruptLog(path, "it names no location, or a format that is not known")
    return ExternalTable(location, format_)


def put_pointer(folder: Storage, table: ExternalTable, label: str) -> bool:
    """Put the pointer to a table, unless the folder has one. Return whether it points to the table. `label` names it in messages."""
    content = {"location": table.location, "format": table.format, "writer": str(uuid4())}
    return put_once(folder, POINTER, json.dumps(content, ensure_ascii=False).encode(), label) or read_pointer(folder) == table


class TablesByPath:
    """Returns the same table for the same path each time, so that its snapshots are reused."""

    def __init__(self, open_storage: Callable[[str], Storage] = Storage) -> None:
        """`open_storage` returns the storage of a location."""
        self._open_storage = open_storage
        self._tables: dict[tuple[str, str], Table] = {}
        self.is_mismatch_fatal: Callable[[], bool] = lambda: True
        """See `DeltaTable`."""

    def open(self, path: str, format_: str, label: str) -> Table:
        """Return the table of a format in the folder at a path. `label` names it in messages.

        Raises FilesNotFound, UnsupportedTableFeature for Iceberg metadata of another catalog, ConfigurationError, StorageError.
        """
        folder = self._open_storage(plain_location(path))
        key = (format_, folder.location)
        if key not in self._tables:
            content = inspect_folder(folder)
            if format_ == "iceberg" and content == TableFolder("iceberg", versioned=False):
                raise errors.foreign_metadata(label, "read")
            if not (isinstance(content, TableFolder) and content.format == format_):
                raise FilesNotFound(label, f"{format_} table", "Check the path and the format: it must be the table's own folder.")
            self._tables[key] = open_table(folder, label, format_, lambda: self.is_mismatch_fatal())
        return self._tables[key]


def open_table(folder: Storage, name: str, format_: str, is_mismatch_fatal: Callable[[], bool]) -> Table:
    """Return the table of a format (`delta`, `iceberg`) in a folder, whether or not it exists."""
    if format_ == "delta":
        return DeltaTable(folder, name, is_mismatch_fatal)
    return IcebergTable(DirectoryOperations(folder, name), name)
