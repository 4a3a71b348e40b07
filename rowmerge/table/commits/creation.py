"""What a creation of a table expects of its folder, which is one name for a Delta table, an Iceberg table and a view.

A Delta table has its versions in `_delta_log`, an Iceberg table or a view in `metadata`. So a conditional put does not stop two creations
of different formats. Each creation therefore looks at the other format three times:

- When its statement begins, the folder has no table of the other format, or only a dropped one, whose last version stays.
- Before and after its put, that version is still the newest one of the other format. Otherwise others have created a table, and may have
  dropped it, and their DROP may have deleted the new data files by their age. Then the creation is a conflict. If it has put its first
  version, it drops its own table.

Both of two concurrent creations look after their put, so at least one of them sees the other. Both may lose. A reader may see a withdrawn
table for an instant. Rows that others append to it meanwhile are dropped with it.

A process that is killed between its put and its last look leaves two tables in the folder. Then the catalog opens the Delta table. A DROP
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
    """How a format names its versions. A listing after `before` has all of them. `path` is the pattern of a new version's path."""

    name: str
    folder: str
    before: str | None
    pattern: re.Pattern[str]
    path: str


_DELTA = _Format(
    "a Delta table", "_delta_log", None, re.compile(r"_delta_log/(0\d{19})\.(?:json$|checkpoint\.)"), "_delta_log/{:020d}.json"
)
_ICEBERG = _Format(
    "an Iceberg table or a view",
    "metadata",
    "metadata/v",
    re.compile(r"metadata/v(\d+)(?:\.gz|\.zstd)?\.metadata\.json(?:\.gz)?$"),
    "metadata/v{}.metadata.json",
)
_OTHER = {"delta": _ICEBERG, "iceberg": _DELTA}


@dataclass(frozen=True)
class CreationVersion:
    """The version with which a new table begins, and the last version of a dropped table of the other format (None: there is none)."""

    number: int
    other: int | None = None


FIRST_VERSION = CreationVersion(0)
"""The version with which a table begins in an empty folder, and in a catalog of Iceberg tables."""


def creation_version(storage: Storage, format_: str, first_version: Callable[[], int | None]) -> CreationVersion | None:
    """Return what a creation of a format expects. `first_version` returns the number, None if the table exists. Then return None, too.

    Raises AlreadyExists if the folder has a table of the other format, CorruptLog, StorageError.
    """
    number, newest = run_both(first_version, partial(_newest_of_other, storage, format_))
    if number is None:
        return None
    if newest is not None and not _is_dropped(storage, _OTHER[format_], newest):
        raise AlreadyExists(f"{storage.location} holds {_OTHER[format_].name}. Drop it first, or choose another name.")
    return CreationVersion(number, newest)


def conflict_with_other(storage: Storage, table: str, format_: str, expected: CreationVersion | None) -> CommitConflict | None:
    """Return the conflict of a creation with what others did in the other format since `expected` was read, if it was.

    Raises StorageError.
    """
    if expected is None or (newest := _newest_of_other(storage, format_)) == expected.other:
        return None
    rule = f"created or dropped {_OTHER[format_].name} of this name"
    return MetadataChanged(table, newest or 0, "another statement", storage.location, rule)


def conflict_after_put(storage: Storage, table: str, format_: str, expected: CreationVersion | None) -> CommitConflict | Unknown | None:
    """Return what `conflict_with_other` does, Unknown if storage fails."""
    try:
        return conflict_with_other(storage, table, format_, expected)
    except StorageError as failure:
        return Unknown(failure.message)


def has_other_table(storage: Storage, objects: Iterable[StoredObject], format_: str) -> bool:
    """Whether a listing of the folder has a table of the other format, or a view, that is not dropped. Raises CorruptLog, StorageError."""
    newest = _newest(objects, _OTHER[format_])
    return newest is not None and not _is_dropped(storage, _OTHER[format_], newest)


def is_iceberg_drop(metadata: Mapping[str, Any]) -> bool:
    """Return whether the JSON of Iceberg metadata is that of a drop.

    Another engine that commits to a dropped table makes it a table again, and keeps its properties. It adds a metadata log or a snapshot.
    """
    return _has_property(metadata.get("properties")) and not metadata.get("metadata-log") and not metadata.get("snapshots")


def _newest_of_other(storage: Storage, format_: str) -> int | None:
    other = _OTHER[format_]
    return _newest(storage.list(other.folder, after=other.before), other)


def _newest(objects: Iterable[StoredObject], format_: _Format) -> int | None:
    paths = (each.path for each in objects if not is_temporary(each.path))
    return max((int(match[1]) for path in paths if (match := format_.pattern.match(path))), default=None)


def _is_dropped(storage: Storage, format_: _Format, version: int) -> bool:
    path = format_.path.format(version)
    data = get_if_exists(storage, path)
    if data is None or f'"{DROPPED_TABLE}"'.encode() not in data:
        return False
    return is_iceberg_drop(parse_object(data, path)) if format_ is _ICEBERG else _is_delta_drop(data, path)


def _is_delta_drop(commit: bytes, path: str) -> bool:
    """Return whether a Delta commit is that of a drop. Another engine's commit to a dropped table keeps the property."""
    actions = [parse_object(line, path) for line in commit.splitlines() if b'"metaData"' in line or b'"commitInfo"' in line]
    is_marked = any(_has_property((action.get("metaData") or {}).get("configuration")) for action in actions)
    return is_marked and any((action.get("commitInfo") or {}).get("operation") == "DROP TABLE" for action in actions)


def _has_property(properties: object) -> bool:
    return isinstance(properties, dict) and properties.get(DROPPED_TABLE) == "true"
