"""Find out what a folder holds: a Delta or an Iceberg table, a view, a pointer to a table elsewhere, leftovers, or nothing.

Open the table of a folder, and drop it so that a kill in the middle leaves the table, or no table, and never half of one.

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
from rowmerge.catalog.views import file_of, version_of
from rowmerge.concurrency import run_concurrently
from rowmerge.delta import DeltaTable
from rowmerge.delta.commits.drop import Drop as DeltaDrop
from rowmerge.delta.log.versions import has_dropped_table
from rowmerge.delta.maintenance import dropping as delta
from rowmerge.errors import CommitStateUnknown, CorruptLog, FilesNotFound
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.catalogs.operations import DROPPED
from rowmerge.iceberg.commits.drop import Drop as IcebergDrop
from rowmerge.iceberg.maintenance import dropping as iceberg
from rowmerge.storage.cache import Cache
from rowmerge.storage.deletion import Deletion, PathOrigin, delete_files
from rowmerge.storage.store import Put, Storage, StoredObject, get_if_exists
from rowmerge.table.commits.commit import CommitSteps, put_once
from rowmerge.table.commits.creation import is_iceberg_drop
from rowmerge.table.commits.drop_markers import MARKERS
from rowmerge.table.commits.request import Unknown
from rowmerge.table.metadata.json_objects import parse_object
from rowmerge.table.table import Table

LOG, METADATA = "_delta_log", "metadata"
"""The folders in which a Delta table has its log, and an Iceberg table or a view its metadata.

rowmerge 0.1.0 puts DROPPED in one of them to drop the table. From then on the table does not exist."""

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
    paths = (f"{LOG}/{DROPPED}", f"{METADATA}/{DROPPED}", f"{LOG}/{0:020d}.json", f"{LOG}/_last_checkpoint")
    requests: list[Callable[[], Any]] = [folder.folders, partial(folder.list, METADATA), *(partial(folder.exists, path) for path in paths)]
    # All at once: on an object store, each of them is a request.
    subfolders, metadata_files, has_marker_in_log, has_marker_in_metadata, has_first_commit, has_checkpoint = run_concurrently(requests)
    if (has_marker_in_log or has_marker_in_metadata) and (LOG in subfolders or METADATA in subfolders):
        return Leftovers()
    has_drops = MARKERS in subfolders
    has_log = LOG in subfolders and (has_first_commit or has_checkpoint)
    if LOG in subfolders and not has_log:
        # The first entries of a long log are cleaned up. Then the log is listed, which takes longer than two look-ups.
        has_log = any(file.path.endswith((".json", ".parquet")) for file in folder.list(LOG))
    if has_log and not (has_drops and has_dropped_table(folder)):
        return TableFolder("delta")
    content = None
    if METADATA in subfolders:
        content = _inspect_metadata(folder, metadata_files, None if has_drops else table_metadata)
    return content or read_pointer(folder)


def _inspect_metadata(folder: Storage, listed_files: Sequence[StoredObject], table_metadata: Cache[bool] | None) -> FolderContent | None:
    """Return the view or the Iceberg table whose metadata files are listed, None if it was dropped."""
    metadata_files = {file.path: file for file in listed_files if file.path.endswith((".metadata.json", ".metadata.json.gz"))}
    if not metadata_files:
        return None
    versions = [version for version in map(version_of, metadata_files) if version is not None]
    if not versions:
        return TableFolder("iceberg", versioned=any(map(_NUMBERED.fullmatch, metadata_files)))
    if table_metadata is not None and any(table_metadata.get((folder.location, file)) for file in metadata_files.values()):
        return TableFolder("iceberg")
    newest = max(versions)
    content = _read_metadata(folder, newest)
    if table_metadata is not None and isinstance(content, TableFolder):
        table_metadata.put((folder.location, metadata_files[file_of(newest)]), True, 1)
    return content


def _read_metadata(folder: Storage, version: int) -> FolderContent | None:
    """Return the view or the Iceberg table of a metadata file, None for a dropped one."""
    data = get_if_exists(folder, file_of(version))
    if data is None:
        return None  # the view or table was dropped between the listing and the read
    content = parse_object(data, f"{folder.location}/{file_of(version)}")
    if "view-uuid" in content:
        return ViewFolder(version, content)
    return None if is_iceberg_drop(content) else TableFolder("iceberg")


def read_pointer(folder: Storage) -> ExternalTable | None:
    """Return the external table of a folder, None without a pointer file. Raises CorruptLog."""
    data = get_if_exists(folder, POINTER)
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


def drop_table(folder: Storage, table: str, format_: str) -> None:
    """Drop the table of a format (`delta`, `iceberg`) in a folder. Raises StorageError, CommitStateUnknown."""
    (delta if format_ == "delta" else iceberg).drop_table(folder, table)


def finish_drops(folder: Storage, table: str, delete: Deletion = delete_files) -> None:
    """Delete what dropped tables and views left in a folder, because a process was killed or could not delete it. Raises StorageError.

    A deletion that rowmerge 0.1.0 began becomes a drop of this release. The process of 0.1.0 may still delete the files that it listed, by
    their names. A table that is created after the version of the drop continues the version numbers, so it has none of these names.
    """
    _replace_old_marker(folder, table, f"{LOG}/{DROPPED}", partial(DeltaDrop, folder, table))
    _replace_old_marker(folder, table, f"{METADATA}/{DROPPED}", partial(IcebergDrop, DirectoryOperations(folder, table), table))
    delta.finish_drop(folder, delete)
    iceberg.finish_drop(folder, table, delete)


def _replace_old_marker(folder: Storage, table: str, marker: str, read_drop: Callable[[], CommitSteps]) -> None:
    """Replace the file by which rowmerge 0.1.0 marks a table as dropped: put the version that drops the table, and delete the marker.

    `read_drop` reads the table, and returns the commit that drops it. This is repeated until there is no marker, as others may put one.
    """
    read_marker = partial(get_if_exists, folder, marker)
    while (content := read_marker()) is not None:
        drop = read_drop()
        # Others create a table only after the marker is gone. So if it is still there, the table that was read is the dropped one.
        if read_marker() == content and _put_drop(drop, table) and read_marker() == content:
            delete_files(folder, [[f"{folder.location}/{marker}"]], PathOrigin.LISTING)


def _put_drop(drop: CommitSteps, table: str) -> bool:
    """Put the version that drops a table. Return False if others have put that version before, so that the table must be read again."""
    put = drop.put()
    if isinstance(put, Unknown):
        raise CommitStateUnknown(f"It is not known whether {table} was dropped: {put.reason}. Run the statement again.")
    return put is not Put.EXISTED


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
        if key in self._tables:
            return self._tables[key]
        content = inspect_folder(folder)
        if format_ == "iceberg" and content == TableFolder("iceberg", versioned=False):
            raise errors.foreign_metadata(label, "read")
        if not isinstance(content, TableFolder) or content.format != format_:
            raise FilesNotFound(label, f"{format_} table", "Check the path and the format: it must be the table's own folder.")
        self._tables[key] = open_table(folder, label, format_, lambda: self.is_mismatch_fatal())
        return self._tables[key]


def open_table(folder: Storage, name: str, format_: str, is_mismatch_fatal: Callable[[], bool]) -> Table:
    """Return the table of a format (`delta`, `iceberg`) in a folder, whether or not it exists."""
    if format_ == "delta":
        return DeltaTable(folder, name, is_mismatch_fatal)
    return IcebergTable(DirectoryOperations(folder, name), name)
