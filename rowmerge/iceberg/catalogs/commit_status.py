"""Whether a commit is part of a table's metadata, when the answer of the catalog does not say it.

Other writers may have followed the commit, and may have expired its snapshot. Where nothing excludes that, the status is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.metadata.updates import apply_updates


class CommitStatus(Enum):
    """Whether metadata contains a commit. ABSENT also stands for a change of the definition or of references that others have reverted."""

    COMMITTED = auto()
    ABSENT = auto()
    UNKNOWN = auto()


def commit_status(current: CurrentMetadata, base: CurrentMetadata, updates: Sequence[TableUpdate]) -> CommitStatus:
    """Return whether `current`, the table's newest metadata, contains the commit of `updates` to `base`."""
    metadata = current.metadata
    if metadata.table_uuid != base.metadata.table_uuid:
        # This is another table of the same name. The one with the commit may have been renamed.
        return CommitStatus.UNKNOWN
    snapshot_ids = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    if snapshot_ids:
        status = _snapshots_status(metadata, base.metadata, snapshot_ids)
    else:
        status = _changes_status(metadata, base.metadata, apply_updates(base.metadata, updates))
    if status is CommitStatus.UNKNOWN and _is_almost_newest(base, current):
        # At most one commit followed `base`. If it were this one, `current` would show its changes.
        return CommitStatus.ABSENT
    return status


def _is_almost_newest(base: CurrentMetadata, current: CurrentMetadata) -> bool:
    """Return whether no commit came after `base`, or only the one that made `current`. Each commit logs the metadata file before it."""
    previous_paths = [entry.metadata_file for entry in current.metadata.metadata_log[-1:]]
    return bool(base.path) and base.path in (current.path, *previous_paths)


def _snapshots_status(metadata: TableMetadata, base: TableMetadata, snapshot_ids: set[int]) -> CommitStatus:
    """Return whether the metadata contains these snapshots, or snapshots that follow them.

    If they have expired, the current snapshot still refers to their manifests and data files.
    """
    if _referenced_ids(metadata) & snapshot_ids:
        return CommitStatus.COMMITTED
    return CommitStatus.ABSENT if _has_every_snapshot(metadata, base) else CommitStatus.UNKNOWN


def _has_every_snapshot(metadata: TableMetadata, base: TableMetadata) -> bool:
    """Return whether the metadata certainly contains each snapshot that was committed after `base`."""
    # Format version 1 has no sequence numbers. Later on, parents prove nothing: pyiceberg's expiry removes them from the next snapshot.
    if isinstance(base, TableMetadataV1) or isinstance(metadata, TableMetadataV1):
        return _has_every_parent(metadata, base)
    new_numbers = range(base.last_sequence_number + 1, metadata.last_sequence_number + 1)
    numbers = sorted(snapshot.sequence_number or 0 for snapshot in _snapshots_after(metadata, base))
    return base.last_sequence_number <= metadata.last_sequence_number and numbers == [*new_numbers]


def _referenced_ids(metadata: TableMetadata) -> set[int | None]:
    """Return the ids of all snapshots that the metadata contains or names. None stands for the parent of a first snapshot."""
    return {
        *(snapshot.snapshot_id for snapshot in metadata.snapshots),
        *(snapshot.parent_snapshot_id for snapshot in metadata.snapshots),
        *(entry.snapshot_id for entry in metadata.snapshot_log),
        *(ref.snapshot_id for ref in metadata.refs.values()),
    }


def _snapshots_after(metadata: TableMetadata, base: TableMetadata) -> list[IcebergVersion]:
    base_ids = {snapshot.snapshot_id for snapshot in base.snapshots}
    return [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in base_ids]


def _has_every_parent(metadata: TableMetadata, base: TableMetadata) -> bool:
    """Return whether each snapshot after `base` follows another one, back to the current one of `base`. Then no snapshot is missing."""
    parent_ids = {snapshot.parent_snapshot_id for snapshot in _snapshots_after(metadata, base)}
    present_ids = {snapshot.snapshot_id for snapshot in (*base.snapshots, *metadata.snapshots)}
    return parent_ids <= present_ids and base.current_snapshot_id in _referenced_ids(metadata)


def _changes_status(metadata: TableMetadata, base: TableMetadata, target: TableMetadata) -> CommitStatus:
    """Return whether the metadata has what a commit without new snapshots changes: what distinguishes `target` from `base`.

    If the commit moves references to other snapshots, these decide alone.
    """
    ref_names = base.refs.keys() | target.refs.keys()
    moved_refs = [name for name in ref_names if _snapshot_id(base, name) != _snapshot_id(target, name)]
    if moved_refs:
        statuses = {_ref_status(metadata, base, target, name) for name in moved_refs}
        if CommitStatus.ABSENT in statuses:  # a commit happens as a whole, so one reference that did not move decides
            return CommitStatus.ABSENT
        return CommitStatus.UNKNOWN if CommitStatus.UNKNOWN in statuses else CommitStatus.COMMITTED
    base_values, target_values, current_values = _updatable_values(base), _updatable_values(target), _updatable_values(metadata)
    changed_keys = [key for key in base_values.keys() | target_values.keys() if base_values.get(key) != target_values.get(key)]
    has_changes = all(current_values.get(key) == target_values.get(key) for key in changed_keys)
    return CommitStatus.COMMITTED if has_changes else CommitStatus.ABSENT


def _ref_status(metadata: TableMetadata, base: TableMetadata, target: TableMetadata, name: str) -> CommitStatus:
    """Return whether a branch or tag was moved from its snapshot in `base` to the one in `target`, or to a descendant of that."""
    base_id, target_id, current_id = _snapshot_id(base, name), _snapshot_id(target, name), _snapshot_id(metadata, name)
    if name == MAIN and target_id is not None:  # the snapshot log tells about main alone
        return _log_status(metadata, base, target_id)
    if metadata.refs.get(name) == target.refs.get(name):
        return CommitStatus.COMMITTED
    if current_id == base_id:
        return CommitStatus.ABSENT
    origin_id = _newest_ancestor_in(base, metadata, current_id)
    if origin_id is None or origin_id not in (base_id, target_id):
        return CommitStatus.UNKNOWN
    return CommitStatus.COMMITTED if origin_id == target_id else CommitStatus.ABSENT


def _newest_ancestor_in(base: TableMetadata, metadata: TableMetadata, snapshot_id: int | None) -> int | None:
    """Return the newest snapshot of `base` that a snapshot of `metadata` follows, or that it is. None if no parents lead to one."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    while snapshot_id is not None and base.snapshot_by_id(snapshot_id) is None:
        snapshot_id = by_id[snapshot_id].parent_snapshot_id if snapshot_id in by_id else None
    return snapshot_id


def _log_status(metadata: TableMetadata, base: TableMetadata, snapshot_id: int) -> CommitStatus:
    """Return whether a snapshot of `base` became the current one after it, by the snapshot log.

    The status is unknown if an expiry removed entries, or if the catalog does not write the log.
    """
    base_length = len(base.snapshot_log)
    if metadata.snapshot_log[:base_length] != base.snapshot_log:
        return CommitStatus.UNKNOWN
    if any(entry.snapshot_id == snapshot_id for entry in metadata.snapshot_log[base_length:]):
        return CommitStatus.COMMITTED
    has_full_log = _logs_current_snapshot(base) and _logs_current_snapshot(metadata)
    is_retained = metadata.snapshot_by_id(snapshot_id) is not None
    return CommitStatus.ABSENT if has_full_log and is_retained else CommitStatus.UNKNOWN


def _logs_current_snapshot(metadata: TableMetadata) -> bool:
    return bool(metadata.snapshot_log) and metadata.snapshot_log[-1].snapshot_id == metadata.current_snapshot_id


def _snapshot_id(metadata: TableMetadata, name: str) -> int | None:
    ref = metadata.refs.get(name)
    return None if ref is None else ref.snapshot_id


def _updatable_values(metadata: TableMetadata) -> dict[object, object]:
    """Return the values that updates without a new snapshot can change, without ids that a catalog may assign otherwise."""
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    return {
        "format version": metadata.format_version,
        "location": metadata.location,
        "schema": metadata.schema(),
        "partition spec": metadata.spec().fields,
        "sort order": None if order is None else order.fields,
        **{("property", name): value for name, value in metadata.properties.items()},
        **{("reference", name): ref for name, ref in metadata.refs.items()},
        **{("snapshot", snapshot.snapshot_id): True for snapshot in metadata.snapshots},
    }
