"""Find the relation in a folder: a Delta table, an Iceberg table, a view, or a pointer to a table elsewhere.

Also open and drop the table in a folder. An interrupted drop leaves either the complete table or no table.

The folder of a relation is `<warehouse>/<schema>/<name>/`. It contains `_delta_log/` (a Delta table), `metadata/v<N>.metadata.json` (an
Iceberg table, or a view by the Iceberg View Spec), or a pointer to a table elsewhere. Each name has exactly one folder name, and each
folder name belongs to one name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from rowmerge.concurrency import run_concurrently
from rowmerge.delta import DeltaTable
from rowmerge.delta.commits.drop import Drop as DeltaDrop
from rowmerge.delta.log.versions import has_dropped_table
from rowmerge.delta.maintenance import dropping as delta
from rowmerge.errors import AlreadyExists, CommitStateUnknown, CorruptLog, StorageError
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.catalogs.operations import DROPPED
from rowmerge.iceberg.commits.drop import Drop as IcebergDrop
from rowmerge.iceberg.maintenance import dropping as iceberg
from rowmerge.storage.cache import Cache
from rowmerge.storage.deletion import Deletion, PathOrigin, delete_files, try_delete_files
from rowmerge.storage.store import Put, Storage, StoredObject, get_if_exists, local_path
from rowmerge.table.commits.commit import CommitSteps, put_once
from rowmerge.table.commits.creation import is_iceberg_drop
from rowmerge.table.commits.drop_markers import DROP_MARKERS, NAMES
from rowmerge.table.commits.request import Unknown
from rowmerge.table.metadata.json_objects import parse_object
from rowmerge.table.table import Table

LOG, METADATA = "_delta_log", "metadata"
"""The folder of a Delta table's log, and the folder of the metadata of an Iceberg table or a view.

rowmerge 0.1.0 puts the file DROPPED in one of these folders to drop the table. From then on, the table does not exist."""

POINTER = ".rowmerge-location.json"
"""The file that contains the location of an external table, in the folder of its name."""

METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")
"""The ends of the paths of metadata files."""

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


@dataclass(frozen=True)
class RenamedFolder:
    """The folder of a name that a relation had or got by RENAME. The files in its subfolder NAMES state which relation has the name."""


FolderContent = TableFolder | ExternalTable | ViewFolder | Leftovers


def metadata_file(version: int) -> str:
    """Return the path of a version's uncompressed metadata file, relative to the folder of the view or table."""
    return f"metadata/v{version}.metadata.json"


def version_of_file(path: str) -> int | None:
    """Return the version in the path of an uncompressed metadata file, such as `metadata/v3.metadata.json`, or None for other files."""
    match = re.fullmatch(r"(?:.*/)?metadata/v([1-9][0-9]*)\.metadata\.json", path)
    return int(match[1]) if match else None


def inspect_folder(folder: Storage, known_iceberg_files: Cache[bool] = _NO_CACHE) -> FolderContent | None:
    """Return the relation in a folder, Leftovers for an unfinished drop, or None if the folder contains no relation.

    Args:
        folder: The folder of a relation's name in the warehouse, or the folder of an external table.
        known_iceberg_files: A cache of metadata files that belong to Iceberg tables rather than views. Earlier calls have read and added
            these files. While such a file exists, the folder contains its table, so the function reads no metadata. The default cache
            stays empty.

    Raises:
        CorruptLog: The pointer or the metadata of a view is invalid.
        StorageError: A file cannot be listed or read.
    """
    return _inspect_probed(folder, _probe_folder(folder), known_iceberg_files)


def inspect_name(folder: Storage, known_iceberg_files: Cache[bool]) -> FolderContent | RenamedFolder | None:
    """Return the relation in the folder of a name as `inspect_folder` does, or RenamedFolder if a rename concerns the folder.

    Args:
        folder: The folder of the name in the warehouse.
        known_iceberg_files: A cache of metadata files that belong to Iceberg tables.

    Raises:
        CorruptLog: The pointer or the metadata of a view is invalid.
        StorageError: A file cannot be listed or read.
    """
    probe = _probe_folder(folder)
    return RenamedFolder() if NAMES in probe.subfolders else _inspect_probed(folder, probe, known_iceberg_files)


def _inspect_probed(folder: Storage, probe: _FolderProbe, known_iceberg_files: Cache[bool]) -> FolderContent | None:
    """Return the relation in a folder, which `_probe_folder` has examined."""
    has_log, has_metadata = LOG in probe.subfolders, METADATA in probe.subfolders
    if probe.has_unfinished_drop and (has_log or has_metadata):
        return Leftovers()
    # DROP first puts a file in the subfolder DROP_MARKERS, and then a last version of the table that records the drop. The file stays until
    # a new table is created. So without this subfolder, the table was not dropped, and its last version need not be read.
    may_be_dropped = DROP_MARKERS in probe.subfolders
    if has_log and _has_delta_table(folder, may_be_dropped=may_be_dropped, has_usual_file=probe.has_usual_file):
        return TableFolder("delta")
    if has_metadata:
        # The cache may have metadata files that a dropped table left behind. So after a drop, only the newest file counts.
        usable_cache = _NO_CACHE if may_be_dropped else known_iceberg_files
        content = _inspect_metadata(folder, probe.metadata_files, usable_cache)
        if content is not None:
            return content
    return read_pointer(folder)


@dataclass(frozen=True)
class _FolderProbe:
    """What concurrent requests find out about a folder in the time of one request.

    `has_unfinished_drop`: whether rowmerge 0.1.0 has begun to drop the table, by putting a file DROPPED. `has_usual_file`: whether the log
    has its first commit or `_last_checkpoint`. Almost every Delta log has one of these files, and testing for them takes less time than
    listing a long log.
    """

    subfolders: Collection[str]
    metadata_files: Sequence[StoredObject]
    has_unfinished_drop: bool
    has_usual_file: bool


def _probe_folder(folder: Storage) -> _FolderProbe:
    """List the subfolders and metadata files of a folder, and test for four files. Raises StorageError."""
    tested_paths = (f"{LOG}/{DROPPED}", f"{METADATA}/{DROPPED}", f"{LOG}/{0:020d}.json", f"{LOG}/_last_checkpoint")
    requests: list[Callable[[], Any]] = [folder.folders, partial(folder.list, METADATA)]
    requests += [partial(folder.exists, path) for path in tested_paths]
    subfolders, metadata_files, *existences = run_concurrently(requests, is_remote=folder.is_remote)
    has_log_marker, has_metadata_marker, has_first_commit, has_checkpoint_hint = existences
    return _FolderProbe(subfolders, metadata_files, has_log_marker or has_metadata_marker, has_first_commit or has_checkpoint_hint)


def _has_delta_table(folder: Storage, *, may_be_dropped: bool, has_usual_file: bool) -> bool:
    """Return whether a folder with a Delta log contains a table that has not been dropped.

    `may_be_dropped`: whether a table in the folder may have been dropped. A dropped table keeps its last version, which records the drop.
    `has_usual_file`: whether the log has its first commit or `_last_checkpoint`. A cleanup deletes the first commit, so other files also
    count.
    """
    has_log_file = has_usual_file or any(file.path.endswith((".json", ".parquet")) for file in folder.list(LOG))
    return has_log_file and not (may_be_dropped and has_dropped_table(folder))


def _inspect_metadata(folder: Storage, listed_files: Sequence[StoredObject], known_iceberg_files: Cache[bool]) -> FolderContent | None:
    """Return the view or the Iceberg table to which metadata files belong, or None if it was dropped or there are no such files.

    Metadata files of tables and of views have the same names, `v<N>.metadata.json`. Only the content of the newest file shows whether the
    folder contains a table, a view, or a dropped relation. The cache `known_iceberg_files` has files that an earlier call found to belong
    to a table. If one of them is still there, nothing is read. Files with other names are not read either: they always belong to a table.
    """
    metadata_files = {file.path: file for file in listed_files if file.path.endswith(METADATA_SUFFIXES)}
    versions = [version for version in map(version_of_file, metadata_files) if version is not None]
    if not versions:  # no files, or compressed files, or files that another catalog names with UUIDs
        return _table_of_other_files(metadata_files)
    if any(known_iceberg_files.get((folder.location, file)) for file in metadata_files.values()):
        return TableFolder("iceberg")
    newest_version = max(versions)  # an older file may belong to an earlier relation of this name
    content = _read_metadata(folder, newest_version)
    if isinstance(content, TableFolder):
        newest_file = metadata_files[metadata_file(newest_version)]
        known_iceberg_files.put((folder.location, newest_file), True, weight=1)
    return content


def _table_of_other_files(paths: Collection[str]) -> TableFolder | None:
    """Return the Iceberg table whose metadata files have names other than `v<N>.metadata.json`, or None if there are no files.

    A view has only files with this name, so other files belong to a table. Either they are compressed and have a number, or another catalog
    wrote them, with names such as `00001-<uuid>.metadata.json`.
    """
    if not paths:
        return None
    return TableFolder("iceberg", versioned=any(map(_NUMBERED_METADATA.fullmatch, paths)))


def _read_metadata(folder: Storage, version: int) -> FolderContent | None:
    """Return the view or the Iceberg table that a metadata file describes, or None if the file records a drop."""
    data = get_if_exists(folder, metadata_file(version))
    if data is None:
        return None  # the view or table was dropped between the listing and the read
    content = parse_object(data, f"{folder.location}/{metadata_file(version)}")
    if "view-uuid" in content:
        return ViewFolder(version, content)
    return None if is_iceberg_drop(content) else TableFolder("iceberg")


def check_format(folder: Storage, format_: str) -> None:
    """Check that a folder contains no table of another format.

    Args:
        folder: The folder of an external table.
        format_: The format of the table, `delta` or `iceberg`.

    Raises:
        AlreadyExists: The folder contains a table of another format.
    """
    content = inspect_folder(folder)
    if isinstance(content, TableFolder) and content.format != format_:
        advice = f"Write USING {content.format}, or choose another location."
        raise AlreadyExists(f"{folder.location} contains a table in the format {content.format}. {advice}")


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
        raise CorruptLog(path, "it has no location, or its format is neither delta nor iceberg")
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

    rowmerge 0.1.0 drops a table in two steps: it puts a marker file, and then deletes the table's files by their names. This is unsafe:

    1. A process of 0.1.0 puts the marker, lists the files, and pauses. One of the files is version 0.
    2. Another process finishes the drop, and creates a new table in the folder. The new table also begins with version 0.
    3. The first process continues, and deletes version 0 of the new table.

    So this function first replaces the marker by a version that drops the table, as this release does. A new table then continues the
    version numbers after it, and reuses no file name.

    Args:
        folder: The folder of the relation.
        table: The name of the relation, for messages.
        delete: The function that deletes the files. It determines whether a failed deletion is an error.

    Raises:
        CommitStateUnknown: It is not known whether the version that replaces a marker of rowmerge 0.1.0 was written.
        StorageError: Files cannot be listed or deleted.
    """
    prepare_delta_drop = partial(DeltaDrop, folder, table)
    prepare_iceberg_drop = partial(IcebergDrop, DirectoryOperations(folder, table), table)
    _replace_old_marker(folder, table, marker=f"{LOG}/{DROPPED}", prepare_drop=prepare_delta_drop)
    _replace_old_marker(folder, table, marker=f"{METADATA}/{DROPPED}", prepare_drop=prepare_iceberg_drop)
    delta.finish_drop(folder, delete)
    iceberg.finish_drop(folder, table, delete)


def _replace_old_marker(folder: Storage, table: str, marker: str, prepare_drop: Callable[[], CommitSteps]) -> None:
    """Replace the marker file with which rowmerge 0.1.0 dropped a table: put a version that drops the table, and delete the marker.

    At any time, another process may replace the same marker first. Then a new table may be created in the folder, and a process of 0.1.0
    may drop it with a marker of its own. Each marker has a unique content. So each round reads the marker, and compares it:

    1. After reading the table. If the marker has changed, the table may be a later one, and the round starts again.
    2. After the put. If the marker has changed, it is the marker of a later table, and is left to the next round.

    Args:
        folder: The folder of the table.
        table: The name of the table, for messages.
        marker: The path of the marker in the folder.
        prepare_drop: A function that reads the table and returns the commit that drops it.
    """
    while (marker_content := get_if_exists(folder, marker)) is not None:
        drop = prepare_drop()
        # No process creates a table in a folder with a marker. So an unchanged marker proves that `prepare_drop` has read the marked table.
        if get_if_exists(folder, marker) != marker_content:
            continue
        if not _put_drop(drop, table):
            continue  # Another process has dropped this table, but it may not have deleted the marker yet.
        if get_if_exists(folder, marker) == marker_content:
            delete_files(folder, [[f"{folder.location}/{marker}"]], PathOrigin.LISTING)


def _put_drop(drop: CommitSteps, table: str) -> bool:
    """Put the version that drops a table. Return False if another process has put this version, so that the table must be read again."""
    outcome = drop.put()
    if isinstance(outcome, Unknown):
        raise CommitStateUnknown(f"It is not known whether {table} was dropped: {outcome.reason}. Run the statement again.")
    return outcome is not Put.EXISTED


def open_table(folder: Storage, name: str, format_: str, is_mismatch_fatal: Callable[[], bool]) -> Table:
    """Return the table in a folder, whether or not it exists.

    Args:
        folder: The folder of the table.
        name: The name of the table, for messages.
        format_: `delta` or `iceberg`.
        is_mismatch_fatal: A function that returns whether a mismatch between a Delta table's version and its checksum file is an error
            rather than a warning. It is called for each mismatch, because the setting may change.
    """
    if format_ == "delta":
        return DeltaTable(folder, name, is_mismatch_fatal)
    return IcebergTable(DirectoryOperations(folder, name), name)


def check_warehouse(storage: Storage) -> None:
    """Check that the warehouse is a writable folder. To verify this, write and delete an empty file.

    Raises:
        StorageError: The location is a file, or cannot be written.
    """
    path = local_path(storage.location)
    if path is not None and path.exists() and not path.is_dir():
        raise StorageError(storage.location, "it is a file", "Set the warehouse to a folder.")
    probe_file = f".rowmerge-probe-{uuid4()}"
    try:
        storage.put(probe_file, b"")
    except StorageError as error:
        advice = "The warehouse must be a writable folder: check the path, its permissions and storage_options."
        raise StorageError(storage.location, error.reason, advice) from error
    try_delete_files(storage, [[f"{storage.location}/{probe_file}"]], PathOrigin.THIS_PROCESS)
