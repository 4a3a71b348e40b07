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
from rowmerge.iceberg.metadata.definition import COMMENT, changed_schema
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.parsing import check_format_version
from rowmerge.iceberg.metadata.partition_values import ordering_of, partitioning_of, undivided_specs
from rowmerge.iceberg.metadata.properties import (
    APPLICATION,
    APPLICATION_VERSION,
    DATA_PATH,
    distribution,
    distribution_of,
    evolves,
    isolation_level,
    parquet_settings,
    retry_policy,
    target_file_size,
    write_mode,
)
from rowmerge.iceberg.metadata.refs import MAIN
from rowmerge.iceberg.metadata.types import columns_of, widens
from rowmerge.iceberg.metadata.updates import INITIAL_DEFAULTS, ROW_LINEAGE
from rowmerge.iceberg.snapshots.file_listing import list_files
from rowmerge.iceberg.snapshots.live_files import LiveFiles, live_files
from rowmerge.iceberg.snapshots.name_mapping import layouts
from rowmerge.storage.configuration import FilesystemOptions
from rowmerge.storage.store import Storage, absolute_location
from rowmerge.table.codecs import ParquetSettings
from rowmerge.table.files import EqualityDeletes, FileLayout, Lineage, Positions, RowOrigin
from rowmerge.table.partitioning import Distribution, PartitionField, SortField
from rowmerge.table.retries import RetryPolicy
from rowmerge.table.rules import DEFAULT, Rules, not_null_checks
from rowmerge.table.schema import FIELD_ID, Array, DataType, Field, Map, Primitive, Struct, held_types
from rowmerge.table.snapshot import FileDifference, Snapshot, WriteMode

ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER = 2147483540, 2147483539
"""The field ids of the columns of row lineage (Iceberg spec, Reserved Field IDs)."""
_WRITES_UUIDS = 21
"""The first release of pyarrow that writes Parquet's logical type UUID (apache/arrow, pull request 45866)."""
_REWRITE = "Rewrite the table's data files in the engine that wrote the deletes."


class IcebergSnapshot:
    """Implements `rowmerge.table.snapshot.Snapshot`. Manifests are read when files are asked for."""

    partition_values_in_files = True
    by_field_id = True
    change_rows_location = None
    clustered_by = ()
    rows_stay_for = None

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
    def location(self) -> str:
        return self.current.location

    @property
    def data_location(self) -> str:
        chosen = self.metadata.properties.get(DATA_PATH)
        return f"{self.location}/data" if chosen is None else absolute_location(chosen)

    @property
    def filesystem_options(self) -> FilesystemOptions:
        return self._storage.configuration.filesystem_options()

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
    def line(self) -> str:
        return self.location if self.branch == MAIN else f"{self.location}#{self.branch}"

    @cached_property
    def schema(self) -> Struct:
        return columns_of(self.iceberg_schema, self._name)

    @cached_property
    def stored_schema(self) -> Struct:
        """As `schema`, but for names that other columns had before: Spark finds columns by id, and filters row groups by name."""
        return _renamed(held_types(self.schema), 0, _names_in_files(self.metadata.schemas), complete=_all_schemas_known(self.metadata))

    @property
    def spec(self) -> PartitionSpec:
        return self.metadata.spec()

    @cached_property
    def partitioning(self) -> tuple[PartitionField, ...]:
        return partitioning_of(self.spec, self.iceberg_schema, self._name)

    @cached_property
    def ordering(self) -> tuple[SortField, ...]:
        return ordering_of(self.metadata.sort_order(), self.iceberg_schema, self._name)

    @property
    def distribution(self) -> Distribution:
        return distribution(self.metadata.properties, ordered=bool(self.ordering))

    def distribution_of(self, operation: str) -> Distribution | None:
        return distribution_of(self.metadata.properties, operation)

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that partition every live file by their values: of files of older specs that is not always so."""
        columns = tuple(field.column[0] for field in self.partitioning if field.identity)
        if not columns:
            return ()
        others = {manifest.spec_id for manifest in self.live.manifests if not manifest.content} - {self.spec.spec_id}
        return () if others else columns

    def can_widen(self, old: DataType, new: DataType) -> bool:
        return widens(old, new)

    @property
    def properties(self) -> Mapping[str, str]:
        return {name: value for name, value in self.metadata.properties.items() if name != COMMENT}

    @cached_property
    def rules(self) -> Rules:
        defaults = {field.name: str(field.metadata[DEFAULT]) for field in self.schema if DEFAULT in field.metadata}
        return Rules(not_null_checks(self.schema), defaults=defaults)

    @property
    def description(self) -> str | None:
        return self.metadata.properties.get(COMMENT)

    @property
    def can_mark_deleted(self) -> bool:
        # Version 1 has no delete files: rows are copied, whatever the mode.
        return self.metadata.format_version > 1

    def write_mode(self, operation: str) -> WriteMode:
        return write_mode(self.metadata.properties, operation)

    def isolation_level(self, operation: str) -> str:
        return isolation_level(self.metadata.properties, operation)

    @property
    def retry_policy(self) -> RetryPolicy:
        return retry_policy(self.metadata.properties)

    @property
    def evolves(self) -> bool:
        return evolves(self.metadata.properties)

    def evolved(self, schema: Struct) -> IcebergSnapshot:
        changed, _ = changed_schema(self._name, self.metadata, schema)
        return IcebergSnapshot(self._storage, self._name, self.current, self.at, changed, self.live, self.branch)

    @property
    def parquet(self) -> ParquetSettings:
        return parquet_settings(self.metadata.properties)

    @property
    def target_file_size(self) -> int | None:
        return target_file_size(self.metadata.properties)

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
        assert isinstance(other, IcebergSnapshot)
        mine, theirs = set(self.live.paths), set(other.live.paths)
        sizes = [entry.file.size for path, entry in self.live.by_path(mine - theirs).items() if path]
        other_sizes = [entry.file.size for path, entry in other.live.by_path(theirs - mine).items() if path]
        return FileDifference(tuple(sizes), tuple(other_sizes))

    def layouts(self, paths: Sequence[str]) -> tuple[FileLayout, ...]:
        mapping = self.metadata.name_mapping()
        if mapping is None:
            return (FileLayout(tuple(paths), self.stored_schema, True, ()),)
        identities = tuple(field.column[0] for field in self.partitioning if field.identity)
        ordinary = FileLayout((), self.stored_schema, True, identities)
        return layouts(self._storage, self._name, self.live.by_path(paths), held_types(self.schema), ordinary, mapping, self.spec.spec_id)

    @property
    def lineage(self) -> Lineage | None:
        """The two columns of the spec's Row Lineage. Readers find them by id; no other column of a file may have their names."""
        if self.metadata.format_version < ROW_LINEAGE:
            return None
        taken = {name.lower() for name in self.stored_schema.names}
        row_id, changed_in = (
            Field(f"{name}_{id_}" if name in taken else name, Primitive("long"), True, {FIELD_ID: id_})
            for name, id_ in (("_row_id", ROW_ID), ("_last_updated_sequence_number", LAST_UPDATED_SEQUENCE_NUMBER))
        )
        return Lineage(row_id, changed_in)

    @property
    def gives_initial_values(self) -> bool:
        return self.metadata.format_version >= INITIAL_DEFAULTS

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


def _names_in_files(schemas: Sequence[Schema]) -> Mapping[tuple[int, str], set[int]]:
    """The ids that fields of one name had, by (id of the struct around, 0 for the table; name), in all schemas that are known."""
    found: dict[tuple[int, str], set[int]] = defaultdict(set)

    def visit(type_: t.IcebergType, around: int) -> None:
        match type_:
            case t.StructType():
                for field in type_.fields:
                    found[around, field.name.lower()].add(field.field_id)
                    visit(field.field_type, field.field_id)
            case t.ListType():
                visit(type_.element_type, type_.element_id)
            case t.MapType():
                visit(type_.key_type, type_.key_id)
                visit(type_.value_type, type_.value_id)

    for schema in schemas:
        visit(schema.as_struct(), 0)
    return found


def _all_schemas_known(metadata: TableMetadata) -> bool:
    """Whether none was removed: files may have been written with one that was."""
    ids = {schema.schema_id for schema in metadata.schemas}
    return ids == set(range(len(ids)))


def _renamed(columns: Struct, around: int, names: Mapping[tuple[int, str], set[int]], *, complete: bool) -> Struct:
    """The columns under names that no other field in the same place ever had. Ids of what lists and maps hold are not needed here."""
    fields = []
    for field in columns:
        id_ = int(field.metadata["parquet.field.id"])
        alone = complete and len(names.get((around, field.name.lower()), {id_})) == 1
        type_ = _renamed_inside(field.type, id_, names, complete=complete)
        fields.append(Field(field.name if alone else f"{field.name}_{id_}", type_, field.nullable, field.metadata))
    return Struct(tuple(fields))


def _renamed_inside(type_: DataType, around: int, names: Mapping[tuple[int, str], set[int]], *, complete: bool) -> DataType:
    match type_:
        case Struct():
            return _renamed(type_, around, names, complete=complete)
        case Array(element, contains_null):
            return Array(_renamed_inside(element, -1, names, complete=complete), contains_null)
        case Map(key, value, contains_null):
            inner = [_renamed_inside(part, -1, names, complete=complete) for part in (key, value)]
            return Map(inner[0], inner[1], contains_null)
    return type_
