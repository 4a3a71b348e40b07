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
_OTHER = {"delta": _ICEBERG, "iceberg": _DELTA}


@dataclass(frozen=True)
class CreationVersion:
    """The first version of a new table, and the state of its folder: `other`, the last version of a dropped table of the other format."""

    number: int
    other: int | None = None


FIRST_VERSION = CreationVersion(0)
"""The version with which a table begins in an empty folder, and in a catalog of Iceberg tables."""


def creation_version(storage: Storage, format_: str, first_version: Callable[[], int | None]) -> CreationVersion | None:
    """Return the version that a creation puts, and the state of the folder that it requires. Return None if the table exists.

    Args:
        storage: The storage of the table's folder.
        format_: The format of the new table, `delta` or `iceberg`.
        first_version: Returns the number of the version to put, None if a table of this format exists.

    Raises:
        AlreadyExists: The folder has a table of the other format or a view.
        CorruptLog: The newest version of the other format cannot be parsed.
        StorageError: The store failed.
    """
    number, newest = run_both(first_version, partial(_newest_of_other, storage, format_))
    if number is None:
        return None
    if newest is not None and not _is_dropped(storage, _OTHER[format_], newest):
        raise AlreadyExists(f"{storage.location} holds {_OTHER[format_].name}. Drop it first, or choose another name.")
    return CreationVersion(number, newest)


def conflict_with_other(storage: Storage, table: str, format_: str, expected: CreationVersion | None) -> CommitConflict | None:
    """Return the conflict of a creation with tables of the other format that others have created or dropped meanwhile, None without one.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in errors.
        format_: The format of the new table, `delta` or `iceberg`.
        expected: The result of `creation_version` when the statement began. None if the other format does not matter.

    Raises:
        StorageError: The store failed.
    """
    if expected is None or (newest := _newest_of_other(storage, format_)) == expected.other:
        return None
    rule = f"created or dropped {_OTHER[format_].name} of this name"
    return MetadataChanged(table, newest or 0, "another statement", storage.location, rule)


def conflict_after_put(storage: Storage, table: str, format_: str, expected: CreationVersion | None) -> CommitConflict | Unknown | None:
    """Return the result of `conflict_with_other` after the put of a creation, Unknown if the store fails.

    Args:
        storage: The storage of the table's folder.
        table: The name of the table in errors.
        format_: The format of the new table, `delta` or `iceberg`.
        expected: The result of `creation_version` when the statement began. None if the other format does not matter.
    """
    try:
        return conflict_with_other(storage, table, format_, expected)
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
    newest = _newest(objects, _OTHER[format_])
    return newest is not None and not _is_dropped(storage, _OTHER[format_], newest)


def is_iceberg_drop(metadata: Mapping[str, Any]) -> bool:
    """Return whether the JSON of Iceberg metadata is that of a drop.

    Another engine that commits to a dropped table continues it, and keeps its properties. It adds a metadata log or a snapshot.
    """
    return _has_property(metadata.get("properties")) and not metadata.get("metadata-log") and not metadata.get("snapshots")


def _newest_of_other(storage: Storage, format_: str) -> int | None:
    other = _OTHER[format_]
    return _newest(storage.list(other.folder, after=other.list_after), other)


def _newest(objects: Iterable[StoredObject], format_: _Format) -> int | None:
    paths = (stored.path for stored in objects if not is_temporary(stored.path))
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
