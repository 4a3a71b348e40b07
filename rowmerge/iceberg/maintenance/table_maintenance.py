"""What keeps an Iceberg table in shape, apart from its rows."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyiceberg.table.update import TableUpdate

from rowmerge.errors import VersionNotFound
from rowmerge.iceberg.catalogs.operations import Current, TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates, newest
from rowmerge.iceberg.maintenance.branches import dropping, forwarding, referred, setting
from rowmerge.iceberg.maintenance.rewriting import DeleteRewriting, ManifestRewriting
from rowmerge.iceberg.maintenance.vacuum import Vacuum
from rowmerge.iceberg.metadata.refs import ancestors
from rowmerge.table.maintenance import Expired, ExpiryOptions, RewrittenDeletes, RewrittenManifests, SnapshotReference


@dataclass(frozen=True)
class IcebergUpkeep:
    """Implements `rowmerge.table.maintenance.SnapshotUpkeep`."""

    operations: TableOperations
    table: str

    def expire(self, options: ExpiryOptions) -> Expired:
        return self._vacuum.expire(options)

    def remove_orphan_files(self, older_than: int | None, *, dry_run: bool) -> tuple[str, ...]:
        return self._vacuum.remove_orphans(older_than, dry_run=dry_run)

    def rewrite_manifests(self) -> RewrittenManifests:
        rewriting = ManifestRewriting(self.operations, self.table)
        rewriting.commit()
        return rewriting.done

    def rewrite_position_deletes(self) -> RewrittenDeletes:
        rewriting = DeleteRewriting(self.operations, self.table)
        rewriting.commit()
        return rewriting.done

    def ancestor(self, *, snapshot_id: int | None = None, before: int | None = None) -> int:
        metadata = newest(self.operations, self.table).metadata
        by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        for snapshot in ancestors(by_id, metadata.current_snapshot_id):
            if snapshot.snapshot_id == snapshot_id or (before is not None and snapshot.timestamp_ms < before):
                return snapshot.snapshot_id
        if snapshot_id is not None:
            known = "is no ancestor of the newest snapshot" if snapshot_id in by_id else "is not there, or expired"
            raise VersionNotFound(f"The snapshot {snapshot_id} of {self.table} {known}. See DESCRIBE HISTORY {self.table}.")
        raise VersionNotFound(f"{self.table} has no snapshot older than {before} (ms since 1970). Choose a later time.")

    def named(self, reference: str) -> int:
        return referred(self.table, newest(self.operations, self.table).metadata, reference).snapshot_id

    def set_reference(self, reference: SnapshotReference, *, create: bool, replace: bool, if_not_exists: bool) -> None:
        def made(current: Current) -> tuple[TableUpdate, ...]:
            return setting(self.table, current, reference, create=create, replace=replace, if_not_exists=if_not_exists)

        commit_updates(self.operations, self.table, f"the reference {reference.name}", made)

    def fast_forward(self, branch: str, to: str) -> tuple[int | None, int]:
        moved: list[tuple[int | None, int]] = []

        def made(current: Current) -> tuple[TableUpdate, ...]:
            updates, before, after = forwarding(self.table, current.metadata, branch, to)
            moved.append((before, after))
            return updates

        commit_updates(self.operations, self.table, f"the reference {branch}", made)
        return moved[-1]

    def drop_reference(self, name: str, *, tag: bool, if_exists: bool) -> None:
        def made(current: Current) -> tuple[TableUpdate, ...]:
            return dropping(self.table, current, name, tag=tag, if_exists=if_exists)

        commit_updates(self.operations, self.table, f"the reference {name}", made)

    def removed_delete_files(self, snapshot_id: int) -> int:
        snapshot = newest(self.operations, self.table).metadata.snapshot_by_id(snapshot_id)
        summary = None if snapshot is None else snapshot.summary
        return 0 if summary is None else int(summary.additional_properties.get("removed-delete-files", "0"))

    @property
    def _vacuum(self) -> Vacuum:
        return Vacuum(self.operations, self.table, time.time_ns() // 1_000_000)
