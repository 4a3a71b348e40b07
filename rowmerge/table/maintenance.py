"""Maintenance of a table's files: VACUUM, symlink manifests, and procedures for formats whose metadata lists snapshots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from rowmerge.concurrency import map_concurrently
from rowmerge.storage.store import Storage, StoredObject, absolute_location, locate

_LOG_FILE = re.compile(r"(.+?/)(?:_delta_log/.|metadata/[^/]*\.metadata\.json(?:\.gz)?$)")


@dataclass(frozen=True)
class ExpiryOptions:
    """The options that determine which snapshots expire. None means the value in the table's properties.

    `older_than`: the time before which snapshots expire, in milliseconds since the epoch. `retain_last`: the number of newest snapshots of
    each branch that are kept regardless of age. `snapshot_ids`: additional snapshots that expire regardless of age. `cleans_metadata`:
    whether schemas and partition specs are removed that no remaining snapshot uses.
    """

    older_than: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    cleans_metadata: bool = False


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


class PrefixMismatch(Enum):
    """What `remove_orphan_files` does with a file to which the metadata refer by another scheme or authority (Iceberg's names)."""

    ERROR = "raise an error"
    IGNORE = "keep the file"
    DELETE = "delete the file"


@dataclass(frozen=True)
class PrefixRule:
    """The comparison of the scheme and the authority in paths of files.

    `schemes`, `authorities`: the common name of each alias, such as `s3` for `s3a`. `mismatch`: what happens to a file whose path differs
    only in its scheme or authority from a path in the metadata.
    """

    schemes: Mapping[str, str] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)
    mismatch: PrefixMismatch = PrefixMismatch.IGNORE

    def split(self, path: str) -> tuple[str, str]:
        """Return the common prefix (scheme and authority) of an absolute path, and the remaining path."""
        scheme, _, authority_and_path = path.partition("://")
        authority, _, inner_path = authority_and_path.partition("/")
        return f"{self.schemes.get(scheme, scheme)}://{self.authorities.get(authority, authority)}", inner_path


@dataclass(frozen=True)
class OrphanOptions:
    """The options of the removal of orphan files.

    `older_than`: only files that were written before this time are deleted, in milliseconds since the epoch. `dry_run`: return the paths
    without deleting the files. `folder`: the path of the folder to clean, relative to the table's folder, with a slash at the end. It is
    empty for the table's own folder. `listed`: the files to look for, with absolute paths, or None for a listing of the folder.
    """

    older_than: int
    dry_run: bool = False
    folder: str = ""
    listed: Sequence[StoredObject] | None = None
    prefixes: PrefixRule = field(default_factory=PrefixRule)

    def candidates(self, location: str, objects: Iterable[StoredObject]) -> list[StoredObject]:
        """Return the old files that may be orphans, with paths relative to the table's folder.

        Args:
            location: The absolute location of the table's folder.
            objects: The objects in the folder. They are the candidates if there is no list of files.
        """
        if self.listed is not None:
            objects = self._listed_below(location)
        return [file for file in objects if file.modified < self.older_than and file.path.startswith(self.folder)]

    def _listed_below(self, location: str) -> list[StoredObject]:
        """Return the listed files in the table's folder, with relative paths. Skip all others, which other tables may need."""
        prefix, folder = self.prefixes.split(f"{location}/")
        files = [(file, *self.prefixes.split(absolute_location(file.path))) for file in self.listed or ()]
        return [
            StoredObject(path.removeprefix(folder), file.size, file.modified)
            for file, file_prefix, path in files
            if file_prefix == prefix and path.startswith(folder)
        ]


@dataclass(frozen=True)
class PathRewrite:
    """The options of a copy of metadata with other paths (Iceberg's `rewrite_table_path`).

    `source_prefix`: the prefix of all paths in the metadata. `target_prefix`: the prefix that replaces it. `start_version`: the name or the
    path of the metadata file whose files the target has already, or None. `end_version`: the last metadata file to copy, or None for the
    newest. `staging_location`: the folder for the copies, or None for a new folder. `creates_file_list`: whether to list the files to copy.
    """

    source_prefix: str
    target_prefix: str
    start_version: str | None = None
    end_version: str | None = None
    staging_location: str | None = None
    creates_file_list: bool = True


@dataclass(frozen=True)
class RewrittenPaths:
    """The result of a copy of metadata with other paths.

    `latest_version`: the name of the last metadata file. `file_list`: the path of the list of files to copy, or `N/A`. `manifests`,
    `delete_files`: the numbers of files that were written with other paths.
    """

    latest_version: str
    file_list: str
    manifests: int
    delete_files: int


@dataclass(frozen=True)
class DistinctValues:
    """The distinct values of a column. `data`: a serialized theta sketch. `count`: the estimate of the sketch."""

    data: bytes
    count: int


@dataclass(frozen=True)
class ManifestRewriteOptions:
    """The options of a rewrite of manifests.

    `spec_id`: the partition spec whose manifests are rewritten, or None for all. `sort_by`: the partition fields by which the files are
    sorted first.
    """

    spec_id: int | None = None
    sort_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeleteRewriteOptions:
    """The options of a rewrite of position delete files, which select the partitions that are rewritten.

    `rewrites_all`: whether delete files are rewritten that already apply to one data file only. `min_files`: the least number of delete
    files to rewrite in a partition. `max_files`: the largest number of delete files to rewrite, or None for no limit. `min_size`,
    `max_size`: a partition is rewritten only if one of its delete files is smaller or larger, in bytes; None for no limit. `paths`: only
    partitions with one of these data files are rewritten, or None for all.
    """

    rewrites_all: bool = False
    min_files: int = 1
    max_files: int | None = None
    min_size: int | None = None
    max_size: int | None = None
    paths: frozenset[str] | None = None


ALL_MANIFESTS, ALL_DELETE_FILES = ManifestRewriteOptions(), DeleteRewriteOptions()
"""The default options, with which a rewrite considers all partition specs and partitions."""


@dataclass(frozen=True)
class VacuumOptions:
    """The options of VACUUM.

    `retain_hours`: the retention period in hours, or None for the table's own. `dry_run`: return the files without deleting them.
    `check_retention`: reject a retention period that is shorter than the table's own. `record`: add the VACUUM to the table's history.
    `orphans`: the options for a VACUUM that keeps the files of all versions in the log. If None, VACUUM deletes those of old versions.
    `lite`: delete only files that the metadata of the table names, without listing its folder. `inventory`: the files of the folder, or
    None to list them.
    """

    retain_hours: float | None = None
    dry_run: bool = False
    check_retention: bool = True
    record: bool = True
    orphans: OrphanOptions | None = None
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

    def remove_orphan_files(self, options: OrphanOptions) -> tuple[str, ...]:
        """Delete the files in the table's folder to which no metadata refers. Return their absolute paths.

        Raises PlanError if the metadata refer to a file by another scheme or authority, and `options` make this an error.
        """

    def rewrite_manifests(self, options: ManifestRewriteOptions = ALL_MANIFESTS) -> RewrittenManifests:
        """Combine the manifests of data files into manifests of the target size, and group the files by partition.

        Raises PlanError if the table lacks the partition spec, or the spec lacks a field.
        """

    def rewrite_position_deletes(self, options: DeleteRewriteOptions = ALL_DELETE_FILES) -> RewrittenDeletes:
        """Rewrite position delete files so that each data file has at most one, which it does not share. Data files stay unchanged."""

    def write_table_statistics(self, snapshot_id: int, columns: Mapping[tuple[str, ...], DistinctValues]) -> str:
        """Store the sketches of columns of a snapshot, by the path of the column. Return the absolute path of the file.

        Raises VersionNotFound if the table has no such snapshot.
        """

    def write_partition_statistics(self, snapshot_id: int) -> str | None:
        """Store the counts of each partition of a snapshot. Return the absolute path of the file, or None if there are no files.

        Raises PlanError if the table is not partitioned, and VersionNotFound if it has no such snapshot.
        """

    def rewrite_paths(self, options: PathRewrite) -> RewrittenPaths:
        """Stage a copy of the metadata in which all paths have another prefix. The table does not change.

        Raises PlanError if a prefix or a version does not fit the table.
        """

    def check_current_spec(self, spec_id: int) -> None:
        """Check that a partition spec is the current one, by which new files are partitioned. Otherwise, raises PlanError."""

    def ancestors(self, snapshot_id: int | None) -> list[tuple[int, int]]:
        """Return the id and the time of a snapshot and of its ancestors, newest first. None is the current snapshot.

        The list is empty if the table has no such snapshot. Times are in milliseconds since the epoch.
        """

    def changelog_versions(self, snapshot_id: int | None) -> list[tuple[int, int, str, int | None]]:
        """Return the id, the time, the operation and the parent's id of a snapshot and its ancestors, newest first.

        None is the current snapshot. The list is empty if the table has no such snapshot. The operation is Iceberg's, such as `append`.
        """

    def identifier_columns(self) -> tuple[str, ...]:
        """Return the names of the identifier fields of the current schema."""

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
