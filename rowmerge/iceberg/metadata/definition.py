"""From what a user wants a table to be to metadata, and to the updates of metadata, that say so."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from rowmerge.errors import ConfigurationError, PlanError, TypeMismatch, UnsupportedTableFeature
from rowmerge.iceberg.metadata.partition_values import FIRST_ID, order_of, ordering_of, partitioning_of, spec_of
from rowmerge.iceberg.metadata.properties import COMMENT, DISTRIBUTION, FORMAT_VERSION, check_properties
from rowmerge.iceberg.metadata.types import SchemaBuilder, columns_of, fresh, widens
from rowmerge.iceberg.metadata.updates import INITIAL_DEFAULTS, updated
from rowmerge.table.metadata.partitioning import PartitionField, SortField
from rowmerge.table.metadata.rules import DEFAULT, GENERATED, INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Array, DataType, Field, Map, Struct, held_types, sql_name
from rowmerge.table.metadata.shape import TableDefinition


def new_metadata(table: str, location: str, definition: TableDefinition) -> TableMetadata:
    """The metadata of a table that is about to be made, without snapshots.

    Raises PlanError, ConfigurationError, TypeMismatch, UnsupportedTableFeature.
    """
    checked = _Checked.of(table, definition, 2)
    builder = SchemaBuilder(table, 0)
    schema = builder.schema(fresh(checked.columns))
    spec = spec_of(checked.partitioning, schema, (), FIRST_ID - 1)
    order = order_of(checked.ordering, schema, ())
    metadata = TableMetadataV2(
        location=location,
        table_uuid=uuid.uuid4(),
        last_updated_ms=time.time_ns() // 1_000_000,
        last_column_id=builder.last_id,
        schemas=[schema],
        current_schema_id=schema.schema_id,
        partition_specs=[spec],
        default_spec_id=spec.spec_id,
        last_partition_id=max([FIRST_ID - 1, *(field.field_id for field in spec.fields)]),
        sort_orders=[order],
        default_sort_order_id=order.order_id,
        properties=checked.properties,
    )
    return updated(metadata, tuple(_upgrade(table, metadata, checked.asked_version)))


def replacing_updates(table: str, metadata: TableMetadata, definition: TableDefinition) -> tuple[TableUpdate, ...]:
    """What CREATE OR REPLACE makes of a table's metadata: schema, partitioning, order and properties anew; ids are never given twice.

    A column that has the name and type of one that was there keeps its id, as in Java's TableMetadata.buildReplacement.
    """
    checked = _Checked.of(table, definition, metadata.format_version)
    before = {field.name: field for field in _columns(metadata, table)}
    columns = Struct(tuple(_with_ids(field, before.get(field.name)) for field in fresh(checked.columns)))
    builder = SchemaBuilder(table, metadata.last_column_id)
    schema = builder.schema(columns, _next_schema_id(metadata))
    updates = list(_schema_updates(metadata, schema))
    updates += _spec_updates(metadata, schema, checked.partitioning)
    updates += _order_updates(metadata, schema, checked.ordering)
    updates += _upgrade(table, metadata, checked.asked_version)
    return (*updates, *_property_updates(metadata.properties, checked.properties))


def changing_updates(table: str, metadata: TableMetadata, definition: TableDefinition) -> tuple[TableUpdate, ...]:
    """What ALTER TABLE makes of a table's metadata; what the definition leaves out stays.

    Raises PlanError for a schema that the table cannot get in place, ConfigurationError, UnsupportedTableFeature.
    """
    _refuse_checks(table, definition)
    updates: list[TableUpdate] = []
    schema = metadata.schema()
    if definition.schema is not None:
        schema, _ = changed_schema(table, metadata, definition.schema)
        updates += _schema_updates(metadata, schema)
    if definition.partitioning is not None and definition.partitioning != partitioning_of(metadata.spec(), schema, table):
        updates += _spec_updates(metadata, schema, definition.partitioning)
    if definition.ordering is not None and definition.ordering != ordering_of(metadata.sort_order(), schema, table):
        updates += _order_updates(metadata, schema, definition.ordering)
    comment = metadata.properties.get(COMMENT) if definition.description is None else definition.description or None
    asked = {name: value for name, value in metadata.properties.items() if name != COMMENT}
    if definition.properties is not None:
        check_properties(definition.properties)
        asked = dict(definition.properties)
        updates += _upgrade(table, metadata, asked.pop(FORMAT_VERSION, None))
    if definition.distribution is not None:
        asked[DISTRIBUTION] = definition.distribution.value
    wanted = asked if comment is None else {**asked, COMMENT: comment}
    return (*updates, *_property_updates(metadata.properties, wanted))


def changed_schema(table: str, metadata: TableMetadata, columns: Struct) -> tuple[Schema, int]:
    """The schema with these columns, and the last id that it gives. Known fields are told by their ids.

    Raises PlanError, TypeMismatch.
    """
    _check_columns(table, columns, metadata.format_version)
    # Rows that are there have the default of a column that comes in.
    columns = Struct(tuple(f if FIELD_ID in f.metadata or DEFAULT not in f.metadata else _with_initial(f) for f in columns))
    old = metadata.schema()
    known = dict(_fields(_columns(metadata, table)))
    for field in columns:
        _check_field(table, field, known)
    kept = {int(field.metadata[FIELD_ID]) for field in columns if FIELD_ID in field.metadata}
    sources = [part.source_id for part in metadata.spec().fields] + [part.source_id for part in metadata.sort_order().fields]
    for top in old.fields:
        if top.field_id in sources and top.field_id not in kept:
            advice = f"Take it out first: ALTER TABLE {table} DROP PARTITION FIELD … or WRITE UNORDERED."
            raise PlanError(f"The column {top.name} of {table} partitions or orders its files and cannot be dropped. {advice}")
    builder = SchemaBuilder(table, metadata.last_column_id)
    new = builder.schema(columns, _next_schema_id(metadata), frozenset(old.identifier_field_ids))
    _check_partition_names(table, metadata, new)
    same = next((schema for schema in metadata.schemas if schema.as_struct() == new.as_struct()), None)
    return (same, metadata.last_column_id) if same is not None else (new, builder.last_id)


def _check_partition_names(table: str, metadata: TableMetadata, schema: Schema) -> None:
    """Raises PlanError for a column with the name of a partition field of another one, in old specs too: Java opens no such table."""
    ids = {name: schema.find_field(name).field_id for name in schema.column_names}
    for spec in metadata.partition_specs:
        for part in spec.fields:
            if ids.get(part.name, part.source_id) != part.source_id and part.source_id in ids.values():
                source = schema.find_column_name(part.source_id)
                raise PlanError(
                    f"{table} has, or had, a partition field {part.name} of the column {source}, and Iceberg's Java opens no table where "
                    f"another column has its name. Choose another name."
                )


@dataclass(frozen=True)
class _Checked:
    columns: Struct
    partitioning: tuple[PartitionField, ...]
    ordering: tuple[SortField, ...]
    properties: Mapping[str, str]
    asked_version: str | None

    @classmethod
    def of(cls, table: str, definition: TableDefinition, format_version: int) -> _Checked:
        """`format_version`: what the table has where the definition does not say."""
        if definition.schema is None:
            raise PlanError(f"{table} needs columns. List them, or create it AS SELECT.")
        _refuse_checks(table, definition)
        properties = dict(definition.properties or {})
        check_properties(properties)
        asked = properties.pop(FORMAT_VERSION, None)
        if asked == "1":
            raise UnsupportedTableFeature(table, "format-version 1", action="create", advice="Leave format-version out, or set it to 2.")
        _check_columns(table, definition.schema, int(asked or format_version))
        if definition.description:
            properties[COMMENT] = definition.description
        return cls(definition.schema, definition.partitioning or (), definition.ordering or (), properties, asked)


def _refuse_checks(table: str, definition: TableDefinition) -> None:
    if definition.checks:
        advice = "Iceberg tables have no CHECK constraints: use a Delta table, or a test of the data."
        raise UnsupportedTableFeature(table, f"CHECK constraint {min(definition.checks)}", action="create", advice=advice)


def _check_columns(table: str, columns: Struct, format_version: int) -> None:
    top = {id(field) for field in columns}
    for _, field in _fields(columns, with_ids=False):
        if GENERATED in field.metadata:
            advice = "Iceberg tables have none: give the value in each statement, or use a Delta table."
            raise UnsupportedTableFeature(table, f"generated column {field.name}", action="create", advice=advice)
        if DEFAULT in field.metadata and (format_version < INITIAL_DEFAULTS or id(field) not in top):
            advice = f"Iceberg has defaults of columns from format version {INITIAL_DEFAULTS} on: raise the table's, or give the value."
            raise UnsupportedTableFeature(table, f"column default {field.name}", action="create", advice=advice)
    for struct in _structs(columns):
        double = [name for name, count in Counter(field.name.lower() for field in struct).items() if count > 1]
        if double:
            raise PlanError(f"{table} would have the column {double[0]} twice (names are not case-sensitive). Rename one of them.")


def _check_field(table: str, field: Field, known: Mapping[int, Field], *, inside_new: bool = False) -> None:
    id_ = field.metadata.get(FIELD_ID)
    old = known.get(int(id_)) if id_ is not None else None
    if old is None and not field.nullable and not inside_new:
        raise PlanError(
            f"The column {field.name} cannot be added to {table} as NOT NULL: old rows have no value of it. Leave NOT NULL out."
        )
    if old is not None:
        _check_type(table, field.name, old.type, field.type)
    for struct in _structs_of(field.type):
        for inner in struct:
            _check_field(table, inner, known, inside_new=inside_new or old is None)


def _check_type(table: str, column: str, old: DataType, new: DataType) -> None:
    match old, new:
        case (Struct(), Struct()):
            return
        case (Array(before, _), Array(after, _)):
            _check_type(table, column, before, after)
            return
        case (Map(key, value, _), Map(new_key, new_value, _)):
            _check_type(table, column, key, new_key)
            _check_type(table, column, value, new_value)
            return
    if old != new and not widens(old, new):
        raise TypeMismatch(
            f"The column {column} of {table} cannot become {sql_name(new)}: it is {sql_name(old)}, and its files stay as they are. "
            f"Iceberg widens int to bigint, float to double, and decimals of the same scale."
        )


def _schema_updates(metadata: TableMetadata, schema: Schema) -> Iterator[TableUpdate]:
    if schema.schema_id == metadata.current_schema_id and schema.as_struct() == metadata.schema().as_struct():
        return
    if any(known.schema_id == schema.schema_id for known in metadata.schemas):
        yield SetCurrentSchemaUpdate(schema_id=schema.schema_id)
    else:
        yield AddSchemaUpdate(schema_=schema)
        yield SetCurrentSchemaUpdate(schema_id=-1)


def _spec_updates(metadata: TableMetadata, schema: Schema, partitioning: tuple[PartitionField, ...]) -> Iterator[TableUpdate]:
    known: tuple[PartitionSpec, ...] = tuple(metadata.partition_specs)
    places = metadata.spec() if metadata.format_version == 1 else None
    spec = spec_of(partitioning, schema, known, metadata.last_partition_id or FIRST_ID - 1, places)
    if any(spec.spec_id == other.spec_id for other in known):
        yield SetDefaultSpecUpdate(spec_id=spec.spec_id)
    else:
        yield AddPartitionSpecUpdate(spec=spec)
        yield SetDefaultSpecUpdate(spec_id=-1)


def _order_updates(metadata: TableMetadata, schema: Schema, ordering: tuple[SortField, ...]) -> Iterator[TableUpdate]:
    known: tuple[SortOrder, ...] = tuple(metadata.sort_orders)
    order = order_of(ordering, schema, known)
    if not any(order.order_id == other.order_id for other in known):
        yield AddSortOrderUpdate(sort_order=order)
    yield SetDefaultSortOrderUpdate(sort_order_id=order.order_id)


def _property_updates(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[TableUpdate]:
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    if changed:
        yield SetPropertiesUpdate(updates=changed)
    if gone := sorted(set(old) - set(new)):
        yield RemovePropertiesUpdate(removals=gone)


def _upgrade(table: str, metadata: TableMetadata, asked: str | None) -> Iterator[TableUpdate]:
    if asked is None or int(asked) == metadata.format_version:
        return
    if int(asked) < metadata.format_version:
        raise ConfigurationError(f"{table} has format version {metadata.format_version}, which cannot become {asked}. Leave it out.")
    yield UpgradeFormatVersionUpdate(format_version=int(asked))


def _next_schema_id(metadata: TableMetadata) -> int:
    return max(schema.schema_id for schema in metadata.schemas) + 1


def _columns(metadata: TableMetadata, table: str) -> Struct:
    return columns_of(metadata.schema(), table)


def _with_ids(field: Field, before: Field | None) -> Field:
    """The field with the ids of one of the same name and type; a field that differs is a new one, a text where a UUID was for one."""
    if before is None or sql_name(before.type) != sql_name(field.type) or held_types(Struct((before,))).fields[0].type != before.type:
        return field
    comment = {"comment": field.comment} if field.comment is not None else {}
    default = {DEFAULT: field.metadata[DEFAULT]} if DEFAULT in field.metadata else {}
    kept = {key: value for key, value in before.metadata.items() if key not in ("comment", DEFAULT)}
    return Field(field.name, before.type, field.nullable, {**kept, **comment, **default})


def _with_initial(field: Field) -> Field:
    return replace(field, metadata={**field.metadata, INITIAL: field.metadata[DEFAULT]})


def _fields(columns: Struct, *, with_ids: bool = True) -> Iterator[tuple[int, Field]]:
    """Every field at any depth, with its id; those that have none only without `with_ids`."""
    for struct in _structs(columns):
        for field in struct:
            if FIELD_ID in field.metadata or not with_ids:
                yield int(field.metadata.get(FIELD_ID, -1)), field


def _structs(columns: Struct) -> Iterator[Struct]:
    yield columns
    for field in columns:
        for struct in _structs_of(field.type):
            yield from _structs(struct)


def _structs_of(type_: DataType) -> Iterator[Struct]:
    match type_:
        case Struct():
            yield type_
        case Array(element, _):
            yield from _structs_of(element)
        case Map(key, value, _):
            yield from _structs_of(key)
            yield from _structs_of(value)
