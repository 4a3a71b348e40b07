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

    If the commit points branches or tags at other snapshots, only these are compared.

    Args:
        current: The newest metadata.
        before: The metadata before the commit.
        after: The metadata that the commit would create. Its differences from `before` are the changes.
    """
    ref_names = before.refs.keys() | after.refs.keys()
    moved_refs = [name for name in ref_names if _snapshot_id(before, name) != _snapshot_id(after, name)]
    if moved_refs:
        return _combined_status([_ref_status(current, before, after, name) for name in moved_refs])
    return CommitStatus.COMMITTED if _has_changed_values(current, before, after) else CommitStatus.ABSENT


def _has_changed_values(current: TableMetadata, before: TableMetadata, after: TableMetadata) -> bool:
    """Return whether the current metadata has the new value of everything that differs between `before` and `after`.

    For example, a commit changes the property `owner` from `ann` to `bob`. Then the current metadata must have the owner `bob`. Its other
    properties are ignored. Without any difference, the result is True.
    """
    old_state, new_state, current_state = _state_without_ids(before), _state_without_ids(after), _state_without_ids(current)
    changed_keys = [key for key in old_state.keys() | new_state.keys() if old_state.get(key) != new_state.get(key)]
    return all(current_state.get(key) == new_state.get(key) for key in changed_keys)


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
        # The reference is as the commit would leave it. If another writer made the same move, the result is the same.
        return CommitStatus.COMMITTED
    if _snapshot_id(current, name) == _snapshot_id(before, name):
        # The reference was not moved, or another writer has moved it back. `CommitStatus` calls both ABSENT.
        return CommitStatus.ABSENT
    # Another writer has changed or removed the reference since, either its state in `before` or the one in `after`.
    return _status_by_fork(current, before, after, name)


def _status_by_fork(current: TableMetadata, before: TableMetadata, after: TableMetadata, name: str) -> CommitStatus:
    """Return whether a commit moved a branch to which other writers have since committed new snapshots.

    The fork snapshot is the newest snapshot of the branch that exists in `before`. The first new snapshot of the branch follows it, so the
    branch pointed at the fork snapshot then.

    In the comments below, the commit moves the branch from snapshot 1 to snapshot 2, which both exist in `before`.
    """
    fork_id = _newest_ancestor_in_base(current, base=before, snapshot_id=_snapshot_id(current, name))
    if fork_id is None:  # The branch does not exist, or its older snapshots have expired.
        return CommitStatus.UNKNOWN
    if fork_id == _snapshot_id(after, name):  # The new snapshot 3 follows snapshot 2, so the branch was moved there first.
        return CommitStatus.COMMITTED
    if fork_id == _snapshot_id(before, name):  # The new snapshot 3 follows snapshot 1, so the branch was still there.
        return CommitStatus.ABSENT
    return CommitStatus.UNKNOWN  # Another writer has moved the branch to snapshot 0, before or after the commit.


def _newest_ancestor_in_base(current: TableMetadata, base: TableMetadata, snapshot_id: int | None) -> int | None:
    """Return the id of the newest snapshot in `base` that is the given snapshot of `current` or one of its ancestors.

    Return None if the given snapshot id is None, or if the chain of parents ends at an expired snapshot.
    """
    snapshots_by_id = {snapshot.snapshot_id: snapshot for snapshot in current.snapshots}
    while snapshot_id is not None and base.snapshot_by_id(snapshot_id) is None:
        snapshot_id = snapshots_by_id[snapshot_id].parent_snapshot_id if snapshot_id in snapshots_by_id else None
    return snapshot_id


def _status_by_snapshot_log(metadata: TableMetadata, base: TableMetadata, snapshot_id: int) -> CommitStatus:
    """Determine from the newest snapshot log whether a commit after `base` pointed main at a snapshot of `base`.

    The snapshot log ("Table Metadata Fields" in the Iceberg specification) has one entry for each snapshot that became the current one.

    For example, the log of `base` is [1, 2], and the commit sets main back to snapshot 1. These are the outcomes for some newest logs:

    - [1, 2, 1]: COMMITTED, because an entry of snapshot 1 was added.
    - [1, 2, 3]: ABSENT, because no such entry was added.
    - [1, 2, 3] without snapshot 1 in the table: UNKNOWN. The expiry of a snapshot also removes entries.
    - [1, 2] while the current snapshot is 3: UNKNOWN. The catalog does not write the log, so a missing entry proves nothing.
    - [2, 3]: UNKNOWN, because an expiry has removed the first entry.
    """
    base_length = len(base.snapshot_log)
    if metadata.snapshot_log[:base_length] != base.snapshot_log:
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


def _state_without_ids(metadata: TableMetadata) -> dict[tuple[str, object], object]:
    """Return everything that a commit without a new snapshot can change, to compare it between versions of the metadata.

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
