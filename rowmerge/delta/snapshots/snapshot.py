"""One version of a Delta table."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from rowmerge.concurrency import map_concurrently
from rowmerge.delta.files.live_files import LiveFiles
from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.files.statistics import clustering_columns as read_clustering_columns
from rowmerge.delta.log.replay import State
from rowmerge.delta.metadata.actions import Metadata, Protocol, copied_files
from rowmerge.delta.metadata.definition import metadata_after_alter
from rowmerge.delta.metadata.features import check_writable
from rowmerge.delta.metadata.properties import DeltaSettings
from rowmerge.delta.metadata.registry import DELTA_PROPERTIES
from rowmerge.delta.metadata.shape import generation_expressions, table_shape
from rowmerge.delta.snapshots.deletion_vectors import file_and_vector_paths, read_vector, vector_path
from rowmerge.delta.snapshots.file_listing import exact_files, files_of, list_files
from rowmerge.delta.snapshots.metadata_columns import metadata_columns
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.maintenance import IncompleteFile, missing_paths
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.files import EqualityDeletes, FileLayout, FileListing, FileMask, MatchingFiles, Positions
from rowmerge.table.snapshots.metadata_columns import MetadataColumns
from rowmerge.table.snapshots.snapshot import FileDifference, Snapshot, TableDetails


@dataclass(frozen=True, eq=False, repr=False)
class DeltaSnapshot:
    """One version of a Delta table, immutable. Implements `rowmerge.table.snapshots.snapshot.Snapshot`.

    `commit`: the commit file in the listing of the log, or None if a log cleanup deleted it and only a checkpoint contains the version.
    """

    storage: Storage
    name: str
    state: State
    timestamp: int
    commit: StoredObject | None = None
    distinct_counts: Mapping[str, int] = field(default_factory=dict, init=False)
    """Always empty: a Delta log has no place for them."""
    column_history: None = field(default=None, init=False)
    _listings: dict[frozenset[str], FileListing] = field(default_factory=dict, init=False)

    @property
    def table_id(self) -> str:
        return self.metadata.id

    @property
    def history_key(self) -> str:
        return self.storage.location

    @property
    def version(self) -> int:
        return self.state.version

    @property
    def identity(self) -> str:
        # A file can have the time of an older one: object stores count seconds, and copies of files keep times.
        return f"{self.metadata.id} {self.version} {self.timestamp}"

    @property
    def protocol(self) -> Protocol:
        return self.state.protocol

    @property
    def metadata(self) -> Metadata:
        return self.state.metadata

    @property
    def schema(self) -> Struct:
        return self.metadata.schema

    @cached_property
    def shape(self) -> TableShape:
        return table_shape(self.name, self.storage, self.protocol, self.metadata)

    @cached_property
    def settings(self) -> DeltaSettings:
        return DeltaSettings(self.metadata.configuration)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def description(self) -> str | None:
        return self.metadata.description

    @property
    def details(self) -> TableDetails:
        protocol = self.protocol
        features = protocol.reader_features, protocol.writer_features
        listed_features = sorted(frozenset[str]().union(*(names or () for names in features)))
        return TableDetails(self.metadata.id, self.metadata.created, protocol.min_reader, protocol.min_writer, tuple(listed_features))

    def evolved(self, schema: Struct) -> TableShape:
        protocol, metadata = metadata_after_alter(self.name, self.protocol, self.metadata, TableDefinition(schema=schema))
        return table_shape(self.name, self.storage, protocol, metadata)

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        return tuple(".".join(column) for column in read_clustering_columns(self.state.domains))

    def files(self, columns: Collection[str] = ()) -> FileListing:
        bounded_columns = frozenset(columns) & frozenset(self.schema.names)
        if bounded_columns not in self._listings:
            generated = generation_expressions(self.protocol, self.schema)
            listing = list_files(self.state.files, self.storage.location, self.metadata, bounded_columns, generated)
            self._listings[bounded_columns] = listing
        return self._listings[bounded_columns]

    def files_matching(self, mask: FileMask, columns: Collection[str] = ()) -> MatchingFiles:
        return MatchingFiles.of(self.files(columns), mask)

    def exact_files(self, columns: Collection[str] = ()) -> FileListing:
        return exact_files(self.state.files, self.files(columns))

    def difference(self, other: Snapshot) -> FileDifference:
        own_files, other_files = self.state.files, as_delta_snapshot(other).state.files
        only_own, only_other = own_files.difference(other_files), other_files.difference(own_files)
        return FileDifference(tuple(only_own.column("size").to_pylist()), tuple(only_other.column("size").to_pylist()))

    def with_files(self, files: LiveFiles) -> DeltaSnapshot:
        """Return this version with other files, such as those that one commit added. They need not be live any more."""
        return replace(self, state=replace(self.state, files=files))

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        return (FileLayout(tuple(paths), self.shape.stored_schema, self.shape.by_field_id, self.partition_columns),)

    @cached_property
    def metadata_columns(self) -> MetadataColumns:
        return metadata_columns(self.state.files, self.storage.location, self.protocol, self.metadata)

    def deleted_positions(self, paths: Sequence[str]) -> dict[str, Positions]:
        files_with_vectors = self.state.files.filter(lambda block: block.rows["deletionVector"].is_valid())
        files = files_of(files_with_vectors, self.storage.location, paths)
        absolute = absolute_paths(self.storage.location, files.column("path")).to_pylist()
        vectors = map_concurrently(partial(read_vector, self.storage), files.column("deletionVector").to_pylist())
        return dict(zip(absolute, vectors, strict=True))

    def deletes_by_file(self) -> dict[str, Hashable]:
        files = self.state.files
        vectors = [vector and (vector["pathOrInlineDv"], vector["offset"]) for vector in files.column("deletionVector").to_pylist()]
        return dict(zip(absolute_paths(self.storage.location, files.column("path")).to_pylist(), vectors, strict=True))

    @property
    def file_paths(self) -> list[str]:
        """The absolute paths of the live data files and of the files of their deletion vectors."""
        files = self.state.files
        return file_and_vector_paths(self.storage.location, files.column("path"), files.column("deletionVector"))

    def incomplete_files(self) -> list[IncompleteFile]:
        """Return the live data files that do not exist, or whose deletion vector does not exist. Raises StorageError."""
        files, location = self.state.files, self.storage.location
        missing = missing_paths(self.storage, self.file_paths)
        descriptors = files.column("deletionVector").to_pylist()
        vectors = [None if each is None or each["storageType"] == "i" else vector_path(location, each) for each in descriptors]
        paths = absolute_paths(location, files.column("path")).to_pylist()
        all_files = [IncompleteFile(path, path in missing, vector, vector in missing) for path, vector in zip(paths, vectors, strict=True)]
        return [file for file in all_files if file.is_missing or file.is_vector_missing]

    def equality_deletes(self, paths: Sequence[str]) -> tuple[EqualityDeletes, ...]:
        return ()

    @property
    def copied_files(self) -> frozenset[str]:
        return copied_files(self.state.transactions)

    def has_transaction(self, application: str, version: int) -> bool:
        """Return whether an application has committed a transaction, judged by its newest `txn` action.

        Args:
            application: The id of the application (`txn.appId`).
            version: The version of the transaction (`txn.version`). A committed transaction with a later version also counts.
        """
        newest = self.state.transactions.get(application)
        return newest is not None and newest.version >= version

    def check_writable(self) -> None:
        check_writable(self.name, self.protocol, self.metadata)
        DELTA_PROPERTIES.check_write(self.name, self.metadata.configuration)


def as_delta_snapshot(snapshot: Snapshot) -> DeltaSnapshot:
    """Return the snapshot with its type narrowed to DeltaSnapshot.

    The interface `rowmerge.table.table.Table` accepts and returns snapshots of any format. A Delta table only receives Delta snapshots.

    Raises:
        TypeError: The snapshot has a different format.
    """
    if not isinstance(snapshot, DeltaSnapshot):
        raise TypeError(f"{snapshot!r} is not a snapshot of a Delta table")
    return snapshot
