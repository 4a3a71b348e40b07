"""One version of an Iceberg table, as the engine reads it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
from pyiceberg import types as t
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergVersion

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.catalogs.operations import Current
from rowmerge.iceberg.manifests.manifest_files import state_of
from rowmerge.iceberg.metadata.definition import changed_schema
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.parsing import check_format_version
from rowmerge.iceberg.metadata.partition_values import undivided_specs
from rowmerge.iceberg.metadata.properties import APPLICATION, APPLICATION_VERSION, COMMENT, IcebergSettings
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.metadata.shape import settings_of, table_shape
from rowmerge.iceberg.metadata.types import columns_of
from rowmerge.iceberg.snapshots.file_listing import list_files
from rowmerge.iceberg.snapshots.live_files import LiveFiles, live_files
from rowmerge.iceberg.snapshots.name_mapping import layouts
from rowmerge.storage.store import Storage
from rowmerge.table.files import EqualityDeletes, FileLayout, Positions, RowOrigin
from rowmerge.table.partitioning import identity_columns
from rowmerge.table.schema import Field, Struct, held_types
from rowmerge.table.shape import TableShape
from rowmerge.table.snapshot import FileDifference, Snapshot

_WRITES_UUIDS = 21
"""The first release of pyarrow that writes Parquet's logical type UUID (apache/arrow, pull request 45866)."""
_REWRITE = "Rewrite the table's data files in the engine that wrote the deletes."


class IcebergSnapshot:
    """Implements `rowmerge.table.snapshot.Snapshot`. Manifests are read when files are asked for."""

    clustering_columns = ()

    def __init__(
        self,
        storage: Storage,
        name: str,
        current: Current,
        at: IcebergVersion | None,
        schema: Schema,
        live: LiveFiles | None = None,
        branch: str = MAIN,
        before: LiveFiles | None = None,
    ) -> None:
        """`branch`: the branch, or the tag, that this version was found by; `before`: the files of another version, if they were read."""
        self._before = before
        self.branch = branch
        self._storage, self._name, self.current, self.at, self.iceberg_schema = storage, name, current, at, schema
        self._listings: dict[frozenset[str], pa.Table] = {}
        self._known = live

    @property
    def metadata(self) -> TableMetadata:
        return self.current.metadata

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> int:
        return 0 if self.at is None else self.at.snapshot_id

    @property
    def timestamp(self) -> int:
        return self.metadata.last_updated_ms if self.at is None else self.at.timestamp_ms

    @property
    def identity(self) -> str:
        return f"{self.metadata.table_uuid} {self.current.path} {self.version} {self.iceberg_schema.schema_id}"

    @property
    def history_key(self) -> str:
        return self.current.location if self.branch == MAIN else f"{self.current.location}#{self.branch}"

    @cached_property
    def schema(self) -> Struct:
        return columns_of(self.iceberg_schema, self._name)

    @cached_property
    def shape(self) -> TableShape:
        return table_shape(self._name, self.metadata, self.iceberg_schema)

    @cached_property
    def settings(self) -> IcebergSettings:
        return settings_of(self.metadata)

    @property
    def spec(self) -> PartitionSpec:
        return self.metadata.spec()

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """The identity partition columns; none if a live file has another partition spec than the current one."""
        columns = identity_columns(self.shape.partitioning)
        if not columns:
            return ()
        others = {manifest.spec_id for manifest in self.live.manifests if not manifest.content} - {self.spec.spec_id}
        return () if others else columns

    @property
    def description(self) -> str | None:
        return self.metadata.properties.get(COMMENT)

    def evolved(self, schema: Struct) -> TableShape:
        changed, _ = changed_schema(self._name, self.metadata, schema)
        return table_shape(self._name, self.metadata, changed)

    @cached_property
    def live(self) -> LiveFiles:
        """The data files and delete files. Raises CorruptLog, StorageError."""
        if self._known is not None:
            return self._known
        before, self._before = self._before, None
        live = live_files(self._storage, self.at, undivided_specs(self.metadata), before)
        self._check_partitions(live)
        return live

    def _check_partitions(self, live: LiveFiles) -> None:
        """Raises CorruptLog for a manifest of a partition spec that the table does not have, or that has other fields."""
        widths = {spec.spec_id: len(spec.fields) for spec in self.metadata.partition_specs}
        for manifest in live.manifests:
            width, entries = widths.get(manifest.spec_id), live.read[state_of(manifest)].entries
            if width is None:
                assert self.at is not None
                reason = f"the manifest {manifest.path} has the partition spec {manifest.spec_id}, which the table does not have"
                raise CorruptLog(plain_path(self.at.manifest_list), reason)
            if entries and len(entries[0].file.partition) != width:
                reason = f"its files have {len(entries[0].file.partition)} partition values, and its partition spec has {width} fields"
                raise CorruptLog(plain_path(manifest.path), reason)

    @property
    def files_read(self) -> LiveFiles | None:
        """The data files and delete files if they were read before, of this version or of the one before it."""
        return self.__dict__.get("live", self._before)

    def files(self, columns: Collection[str] = ()) -> pa.Table:
        wanted = frozenset(columns) & frozenset(self.schema.names)
        if wanted not in self._listings:
            live = self.live
            self._check_formats(live)
            self._listings[wanted] = list_files(live, live.data, self.iceberg_schema, self.schema, self.spec, wanted)
        return self._listings[wanted]

    def _check_formats(self, live: LiveFiles) -> None:
        others = sorted({entry.file.format.upper() for entry in live.data} - {"PARQUET"})
        if others:
            advice = "Rewrite its data files as Parquet in the engine that wrote them."
            raise UnsupportedTableFeature(self._name, f"data files of the format {others[0]}", action="read", advice=advice)

    def difference(self, other: Snapshot) -> FileDifference:
        other_live = own_snapshot(other).live
        mine, theirs = set(self.live.paths), set(other_live.paths)
        sizes = [entry.file.size for path, entry in self.live.by_path(mine - theirs).items() if path]
        other_sizes = [entry.file.size for path, entry in other_live.by_path(theirs - mine).items() if path]
        return FileDifference(tuple(sizes), tuple(other_sizes))

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        mapping = self.metadata.name_mapping()
        if mapping is None:
            return (FileLayout(tuple(paths), self.shape.stored_schema, True, ()),)
        ordinary = FileLayout((), self.shape.stored_schema, True, identity_columns(self.shape.partitioning))
        return layouts(self._storage, self._name, self.live.by_path(paths), held_types(self.schema), ordinary, mapping, self.spec.spec_id)

    def row_origins(self, paths: Sequence[str]) -> Mapping[str, RowOrigin]:
        """Files from before the table had row ids give none, until a snapshot takes them up."""
        entries = self.live.by_path(paths).items()
        return {path: RowOrigin(entry.file.first_row_id, entry.sequence_number) for path, entry in entries}

    def deleted_positions(self, paths: Sequence[str]) -> dict[str, Positions]:
        return self.live.deleted_positions(list(self.live.by_path(paths).values()))

    def equality_deletes(self, paths: Sequence[str]) -> tuple[EqualityDeletes, ...]:
        """The equality deletes that apply to these data files, files of the same deletes together. Raises UnsupportedTableFeature."""
        together: dict[tuple[tuple[int, ...], frozenset[str]], list[str]] = defaultdict(list)
        for path, entry in self.live.by_path(paths).items():
            by_columns: dict[tuple[int, ...], set[str]] = defaultdict(set)
            for delete in self.live.equality_deletes_of(entry):
                if delete.file.format.upper() != "PARQUET":
                    told = f"equality deletes in {delete.file.format} files"
                    raise UnsupportedTableFeature(self._name, told, action="read", advice=_REWRITE)
                by_columns[tuple(sorted(delete.file.equality_ids))].add(delete.file.path)
            for ids, deletes in by_columns.items():
                together[ids, frozenset(deletes)].append(path)
        columns = {ids: Struct(tuple(self._field_of(id_) for id_ in ids)) for ids, _ in together}
        return tuple(EqualityDeletes(columns[ids], tuple(sorted(deletes)), tuple(of)) for (ids, deletes), of in together.items())

    def _field_of(self, id_: int) -> Field:
        """A column of the table by its id, from an older schema when it was dropped since."""
        for schema in (self.iceberg_schema, *reversed(self.metadata.schemas)):
            for field in schema.fields:
                if field.field_id == id_:
                    (found,) = columns_of(Schema(field), self._name)
                    return found
        told = f"equality deletes by the field {id_}, which is no top-level column"
        raise UnsupportedTableFeature(self._name, told, action="read", advice=_REWRITE)

    def has_transaction(self, application: str, version: int) -> bool:
        return any(known >= version for known, _ in self.transactions(application))

    def transactions(self, application: str) -> Iterator[tuple[int, int]]:
        """(version of the application, snapshot id) of each snapshot that is an application's, newest first; of a table that was replaced
        or restored since, too."""
        for snapshot in sorted(self.metadata.snapshots, key=lambda snapshot: -(snapshot.sequence_number or 0)):
            summary = snapshot.summary
            properties = {} if summary is None else summary.additional_properties
            version = properties.get(APPLICATION_VERSION, "")
            if properties.get(APPLICATION) == application and re.fullmatch(r"-?\d{1,18}", version):
                yield int(version), snapshot.snapshot_id

    def history(self) -> Iterator[IcebergVersion]:
        """This snapshot, its parent, and so on as far as they are kept."""
        known = {snapshot.snapshot_id: snapshot for snapshot in self.metadata.snapshots}
        at = self.at
        while at is not None:
            yield at
            at = known.get(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None

    def check_writable(self) -> None:
        _check_uuids(self._name, self.iceberg_schema)
        check_format_version(self._name, self.metadata.format_version, self.current.newest_format)


def _check_uuids(table: str, schema: Schema) -> None:
    """Refuses a write that would leave out what says that 16 bytes are a UUID: readers would take them for a `fixed[16]`."""
    if int(pa.__version__.split(".", 1)[0]) >= _WRITES_UUIDS:
        return
    for name in schema.column_names:
        if isinstance(schema.find_type(name), t.UUIDType):
            advice = f"Install pyarrow {_WRITES_UUIDS} or newer, here and on Spark's executors."
            raise UnsupportedTableFeature(
                table, f"type uuid of the column {name} (pyarrow {pa.__version__})", action="write", advice=advice
            )


def own_snapshot(snapshot: Snapshot) -> IcebergSnapshot:
    """Return a snapshot that a caller got from an Iceberg table, as one. Raises TypeError for a snapshot of another format."""
    if not isinstance(snapshot, IcebergSnapshot):
        raise TypeError(f"{snapshot!r} is no snapshot of an Iceberg table")
    return snapshot
