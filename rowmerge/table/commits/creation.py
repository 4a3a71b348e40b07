"""Detect concurrent creations of a Delta table, an Iceberg table or a view in the same folder.

A Delta table stores its versions in `_delta_log`, and an Iceberg table or a view stores them in `metadata`. So a conditional put does not
prevent two creations in different formats. For this reason, each creation reads the versions of the other format three times:

- When its statement begins, the folder must contain no table of the other format, or only the last version of a dropped one.
- Before and after its put, that version must still be the newest version of the other format. Otherwise, another writer has created a
  table. That table may also have been dropped, and its DROP may have deleted the new data files by age. So the creation ends with a
  conflict. If it has already put its first version, it drops its own table.

Both of two concurrent creations verify after their put, so at least one of them detects the other. Both creations may fail. For a moment, a
reader may find a table that is then withdrawn. Rows that other writers append to this table are dropped with it.

If a process is killed between its put and its verification, two tables remain in the folder. In this case, the catalog opens the Delta
table. If it is dropped, no file of the Iceberg table is deleted, and the catalog opens the Iceberg table afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rowmerge.concurrency import run_both
from rowmerge.errors import AlreadyExists, CommitConflict, MetadataChanged, StorageError
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Storage, StoredObject, get_if_exists
from rowmerge.table.commits.request import Unknown
from rowmerge.table.metadata.json_objects import parse_object

DROPPED_TABLE = "rowmerge.dropped"
"""The name of the property that marks the last version of a dropped table."""


@dataclass(frozen=True)
class _Format:
    """The layout of the version files of a table format.

    `description`: the kind of table in errors, such as "a Delta table". `folder`: the folder of the version files. `list_after`: listings
    begin after this path (None: at the first file). `pattern`: matches the path of a version file. `path`: the template for the path of a
    version file.
    """

    description: str
    folder: str
    list_after: str | None
    pattern: re.Pattern[str]
    path: str


_DELTA_VERSION = re.compile(r"_delta_log/(0\d{19})\.(?:json$|checkpoint\.)")
_ICEBERG_VERSION = re.compile(r"metadata/v(\d+)(?:\.gz|\.zstd)?\.metadata\.json(?:\.gz)?$")
_DELTA = _Format("a Delta table", "_delta_log", None, _DELTA_VERSION, "_delta_log/{:020d}.json")
_ICEBERG = _Format("an Iceberg table or a view", "metadata", "metadata/v", _ICEBERG_VERSION, "metadata/v{}.metadata.json")
_OTHER_FORMAT = {"delta": _ICEBERG, "iceberg": _DELTA}


@dataclass(frozen=True)
class CreationVersion:
    """The first version of a new table, and the state of the folder that the creation requires.

    `number`: the number of the first version. `other_format_version`: the newest version of the other format in the folder, which is the
    drop of a table. None if the folder contains no such version. `is_conversion`: whether that version is a table whose files become
    those of the new table. A conflict then deletes the first version, and no file.
    """

    number: int
    other_format_version: int | None = None
    is_conversion: bool = False


FIRST_VERSION = CreationVersion(0)
"""The first version of a table in an empty folder, or in a catalog of Iceberg tables."""


def creation_version(
    storage: Storage, format_: str, first_version: Callable[[], int | None], *, converts: bool = False
) -> CreationVersion | None:
    """Return the first version of a new table, after checking that the folder contains no table of the other format.

    The folder may contain versions of a dropped table of the other format. The result includes the newest of them. The commit compares it
    with the newest version at that time (`format_conflict`). If it differs, another process has created or dropped a table in the meantime.

    Args:
        storage: The storage of the table's folder.
        format_: The format of the new table, `delta` or `iceberg`.
        first_version: A function that reads the folder and returns the number of the first version, or None if a table of this format
            exists. It runs at the same time as the search for versions of the other format.
        converts: Whether the new table takes over the files of the table of the other format.

    Returns:
        The number of the first version, with the newest version of the other format. None if a table of this format exists.

    Raises:
        AlreadyExists: The folder contains a table of the other format or a view.
        CorruptLog: The newest version of the other format cannot be parsed.
        StorageError: The store failed.
    """
    other_format = _OTHER_FORMAT[format_]
    first_number, other_format_version = run_both(first_version, partial(_newest_version, storage, other_format))
    if first_number is None:
        return None
    if converts:
        return CreationVersion(first_number, other_format_version, is_conversion=True)
    if other_format_version is not None and not _is_dropped(storage, other_format, other_format_version):
        raise AlreadyExists(f"{storage.location} contains {other_format.description}. Drop it first, or choose another name.")
    return CreationVersion(first_number, other_format_version)


def format_conflict(storage: Storage, table: str, format_: str, version_at_start: CreationVersion | None) -> CommitConflict | None:
    """Return the conflict of a creation with a concurrent creation or drop of the other format, or None without a conflict.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in errors.
        format_: The format of the new table, `delta` or `iceberg`.
        version_at_start: The result of `creation_version` when the statement began. None to skip the check.

    Raises:
        StorageError: The store failed.
    """
    if version_at_start is None:
        return None
    other_format = _OTHER_FORMAT[format_]
    newest_version = _newest_version(storage, other_format)
    if newest_version == version_at_start.other_format_version:
        return None
    version = newest_version or 0  # Another process may have deleted all versions of the other format.
    action = f"created or dropped {other_format.description} of this name"
    return MetadataChanged(table, version, operation="another statement", action=action, detail=storage.location)


def recheck_other_format(
    storage: Storage, table: str, format_: str, version_at_start: CreationVersion | None
) -> CommitConflict | Unknown | None:
    """Return the conflict of a creation with a concurrent creation or drop of the other format, after the first version was put.

    Each of two concurrent creations calls `format_conflict` again after its put. At least one of them then sees the version of the other
    and detects the conflict.

    If the store fails, the result is Unknown instead of an error. An error would say that nothing was committed, but the first version has
    already been put.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in errors.
        format_: The format of the new table, `delta` or `iceberg`.
        version_at_start: The result of `creation_version` when the statement began. None to skip the check.
    """
    try:
        return format_conflict(storage, table, format_, version_at_start)
    except StorageError as error:
        return Unknown(error.message)


def has_relation_of_other_format(storage: Storage, objects: Iterable[StoredObject], format_: str) -> bool:
    """Return whether a folder contains a table of the other format or a view that has not been dropped.

    Args:
        storage: The storage of the folder.
        objects: A listing of the folder, with paths relative to it.
        format_: The format of the table in question, `delta` or `iceberg`.

    Raises:
        CorruptLog: The newest version of the other format cannot be parsed.
        StorageError: The store failed.
    """
    other_format = _OTHER_FORMAT[format_]
    newest_version = _newest_listed(objects, other_format)
    return newest_version is not None and not _is_dropped(storage, other_format, newest_version)


def is_iceberg_drop(metadata: Mapping[str, Any]) -> bool:
    """Return whether Iceberg metadata marks a dropped table.

    If another engine commits to a dropped table, it preserves the properties, but adds a metadata log or a snapshot to the metadata.
    """
    return _has_property(metadata.get("properties")) and not metadata.get("metadata-log") and not metadata.get("snapshots")


def _newest_version(storage: Storage, format_: _Format) -> int | None:
    """List the versions of a format in a folder. Return the newest version, or None without versions. Raises StorageError."""
    return _newest_listed(storage.list(format_.folder, after=format_.list_after), format_)


def _newest_listed(objects: Iterable[StoredObject], format_: _Format) -> int | None:
    paths = (listed.path for listed in objects if not is_temporary(listed.path))
    return max((int(match[1]) for path in paths if (match := format_.pattern.match(path))), default=None)


def _is_dropped(storage: Storage, format_: _Format, version: int) -> bool:
    """Return whether a version in this format marks a dropped table. Raises CorruptLog, StorageError."""
    path = format_.path.format(version)
    data = get_if_exists(storage, path)
    if data is None or f'"{DROPPED_TABLE}"'.encode() not in data:
        return False
    return is_iceberg_drop(parse_object(data, path)) if format_ is _ICEBERG else _is_delta_drop(data, path)


def _is_delta_drop(commit: bytes, path: str) -> bool:
    """Return whether a Delta commit is a DROP. The property alone is not sufficient, because later commits of other engines keep it."""
    actions = [parse_object(line, path) for line in commit.splitlines() if b'"metaData"' in line or b'"commitInfo"' in line]
    is_marked = any(_has_property((action.get("metaData") or {}).get("configuration")) for action in actions)
    return is_marked and any((action.get("commitInfo") or {}).get("operation") == "DROP TABLE" for action in actions)


def _has_property(properties: object) -> bool:
    return isinstance(properties, dict) and properties.get(DROPPED_TABLE) == "true"
