"""One version of a Delta table, as the engine reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from rowmerge.concurrency import map_concurrently
from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.files.statistics import clustering_columns as read_clustering_columns
from rowmerge.delta.log.replay import State
from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.definition import changed_table
from rowmerge.delta.metadata.features import check_writable
from rowmerge.delta.metadata.properties import DeltaSettings
from rowmerge.delta.metadata.shape import table_shape
from rowmerge.delta.snapshots.deletion_vectors import read_vector
from rowmerge.delta.snapshots.file_listing import files_of, has_vectors, list_files
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.metadata.schema import Struct
from rowmerge.table.metadata.shape import TableDefinition, TableShape
from rowmerge.table.snapshots.files import EqualityDeletes, FileLayout, FileListing, Positions, RowOrigin
from rowmerge.table.snapshots.snapshot import FileDifference, Snapshot


class DeltaSnapshot:
    """Implements `rowmerge.table.snapshots.snapshot.Snapshot`.

    Statistics are parsed when `files` asks for them, once for each set of columns.

    `commit`: the version's commit file as the log listed it, None if only a checkpoint holds the version.
    """

    def __init__(self, storage: Storage, name: str, state: State, timestamp: int, commit: StoredObject | None = None) -> None:
        self._storage, self._name, self.state, self._timestamp, self.commit = storage, name, state, timestamp, commit
        self._listings: dict[frozenset[str], FileListing] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def history_key(self) -> str:
        return self._storage.location

    @property
    def version(self) -> int:
        return self.state.version

    @property
    def timestamp(self) -> int:
        return self._timestamp

    @property
    def identity(self) -> str:
        return f"{self.version} {self._timestamp}"

    @property
    def protocol(self) -> Protocol:
        assert self.state.protocol is not None
        return self.state.protocol

    @property
    def metadata(self) -> Metadata:
        assert self.state.metadata is not None
        return self.state.metadata

    @property
    def schema(self) -> Struct:
        return self.metadata.schema

    @cached_property
    def shape(self) -> TableShape:
        return table_shape(self._name, self._storage, self.protocol, self.metadata)

    @cached_property
    def settings(self) -> DeltaSettings:
        return DeltaSettings(self.metadata.configuration)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def description(self) -> str | None:
        return self.metadata.description

    def evolved(self, schema: Struct) -> TableShape:
        protocol, metadata = changed_table(self.name, self.protocol, self.metadata, TableDefinition(schema=schema))
        return table_shape(self._name, self._storage, protocol, metadata)

    @property
    def clustering_columns(self) -> tuple[str, ...]:
        return tuple(".".join(column) for column in read_clustering_columns(self.state.domains))

    def files(self, columns: Collection[str] = ()) -> FileListing:
        wanted = frozenset(columns) & frozenset(self.schema.names)
        if wanted not in self._listings:
            self._listings[wanted] = list_files(self.state.files, self._storage.location, self.metadata, wanted)
        return self._listings[wanted]

    def difference(self, other: Snapshot) -> FileDifference:
        own, others = self.state.files, own_snapshot(other).state.files
        mine, theirs = own.difference(others), others.difference(own)
        return FileDifference(tuple(mine.column("size").to_pylist()), tuple(theirs.column("size").to_pylist()))

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        return (FileLayout(tuple(paths), self.shape.stored_schema, self.shape.by_field_id, self.partition_columns),)

    def row_origins(self, paths: Sequence[str]) -> Mapping[str, RowOrigin]:
        return {}

    def deleted_positions(self, paths: Sequence[str]) -> dict[str, Positions]:
        asked = files_of(self.state.files.filter(has_vectors), self._storage.location, paths)
        names = absolute_paths(self._storage.location, asked.column("path")).to_pylist()
        descriptors = asked.column("deletionVector").to_pylist()
        vectors = map_concurrently(lambda descriptor: read_vector(self._storage, descriptor), descriptors)
        return dict(zip(names, vectors, strict=True))

    def equality_deletes(self, paths: Sequence[str]) -> tuple[EqualityDeletes, ...]:
        return ()

    def has_transaction(self, application: str, version: int) -> bool:
        known = self.state.transactions.get(application)
        return known is not None and known.version >= version

    def check_writable(self) -> None:
        check_writable(self.name, self.protocol, self.metadata)


def own_snapshot(snapshot: Snapshot) -> DeltaSnapshot:
    """Return a snapshot that a caller got from a Delta table, as one. Raises TypeError for a snapshot of another format."""
    if not isinstance(snapshot, DeltaSnapshot):
        raise TypeError(f"{snapshot!r} is no snapshot of a Delta table")
    return snapshot
