"""Branches and tags of a table, made, replaced and dropped in a commit of the metadata alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate, TableUpdate

from rowmerge.errors import AlreadyExists, PlanError, VersionNotFound
from rowmerge.iceberg.catalogs.operations import Current, TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates, newest
from rowmerge.iceberg.metadata.refs import MAIN, ancestors, head_of, point_branch_at
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import SnapshotReference, Table


@dataclass(frozen=True)
class IcebergBranches:
    """Implements `rowmerge.table.table.Branches`.

    `open_branch`: opens the table on a branch. `open_reference`: opens the snapshot of a branch or a tag.
    """

    operations: TableOperations
    name: str
    open_branch: Callable[[str], Table]
    open_reference: Callable[[str], Snapshot]

    def table(self, branch: str) -> Table:
        return self.open_branch(branch)

    def snapshot(self, reference: str) -> Snapshot:
        return self.open_reference(reference)

    def snapshot_id(self, reference: str) -> int:
        return referred(self.name, newest(self.operations, self.name).metadata, reference).snapshot_id

    def set(self, reference: SnapshotReference, *, create: bool, replace: bool, if_not_exists: bool) -> None:
        def updates_for(current: Current) -> tuple[TableUpdate, ...]:
            return setting(self.name, current, reference, create=create, replace=replace, if_not_exists=if_not_exists)

        commit_updates(self.operations, self.name, f"the reference {reference.name}", updates_for)

    def fast_forward(self, branch: str, to: str) -> tuple[int | None, int]:
        moved: list[tuple[int | None, int]] = []

        def updates_for(current: Current) -> tuple[TableUpdate, ...]:
            updates, before, after = forwarding(self.name, current.metadata, branch, to)
            moved.append((before, after))
            return updates

        commit_updates(self.operations, self.name, f"the reference {branch}", updates_for)
        return moved[-1]

    def drop(self, name: str, *, tag: bool, if_exists: bool) -> None:
        def updates_for(current: Current) -> tuple[TableUpdate, ...]:
            return dropping(self.name, current, name, tag=tag, if_exists=if_exists)

        commit_updates(self.operations, self.name, f"the reference {name}", updates_for)


def setting(
    table: str, current: Current, wanted: SnapshotReference, *, create: bool, replace: bool, if_not_exists: bool
) -> tuple[TableUpdate, ...]:
    """The update that makes or replaces a reference; none when it is there and may be. Raises as `Branches.set` says."""
    metadata, kind = current.metadata, _kind(wanted.tag)
    _check_main(table, wanted.name)
    known = metadata.refs.get(wanted.name)
    if known is not None and known.snapshot_ref_type is not kind:
        raise PlanError(f"{wanted.name} of {table} is a {known.snapshot_ref_type} and not a {kind}. Drop it first, or choose another name.")
    if known is not None and if_not_exists:
        return ()
    if known is not None and not replace:
        raise AlreadyExists(f"{table} has a {kind} {wanted.name}. Choose another name, or write CREATE OR REPLACE {kind.upper()}.")
    if known is None and not create:
        raise _missing(table, current, wanted.name, kind)
    at = metadata.current_snapshot_id if wanted.snapshot_id is None else wanted.snapshot_id
    if at is None or metadata.snapshot_by_id(at) is None:
        told = "has no snapshot yet. Write rows first" if at is None else f"has no snapshot {at}. See DESCRIBE HISTORY {table}"
        raise VersionNotFound(f"{table} {told}.")
    return (
        SetSnapshotRefUpdate(
            ref_name=wanted.name,
            type=kind,
            snapshot_id=at,
            max_ref_age_ms=wanted.max_age,
            max_snapshot_age_ms=wanted.max_snapshot_age,
            min_snapshots_to_keep=wanted.min_snapshots,
        ),
    )


def dropping(table: str, current: Current, name: str, *, tag: bool, if_exists: bool) -> tuple[TableUpdate, ...]:
    """The update that drops a reference. Raises as `Branches.drop` says."""
    kind = _kind(tag)
    _check_main(table, name)
    known = current.metadata.refs.get(name)
    if known is None:
        if if_exists:
            return ()
        raise _missing(table, current, name, kind)
    if known.snapshot_ref_type is not kind:
        told = known.snapshot_ref_type
        raise PlanError(f"{name} of {table} is a {told} and not a {kind}. Write DROP {told.upper()} {name}.")
    return (RemoveSnapshotRefUpdate(ref_name=name),)


def forwarding(table: str, metadata: TableMetadata, branch: str, to: str) -> tuple[tuple[TableUpdate, ...], int | None, int]:
    """The update that moves a branch to another branch or a tag that comes from it, and the snapshots before and after.

    Raises as `Branches.fast_forward` says.
    """
    goal = referred(table, metadata, to).snapshot_id
    known = metadata.refs.get(branch)
    if known is not None and known.snapshot_ref_type is SnapshotRefType.TAG:
        raise PlanError(f"{branch} of {table} is a tag, and stays where it is. Name a branch to move.")
    head = head_of(metadata, branch)
    if head is not None and head.snapshot_id == goal:
        return (), goal, goal
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    if head is not None and head.snapshot_id not in {snapshot.snapshot_id for snapshot in ancestors(by_id, goal)}:
        advice = f"MERGE or INSERT the rows of {to} into it, or set it there with CALL system.set_current_snapshot."
        raise PlanError(f"The branch {branch} of {table} has snapshots that {to} does not come from: it cannot be forwarded. {advice}")
    return (point_branch_at(metadata, branch, goal),), None if head is None else head.snapshot_id, goal


def referred(table: str, metadata: TableMetadata, name: str) -> SnapshotRef:
    """The branch or tag of a name. Raises VersionNotFound with near names."""
    if (found := metadata.refs.get(name)) is not None:
        return found
    near = get_close_matches(name, metadata.refs, n=2, cutoff=0.7)
    told = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(sorted(metadata.refs)) or 'none'}."
    raise VersionNotFound(f"{table} has no branch or tag {name}. {told}")


def _kind(tag: bool) -> SnapshotRefType:
    return SnapshotRefType.TAG if tag else SnapshotRefType.BRANCH


def _check_main(table: str, name: str) -> None:
    if name == MAIN:
        advice = f"Set it back with RESTORE TABLE {table} TO VERSION AS OF."
        raise PlanError(f"The branch {MAIN} is what {table} is read at, and stays. {advice}")


def _missing(table: str, current: Current, name: str, kind: SnapshotRefType) -> VersionNotFound:
    known = ", ".join(sorted(name for name, ref in current.metadata.refs.items() if ref.snapshot_ref_type is kind)) or "none"
    return VersionNotFound(f"{table} has no {kind} {name}. There are: {known}.")
