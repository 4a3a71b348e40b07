"""Rewrite manifests or position deletes, without the data files, in a snapshot of the operation `replace`.

Models: Iceberg's RewriteManifests and RewritePositionDeleteFiles. The driver does everything, and again after a lost race.
"""

from __future__ import annotations

import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from pyiceberg.table.snapshots import Snapshot as IcebergVersion
from pyiceberg.table.update import TableUpdate

from rowmerge.errors import CommitStateUnknown, RowmergeError
from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata
from rowmerge.iceberg.catalogs.operations import TableOperations
from rowmerge.iceberg.commits.metadata_commit import commit_updates
from rowmerge.iceberg.commits.snapshot_entry import snapshot_updates
from rowmerge.iceberg.commits.snapshot_files import MAX_MANIFEST_ENTRIES, Removal, SnapshotFiles, WrittenSnapshot, manifests_by_spec
from rowmerge.iceberg.manifests.content import Content, ContentFile, Entry, Manifest
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list, read_manifests
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.partition_values import unpartitioned_spec_ids
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.snapshots.live_files import LiveFiles, key_of_delete, live_files, scope_of
from rowmerge.table.commits.request import CommitRequest
from rowmerge.table.maintenance import RewrittenDeletes, RewrittenManifests
from rowmerge.table.snapshots.files import Positions

T = TypeVar("T", RewrittenManifests, RewrittenDeletes)


@dataclass
class Rewriting(ABC, Generic[T]):
    """One rewriting of a table's metadata files."""

    operations: TableOperations
    table: str
    operation: ClassVar[str]
    metrics: ClassVar[tuple[str, str]]
    """The names of two metrics: how many files were rewritten, and how many were added."""
    result: T = field(init=False)
    """What was rewritten."""
    _files: SnapshotFiles | None = field(default=None, init=False)

    @abstractmethod
    def write(self, files: SnapshotFiles, parent: IcebergVersion) -> WrittenSnapshot | None:
        """Write the snapshot that follows `parent`, and set `result`. Return None if there is nothing to rewrite."""

    def commit(self) -> T:
        """Commit the rewriting, and return `result`. Raises what `commit_updates` does, and CorruptLog."""
        try:
            commit_updates(self.operations, self.table, self.operation, self._updates)
        except CommitStateUnknown:
            raise
        except RowmergeError:
            self._discard()
            raise
        return self.result

    def _updates(self, current: CurrentMetadata) -> tuple[TableUpdate, ...]:
        """Write the snapshot that follows the newest metadata, and return the updates that add it. Delete files of the attempt before."""
        self._discard()
        metadata = current.metadata
        parent = metadata.current_snapshot()
        if parent is None:
            return ()
        self._files = SnapshotFiles(self.operations.storage, metadata, uuid.uuid4().int >> 65, ())
        written = self.write(self._files, parent)
        if written is None:
            return ()
        metrics = dict(zip(self.metrics, (self.result.rewritten, self.result.added), strict=True))
        change = CommitRequest(self.operation, metrics=metrics, data_change=False)
        return snapshot_updates(metadata, MAIN, parent, written, change)

    def _discard(self) -> None:
        if self._files is not None:
            self._files.discard()


@dataclass
class ManifestRewriting(Rewriting[RewrittenManifests]):
    """Writes manifests of full size (`commit.manifest.target-size-bytes`), each with the files of neighbouring partitions."""

    operation = "REWRITE MANIFESTS"
    metrics = ("numManifestsReplaced", "numManifestsCreated")
    result: RewrittenManifests = field(default_factory=RewrittenManifests, init=False)

    def write(self, files: SnapshotFiles, parent: IcebergVersion) -> WrittenSnapshot | None:
        """Rewrite the manifests of each partition spec, except a single manifest of at most the target size. Set `result`.

        Return None if no manifest is rewritten.
        """
        target_size = max(1, files.target_manifest_size)
        manifests = read_manifest_list(files.storage, parent.manifest_list)
        unchanged_manifests: list[Manifest] = []
        new_manifests: list[Manifest] = []
        for manifests_of_spec in manifests_by_spec(manifests):
            new_count = math.ceil(sum(manifest.length for manifest in manifests_of_spec) / target_size)
            if len(manifests_of_spec) == 1 and new_count == 1:
                unchanged_manifests += manifests_of_spec
            else:
                new_manifests += _rewrite_group(files, manifests_of_spec, new_count)
        rewritten_count = len(manifests) - len(unchanged_manifests)
        self.result = RewrittenManifests(rewritten_count, len(new_manifests))
        if not rewritten_count:
            return None
        return files.put_snapshot(files.metadata, parent, [*new_manifests, *unchanged_manifests], ())


@dataclass
class DeleteRewriting(Rewriting[RewrittenDeletes]):
    """Writes one position-delete file for each data file that has several or a shared one. Removes those without a data file."""

    operation = "REWRITE POSITION DELETES"
    metrics = ("numDeleteFilesRemoved", "numDeleteFilesAdded")
    result: RewrittenDeletes = field(default_factory=RewrittenDeletes, init=False)

    def write(self, files: SnapshotFiles, parent: IcebergVersion) -> WrittenSnapshot | None:
        """Replace the position deletes that are not yet the only ones of one data file. Set `result`."""
        live = live_files(files.storage, parent, unpartitioned_spec_ids(files.metadata))
        self.result = RewrittenDeletes()
        replaced_files, deletions = _plan_rewriting(live)
        if not replaced_files:
            return None
        new_files = [file for file in files.delete_files.write(deletions) if file is not None]
        sizes = _total_size(replaced_files.values()), _total_size(new_files)
        self.result = RewrittenDeletes(len(replaced_files), len(new_files), *sizes)
        removal = Removal(data_paths=frozenset(), delete_keys=frozenset(replaced_files))
        remaining_manifests, removed_entries = files.rewrite_manifests(live, removal)
        new_manifests = files.write_delete_manifests(new_files)
        entries = [*removed_entries, *files.entries_of(new_manifests)]
        return files.put_snapshot(files.metadata, parent, [*new_manifests, *remaining_manifests], entries)


def _plan_rewriting(live: LiveFiles) -> tuple[dict[str, ContentFile], list[tuple[Entry, Positions]]]:
    """Return the delete files to replace, by `key_of_delete`, and the deleted rows of each data file that needs a new delete file.

    A delete file stays if it is about one data file, and no other delete file deletes more rows of that data file.
    """
    deletes = [delete for delete in live.deletes if delete.file.content is Content.POSITION_DELETES]
    replaced_files = {key_of_delete(delete): delete.file for delete in deletes}  # the loop takes out those that stay
    entries = [entry for entry in live.data if live.position_deletes_of(entry)]
    positions_by_path = live.deleted_positions(entries)
    deletions: list[tuple[Entry, Positions]] = []
    for entry in entries:
        positions = positions_by_path.get(plain_path(entry.file.path), Positions())
        complete_delete = _complete_delete(live, entry, positions)
        if complete_delete is not None:
            replaced_files.pop(key_of_delete(complete_delete), None)
        elif positions:
            deletions.append((entry, positions))
    return replaced_files, deletions


def _complete_delete(live: LiveFiles, entry: Entry, positions: Positions) -> Entry | None:
    """Return the only delete file for this data file alone if it deletes all of these positions, else None."""
    own_deletes = [delete for delete in live.position_deletes_of(entry) if scope_of(delete) is not None]
    if len(own_deletes) != 1 or positions != live.positions_in(own_deletes, entry):
        return None
    return own_deletes[0]


def _rewrite_group(files: SnapshotFiles, group: Sequence[Manifest], manifest_count: int) -> list[Manifest]:
    """Write the live files of one partition spec's manifests to `manifest_count` new manifests, sorted by partition."""
    entries = [entry.existing() for entries in read_manifests(files.storage, group) for entry in entries if entry.live]
    # Nulls come first.
    entries.sort(key=lambda entry: [(value is not None, 0 if value is None else value) for value in entry.file.partition])
    max_entries = min(MAX_MANIFEST_ENTRIES, math.ceil(len(entries) / manifest_count)) or 1
    return files.write_manifests(entries, group[0].content, group[0].spec_id, max_entries)


def _total_size(files: Iterable[ContentFile]) -> int:
    return sum(file.size for file in files)
