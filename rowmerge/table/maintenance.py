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
    """Which snapshots expire. None: the value in the table's properties.

    `older_than`: a time in milliseconds since the epoch. `retain_last`: the number of newest snapshots of each branch that stay, whatever
    their age. `snapshot_ids`: snapshots that expire as well, whatever their age.
    """

    older_than: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Expired:
    """The number of deleted files of each kind, after snapshots expired."""

    data_files: int = 0
    position_delete_files: int = 0
    equality_delete_files: int = 0
    manifests: int = 0
    manifest_lists: int = 0
    statistics_files: int = 0


@dataclass(frozen=True)
class RewrittenManifests:
    """The number of manifests that were replaced, and the number of manifests that replace them."""

    rewritten: int = 0
    added: int = 0


@dataclass(frozen=True)
class RewrittenDeletes:
    """The number of delete files that were replaced and of those that replace them, with the sizes of both in bytes."""

    rewritten: int = 0
    added: int = 0
    rewritten_bytes: int = 0
    added_bytes: int = 0


@dataclass(frozen=True)
class VacuumOptions:
    """How VACUUM deletes files.

    `retain_hours`: the retention in hours, None for that of the table. `check_retention`: reject a retention that is shorter than the
    table's. `record`: add the VACUUM to the history.
    """

    retain_hours: float | None = None
    dry_run: bool = False
    check_retention: bool = True
    record: bool = True


@dataclass(frozen=True)
class Vacuumed:
    """The absolute paths of the files that VACUUM deleted, or would delete in a dry run, and the table's version after it."""

    paths: tuple[str, ...]
    version: int


class TableMaintenance(Protocol):
    """Procedures that maintain snapshots, manifests and delete files. Each commits at most once, after concurrent commits.

    All of them raise UnsupportedTableFeature, CommitConflict, CommitStateUnknown, StorageError.
    """

    def expire(self, options: ExpiryOptions) -> Expired:
        """Expire snapshots, and delete the files that no other snapshot needs. Raises PlanError if a branch or tag needs one."""

    def remove_orphan_files(self, older_than: int | None, *, dry_run: bool) -> tuple[str, ...]:
        """Delete files of the table's folder that no metadata refers to. Return their absolute paths.

        Args:
            older_than: The time before which the files were written, in milliseconds since the epoch. None for three days ago.
            dry_run: Whether to return the paths without deleting the files.
        """

    def rewrite_manifests(self) -> RewrittenManifests:
        """Rewrite the manifests of data files to manifests of full size, with the files of a partition together."""

    def rewrite_position_deletes(self) -> RewrittenDeletes:
        """Write one delete file for each data file that has several, or that shares one with other data files. Data files stay."""

    def check_ancestor(self, snapshot_id: int) -> int:
        """Return `snapshot_id` if it is the newest snapshot or one of its ancestors. Raises VersionNotFound otherwise."""

    def newest_ancestor_before(self, timestamp: int) -> int:
        """Return the id of the newest snapshot older than a time (ms since the epoch). Raises VersionNotFound if there is none."""

    def removed_delete_files(self, snapshot_id: int) -> int:
        """Return the number of delete files that a snapshot removed, from its summary."""


def inner_table_prefixes(objects: Iterable[StoredObject]) -> tuple[str, ...]:
    """Return the folders of tables and views below a table's folder, each with a slash at its end.

    `objects` is a listing of the table's folder. A statement on the outer table deletes none of the inner tables' files.
    """
    return tuple({match[1] for match in (_LOG_FILE.match(listed.path) for listed in objects) if match is not None})
