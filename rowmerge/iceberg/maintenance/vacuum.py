"""VACUUM, its two steps, and the other maintenance procedures, which change no rows.

VACUUM first expires old snapshots and deletes their files. Then it deletes orphan files, to which nothing refers.

The steps follow Iceberg's ExpireSnapshots and DeleteOrphanFiles. One commit removes the snapshots first. So no reader sees a snapshot
without its files, even if the process is killed, and the remaining files are orphans. The files of running statements are protected by
their age.

Metadata files are deleted oldest first. So a slow writer can verify after its put whether its version is stale (`DirectoryOperations`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from pyiceberg.table.update import TableUpdate

from rowmerge.errors import PlanError, TableError
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import check_writable, commit_updates, newest
from rowmerge.iceberg.maintenance.expiry import check_gc_enabled, expiry_updates, unused_definition_updates
from rowmerge.iceberg.maintenance.orphans import OrphanRule, has_other_table, with_checksums
from rowmerge.iceberg.maintenance.reachable import FileKind, file_key, files_of_expired_snapshots, needed_files
from rowmerge.iceberg.metadata.properties import file_locations
from rowmerge.iceberg.metadata.updates import apply_updates
from rowmerge.storage.deletion import PathOrigin, deletable_files, delete_files
from rowmerge.storage.store import StoredObject
from rowmerge.table.maintenance import (
    Expired,
    ExpiryOptions,
    OrphanOptions,
    Vacuumed,
    VacuumOptions,
)

_HOUR = 3_600_000
_DAY = 24 * _HOUR
ORPHANS_AFTER = 3 * _DAY
"""The age in milliseconds after which no running statement needs an unreferenced file, as in Iceberg."""


class _Listing(NamedTuple):
    """The objects in a table's folder, and which of them may be orphans."""

    objects: Sequence[StoredObject]
    options: OrphanOptions


@dataclass(frozen=True)
class _Expiry:
    """The metadata after an expiry of snapshots, the updates that lead to it, and the files that only the expired snapshots need."""

    new_metadata: CurrentMetadata
    updates: tuple[TableUpdate, ...] = ()
    files: Mapping[str, FileKind] = field(default_factory=dict)


@dataclass
class Vacuum:
    """Runs VACUUM, or one of its steps, on a table. `now` is in milliseconds since the epoch."""

    operations: TableOperations
    table: str
    now: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def __post_init__(self) -> None:
        self.storage = self.operations.storage
        self._last_needed: tuple[CurrentMetadata, Mapping[str, FileKind]] | None = None
        """The metadata for which the needed files were read last, and these files."""

    def run(self, options: VacuumOptions) -> Vacuumed:
        """Expire snapshots, delete their files and the orphan files, and return the paths of these files.

        A dry run performs the same steps, but commits no expiry and deletes no files.

        Raises PlanError if the retention is not safe, and UnsupportedTableFeature if rowmerge does not support the table. Raises
        StorageError if a file cannot be read or deleted.
        """
        self._check_retention(options)
        retained_since = None if options.retain_hours is None else self.now - int(options.retain_hours * _HOUR)
        # The listing comes before the metadata. So a file of a later commit is either not in the listing, or known from the metadata.
        listing = self._list_objects(retained_since, () if options.lite else options.inventory)
        # Step 1: expire snapshots.
        if options.dry_run:
            expiry = self._plan_expiry(newest(self.operations, self.table), ExpiryOptions(retained_since))
        else:
            expiry = self._expire(ExpiryOptions(retained_since))
        # Step 2: find the files. A file of an expired snapshot is not an orphan, although no snapshot of the new metadata needs it.
        snapshot_files = self._deletable_files_of_expired_snapshots(expiry)
        orphans = [path for path in self._orphans(expiry.new_metadata, listing) if path not in expiry.files]
        # Step 3: delete the files.
        if not options.dry_run:
            self._delete_expired(snapshot_files)
            self._delete_orphans(orphans, expiry.new_metadata, listing)
        paths = (*chain.from_iterable(snapshot_files.values()), *orphans)
        return Vacuumed(paths, expiry.new_metadata.metadata.current_snapshot_id or 0)

    def expire(self, options: ExpiryOptions) -> Expired:
        """Expire snapshots, and delete the files that only they need.

        Raises the errors of `run`, and PlanError for a snapshot that must stay.
        """
        expiry = self._expire(options)
        snapshot_files = self._deletable_files_of_expired_snapshots(expiry)
        self._delete_expired(snapshot_files)
        counts = Counter(expiry.files[path] for path in chain.from_iterable(snapshot_files.values()))
        return Expired(*(counts[kind] for kind in FileKind))  # the fields of Expired have the order of FileKind

    def remove_orphans(self, options: OrphanOptions) -> tuple[str, ...]:
        """Delete the orphan files that were written before a time, and return their absolute paths.

        An orphan is a file in the table's folder to which neither the metadata nor a snapshot refers. In a dry run, no file is deleted.

        Raises:
            LiveFileProtected: An orphan is a live file under another path, for example by a symbolic link. No file has been deleted.
            PlanError: The table property `gc.enabled` is false, or the metadata refer to a file by another scheme or authority.
            StorageError: A file cannot be read or deleted.
        """
        check_gc_enabled(self.table, newest(self.operations, self.table).metadata)
        # Read the metadata again after the listing, which may take minutes. A file of a commit during the listing is then no orphan.
        listing = _Listing(self.storage.list(), options)
        current = newest(self.operations, self.table)
        orphans = self._orphans(current, listing)
        if not options.dry_run:
            self._delete_orphans(orphans, checked=current, listing=listing)  # checks them again after a concurrent commit
        return tuple(orphans)

    def _check_retention(self, options: VacuumOptions) -> None:
        hours = options.retain_hours
        if options.check_retention and hours is not None and hours * _HOUR < _DAY:
            raise PlanError(
                f"VACUUM {self.table} RETAIN {hours:g} HOURS is shorter than 24 hours: running statements and readers of older snapshots "
                f"could lose their files. Retain 24 hours or more. If no other process uses the table, you can instead "
                f"SET spark.databricks.delta.retentionDurationCheck.enabled = false."
            )

    def _list_objects(self, orphans_before: int | None, inventory: Sequence[StoredObject] | None = None) -> _Listing:
        """Return the objects in the table's folder. `inventory`: the objects if they are listed already, which need not be all."""
        objects = self.storage.list() if inventory is None else inventory
        older_than = self.now - ORPHANS_AFTER if orphans_before is None else orphans_before
        return _Listing(objects, OrphanOptions(older_than))

    def _plan_expiry(self, current: CurrentMetadata, options: ExpiryOptions) -> _Expiry:
        """Return the expiry of snapshots from the current metadata, without a commit. The expiry has no updates if no snapshot expires."""
        check_writable(self.table, current)
        check_gc_enabled(self.table, current.metadata)
        updates = expiry_updates(self.table, current.metadata, options, self.now)
        if options.cleans_metadata:
            remaining = apply_updates(current.metadata, updates) if updates else current.metadata
            updates = (*updates, *unused_definition_updates(self.storage, remaining))
        if not updates:
            return _Expiry(current)
        metadata = apply_updates(current.metadata, updates, location=current.path)
        new_metadata = CurrentMetadata(metadata, current.path, current.version)
        return _Expiry(new_metadata, updates, files_of_expired_snapshots(self.storage, current.metadata, metadata))

    def _expire(self, options: ExpiryOptions) -> _Expiry:
        """Commit the expiry of snapshots, and return it with the files that only the expired snapshots need.

        After a lost race, `commit_updates` calls `plan_updates` again with the newest metadata. The last plan is the committed one.
        """
        plans: list[_Expiry] = []

        def plan_updates(current: CurrentMetadata) -> tuple[TableUpdate, ...]:
            plan = self._plan_expiry(current, options)
            plans.append(plan)
            return plan.updates

        base = commit_updates(self.operations, self.table, "the expiry of snapshots", plan_updates)
        if base is None:  # No snapshot expires, so there was no commit.
            return _Expiry(newest(self.operations, self.table))
        # Another writer may have committed a snapshot in the meantime that still needs a file of an expired snapshot.
        needed_paths = self._files_of_unplanned_snapshots(plans)
        committed_plan = plans[-1]
        files = {path: kind for path, kind in committed_plan.files.items() if path not in needed_paths}
        return _Expiry(new_metadata=newest(self.operations, self.table), updates=committed_plan.updates, files=files)

    def _files_of_unplanned_snapshots(self, plans: Sequence[_Expiry]) -> Mapping[str, FileKind]:
        """Return the files that are needed by snapshots which no plan contains, because other writers have committed them since."""
        metadata = newest(self.operations, self.table).metadata
        planned_ids = {snapshot.snapshot_id for plan in plans for snapshot in plan.new_metadata.metadata.snapshots}
        unplanned_snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in planned_ids]
        return needed_files(self.storage, metadata, unplanned_snapshots)

    def _deletable_files_of_expired_snapshots(self, expiry: _Expiry) -> dict[FileKind, list[str]]:
        """Return the expired files that may be deleted, by kind. Each kind comes before the files that contain its paths."""
        locations = file_locations(expiry.new_metadata.metadata.properties)
        by_kind = {kind: [path for path, file_kind in expiry.files.items() if file_kind is kind] for kind in FileKind}
        return {kind: deletable_files(self.storage, paths, locations) for kind, paths in by_kind.items() if paths}

    def _delete_expired(self, snapshot_files: Mapping[FileKind, Sequence[str]]) -> None:
        if not any(snapshot_files.values()):
            return
        current = newest(self.operations, self.table)
        groups = [with_checksums(paths) for paths in snapshot_files.values()]
        locations = file_locations(current.metadata.properties)
        delete_files(self.storage, groups, PathOrigin.METADATA, locations=locations, live_paths=self._live(current))

    def _live(self, current: CurrentMetadata) -> list[str]:
        """Return every file that the table needs, including its metadata files."""
        log = (entry.metadata_file for entry in current.metadata.metadata_log)
        return [*self._needed(current), *(path for path in (current.path, *log) if path)]

    def _needed(self, current: CurrentMetadata) -> Mapping[str, FileKind]:
        if self._last_needed is None or self._last_needed[0] is not current:
            self._last_needed = current, needed_files(self.storage, current.metadata)
        return self._last_needed[1]

    def _orphans(self, current: CurrentMetadata, listing: _Listing) -> list[str]:
        """Return the absolute paths of the orphans in a listing. Read the needed files only if an object is old enough."""
        candidates = listing.options.candidates(self.storage.location, listing.objects)
        if not candidates:
            return []
        if has_other_table(self.storage, current, listing.objects) and (others := self.operations.tables_in_folder()):
            problem = f"The files of {', '.join(others)} are in the same folder as those of {self.table}, {self.storage.location}"
            reason = "so their orphan files cannot be told apart. A catalog gave the folder of a renamed table to another one"
            raise TableError(f"{problem}, {reason}. Copy one of them with CREATE TABLE … AS SELECT, and drop it.")
        rule = OrphanRule(self.storage.location, current, self._needed(current).keys(), listing.objects, listing.options.prefixes)
        return [file_key(f"{self.storage.location}/{path}") for path in rule.select(candidates)]

    def _delete_orphans(self, orphans: Sequence[str], checked: CurrentMetadata, listing: _Listing) -> None:
        """Delete the files that are still orphans. `checked` is the metadata from which they were determined."""
        current = newest(self.operations, self.table)
        # Others may have committed while the needed files were read.
        still_orphans = orphans if current is checked else set(self._orphans(current, listing))
        paths = [path for path in orphans if path in still_orphans]
        if paths:
            delete_files(self.storage, [paths], PathOrigin.LISTING, live_paths=self._live(current))
