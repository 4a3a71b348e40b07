"""Deep clones: snapshots with copies of the files of another table's snapshot.

Position deletes and deletion vectors name their data files, so they are written again for the copies. Equality deletes are copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate

from rowmerge.errors import PlanError
from rowmerge.iceberg.commits.commit import Commit, Creation
from rowmerge.iceberg.commits.snapshot_entry import snapshot_updates
from rowmerge.iceberg.commits.snapshot_files import Removal, SnapshotFiles, WrittenSnapshot
from rowmerge.iceberg.manifests.content import UNASSIGNED, Content, Entry, ManifestContent
from rowmerge.iceberg.metadata.definition import next_schema_id, property_updates, schema_updates
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.snapshots.clone import cloned_properties
from rowmerge.iceberg.snapshots.live_files import LiveFiles, key_of_delete
from rowmerge.iceberg.snapshots.snapshot import IcebergSnapshot, as_iceberg_snapshot
from rowmerge.storage.store import Storage
from rowmerge.table.commits.copies import FileCopies, SourceFiles
from rowmerge.table.commits.request import CommitRequest


def copy_files(source: IcebergSnapshot, base: IcebergSnapshot | None, target: Storage) -> FileCopies:
    """Copy the data files and equality-delete files of a snapshot to another table.

    Args:
        source: The snapshot.
        base: The snapshot of the other table that the clone replaces, or None for a new table.
        target: The storage of the other table.

    Raises:
        MissingDataFile: A file of the snapshot does not exist.
        StorageError: A file cannot be copied.
    """
    data = {plain_path(entry.file.path): entry.file.size for entry in source.live.data}
    live_paths = frozenset() if base is None else frozenset(base.live.paths)
    files = SourceFiles(source.name, source.storage, data, [plain_path(entry.file.path) for entry in _equality_deletes(source.live)])
    return files.copy_to(target, live_paths, "data")


def _equality_deletes(live: LiveFiles) -> list[Entry]:
    return [entry for entry in live.deletes if entry.file.content is Content.EQUALITY_DELETES]


class DeepCloneCreation(Creation):
    """The first commit of a deep clone. Copies keep the sequence numbers and row ids of the originals."""

    @property
    def _adds_snapshot(self) -> bool:
        return bool(self.change.copies)

    def _add_snapshot(self, parent: Snapshot | None, live: LiveFiles, removed_paths: object) -> tuple[TableUpdate, ...]:
        if not self._adds_snapshot:
            return ()
        written_snapshot = _write_snapshot(self._files, self._head.metadata, parent, live, self.change)
        return snapshot_updates(self._head.metadata, self.base.branch, parent, written_snapshot, self.change)


class DeepCloneReplacement(Commit):
    """A commit that replaces the files of a table with those of a deep clone, and keeps the files that earlier clones copied."""

    @property
    def _adds_snapshot(self) -> bool:
        return True

    def _definition_updates(self) -> tuple[TableUpdate, ...]:
        source, definition = as_iceberg_snapshot(self.change.cloned) if self.change.cloned else self.base, self.change.definition
        if _equality_deletes(source.live):
            problem = f"{source.name} has equality deletes, which a clone that replaces a table cannot have"
            raise PlanError(f"{problem}. Run OPTIMIZE {source.name}, or DROP TABLE {self.table} first.")
        properties = cloned_properties(source, {} if definition is None else definition.properties or {}, shallow=False)
        return _clone_updates(self.table, self.base.metadata, source.metadata, source.iceberg_schema, properties)

    def _snapshot_updates(self) -> tuple[TableUpdate, ...]:
        """Write the files of the snapshot, and return the update that adds it to the history of the replaced table."""
        head, metadata = self._head.metadata, self._head.metadata
        parent = None if head.current_snapshot_id is None else head.snapshot_by_id(head.current_snapshot_id)
        written_snapshot = _write_snapshot(self._files, metadata, parent, self._live, self.change)
        return snapshot_updates(metadata, self.base.branch, parent, written_snapshot, self.change)


@dataclass(frozen=True)
class _Copies:
    """The copied files of a clone. `entries`: the entry of each original data file, by the path of its copy."""

    source: IcebergSnapshot
    paths: Mapping[str, str]

    @property
    def entries(self) -> dict[str, Entry]:
        entries = {self.paths[plain_path(entry.file.path)]: entry for entry in self.source.live.data}
        return {path: replace(entry, file=replace(entry.file, path=path)) for path, entry in entries.items()}


def _write_snapshot(
    files: SnapshotFiles, metadata: TableMetadata, parent: Snapshot | None, live: LiveFiles, change: CommitRequest
) -> WrittenSnapshot:
    """Write the snapshot with the copies of a clone. Manifests whose files all stay are reused.

    Args:
        files: The writer of the files of the snapshot.
        metadata: The newest metadata of the table.
        parent: The snapshot that the clone replaces, or None for a new table.
        live: The live files of `parent`.
        change: The clone, with the paths of the copies.
    """
    assert change.cloned is not None and change.copies is not None
    source = as_iceberg_snapshot(change.cloned)
    copies = _Copies(source, change.copies).entries
    removal = Removal(frozenset(live.paths) - copies.keys(), frozenset(map(key_of_delete, live.deletes)))
    manifests, removed_entries = files.rewrite_manifests(live, removal)
    is_new, live_copies = parent is None, live.by_path(copies)
    by_spec: dict[tuple[ManifestContent, int], list[Entry]] = defaultdict(list)
    for path, entry in copies.items():
        if path not in live_copies:
            # The sequence numbers and row ids of another table would be ahead of those of an existing one.
            file = entry.file if is_new else replace(entry.file, first_row_id=None, sort_order_id=None)
            number = entry.sequence_number if is_new else UNASSIGNED
            by_spec[ManifestContent.DATA, file.spec_id].append(Entry.added(file, files.snapshot_id, number))
    for entry in _equality_deletes(source.live):
        file = replace(entry.file, path=change.copies[plain_path(entry.file.path)])
        by_spec[ManifestContent.DELETES, file.spec_id].append(Entry.added(file, files.snapshot_id, entry.sequence_number))
    added = [m for (content, spec_id), entries in by_spec.items() for m in files.write_manifests(entries, content, spec_id)]
    originals = source.deleted_positions(list(change.copies))
    groups = [[(copies[change.copies[path]], positions)] for path, positions in originals.items()]
    deletes = [file for group in files.delete_files.write(groups) for file in group]
    added += files.write_delete_manifests(deletes)
    return files.put_snapshot(metadata, parent, [*added, *manifests], [*removed_entries, *files.entries_of(added)])


def _clone_updates(
    table: str, metadata: TableMetadata, source: TableMetadata, schema: Schema, properties: Mapping[str, str]
) -> tuple[TableUpdate, ...]:
    """Return the metadata updates with which a deep clone replaces a table.

    The ids of columns and partition specs in the files of the source must have the same meaning in the table. So it must be an earlier
    clone that has not got columns or partitioning of its own.

    Args:
        table: The name of the table in messages.
        metadata: The current metadata of the table.
        source: The metadata of the table that is cloned.
        schema: The schema of the cloned snapshot.
        properties: The properties of the clone.

    Raises:
        PlanError: The ids of the table do not fit those of the source.
    """
    source_fields = {(field.field_id, field.name) for old_schema in source.schemas for field in old_schema.fields}
    own_fields = {(field.field_id, field.name) for field in metadata.schema().fields}
    has_same_specs = metadata.specs() == source.specs() and metadata.default_spec_id == source.default_spec_id
    has_same_order = metadata.sort_order_by_id(metadata.default_sort_order_id) == source.sort_order_by_id(source.default_sort_order_id)
    if not own_fields <= source_fields or not has_same_specs or not has_same_order or metadata.format_version != source.format_version:
        problem = "the clone would have other ids of columns, another partitioning, sort order or format version"
        raise PlanError(f"{table} cannot be replaced by a clone: {problem}. DROP TABLE {table} first.")
    equal_schema = next((old for old in metadata.schemas if old.as_struct() == schema.as_struct()), None)
    new_id = next_schema_id(metadata) if equal_schema is None else equal_schema.schema_id
    new_schema = schema.model_copy(update={"schema_id": new_id})
    return (*schema_updates(metadata, new_schema), *property_updates(metadata.properties, properties))
