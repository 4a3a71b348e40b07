"""The procedures of Iceberg that maintain the snapshots, manifests, delete files and statistics of one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowmerge.errors import PlanError, VersionNotFound
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import newest
from rowmerge.iceberg.maintenance.rewriting import DeleteRewriting, ManifestRewriting
from rowmerge.iceberg.maintenance.vacuum import Vacuum
from rowmerge.iceberg.metadata.refs import ancestors, summary_properties
from rowmerge.iceberg.statistics.partition_statistics import put_partition_statistics
from rowmerge.iceberg.statistics.table_statistics import put_table_statistics
from rowmerge.table.maintenance import (
    ALL_DELETE_FILES,
    ALL_MANIFESTS,
    DeleteRewriteOptions,
    DistinctValues,
    Expired,
    ExpiryOptions,
    ManifestRewriteOptions,
    OrphanOptions,
    RewrittenDeletes,
    RewrittenManifests,
)


@dataclass(frozen=True)
class IcebergMaintenance:
    """Implements `rowmerge.table.maintenance.TableMaintenance`."""

    operations: TableOperations
    table: str

    def expire(self, options: ExpiryOptions) -> Expired:
        return Vacuum(self.operations, self.table).expire(options)

    def remove_orphan_files(self, options: OrphanOptions) -> tuple[str, ...]:
        return Vacuum(self.operations, self.table).remove_orphans(options)

    def rewrite_manifests(self, options: ManifestRewriteOptions = ALL_MANIFESTS) -> RewrittenManifests:
        return ManifestRewriting(self.operations, self.table, options).commit()

    def rewrite_position_deletes(self, options: DeleteRewriteOptions = ALL_DELETE_FILES) -> RewrittenDeletes:
        return DeleteRewriting(self.operations, self.table, options).commit()

    def write_table_statistics(self, snapshot_id: int, columns: Mapping[tuple[str, ...], DistinctValues]) -> str:
        """Store the sketches of columns of a snapshot, and return the absolute path of the file.

        Args:
            snapshot_id: The id of the snapshot.
            columns: The sketches by the path of the column.
        """
        return put_table_statistics(self.operations, self.table, snapshot_id, columns)

    def write_partition_statistics(self, snapshot_id: int) -> str | None:
        return put_partition_statistics(self.operations, self.table, snapshot_id)

    def check_current_spec(self, spec_id: int) -> None:
        metadata = newest(self.operations, self.table).metadata
        if spec_id != metadata.default_spec_id:
            problem = f"New files of {self.table} have the current partition spec {metadata.default_spec_id}, not {spec_id}."
            raise PlanError(f"{problem} Leave out the id, or change the partitioning with ALTER TABLE first.")

    def ancestors(self, snapshot_id: int | None) -> list[tuple[int, int]]:
        """Return the id and the time of a snapshot and of its ancestors, newest first. None is the current snapshot."""
        metadata = newest(self.operations, self.table).metadata
        first_id = metadata.current_snapshot_id if snapshot_id is None else snapshot_id
        return [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in ancestors(metadata, first_id)]

    def check_ancestor(self, snapshot_id: int) -> int:
        """Return the id of a snapshot after checking that it is the current snapshot or one of its ancestors.

        Raises:
            VersionNotFound: The snapshot does not exist, or is not an ancestor of the current one.
        """
        metadata = newest(self.operations, self.table).metadata
        if any(snapshot.snapshot_id == snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)):
            return snapshot_id
        exists = metadata.snapshot_by_id(snapshot_id) is not None
        reason = "is not an ancestor of the newest snapshot" if exists else "does not exist or has expired"
        raise VersionNotFound(f"The snapshot {snapshot_id} of {self.table} {reason}. See DESCRIBE HISTORY {self.table}.")

    def newest_ancestor_before(self, timestamp: int) -> int:
        """Return the id of the newest snapshot before a time (milliseconds since the epoch): the current snapshot or an ancestor.

        Raises:
            VersionNotFound: There is no such snapshot.
        """
        metadata = newest(self.operations, self.table).metadata
        for snapshot in ancestors(metadata, metadata.current_snapshot_id):
            if snapshot.timestamp_ms < timestamp:
                return snapshot.snapshot_id
        raise VersionNotFound(f"{self.table} has no snapshot older than {timestamp} (ms since 1970). Choose a later time.")

    def removed_delete_files(self, snapshot_id: int) -> int:
        snapshot = newest(self.operations, self.table).metadata.snapshot_by_id(snapshot_id)
        return int(summary_properties(snapshot).get("removed-delete-files", "0"))
