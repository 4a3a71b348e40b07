"""What can be done to keep a table of snapshots in shape, for formats whose metadata lists its snapshots one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ExpiryOptions:
    """Which snapshots go. None: as the table's properties say; times in milliseconds since the epoch.

    `retain_last`: so many snapshots of each branch stay, however old; `snapshot_ids`: these go too, whatever their age.
    """

    older_than: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Expired:
    """How many files of which kind were deleted after snapshots expired."""

    data_files: int = 0
    position_delete_files: int = 0
    equality_delete_files: int = 0
    manifests: int = 0
    manifest_lists: int = 0
    statistics_files: int = 0


@dataclass(frozen=True)
class RewrittenManifests:
    """How many manifests went, and how many came for them."""

    rewritten: int = 0
    added: int = 0


@dataclass(frozen=True)
class RewrittenDeletes:
    """How many delete files went and came, with their sizes in bytes."""

    rewritten: int = 0
    added: int = 0
    rewritten_bytes: int = 0
    added_bytes: int = 0


@dataclass(frozen=True)
class SnapshotReference:
    """A branch or a tag. `snapshot_id`: None for the newest snapshot; ages in milliseconds, None for what the table's properties say."""

    name: str
    tag: bool
    snapshot_id: int | None = None
    max_age: int | None = None
    min_snapshots: int | None = None
    max_snapshot_age: int | None = None


class SnapshotUpkeep(Protocol):
    """Each is one commit at most, behind those of others.

    All raise UnsupportedTableFeature, CommitConflict, CommitStateUnknown, StorageError.
    """

    def expire(self, options: ExpiryOptions) -> Expired:
        """Expire snapshots that no branch or tag keeps, then delete what no snapshot needs. Raises PlanError for one that must stay."""

    def remove_orphan_files(self, older_than: int | None, *, dry_run: bool) -> tuple[str, ...]:
        """Delete files of the table's folder that nothing refers to, written before a time (None: three days ago). Absolute paths."""

    def rewrite_manifests(self) -> RewrittenManifests:
        """Write the manifests of the data files anew: of full size, files of one partition together."""

    def rewrite_position_deletes(self) -> RewrittenDeletes:
        """One delete file for each data file that has several, or shares some with others; data files stay as they are."""

    def ancestor(self, *, snapshot_id: int | None = None, before: int | None = None) -> int:
        """The id of an ancestor of the newest snapshot: the one named, or the newest older than a time. Raises VersionNotFound."""

    def named(self, reference: str) -> int:
        """The id of the snapshot that a branch or tag names. Raises VersionNotFound."""

    def removed_delete_files(self, snapshot_id: int) -> int:
        """How many delete files a snapshot took out, as it says itself."""

    def set_reference(self, reference: SnapshotReference, *, create: bool, replace: bool, if_not_exists: bool) -> None:
        """Make or replace a branch or a tag. Raises AlreadyExists, VersionNotFound, PlanError for the main branch."""

    def fast_forward(self, branch: str, to: str) -> tuple[int | None, int]:
        """Move a branch to where another branch or a tag is, which must come from it; a branch that is not there is made.

        The snapshots before (None: there was no such branch) and after. Raises VersionNotFound, PlanError where the two went apart.
        """

    def drop_reference(self, name: str, *, tag: bool, if_exists: bool) -> None:
        """Raises VersionNotFound for one that is not there, PlanError for the main branch and for a tag that is a branch."""
