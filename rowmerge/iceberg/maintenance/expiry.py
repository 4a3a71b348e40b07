"""The snapshots of a table that expire: old ones that no branch or tag retains (Iceberg spec, Snapshot Retention Policy)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableUpdate,
)

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import PlanError, VersionNotFound
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list
from rowmerge.iceberg.metadata.refs import MAIN, ancestors
from rowmerge.iceberg.metadata.registry import GC_ENABLED, MAX_REF_AGE, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS
from rowmerge.storage.store import Storage
from rowmerge.table.maintenance import ExpiryOptions


@dataclass(frozen=True)
class Retention:
    """The retention of snapshots for branches without a retention of their own.

    Snapshots from the time `older_than` or later stay, and so do the `min_count` newest ones of each branch. Times and ages are in
    milliseconds.
    """

    older_than: int
    min_count: int
    max_ref_age: int
    now: int

    @classmethod
    def of(cls, properties: Mapping[str, str], options: ExpiryOptions, now: int) -> Retention:
        """Return the retention for one expiry.

        Args:
            properties: The properties of the table.
            options: The options of the statement, which override the properties.
            now: The current time in milliseconds since the epoch.

        Raises:
            ConfigurationError: A property is malformed.
            PlanError: Fewer than one snapshot would be retained.
        """
        min_count = MIN_SNAPSHOTS.value(properties) if options.retain_last is None else options.retain_last
        if min_count < 1:
            raise PlanError(f"An expiry retains at least 1 snapshot, not {min_count}. Retain 1 or more.")
        age = MAX_SNAPSHOT_AGE.value(properties)
        older_than = now - age if options.older_than is None else options.older_than
        return cls(older_than, min_count, max_ref_age=MAX_REF_AGE.value(properties), now=now)


def check_gc_enabled(table: str, metadata: TableMetadata) -> None:
    """Check that the files of a table may be deleted.

    Args:
        table: The name of the table in error messages.
        metadata: The current metadata of the table.

    Raises:
        PlanError: The table property `gc.enabled` is false, so other tables may share the files.
    """
    if not GC_ENABLED.value(metadata.properties):
        raise PlanError(
            f"Files of {table} are not deleted, because its property {GC_ENABLED.name} is false: other tables may need these files. "
            f"If no other table needs them, set the property to true: ALTER TABLE {table} SET TBLPROPERTIES ('{GC_ENABLED.name}' = 'true')."
        )


def expiry_updates(table: str, metadata: TableMetadata, options: ExpiryOptions, now: int) -> tuple[TableUpdate, ...]:
    """Return the metadata updates that expire snapshots, branches and tags (Iceberg spec, Snapshot Retention Policy).

    Args:
        table: The name of the table in error messages.
        metadata: The current metadata of the table.
        options: The options of the statement.
        now: The current time in milliseconds since the epoch.

    Raises:
        ConfigurationError: A table property is malformed.
        PlanError: A branch or tag points at a requested snapshot, or fewer than one snapshot would be retained.
        VersionNotFound: The table has no requested snapshot.
    """
    retention = Retention.of(metadata.properties, options, now)
    snapshots_by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    retained_refs = {name: ref for name, ref in metadata.refs.items() if name == MAIN or _is_young(ref, snapshots_by_id, retention)}
    _check_requested_ids(table, options.snapshot_ids, snapshots_by_id, retained_refs)
    # The requested snapshots expire even if the retention would keep them.
    retained_ids = {metadata.current_snapshot_id, *_retained_ids(metadata, retained_refs, retention)}.difference(options.snapshot_ids)
    expired_ids = [id_ for id_ in snapshots_by_id if id_ not in retained_ids]
    ref_updates = [RemoveSnapshotRefUpdate(ref_name=name) for name in metadata.refs if name not in retained_refs]
    return (*ref_updates, *_removal_updates(metadata, expired_ids))


def _removal_updates(metadata: TableMetadata, snapshot_ids: list[int]) -> list[TableUpdate]:
    """Return the updates that remove snapshots and their partition statistics."""
    if not snapshot_ids:
        return []
    statistics_ids = {file.snapshot_id for file in metadata.partition_statistics}
    statistics_updates = [RemovePartitionStatisticsUpdate(snapshot_id=id_) for id_ in snapshot_ids if id_ in statistics_ids]
    return [*statistics_updates, RemoveSnapshotsUpdate(snapshot_ids=snapshot_ids)]


def unused_definition_updates(storage: Storage, metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """Return the updates that remove the schemas and partition specs which neither new files nor a snapshot uses.

    Args:
        storage: The storage of the table, to read the manifest lists of the snapshots.
        metadata: The metadata after the expiry of snapshots.

    Raises:
        CorruptLog: A manifest list is damaged or missing.
        StorageError: A manifest list cannot be read.
    """
    used_schemas = {metadata.current_schema_id, *(snapshot.schema_id for snapshot in metadata.snapshots)}
    manifests = map_concurrently(lambda snapshot: read_manifest_list(storage, snapshot.manifest_list), metadata.snapshots)
    used_specs = {metadata.default_spec_id, *(manifest.spec_id for manifests_of_list in manifests for manifest in manifests_of_list)}
    unused_schemas = [schema.schema_id for schema in metadata.schemas if schema.schema_id not in used_schemas]
    unused_specs = [spec.spec_id for spec in metadata.partition_specs if spec.spec_id not in used_specs]
    if any(snapshot.schema_id is None for snapshot in metadata.snapshots):
        unused_schemas = []  # old writers do not record the schema of a snapshot
    removed_specs = (RemovePartitionSpecsUpdate.model_validate({"spec-ids": unused_specs}),) if unused_specs else ()
    removed_schemas = (RemoveSchemasUpdate.model_validate({"schema-ids": unused_schemas}),) if unused_schemas else ()
    return (*removed_specs, *removed_schemas)


def _check_requested_ids(table: str, requested_ids: Iterable[int], snapshot_ids: Collection[int], refs: Mapping[str, SnapshotRef]) -> None:
    """Raise an error for a requested snapshot that does not exist, or that a remaining branch or tag points at."""
    for snapshot_id in requested_ids:
        if snapshot_id not in snapshot_ids:
            raise VersionNotFound(f"{table} has no snapshot {snapshot_id}. See DESCRIBE HISTORY {table}.")
        if names := sorted(name for name, ref in refs.items() if ref.snapshot_id == snapshot_id):
            reason = f"the branches or tags {', '.join(names)} refer to it. Leave out the snapshot, or drop these first."
            raise PlanError(f"The snapshot {snapshot_id} of {table} cannot expire: {reason}")


def _is_young(ref: SnapshotRef, snapshots_by_id: Mapping[int, Snapshot], retention: Retention) -> bool:
    snapshot = snapshots_by_id.get(ref.snapshot_id)
    max_age = retention.max_ref_age if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    return snapshot is not None and retention.now - snapshot.timestamp_ms <= max_age


def _retained_ids(metadata: TableMetadata, refs: Mapping[str, SnapshotRef], retention: Retention) -> set[int]:
    """Return the ids of the snapshots that branches and tags retain, and of recent ones that do not belong to a branch."""
    retained_ids = {ref.snapshot_id for ref in refs.values() if ref.snapshot_ref_type is SnapshotRefType.TAG}
    referenced_ids = {ref.snapshot_id for ref in refs.values()}
    for branch in [ref for ref in refs.values() if ref.snapshot_ref_type is not SnapshotRefType.TAG]:
        history = list(ancestors(metadata, branch.snapshot_id))
        retained_ids.update(_retained_by_branch(branch, history, retention))
        referenced_ids.update(snapshot.snapshot_id for snapshot in history)
    young_ids = {snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.timestamp_ms >= retention.older_than}
    return retained_ids | (young_ids - referenced_ids)


def _retained_by_branch(ref: SnapshotRef, history: Sequence[Snapshot], retention: Retention) -> list[int]:
    """Return the ids of the snapshots that a branch retains: `history` up to its first old snapshot, but at least the minimum number."""
    older_than = retention.older_than if ref.max_snapshot_age_ms is None else retention.now - ref.max_snapshot_age_ms
    min_count = ref.min_snapshots_to_keep or retention.min_count
    younger = takewhile(lambda snapshot: snapshot.timestamp_ms >= older_than, history[min_count:])
    return [snapshot.snapshot_id for snapshot in (*history[:min_count], *younger)]
