"""Rewrite manifests or position deletes, without the data files, in a snapshot of the operation `replace`.

The steps follow Iceberg's RewriteManifests and RewritePositionDeleteFiles. The driver writes all files, and writes them again after a lost
race.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate

from rowmerge.errors import CommitStateUnknown, PlanError, RowmergeError
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates
from rowmerge.iceberg.commits.snapshot_entry import new_snapshot_id, snapshot_updates
from rowmerge.iceberg.commits.snapshot_files import MAX_MANIFEST_ENTRIES, Removal, SnapshotFiles, WrittenSnapshot, manifests_by_spec
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry, Manifest
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.partition_values import unpartitioned_spec_ids
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.snapshots.live_files import LiveFiles, is_shared, key_of_delete, live_files
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.maintenance import (
    ALL_DELETE_FILES,
    ALL_MANIFESTS,
    DeleteRewriteOptions,
    ManifestRewriteOptions,
    RewrittenDeletes,
    RewrittenManifests,
)
from rowmerge.table.snapshots.files import Positions

T = TypeVar("T", RewrittenManifests, RewrittenDeletes)


@dataclass
class Rewriting(ABC, Generic[T]):
    """One rewrite of the manifests or the position deletes of a table."""

    operations: TableOperations
    table: str
    operation: ClassVar[str]
    metric_names: ClassVar[tuple[str, str]]
    """The names of two metrics: the number of rewritten files, and the number of added files."""
    result: T = field(init=False)
    """The counts of the last attempt."""
    _files: SnapshotFiles | None = field(default=None, init=False)

    @abstractmethod
    def write_rewritten_files(self, files: SnapshotFiles, parent: Snapshot) -> tuple[T, WrittenSnapshot | None]:
        """Write the snapshot that follows `parent`.

        Args:
            files: The writer of the snapshot's files.
            parent: The current snapshot of the table.

        Returns:
            The counts, and the snapshot or None if no file must be rewritten.
        """

    def commit(self) -> T:
        """Commit the rewrite, and return its counts. Raises CorruptLog if a file is damaged, and the errors of `commit_updates`."""
        try:
            commit_updates(self.operations, self.table, self.operation, self._write_snapshot)
        except CommitStateUnknown:
            raise
        except RowmergeError:
            self._discard()
            raise
        return self.result

    def _write_snapshot(self, current: CurrentMetadata) -> tuple[TableUpdate, ...]:
        """Write the snapshot that follows the current one, and return the updates that add it, if any file must be rewritten.

        `commit_updates` calls this method again after a lost race. The attributes keep the files and the counts of the last attempt.
        """
        self._discard()  # The files of the preceding attempt are useless: its snapshot does not follow the current one.
        metadata, parent = current.metadata, current.metadata.current_snapshot()
        if parent is None:
            return ()
        current.check_write(self.table)
        self._files = SnapshotFiles(self.operations.storage, metadata, new_snapshot_id(), added=())
        # The subclass rewrites either manifests or position deletes.
        counts, snapshot = self.write_rewritten_files(self._files, parent)
        self.result = counts
        if snapshot is None:
            return ()
        # The summary of the snapshot records the counts as metrics.
        rewritten_metric, added_metric = self.metric_names
        metrics = {rewritten_metric: counts.rewritten, added_metric: counts.added}
        change = CommitRequest(self.operation, metrics=metrics, data_change=False)
        return snapshot_updates(metadata, MAIN, parent, snapshot, change)

    def _discard(self) -> None:
        """Delete the files of the last attempt, if there was one."""
        if self._files is not None:
            self._files.discard()


@dataclass
class ManifestRewriting(Rewriting[RewrittenManifests]):
    """Rewrites manifests to about the size `commit.manifest.target-size-bytes`, each with the files of neighbouring partitions."""

    operation = "REWRITE MANIFESTS"
    metric_names = ("numManifestsReplaced", "numManifestsCreated")
    options: ManifestRewriteOptions = ALL_MANIFESTS
    result: RewrittenManifests = field(default_factory=RewrittenManifests, init=False)

    def write_rewritten_files(self, files: SnapshotFiles, parent: Snapshot) -> tuple[RewrittenManifests, WrittenSnapshot | None]:
        """Rewrite the manifests of each partition spec. A spec whose only manifest does not exceed the target size keeps this manifest.

        Args:
            files: The writer of the snapshot's files.
            parent: The current snapshot of the table.

        Returns:
            The counts, and the snapshot or None if every manifest stays.
        """
        self._check_options(files.metadata)
        target_size = max(1, files.target_manifest_size)
        manifests = read_manifest_list(files.storage, parent.manifest_list)
        unchanged_manifests: list[Manifest] = []
        new_manifests: list[Manifest] = []
        for manifests_of_spec in manifests_by_spec(manifests):
            spec_id = manifests_of_spec[0].spec_id
            new_count = math.ceil(sum(manifest.length for manifest in manifests_of_spec) / target_size)
            is_other_spec = self.options.spec_id not in (None, spec_id)
            if is_other_spec or (len(manifests_of_spec) == 1 and new_count == 1):
                unchanged_manifests += manifests_of_spec
            else:
                first_fields = _positions_of(files.metadata, spec_id, self.options.sort_by)
                new_manifests += _rewrite_group(files, manifests_of_spec, new_count, first_fields)
        rewritten_count = len(manifests) - len(unchanged_manifests)
        result = RewrittenManifests(rewritten_count, len(new_manifests))
        if not rewritten_count:
            return result, None
        return result, files.put_snapshot(files.metadata, parent, [*new_manifests, *unchanged_manifests], entries=())

    def _check_options(self, metadata: TableMetadata) -> None:
        """Raise PlanError if the table lacks the partition spec, or the spec lacks a field of `sort_by`."""
        specs, spec_id = metadata.specs(), self.options.spec_id
        if spec_id is not None and spec_id not in specs:
            problem = f"{self.table} has no partition spec {spec_id}."
            raise PlanError(f"{problem} There are: {', '.join(map(str, specs))}. Leave it out to rewrite the manifests of all specs.")
        sorted_spec = specs[metadata.default_spec_id if spec_id is None else spec_id]
        names = [field.name for field in sorted_spec.fields]
        for name in self.options.sort_by:
            if name not in names:
                fields = ", ".join(names) or "none"
                raise PlanError(f"The partition spec {sorted_spec.spec_id} of {self.table} has no field {name}. The fields are: {fields}.")


@dataclass
class DeleteRewriting(Rewriting[RewrittenDeletes]):
    """Writes one position-delete file for each data file that has several, or that shares one with other data files.

    Also removes position-delete files that apply to no data file.
    """

    operation = "REWRITE POSITION DELETES"
    metric_names = ("numDeleteFilesRemoved", "numDeleteFilesAdded")
    options: DeleteRewriteOptions = ALL_DELETE_FILES
    result: RewrittenDeletes = field(default_factory=RewrittenDeletes, init=False)

    def write_rewritten_files(self, files: SnapshotFiles, parent: Snapshot) -> tuple[RewrittenDeletes, WrittenSnapshot | None]:
        """Replace position-delete files, so that each data file with deleted rows has exactly one, which no other data file shares.

        Args:
            files: The writer of the snapshot's files.
            parent: The current snapshot of the table.
        """
        live = live_files(files.storage, parent, unpartitioned_spec_ids(files.metadata))
        replaced_files, deletions = _plan_rewriting(live, self.options)
        if not replaced_files:
            return RewrittenDeletes(), None
        new_files = [file for group in files.delete_files.write([[deletion] for deletion in deletions]) for file in group]
        replaced_bytes = sum(file.size for file in replaced_files.values())
        result = RewrittenDeletes(len(replaced_files), len(new_files), replaced_bytes, sum(file.size for file in new_files))
        removal = Removal(data_paths=frozenset(), delete_keys=frozenset(replaced_files))
        remaining_manifests, removed_entries = files.rewrite_manifests(live, removal)
        new_manifests = files.write_delete_manifests(new_files)
        entries = [*removed_entries, *files.entries_of(new_manifests)]
        return result, files.put_snapshot(files.metadata, parent, [*new_manifests, *remaining_manifests], entries)


def _plan_rewriting(live: LiveFiles, options: DeleteRewriteOptions) -> tuple[dict[str, ContentFile], list[tuple[Entry, Positions]]]:
    """Return the delete files to replace, by `key_of_delete`, and the deleted rows of each data file that needs a new delete file.

    A delete file stays if it applies to one data file only, and contains all deleted rows of that data file. A delete file applies only to
    data files of its partition. So the options select whole partitions.
    """
    entries = [entry for entry in live.data if live.position_deletes_of(entry)]
    positions_by_path = live.deleted_positions(entries)
    unchanged_keys: set[str] = set()
    deleted_rows: list[tuple[Entry, Positions]] = []
    for entry in entries:
        positions = positions_by_path.get(plain_path(entry.file.path), Positions())
        complete_delete = None if options.rewrites_all else _complete_delete(live, entry, positions)
        if complete_delete is not None:
            unchanged_keys.add(key_of_delete(complete_delete))
        elif positions:  # Otherwise, its delete files delete no row of this data file, and are replaced by no file.
            deleted_rows.append((entry, positions))
    delete_files = {key_of_delete(entry): entry.file for entry in live.deletes if entry.file.content is Content.POSITION_DELETES}
    replaced_files = {key: file for key, file in delete_files.items() if key not in unchanged_keys}
    partitions = _selected_partitions(live, replaced_files.values(), options)
    selected_files = {key: file for key, file in replaced_files.items() if file.partition_key in partitions}
    return selected_files, [(entry, positions) for entry, positions in deleted_rows if entry.file.partition_key in partitions]


def _selected_partitions(live: LiveFiles, replaced_files: Iterable[ContentFile], options: DeleteRewriteOptions) -> set[tuple[Any, ...]]:
    """Return the keys of the partitions whose delete files are rewritten."""
    files_by_partition: dict[tuple[Any, ...], list[ContentFile]] = defaultdict(list)
    for file in replaced_files:
        files_by_partition[file.partition_key].append(file)
    paths = options.paths
    if paths is not None:
        kept_partitions = {entry.file.partition_key for entry in live.by_path(paths).values()}
        files_by_partition = {key: files for key, files in files_by_partition.items() if key in kept_partitions}
    selected_partitions: set[tuple[Any, ...]] = set()
    file_count = 0
    for key, files in files_by_partition.items():
        is_within_limit = options.max_files is None or file_count + len(files) <= options.max_files
        if is_within_limit and (options.rewrites_all or (len(files) >= options.min_files and _has_unusual_size(files, options))):
            selected_partitions.add(key)
            file_count += len(files)
    return selected_partitions


def _has_unusual_size(files: Iterable[ContentFile], options: DeleteRewriteOptions) -> bool:
    """Return whether a delete file is smaller or larger than the options allow. Without limits of the size, every file counts."""
    if options.min_size is None and options.max_size is None:
        return True
    smallest, largest = options.min_size or 0, math.inf if options.max_size is None else options.max_size
    return any(file.size < smallest or file.size > largest for file in files)


def _complete_delete(live: LiveFiles, entry: Entry, positions: Positions) -> Entry | None:
    """Return the delete file that applies to this data file only and deletes all of these positions.

    Return None if there is no such file, or if several files apply to this data file only.
    """
    own_deletes = [delete for delete in live.position_deletes_of(entry) if not is_shared(delete)]
    if len(own_deletes) != 1 or positions != live.deleted_positions_in(own_deletes, entry):
        return None
    return own_deletes[0]


def _positions_of(metadata: TableMetadata, spec_id: int, names: Sequence[str]) -> list[int]:
    """Return the positions of partition fields in a partition spec. Leave out fields that the spec lacks."""
    field_names = [field.name for field in metadata.specs()[spec_id].fields]
    return [field_names.index(name) for name in names if name in field_names]


def _rewrite_group(files: SnapshotFiles, group: Sequence[Manifest], manifest_count: int, first_fields: Sequence[int]) -> list[Manifest]:
    """Write the live files of one partition spec's manifests to `manifest_count` new manifests, sorted by partition.

    `first_fields`: the positions of the partition fields by which the files are sorted first.
    """
    entries = [entry.existing() for entries in read_manifests(files.storage, group) for entry in entries if entry.live]

    def sort_key(entry: Entry) -> list[tuple[bool, Any]]:
        partition = entry.file.partition
        values = [*(partition[index] for index in first_fields), *partition]
        return [(value is not None, 0 if value is None else value) for value in values]  # nulls come first

    entries.sort(key=sort_key)
    max_entries = min(MAX_MANIFEST_ENTRIES, math.ceil(len(entries) / manifest_count)) or 1
    return files.write_manifests(entries, group[0].content, group[0].spec_id, max_entries)
