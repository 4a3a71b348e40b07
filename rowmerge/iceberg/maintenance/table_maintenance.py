"""The maintenance procedures of an Iceberg table, which change no rows."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rowmerge.errors import VersionNotFound
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import newest
from rowmerge.iceberg.maintenance.rewriting import DeleteRewriting, ManifestRewriting
from rowmerge.iceberg.maintenance.vacuum import Vacuum
from rowmerge.iceberg.metadata.refs import ancestors
from rowmerge.table.maintenance import Expired, ExpiryOptions, RewrittenDeletes, RewrittenManifests


@dataclass(frozen=True)
class IcebergMaintenance:
    """Implements `rowmerge.table.maintenance.TableMaintenance`."""

    operations: TableOperations
    table: str

    def expire(self, options: ExpiryOptions) -> Expired:
        return self._vacuum.expire(options)

    def remove_orphan_files(self, older_than: int | None, *, dry_run: bool) -> tuple[str, ...]:
        return self._vacuum.remove_orphans(older_than, dry_run=dry_run)

    def rewrite_manifests(self) -> RewrittenManifests:
        return ManifestRewriting(self.operations, self.table).commit()

    def rewrite_position_deletes(self) -> RewrittenDeletes:
        return DeleteRewriting(self.operations, self.table).commit()

    def ancestor(self, *, snapshot_id: int | None = None, before: int | None = None) -> int:
        metadata = newest(self.operations, self.table).metadata
        for snapshot in ancestors(metadata, metadata.current_snapshot_id):
            if snapshot.snapshot_id == snapshot_id or (before is not None and snapshot.timestamp_ms < before):
                return snapshot.snapshot_id
        if snapshot_id is not None:
            is_there = metadata.snapshot_by_id(snapshot_id) is not None
            reason = "is no ancestor of the newest snapshot" if is_there else "is not there, or expired"
            raise VersionNotFound(f"The snapshot {snapshot_id} of {self.table} {reason}. See DESCRIBE HISTORY {self.table}.")
        raise VersionNotFound(f"{self.table} has no snapshot older than {before} (ms since 1970). Choose a later time.")

    def removed_delete_files(self, snapshot_id: int) -> int:
        snapshot = newest(self.operations, self.table).metadata.snapshot_by_id(snapshot_id)
        summary = None if snapshot is None else snapshot.summary
        return 0 if summary is None else int(summary.additional_properties.get("removed-delete-files", "0"))

    @property
    def _vacuum(self) -> Vacuum:
        return Vacuum(self.operations, self.table, time.time_ns() // 1_000_000)
