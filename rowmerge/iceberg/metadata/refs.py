"""Branches and tags of a table's metadata: the snapshots that they name, and the update that moves a branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import SetSnapshotRefUpdate, TableUpdate

MAIN = "main"


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


def ancestors(by_id: Mapping[int, IcebergVersion], snapshot_id: int | None) -> Iterator[IcebergVersion]:
    """A snapshot, its parent, and so on as far as they are there."""
    while snapshot_id is not None and (snapshot := by_id.get(snapshot_id)) is not None:
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id
