"""Whether a commit is part of a table's metadata, when the answer of the catalog does not say it.

Other writers may have followed the commit, and may have expired its snapshot. Where nothing excludes that, the status is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

from rowmerge.iceberg.catalogs.operations import Current
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.metadata.updates import apply_updates


def is_committed(current: Current, base: Current, updates: Sequence[TableUpdate]) -> bool | None:
    """Return whether the commit of `updates` to `base` is part of `current`, None if nothing tells.

    False also stands for a change of the definition or of references that others have reverted.
    """
    metadata = current.metadata
    if metadata.table_uuid != base.metadata.table_uuid:
        # Others may have renamed the table with the commit in it, and have created another one of the name.
        return None
    if snapshot_ids := {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}:
        status = _has_snapshots(metadata, base.metadata, snapshot_ids)
    else:
        status = _has_changes(metadata, base.metadata, apply_updates(base.metadata, updates))
    # Each commit adds an entry to the log of metadata files. So none came after `base`, or only the commit that made `current`.
    last_files = {current.path, *(entry.metadata_file for entry in metadata.metadata_log[-1:])}
    return False if status is None and base.path and base.path in last_files else status


# ------------------------------------------------------------ snapshots


def _has_snapshots(metadata: TableMetadata, base: TableMetadata, snapshot_ids: set[int]) -> bool | None:
    """Return whether the metadata contains these snapshots, or snapshots that follow them.

    If they have expired, the current snapshot still refers to their manifests and data files.
    """
    traces = {snapshot.snapshot_id for snapshot in metadata.snapshots} | {snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    traces |= {entry.snapshot_id for entry in metadata.snapshot_log} | {ref.snapshot_id for ref in metadata.refs.values()}
    if traces & snapshot_ids:
        return True
    base_ids = {snapshot.snapshot_id for snapshot in base.snapshots}
    later_snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in base_ids]
    if isinstance(base, TableMetadataV1) or isinstance(metadata, TableMetadataV1):
        # Format version 1 has no sequence numbers. No snapshot is missing if each one follows another, back to the current one of `base`.
        parents = {snapshot.parent_snapshot_id for snapshot in later_snapshots}
        is_complete = parents <= base_ids | {snapshot.snapshot_id for snapshot in later_snapshots} and base.current_snapshot_id in traces
    else:
        # Each snapshot has the next sequence number. Parents prove nothing, because pyiceberg's expiry removes them from the next snapshot.
        first, last = base.last_sequence_number, metadata.last_sequence_number
        numbers = sorted(snapshot.sequence_number or 0 for snapshot in later_snapshots)
        is_complete = first <= last and numbers == [*range(first + 1, last + 1)]
    return False if is_complete else None


# ------------------------------------------------------------ references and the definition


def _has_changes(metadata: TableMetadata, base: TableMetadata, target: TableMetadata) -> bool | None:
    """Return whether the metadata has what distinguishes `target` from `base`. If references move to other snapshots, these decide."""
    names = {name for name in base.refs.keys() | target.refs.keys() if _snapshot_id(base, name) != _snapshot_id(target, name)}
    if names:
        statuses = {_is_moved(metadata, base, target, name) for name in names}
        return False if False in statuses else None if None in statuses else True
    before, after, now = _aspects(base), _aspects(target), _aspects(metadata)
    return all(now.get(key) == after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _is_moved(metadata: TableMetadata, base: TableMetadata, target: TableMetadata, name: str) -> bool | None:
    """Return whether a branch or tag was where `target` has it, None if nothing tells."""
    before, after, now = _snapshot_id(base, name), _snapshot_id(target, name), _snapshot_id(metadata, name)
    if name == MAIN and after is not None:
        return _is_in_log(metadata, base, after)
    if metadata.refs.get(name) == target.refs.get(name):
        return True
    if now == before:
        return False
    # The snapshot of `base` that the later snapshots of the branch follow.
    by_id, origin = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}, now
    while origin is not None and base.snapshot_by_id(origin) is None:
        origin = by_id[origin].parent_snapshot_id if origin in by_id else None
    return None if origin is None else {before: False, after: True}.get(origin)


def _is_in_log(metadata: TableMetadata, base: TableMetadata, snapshot_id: int) -> bool | None:
    """Return whether a snapshot of `base` became the current one after it, by the snapshot log.

    None if an expiry removed entries, or if the catalog does not write the log.
    """
    before, after = list(base.snapshot_log), list(metadata.snapshot_log)
    if after[: len(before)] != before:
        return None
    if any(entry.snapshot_id == snapshot_id for entry in after[len(before) :]):
        return True
    is_written = all(log and log[-1].snapshot_id == at.current_snapshot_id for log, at in ((before, base), (after, metadata)))
    return False if is_written and metadata.snapshot_by_id(snapshot_id) is not None else None


def _snapshot_id(metadata: TableMetadata, name: str) -> int | None:
    ref = metadata.refs.get(name)
    return None if ref is None else ref.snapshot_id


def _aspects(metadata: TableMetadata) -> dict[object, object]:
    """Return what updates change that add no snapshot, without ids that a catalog may assign otherwise."""
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
