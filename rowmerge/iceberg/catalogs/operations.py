"""Where a table's current metadata is kept, and how it is replaced: Java's TableOperations, one for each kind of catalog."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate

from rowmerge.concurrency import run_both, run_concurrently
from rowmerge.errors import CommitConflict, CorruptLog, StorageError, TableNotFound
from rowmerge.iceberg.catalogs.metadata_folder import FOLDER, HINT, CurrentMetadata, MetadataFolder, VersionHint, metadata_path
from rowmerge.iceberg.metadata.parsing import NEWEST_FORMAT
from rowmerge.iceberg.metadata.updates import DELETE_AFTER_COMMIT, apply_updates, gapless_snapshot_log, metadata_files_to_delete
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.creation import DROPPED_TABLE, CreationVersion, conflict_after_put, conflict_with_other, creation_version
from rowmerge.table.commits.drop_markers import delete_markers
from rowmerge.table.commits.request import Unknown

DROPPED = "_dropped.json"
"""The file in the metadata folder of a table that rowmerge 0.1.0 is deleting. Such a table takes no more commits."""
_READ_ATTEMPTS = 20
"""The number of attempts to list and read the newest version while others delete it before it is read."""


class TableOperations(Protocol):
    """One table in one catalog."""

    storage: Storage
    """The storage of the table's own folder."""
    newest_format: int
    """The highest format version that the catalog can keep."""
    keeps_ids: bool
    """Whether the catalog creates a table with the schema and partition spec ids of its metadata."""

    def current(self) -> CurrentMetadata | None:
        """Return the newest metadata, None if there is no such table. Raises CorruptLog, StorageError."""

    def creation_version(self) -> CreationVersion | None:
        """Return the version of a new table. See `Table.creation_version`."""

    def create(self, metadata: TableMetadata, version: CreationVersion | None = None) -> Put | Unknown | CommitConflict:
        """Create the table with its snapshots. Return EXISTED if the table exists, or if others have dropped one since `version` was read.

        Return the conflict with a table of another format, which may leave the new table there. Raises StorageError if it is not there.
        """

    def is_followed(self, base: CurrentMetadata) -> bool:
        """Return True if the newest metadata certainly is not `base`, so that a commit must fail. False proves nothing."""

    def commit(self, base: CurrentMetadata, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        """Commit updates to `base`. Return EXISTED if another commit came first.

        Raises StorageError if the updates are certainly not committed, TableNotFound for a table that is being dropped.
        """


class DirectoryOperations:
    """Implements `TableOperations`: puts each `metadata/v<N>.metadata.json` if it is absent. Iceberg's Hadoop catalog reads the same files.

    A table with `write.metadata.delete-after-commit.enabled` deletes its old metadata, oldest first. Then the name of an old version is
    free again, and a writer that planned on the version before it can put it. Such a ghost is never the current version:

    - A reader that starts at the hint lists the versions if old ones were deleted, and takes the highest. The current version is never
      deleted, so a ghost has a lower number.
    - A writer acknowledges its version, and writes the hint, only after it has verified that the version is no ghost.
    """

    newest_format = NEWEST_FORMAT
    keeps_ids = True

    def __init__(self, storage: Storage, table: str) -> None:
        self.storage, self._table = storage, table
        self.folder = MetadataFolder(storage, table)
        self._last_read: CurrentMetadata | None = None
        self._hint = VersionHint(storage, self.folder)

    def current(self) -> CurrentMetadata | None:
        newest = self.newest()
        return None if newest is None or is_dropped(newest.metadata) else newest

    def newest(self) -> CurrentMetadata | None:
        """Return the newest version, also that of a dropped table; None if there was never a table. Raises CorruptLog, StorageError."""
        if self._last_read is None or not self._is_newest(self._last_read):
            self._last_read = self._read_newest()
        return self._last_read

    def creation_version(self) -> CreationVersion | None:
        return creation_version(self.storage, "iceberg", lambda: _first_version_after(self.newest()))

    def create(self, metadata: TableMetadata, version: CreationVersion | None = None) -> Put | Unknown | CommitConflict:
        """Put the first version, as `TableOperations.create` states. Look for a table of the other format before and after the put."""
        expected = version or self.creation_version()
        find_conflict = partial(conflict_with_other, self.storage, self._table, "iceberg", expected)
        newest, conflict = run_both(self._read_newest, find_conflict)
        if expected is None or expected.number != _first_version_after(newest):
            return Put.EXISTED
        if conflict is not None:
            return conflict
        put = self.put_first(newest, expected.number, metadata, expected)
        if put is Put.CREATED and expected.number > 1:
            delete_markers(self.storage, "iceberg", expected.number)
        return put

    def put_first(
        self, base: CurrentMetadata | None, version: int, metadata: TableMetadata, expected: CreationVersion | None = None
    ) -> Put | Unknown | CommitConflict:
        """Put the first version of a new table, or the version that ends a dropped one, after `base` (None: the version before is unknown).

        Raises StorageError when it certainly was not put, TableNotFound for a first version where rowmerge 0.1.0 drops a table.
        """
        put = self.folder.put(version, metadata)
        if put is not Put.CREATED:
            return put
        find_conflict = partial(conflict_after_put, self.storage, self._table, "iceberg", expected)
        verified, conflict = run_both(partial(self._verify_put, base, version, metadata), find_conflict)
        if verified is not Put.CREATED:
            return verified
        if conflict is not None:
            return conflict
        self._hint.advance(version)
        return Put.CREATED

    def is_followed(self, base: CurrentMetadata) -> bool:
        assert base.version is not None
        next_paths, is_unchanged = run_both(partial(self.folder.paths_of, base.version + 1), partial(self.folder.is_unchanged, base))
        return bool(next_paths) or not is_unchanged

    def commit(self, base: CurrentMetadata, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        """Put the version after `base`, verify it, and publish it."""
        assert base.version is not None
        metadata = apply_updates(base.metadata, updates, location=base.path)
        metadata = metadata.model_copy(update={"snapshot_log": gapless_snapshot_log(base.metadata.snapshot_log, metadata)})
        version = base.version + 1
        put = self.folder.put(version, metadata)
        outcome = self._verify_put(base, version, metadata) if put is Put.CREATED else put
        if outcome is Put.CREATED:
            self._publish(base, version, metadata)
        return outcome

    def _publish(self, base: CurrentMetadata, version: int, metadata: TableMetadata) -> None:
        """Write a verified version to the hint, and delete the metadata files that have left the metadata log."""
        self._last_read = self.folder.describe(version, metadata)
        old_paths = [self.folder.relative(old_path) for old_path in metadata_files_to_delete(base.metadata, metadata)]
        live_paths = [self._last_read.path, *(entry.metadata_file for entry in metadata.metadata_log)]
        self._hint.advance(version)
        self.folder.clean_up(old_paths, live_paths)

    def _is_newest(self, current: CurrentMetadata) -> bool:
        """Return whether the file of `current` has the same content as before, and no version comes after it."""
        checks = [lambda: not self.is_followed(current)]
        if _deletes_metadata(current.metadata):
            checks.append(lambda: self.folder.highest_version() == current.version)
        return all(run_concurrently(checks))

    def _read_newest(self) -> CurrentMetadata | None:
        """Read the newest version: the last of those that follow the hint, or the highest if old versions were deleted."""
        return self._read_after_hint() or self._read_highest()

    def _read_after_hint(self) -> CurrentMetadata | None:
        """Read the last version that follows the hint. Return None if the hint names no version, or if old versions were deleted."""
        version = self._last_version_after_hint()
        if version is None:
            return None
        read, first_paths = run_both(partial(self.folder.read, version, self._last_read), partial(self.folder.paths_of, 1))
        return None if read is None or not first_paths or _deletes_metadata(read.metadata) else read

    def _last_version_after_hint(self) -> int | None:
        version = self._hint.read()
        if version is None:
            return None
        paths, next_paths = run_both(partial(self.folder.paths_of, version), partial(self.folder.paths_of, version + 1))
        if not paths:
            return None
        while next_paths:
            version += 1
            next_paths = self.folder.paths_of(version + 1)
        return version

    def _read_highest(self) -> CurrentMetadata | None:
        for _ in range(_READ_ATTEMPTS):
            highest = self.folder.highest_version()
            if highest is None:
                return None
            metadata = self.folder.read(highest, self._last_read)
            if metadata is not None:  # Others may commit and clean between the listing and the read.
                return metadata
        raise CorruptLog(self.folder.absolute(FOLDER), "its newest metadata file was gone before it was read, each time")

    def _verify_put(self, base: CurrentMetadata | None, version: int, metadata: TableMetadata) -> Put | Unknown:
        """Return CREATED if a version that was put follows `base` (None: is the first), EXISTED for a ghost, which no reader opens.

        Our processes delete old metadata oldest first. So while the file of `base` exists, nobody has freed the name of the version after
        it. Java deletes in any order, so a table that deletes metadata must also have no higher version.
        Raises TableNotFound for a table that rowmerge 0.1.0 drops, unless the version drops it, too.
        """
        try:
            has_drop_marker, has_other_form, *ghost_signs = run_concurrently(self._checks_after_put(base, version, metadata))
            if has_drop_marker and not is_dropped(metadata):
                self.folder.clean_up([metadata_path(version)])
                self.folder.clean_up([HINT])  # a call of its own, because a failure ends a call
                raise TableNotFound(self._table)
            if has_other_form:
                self.folder.clean_up([metadata_path(version)])
                return Put.EXISTED
            return self._verify_by_newest(base, version, metadata) if any(ghost_signs) else Put.CREATED
        except (StorageError, CorruptLog) as failure:
            return Unknown(failure.message)

    def _checks_after_put(self, base: CurrentMetadata | None, version: int, metadata: TableMetadata) -> list[Callable[[], bool]]:
        """Return checks for the drop marker of rowmerge 0.1.0, for another file of the version, and for signs that it is a ghost."""
        checks: list[Callable[[], bool]] = [
            partial(self.storage.exists, f"{FOLDER}/{DROPPED}"),
            partial(self.folder.has_other_form, version),
            lambda: base is not None and not self.folder.is_unchanged(base),
        ]
        if _may_be_ghost(base, metadata):
            checks.append(lambda: self.folder.highest_version() != version)
        return checks

    def _verify_by_newest(self, base: CurrentMetadata | None, version: int, metadata: TableMetadata) -> Put | Unknown:
        """Return CREATED if the newest metadata is or follows a version, Unknown if nothing tells. Delete a ghost and return EXISTED."""
        newest = self._read_newest()
        if newest is None or newest.version is None:
            return Unknown(f"{metadata_path(version)} was put, and the table is gone")
        is_later = newest.version > version and newest.metadata.table_uuid == metadata.table_uuid
        if is_later and (_logs_version(newest.metadata, version) or _has_snapshots_of(newest.metadata, metadata, base)):
            return Put.CREATED
        if is_later and not self.folder.has_older_successor(version, newest.version):
            return Unknown(f"others have committed since, and no metadata tells whether they follow {metadata_path(version)}")
        if self.folder.contains(version, metadata):
            self.folder.clean_up([metadata_path(version)])
        return Put.EXISTED


def is_dropped(metadata: TableMetadata) -> bool:
    """Return whether this is the metadata that a drop put, as `is_iceberg_drop` does for JSON."""
    return metadata.properties.get(DROPPED_TABLE) == "true" and not metadata.metadata_log and not metadata.snapshots


def _first_version_after(newest: CurrentMetadata | None) -> int | None:
    """Return the version with which a new table begins after `newest`, None if `newest` is the version of a table that exists."""
    if newest is None:
        return 1
    return (newest.version or 0) + 1 if is_dropped(newest.metadata) else None


def _may_be_ghost(base: CurrentMetadata | None, metadata: TableMetadata) -> bool:
    """Return whether the name of a version after `base` may be free because its file was deleted."""
    if base is None or _deletes_metadata(base.metadata):
        return True
    return DROPPED_TABLE in base.metadata.properties or DROPPED_TABLE in metadata.properties


def _logs_version(metadata: TableMetadata, version: int) -> bool:
    return any(entry.metadata_file.endswith(f"/{metadata_path(version)}") for entry in metadata.metadata_log)


def _has_snapshots_of(newest: TableMetadata, metadata: TableMetadata, base: CurrentMetadata | None) -> bool:
    """Return whether `newest` has a snapshot that `metadata` added to `base`."""
    base_ids = set() if base is None else {snapshot.snapshot_id for snapshot in base.metadata.snapshots}
    added_ids = {snapshot.snapshot_id for snapshot in metadata.snapshots} - base_ids
    return any(newest.snapshot_by_id(snapshot_id) is not None for snapshot_id in added_ids)


def _deletes_metadata(metadata: TableMetadata) -> bool:
    return metadata.properties.get(DELETE_AFTER_COMMIT, "false").strip().lower() == "true"
