"""Create, replace, move and drop branches and tags, in commits that change only metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Protocol

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate, TableUpdate

from rowmerge.errors import AlreadyExists, PlanError, VersionNotFound
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates, newest
from rowmerge.iceberg.maintenance.publication import Publication, staged_snapshot_id
from rowmerge.iceberg.metadata.refs import MAIN, ancestors, head_of, point_branch_at
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import SnapshotReference, Table


class OpenBranch(Protocol):
    """A function that opens a table on a branch."""

    def __call__(self, name: str, *, creates_branch: bool) -> Table:
        """Open the table. `creates_branch`: whether the first commit creates a branch that does not exist."""


@dataclass(frozen=True)
class IcebergBranches:
    """Implements `rowmerge.table.table.Branches`.

    `open_branch`: opens the table on a branch. `open_reference`: opens the snapshot of a branch or a tag. `open_staging`: opens the table
    so that its commits stage snapshots.
    """

    operations: TableOperations
    name: str
    open_branch: OpenBranch
    open_reference: Callable[[str], Snapshot]
    open_staging: Callable[[str], Table]

    def table(self, branch: str, *, create: bool = False) -> Table:
        """Open the table on a branch, as documented in `Branches.table`.

        Args:
            branch: The name of the branch.
            create: Whether the first commit creates a branch that does not exist.
        """
        return self.open_branch(branch, creates_branch=create)

    def staging_table(self, staged_id: str) -> Table:
        return self.open_staging(staged_id)

    def snapshot(self, reference: str) -> Snapshot:
        return self.open_reference(reference)

    def snapshot_id(self, reference: str) -> int:
        return find_reference(self.name, newest(self.operations, self.name).metadata, reference).snapshot_id

    def set_reference(self, reference: SnapshotReference, *, create: bool, replace: bool, if_not_exists: bool) -> None:
        """Create or replace a branch or tag, as documented in `Branches.set_reference`.

        Args:
            reference: The branch or tag.
            create: Whether the reference may be new.
            replace: Whether an existing reference is replaced.
            if_not_exists: Whether an existing reference is left unchanged, without an error.
        """
        make_updates = partial(_reference_updates, self.name, reference, create=create, replace=replace, if_not_exists=if_not_exists)
        commit_updates(self.operations, self.name, f"the reference {reference.name}", make_updates)

    def fast_forward(self, branch: str, to: str) -> tuple[int | None, int]:
        """Move a branch forward to the snapshot of another reference, as documented in `Branches.fast_forward`.

        After a lost race, `commit_updates` computes the updates again from the newest metadata, in which the branch may point at another
        snapshot. The result is about the last attempt, which is the committed one.

        Args:
            branch: The name of the branch, which may be new.
            to: The name of the other branch or tag.

        Returns:
            The ids of the branch's snapshot before and after the move. The first id is None for a new branch.
        """
        moves_of_attempts: list[tuple[int | None, int]] = []

        def make_updates(current: CurrentMetadata) -> tuple[TableUpdate, ...]:
            head_id, target_id = _fast_forward_ids(self.name, current.metadata, branch, to)
            moves_of_attempts.append((head_id, target_id))
            return () if head_id == target_id else (point_branch_at(current.metadata, branch, target_id),)

        commit_updates(self.operations, self.name, f"the reference {branch}", make_updates)
        return moves_of_attempts[-1]

    def publish(self, snapshot_id: int) -> int:
        return Publication(self.operations, self.name, snapshot_id).commit()

    def staged_snapshot_id(self, staged_id: str) -> int:
        return staged_snapshot_id(self.name, newest(self.operations, self.name).metadata, staged_id)

    def drop(self, name: str, *, is_tag: bool, if_exists: bool) -> None:
        """Drop a branch or tag, as documented in `Branches.drop`.

        Args:
            name: The name of the reference.
            is_tag: Whether the reference must be a tag. If false, it must be a branch.
            if_exists: Whether a missing reference is ignored without an error.
        """
        make_updates = partial(_removal_updates, self.name, name, _kind(is_tag), if_exists)
        commit_updates(self.operations, self.name, f"the reference {name}", make_updates)


def _reference_updates(
    table: str, reference: SnapshotReference, current: CurrentMetadata, *, create: bool, replace: bool, if_not_exists: bool
) -> tuple[TableUpdate, ...]:
    """Return the update that creates or replaces a branch or tag. Return no update for IF NOT EXISTS if the branch or tag exists.

    Args:
        table: The name of the table in error messages.
        reference: The branch or tag.
        current: The newest metadata of the table.
        create: Whether the reference may be new.
        replace: Whether an existing reference is replaced.
        if_not_exists: Whether an existing reference is left unchanged, without an error.

    Raises:
        AlreadyExists: The reference exists, and neither `replace` nor `if_not_exists` allows that.
        PlanError: The reference is main, or exists as a branch instead of a tag, or as a tag instead of a branch.
        VersionNotFound: The reference does not exist and may not be created, or its snapshot does not exist.
    """
    metadata = current.metadata
    _check_can_set(table, metadata, reference, may_be_new=create, may_exist=replace or if_not_exists)
    if if_not_exists and reference.name in metadata.refs:
        return ()
    update = SetSnapshotRefUpdate(
        ref_name=reference.name,
        type=_kind(reference.tag),
        snapshot_id=_existing_snapshot_id(table, metadata, reference.snapshot_id),
        max_ref_age_ms=reference.max_age,
        max_snapshot_age_ms=reference.max_snapshot_age,
        min_snapshots_to_keep=reference.min_snapshots,
    )
    return (update,)


def _check_can_set(table: str, metadata: TableMetadata, reference: SnapshotReference, *, may_be_new: bool, may_exist: bool) -> None:
    """Raise an error for main, for an existing reference of another kind, or for a reference that must not be new or must not exist."""
    name, kind = reference.name, _kind(reference.tag)
    _check_not_main(table, name)
    existing = metadata.refs.get(name)
    if existing is None and not may_be_new:
        raise _missing_reference_error(table, metadata, name, kind)
    if existing is not None:
        _check_kind(table, name, existing, kind, "Drop it first, or choose another name.")
    if existing is not None and not may_exist:
        raise AlreadyExists(f"{table} already has a {kind} {name}. Choose another name, or use CREATE OR REPLACE {kind.upper()}.")


def _existing_snapshot_id(table: str, metadata: TableMetadata, snapshot_id: int | None) -> int:
    """Return a snapshot id, or the id of the current snapshot for None. Raises VersionNotFound if the table has no such snapshot."""
    snapshot_id = metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    if snapshot_id is None:
        raise VersionNotFound(f"{table} has no snapshot yet. Write rows first.")
    if metadata.snapshot_by_id(snapshot_id) is None:
        raise VersionNotFound(f"{table} has no snapshot {snapshot_id}. See DESCRIBE HISTORY {table}.")
    return snapshot_id


def _removal_updates(table: str, name: str, kind: SnapshotRefType, if_exists: bool, current: CurrentMetadata) -> tuple[TableUpdate, ...]:
    """Return the update that removes a branch or tag, or no update if it is missing and `if_exists` is true.

    Raises the errors that are documented in `Branches.drop`.
    """
    _check_not_main(table, name)
    existing = current.metadata.refs.get(name)
    if existing is None:
        if if_exists:
            return ()
        raise _missing_reference_error(table, current.metadata, name, kind)
    _check_kind(table, name, existing, kind, f"Use DROP {existing.snapshot_ref_type.upper()} {name}.")
    return (RemoveSnapshotRefUpdate(ref_name=name),)


def _fast_forward_ids(table: str, metadata: TableMetadata, branch: str, to: str) -> tuple[int | None, int]:
    """Return the snapshot ids of a branch before and after it is fast-forwarded to the reference `to`.

    The first id is None for a new branch.

    Raises PlanError for a tag, and if the branch's snapshot is not an ancestor of the snapshot of `to`.
    """
    target_id = find_reference(table, metadata, to).snapshot_id
    ref = metadata.refs.get(branch)
    if ref is not None and ref.snapshot_ref_type is SnapshotRefType.TAG:
        raise PlanError(f"{branch} of {table} is a tag, which cannot be moved. Name a branch instead.")
    head = head_of(metadata, branch)
    if head is None:
        return None, target_id
    target_ancestry = {target_id, *(ancestor.snapshot_id for ancestor in ancestors(metadata, target_id))}
    if head.snapshot_id not in target_ancestry:
        advice = f"MERGE or INSERT the rows of {to} into it, or point it at that snapshot with CALL system.set_current_snapshot."
        raise PlanError(f"The branch {branch} of {table} cannot be fast-forwarded: its snapshot is not an ancestor of {to}. {advice}")
    return head.snapshot_id, target_id


def find_reference(table: str, metadata: TableMetadata, name: str) -> SnapshotRef:
    """Return the branch or tag with a name.

    Args:
        table: The name of the table in error messages.
        metadata: The current metadata of the table.
        name: The name of the branch or tag.

    Raises:
        VersionNotFound: There is no such reference. The message contains similar names.
    """
    reference = metadata.refs.get(name)
    if reference is not None:
        return reference
    similar = get_close_matches(name, metadata.refs, n=2, cutoff=0.7)
    hint = f"Did you mean {' or '.join(similar)}?" if similar else f"There are: {', '.join(sorted(metadata.refs)) or 'none'}."
    raise VersionNotFound(f"{table} has no branch or tag {name}. {hint}")


def _kind(is_tag: bool) -> SnapshotRefType:
    return SnapshotRefType.TAG if is_tag else SnapshotRefType.BRANCH


def _check_kind(table: str, name: str, existing: SnapshotRef, kind: SnapshotRefType, advice: str) -> None:
    if existing.snapshot_ref_type is not kind:
        raise PlanError(f"{name} of {table} is a {existing.snapshot_ref_type}, not a {kind}. {advice}")


def _check_not_main(table: str, name: str) -> None:
    if name == MAIN:
        advice = f"To restore an older snapshot, use RESTORE TABLE {table} TO VERSION AS OF."
        raise PlanError(f"The branch {MAIN} of {table} is the default branch and cannot be set or dropped. {advice}")


def _missing_reference_error(table: str, metadata: TableMetadata, name: str, kind: SnapshotRefType) -> VersionNotFound:
    names = ", ".join(sorted(name for name, ref in metadata.refs.items() if ref.snapshot_ref_type is kind)) or "none"
    return VersionNotFound(f"{table} has no {kind} {name}. There are: {names}.")
