"""Maintenance of a table's files: VACUUM of every format, and procedures of formats whose metadata lists the snapshots."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from rowmerge.storage.store import StoredObject

_LOG_FILE = re.compile(r"(.+?/)(?:_delta_log/.|metadata/[^/]*\.metadata\.json(?:\.gz)?$)")


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
class VacuumOptions:
    """`retain_hours`: None for the table's own retention, which a shorter one is checked against; `record`: tell it in the history."""

    retain_hours: float | None = None
    dry_run: bool = False
    check_retention: bool = True
    record: bool = True


@dataclass(frozen=True)
class Vacuumed:
    """The absolute paths of the files that were deleted, or would be, and the table's version afterwards."""

    paths: tuple[str, ...]
    version: int


class TableMaintenance(Protocol):
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

    def removed_delete_files(self, snapshot_id: int) -> int:
        """How many delete files a snapshot took out, as it says itself."""


def inner_tables(objects: Iterable[StoredObject]) -> tuple[str, ...]:
    """Return the folders of tables and views below a table's folder, each with a slash at its end.

    `objects` is a listing of the table's folder. A statement on the outer table deletes none of the inner tables' files.
    """
    return tuple({match[1] for match in (_LOG_FILE.match(stored.path) for stored in objects) if match is not None})
