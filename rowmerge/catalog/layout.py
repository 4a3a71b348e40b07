"""Find the relation in a folder: a Delta table, an Iceberg table, a view, or a pointer to a table elsewhere.

Also open and drop the table in a folder. An interrupted drop leaves either the complete table or no table.

The folder of a relation is `<warehouse>/<schema>/<name>/`. It contains `_delta_log/` (a Delta table), `metadata/v<N>.metadata.json` (an
Iceberg table, or a view by the Iceberg View Spec), or a pointer to a table elsewhere. Each name has exactly one folder name, and each
folder name belongs to one name.
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
from rowmerge.catalog.names import normalize_location
from rowmerge.catalog.views import file_of, version_of
from rowmerge.concurrency import run_concurrently
from rowmerge.delta import DeltaTable
from rowmerge.delta.commits.drop import Drop as DeltaDrop
from rowmerge.delta.log.versions import has_dropped_table
from rowmerge.delta.maintenance import dropping as delta
from rowmerge.errors import CommitStateUnknown, CorruptLog, FilesNotFound, StorageError
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.catalogs.operations import DROPPED
from rowmerge.iceberg.commits.drop import Drop as IcebergDrop, put_drop
from rowmerge.iceberg.maintenance import dropping as iceberg
from rowmerge.storage.cache import Cache
from rowmerge.storage.deletion import Deletion, PathOrigin, delete_files, try_delete_files
from rowmerge.storage.store import Put, Storage, StoredObject, get_if_exists
from rowmerge.table.commits.commit import CommitSteps, put_once
from rowmerge.table.commits.creation import is_iceberg_drop
from rowmerge.table.commits.drop_markers import MARKERS, after_drop
from rowmerge.table.commits.request import Unknown
from rowmerge.table.metadata.json_objects import parse_object
from rowmerge.table.table import Table

LOG, METADATA = "_delta_log", "metadata"
"""The folder of a Delta table's log, and the folder of the metadata of an Iceberg table or a view.

rowmerge 0.1.0 puts the file DROPPED in one of these folders to drop the table. From then on, the table does not exist."""

POINTER = ".rowmerge-location.json"
"""The file that contains the location of an external table, in the folder of its name."""

_NUMBERED_METADATA = re.compile(r"metadata/v\d+(\.gz|\.zstd)?\.metadata\.json(\.gz)?")
_NO_CACHE: Cache[bool] = Cache(0)


@dataclass(frozen=True)
class TableFolder:
    """The folder of a table. `format` is `delta` or `iceberg`.

    `versioned`: whether the metadata files of an Iceberg table are numbered. If they are not, the table belongs to another catalog.
    """

    format: str
    versioned: bool = True


FOREIGN_TABLE = TableFolder("iceberg", versioned=False)
"""An Iceberg table of another catalog. Only the other catalog has the path of the newest metadata file."""


@dataclass(frozen=True)
class ExternalTable:
    """A folder that points to a table at another `location`. `format` is `delta` or `iceberg`."""

    location: str
    format: str


@dataclass(frozen=True)
class ViewFolder:
    """The folder of a view, with the number of its newest version and the metadata of this version (Iceberg View Spec)."""

    version: int
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Leftovers:
    """The folder of a table that rowmerge 0.1.0 has not finished dropping."""


FolderContent = TableFolder | ExternalTable | ViewFolder | Leftovers


def inspect_folder(folder: Storage, iceberg_files: Cache[bool] = _NO_CACHE) -> FolderContent | None:
    """Return the relation in a folder, Leftovers for an unfinished drop, or None if the folder contains no relation.

    Args:
        folder: The folder of a relation's name in the warehouse, or the folder of an external table.
        iceberg_files: A cache of metadata files that belong to Iceberg tables rather than views. Earlier calls have read and added these
            files. While such a file exists, the folder contains its table, so the function reads no metadata. The default cache stays
            empty.

    Raises:
        CorruptLog: The pointer or the metadata of a view is invalid.
        StorageError: A file cannot be listed or read.
    """
    # rowmerge 0.1.0 puts one of these files to drop a table, and deletes the table's files afterwards.
    old_markers = (f"{LOG}/{DROPPED}", f"{METADATA}/{DROPPED}")
    # Almost every Delta log has one of these files. Testing for them takes less time than listing a long log.
    usual_log_files = (f"{LOG}/{0:020d}.json", f"{LOG}/_last_checkpoint")
    tested_paths = (*old_markers, *usual_log_files)
    # The requests run concurrently, because each of them waits for the object store.
    requests: list[Callable[[], Any]] = [folder.folders, partial(folder.list, METADATA)]
    subfolders, metadata_files, *existences = run_concurrently(requests + [partial(folder.exists, path) for path in tested_paths])
    existing_paths = {path for path, exists in zip(tested_paths, existences, strict=True) if exists}
    if not existing_paths.isdisjoint(old_markers) and (LOG in subfolders or METADATA in subfolders):
        return Leftovers()
    # This release drops a table with a version that records the drop. A file in MARKERS announces that the folder may have such a version.
    has_drops = MARKERS in subfolders
    if LOG in subfolders and _has_delta_table(folder, has_drops=has_drops, has_usual_file=not existing_paths.isdisjoint(usual_log_files)):
        return TableFolder("delta")
    if METADATA in subfolders:
        # Metadata files of a dropped table may remain, and the cache may have them. So after a drop, only the newest file counts.
        content = _inspect_metadata(folder, metadata_files, _NO_CACHE if has_drops else iceberg_files)
        if content is not None:
            return content
    return read_pointer(folder)


def _has_delta_table(folder: Storage, *, has_drops: bool, has_usual_file: bool) -> bool:
    """Return whether a folder with a Delta log contains a table that has not been dropped.

    `has_usual_file`: whether the log has its first commit or `_last_checkpoint`. A cleanup deletes the first commit, so other files also
    count. `has_drops`: whether a table in the folder may have been dropped. A dropped table keeps its last version, which records the drop.
    """
    has_log_file = has_usual_file or any(file.path.endswith((".json", ".parquet")) for file in folder.list(LOG))
    return has_log_file and not (has_drops and has_dropped_table(folder))


def _inspect_metadata(folder: Storage, listed_files: Sequence[StoredObject], iceberg_files: Cache[bool]) -> FolderContent | None:
    """Return the view or the Iceberg table to which metadata files belong, or None if it was dropped or there are no such files.

    Metadata files of tables and of views have the same names, `v<N>.metadata.json`. Only the content of the newest file shows whether the
    folder contains a table, a view, or a dropped relation. `iceberg_files` avoids reading files that are known to belong to tables (see
    `inspect_folder`).
    """
    metadata_files = {file.path: file for file in listed_files if file.path.endswith((".metadata.json", ".metadata.json.gz"))}
    if not metadata_files:
        return None
    versions = [version for version in map(version_of, metadata_files) if version is not None]
    if not versions:
        # A view has only files with the name `v<N>.metadata.json`. So files with other names belong to a table: compressed files with
        # numbers, or the files of another catalog, whose names have no number.
        return TableFolder("iceberg", versioned=any(map(_NUMBERED_METADATA.fullmatch, metadata_files)))
    if any(iceberg_files.get((folder.location, file)) for file in metadata_files.values()):
        return TableFolder("iceberg")
    newest_version = max(versions)  # an older file may belong to an earlier relation of this name
    content = _read_metadata(folder, newest_version)
    if isinstance(content, TableFolder):
        iceberg_files.put((folder.location, metadata_files[file_of(newest_version)]), True, weight=1)
    return content


def _read_metadata(folder: Storage, version: int) -> FolderContent | None:
    """Return the view or the Iceberg table that a metadata file describes, or None if the file records a drop."""
    data = get_if_exists(folder, file_of(version))
    if data is None:
        return None  # the view or table was dropped between the listing and the read
    content = parse_object(data, f"{folder.location}/{file_of(version)}")
    if "view-uuid" in content:
        return ViewFolder(version, content)
    return None if is_iceberg_drop(content) else TableFolder("iceberg")


def read_pointer(folder: Storage) -> ExternalTable | None:
    """Return the external table to which a folder points, or None if the folder has no pointer file.

    Raises:
        CorruptLog: The pointer file is not a JSON object with a location and a known format.
    """
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
    """Put a pointer to an external table in a folder, unless the folder already has a pointer.

    Args:
        folder: The folder of the table's name in the warehouse.
        table: The external table.
        label: The name of the pointer in messages.

    Returns:
        Whether the folder now points to this table.
    """
    # The UUID makes the bytes unique: `put_once` treats an object with the same bytes as its own.
    content = {"location": table.location, "format": table.format, "writer": str(uuid4())}
    was_created = put_once(folder, POINTER, json.dumps(content, ensure_ascii=False).encode(), label)
    return was_created or read_pointer(folder) == table


def drop_table(folder: Storage, table: str, format_: str) -> None:
    """Drop the table in a folder, and delete its files.

    Args:
        folder: The folder of the table.
        table: The name of the table, for messages.
        format_: `delta` or `iceberg`.

    Raises:
        CommitStateUnknown: It is not known whether the version that drops the table was written.
        StorageError: The table was certainly not dropped, or it was dropped but its files cannot be deleted.
    """
    (delta if format_ == "delta" else iceberg).drop_table(folder, table)


def finish_drops(folder: Storage, table: str, delete: Deletion = delete_files) -> None:
    """Delete files of dropped tables and views that an interrupted drop left in a folder.

    rowmerge 0.1.0 drops a table in two steps: it puts a marker file, and then deletes the table's files. A process of 0.1.0 may still be
    deleting files by their names. So this function first replaces the marker by a version that drops the table, as this release does. A new
    table in the folder then starts with the next version number. Thus it never reuses a file name of the old table.

    Args:
        folder: The folder of the relation.
        table: The name of the relation, for messages.
        delete: The function that deletes the files. It determines whether a failed deletion is an error.

    Raises:
        CommitStateUnknown: It is not known whether the version that replaces a marker of rowmerge 0.1.0 was written.
        StorageError: Files cannot be listed or deleted.
    """
    _replace_old_marker(folder, table, f"{LOG}/{DROPPED}", partial(DeltaDrop, folder, table))
    _replace_old_marker(folder, table, f"{METADATA}/{DROPPED}", partial(IcebergDrop, DirectoryOperations(folder, table), table))
    delta.finish_drop(folder, delete)
    iceberg.finish_drop(folder, table, delete)


def _replace_old_marker(folder: Storage, table: str, marker: str, prepare_drop: Callable[[], CommitSteps]) -> None:
    """Replace the marker file with which rowmerge 0.1.0 dropped a table: put a version that drops the table, and delete the marker.

    `marker`: the path of the marker in `folder`. `prepare_drop`: a function that reads the table, and returns the commit that drops it.
    Another process may replace the same marker at the same time, create a table, and drop this table with a new marker. So the function
    compares the marker before each step, and repeats the steps until there is no marker.
    """
    read_marker = partial(get_if_exists, folder, marker)
    while (content := read_marker()) is not None:
        drop = prepare_drop()
        # No process creates a table in a folder with a marker. So an unchanged marker proves that `prepare_drop` has read the marked table.
        is_marked_table = read_marker() == content
        # A changed marker belongs to a later table. It stays for the next round.
        if is_marked_table and _put_drop(drop, table) and read_marker() == content:
            delete_files(folder, [[f"{folder.location}/{marker}"]], PathOrigin.LISTING)


def _put_drop(drop: CommitSteps, table: str) -> bool:
    """Put the version that drops a table. Return False if another process has put this version, so that the table must be read again."""
    put = drop.put()
    if isinstance(put, Unknown):
        raise CommitStateUnknown(f"It is not known whether {table} was dropped: {put.reason}. Run the statement again.")
    return put is not Put.EXISTED


def drop_view(folder: Storage, name: str, view: ViewFolder) -> None:
    """Drop a view: put a new version that is marked as dropped, and delete the older versions.

    If another process puts the next version first, the drop is retried as long as the folder contains the view with the same UUID. If the
    folder no longer contains this view, only the files of earlier drops are deleted. A later relation in the folder continues the version
    numbers, so no concurrent statement on the old view can write to the later relation.

    Args:
        folder: The folder of the view.
        name: The name of the view, for messages.
        view: The content of the folder, with the newest version of the view.

    Raises:
        CommitStateUnknown: It is not known whether the version that drops the view was written.
        StorageError: The view was certainly not dropped, or it was dropped but its files cannot be deleted.
    """
    view_uuid = view.metadata.get("view-uuid")
    content: FolderContent | None = view
    while isinstance(content, ViewFolder) and content.metadata.get("view-uuid") == view_uuid:
        put = put_drop(folder, content.version + 1)
        if isinstance(put, Unknown):
            advice = "Look whether it exists, and drop it again."
            raise CommitStateUnknown(f"It is not known whether {name} was dropped: {put.reason}. {advice}")
        if put is Put.CREATED:
            break
        content = inspect_folder(folder)
    with after_drop(name):
        finish_drops(folder, name)


def withdraw_hidden_view(folder: Storage, version: int, view: str) -> bool:
    """Delete the version of a view that was just put if another relation hides the view, and return whether it was deleted.

    Another process may create or drop a table between the inspection of the folder and the put. Then the table or its drop
    hides the view.

    Args:
        folder: The folder of the view.
        version: The number of the version that was put.
        view: The name of the view, for messages.

    Raises:
        CommitStateUnknown: The folder cannot be inspected.
    """
    try:
        is_hidden = not isinstance(inspect_folder(folder), ViewFolder)
    except StorageError as failure:
        raise CommitStateUnknown(f"It is not known whether {view} was created: {failure.message} Look whether it exists.") from failure
    if is_hidden:
        try_delete_files(folder, [[f"{folder.location}/{file_of(version)}"]], PathOrigin.THIS_PROCESS)
    return is_hidden


class TablesByPath:
    """The tables that statements name by path. Each table is opened only once, so that statements reuse its snapshots."""

    def __init__(self, open_storage: Callable[[str], Storage] = Storage) -> None:
        """Create the collection without tables. `open_storage`: a function that returns the storage of a location."""
        self._open_storage = open_storage
        self._tables: dict[tuple[str, str], Table] = {}
        self.is_mismatch_fatal: Callable[[], bool] = lambda: True
        """Whether a version of a Delta table that does not match its checksum file is an error, not a warning. May change at any time."""

    def open(self, path: str, format_: str, label: str) -> Table:
        """Return the table with this format in a folder. Repeated calls return the same object.

        Args:
            path: The location of the table's folder.
            format_: `delta` or `iceberg`.
            label: The name of the table in messages.

        Raises:
            ConfigurationError: The path is empty or has credentials.
            FilesNotFound: The folder does not contain a table of this format.
            UnsupportedTableFeature: The metadata of the Iceberg table belongs to another catalog.
        """
        folder = self._open_storage(normalize_location(path))
        key = (format_, folder.location)
        if key in self._tables:
            return self._tables[key]
        content = inspect_folder(folder)
        if format_ == "iceberg" and content == FOREIGN_TABLE:
            raise errors.foreign_metadata(label, "read")
        if not isinstance(content, TableFolder) or content.format != format_:
            raise FilesNotFound(label, f"{format_} table", "Check the path and the format: it must be the table's own folder.")
        # The lambda reads the attribute at each check of a checksum, because a session may replace it.
        self._tables[key] = open_table(folder, label, format_, lambda: self.is_mismatch_fatal())
        return self._tables[key]


def open_table(folder: Storage, name: str, format_: str, is_mismatch_fatal: Callable[[], bool]) -> Table:
    """Return the table in a folder, whether or not it exists.

    Args:
        folder: The folder of the table.
        name: The name of the table, for messages.
        format_: `delta` or `iceberg`.
        is_mismatch_fatal: A function that returns whether a mismatch between a Delta table's version and its checksum file is an error
            rather than a warning.
    """
    if format_ == "delta":
        return DeltaTable(folder, name, is_mismatch_fatal)
    return IcebergTable(DirectoryOperations(folder, name), name)
