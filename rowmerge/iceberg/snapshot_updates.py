"""The entry of a new snapshot in a table's metadata, and the reference that makes it the table's newest."""

from __future__ import annotations

import time

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import SetSnapshotRefUpdate, TableUpdate

from rowmerge.iceberg.snapshot_files import Produced
from rowmerge.iceberg.summary import summary_of
from rowmerge.table.snapshot import Change

MAIN = "main"


def new_snapshot(
    head: TableMetadata, change: Change, made: Produced, parent: IcebergVersion | None, snapshot_id: int, schema_id: int
) -> IcebergVersion:
    """The snapshot of a change, behind what `head` has."""
    # Clocks of several writers differ, and readers go by the times of snapshots.
    now = max(time.time_ns() // 1_000_000, head.last_updated_ms + (1 if parent is not None else 0))
    operation, told = summary_of(change, made, parent)
    return IcebergVersion(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=head.next_sequence_number(),
        timestamp_ms=now,
        manifest_list=made.manifest_list,
        summary=Summary(Operation(operation), **told),
        schema_id=schema_id,
        first_row_id=None if made.row_ids is None else made.row_ids[0],
        added_rows=None if made.row_ids is None else made.row_ids[1],
    )


def head_of(metadata: TableMetadata, branch: str) -> IcebergVersion | None:
    """The newest snapshot of a branch; None for one that is not there, or has none."""
    if branch == MAIN:
        return metadata.current_snapshot()
    ref = metadata.refs.get(branch)
    return None if ref is None else metadata.snapshot_by_id(ref.snapshot_id)


def branch_at(metadata: TableMetadata, branch: str, snapshot_id: int) -> TableUpdate:
    """A branch at a snapshot; what it says of how long its snapshots are kept stays."""
    before = metadata.refs.get(branch)
    return SetSnapshotRefUpdate(
        ref_name=branch,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=before.max_ref_age_ms if before else None,
        max_snapshot_age_ms=before.max_snapshot_age_ms if before else None,
        min_snapshots_to_keep=before.min_snapshots_to_keep if before else None,
    )
