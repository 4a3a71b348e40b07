"""Where a table's current metadata is kept, and how it is replaced: Java's TableOperations, one for each kind of catalog."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import zstandard
from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableUpdate

from rowmerge.errors import CorruptLog, StorageError, TableNotFound, UnsupportedTableFeature
from rowmerge.iceberg.metadata_log import known_log, left_the_log
from rowmerge.iceberg.metadata_updates import serialized, updated
from rowmerge.iceberg.unread_features import encryption, unread_feature
from rowmerge.storage.at_once import at_once
from rowmerge.storage.deletion import Origin, clean_up
from rowmerge.storage.store import Put, Storage, absolute_location, local_path
from rowmerge.table.snapshot import Unknown

FOLDER = "metadata"
HINT = f"{FOLDER}/version-hint.text"
DROPPED = "_dropped.json"
"""A table in whose metadata folder this lies is being deleted: no commit goes into it any more."""
_NAME = re.compile(r"(?:.*/)?metadata/v(\d+)(?:\.(?:gz|zstd))?\.metadata\.json(?:\.gz)?$")
_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".zstd.metadata.json")
_WAITS = (0.1, 0.2, 0.4, 0.8)
"""Seconds between looks at a store that failed."""


_ELSEWHERE = "Read it in an engine that knows it."
NEWEST_FORMAT = 3
"""The highest format version that is read and written."""


@dataclass(frozen=True)
class Current:
    """A table's metadata as of one moment. `path`: the absolute path of its file; `version`: the number in its name, if it has one;
    `newest_format`: the highest format version that its catalog can keep."""

    metadata: TableMetadata
    path: str
    version: int | None = None
    newest_format: int = NEWEST_FORMAT

    @cached_property
    def location(self) -> str:
        """The table's location as our paths are."""
        return absolute_location(self.metadata.location)


class TableOperations(Protocol):
    """One table in one catalog."""

    @property
    def storage(self) -> Storage:
        """Of the table's own folder."""

    @property
    def newest_format(self) -> int:
        """The highest format version that the catalog can keep."""

    @property
    def keeps_ids(self) -> bool:
        """Whether a table is created with the ids of schemas and partitionings that its metadata has."""

    def current(self) -> Current | None:
        """The newest metadata, None when there is no such table. Raises CorruptLog, StorageError."""

    def create(self, metadata: TableMetadata) -> Put | Unknown:
        """Make the table, snapshots and all, if there is none. Raises StorageError when it certainly was not made."""

    def is_followed(self, base: Current) -> bool:
        """Whether there is newer metadata for certain: then a commit need not be tried. False says nothing."""

    def commit(self, base: Current, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        """Make the metadata of `base` with these updates the newest; EXISTED: somebody else was first.

        Raises StorageError when it certainly was not committed, TableNotFound for a table that is being dropped.
        """


class DirectoryOperations:
    """`metadata/v<N>.metadata.json`, each made if it is absent; Iceberg's Hadoop catalog reads the same files.

    The hint is only one: whoever reads it goes on from there until there is no next version.
    """

    newest_format = NEWEST_FORMAT
    keeps_ids = True

    def __init__(self, storage: Storage, table: str) -> None:
        self._storage, self._table = storage, table
        self._known: Current | None = None

    @property
    def storage(self) -> Storage:
        return self._storage

    def current(self) -> Current | None:
        known = self._known
        read = None if known is None else self._unless_followed(known)
        if read is None:
            version = self._newest(known.version if known is not None and known.version is not None else None)
            if version is None:
                self._known = None
                return None
            read = version, *self._read(version)
        version, path, data = read
        if known is None or known.version != version or not self._same(known, path, data):
            self._known = Current(
                parsed(data, f"{self._storage.location}/{path}", self._table), f"{self._storage.location}/{path}", version
            )
        return self._known

    def create(self, metadata: TableMetadata) -> Put | Unknown:
        if self._newest(None) is not None:
            return Put.EXISTED
        put = self._put(1, metadata)
        if put is Put.CREATED:
            self._hint(1)
        return put

    def is_followed(self, base: Current) -> bool:
        assert base.version is not None
        return bool(self._files(base.version + 1))

    def commit(self, base: Current, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        assert base.version is not None
        metadata = updated(base.metadata, updates, location=base.path)
        metadata = metadata.model_copy(update={"snapshot_log": known_log(base.metadata.snapshot_log, metadata)})
        version = base.version + 1
        put = self._put(version, metadata)
        if put is not Put.CREATED:
            return put
        try:
            looks: list[Callable[[], Any]] = [
                partial(self._storage.exists, f"{FOLDER}/{DROPPED}"),
                partial(self._is_late, version, base),
                partial(self._has_other_form, version),
                # Readers go on from it to the newest version, and it may name one that is there under another name.
                partial(self._hint, version),
            ]
            dropped, late, other_form, _ = at_once(looks)
            if dropped or late or other_form:
                self._delete([f"{FOLDER}/v{version}.metadata.json"])
                if dropped:
                    self._delete([HINT])
                    raise TableNotFound(self._table)
                if late and (newest := self._listed()) is not None:
                    self._hint(newest)
                return Put.EXISTED
        except StorageError as failure:
            return Unknown(failure.message)
        self._known = Current(metadata, f"{self._storage.location}/{FOLDER}/v{version}.metadata.json", version)
        live = [self._known.path, *(entry.metadata_file for entry in metadata.metadata_log)]
        self._delete([path[len(self._storage.location) + 1 :] for path in left_the_log(base.metadata, metadata)], live)
        return put

    # ------------------------------------------------------------------ inside

    def _unless_followed(self, known: Current) -> tuple[int, str, bytes] | None:
        """The version that is known with its file's path and bytes, if it is there still and there is none after it; asked at once."""
        assert known.version is not None
        path = known.path[len(self._storage.location) + 1 :]
        asked: list[Callable[[], Any]] = [partial(self._bytes, path), partial(self._files, known.version + 1)]
        data, following = at_once(asked)
        return None if data is None or following else (known.version, path, data)

    def _bytes(self, path: str) -> bytes | None:
        try:
            return self._storage.get(path)
        except FileNotFoundError:
            return None

    def _newest(self, known: int | None) -> int | None:
        """The highest version from the known one or the hint on; by a listing where these say nothing."""
        start = known if known is not None else self._hinted()
        if start is not None:
            there, following = at_once([partial(self._files, version) for version in (start, start + 1)])
            while there and following:
                start, following = start + 1, self._files(start + 2)
            if there:
                return start
        return self._listed()

    def _listed(self) -> int | None:
        return max((int(match[1]) for found in self._storage.list(FOLDER) if (match := _NAME.match(found.path))), default=None)

    def _hinted(self) -> int | None:
        try:
            text = self._storage.get(HINT).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() else None

    def _files(self, version: int) -> list[str]:
        """The paths of a version's metadata: plain or compressed, as Java's HadoopTableOperations names them."""
        paths = [f"{FOLDER}/v{version}{ending}" for ending in _ENDINGS]
        there = at_once([partial(self._storage.exists, path) for path in paths])
        return [path for path, found in zip(paths, there, strict=True) if found]

    def _read(self, version: int) -> tuple[str, bytes]:
        for path in self._files(version)[:1]:
            if (data := self._bytes(path)) is not None:
                return path, data
        raise CorruptLog(f"{self._storage.location}/{FOLDER}/v{version}.metadata.json", "it was there a moment ago and is gone")

    def _same(self, known: Current, path: str, data: bytes) -> bool:
        """Whether the file is the one that was read before: a table that was made anew has another uuid."""
        return known.path == f"{self._storage.location}/{path}" and str(known.metadata.table_uuid).encode() in _plain(data)

    def _put(self, version: int, metadata: TableMetadata) -> Put | Unknown:
        """Put a version if it is absent; after a failure, look whether it is there."""
        path, data, reason = f"{FOLDER}/v{version}.metadata.json", serialized(metadata), ""
        for wait in (*_WAITS, 0):
            try:
                put = self._storage.put_if_absent(path, data)
                if put is Put.EXISTED and self._storage.get(path) == data:
                    return Put.CREATED  # a store may repeat a put by itself
                return put
            except StorageError as failure:
                try:
                    return Put.CREATED if self._storage.get(path) == data else Put.EXISTED
                except FileNotFoundError:
                    # A disk has done what it will do; a request to an object store may still arrive, and may be repeated until then.
                    if local_path(self._storage.location) is not None:
                        raise failure from None
                    reason = failure.message
                except StorageError:
                    reason = failure.message
            time.sleep(wait)
        return Unknown(reason)

    def _is_late(self, version: int, base: Current) -> bool:
        """Whether a version that was put follows none: others had made it, gone on from it and deleted it since, or dropped the table.

        Old metadata goes oldest first, and not before there are two newer versions. So where the version before is still there, there
        was none in this place; where it is gone and there is none after, the table is gone, or another one has begun in its folder.
        """
        try:
            data = self._storage.get(base.path[len(self._storage.location) + 1 :])
            return str(base.metadata.table_uuid).encode() not in _plain(data)
        except FileNotFoundError:
            newest = self._listed()
        if newest is None or newest <= version:
            return True
        path, data = self._read(newest)
        log = parsed(data, f"{self._storage.location}/{path}", self._table).metadata_log
        return not any(entry.metadata_file.endswith(f"/{FOLDER}/v{version}.metadata.json") for entry in log)

    def _delete(self, paths: Sequence[str], live: Sequence[str] = ()) -> None:
        """Delete old metadata in order. A file that stays is an orphan."""
        clean_up(self._storage, [[f"{self._storage.location}/{path}"] for path in paths], Origin.NAMED, live=live)

    def _has_other_form(self, version: int) -> bool:
        """Whether another writer made this version as a compressed file, too."""
        return any(not path.endswith(f"v{version}.metadata.json") for path in self._files(version))

    def _hint(self, version: int) -> None:
        """The table is at the version whatever becomes of the hint."""
        try:
            self._storage.put(HINT, str(version).encode())
        except StorageError:
            return


def check_format_version(table: str, version: int, newest: int) -> None:
    """Raises UnsupportedTableFeature for a format version that a catalog cannot keep."""
    if version > newest:
        advice = f"Its catalog keeps tables of format version {newest} and below: make one of its rows, or keep the table in a folder."
        raise UnsupportedTableFeature(table, f"format-version {version}", action="write", advice=advice)


def parsed(data: bytes, path: str, table: str) -> TableMetadata:
    """Table metadata from the bytes of its file. Raises CorruptLog, UnsupportedTableFeature for a format version above 3, and for what
    format version 3 has and cannot be read."""
    content: Any = None
    try:
        plain = _plain(data)
        content = json.loads(plain)
        version = content.get("format-version")
        if isinstance(version, int) and version > NEWEST_FORMAT:
            raise UnsupportedTableFeature(table, f"format-version {version}", action="read", advice=_ELSEWHERE)
        if (feature := encryption(content)) is not None:
            raise UnsupportedTableFeature(table, feature, action="read", advice=_ELSEWHERE)
        return TableMetadataUtil.parse_raw(plain.decode())
    except (ValueError, AttributeError, KeyError, OSError, EOFError, zstandard.ZstdError, ValidationError) as error:
        if (feature := unread_feature(content)) is not None:
            raise UnsupportedTableFeature(table, feature, action="read", advice=_ELSEWHERE) from error
        raise CorruptLog(path, f"it is no table metadata ({str(error).splitlines()[0]})") from error


def _plain(data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data
