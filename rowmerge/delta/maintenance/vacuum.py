"""VACUUM: find the files in a table's folder that no version needs, and delete them.

The newest version needs its files. Older versions within the retention period need files that have unexpired tombstones, or that commits
within this period removed or recorded as change data. VACUUM never deletes a file that is younger than the retention period, because a
running statement may still commit it. Older files of interrupted statements are deleted.

VACUUM keeps files with hidden names, except change data and temporary files in the log. Files outside the table's folder are kept.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.delta.files.columns import VECTOR
from rowmerge.delta.log.log_files import LOG, LogListing, list_and_read, list_log, read_commits
from rowmerge.delta.log.ndjson import cdc_actions, file_actions, non_file_actions
from rowmerge.delta.maintenance.removed_files import paths_below, put_last_vacuum, removed_files
from rowmerge.delta.metadata.properties import tombstone_retention
from rowmerge.delta.snapshots.deletion_vectors import file_and_vector_paths
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import CommitStateUnknown, PlanError, RowmergeError
from rowmerge.storage.deletion import PathOrigin, delete_files
from rowmerge.storage.disk import is_temporary
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.commits.drop_markers import has_markers
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Outcome, Unknown
from rowmerge.table.maintenance import Vacuumed, VacuumOptions, inner_table_prefixes

_DATA_FOLDERS = ("_change_data", "_delta_index")
"""Folders with hidden names whose files VACUUM may delete."""
_NO_VECTORS = pa.chunked_array([], VECTOR)
_BATCH = 500
_ATTEMPTS = 5
_HOUR_MILLIS = 3_600_000
_S3_SCHEME = re.compile(r"^s3[an]?://")


@dataclass(frozen=True)
class Vacuum:
    """One VACUUM of a table.

    `newest`: a function that opens the newest version. `commit`: a function that commits a request on top of a version. `now`: the current
    time in milliseconds since the epoch.
    """

    storage: Storage
    table: str
    newest: Callable[[], DeltaSnapshot]
    commit: Callable[[DeltaSnapshot, CommitRequest], Outcome]
    options: VacuumOptions
    now: int

    def run(self) -> Vacuumed:
        """Delete the files that no version needs, or only list them if `options.dry_run` is set.

        Raises:
            UnsupportedTableFeature: rowmerge cannot write to the table.
            PlanError: The retention period is too short.
            StorageError: A file could not be listed, read or deleted.
            CommitStateUnknown: The store did not report whether a commit for the history succeeded.
        """
        # An error for a protected table or a short retention comes before the listing, which takes long.
        snapshot_before_listing = self.newest()
        snapshot_before_listing.check_writable()
        orphans = self.options.orphans
        cut_off = self.now - self._retention(snapshot_before_listing) if orphans is None else orphans.older_than
        # The folder is listed before the version is opened. So a listed file of a concurrent commit is a file of that version.
        newest_old_version, listed_files = self._list(snapshot_before_listing, cut_off)
        snapshot = self.newest()
        needed_paths = self._needed_paths(snapshot, 0 if orphans else cut_off)  # all versions in the log need their files
        candidates = listed_files if orphans is None else orphans.candidates(self.storage.location, listed_files)
        old_files = [file for file in candidates if file.modified < cut_off and file.path not in needed_paths]
        unneeded_files = list(_select_deletable(listed_files, old_files, snapshot))
        paths = tuple(f"{self.storage.location}/{file.path}" for file in unneeded_files)
        if self.options.dry_run:
            return Vacuumed(paths, snapshot.version)
        sizes = {"numFilesToDelete": len(unneeded_files), "sizeOfDataToDelete": sum(file.size for file in unneeded_files)}
        self._record("VACUUM START", self._parameters(snapshot), sizes)
        version = self._delete(unneeded_files, listed_files)
        if newest_old_version is not None and orphans is None:  # removed files stay, so a later LITE has to look for them
            put_last_vacuum(self.storage, newest_old_version)
        return Vacuumed(paths, version)

    def _list(self, snapshot: DeltaSnapshot, cut_off: int) -> tuple[int | None, list[StoredObject]]:
        """Return the files that may be deleted, with the newest version before `cut_off` (milliseconds since the epoch).

        These are the files in the table's folder, in the inventory or, for LITE, those that versions before `cut_off` have removed.
        """
        log = list_log(self.storage)
        old_versions = [version for version, commit in sorted(log.commits.items()) if commit.modified < cut_off]
        newest_old_version = max(old_versions, default=None)
        if self.options.inventory is not None:
            return None, list(self.options.inventory)  # which may lack removed files, so a later LITE has to look for them
        if not self.options.lite:
            return newest_old_version, self.storage.list()
        return newest_old_version, removed_files(self.storage, self.table, snapshot.partition_columns, old_versions)

    def _retention(self, snapshot: DeltaSnapshot) -> int:
        """Return the retention period in milliseconds. Raises PlanError if it is shorter than that in the table's properties."""
        safe_retention = tombstone_retention(snapshot.settings.properties)
        if self.options.retain_hours is None:
            return safe_retention
        retention = round(self.options.retain_hours * _HOUR_MILLIS)
        if self.options.check_retention and retention < safe_retention:
            safe_hours = math.ceil(safe_retention / _HOUR_MILLIS)
            raise PlanError(
                f"VACUUM {self.table} RETAIN {self.options.retain_hours:g} HOURS is shorter than the table's retention period of "
                f"{safe_hours} hours. Running statements and readers of older versions could lose their files. Retain {safe_hours} hours "
                f"or more, or lower the table property delta.deletedFileRetentionDuration. If no other client uses the table, "
                f"SET spark.databricks.delta.retentionDurationCheck.enabled = false."
            )
        return retention

    def _needed_paths(self, snapshot: DeltaSnapshot, cut_off: int) -> set[str]:
        """Return the relative paths of files in the table's folder that a version within the retention period needs."""
        tombstones = snapshot.state.tombstones
        unexpired = tombstones.filter(pc.greater_equal(pc.fill_null(tombstones["deletionTimestamp"], 0), cut_off))
        needed_paths = referenced_paths(snapshot) | paths_below(self.storage.location, unexpired["path"], unexpired["deletionVector"])
        return needed_paths | list_and_read(self.storage, lambda listing: self._paths_in_commits(listing, snapshot, cut_off))

    def _paths_in_commits(self, listing: LogListing, snapshot: DeltaSnapshot, cut_off: int) -> set[str]:
        """Return the relative paths of files in the table's folder that commits removed or recorded as change data since `cut_off`."""
        paths: set[str] = set()
        versions = [version for version in sorted(listing.commits) if listing.commits[version].modified >= cut_off]
        for _, commit in read_commits(self.storage, versions, batch_size=_BATCH):
            non_file_actions(commit)  # raises CorruptLog for lines that `file_actions` does not check
            removes = file_actions([commit], snapshot.partition_columns).removes
            paths |= paths_below(self.storage.location, removes["path"], removes["deletionVector"])
            change_files = [action["cdc"]["path"] for action in cdc_actions(commit)]
            paths |= paths_below(self.storage.location, pa.chunked_array([change_files], pa.string()), _NO_VECTORS)
        return paths

    def _parameters(self, snapshot: DeltaSnapshot) -> dict[str, object]:
        """Return the `operationParameters` for the commit that records the start of a VACUUM, as in delta-spark."""
        hours, default = self.options.retain_hours, tombstone_retention(snapshot.settings.properties)
        specified = {} if hours is None else {"specifiedRetentionMillis": round(hours * _HOUR_MILLIS)}
        return {"retentionCheckEnabled": self.options.check_retention, "defaultRetentionMillis": default, **specified}

    def _delete(self, unneeded_files: Sequence[StoredObject], listed_files: Sequence[StoredObject]) -> int:
        """Delete the unneeded files, record the end of the VACUUM, and return the newest version."""
        newest_snapshot = self.newest()
        # Since the files were listed, a RESTORE may have added some of them to the newest version.
        restored_paths = referenced_paths(newest_snapshot)
        paths = [f"{self.storage.location}/{file.path}" for file in unneeded_files if file.path not in restored_paths]
        self._delete_paths(paths, newest_snapshot)
        # The path of the table's own folder is an empty string.
        folders = {""} | {posixpath.dirname(file.path) for file in listed_files if not file.path.startswith(f"{LOG}/")}
        metrics = {"numDeletedFiles": len(paths), "numVacuumedDirectories": len(folders)}
        return self._record("VACUUM END", {"status": "COMPLETED"}, metrics)

    def _delete_paths(self, paths: Sequence[str], newest_snapshot: DeltaSnapshot) -> None:
        """Delete files. If this fails, record the failure in the history and raise StorageError."""
        live_files = newest_snapshot.state.files
        # A live file can be listed under another path than in the log, for example through a link. `delete_files` resolves both paths.
        live_paths = file_and_vector_paths(self.storage.location, live_files.column("path"), live_files.column("deletionVector"))
        try:
            delete_files(self.storage, [paths], PathOrigin.LISTING, live_paths=live_paths)
        except RowmergeError:
            self._record("VACUUM END", {"status": "FAILED"}, {})
            raise

    def _record(self, operation: str, parameters: dict[str, object], metrics: dict[str, int]) -> int:
        """Commit a version without file actions for the history if `options.record` is set. Return the newest version."""
        if not self.options.record:
            return self.newest().version
        match self._commit_record(CommitRequest(operation, parameters, metrics, data_change=False)):
            case Committed(version):
                return version
            case Conflicted(conflict):
                raise conflict
            case Unknown(reason):
                raise CommitStateUnknown(f"It is unknown whether {operation} of {self.table} was recorded: {reason}. Run VACUUM again.")

    def _commit_record(self, change: CommitRequest) -> Outcome:
        """Commit a request to the newest version, and retry after conflicts. Return the outcome of the last attempt."""
        for _ in range(_ATTEMPTS):
            outcome = self.commit(self.newest(), change)
            if not isinstance(outcome, Conflicted):
                break
        return outcome


def referenced_paths(snapshot: DeltaSnapshot) -> set[str]:
    """Return the relative paths of a version's data files and deletion vectors in the table's folder."""
    files = snapshot.state.files
    return paths_below(snapshot.shape.location, files.column("path"), files.column("deletionVector"))


def _select_deletable(listed_files: list[StoredObject], old_files: list[StoredObject], snapshot: DeltaSnapshot) -> Iterator[StoredObject]:
    """Yield the old files that VACUUM may delete, each followed by the `.crc` file that Hadoop writes next to it."""
    excluded_folders = foreign_folders(listed_files)
    # Paths with a hidden name (`_x` or `.x`) belong to other programs, except for the folders with these names.
    visible_prefixes = (*_DATA_FOLDERS, *_partition_prefixes(snapshot))
    checksums = {file.path: file for file in listed_files if file.path.endswith(".crc")}
    for file in old_files:
        if _is_protected(file.path, visible_prefixes) or file.path.startswith(excluded_folders):
            continue
        yield file
        folder, name = posixpath.split(file.path)
        checksum_path = posixpath.join(folder, f".{name}.crc")
        if checksum_path in checksums:
            yield checksums[checksum_path]


def _is_protected(path: str, visible_prefixes: tuple[str, ...]) -> bool:
    """Return whether VACUUM must keep a file because its path is hidden. Temporary files in the log are not kept."""
    if path.startswith(f"{LOG}/") and is_temporary(path):
        return False
    return any(name.startswith((".", "_")) and not name.startswith(visible_prefixes) for name in path.split("/"))


def foreign_folders(listed_files: list[StoredObject]) -> tuple[str, ...]:
    """Return the folders of tables inside this folder, and the metadata folder of an Iceberg table that was dropped or converted here."""
    has_metadata = any(file.path.startswith("metadata/") and ".metadata.json" in file.path for file in listed_files)
    return (*inner_table_prefixes(listed_files), *(("metadata/",) if has_metadata or has_markers(listed_files, "iceberg") else ()))


def _partition_prefixes(snapshot: DeltaSnapshot) -> tuple[str, ...]:
    """Return the path prefixes of partition folders, which are visible even if a column's name begins with `_` or `.`."""
    fields = [field for field in snapshot.schema if field.name in snapshot.partition_columns]
    stored_names = (str(field.metadata.get("delta.columnMapping.physicalName", field.name)) for field in fields)
    return tuple(f"{name}=" for name in {*snapshot.partition_columns, *stored_names})
