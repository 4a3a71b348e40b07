"""Build the metadata of a new table, and the metadata updates of CREATE OR REPLACE and ALTER TABLE, from a table definition."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from pyiceberg.schema import Schema
from pyiceberg.table import update
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.update import TableUpdate

from rowmerge.errors import ConfigurationError, PlanError, TypeMismatch, UnsupportedTableFeature
from rowmerge.iceberg.metadata.partition_values import FIRST_ID, find_or_build_order, find_or_build_spec, ordering_of, partitioning_of
from rowmerge.iceberg.metadata.properties import check_properties
from rowmerge.iceberg.metadata.registry import COMMENT, DISTRIBUTION, FORMAT_VERSION, GC_ENABLED, ICEBERG_PROPERTIES, METRICS_COLUMN
from rowmerge.iceberg.metadata.types import SchemaBuilder, as_new_columns, can_widen, columns_of, with_identifiers
from rowmerge.iceberg.metadata.updates import INITIAL_DEFAULTS, apply_updates
from rowmerge.table.metadata.parquet_settings import COLUMN_PROPERTIES
from rowmerge.table.metadata.partitioning import PartitionField, SortField
from rowmerge.table.metadata.rules import DEFAULT, GENERATED, INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Array, DataType, Field, Map, Struct, outermost_structs, parts, sql_name, stored_types
from rowmerge.table.metadata.shape import IdentifierChange, TableDefinition

_LAST_ADDED = -1
"""A placeholder for the id of the schema or spec that the preceding update added (Iceberg REST catalog specification)."""


def new_metadata(table: str, location: str, definition: TableDefinition) -> TableMetadata:
    """Return the metadata of a new table without snapshots.

    A new table has format version 2, unless the property `format-version` is 3. Field ids start at 1, and partition field ids at 1000.

    Args:
        table: The name of the table in messages.
        location: The absolute location of the table.
        definition: The columns, partitioning, sort order, properties and comment.

    Raises:
        PlanError: The definition has no columns, two columns with the same name, or a transform that a column does not support.
        UnknownColumn: The partitioning or the sort order names a column that the definition lacks.
        ConfigurationError: A property is not valid.
        TypeMismatch: Iceberg does not have the type of a column.
        UnsupportedTableFeature: Iceberg or the engine does not support a feature of the definition, such as CHECK constraints.
    """
    columns = _validate_definition(table, definition, default_version=2)
    builder = SchemaBuilder(table, last_id=0)
    schema = builder.build_schema(columns)
    schema = with_identifiers(table, schema, schema, definition.identifiers)
    spec = find_or_build_spec(definition.partitioning or (), schema, known_specs=(), last_field_id=FIRST_ID - 1)
    order = find_or_build_order(definition.ordering or (), schema, known_orders=())
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
        properties=_properties_of_definition(definition),
    )
    # For format version 3, this update is the same as in ALTER TABLE.
    return apply_updates(metadata, tuple(_format_version_updates(table, metadata, definition)))


def replacement_updates(table: str, metadata: TableMetadata, definition: TableDefinition) -> tuple[TableUpdate, ...]:
    """Return the metadata updates of CREATE OR REPLACE TABLE.

    A column keeps its field id if its name and type do not change, as in TableMetadata.buildReplacement of Iceberg's Java library. Other
    columns get ids that the table has never used.

    Args:
        table: The name of the table in messages.
        metadata: The current metadata of the table.
        definition: The columns, partitioning, sort order, properties and comment of the replacement.

    Raises:
        PlanError, UnknownColumn, ConfigurationError, TypeMismatch, UnsupportedTableFeature: As in `new_metadata`.
    """
    new_columns = _validate_definition(table, definition, metadata.format_version)
    old_columns = columns_of(metadata.schema(), table)
    columns = Struct(tuple(_with_old_ids(column, old_columns.find(column.name, case_sensitive=True)) for column in new_columns))
    schema = SchemaBuilder(table, metadata.last_column_id).build_schema(columns, next_schema_id(metadata))
    properties = _properties_of_definition(definition)
    if metadata.properties.get(GC_ENABLED.name, "true").strip().lower() == "false":
        # Snapshots of a clone need files of its source, also after the clone is replaced.
        if not GC_ENABLED.value({GC_ENABLED.name: "false", **properties}):
            properties[GC_ENABLED.name] = "false"
        else:
            problem = f"{GC_ENABLED.name} of {table} is false, because files of its snapshots may belong to another table"
            raise ConfigurationError(f"{problem}. Leave the property out of the replacement, or drop the table first.")
    return (
        *schema_updates(metadata, schema),
        *_spec_updates(metadata, schema, definition.partitioning or ()),
        *_order_updates(metadata, schema, definition.ordering or ()),
        *_format_version_updates(table, metadata, definition),
        *property_updates(metadata.properties, properties),
    )


def alteration_updates(table: str, metadata: TableMetadata, definition: TableDefinition) -> tuple[TableUpdate, ...]:
    """Return the metadata updates of ALTER TABLE.

    Args:
        table: The name of the table in messages.
        metadata: The current metadata of the table.
        definition: The new definition. None leaves a field unchanged. `properties` contains all properties of the table.

    Raises:
        PlanError: Old data files do not fit the new schema, or the partitioning or the sort order is not valid.
        TypeMismatch: The type of a column cannot change without rewriting files.
        ConfigurationError: A property is not valid.
        UnsupportedTableFeature: Iceberg or the engine does not support a feature of the definition, such as CHECK constraints.
    """
    _reject_check_constraints(table, definition)
    updates: list[TableUpdate] = []
    schema = metadata.schema()
    if definition.schema is not None or definition.identifiers is not None:
        schema = evolve_schema(table, metadata, definition.schema or columns_of(schema, table), definition.identifiers)
        updates += schema_updates(metadata, schema)
    if definition.partitioning is not None and definition.partitioning != partitioning_of(metadata.spec(), schema, table):
        updates += _spec_updates(metadata, schema, definition.partitioning)
    if definition.ordering is not None and definition.ordering != ordering_of(metadata.sort_order(), schema, table):
        updates += _order_updates(metadata, schema, definition.ordering)
    if definition.properties is not None:
        check_properties(definition.properties, metadata.properties)
        updates += _format_version_updates(table, metadata, definition)
    # The comment and the distribution mode of a definition are table properties, too.
    properties = _with_new_column_names(_altered_properties(metadata, definition), metadata.schema(), schema)
    return (*updates, *property_updates(metadata.properties, properties))


def _altered_properties(metadata: TableMetadata, definition: TableDefinition) -> dict[str, str]:
    """Return the table properties after ALTER TABLE, with its comment and distribution mode. An empty description removes the comment."""
    if definition.properties is None:
        properties = {name: value for name, value in metadata.properties.items() if name != COMMENT.name}
    else:
        properties = ICEBERG_PROPERTIES.normalize(_without_format_version(definition.properties))
    if definition.distribution is not None:
        properties[DISTRIBUTION.name] = definition.distribution.value
    comment = metadata.properties.get(COMMENT.name) if definition.description is None else definition.description or None
    return properties if comment is None else {**properties, COMMENT.name: comment}


def _with_new_column_names(properties: Mapping[str, str], old_schema: Schema, schema: Schema) -> dict[str, str]:
    """Rename the properties of renamed columns, and leave out those of dropped columns, as Iceberg does.

    A property of a column ends with the name of the column, such as `write.metadata.metrics.column.a.b`.

    Args:
        properties: The table properties, with the names of columns in `old_schema`.
        old_schema: The schema before the change.
        schema: The schema after the change.
    """
    if schema == old_schema:
        return dict(properties)
    old_ids = {old_schema.find_column_name(field_id): field_id for field_id in sorted(old_schema.field_ids)}
    new_properties = {}
    prefixes = [str(property_.prefix) for property_ in (*COLUMN_PROPERTIES, METRICS_COLUMN)]
    for name, value in properties.items():
        prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), None)
        field_id = None if prefix is None else old_ids.get(name.removeprefix(prefix))
        if field_id is None:
            new_properties[name] = value
        elif column := schema.find_column_name(field_id):
            new_properties[f"{prefix}{column}"] = value
    return new_properties


def evolve_schema(table: str, metadata: TableMetadata, columns: Struct, identifiers: IdentifierChange | None = None) -> Schema:
    """Return a schema with these columns: an existing schema of the table, or a new one ("Schema Evolution" in the Iceberg specification).

    Args:
        table: The name of the table in messages.
        metadata: The current metadata of the table.
        columns: The columns after the change. A field with a FIELD_ID is a field of the current schema. Other fields are new.
        identifiers: The change of the identifier fields, or None.

    Raises:
        PlanError: A new field is NOT NULL, a name is used twice, or a partition, sort or identifier field would be dropped.
        TypeMismatch: A field cannot change to its new type.
        UnsupportedTableFeature: A column is generated, or has a default that the format version does not support.
    """
    _check_columns(table, columns, metadata.format_version)
    columns = Struct(tuple(_with_initial_default(column) for column in columns))
    _check_evolution(table, columns_of(metadata.schema(), table), columns)
    _check_dropped_columns(table, metadata, columns)
    new_schema = SchemaBuilder(table, metadata.last_column_id).build_schema(columns, next_schema_id(metadata))
    new_schema = with_identifiers(table, new_schema, metadata.schema(), identifiers)
    _check_partition_names(table, metadata, new_schema)
    return next((schema for schema in metadata.schemas if schema == new_schema), new_schema)


def _check_dropped_columns(table: str, metadata: TableMetadata, columns: Struct) -> None:
    """Raise PlanError if a dropped column is a source of the current partition spec or sort order."""
    column_ids = {int(column.metadata[FIELD_ID]) for column in columns if FIELD_ID in column.metadata}
    source_ids = {field.source_id for field in metadata.spec().fields} | {field.source_id for field in metadata.sort_order().fields}
    for column in metadata.schema().fields:
        if column.field_id in source_ids and column.field_id not in column_ids:
            advice = f"First remove it: ALTER TABLE {table} DROP PARTITION FIELD … or WRITE UNORDERED."
            raise PlanError(f"The column {column.name} of {table} partitions or sorts its files and cannot be dropped. {advice}")


def _check_partition_names(table: str, metadata: TableMetadata, schema: Schema) -> None:
    """Raise PlanError if a column has the same name as a partition field that is derived from another column.

    Iceberg's Java library cannot open a table with such a column. The check includes the fields of old partition specs.
    """
    column_ids = {name: schema.find_field(name).field_id for name in schema.column_names}
    for field in chain.from_iterable(spec.fields for spec in metadata.partition_specs):
        source = schema.find_column_name(field.source_id)
        if source is not None and column_ids.get(field.name) not in (None, field.source_id):
            problem = f"{table} has or had a partition field {field.name} of the column {source}"
            raise PlanError(f"{problem}. Iceberg cannot open a table in which another column has this name. Choose another name.")


def _validate_definition(table: str, definition: TableDefinition, default_version: int) -> Struct:
    """Validate the definition of a table that a statement creates or replaces, and return its columns without field ids.

    `default_version`: the format version if the property `format-version` is not set. Raises PlanError, ConfigurationError,
    UnsupportedTableFeature.
    """
    if definition.schema is None:
        raise PlanError(f"{table} has no columns. List them, or use CREATE TABLE … AS SELECT.")
    _reject_check_constraints(table, definition)
    properties = definition.properties or {}
    check_properties(properties, {})
    if FORMAT_VERSION.parse(properties) == "1":
        raise UnsupportedTableFeature(table, "format-version 1", action="create", advice="Leave out format-version, or set it to 2.")
    _check_columns(table, definition.schema, int(properties.get(FORMAT_VERSION.name, default_version)))
    return as_new_columns(definition.schema)


def _properties_of_definition(definition: TableDefinition) -> dict[str, str]:
    """Return the properties to store for a definition, with the comment and the distribution, and without the format version."""
    properties = ICEBERG_PROPERTIES.normalize(_without_format_version(definition.properties or {}))
    if definition.distribution is not None:
        properties[DISTRIBUTION.name] = definition.distribution.value
    return {**properties, COMMENT.name: definition.description} if definition.description else properties


def _without_format_version(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name != FORMAT_VERSION.name}


def _reject_check_constraints(table: str, definition: TableDefinition) -> None:
    """Raise UnsupportedTableFeature for a definition with CHECK constraints, which only Delta tables support."""
    if definition.checks:
        advice = "Iceberg tables do not support CHECK constraints. Use a Delta table, or a data test."
        raise UnsupportedTableFeature(table, f"CHECK constraint {min(definition.checks)}", action="create", advice=advice)


def _check_columns(table: str, columns: Struct, format_version: int) -> None:
    """Raise UnsupportedTableFeature for a generated column or an unsupported default, and PlanError for a name that is used twice."""
    for struct in _structs(columns):
        supports_defaults = struct is columns and format_version >= INITIAL_DEFAULTS
        for field in struct:
            _check_value_rules(table, field, supports_defaults=supports_defaults)
    for struct in _structs(columns):
        duplicates = [name for name, count in Counter(field.name.lower() for field in struct).items() if count > 1]
        if duplicates:
            raise PlanError(f"{table} would have two columns {duplicates[0]} (names are not case-sensitive). Rename one of them.")


def _check_value_rules(table: str, field: Field, *, supports_defaults: bool) -> None:
    """Raise UnsupportedTableFeature for a generated column, and for a default if the field cannot have one.

    `supports_defaults`: whether the field may have a default, which requires a top-level column and format version 3.
    """
    if GENERATED in field.metadata:
        advice = "Iceberg does not support them. Specify the value in each statement, or use a Delta table."
        raise UnsupportedTableFeature(table, f"generated column {field.name}", action="create", advice=advice)
    if DEFAULT in field.metadata and not supports_defaults:
        advice = f"Iceberg supports column defaults from format version {INITIAL_DEFAULTS} on. Upgrade the table, or specify the value."
        raise UnsupportedTableFeature(table, f"column default {field.name}", action="create", advice=advice)


def _check_evolution(table: str, old_columns: Struct, columns: Struct) -> None:
    """Check fields at any depth. Raises PlanError for a new NOT NULL field, and TypeMismatch for an unsupported type change."""
    old_fields = {int(field.metadata[FIELD_ID]): field for field in chain.from_iterable(_structs(old_columns))}
    for column in columns:
        _check_field_change(table, column, old_fields, in_new_field=False)


def _check_field_change(table: str, field: Field, old_fields: Mapping[int, Field], *, in_new_field: bool) -> None:
    """Raise PlanError for a new NOT NULL field, and TypeMismatch for an unsupported type change. Check nested fields, too.

    A field inside a new struct may be NOT NULL, because the struct itself is null in old rows.
    """
    field_id = field.metadata.get(FIELD_ID)
    old_field = None if field_id is None else old_fields.get(int(field_id))
    if old_field is not None:
        _check_type(table, field.name, old_field.type, field.type)
    elif not field.nullable and not in_new_field:
        raise PlanError(f"The column {field.name} cannot be added to {table} as NOT NULL: existing rows have no value. Leave out NOT NULL.")
    for nested_field in chain.from_iterable(outermost_structs(field.type)):
        _check_field_change(table, nested_field, old_fields, in_new_field=in_new_field or old_field is None)


def _check_type(table: str, column: str, old_type: DataType, new_type: DataType) -> None:
    """Raise TypeMismatch if files with the old type cannot be read as the new type."""
    match old_type, new_type:
        case Struct(), Struct():  # `_check_field_change` checks the fields of structs
            return
        case Array(old_element, _), Array(new_element, _):
            _check_type(table, column, old_element, new_element)
        case Map(old_key, old_value, _), Map(new_key, new_value, _):
            _check_type(table, column, old_key, new_key)
            _check_type(table, column, old_value, new_value)
        case _ if old_type != new_type and not can_widen(old_type, new_type):
            raise TypeMismatch(
                f"The column {column} of {table} is {sql_name(old_type)} and cannot become {sql_name(new_type)}, because existing "
                f"files are not rewritten. Iceberg widens int to bigint, float to double, and decimals of the same scale."
            )


def schema_updates(metadata: TableMetadata, schema: Schema) -> Iterator[TableUpdate]:
    """Yield the updates that make a schema the current schema of the table. Yield nothing if it already is."""
    if schema.schema_id == metadata.current_schema_id and schema == metadata.schema():
        return
    is_known = schema.schema_id in {old_schema.schema_id for old_schema in metadata.schemas}
    if not is_known:
        yield update.AddSchemaUpdate(schema_=schema)
    yield update.SetCurrentSchemaUpdate(schema_id=schema.schema_id if is_known else _LAST_ADDED)


def _spec_updates(metadata: TableMetadata, schema: Schema, partitioning: tuple[PartitionField, ...]) -> Iterator[TableUpdate]:
    """Yield the updates that make a partitioning the default partition spec of the table."""
    v1_spec = metadata.spec() if metadata.format_version == 1 else None
    spec = find_or_build_spec(partitioning, schema, metadata.partition_specs, metadata.last_partition_id or FIRST_ID - 1, v1_spec)
    is_known = spec.spec_id in metadata.specs()
    if not is_known:
        yield update.AddPartitionSpecUpdate(spec=spec)
    yield update.SetDefaultSpecUpdate(spec_id=spec.spec_id if is_known else _LAST_ADDED)


def _order_updates(metadata: TableMetadata, schema: Schema, ordering: tuple[SortField, ...]) -> Iterator[TableUpdate]:
    """Yield the updates that make an ordering the default sort order of the table."""
    order = find_or_build_order(ordering, schema, metadata.sort_orders)
    if order.order_id not in {old_order.order_id for old_order in metadata.sort_orders}:
        yield update.AddSortOrderUpdate(sort_order=order)
    yield update.SetDefaultSortOrderUpdate(sort_order_id=order.order_id)


def property_updates(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[TableUpdate]:
    """Yield the updates that set and remove properties, so that a table has `new` instead of `old`."""
    changed_properties = {name: value for name, value in new.items() if old.get(name) != value}
    if changed_properties:
        yield update.SetPropertiesUpdate(updates=changed_properties)
    if removed_names := sorted(set(old) - set(new)):
        yield update.RemovePropertiesUpdate(removals=removed_names)


def _format_version_updates(table: str, metadata: TableMetadata, definition: TableDefinition) -> Iterator[TableUpdate]:
    """Yield the upgrade to the format version in the properties. Raises ConfigurationError if it is lower than the table's version."""
    version = (definition.properties or {}).get(FORMAT_VERSION.name)
    if version is None or int(version) == metadata.format_version:
        return
    if int(version) < metadata.format_version:
        raise ConfigurationError(f"{table} has format version {metadata.format_version}, which cannot become {version}. Leave it out.")
    yield update.UpgradeFormatVersionUpdate(format_version=int(version))


def next_schema_id(metadata: TableMetadata) -> int:
    """Return the id of a new schema, which is higher than the ids of all schemas in the metadata."""
    return max(schema.schema_id for schema in metadata.schemas) + 1


def _with_old_ids(field: Field, old_field: Field | None) -> Field:
    """Return a field of a replaced table with the ids of the old field, if name and type are equal. A string does not replace a UUID."""
    if old_field is None or sql_name(old_field.type) != sql_name(field.type):
        return field
    (stored_field,) = stored_types(Struct((old_field,)))
    if stored_field.type != old_field.type:
        return field
    ids = {key: value for key, value in old_field.metadata.items() if key not in ("comment", DEFAULT)}
    return Field(field.name, old_field.type, field.nullable, {**ids, **field.metadata})


def _with_initial_default(column: Field) -> Field:
    """Return a new column whose default also becomes its initial default, the value that readers return for existing rows."""
    if FIELD_ID in column.metadata or DEFAULT not in column.metadata:
        return column
    return replace(column, metadata={**column.metadata, INITIAL: column.metadata[DEFAULT]})


def _structs(type_: DataType) -> Iterator[Struct]:
    """Yield all structs in a type at any depth, including the type itself."""
    if isinstance(type_, Struct):
        yield type_
    for part in parts(type_):
        yield from _structs(part.type)
