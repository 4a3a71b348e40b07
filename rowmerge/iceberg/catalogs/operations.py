"""Where a table's current metadata is kept, and how it is replaced: Java's TableOperations, one for each kind of catalog."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate

from rowmerge.concurrency import run_concurrently
from rowmerge.errors import CommitConflict, CorruptLog, StorageError, TableNotFound
from rowmerge.iceberg.catalogs.version_hint import HINT, VersionHint
from rowmerge.iceberg.metadata.parsing import NEWEST_FORMAT, parse_metadata
from rowmerge.iceberg.metadata.updates import (
    DELETE_AFTER_COMMIT,
    apply_updates,
    gapless_snapshot_log,
    metadata_files_to_delete,
    serialize_metadata,
)
from rowmerge.storage.deletion import Origin, clean_up
from rowmerge.storage.store import Put, Storage, absolute_location
from rowmerge.table.commits.commit import Existing, put_settled
from rowmerge.table.commits.creation import DROPPED_TABLE, CreationVersion, conflict_after_put, conflict_with_other, creation_version
from rowmerge.table.commits.drop_markers import delete_markers
from rowmerge.table.commits.request import Unknown

FOLDER = "metadata"
DROPPED = "_dropped.json"
"""rowmerge 0.1.0 deletes the table in whose metadata folder this lies: no commit goes into it any more."""
_NAME = re.compile(r"(?:.*/)?metadata/v(\d+)(?:\.(?:gz|zstd))?\.metadata\.json(?:\.gz)?$")
_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".zstd.metadata.json")
_READS = 20
"""How often a version is listed anew that others delete before it is read."""


@dataclass(frozen=True)
class Current:
    """A table's metadata as of one moment.

    `path` is the absolute path of its file, `version` the number in the file's name, and `digest` the hash of the file's bytes; a catalog
    may have none of them. `newest_format` is the highest format version that the table's catalog can keep.
    """

    metadata: TableMetadata
    path: str
    version: int | None = None
    newest_format: int = NEWEST_FORMAT
    digest: bytes = b""

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

    def creation_version(self) -> CreationVersion | None:
        """See `Table.creation_version`."""

    def create(self, metadata: TableMetadata, version: CreationVersion | None = None) -> Put | Unknown | CommitConflict:
        """Create the table with its snapshots. Return EXISTED if the table exists, or if others have dropped one since `version` was read.

        Return the conflict with a table of another format, which may leave the new table there. Raises StorageError if it is not there.
        """

    def is_followed(self, base: Current) -> bool:
        """Whether the table certainly has other metadata than `base` now. Then a commit need not be tried. False says nothing."""

    def commit(self, base: Current, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        """Make the metadata of `base` with these updates the newest; EXISTED: somebody else was first.

        Raises StorageError when it certainly was not committed, TableNotFound for a table that is being dropped.
        """


class DirectoryOperations:
    """`metadata/v<N>.metadata.json`, each put if it is absent; Iceberg's Hadoop catalog reads the same files.

    A table with `write.metadata.delete-after-commit.enabled` deletes its old metadata, oldest first. Then the name of an old version is
    free again, and a writer that planned on the version before it can put it. Such a ghost is never the current version:

    - A reader that starts at the hint lists the versions if old ones were deleted, and takes the highest. The current version is never
      deleted, so a ghost has a lower number.
    - A writer acknowledges its version, and writes the hint, only after it has verified that the version is no ghost.
    """

    newest_format = NEWEST_FORMAT
    keeps_ids = True

    def __init__(self, storage: Storage, table: str) -> None:
        self._storage, self._table = storage, table
        self._known: Current | None = None
        self._hint = VersionHint(storage, lambda version: bool(self._files(version)), self.highest_version)

    @property
    def storage(self) -> Storage:
        return self._storage

    def current(self) -> Current | None:
        newest = self.newest()
        return None if newest is None or is_dropped(newest.metadata) else newest

    def newest(self) -> Current | None:
        """Return the newest version, also that of a dropped table; None if there was never a table. Raises CorruptLog, StorageError."""
        known = self._known
        if known is None or not self._is_current(known):
            self._known = self._read_newest()
        return self._known

    def creation_version(self) -> CreationVersion | None:
        return creation_version(self._storage, "iceberg", lambda: _version_after(self.newest()))

    def create(self, metadata: TableMetadata, version: CreationVersion | None = None) -> Put | Unknown | CommitConflict:
        expected = version or self.creation_version()
        calls: list[Callable[[], Any]] = [self._read_newest, partial(conflict_with_other, self._storage, self._table, "iceberg", expected)]
        newest, conflict = run_concurrently(calls)
        if expected is None or expected.number != _version_after(newest):
            return Put.EXISTED
        if (put := conflict or self.put_first(newest, expected.number, metadata, expected)) is Put.CREATED and expected.number > 1:
            delete_markers(self._storage, "iceberg", expected.number)
        return put

    def put_first(
        self, base: Current | None, version: int, metadata: TableMetadata, expected: CreationVersion | None = None
    ) -> Put | Unknown | CommitConflict:
        """Put the first version of a new table, or the version that ends a dropped one, after `base` (None: the version before is unknown).

        Raises StorageError when it certainly was not put, TableNotFound for a first version where rowmerge 0.1.0 drops a table.
        """
        put = self._put(version, metadata)
        if put is Put.CREATED:
            checks: list[Callable[[], Any]] = [
                partial(self._verified, base, version, metadata),
                partial(conflict_after_put, self._storage, self._table, "iceberg", expected),
            ]
            put, conflict = run_concurrently(checks)
            put = conflict or put if put is Put.CREATED else put
        if put is Put.CREATED:
            self._hint.advance(version)
        return put

    def is_followed(self, base: Current) -> bool:
        assert base.version is not None
        asked: list[Callable[[], Any]] = [partial(self._files, base.version + 1), partial(self._bytes, self._below(base.path))]
        following, data = run_concurrently(asked)
        return bool(following) or digest_of(data) != base.digest

    def commit(self, base: Current, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        assert base.version is not None
        metadata = apply_updates(base.metadata, updates, location=base.path)
        metadata = metadata.model_copy(update={"snapshot_log": gapless_snapshot_log(base.metadata.snapshot_log, metadata)})
        version = base.version + 1
        put = self._put(version, metadata)
        if put is Put.CREATED:
            put = self._verified(base, version, metadata)
        if put is Put.CREATED:
            path = f"{self._storage.location}/{_path(version)}"
            self._known = Current(metadata, path, version, digest=digest_of(serialize_metadata(metadata)))
            old = [self._below(path) for path in metadata_files_to_delete(base.metadata, metadata)]
            live = [self._known.path, *(entry.metadata_file for entry in metadata.metadata_log)]
            self._hint.advance(version)
            self._delete(old, live)
        return put

    # ------------------------------------------------------------------ reading

    def _is_current(self, known: Current) -> bool:
        """Whether the file that was read last is still there, with the same content, and no version comes after it."""
        assert known.version is not None
        asked: list[Callable[[], Any]] = [partial(self.is_followed, known)]
        if _deletes_metadata(known.metadata):
            asked.append(self.highest_version)
        followed, *highest = run_concurrently(asked)
        return not followed and highest in ([], [known.version])

    def _read_newest(self) -> Current | None:
        """Read the current version: the last of those that follow the hint, or the highest if old versions were deleted."""
        hinted = self._last_following_hint()
        if hinted is not None:
            asked: list[Callable[[], Any]] = [partial(self.read, hinted), partial(self._files, 1)]
            read: Current | None
            read, first = run_concurrently(asked)
            if read is not None and first and not _deletes_metadata(read.metadata):
                return read
        for _ in range(_READS):
            highest = self.highest_version()
            if highest is None:
                return None
            # Others may commit and clean between the listing and the read.
            if (read := self.read(highest)) is not None:
                return read
        raise CorruptLog(f"{self._storage.location}/{FOLDER}", "its newest metadata file was gone before it was read, each time")

    def _last_following_hint(self) -> int | None:
        start = self._hint.read()
        if start is None:
            return None
        there, following = run_concurrently([partial(self._files, version) for version in (start, start + 1)])
        while there and following:
            start, following = start + 1, self._files(start + 2)
        return start if there else None

    def highest_version(self) -> int | None:
        """Return the highest version in the folder. Names of manifests sort before those of versions, so the listing leaves them out."""
        listed = self._storage.list(FOLDER, after=f"{FOLDER}/v")
        return max((int(match[1]) for found in listed if (match := _NAME.match(found.path))), default=None)

    def _files(self, version: int) -> list[str]:
        """Return the paths of a version's metadata: plain or compressed, as Java's HadoopTableOperations names them."""
        paths = [f"{FOLDER}/v{version}{ending}" for ending in _ENDINGS]
        calls = [partial(self._storage.exists, path) for path in paths]
        there = run_concurrently(calls, is_distant=self._storage.is_distant)
        return [path for path, found in zip(paths, there, strict=True) if found]

    def read(self, version: int) -> Current | None:
        """Read a version's metadata, None if its file is gone. Metadata with the same bytes is not parsed again."""
        for path in self._files(version)[:1]:
            if (data := self._bytes(path)) is not None:
                whole, digest, known = f"{self._storage.location}/{path}", digest_of(data), self._known
                if known is not None and known.path == whole and known.digest == digest:
                    return known
                return Current(parse_metadata(data, whole, self._table), whole, version, digest=digest)
        return None

    def _bytes(self, path: str) -> bytes | None:
        try:
            return self._storage.get(path)
        except FileNotFoundError:
            return None

    def _below(self, path: str) -> str:
        return path[len(self._storage.location) + 1 :]

    # ------------------------------------------------------------------ writing

    def _put(self, version: int, metadata: TableMetadata) -> Put | Unknown:
        """Put a version if it is absent."""
        put = put_settled(self._storage, _path(version), serialize_metadata(metadata))
        return Put.EXISTED if isinstance(put, Existing) else put

    def _verified(self, base: Current | None, version: int, metadata: TableMetadata) -> Put | Unknown:
        """Say whether a version that was put follows `base` (None: is the first), or is a ghost that no reader takes for current.

        Our processes delete old metadata oldest first. So while the file of `base` is there, nobody has freed the name of the version after
        it. Java deletes in any order, so a table that deletes metadata must also have no higher version.
        Raises TableNotFound for a table that rowmerge 0.1.0 drops, unless the version drops it, too.
        """
        may_be_ghost = (
            base is None or _deletes_metadata(base.metadata) or DROPPED_TABLE in {**base.metadata.properties, **metadata.properties}
        )
        looks: list[Callable[[], Any]] = [
            partial(self._storage.exists, f"{FOLDER}/{DROPPED}"),
            partial(self._has_other_form, version),
            partial(self._has_no_base, base),
        ]
        if may_be_ghost:
            looks.append(self.highest_version)
        try:
            dropped, other_form, no_base, *highest = run_concurrently(looks)
            dropped = dropped and not is_dropped(metadata)
            if dropped or other_form:
                self._delete([_path(version)])
                if dropped:
                    self._delete([HINT])
                    raise TableNotFound(self._table)
                return Put.EXISTED
            if no_base or (may_be_ghost and highest != [version]):
                return self._settled_later(base, version, metadata)
        except (StorageError, CorruptLog) as failure:
            return Unknown(failure.message)
        return Put.CREATED

    def _settled_later(self, base: Current | None, version: int, metadata: TableMetadata) -> Put | Unknown:
        """Say whether a version that others may have followed is part of the table, by the newest metadata. A ghost is deleted."""
        newest = self._read_newest()
        if newest is None or newest.version is None:
            return Unknown(f"{_path(version)} was put, and the table is gone")
        if newest.version > version:
            log = newest.metadata.metadata_log
            snapshots = {snapshot.snapshot_id for snapshot in metadata.snapshots}
            snapshots -= set() if base is None else {snapshot.snapshot_id for snapshot in base.metadata.snapshots}
            named = any(entry.metadata_file.endswith(f"/{_path(version)}") for entry in log)
            if newest.metadata.table_uuid == metadata.table_uuid and (
                named or any(newest.metadata.snapshot_by_id(each) is not None for each in snapshots)
            ):
                return Put.CREATED
            is_another_table = newest.metadata.table_uuid != metadata.table_uuid
            if not is_another_table and not self._is_older(newest.version, version):
                return Unknown(f"others have committed since, and no metadata tells whether they follow {_path(version)}")
        if self._bytes(_path(version)) == serialize_metadata(metadata):
            self._delete([_path(version)])
        return Put.EXISTED

    def _is_older(self, newest: int, version: int) -> bool:
        """Whether a version above another one was there before it. So both cannot be of one line, and the lower one is a ghost."""
        modified = {int(match[1]): found.modified for found in self._storage.list(FOLDER) if (match := _NAME.match(found.path))}
        ghost = modified.get(version)
        return ghost is not None and any(other < ghost for number, other in modified.items() if version < number <= newest)

    def _has_no_base(self, base: Current | None) -> bool:
        return base is not None and digest_of(self._bytes(self._below(base.path))) != base.digest

    def _has_other_form(self, version: int) -> bool:
        """Whether another writer made this version as a compressed file, too."""
        return any(path != _path(version) for path in self._files(version))

    def _delete(self, paths: Sequence[str], live: Sequence[str] = ()) -> None:
        """Delete old metadata in order. A file that stays is an orphan."""
        clean_up(self._storage, [[f"{self._storage.location}/{path}"] for path in paths], Origin.NAMED, live=live)


def digest_of(data: bytes | None) -> bytes:
    """Return the hash of a metadata file's bytes, empty for a file that is not there."""
    return b"" if data is None else hashlib.sha256(data).digest()


def _path(version: int) -> str:
    return f"{FOLDER}/v{version}.metadata.json"


def _version_after(newest: Current | None) -> int | None:
    """Return the version with which a new table begins after `newest`, None if `newest` is the version of a table that exists."""
    if newest is None:
        return 1
    if not is_dropped(newest.metadata):
        return None
    return 1 if newest.version is None else newest.version + 1


def is_dropped(metadata: TableMetadata) -> bool:
    """Whether this is the metadata of a dropped table."""
    return metadata.properties.get(DROPPED_TABLE) == "true"


def _deletes_metadata(metadata: TableMetadata) -> bool:
    return metadata.properties.get(DELETE_AFTER_COMMIT, "false").strip().lower() == "true"
