"""Maintenance of a table's files: VACUUM, symlink manifests, and procedures for formats whose metadata lists snapshots."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from rowmerge.concurrency import map_concurrently
from rowmerge.storage.store import Storage, StoredObject, locate

_LOG_FILE = re.compile(r"(.+?/)(?:_delta_log/.|metadata/[^/]*\.metadata\.json(?:\.gz)?$)")


@dataclass(frozen=True)
class ExpiryOptions:
    """The options that determine which snapshots expire. None means the value in the table's properties.

    `older_than`: the time before which snapshots expire, in milliseconds since the epoch. `retain_last`: the number of newest snapshots of
    each branch that are kept regardless of age. `snapshot_ids`: additional snapshots that expire regardless of age.
    """

    older_than: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Expired:
    """The result of expiring snapshots: the number of deleted files of each kind."""

    data_files: int = 0
    position_delete_files: int = 0
    equality_delete_files: int = 0
    manifests: int = 0
    manifest_lists: int = 0
    statistics_files: int = 0


@dataclass(frozen=True)
class RewrittenManifests:
    """The result of rewriting manifests: the number of replaced manifests, and the number of new manifests."""

    rewritten: int = 0
    added: int = 0


@dataclass(frozen=True)
class RewrittenDeletes:
    """The result of rewriting delete files: the number of replaced and of new delete files, and their total sizes in bytes."""

    rewritten: int = 0
    added: int = 0
    rewritten_bytes: int = 0
    added_bytes: int = 0


@dataclass(frozen=True)
class VacuumOptions:
    """The options of VACUUM.

    `retain_hours`: the retention period in hours, or None for the table's own. `dry_run`: return the files without deleting them.
    `check_retention`: reject a retention period that is shorter than the table's own. `record`: add the VACUUM to the table's history.
    `lite`: delete only files that the metadata of the table names, without listing its folder. `inventory`: the files of the folder, or
    None to list them.
    """

    retain_hours: float | None = None
    dry_run: bool = False
    check_retention: bool = True
    record: bool = True
    lite: bool = False
    inventory: tuple[StoredObject, ...] | None = None


@dataclass(frozen=True)
class Vacuumed:
    """The result of VACUUM.

    `paths`: the absolute paths of the deleted files, or in a dry run of the files to delete. `version`: the table version afterwards.
    """

    paths: tuple[str, ...]
    version: int


@dataclass(frozen=True)
class IncompleteFile:
    """A live data file that cannot be read, because it or the file of its deletion vector does not exist.

    `vector_path`: the path of the file of the deletion vector, or None if there is none.
    """

    path: str
    is_missing: bool
    vector_path: str | None = None
    is_vector_missing: bool = False


def missing_paths(storage: Storage, paths: Iterable[str]) -> frozenset[str]:
    """Return the absolute paths at which no file exists. A listing of the folder answers most of them.

    Args:
        storage: The storage of the table.
        paths: The absolute paths of files, which may be outside the table's folder.

    Raises:
        StorageError: The folder cannot be listed, or a file cannot be looked for.
    """
    listed = {f"{storage.location}/{file.path}" for file in storage.list()}
    unlisted = sorted({path for path in paths if path not in listed})
    stores = [locate(storage, path) for path in unlisted]
    exist = map_concurrently(lambda place: place[0].exists(place[1]), stores)
    return frozenset(path for path, exists in zip(unlisted, exist, strict=True) if not exists)


class SymlinkManifests(Protocol):
    """Lists of a table's data files, for engines that do not read the metadata of the table's format."""

    def generate(self) -> int:
        """Write the manifests of all partitions, and delete all others. Return the version of the table that they describe.

        Raises PlanError if these engines would read other rows than the table has. Raises StorageError if the store failed.
        """


class TableMaintenance(Protocol):
    """Procedures that maintain snapshots, manifests and delete files. Each makes at most one commit, based on concurrent commits.

    Every procedure raises UnsupportedTableFeature, CommitConflict, CommitStateUnknown and StorageError.
    """

    def expire(self, options: ExpiryOptions) -> Expired:
        """Expire snapshots and delete the files that only they need. Raises PlanError if a branch or tag needs one of the snapshots."""

    def remove_orphan_files(self, older_than: int | None, *, dry_run: bool) -> tuple[str, ...]:
        """Delete the files in the table's folder to which no metadata refers. Return their absolute paths.

        Args:
            older_than: Only files written before this time are deleted. It is in milliseconds since the epoch, None means three days ago.
            dry_run: Whether to return the paths without deleting the files.
        """

    def rewrite_manifests(self) -> RewrittenManifests:
        """Combine the manifests of data files into manifests of the target size, and group the files by partition."""

    def rewrite_position_deletes(self) -> RewrittenDeletes:
        """Rewrite position delete files so that each data file has at most one, which it does not share. Data files stay unchanged."""

    def check_ancestor(self, snapshot_id: int) -> int:
        """Return `snapshot_id` if it is the newest snapshot or one of its ancestors. Otherwise, raises VersionNotFound."""

    def newest_ancestor_before(self, timestamp: int) -> int:
        """Return the id of the newest snapshot older than a time (milliseconds since the epoch): the current one or an ancestor.

        Raises VersionNotFound if no such snapshot exists.
        """

    def removed_delete_files(self, snapshot_id: int) -> int:
        """Return the number of delete files that a snapshot removed, according to its summary."""


def inner_table_prefixes(objects: Iterable[StoredObject]) -> tuple[str, ...]:
    """Return the folders of tables and views inside a table's folder, each with a trailing slash.

    `objects` is a listing of the table's folder. A statement on the outer table must not delete any files in the returned folders.
    """
    return tuple({match[1] for match in (_LOG_FILE.match(listed.path) for listed in objects) if match is not None})
