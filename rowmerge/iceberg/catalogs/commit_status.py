"""Determine whether a table's newest metadata contains a commit whose request to the catalog failed or got no response.

Other writers may have committed later, and may have expired the snapshot of the commit. If the metadata does not exclude that, the status
is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.metadata.updates import apply_updates


class CommitStatus(Enum):
    """The status of a commit in metadata.

    ABSENT is also the status of a change of the definition or of references that another writer has reverted.
    """

    COMMITTED = auto()
    ABSENT = auto()
    UNKNOWN = auto()


def commit_status(current: CurrentMetadata, base: CurrentMetadata, updates: Sequence[TableUpdate]) -> CommitStatus:
    """Return whether the newest metadata of a table contains a commit: COMMITTED, ABSENT, or UNKNOWN if it does not show that.

    Args:
        current: The newest metadata of the table.
        base: The metadata to which the commit applied its updates.
        updates: The updates of the commit.
    """
    metadata = current.metadata
    if metadata.table_uuid != base.metadata.table_uuid:
        # This is another table of the same name. The table with the commit may have been renamed.
        return CommitStatus.UNKNOWN
    snapshot_ids = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    if snapshot_ids:
        status = _snapshots_status(metadata, base.metadata, snapshot_ids)
    else:
        status = _change_status(metadata, base.metadata, apply_updates(base.metadata, updates))
    if status is CommitStatus.UNKNOWN and _is_at_most_one_commit_after(current, base):
        # At most one commit followed `base`. If it were this one, `current` would show its changes.
        return CommitStatus.ABSENT
    return status


def _is_at_most_one_commit_after(current: CurrentMetadata, base: CurrentMetadata) -> bool:
    """Return whether `current` is `base` or the next version after it. The metadata log of each version ends with the preceding version."""
    previous_paths = [entry.metadata_file for entry in current.metadata.metadata_log[-1:]]
    return bool(base.path) and base.path in (current.path, *previous_paths)


def _snapshots_status(metadata: TableMetadata, base: TableMetadata, snapshot_ids: set[int]) -> CommitStatus:
    """Return whether metadata contains these snapshots, or snapshots that follow them.

    If they have expired, the current snapshot still refers to their manifests and data files.
    """
    if _referenced_ids(metadata) & snapshot_ids:
        return CommitStatus.COMMITTED
    return CommitStatus.ABSENT if _has_every_snapshot(metadata, base) else CommitStatus.UNKNOWN


def _has_every_snapshot(metadata: TableMetadata, base: TableMetadata) -> bool:
    """Return whether the metadata certainly contains each snapshot that was committed after `base`, because none has expired."""
    # Format version 1 has no sequence numbers. In later ones, parents prove nothing: pyiceberg's expiry removes the parent of a snapshot.
    if isinstance(base, TableMetadataV1) or isinstance(metadata, TableMetadataV1):
        return _has_every_parent(metadata, base)
    new_numbers = range(base.last_sequence_number + 1, metadata.last_sequence_number + 1)
    numbers = sorted(snapshot.sequence_number or 0 for snapshot in _snapshots_after(metadata, base))
    return base.last_sequence_number <= metadata.last_sequence_number and numbers == [*new_numbers]


def _referenced_ids(metadata: TableMetadata) -> set[int | None]:
    """Return the ids of all snapshots that the metadata contains or refers to. None stands for the missing parent of a first snapshot."""
    return {
        *(snapshot.snapshot_id for snapshot in metadata.snapshots),
        *(snapshot.parent_snapshot_id for snapshot in metadata.snapshots),
        *(entry.snapshot_id for entry in metadata.snapshot_log),
        *(ref.snapshot_id for ref in metadata.refs.values()),
    }


def _snapshots_after(metadata: TableMetadata, base: TableMetadata) -> list[Snapshot]:
    base_ids = {snapshot.snapshot_id for snapshot in base.snapshots}
    return [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in base_ids]


def _has_every_parent(metadata: TableMetadata, base: TableMetadata) -> bool:
    """Return whether the metadata contains the parent of each snapshot after `base`. Then no snapshot has expired."""
    parent_ids = {snapshot.parent_snapshot_id for snapshot in _snapshots_after(metadata, base)}
    present_ids = {snapshot.snapshot_id for snapshot in (*base.snapshots, *metadata.snapshots)}
    return parent_ids <= present_ids and base.current_snapshot_id in _referenced_ids(metadata)


def _change_status(current: TableMetadata, before: TableMetadata, after: TableMetadata) -> CommitStatus:
    """Return whether the current metadata contains the changes of a commit that adds no snapshot.

    If the commit moves branches or tags, only these are compared. A commit without changes counts as committed.

    Args:
        current: The newest metadata.
        before: The metadata before the commit.
        after: The metadata that the commit would create. Its differences from `before` are the changes.
    """
    ref_names = before.refs.keys() | after.refs.keys()
    moved_refs = [name for name in ref_names if _snapshot_id(before, name) != _snapshot_id(after, name)]
    if moved_refs:
        return _combined_status([_ref_status(current, before, after, name) for name in moved_refs])
    old_state, new_state, current_state = _comparable_state(before), _comparable_state(after), _comparable_state(current)
    changed_keys = [key for key in old_state.keys() | new_state.keys() if old_state.get(key) != new_state.get(key)]
    has_changes = all(current_state.get(key) == new_state.get(key) for key in changed_keys)
    return CommitStatus.COMMITTED if has_changes else CommitStatus.ABSENT


def _combined_status(statuses: Sequence[CommitStatus]) -> CommitStatus:
    """Return the status of a commit from the statuses of the branches and tags that it moves. A commit is atomic."""
    if CommitStatus.ABSENT in statuses:
        return CommitStatus.ABSENT
    return CommitStatus.UNKNOWN if CommitStatus.UNKNOWN in statuses else CommitStatus.COMMITTED


def _ref_status(current: TableMetadata, before: TableMetadata, after: TableMetadata, name: str) -> CommitStatus:
    """Return whether a commit moved a branch or tag from its snapshot in `before` to its snapshot in `after`.

    Args:
        current: The newest metadata. Other writers may have moved the reference again since.
        before: The metadata before the commit.
        after: The metadata that the commit would create.
        name: The name of the branch or tag.
    """
    after_id = _snapshot_id(after, name)
    if name == MAIN and after_id is not None:
        # The snapshot log contains every snapshot that main has pointed at. Other references have no log.
        return _status_by_snapshot_log(current, before, after_id)
    if current.refs.get(name) == after.refs.get(name):
        return CommitStatus.COMMITTED
    if _snapshot_id(current, name) == _snapshot_id(before, name):
        return CommitStatus.ABSENT
    return _status_by_origin(current, before, after, name)


def _status_by_origin(current: TableMetadata, before: TableMetadata, after: TableMetadata, name: str) -> CommitStatus:
    """Return whether a commit moved a branch to which other writers have since committed new snapshots.

    The parent of the first new snapshot is the origin: the snapshot to which the branch pointed then. For example, the commit moves a
    branch from snapshot 1 to snapshot 2. If the branch now has the snapshots 2 and 3 in this order, the commit happened. If it has the
    snapshots 1 and 3, the commit did not happen.
    """
    origin_id = _newest_ancestor_from_base(current, before, _snapshot_id(current, name))
    if origin_id is None:  # The branch does not exist, or its older snapshots have expired.
        return CommitStatus.UNKNOWN
    if origin_id == _snapshot_id(after, name):
        return CommitStatus.COMMITTED
    if origin_id == _snapshot_id(before, name):
        return CommitStatus.ABSENT
    return CommitStatus.UNKNOWN  # Another writer has set the branch to another snapshot.


def _newest_ancestor_from_base(current: TableMetadata, base: TableMetadata, snapshot_id: int | None) -> int | None:
    """Return the id of the newest snapshot in `base` that is the given snapshot of `current` or one of its ancestors.

    Return None if the given snapshot id is None, or if the chain of parents ends at an expired snapshot.
    """
    snapshots_by_id = {snapshot.snapshot_id: snapshot for snapshot in current.snapshots}
    while snapshot_id is not None and base.snapshot_by_id(snapshot_id) is None:
        snapshot_id = snapshots_by_id[snapshot_id].parent_snapshot_id if snapshot_id in snapshots_by_id else None
    return snapshot_id


def _status_by_snapshot_log(metadata: TableMetadata, base: TableMetadata, snapshot_id: int) -> CommitStatus:
    """Determine from the newest snapshot log whether a commit after `base` pointed main at a snapshot of `base`.

    The snapshot log ("Table Metadata Fields" in the Iceberg specification) has one entry for each snapshot that became the current one. A
    missing entry proves that the commit is absent only if the log is complete:

    - The catalog writes the log. Then its last entry is the current snapshot, before the commit and now.
    - No expiry has removed the entry. Then the snapshot still exists.
    """
    base_length = len(base.snapshot_log)
    if metadata.snapshot_log[:base_length] != base.snapshot_log:  # an expiry has removed entries
        return CommitStatus.UNKNOWN
    if any(entry.snapshot_id == snapshot_id for entry in metadata.snapshot_log[base_length:]):
        return CommitStatus.COMMITTED
    writes_log = _logs_current_snapshot(base) and _logs_current_snapshot(metadata)
    is_retained = metadata.snapshot_by_id(snapshot_id) is not None
    return CommitStatus.ABSENT if writes_log and is_retained else CommitStatus.UNKNOWN


def _logs_current_snapshot(metadata: TableMetadata) -> bool:
    """Return whether the last entry of the snapshot log is the current snapshot, as in every log that a catalog writes."""
    return bool(metadata.snapshot_log) and metadata.snapshot_log[-1].snapshot_id == metadata.current_snapshot_id


def _snapshot_id(metadata: TableMetadata, name: str) -> int | None:
    ref = metadata.refs.get(name)
    return None if ref is None else ref.snapshot_id


def _comparable_state(metadata: TableMetadata) -> dict[tuple[str, object], object]:
    """Return everything that a commit without a new snapshot can change. `_change_status` compares it in several versions of the metadata.

    The keys are pairs such as `("property", "write.format.default")`. Ids of schemas, partition specs and sort orders are left out, because
    a catalog may assign ids that differ from those in the commit.
    """
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    return {
        ("table", "format version"): metadata.format_version,
        ("table", "location"): metadata.location,
        ("table", "schema"): metadata.schema(),
        ("table", "partition spec"): metadata.spec().fields,
        ("table", "sort order"): None if order is None else order.fields,
        **{("property", name): value for name, value in metadata.properties.items()},
        **{("reference", name): ref for name, ref in metadata.refs.items()},
        **{("snapshot", snapshot.snapshot_id): True for snapshot in metadata.snapshots},  # never changes, but may be removed
    }
