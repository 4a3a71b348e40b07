"""Deletion of a table's files. The driver deletes them only with `delete_files`, which decides what may be deleted.

A path counts as inside a folder only if each of its decodings is inside. The decodings are the path as it is spelled and, because other
writers may percent-encode paths, the path after percent-decoding. Each decoding is resolved first: `..`, symbolic links, and the different
names of one scheme.
"""

from __future__ import annotations

import logging
import os
import posixpath
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Protocol
from urllib.parse import unquote

from rowmerge.errors import LiveFileProtected, RowmergeError
from rowmerge.storage.store import absolute_location

logger = logging.getLogger(__name__)

_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
"""The common name of each scheme. Hadoop has three schemes for S3, and two for Azure."""


class PathOrigin(Enum):
    """The source of the paths of a deletion. Only paths from metadata may be percent-encoded."""

    METADATA = "the table's metadata names them"
    THIS_PROCESS = "this process wrote them"
    LISTING = "a listing returned them"


_reported_locations: set[str] = set()
_lock = threading.Lock()


class FileDeleter(Protocol):
    """The interface for deleting files below one location. `Storage` implements it."""

    @property
    def location(self) -> str: ...

    def at(self, location: str) -> FileDeleter:
        """Return the deleter of another location."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files by their paths relative to the location. Raises StorageError if a file cannot be deleted."""


@dataclass(frozen=True)
class _Target:
    """A file to delete.

    `path` is the path as the caller spells it, `resolved_paths` its resolved decodings, `relative` the path below the deleter's location.
    """

    path: str
    deleter: FileDeleter
    relative: str
    resolved_paths: tuple[str, ...]


PathGroups = Iterable[Iterable[str]]
"""Absolute paths of files, in groups that are deleted one after the other."""


def delete_files(
    deleter: FileDeleter, path_groups: PathGroups, origin: PathOrigin, *, locations: Sequence[str] = (), live_paths: Iterable[str] = ()
) -> None:
    """Delete files of a table by their absolute paths, group by group.

    Paths outside the table's folder and `locations` are skipped. Such files belong to other owners, even if the table's metadata contains
    their paths.

    Args:
        deleter: The deleter of the table's folder.
        path_groups: The absolute paths of the files. Each group is deleted after the preceding group.
        origin: The source of the paths. Paths from a listing are deleted only in the table's folder.
        locations: The other folders in which the table's current properties put files. Other tables may have files there, too.
        live_paths: The absolute paths of the files that the table needs.

    Raises:
        LiveFileProtected: A file to delete is a live file. No file has been deleted.
        StorageError: A file cannot be deleted. Files before it have been deleted.
    """
    nonempty_groups = [paths for paths in map(list, path_groups) if paths]
    if not nonempty_groups:
        return
    # A listing of a folder that tables share also contains the files of the other tables.
    roots = _TableRoots(deleter, () if origin is PathOrigin.LISTING else locations)
    target_groups = [list(roots.deletable(paths, origin)) for paths in nonempty_groups]
    roots.check_not_live(list(chain.from_iterable(target_groups)), live_paths)
    for targets in target_groups:
        _delete_targets(targets)


def _delete_targets(targets: Sequence[_Target]) -> None:
    """Delete files, with one call for each root. A file with two paths is deleted once."""
    deleters = {target.deleter.location: target.deleter for target in targets}
    for location, deleter in deleters.items():
        deleter.delete(list(dict.fromkeys(target.relative for target in targets if target.deleter.location == location)))


def try_delete_files(
    deleter: FileDeleter, path_groups: PathGroups, origin: PathOrigin, *, locations: Sequence[str] = (), live_paths: Iterable[str] = ()
) -> None:
    """Delete files that no version of a table needs, as `delete_files` does, but log a failure instead of raising it.

    A failure is logged once for each location. VACUUM or the next log cleanup deletes the remaining files.

    Args:
        deleter: The deleter of the table's folder.
        path_groups: The absolute paths of the files, in groups that are deleted one after the other.
        origin: The source of the paths.
        locations: The other folders in which the table's current properties put files.
        live_paths: The absolute paths of the files that the table needs.
    """
    try:
        delete_files(deleter, path_groups, origin, locations=locations, live_paths=live_paths)
    except RowmergeError as error:
        with _lock:
            is_reported = deleter.location in _reported_locations
            _reported_locations.add(deleter.location)
        if not is_reported:
            logger.warning("Files at %s that no version needs remain, because they cannot be deleted: %s", deleter.location, error.message)


class Deletion(Protocol):
    """The interface of `delete_files`, and of `try_delete_files` for a statement whose purpose is not the deletion."""

    def __call__(self, deleter: FileDeleter, path_groups: PathGroups, origin: PathOrigin, *, locations: Sequence[str] = ()) -> None: ...


def deletable_files(deleter: FileDeleter, paths: Iterable[str], locations: Sequence[str] = ()) -> list[str]:
    """Return the paths that `delete_files` would delete, in their order.

    Args:
        deleter: The deleter of the table's folder.
        paths: Absolute paths as the table's metadata contains them.
        locations: The other folders in which the table's current properties put files.
    """
    return [target.path for target in _TableRoots(deleter, locations).deletable(paths, PathOrigin.METADATA)]


class _TableRoots:
    """The folders below which the files of one table may be deleted. Each folder is resolved once."""

    def __init__(self, table_deleter: FileDeleter, locations: Sequence[str]) -> None:
        self._real_folders: dict[str, str] = {}
        deleters = (table_deleter, *(table_deleter.at(location) for location in locations))
        self._roots = [(posixpath.join(self._resolve(f"{deleter.location}/."), ""), deleter) for deleter in deleters]

    def deletable(self, paths: Iterable[str], origin: PathOrigin) -> Iterator[_Target]:
        """Yield the files that may be deleted: those whose decodings all lie below a root."""
        for path in paths:
            decodings = self._decodings(path) if origin is PathOrigin.METADATA else [path]
            resolved_paths = tuple(map(self._resolve, decodings))
            roots = [self._root_of(resolved_path) for resolved_path in resolved_paths]
            # No object has a name with `..` or with an empty segment. A resolved name would be another object.
            if roots[0] is None or None in roots or not _is_addressable(path, resolved_paths[0]):
                continue
            prefix, deleter = roots[0]
            yield _Target(path, deleter, resolved_paths[0][len(prefix) :], resolved_paths)

    def _root_of(self, resolved_path: str) -> tuple[str, FileDeleter] | None:
        """Return the root that contains a path, as its resolved prefix and its deleter."""
        return next((root for root in self._roots if resolved_path.startswith(root[0])), None)

    def check_not_live(self, targets: Sequence[_Target], live_paths: Iterable[str]) -> None:
        """Raise LiveFileProtected if one of the targets is a live file."""
        if not targets:
            return
        target_paths = {resolved_path: target.path for target in targets for resolved_path in target.resolved_paths}
        target_names = {path.rpartition("/")[2] for path in target_paths}
        for decoding in chain.from_iterable(map(self._decodings, live_paths)):
            for resolved_path in self._resolve_live(decoding, target_names):
                if resolved_path in target_paths:
                    raise LiveFileProtected(self._roots[0][1].location, target_paths[resolved_path])

    def _resolve_live(self, path: str, target_names: Container[str]) -> Iterator[str]:
        """Yield the resolved paths by which a live file may be a target: its own path, and the path to which a link leads."""
        is_link = path.startswith("file://") and os.path.islink(path[len("file://") :])
        # Resolving is slow for a million live files. Only a target's name or a link can make a live file a target.
        if is_link or path.rpartition("/")[2] in target_names:
            yield self._resolve(path)
        if is_link:
            yield self._resolve(f"{path}/.")

    def _decodings(self, path: str) -> list[str]:
        """Return a path as it is spelled, and its percent-decodings. The location of a root is not percent-encoded, and is not decoded."""
        location = absolute_location(path)
        if "%" not in location:
            return [location]
        root = next((deleter.location for _, deleter in self._roots if location.startswith(f"{deleter.location}/")), "")
        return [f"{root}{relative_path}" for relative_path in percent_decodings(location[len(root) :])]

    def _resolve(self, path: str) -> str:
        """Return the same string for all spellings of a path, or an empty string for a path that no file can have."""
        if "\0" in path or not _is_encodable(path):
            return ""
        scheme, _, authority_and_path = absolute_location(path).partition("://")
        authority, _, relative_path = authority_and_path.partition("/")
        absolute_path = "/" + relative_path.lstrip("/")
        scheme = _canonical_scheme(scheme)
        if scheme != "file":
            return f"{scheme}://{authority}{posixpath.normpath(absolute_path)}"
        return f"file://{self._real_path(absolute_path)}" if authority in ("", "localhost") else ""

    def _real_path(self, path: str) -> str:
        """Return a local path with the links of its folders resolved. A link in the last name stays, because a deletion deletes it."""
        parent, name = posixpath.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        if parent not in self._real_folders:
            self._real_folders[parent] = os.path.realpath(parent)
        return posixpath.join(self._real_folders[parent], name)


def percent_decodings(text: str) -> list[str]:
    """Return a string, and the results of percent-decoding it repeatedly until nothing is left to decode."""
    decodings = [text]
    while (decoded := unquote(decodings[-1])) != decodings[-1]:
        decodings.append(decoded)
    return decodings


def _is_addressable(path: str, resolved_path: str) -> bool:
    """Return whether a path and its resolved path are paths of the same object. In an object store, they differ only in the scheme."""
    scheme, _, authority_and_path = absolute_location(path).partition("://")
    return resolved_path.startswith("file://") or resolved_path == f"{_canonical_scheme(scheme)}://{authority_and_path}"


def _is_encodable(path: str) -> bool:
    """Return whether the operating system accepts a path. A lone surrogate is invalid, unless it stands for a single byte."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _canonical_scheme(scheme: str) -> str:
    return _SCHEMES.get(scheme.lower(), scheme.lower())
