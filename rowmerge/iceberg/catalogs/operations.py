"""Read and commit the metadata of a table in each kind of catalog. The interface follows Iceberg's TableOperations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate

from rowmerge.concurrency import run_both, run_concurrently
from rowmerge.errors import CommitConflict, CorruptLog, StorageError, TableNotFound
from rowmerge.iceberg.catalogs.metadata_folder import FOLDER, HINT, CurrentMetadata, MetadataFolder, VersionHint, metadata_path
from rowmerge.iceberg.metadata.parsing import NEWEST_FORMAT
from rowmerge.iceberg.metadata.registry import DELETE_AFTER_COMMIT
from rowmerge.iceberg.metadata.updates import apply_updates, gapless_snapshot_log, metadata_files_to_delete
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.creation import DROPPED_TABLE, CreationVersion, creation_version, format_conflict, recheck_other_format
from rowmerge.table.commits.drop_markers import delete_older_markers
from rowmerge.table.commits.request import Unknown

DROPPED = "_dropped.json"
"""The marker file in the metadata folder of a table that rowmerge 0.1.0 is deleting. Such a table accepts no more commits."""
_READ_ATTEMPTS = 20
"""The number of attempts to list and read the newest version. Other writers may delete it before it is read."""


class TableOperations(Protocol):
    """One table in one catalog."""

    storage: Storage
    """The storage of the table's own folder."""
    highest_format_version: int
    """The highest format version that the catalog can store."""
    keeps_ids: bool
    """Whether the catalog keeps the schema ids and partition spec ids of the metadata when it creates a table."""
    records_metadata_path: bool
    """Whether the catalog records the path of the newest metadata file. Otherwise, readers find the file by its folder and name."""

    def current(self) -> CurrentMetadata | None:
        """Return the newest metadata, or None if the table does not exist. Raises CorruptLog or StorageError if it cannot be read."""

    def look_ahead(self) -> CurrentMetadata | None:
        """Return the newest metadata, as `current` does, if this process has read the table before. Otherwise, return None."""

    def creation_version(self) -> CreationVersion | None:
        """Return the version of a new table. See `Table.creation_version`."""

    def create(self, metadata: TableMetadata, expected: CreationVersion | None = None) -> Put | Unknown | CommitConflict:
        """Create the table with its snapshots.

        Args:
            metadata: The metadata of the new table.
            expected: The result of `creation_version` before the data files were written, or None to read it now.

        Returns:
            CREATED, EXISTED, Unknown if the outcome is uncertain, or a conflict with a table of another format. EXISTED means that the
            table exists, or that another writer has dropped a table since `expected` was read. After a conflict, both tables may exist.

        Raises:
            StorageError: The table was certainly not created.
        """

    def tables_in_folder(self) -> list[str]:
        """Return the names of the other tables of the catalog at the location of this table."""

    def is_outdated(self, base: CurrentMetadata) -> bool:
        """Return True if the newest metadata is certainly not `base`, so that a commit must fail. Otherwise, it may still be newer."""

    def commit(self, base: CurrentMetadata, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        """Commit updates to a table's metadata.

        Args:
            base: The metadata that the updates change. It was the newest metadata when it was read.
            updates: The changes of the metadata.

        Returns:
            CREATED, EXISTED if another commit came first, or Unknown if the outcome is uncertain.

        Raises:
            StorageError: The updates are certainly not committed.
            TableNotFound: The table is being dropped.
        """


class DirectoryOperations:
    """Implements `TableOperations`: puts each `metadata/v<N>.metadata.json` if it is absent. Iceberg's Hadoop catalog reads the same files.

    A table with `write.metadata.delete-after-commit.enabled` deletes its old metadata, oldest first. Then the name of an old version is
    free again, and a writer that planned on the preceding version can put it again. Such a stale version is never the current version:

    - A reader that starts at the hint lists the versions if old ones were deleted, and takes the highest. The current version is never
      deleted, so a stale version has a lower number.
    - A writer acknowledges its version, and writes the hint, only after it has verified that the version is not stale.
    """

    highest_format_version = NEWEST_FORMAT
    keeps_ids = True
    # A compressed version has another name, such as `v5.gz.metadata.json`. Two writers with different codecs could put the same version:
    # each put only proves that its own name was free. The preceding version does not determine the name either. Iceberg takes the codec
    # from the new metadata, and DROP TABLE and older releases always put the name without a codec. So only other writers compress.
    records_metadata_path = False

    def __init__(self, storage: Storage, table: str) -> None:
        self.storage, self._table = storage, table
        self.folder = MetadataFolder(storage, table)
        self._last_read: CurrentMetadata | None = None
        self._hint = VersionHint(storage, self.folder)

    def current(self) -> CurrentMetadata | None:
        newest = self.newest()
        return None if newest is None or is_dropped(newest.metadata) else newest

    def newest(self) -> CurrentMetadata | None:
        """Return the newest version, even if it is a drop, or None if the folder has no version.

        Raises CorruptLog or StorageError if it cannot be read.
        """
        newest = self._last_read
        if newest is None or not self._is_newest(newest):
            self._last_read = newest = self._read_newest()
        return newest  # not the attribute, into which a concurrent call may have put older metadata

    def look_ahead(self) -> CurrentMetadata | None:
        if self._last_read is None:
            return None
        is_marked, newest = run_both(partial(self.storage.exists, f"{FOLDER}/{DROPPED}"), self.newest)
        return None if is_marked or newest is None or is_dropped(newest.metadata) else newest

    def creation_version(self) -> CreationVersion | None:
        return creation_version(self.storage, "iceberg", lambda: _first_version_after(self.newest()))

    def create(self, metadata: TableMetadata, expected: CreationVersion | None = None) -> Put | Unknown | CommitConflict:
        """Put the metadata file of the table's first version, unless the folder has a table of Iceberg or of another format.

        The first version has the number 1 in an empty folder. A new table continues the numbers of a dropped one: if version 4 is the drop,
        the first version of the new table is 5.

        Another writer may create a table at the same time. The file of an Iceberg table has the same name, so the put detects it. The files
        of a Delta table have different names. So this method looks for one before the put, and `put_creation_or_drop` again after it.

        Args:
            metadata: The metadata of the new table.
            expected: The result of `creation_version` before the data files were written, or None to read it now.

        Returns:
            EXISTED if an Iceberg table exists, or if another writer has created or dropped one since `expected` was read. A conflict if a
            Delta table exists.
        """
        expected = expected or self.creation_version()
        newest, conflict = run_both(self._read_newest, partial(format_conflict, self.storage, self._table, "iceberg", expected))
        # Without an expected version, an Iceberg table exists. With a different one, another writer has created or dropped one since.
        if expected is None or expected.number != _first_version_after(newest):
            return Put.EXISTED
        if conflict is not None:
            return conflict
        outcome = self.put_creation_or_drop(newest, expected.number, metadata, expected)
        if outcome is Put.CREATED and expected.number > 1:
            # The markers of an earlier DROP TABLE tell readers that the newest version may be a drop. They are obsolete now.
            delete_older_markers(self.storage, "iceberg", expected.number)
        return outcome

    def put_creation_or_drop(
        self, base: CurrentMetadata | None, version: int, metadata: TableMetadata, expected: CreationVersion | None = None
    ) -> Put | Unknown | CommitConflict:
        """Put the version that creates or drops the table, verify it, and write it to the version hint.

        A drop is a version, too: its metadata has no snapshots and the property `rowmerge.dropped`. The put only proves that the file name
        was free. Another writer may still have put the same version before, or a table of another format. So two checks after the put
        determine the outcome.

        Args:
            base: The metadata of the preceding version, or None if there is no such version or it cannot be read.
            version: The number of the version.
            metadata: The metadata of the new table, or that of the drop.
            expected: The result of `creation_version` for a creation, None for a drop.

        Returns:
            EXISTED if another version came first. A conflict if another writer has created or dropped a table of another format in the
            folder.

        Raises:
            StorageError: The version was certainly not put.
            TableNotFound: The version creates a table, and the folder has the file DROPPED.
        """
        put = self.folder.put(version, metadata)
        if put is not Put.CREATED:
            return put
        verify = partial(self._verify_put, _NewVersion(base, version, metadata))
        # If another writer creates a Delta table at the same time, at least one of the two creations finds the other here.
        find_conflict = partial(recheck_other_format, self.storage, self._table, "iceberg", expected)
        verification, conflict = run_both(verify, find_conflict)
        if verification is not Put.CREATED:
            return verification
        if conflict is not None:
            return conflict
        self._hint.advance(version)
        return Put.CREATED

    def tables_in_folder(self) -> list[str]:
        """Return no names, because a folder has the metadata of one table."""
        return []

    def is_outdated(self, base: CurrentMetadata) -> bool:
        comparison = self.folder.compare(base)
        return bool(comparison.next_paths) or not comparison.is_unchanged

    def commit(self, base: CurrentMetadata, updates: tuple[TableUpdate, ...]) -> Put | Unknown:
        """Put the version whose number follows that of `base`, verify it, and write it to the version hint.

        Args:
            base: The metadata that the commit changes.
            updates: The changes of the metadata.
        """
        assert base.version is not None
        metadata = apply_updates(base.metadata, updates, location=base.path)
        # pyiceberg leaves gaps in the snapshot log when snapshots expire, but the Iceberg specification does not allow them.
        metadata = metadata.model_copy(update={"snapshot_log": gapless_snapshot_log(base.metadata.snapshot_log, metadata)})
        version = base.version + 1
        put = self.folder.put(version, metadata)
        outcome = self._verify_put(_NewVersion(base, version, metadata)) if put is Put.CREATED else put
        if outcome is Put.CREATED:
            self._write_hint_and_clean(base, version, metadata)
        return outcome

    def _write_hint_and_clean(self, base: CurrentMetadata, version: int, metadata: TableMetadata) -> None:
        """Write a verified version to the hint, and delete the metadata files that are no longer in the metadata log."""
        self._last_read = self.folder.describe(version, metadata)
        old_paths = [self.folder.relative(old_path) for old_path in metadata_files_to_delete(base.metadata, metadata)]
        live_paths = [self._last_read.path, *(entry.metadata_file for entry in metadata.metadata_log)]
        self._hint.advance(version)
        self.folder.try_delete_files(old_paths, live_paths)

    def _is_newest(self, current: CurrentMetadata) -> bool:
        """Return whether the file of `current` has the bytes that were read, and no version comes after it."""
        checks = [lambda: not self.is_outdated(current)]
        if _deletes_metadata(current.metadata):
            checks.append(lambda: self.folder.highest_version() == current.version)
        return all(run_concurrently(checks))

    def _read_newest(self) -> CurrentMetadata | None:
        """Read the newest version: the last of those that follow the hint, or the highest if old versions were deleted."""
        return self._read_after_hint() or self._read_highest()

    def _read_after_hint(self) -> CurrentMetadata | None:
        """Read the last version that follows the hint. Return None if the hint's version does not exist or old versions were deleted."""
        version = self._last_version_after_hint()
        if version is None:
            return None
        read, first_paths = run_both(partial(self.folder.read, version, self._last_read), partial(self.folder.paths_of, 1))
        return None if read is None or not first_paths or _deletes_metadata(read.metadata) else read

    def _last_version_after_hint(self) -> int | None:
        """Return the last of the versions that follow the hint without a gap. Return None if the version in the hint does not exist."""
        version = self._hint.read()
        if version is None:
            return None
        # The hint usually contains the newest version. Then this listing is the only one.
        paths, next_paths = self.folder.paths_from(version)
        if not paths:
            return None
        while next_paths:
            version += 1
            next_paths = self.folder.paths_of(version + 1)
        return version

    def _read_highest(self) -> CurrentMetadata | None:
        """List the versions, and read the highest one. Raises CorruptLog if its file is deleted before every attempt to read it."""
        for _ in range(_READ_ATTEMPTS):
            highest = self.folder.highest_version()
            if highest is None:
                return None
            metadata = self.folder.read(highest, self._last_read)
            if metadata is not None:  # Others may commit and clean between the listing and the read.
                return metadata
        raise CorruptLog(
            self.folder.absolute(FOLDER),
            "other writers deleted each newest metadata file before it was read",
        )

    def _verify_put(self, new: _NewVersion) -> Put | Unknown:
        """Verify that a version is the next version of its table. Delete it if it is not.

        Its successful put only proves that the file name was free. The three checks run concurrently.

        Returns:
            CREATED for a valid version, EXISTED for a version that another writer has put first, Unknown if neither is certain.

        Raises:
            TableNotFound: The folder has the file DROPPED, and the new version is not itself a drop.
        """
        try:
            # Race 1: a process of rowmerge 0.1.0 is dropping the table. This marker file shows it.
            is_marked = partial(self.storage.exists, f"{FOLDER}/{DROPPED}")
            is_table_being_dropped, (paths, may_be_stale) = run_both(is_marked, partial(self._paths_and_staleness, new))
            # Race 2: another writer has put the same version under a name for compressed files, such as `v5.gz.metadata.json`.
            has_compressed_file = any(path != new.path for path in paths)
            # Race 3: another writer has put the same version before, and has deleted its file since (`may_be_stale`).
            if is_table_being_dropped and not is_dropped(new.metadata):
                for path in (new.path, HINT):  # HINT contains the version at which readers start.
                    self.folder.try_delete_files([path])  # one call for each file, because a failure ends a call
                raise TableNotFound(self._table)
            if has_compressed_file:  # The version of the other writer counts.
                self.folder.try_delete_files([new.path])
                return Put.EXISTED
            return self._verify_against_newest(new) if may_be_stale else Put.CREATED
        except (StorageError, CorruptLog) as failure:
            return Unknown(failure.message)

    def _paths_and_staleness(self, new: _NewVersion) -> tuple[list[str], bool]:
        """Return the paths of a version's files, and whether another version of this number may have been committed and deleted before.

        rowmerge deletes old metadata oldest first. So while the file of the preceding version exists, rowmerge has not deleted the file of
        the next version. Iceberg in Java deletes in any order. So a table that deletes metadata must also have no higher version.
        """
        highest_version = self.folder.highest_version if new.may_reuse_name else lambda: new.number
        if new.base is None:
            paths, highest = run_both(partial(self.folder.paths_of, new.number), highest_version)
            return paths, highest != new.number
        comparison, highest = run_both(partial(self.folder.compare, new.base), highest_version)
        return comparison.next_paths, highest != new.number or not comparison.is_unchanged

    def _verify_against_newest(self, new: _NewVersion) -> Put | Unknown:
        """Decide by the newest metadata of the table whether a version is valid or stale. Delete a stale version.

        A version is stale if another version of the same number was put first and has been deleted since. For example, a slow writer puts
        version 5 after version 9 was committed and the first file of version 5 was deleted.

        Returns:
            CREATED if the version is valid, EXISTED if it is stale, Unknown if neither is certain.
        """
        newest = self._read_newest()
        if newest is None or newest.version is None:
            return Unknown(f"{new.path} was put, but the table no longer exists")
        if newest.metadata.table_uuid != new.metadata.table_uuid:
            return self._delete_stale(new)  # Another table has replaced this one.
        if newest.version <= new.number:
            return self._delete_stale(new)  # There are no later versions. The file of this or the preceding version was replaced.
        if new.is_ancestor_of(newest.metadata):
            return Put.CREATED
        # Log entries and snapshots expire, so their absence proves nothing. But if the file of a later version was written before this
        # file, the later version follows another version of the same number.
        if self.folder.has_later_version_with_older_file(new.number, newest.version):
            return self._delete_stale(new)
        return Unknown(f"other writers have committed since, and the metadata does not show whether they follow {new.path}")

    def _delete_stale(self, new: _NewVersion) -> Literal[Put.EXISTED]:
        """Delete the file of a stale version, unless another writer has replaced it with other metadata since."""
        if self.folder.contains(new.number, new.metadata):
            self.folder.try_delete_files([new.path])
        return Put.EXISTED


@dataclass(frozen=True)
class _NewVersion:
    """A version whose file was just put, and that is not verified yet.

    `base` is the metadata of the preceding version, or None if there is no such version or it cannot be read.
    """

    base: CurrentMetadata | None
    number: int
    metadata: TableMetadata

    @property
    def path(self) -> str:
        return metadata_path(self.number)

    @property
    def may_reuse_name(self) -> bool:
        """Return whether its file may have the name of a deleted file: its table, or a dropped one, deletes old metadata."""
        if self.base is None or _deletes_metadata(self.base.metadata):
            return True
        return DROPPED_TABLE in self.base.metadata.properties or DROPPED_TABLE in self.metadata.properties

    def is_ancestor_of(self, newest: TableMetadata) -> bool:
        """Return whether later metadata lists this version's file in its metadata log, or has a snapshot that this version added."""
        if any(entry.metadata_file.endswith(f"/{self.path}") for entry in newest.metadata_log):
            return True
        base_snapshots = () if self.base is None else self.base.metadata.snapshots
        added_ids = {snapshot.snapshot_id for snapshot in self.metadata.snapshots} - {snapshot.snapshot_id for snapshot in base_snapshots}
        return any(newest.snapshot_by_id(snapshot_id) is not None for snapshot_id in added_ids)


def is_dropped(metadata: TableMetadata) -> bool:
    """Return whether this is the metadata of a dropped table. `is_iceberg_drop` applies the same rule to JSON."""
    return metadata.properties.get(DROPPED_TABLE) == "true" and not metadata.metadata_log and not metadata.snapshots


def _first_version_after(newest: CurrentMetadata | None) -> int | None:
    """Return the first version of a new table after `newest`, or None if `newest` is a version of an existing table."""
    if newest is None:
        return 1
    return (newest.version or 0) + 1 if is_dropped(newest.metadata) else None


def _deletes_metadata(metadata: TableMetadata) -> bool:
    return metadata.properties.get(DELETE_AFTER_COMMIT.name, "false").strip().lower() == "true"
