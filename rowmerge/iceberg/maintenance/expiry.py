"""Which snapshots of a table expire: those that are old, and that no branch or tag keeps (Iceberg spec, Snapshot Retention Policy)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import RemovePartitionStatisticsUpdate, RemoveSnapshotRefUpdate, RemoveSnapshotsUpdate, TableUpdate

from rowmerge.errors import PlanError, VersionNotFound
from rowmerge.iceberg.metadata.properties import GC_ENABLED
from rowmerge.iceberg.metadata.refs import MAIN, ancestors
from rowmerge.table.maintenance import ExpiryOptions
from rowmerge.table.metadata.settings import whole_number

MAX_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
_FIVE_DAYS = 5 * 24 * 3_600_000
_FOREVER = 2**63 - 1


@dataclass(frozen=True)
class Retention:
    """What keeps snapshots where a branch has no rule of its own. `older_than`: snapshots of this time and later stay, in ms."""

    older_than: int
    least: int
    max_ref_age: int
    now: int

    @classmethod
    def of(cls, properties: Mapping[str, str], options: ExpiryOptions, now: int) -> Retention:
        """Raises ConfigurationError for a property that is no number, PlanError for a number of snapshots that is none."""
        least = whole_number(properties, MIN_SNAPSHOTS, 1) if options.retain_last is None else options.retain_last
        if least < 1:
            raise PlanError(f"At least one snapshot stays, and {least} are to. Retain 1 or more.")
        age = whole_number(properties, MAX_SNAPSHOT_AGE, _FIVE_DAYS)
        older_than = now - age if options.older_than is None else options.older_than
        return cls(older_than, least, whole_number(properties, MAX_REF_AGE, _FOREVER), now)


def check_collectable(table: str, metadata: TableMetadata) -> None:
    """Raises PlanError for a table whose files may be another's, too."""
    if metadata.properties.get(GC_ENABLED, "true").strip().lower() == "false":
        raise PlanError(
            f"Files of {table} are not deleted: its property {GC_ENABLED} is false, so they may belong to other tables. "
            f"When they do not, set it to true: ALTER TABLE {table} SET TBLPROPERTIES ('{GC_ENABLED}' = 'true')."
        )


def expiring(table: str, metadata: TableMetadata, options: ExpiryOptions, now: int) -> tuple[TableUpdate, ...]:
    """The updates that expire snapshots, none when all stay. `now` in milliseconds since the epoch.

    Raises PlanError for a snapshot that is to go and that a branch or tag names, VersionNotFound for one that is not there.
    """
    retention = Retention.of(metadata.properties, options, now)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    stay = {name: ref for name, ref in metadata.refs.items() if name == MAIN or _is_young(ref, by_id, retention)}
    kept = _kept(stay, by_id, retention) | {metadata.current_snapshot_id}
    for asked in options.snapshot_ids:
        if asked not in by_id:
            raise VersionNotFound(f"{table} has no snapshot {asked}. See DESCRIBE HISTORY {table}.")
        if names := sorted(name for name, ref in stay.items() if ref.snapshot_id == asked):
            raise PlanError(f"The snapshot {asked} of {table} is what {', '.join(names)} names. Leave it out, or drop these first.")
    gone = [id_ for id_ in by_id if id_ not in kept or id_ in options.snapshot_ids]
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=name) for name in metadata.refs if name not in stay]
    if gone:
        told = {file.snapshot_id for file in metadata.partition_statistics}
        updates += [RemovePartitionStatisticsUpdate(snapshot_id=id_) for id_ in gone if id_ in told]
        updates.append(RemoveSnapshotsUpdate(snapshot_ids=gone))
    return tuple(updates)


def _is_young(ref: SnapshotRef, by_id: Mapping[int, IcebergVersion], retention: Retention) -> bool:
    snapshot = by_id.get(ref.snapshot_id)
    longest = retention.max_ref_age if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    return snapshot is not None and retention.now - snapshot.timestamp_ms <= longest


def _kept(refs: Mapping[str, SnapshotRef], by_id: Mapping[int, IcebergVersion], retention: Retention) -> set[int | None]:
    """The ids that branches and tags keep, and those of young snapshots that none of them reaches."""
    kept: set[int | None] = set()
    reached: set[int] = set()
    for ref in refs.values():
        if ref.snapshot_ref_type is SnapshotRefType.TAG:
            kept.add(ref.snapshot_id)
            reached.add(ref.snapshot_id)
            continue
        older_than = retention.older_than if ref.max_snapshot_age_ms is None else retention.now - ref.max_snapshot_age_ms
        least = ref.min_snapshots_to_keep or retention.least
        goes_on = True
        for count, snapshot in enumerate(ancestors(by_id, ref.snapshot_id)):
            reached.add(snapshot.snapshot_id)
            # The first old one ends what a branch keeps, whatever the times of those before it.
            goes_on = goes_on and (count < least or snapshot.timestamp_ms >= older_than)
            if goes_on:
                kept.add(snapshot.snapshot_id)
    kept |= {id_ for id_, snapshot in by_id.items() if id_ not in reached and snapshot.timestamp_ms >= retention.older_than}
    return kept
