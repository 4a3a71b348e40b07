"""Resolve branches, iterate over snapshots and their ancestors, and build the metadata update that moves a branch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import SetSnapshotRefUpdate, TableUpdate

from rowmerge.iceberg.metadata.properties import APPLICATION, APPLICATION_VERSION

MAIN = "main"
WAP_ID, PUBLISHED_WAP_ID, SOURCE_SNAPSHOT_ID = "wap.id", "published-wap-id", "source-snapshot-id"
"""The keys of a snapshot's summary: the id of a staged snapshot, and the id and the staged snapshot that a snapshot publishes."""


def head_of(metadata: TableMetadata, branch: str) -> IcebergVersion | None:
    """Return the newest snapshot of a branch, or None if the branch does not exist or has no snapshot.

    Args:
        metadata: The metadata of the table.
        branch: The name of the branch. A tag also resolves to its snapshot.
    """
    if branch == MAIN:
        return metadata.current_snapshot()
    ref = metadata.refs.get(branch)
    return None if ref is None else metadata.snapshot_by_id(ref.snapshot_id)


def base_of(metadata: TableMetadata, branch: str) -> IcebergVersion | None:
    """Return the snapshot that a commit to a branch follows: the newest one of the branch, or of main if the branch does not exist.

    Return None if there is no such snapshot. Iceberg's `SnapshotUtil.latestSnapshot` has the same rule for new branches.

    Args:
        metadata: The metadata of the table.
        branch: The name of the branch.
    """
    return head_of(metadata, branch if branch in metadata.refs else MAIN)


def point_branch_at(metadata: TableMetadata, branch: str, snapshot_id: int) -> TableUpdate:
    """Return the metadata update that points a branch at a snapshot and keeps the retention settings of the branch.

    Args:
        metadata: The current metadata of the table.
        branch: The name of the branch, which may be new.
        snapshot_id: The id of the snapshot.
    """
    old_ref = metadata.refs.get(branch)
    retention = {name: getattr(old_ref, name, None) for name in ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")}
    return SetSnapshotRefUpdate(ref_name=branch, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id, **retention)


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[IcebergVersion]:
    """Yield a snapshot and its ancestors, from child to parent. Stop at the first ancestor that is not in the metadata.

    Args:
        metadata: The metadata of the table.
        snapshot_id: The id of the snapshot. For None or an unknown id, nothing is yielded.
    """
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    while snapshot_id is not None and (snapshot := by_id.get(snapshot_id)) is not None:
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id


def summary_properties(snapshot: IcebergVersion | None) -> Mapping[str, str]:
    """Return the properties in the summary of a snapshot. Return an empty mapping for None and for a snapshot without a summary."""
    return {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties


def transactions(metadata: TableMetadata, application: str) -> Iterator[tuple[int, int]]:
    """Yield the transaction version and the snapshot id of each snapshot that an application committed, newest first.

    A snapshot counts if a branch or tag contains it. It also counts if the main branch has contained it, as before a replacement.
    Staged snapshots and those of dropped branches do not count.

    Args:
        metadata: The metadata of the table.
        application: The name with which the application identifies its transactions.
    """
    snapshots = sorted(metadata.snapshots, key=lambda snapshot: -(snapshot.sequence_number or 0))
    commits = [(snapshot, version) for snapshot in snapshots for name, version in transaction_of(snapshot) if name == application]
    visible_ids = _visible_snapshot_ids(metadata) if commits else set()
    yield from ((version, snapshot.snapshot_id) for snapshot, version in commits if snapshot.snapshot_id in visible_ids)


def transaction_of(snapshot: IcebergVersion) -> Iterator[tuple[str, int]]:
    """Yield the application and the version of the transaction that a snapshot records, if it records one."""
    properties = summary_properties(snapshot)
    application, version = properties.get(APPLICATION), properties.get(APPLICATION_VERSION, "")
    if application is not None and re.fullmatch(r"-?\d{1,19}", version):  # A long has at most 19 digits. Other values are ignored.
        yield application, int(version)


def _visible_snapshot_ids(metadata: TableMetadata) -> set[int]:
    """Return the ids of the snapshots that a branch or tag contains, or that the main branch has contained."""
    heads = {ref.snapshot_id for ref in metadata.refs.values()} | {entry.snapshot_id for entry in metadata.snapshot_log}
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    visible_ids: set[int] = set()
    for head in heads:
        snapshot = by_id.get(head)
        while snapshot is not None and snapshot.snapshot_id not in visible_ids:
            visible_ids.add(snapshot.snapshot_id)
            snapshot = None if snapshot.parent_snapshot_id is None else by_id.get(snapshot.parent_snapshot_id)
    return visible_ids
