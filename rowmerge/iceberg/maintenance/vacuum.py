"""VACUUM and its two parts: old snapshots expire and their files go, and so do files that nothing refers to.

Models: Iceberg's ExpireSnapshots and DeleteOrphanFiles. Snapshots leave in one commit first, so that nobody meets a snapshot of which files
are gone, wherever this is killed; what is left behind then is an orphan. A file that a statement is about to commit is safe by its age.

Metadata files are deleted oldest first. So a writer that slept can verify after its put whether another version had the name that it found
free (`DirectoryOperations`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.table.update import TableUpdate

from rowmerge.errors import PlanError
from rowmerge.iceberg.catalogs.operations import Current, TableOperations
from rowmerge.iceberg.commits.metadata_commit import check_writable, commit_updates, newest
from rowmerge.iceberg.maintenance.expiry import check_collectable, expiring
from rowmerge.iceberg.maintenance.orphans import orphans, with_checksums
from rowmerge.iceberg.maintenance.reachable import FileKind, file_key, needed_files, only_expired
from rowmerge.iceberg.metadata.properties import file_locations
from rowmerge.iceberg.metadata.updates import apply_updates
from rowmerge.storage.deletion import Origin, deletable_files, delete_files
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.maintenance import Expired, ExpiryOptions, Vacuumed, VacuumOptions

_HOUR = 3_600_000
_DAY = 24 * _HOUR
ORPHANS_AFTER = 3 * _DAY
"""Milliseconds after which a file that nothing refers to is no running statement's, as Iceberg has it."""


@dataclass(frozen=True)
class Vacuum:
    """One of the three on one table; `now` in milliseconds since the epoch."""

    operations: TableOperations
    table: str
    now: int
    _last_needed: list[tuple[Current, Mapping[str, FileKind]]] = field(default_factory=list, init=False, repr=False, compare=False)
    """The metadata for which the needed files were read last, and these files."""

    @property
    def storage(self) -> Storage:
        return self.operations.storage

    def run(self, options: VacuumOptions) -> Vacuumed:
        """Expire snapshots and delete orphans. Raises PlanError for a retention that is not safe, UnsupportedTableFeature, StorageError."""
        self._check_retention(options)
        older_than = None if options.retain_hours is None else self.now - int(options.retain_hours * _HOUR)
        expiry, before = ExpiryOptions(older_than), self.now - ORPHANS_AFTER if older_than is None else older_than
        # Listed first: what is committed after the listing is either not in it or in the version that is looked at then.
        found = self.storage.list()
        if options.dry_run:
            _, after, expired = self._expired_by(newest(self.operations, self.table), expiry)
        else:
            expired = self._expire(expiry)
            after = newest(self.operations, self.table)
        going = self._deletable(expired, after)
        left = [path for path in self._orphans(after, found, before) if self._absolute(path) not in expired]
        if not options.dry_run:
            self._delete_expired(going)
            self._delete_orphans(left, after, found, before)
        told = (*(path for paths in going.values() for path in paths), *map(self._absolute, left))
        return Vacuumed(told, after.metadata.current_snapshot_id or 0)

    def expire(self, options: ExpiryOptions) -> Expired:
        """Only the snapshots and what they alone needed. Raises as `run`, and PlanError for a snapshot that must stay."""
        expired = self._expire(options)
        going = self._deletable(expired, newest(self.operations, self.table))
        self._delete_expired(going)
        counts = Counter(expired[path] for paths in going.values() for path in paths)
        return Expired(*(counts[kind] for kind in FileKind))

    def remove_orphans(self, older_than: int | None, *, dry_run: bool) -> tuple[str, ...]:
        """Only files that nothing refers to, written before a time. Absolute paths. Raises as `run`."""
        check_collectable(self.table, newest(self.operations, self.table).metadata)
        before = self.now - ORPHANS_AFTER if older_than is None else older_than
        found = self.storage.list()
        current = newest(self.operations, self.table)
        left = self._orphans(current, found, before)
        if not dry_run:
            self._delete_orphans(left, current, found, before)
        return tuple(map(self._absolute, left))

    # ------------------------------------------------------------------ snapshots

    def _check_retention(self, options: VacuumOptions) -> None:
        hours = options.retain_hours
        if options.check_retention and hours is not None and hours * _HOUR < _DAY:
            raise PlanError(
                f"VACUUM {self.table} RETAIN {hours:g} HOURS is shorter than 24 hours: statements that are running and readers of older "
                f"snapshots could lose their files. Retain 24 hours or more, or, when nobody else uses the table, "
                f"SET spark.databricks.delta.retentionDurationCheck.enabled = false."
            )

    def _expired_by(self, current: Current, options: ExpiryOptions) -> tuple[tuple[TableUpdate, ...], Current, dict[str, FileKind]]:
        """The updates, the table after them, and the files that the expired snapshots alone need."""
        check_writable(self.table, current)
        check_collectable(self.table, current.metadata)
        updates = expiring(self.table, current.metadata, options, self.now)
        if not updates:
            return (), current, {}
        metadata = apply_updates(current.metadata, updates, location=current.path)
        return updates, Current(metadata, current.path, current.version), only_expired(self.storage, current.metadata, metadata)

    def _expire(self, options: ExpiryOptions) -> dict[str, FileKind]:
        """Commit it; what the expired snapshots alone needed. Everything is read before anything is committed."""
        expired: dict[str, FileKind] = {}
        known: set[int] = set()

        def made(current: Current) -> tuple[TableUpdate, ...]:
            updates, after, files = self._expired_by(current, options)
            known.update(snapshot.snapshot_id for snapshot in after.metadata.snapshots)
            expired.clear()
            expired.update(files)
            return updates

        if commit_updates(self.operations, self.table, "the expiry of snapshots", made) is None:
            return {}
        # Others may have committed since: nothing of theirs goes, whatever they did.
        metadata = newest(self.operations, self.table).metadata
        needed = needed_files(self.storage, metadata, [s for s in metadata.snapshots if s.snapshot_id not in known])
        return {path: kind for path, kind in expired.items() if path not in needed}

    # ------------------------------------------------------------------ files

    def _deletable(self, expired: Mapping[str, FileKind], current: Current) -> dict[FileKind, list[str]]:
        """Return the files in the table's own places by kind, each kind before the kinds that name it. All other files stay."""
        locations = file_locations(current.metadata.properties)
        by_kind = {kind: [path for path, known in expired.items() if known is kind] for kind in FileKind}
        return {kind: deletable_files(self.storage, paths, locations) for kind, paths in by_kind.items() if paths}

    def _delete_expired(self, going: Mapping[FileKind, Sequence[str]]) -> None:
        if not any(going.values()):
            return
        current = newest(self.operations, self.table)
        groups = [with_checksums(paths) for paths in going.values()]
        locations = file_locations(current.metadata.properties)
        delete_files(self.storage, groups, Origin.NAMED, locations=locations, live=self._live(current))

    def _live(self, current: Current) -> list[str]:
        """Return every file that the table needs, its metadata files included."""
        log = (entry.metadata_file for entry in current.metadata.metadata_log)
        return [*self._needed(current), *(path for path in (current.path, *log) if path)]

    def _needed(self, current: Current) -> Mapping[str, FileKind]:
        if not self._last_needed or self._last_needed[0][0] is not current:
            self._last_needed[:] = [(current, needed_files(self.storage, current.metadata))]
        return self._last_needed[0][1]

    def _orphans(self, current: Current, found: Sequence[StoredObject], before: int) -> list[str]:
        if not any(candidate.modified < before for candidate in found):
            return []
        return orphans(self.storage.location, current, self._needed(current).keys(), found, before)

    def _delete_orphans(self, left: Sequence[str], seen: Current, found: Sequence[StoredObject], before: int) -> None:
        """After another look: the table may have become another one while the needed files were counted."""
        current = newest(self.operations, self.table)
        still = left if current is seen else set(self._orphans(current, found, before))
        paths = [self._absolute(path) for path in left if path in still]
        if paths:
            delete_files(self.storage, [paths], Origin.LISTED, live=self._live(current))

    def _absolute(self, below: str) -> str:
        return file_key(f"{self.storage.location}/{below}")
