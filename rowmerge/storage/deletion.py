"""Deletion of a table's files. Every deletion in the engine goes through `delete_files`, which decides what may be deleted.

A path counts as inside a folder only if each of its readings does. The readings are the path as it is spelled and, because other writers
may percent-encode paths, the path after decoding. Each reading is resolved first: `..`, symbolic links, and the names of one scheme.
"""

from __future__ import annotations

import logging
import os
import posixpath
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol
from urllib.parse import unquote

from rowmerge.errors import LiveFileProtected, RowmergeError
from rowmerge.storage.store import absolute_location

logger = logging.getLogger(__name__)

_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
"""Hadoop has three names for S3, and two for Azure."""


class Origin(Enum):
    """Where the paths of a deletion come from. Paths that this process wrote or listed are not percent-encoded."""

    NAMED = "the table's metadata names them"
    WRITTEN = "this process wrote them"
    LISTED = "a listing returned them"


_reported_places: set[str] = set()
_lock = threading.Lock()


class FileDeleter(Protocol):
    """Deletes files below one location. `Storage` implements it."""

    @property
    def location(self) -> str: ...

    def at(self, location: str) -> FileDeleter:
        """Return the same for another location."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files by their paths relative to the location. Raises StorageError."""


def delete_files(
    folder: FileDeleter,
    groups: Iterable[Iterable[str]],
    origin: Origin,
    *,
    locations: Sequence[str] = (),
    live: Iterable[str] = (),
) -> None:
    """Delete files of a table by their absolute paths, each group after the one before it.

    `folder`: the table's folder. `locations`: the other places where the table's current properties put files. Others may put files there
    too, so no listed path is deleted there. `live`: the absolute paths of the files that the table needs.

    Paths outside these places are skipped: they belong to others, even if the table's metadata names them.
    Raises LiveFileProtected before the first deletion, StorageError.
    """
    pending = [paths for group in groups if (paths := list(group))]
    if not pending:
        return
    places = _Places(folder, () if origin is Origin.LISTED else locations)
    targets = [list(places.targets(group, origin)) for group in pending]
    places.check_not_live([target for group in targets for target in group], live)
    for group in targets:
        by_holder: dict[str, tuple[FileDeleter, list[str]]] = {}
        for target in group:
            by_holder.setdefault(target.holder.location, (target.holder, []))[1].append(target.relative)
        for holder, relative in by_holder.values():
            holder.delete(list(dict.fromkeys(relative)))


def clean_up(
    folder: FileDeleter,
    groups: Iterable[Iterable[str]],
    origin: Origin,
    *,
    locations: Sequence[str] = (),
    live: Iterable[str] = (),
) -> None:
    """Delete files that no version needs, as `delete_files` does, for a statement whose purpose is not the deletion.

    A failure does not fail the statement: the files stay until VACUUM, or of the log the next cleanup, deletes them. It is logged once per
    place.
    """
    try:
        delete_files(folder, groups, origin, locations=locations, live=live)
    except RowmergeError as error:
        with _lock:
            is_reported = folder.location in _reported_places
            _reported_places.add(folder.location)
        if not is_reported:
            logger.warning("Files that no version needs stay at %s, because they cannot be deleted: %s", folder.location, error.message)


class Deletion(Protocol):
    """`delete_files`, or `clean_up` for a statement whose purpose is not the deletion."""

    def __call__(self, folder: FileDeleter, groups: Iterable[Iterable[str]], origin: Origin, /) -> None: ...


def deletable_files(folder: FileDeleter, paths: Iterable[str], locations: Sequence[str] = ()) -> list[str]:
    """Return those of the paths in the table's metadata that `delete_files` would delete, in their order."""
    return [target.path for target in _Places(folder, locations).targets(paths, Origin.NAMED)]


@dataclass(frozen=True)
class _Target:
    """A file to delete. `path` is its path as the caller spells it, `keys` the resolved readings of that path."""

    path: str
    holder: FileDeleter
    relative: str
    keys: tuple[str, ...]


class _Places:
    """The places where one table's files may be deleted. Resolves each folder once."""

    def __init__(self, folder: FileDeleter, locations: Sequence[str]) -> None:
        self._real_folders: dict[str, str] = {}
        holders = (folder, *(folder.at(location) for location in locations))
        self._roots = [(posixpath.join(self._key(f"{holder.location}/."), ""), holder) for holder in holders]

    def targets(self, paths: Iterable[str], origin: Origin) -> Iterator[_Target]:
        """Yield the files that may be deleted."""
        for path in paths:
            keys = tuple(self._key(reading) for reading in (self._readings(path) if origin is Origin.NAMED else [path]))
            roots = [next((root for root in self._roots if key.startswith(root[0])), None) for key in keys]
            # No object has a name with `..` or with an empty segment. A resolved name would be another object.
            if roots[0] is None or None in roots or not self._is_addressable(path, keys[0]):
                continue
            prefix, holder = roots[0]
            yield _Target(path, holder, keys[0][len(prefix) :], keys)

    def check_not_live(self, targets: Sequence[_Target], live: Iterable[str]) -> None:
        """Raise LiveFileProtected if one of the targets is a live file."""
        if not targets:
            return
        paths = {key: target.path for target in targets for key in target.keys}
        names = {key.rpartition("/")[2] for key in paths}
        for path in live:
            for plain in self._readings(path):
                # Resolving is slow for a million live files. So a live file is resolved only if its name or a link can make it equal.
                is_link = plain.startswith("file://") and os.path.islink(plain[len("file://") :])
                if not is_link and plain.rpartition("/")[2] not in names:
                    continue
                keys = [self._key(plain), *([self._key(f"{plain}/.")] if is_link else [])]
                if (key := next((key for key in keys if key in paths), None)) is not None:
                    raise LiveFileProtected(self._roots[0][1].location, paths[key])

    def _readings(self, path: str) -> list[str]:
        """Return a path as it is spelled, and what percent-decoding makes of it, again and again until nothing is left to decode.

        The location of a root means what it says, so it is not decoded.
        """
        plain = absolute_location(path)
        if "%" not in plain:
            return [plain]
        location = next((holder.location for _, holder in self._roots if plain.startswith(f"{holder.location}/")), "")
        relative = [plain[len(location) :]]
        while (decoded := unquote(relative[-1])) != relative[-1]:
            relative.append(decoded)
        return [f"{location}{each}" for each in relative]

    @staticmethod
    def _is_addressable(path: str, key: str) -> bool:
        scheme, _, rest = absolute_location(path).partition("://")
        return key.startswith("file://") or key == f"{_scheme(scheme)}://{rest}"

    def _key(self, path: str) -> str:
        """Return one text for all spellings of a path, the empty text for a path that no file can have."""
        scheme, _, rest = absolute_location(path).partition("://")
        authority, _, below = rest.partition("/")
        below = "/" + below.lstrip("/")
        scheme = _scheme(scheme)
        if "\0" in path or not _is_encodable(path):
            return ""
        if scheme != "file":
            return f"{scheme}://{authority}{posixpath.normpath(below)}"
        if authority not in ("", "localhost"):
            return ""
        parent, name = posixpath.split(below)
        # The last name is not followed: deleting a link deletes the link.
        if name in ("", ".", ".."):
            return f"file://{os.path.realpath(below)}"
        if parent not in self._real_folders:
            self._real_folders[parent] = os.path.realpath(parent)
        return f"file://{posixpath.join(self._real_folders[parent], name)}"


def _is_encodable(path: str) -> bool:
    """Whether a path can be passed to the operating system: it has no lone surrogate, apart from those that stand for single bytes."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _scheme(scheme: str) -> str:
    return _SCHEMES.get(scheme.lower(), scheme.lower())
