"""Detect concurrent creations of a Delta table, an Iceberg table or a view in the same folder.

A Delta table has its versions in `_delta_log`, an Iceberg table or a view in `metadata`. So a conditional put does not stop two creations
of different formats. Each creation therefore reads the versions of the other format three times:

- When its statement begins, the folder must have no table of the other format, or only the last version of a dropped one.
- Before and after its put, that version must still be the newest one of the other format. Otherwise others have created a table. They may
  also have dropped it, and their DROP may have deleted the new data files by their age. So the creation ends with a conflict. If it has put
  its first version, it drops its own table.

Both of two concurrent creations verify after their put, so at least one of them detects the other. Both may lose. A reader may find a
withdrawn table for an instant. Rows that others append to it are dropped with it.

If a process is killed between its put and its verification, two tables stay in the folder. Then the catalog opens the Delta table. A DROP
of it deletes no file of the Iceberg table, which the catalog opens afterwards.
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
"""The property of the version that ends a dropped table, until a new table continues its version numbers."""


@dataclass(frozen=True)
class _Format:
    """The paths of a format's versions. A listing of `folder` after `list_after` has all of them. `path`: the template of a new one."""

    name: str
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
    """The number of a new table's first version, and the state of the folder that the creation requires.

    `other_format_version`: the newest version of the other format in the folder, which is the drop of a table. None if there is none.
    """

    number: int
    other_format_version: int | None = None


FIRST_VERSION = CreationVersion(0)
"""The version with which a table begins in an empty folder, and in a catalog of Iceberg tables."""


def creation_version(storage: Storage, format_: str, first_version: Callable[[], int | None]) -> CreationVersion | None:
    """Return the first version of a new table, after checking that the folder has no table of the other format.

    Args:
        storage: The storage of the table's folder.
        format_: The format of the new table, `delta` or `iceberg`.
        first_version: Returns the number of the first version, None if a table of this format exists.

    Returns:
        The number, with the newest version of the other format. None if a table of this format exists.

    Raises:
        AlreadyExists: The folder has a table of the other format or a view.
        CorruptLog: The newest version of the other format cannot be parsed.
        StorageError: The store failed.
    """
    other_format = _OTHER_FORMAT[format_]
    number, other_format_version = run_both(first_version, partial(_newest_version, storage, other_format))
    if number is None:
        return None
    if other_format_version is not None and not _is_dropped(storage, other_format, other_format_version):
        raise AlreadyExists(f"{storage.location} holds {other_format.name}. Drop it first, or choose another name.")
    return CreationVersion(number, other_format_version)


def format_conflict(storage: Storage, table: str, format_: str, expected: CreationVersion | None) -> CommitConflict | None:
    """Return the conflict of a creation with a concurrent creation or drop of the other format in the folder, None without one.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in errors.
        format_: The format of the new table, `delta` or `iceberg`.
        expected: The result of `creation_version` when the statement began. None if the other format does not matter.

    Raises:
        StorageError: The store failed.
    """
    if expected is None:
        return None
    newest = _newest_version(storage, _OTHER_FORMAT[format_])
    if newest == expected.other_format_version:
        return None
    action = f"created or dropped {_OTHER_FORMAT[format_].name} of this name"
    return MetadataChanged(table, newest or 0, operation="another statement", detail=storage.location, action=action)


def recheck_other_format(storage: Storage, table: str, format_: str, expected: CreationVersion | None) -> CommitConflict | Unknown | None:
    """Return the conflict of a creation with a concurrent creation or drop of the other format, after the first version was put.

    Each of two concurrent creations calls `format_conflict` once more after its put, when the version of the other one is visible. So at
    least one of them detects the other. If the store fails, the first version may already be committed. An error would mean that it is
    not, so the result is Unknown.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in errors.
        format_: The format of the new table, `delta` or `iceberg`.
        expected: The result of `creation_version` when the statement began. None if the other format does not matter.
    """
    try:
        return format_conflict(storage, table, format_, expected)
    except StorageError as failure:
        return Unknown(failure.message)


def has_other_table(storage: Storage, objects: Iterable[StoredObject], format_: str) -> bool:
    """Return whether a folder has a table of the other format, or a view, that is not dropped.

    Args:
        storage: The storage of the folder.
        objects: A listing of the folder, with paths relative to it.
        format_: The format of the table in question, `delta` or `iceberg`.

    Raises:
        CorruptLog: The newest version of the other format cannot be parsed.
        StorageError: The store failed.
    """
    newest = _newest_listed(objects, _OTHER_FORMAT[format_])
    return newest is not None and not _is_dropped(storage, _OTHER_FORMAT[format_], newest)


def is_iceberg_drop(metadata: Mapping[str, Any]) -> bool:
    """Return whether the JSON of Iceberg metadata is that of a drop.

    Another engine that commits to a dropped table continues it, and keeps its properties. It adds a metadata log or a snapshot.
    """
    return _has_property(metadata.get("properties")) and not metadata.get("metadata-log") and not metadata.get("snapshots")


def _newest_version(storage: Storage, format_: _Format) -> int | None:
    """List the versions of a format in a folder, and return the newest one, None if it has none. Raises StorageError."""
    return _newest_listed(storage.list(format_.folder, after=format_.list_after), format_)


def _newest_listed(objects: Iterable[StoredObject], format_: _Format) -> int | None:
    paths = (listed.path for listed in objects if not is_temporary(listed.path))
    return max((int(match[1]) for path in paths if (match := format_.pattern.match(path))), default=None)


def _is_dropped(storage: Storage, format_: _Format, version: int) -> bool:
    """Return whether a version of a format is that of a dropped table. Raises CorruptLog, StorageError."""
    path = format_.path.format(version)
    data = get_if_exists(storage, path)
    if data is None or f'"{DROPPED_TABLE}"'.encode() not in data:
        return False
    return is_iceberg_drop(parse_object(data, path)) if format_ is _ICEBERG else _is_delta_drop(data, path)


def _is_delta_drop(commit: bytes, path: str) -> bool:
    """Return whether a Delta commit is that of a drop. Another engine that continues a dropped table keeps only the property."""
    actions = [parse_object(line, path) for line in commit.splitlines() if b'"metaData"' in line or b'"commitInfo"' in line]
    is_marked = any(_has_property((action.get("metaData") or {}).get("configuration")) for action in actions)
    return is_marked and any((action.get("commitInfo") or {}).get("operation") == "DROP TABLE" for action in actions)


def _has_property(properties: object) -> bool:
    return isinstance(properties, dict) and properties.get(DROPPED_TABLE) == "true"
