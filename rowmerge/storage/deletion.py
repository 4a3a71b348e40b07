"""Deletion of a table's files. The driver deletes them with `delete_files` alone, which decides what may be deleted.

A path counts as inside a folder only if each of its readings does. The readings are the path as it is spelled and, because other writers
may percent-encode paths, the path after decoding. Each reading is resolved first: `..`, symbolic links, and the names of one scheme.
"""

from __future__ import annotations

import logging
import os
import posixpath
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Protocol
from urllib.parse import unquote

from rowmerge.errors import LiveFileProtected, RowmergeError
from rowmerge.storage.store import absolute_location

logger = logging.getLogger(__name__)

_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
"""Hadoop has three schemes for S3, and two for Azure."""


class Origin(Enum):
    """Where the paths of a deletion come from. Paths that this process wrote or listed are not percent-encoded."""

    NAMED = "the table's metadata names them"
    WRITTEN = "this process wrote them"
    LISTED = "a listing returned them"


_reported_locations: set[str] = set()
_lock = threading.Lock()


class FileDeleter(Protocol):
    """Deletes files below one location. `Storage` implements it."""

    @property
    def location(self) -> str: ...

    def at(self, location: str) -> FileDeleter:
        """Return the deleter of another location."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files by their paths relative to the location. Raises StorageError."""


@dataclass(frozen=True)
class _Target:
    """Describe a file to delete.

    `path` is the path as the caller spells it, `resolved_paths` its resolved readings, `relative` the path below the deleter's location.
    """

    path: str
    deleter: FileDeleter
    relative: str
    resolved_paths: tuple[str, ...]


PathGroups = Iterable[Iterable[str]]
"""Absolute paths of files, in groups that are deleted one after the other."""


def delete_files(
    folder: FileDeleter, groups: PathGroups, origin: Origin, *, locations: Sequence[str] = (), live: Iterable[str] = ()
) -> None:
    """Delete files of a table by their absolute paths, group by group.

    `folder`: the table's folder. `locations`: the other folders where the table's current properties put files. Other tables may have files
    there too, so no listed path is deleted there. `live`: the absolute paths of the files that the table needs.

    Paths outside these folders are skipped: they belong to other owners, even if the table's metadata names them.
    Raises LiveFileProtected before the first deletion, StorageError.
    """
    path_groups = [paths for paths in map(list, groups) if paths]
    if not path_groups:
        return
    roots = _TableRoots(folder, () if origin is Origin.LISTED else locations)
    target_groups = [list(roots.targets(paths, origin)) for paths in path_groups]
    roots.check_not_live([target for targets in target_groups for target in targets], live)
    for targets in target_groups:
        _delete_targets(targets)


def _delete_targets(targets: Sequence[_Target]) -> None:
    """Delete files, with one call for each root. A file with two paths is deleted once."""
    deleters = {target.deleter.location: target.deleter for target in targets}
    for location, deleter in deleters.items():
        deleter.delete(list(dict.fromkeys(target.relative for target in targets if target.deleter.location == location)))


def clean_up(folder: FileDeleter, groups: PathGroups, origin: Origin, *, locations: Sequence[str] = (), live: Iterable[str] = ()) -> None:
    """Delete files that no version needs, as `delete_files` does, for a statement whose purpose is not the deletion.

    A failure is logged once per location and does not fail the statement. VACUUM deletes the files later, or the next log cleanup.
    """
    try:
        delete_files(folder, groups, origin, locations=locations, live=live)
    except RowmergeError as error:
        with _lock:
            is_reported = folder.location in _reported_locations
            _reported_locations.add(folder.location)
        if not is_reported:
            logger.warning("Files that no version needs stay at %s, because they cannot be deleted: %s", folder.location, error.message)


Deletion = Callable[[FileDeleter, PathGroups, Origin], None]
"""`delete_files`, or `clean_up` for a statement whose purpose is not the deletion."""


def deletable_files(folder: FileDeleter, paths: Iterable[str], locations: Sequence[str] = ()) -> list[str]:
    """Return those of the paths in the table's metadata that `delete_files` would delete, in their order."""
    return [target.path for target in _TableRoots(folder, locations).targets(paths, Origin.NAMED)]


class _TableRoots:
    """Hold the folders below which the files of one table may be deleted. Each folder is resolved once."""

    def __init__(self, folder: FileDeleter, locations: Sequence[str]) -> None:
        self._real_folders: dict[str, str] = {}
        deleters = (folder, *(folder.at(location) for location in locations))
        self._roots = [(posixpath.join(self._resolve(f"{deleter.location}/."), ""), deleter) for deleter in deleters]

    def targets(self, paths: Iterable[str], origin: Origin) -> Iterator[_Target]:
        """Yield those of the files that may be deleted."""
        for path in paths:
            readings = self._readings(path) if origin is Origin.NAMED else [path]
            resolved_paths = tuple(map(self._resolve, readings))
            roots = [self._root_of(resolved_path) for resolved_path in resolved_paths]
            # No object has a name with `..` or with an empty segment. A resolved name would be another object.
            if roots[0] is None or None in roots or not _is_addressable(path, resolved_paths[0]):
                continue
            prefix, deleter = roots[0]
            yield _Target(path, deleter, resolved_paths[0][len(prefix) :], resolved_paths)

    def _root_of(self, resolved_path: str) -> tuple[str, FileDeleter] | None:
        """Return the root that contains a path, as its resolved prefix and its deleter."""
        return next((root for root in self._roots if resolved_path.startswith(root[0])), None)

    def check_not_live(self, targets: Sequence[_Target], live: Iterable[str]) -> None:
        """Raise LiveFileProtected if one of the targets is a live file."""
        if not targets:
            return
        target_paths = {resolved_path: target.path for target in targets for resolved_path in target.resolved_paths}
        target_names = {path.rpartition("/")[2] for path in target_paths}
        for reading in chain.from_iterable(map(self._readings, live)):
            for resolved_path in self._resolve_live(reading, target_names):
                if resolved_path in target_paths:
                    raise LiveFileProtected(self._roots[0][1].location, target_paths[resolved_path])

    def _resolve_live(self, path: str, target_names: Container[str]) -> Iterator[str]:
        """Yield the resolved paths by which a live file may be a target: its own path, and the path that a link leads to."""
        is_link = path.startswith("file://") and os.path.islink(path[len("file://") :])
        # Resolving is slow for a million live files. Only a target's name or a link can make a live file a target.
        if is_link or path.rpartition("/")[2] in target_names:
            yield self._resolve(path)
        if is_link:
            yield self._resolve(f"{path}/.")

    def _readings(self, path: str) -> list[str]:
        """Return the path as it is spelled, and its percent-decodings. The location of a root is not percent-encoded, so it stays."""
        location = absolute_location(path)
        if "%" not in location:
            return [location]
        root = next((deleter.location for _, deleter in self._roots if location.startswith(f"{deleter.location}/")), "")
        return [f"{root}{relative_path}" for relative_path in percent_decodings(location[len(root) :])]

    def _resolve(self, path: str) -> str:
        """Return the same text for all spellings of a path; empty for a path that no file can have."""
        if "\0" in path or not _is_encodable(path):
            return ""
        scheme, _, rest = absolute_location(path).partition("://")
        authority, _, below = rest.partition("/")
        below = "/" + below.lstrip("/")
        scheme = _canonical_scheme(scheme)
        if scheme != "file":
            return f"{scheme}://{authority}{posixpath.normpath(below)}"
        return f"file://{self._real_path(below)}" if authority in ("", "localhost") else ""

    def _real_path(self, path: str) -> str:
        """Return a local path with the links of its folders resolved. Its last name stays: deleting a link deletes the link."""
        parent, name = posixpath.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        if parent not in self._real_folders:
            self._real_folders[parent] = os.path.realpath(parent)
        return posixpath.join(self._real_folders[parent], name)


def percent_decodings(text: str) -> list[str]:
    """Return a text, and the results of percent-decoding it repeatedly until nothing is left to decode."""
    decodings = [text]
    while (decoded := unquote(decodings[-1])) != decodings[-1]:
        decodings.append(decoded)
    return decodings


def _is_addressable(path: str, resolved_path: str) -> bool:
    """Return whether a path and its resolved path name the same object."""
    scheme, _, rest = absolute_location(path).partition("://")
    return resolved_path.startswith("file://") or resolved_path == f"{_canonical_scheme(scheme)}://{rest}"


def _is_encodable(path: str) -> bool:
    """Return whether the operating system accepts a path. A lone surrogate is invalid, unless it stands for a single byte."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _canonical_scheme(scheme: str) -> str:
    return _SCHEMES.get(scheme.lower(), scheme.lower())
