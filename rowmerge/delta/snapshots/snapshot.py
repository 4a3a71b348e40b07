"""One version of a Delta table, as the engine reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from rowmerge.concurrency import map_concurrently
from rowmerge.delta.files.paths import absolute_paths
from rowmerge.delta.files.statistics import clustering_columns
from rowmerge.delta.log.replay import State
from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.definition import changed_table
from rowmerge.delta.metadata.features import check_writable, is_on, keeps_change_rows
from rowmerge.delta.metadata.properties import COMPRESSION, DELETION_VECTORS, evolves, isolation_level, target_file_size, write_mode
from rowmerge.delta.metadata.row_tracking import FEATURE as ROW_TRACKING_FEATURE
from rowmerge.delta.metadata.row_tracking import keeps_ids
from rowmerge.delta.metadata.rules import rules_of
from rowmerge.delta.metadata.widening import is_wider, widens
from rowmerge.delta.snapshots.deletion_vectors import read_vector
from rowmerge.delta.snapshots.file_listing import files_of, has_vectors, list_files
from rowmerge.storage.configuration import FilesystemOptions
from rowmerge.storage.store import Storage, StoredObject
from rowmerge.table.codecs import ParquetSettings, codec
from rowmerge.table.files import EqualityDeletes, FileLayout, Positions, RowOrigin
from rowmerge.table.partitioning import Distribution, PartitionField, SortField, identities
from rowmerge.table.retries import RetryPolicy
from rowmerge.table.rules import Rules
from rowmerge.table.schema import DataType, Struct
from rowmerge.table.snapshot import FileDifference, Snapshot, TableDefinition, WriteMode

CHANGE_ROWS = "_change_data"


class DeltaSnapshot:
    """Implements `rowmerge.table.snapshot.Snapshot`. Statistics are parsed when `files` asks for them, once for each set of columns.

    `commit`: the version's commit file as the log listed it, None if only a checkpoint holds the version.
    """

    def __init__(self, storage: Storage, name: str, state: State, timestamp: int, commit: StoredObject | None = None) -> None:
        self._storage, self._name, self.state, self._timestamp, self.commit = storage, name, state, timestamp, commit
        self._listings: dict[frozenset[str], pa.Table] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def location(self) -> str:
        return self._storage.location

    @property
    def line(self) -> str:
        return self.location

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

    @property
    def stored_schema(self) -> Struct:
        return self.metadata.stored_schema

    @property
    def by_field_id(self) -> bool:
        return self.metadata.mapping_mode == "id"

    def can_widen(self, old: DataType, new: DataType) -> bool:
        return widens(self.metadata) and is_wider(new, old)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def data_location(self) -> str:
        return self.location

    @property
    def filesystem_options(self) -> FilesystemOptions:
        return self._storage.configuration.filesystem_options()

    @property
    def partitioning(self) -> tuple[PartitionField, ...]:
        return identities(self.partition_columns)

    @property
    def partition_values_in_files(self) -> bool:
        return False

    @property
    def ordering(self) -> tuple[SortField, ...]:
        return ()

    @property
    def distribution(self) -> Distribution:
        return Distribution.HASH

    def distribution_of(self, operation: str) -> Distribution | None:
        return None

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.configuration

    @cached_property
    def rules(self) -> Rules:
        return rules_of(self.name, self.protocol, self.metadata)

    @property
    def description(self) -> str | None:
        return self.metadata.description

    @property
    def can_mark_deleted(self) -> bool:
        return self.protocol.supports("deletionVectors") and is_on(self.metadata, DELETION_VECTORS)

    @property
    def change_rows_location(self) -> str | None:
        return f"{self.location}/{CHANGE_ROWS}" if keeps_change_rows(self.protocol, self.metadata) else None

    lineage = None
    gives_initial_values = False

    @property
    def rows_stay_for(self) -> str | None:
        return ROW_TRACKING_FEATURE if keeps_ids(self.protocol, self.metadata) else None

    def write_mode(self, operation: str) -> WriteMode:
        return write_mode(self.properties)

    def isolation_level(self, operation: str) -> str:
        return isolation_level(self.properties)

    @property
    def retry_policy(self) -> RetryPolicy:
        return RetryPolicy.of(self.properties)

    @property
    def evolves(self) -> bool:
        return evolves(self.properties)

    def evolved(self, schema: Struct) -> DeltaSnapshot:
        definition = TableDefinition(schema=schema)
        protocol, metadata = changed_table(self.name, self.protocol, self.metadata, definition)
        state = replace(self.state, protocol=protocol, metadata=metadata)
        return DeltaSnapshot(self._storage, self._name, state, self._timestamp, self.commit)

    @property
    def parquet(self) -> ParquetSettings:
        return ParquetSettings(codec(self.properties, COMPRESSION))

    @property
    def target_file_size(self) -> int | None:
        return target_file_size(self.properties)

    @property
    def clustered_by(self) -> tuple[str, ...]:
        return tuple(".".join(column) for column in clustering_columns(self.state.domains))

    def files(self, columns: Collection[str] = ()) -> pa.Table:
        wanted = frozenset(columns) & frozenset(self.schema.names)
        if wanted not in self._listings:
            self._listings[wanted] = list_files(self.state.files, self.location, self.metadata, wanted)
        return self._listings[wanted]

    def difference(self, other: Snapshot) -> FileDifference:
        assert isinstance(other, DeltaSnapshot)
        mine, theirs = self.state.files.but(other.state.files), other.state.files.but(self.state.files)
        return FileDifference(tuple(mine.column("size").to_pylist()), tuple(theirs.column("size").to_pylist()))

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        return (FileLayout(tuple(paths), self.stored_schema, self.by_field_id, self.partition_columns),)

    def row_origins(self, paths: Sequence[str]) -> Mapping[str, RowOrigin]:
        return {}

    def deleted_positions(self, paths: Sequence[str]) -> dict[str, Positions]:
        asked = files_of(self.state.files.where(has_vectors), self.location, paths)
        names = absolute_paths(self.location, asked.column("path")).to_pylist()
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
