"""The protocol and metadata of a table after CREATE, REPLACE, ALTER, RESTORE or CLONE."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace

from rowmerge.delta.files.statistics import INDEXED_COLUMNS, ColumnPath
from rowmerge.delta.metadata import column_mapping
from rowmerge.delta.metadata.actions import LOWEST_PROTOCOL, Metadata, Protocol, schema_text
from rowmerge.delta.metadata.column_mapping import MAPPING_MODE, MAX_COLUMN_ID, assign_ids, highest_id, renamed_columns, without_mapping
from rowmerge.delta.metadata.features import GENERATION_EXPRESSION, required_protocol
from rowmerge.delta.metadata.properties import (
    CHECKPOINT_PROTECTION,
    CONSTRAINT_PREFIX,
    DELETION_VECTORS,
    FEATURE_PREFIX,
    IN_COMMIT_TIMESTAMPS,
    LOG_PROPERTIES,
    MIN_READER,
    MIN_WRITER,
    DeltaSettings,
    check_properties,
    highest_column_id,
    is_true,
    refuse_checkpoint_protection_change,
    refuse_enabling_in_commit_timestamps,
    refuse_enabling_row_tracking,
    refuse_new_constraints,
)
from rowmerge.delta.metadata.registry import DELTA_PROPERTIES
from rowmerge.delta.metadata.row_tracking import ROW_TRACKING_COLUMNS, with_row_tracking_columns
from rowmerge.delta.metadata.schema_changes import SchemaChange, check_schema
from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.table.metadata.partitioning import IDENTITY, PartitionField
from rowmerge.table.metadata.rules import GENERATED
from rowmerge.table.metadata.schema import Field, Struct
from rowmerge.table.metadata.settings import WRITE_MODE, WriteMode
from rowmerge.table.metadata.shape import TableDefinition

_TRANSFORM = "a Delta table is partitioned by columns, not by transforms. Add a column with the value, and partition by it."
_STRUCT_FIELD = "a Delta table cannot be partitioned by a field of a struct. Add a top-level column with the value."


def metadata_after_create(table: str, definition: TableDefinition, now: int) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a table after CREATE TABLE.

    Deletion vectors are enabled unless `rowmerge.write.mode` is copy-on-write or `delta.enableDeletionVectors` is false.

    Args:
        table: The name of the table, for errors.
        definition: The table definition in the statement.
        now: The current time in milliseconds since the epoch.

    Raises:
        PlanError: A Delta table cannot have this definition.
        ConfigurationError: A property is unknown or invalid.
        UnsupportedTableFeature: The definition needs an unsupported feature or type.
    """
    return _metadata_after_definition(table, LOWEST_PROTOCOL, _empty_metadata(now), definition)


def _empty_metadata(now: int) -> Metadata:
    """Return metadata with a new id and without columns, for a new table. `now`: its creation time in milliseconds since the epoch."""
    return Metadata(id=str(uuid.uuid4()), schema_string="", created=now)


def metadata_after_replace(table: str, protocol: Protocol, metadata: Metadata, definition: TableDefinition) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a table after CREATE OR REPLACE TABLE.

    The table keeps its id, and its protocol is not lowered. In-commit timestamps stay enabled unless the properties disable them, because
    no later statement can enable them again. A definition without properties (None, not an empty mapping) disables them too.

    Args:
        table: The name of the table, for errors.
        protocol: The protocol of the replaced table.
        metadata: The metadata of the replaced table.
        definition: The table definition in the statement.

    Raises:
        PlanError, ConfigurationError, UnsupportedTableFeature: Under the same conditions as in `metadata_after_create`.
    """
    statement_properties = definition.properties
    # Properties without `delta.enableInCommitTimestamps` do not disable the timestamps, hence the default "true".
    with_default = {IN_COMMIT_TIMESTAMPS: "true", **(statement_properties or {})}
    keeps_timestamps = statement_properties is not None and is_true(with_default, IN_COMMIT_TIMESTAMPS)
    # The log always keeps its checkpoint protection. All other LOG_PROPERTIES describe its in-commit timestamps.
    kept_names = LOG_PROPERTIES if keeps_timestamps else (CHECKPOINT_PROTECTION,)
    properties = {**(statement_properties or {}), **_select_properties(metadata.configuration, kept_names)}
    refuse_enabling_in_commit_timestamps(table, metadata.configuration, properties)
    return _metadata_after_definition(table, protocol, metadata, replace(definition, properties=properties))


def metadata_after_restore(
    protocol: Protocol, metadata: Metadata, restored_protocol: Protocol, restored_metadata: Metadata
) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a table after RESTORE.

    The schema and the properties are those of the older version. But LOG_PROPERTIES, such as those of in-commit timestamps, keep their
    values, because the log is not restored. Neither the protocol nor the highest column id is lowered, because newer data files may use
    the ids.

    Args:
        protocol: The protocol before RESTORE.
        metadata: The metadata before RESTORE.
        restored_protocol: The protocol of the older version.
        restored_metadata: The metadata of the older version.
    """
    restored_properties = restored_metadata.configuration
    configuration = {name: value for name, value in restored_properties.items() if name not in LOG_PROPERTIES}
    configuration |= _select_properties(metadata.configuration, LOG_PROPERTIES)
    if MAX_COLUMN_ID in configuration:
        configuration[MAX_COLUMN_ID] = str(max(highest_column_id(restored_properties), highest_column_id(metadata.configuration)))
    # With the features of both versions, a client that can read the newest version can also read the versions between them.
    return protocol.with_features(restored_protocol.features), replace(restored_metadata, configuration=configuration)


def metadata_after_clone(
    table: str, source: tuple[Protocol, Metadata], replaced: tuple[Protocol, Metadata] | None, definition: TableDefinition, now: int
) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a shallow clone, by the same rules as delta-spark's CloneTableBase.

    The log of a shallow clone refers to the data files of another table, the source, instead of copying them. So the schema, the
    partitioning and most properties come from the source. The id, the name, the description and the log properties come from the replaced
    table. The properties in the statement override all others.

    Args:
        table: The name of the clone, for errors.
        source: The protocol and metadata of the source.
        replaced: The protocol and metadata of the table that the clone replaces, or None for a new table.
        definition: The table definition in the statement.
        now: The current time in milliseconds since the epoch.

    Raises:
        PlanError, ConfigurationError, UnsupportedTableFeature: Under the same conditions as in `metadata_after_alter`.
    """
    source_protocol, source_metadata = source
    is_new_table = replaced is None
    old_protocol, old_metadata = replaced or (source_protocol, _empty_metadata(now))
    properties = definition.properties or {}
    _check_clone_properties(table, source_metadata, old_metadata, properties, is_new_table=is_new_table)
    metadata = _clone_metadata(source_metadata, old_metadata, properties, is_new_table=is_new_table)
    _check_mapping_change(table, source_metadata, metadata)
    # If the clone enables column mapping, the columns of the source's data files keep their names as physical names.
    enables_mapping = source_metadata.mapping_mode == "none"
    metadata = _with_column_ids(metadata, use_names_as_physical=enables_mapping, last_id=highest_column_id(old_metadata.configuration))
    protocol = old_protocol.with_features(source_protocol.features)
    return required_protocol(table, protocol, metadata, properties, action="create"), metadata


def _clone_metadata(source: Metadata, old: Metadata, properties: Mapping[str, str], *, is_new_table: bool) -> Metadata:
    """Return the source's metadata with the properties of the clone and with the id, name and description of the replaced table (`old`)."""
    configuration = _clone_properties(source, old, properties, is_new_table=is_new_table)
    # `required_protocol` adds the feature columnMapping if the properties enable it.
    metadata = replace(source, configuration=configuration, mapping_supported=True)
    return replace(metadata, id=old.id, name=old.name, description=old.description, created=old.created)


def _check_clone_properties(table: str, source: Metadata, old: Metadata, properties: Mapping[str, str], *, is_new_table: bool) -> None:
    """Raise ConfigurationError or UnsupportedTableFeature for a property that CLONE cannot set. `old`: the replaced table's metadata."""
    check_properties(properties, {})
    refuse_new_constraints(table, source.configuration, properties)
    if CHECKPOINT_PROTECTION in properties:
        refuse_checkpoint_protection_change(table, old.configuration, properties)
    if not is_new_table:
        refuse_enabling_in_commit_timestamps(table, old.configuration, properties)


def _clone_properties(source: Metadata, old: Metadata, properties: Mapping[str, str], *, is_new_table: bool) -> dict[str, str]:
    """Return the properties of a clone. Raises ConfigurationError if a property is invalid.

    Each property comes from the first of these origins that sets it. `old`: the metadata of the replaced table, or of a new table without
    properties.

    - Names of the hidden columns for row ids and commit versions: `old`, otherwise new names. Only tables with row tracking have them.
    - Properties of the log (LOG_PROPERTIES): the statement, `old`. For a new table, in-commit timestamps come from the source.
    - Column mapping mode: the statement, the source if it has column mapping.
    - All other properties: the statement, the source.
    """
    excluded_names = {*LOG_PROPERTIES, *ROW_TRACKING_COLUMNS}
    if is_new_table:
        excluded_names.remove(IN_COMMIT_TIMESTAMPS)  # a new log can have in-commit timestamps from its first version on
    if source.mapping_mode == "none":
        # The source can have the property without the feature: it then has no effect, and must not have one in the clone.
        excluded_names.add(MAPPING_MODE)
    inherited_properties = {name: value for name, value in source.configuration.items() if name not in excluded_names}
    log_properties = _select_properties(old.configuration, LOG_PROPERTIES)
    clone_properties = {**inherited_properties, **log_properties, **_stored_properties(properties)}
    return with_row_tracking_columns(clone_properties, old.configuration)


def _select_properties(properties: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name in names}


def metadata_after_alter(
    table: str, protocol: Protocol, metadata: Metadata, definition: TableDefinition, clustering: tuple[ColumnPath, ...] = ()
) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a table after ALTER TABLE.

    Args:
        table: The name of the table, for errors.
        protocol: The protocol before the statement.
        metadata: The metadata before the statement.
        definition: The changes. If a field is None, that part of the table does not change.
        clustering: The physical paths of the clustering columns, which cannot be dropped.

    Raises:
        PlanError: A Delta table does not allow the change.
        ConfigurationError: A property is unknown or invalid, or cannot be changed.
        UnsupportedTableFeature: The change needs an unsupported feature or type.
    """
    _refuse_write_order(table, definition)
    if definition.identifiers is not None:
        raise PlanError(f"{table} is a Delta table, which has no identifier fields. Use a CHECK constraint, or a data test of the key.")
    _refuse_repartitioning(table, metadata, definition)
    new_metadata = _changed_metadata(table, metadata, definition, clustering)
    # When column mapping is enabled, the columns of existing data files keep their names as physical names.
    new_metadata = _with_column_ids(new_metadata, use_names_as_physical=metadata.mapping_mode == "none")
    return required_protocol(table, protocol, new_metadata, definition.properties or {}, action="change"), new_metadata


def _changed_metadata(table: str, metadata: Metadata, definition: TableDefinition, clustering: tuple[ColumnPath, ...]) -> Metadata:
    """Return the metadata with the changes of ALTER TABLE. None in a field of `definition` changes nothing.

    An empty description removes the table's description.
    """
    new_metadata = metadata
    if definition.schema is not None:
        new_metadata = _with_schema(table, metadata, definition.schema, clustering)
    if definition.description is not None:
        new_metadata = replace(new_metadata, description=definition.description or None)
    if definition.properties is not None:
        new_metadata = _with_properties(table, new_metadata, definition.properties, metadata)
    if definition.checks is not None:
        new_metadata = _with_constraints(new_metadata, definition.checks)
    return new_metadata


def _with_properties(table: str, metadata: Metadata, properties: Mapping[str, str], old_metadata: Metadata) -> Metadata:
    """Return the metadata with the properties of ALTER TABLE. `old_metadata`: the table's metadata before the statement.

    Raises ConfigurationError or UnsupportedTableFeature for a property that ALTER TABLE cannot change.
    """
    old_properties = old_metadata.configuration
    check_properties(properties, old_properties)
    refuse_enabling_in_commit_timestamps(table, old_properties, properties)
    refuse_enabling_row_tracking(table, old_properties, properties)
    refuse_checkpoint_protection_change(table, old_properties, properties)
    refuse_new_constraints(table, old_properties, properties)
    # If the properties enable column mapping, `required_protocol` later adds the feature, so the mapping mode counts already.
    new_metadata = replace(metadata, configuration=_stored_properties(properties), mapping_supported=True)
    _check_mapping_change(table, old_metadata, new_metadata)
    return new_metadata


def _partition_columns(table: str, partitioning: tuple[PartitionField, ...]) -> tuple[str, ...]:
    """Return the names of the partition columns. Raises PlanError for a transform, a field of a struct and a field with a name."""
    for field in partitioning:
        if not field.identity:
            reason = _STRUCT_FIELD if field.transform.name == IDENTITY else _TRANSFORM
            raise PlanError(f"{table} cannot be PARTITIONED BY {field.text}: {reason}")
        if field.name not in ("", *field.column):
            raise PlanError(f"{table} cannot be PARTITIONED BY {field.text} AS {field.name}: Delta fields have no names. Omit AS.")
    return tuple(field.column[0] for field in partitioning)


def _refuse_repartitioning(table: str, metadata: Metadata, definition: TableDefinition) -> None:
    """Raise PlanError if a definition changes the partition columns."""
    if definition.partitioning is not None and _partition_columns(table, definition.partitioning) != metadata.partition_columns:
        raise PlanError(f"The partitioning of {table} cannot be changed in place. Use CREATE OR REPLACE TABLE … PARTITIONED BY.")


def _refuse_write_order(table: str, definition: TableDefinition) -> None:
    """Raise PlanError if a definition has a write order or a distribution, which Delta tables cannot store."""
    if definition.ordering is not None or definition.distribution is not None:
        clause = f" ORDERED BY {', '.join(field.text for field in definition.ordering)}" if definition.ordering else ""
        raise PlanError(f"{table} WRITE{clause}: a Delta table cannot store a write order. Write the rows with ORDER BY.")


def _with_schema(table: str, metadata: Metadata, schema: Struct, clustering: tuple[ColumnPath, ...]) -> Metadata:
    """Return the metadata with a new schema. Renamed columns are also renamed in the partitioning and in the statistics property."""
    change = SchemaChange(table, metadata, clustering)
    new_schema = change.apply(schema)
    partition_columns = change.partition_columns(new_schema)
    check_schema(table, new_schema, partition_columns, has_column_mapping=change.has_column_mapping, old_schema=metadata.schema)
    configuration = dict(metadata.configuration)
    if change.has_column_mapping and INDEXED_COLUMNS in configuration:
        configuration[INDEXED_COLUMNS] = renamed_columns(configuration[INDEXED_COLUMNS], metadata.schema, new_schema)
    return replace(metadata, schema_string=schema_text(new_schema), partition_columns=partition_columns, configuration=configuration)


def _check_mapping_change(table: str, old: Metadata, new: Metadata) -> None:
    """Raise ConfigurationError if the highest column id changes, or the column mapping mode except from `none` to `name`."""
    old_mode, new_mode = old.mapping_mode, new.mapping_mode
    if old_mode != new_mode and (old_mode, new_mode) != ("none", "name"):
        advice = "Only a change from none to name is possible. For another mode, use CREATE OR REPLACE TABLE … AS SELECT."
        raise ConfigurationError(f"The table property {MAPPING_MODE} of {table} cannot be changed from {old_mode} to {new_mode}. {advice}")
    if old.configuration.get(MAX_COLUMN_ID) != new.configuration.get(MAX_COLUMN_ID):
        raise ConfigurationError(f"The table property {MAX_COLUMN_ID} of {table} cannot be changed. Remove it from the statement.")


def _with_column_ids(metadata: Metadata, *, use_names_as_physical: bool, last_id: int = 0) -> Metadata:
    """Return the metadata with an id and a physical name for each column, if the table has column mapping.

    `use_names_as_physical`: whether the statement enables column mapping, so that the column names in existing data files become physical
    names. Any ids and physical names already in the schema are then meaningless and are replaced. `last_id`: the highest id in use.
    """
    if metadata.mapping_mode == "none":
        return metadata
    schema = without_mapping(metadata.schema) if use_names_as_physical else metadata.schema
    # The property also counts the ids of dropped columns, but another writer may not have updated it.
    highest_used_id = max(last_id, highest_column_id(metadata.configuration), highest_id(schema))
    schema, highest_new_id = assign_ids(schema, highest_used_id, use_names_as_physical=use_names_as_physical)
    configuration = {**metadata.configuration, MAX_COLUMN_ID: str(highest_new_id)}
    return replace(metadata, schema_string=schema_text(schema), configuration=configuration)


def _metadata_after_definition(table: str, protocol: Protocol, prior: Metadata, definition: TableDefinition) -> tuple[Protocol, Metadata]:
    """Check the definition of CREATE or REPLACE, and return the protocol and metadata of the new table.

    `protocol`, `prior`: those of the replaced table. For a new table, LOWEST_PROTOCOL and metadata without columns. The result keeps the
    id, the name and the creation time of `prior`.
    """
    if definition.schema is None:
        raise PlanError(f"{table} needs columns. List its columns, or use CREATE TABLE … AS SELECT.")
    _refuse_write_order(table, definition)
    properties = definition.properties or {}
    metadata = _with_definition(table, prior, definition, definition.schema, properties)
    has_column_mapping = metadata.mapping_mode != "none"
    check_schema(table, definition.schema, metadata.partition_columns, has_column_mapping=has_column_mapping)
    if has_column_mapping:
        # New columns do not get the ids of the replaced table's columns, because older data files use these ids.
        last_id = max(highest_column_id(prior.configuration), definition.highest_column_id)
        metadata = _with_column_ids(metadata, use_names_as_physical=False, last_id=last_id)
    return required_protocol(table, protocol, metadata, properties, action="create"), metadata


def _with_definition(table: str, prior: Metadata, definition: TableDefinition, schema: Struct, properties: Mapping[str, str]) -> Metadata:
    """Return `prior` with the columns, partitioning, properties, constraints and description of a definition instead of its own."""
    partition_columns = _partition_columns(table, definition.partitioning or ())
    table_properties = _properties_after_definition(table, prior.configuration, properties)
    stored_schema = column_mapping.adopt_field_ids(Struct(tuple(map(_with_generation_expression, schema))), table_properties)
    return replace(
        prior,
        schema_string=schema_text(stored_schema),
        partition_columns=partition_columns,
        configuration={**table_properties, **_constraints(definition.checks or {})},
        description=definition.description or None,
        mapping_supported=True,  # `required_protocol` later adds the feature columnMapping if the properties enable it
    )


def _properties_after_definition(table: str, replaced_properties: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that CREATE or REPLACE stores, with deletion vectors unless updated files are always rewritten.

    `properties`: those in the statement. `replaced_properties`: those of the replaced table, empty for a new table. With row tracking, they
    contain the names of the hidden columns for row ids. The new table reuses the names, so that the data files of all versions have the
    same hidden columns. Raises ConfigurationError if a property is invalid.
    """
    check_properties(properties, {})
    refuse_checkpoint_protection_change(table, replaced_properties, properties)
    table_properties = _stored_properties(properties)
    if DeltaSettings(properties).write_mode("WRITE") is not WriteMode.COPY_ON_WRITE:
        table_properties.setdefault(DELETION_VECTORS, "true")
    return with_row_tracking_columns(table_properties, replaced_properties)


def _stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties to store, with deletion vectors for merge-on-read. Raises ConfigurationError if they contradict each other."""
    # Properties of protocol versions and features change the protocol and are not stored.
    protocol_names = {name for name in properties if name in (MIN_READER, MIN_WRITER) or name.startswith(FEATURE_PREFIX)}
    table_properties = DELTA_PROPERTIES.normalize({name: value for name, value in properties.items() if name not in protocol_names})
    if WRITE_MODE.parse(properties) is not WriteMode.MERGE_ON_READ:
        return table_properties
    table_properties.setdefault(DELETION_VECTORS, "true")
    if table_properties[DELETION_VECTORS] == "false":
        advice = f"Remove {DELETION_VECTORS}, or set {WRITE_MODE.name} to copy-on-write."
        raise ConfigurationError(f"{WRITE_MODE.name} = merge-on-read requires deletion vectors, but {DELETION_VECTORS} is false. {advice}")
    return table_properties


def _with_generation_expression(field: Field) -> Field:
    """Return a column with its generation expression under the metadata key that Delta uses."""
    metadata = dict(field.metadata)
    if GENERATED in metadata:
        metadata[GENERATION_EXPRESSION] = metadata.pop(GENERATED)
    return replace(field, metadata=metadata)


def _with_constraints(metadata: Metadata, checks: Mapping[str, str]) -> Metadata:
    """Return the metadata with its CHECK constraints replaced by `checks`, which maps names to SQL conditions."""
    properties = {name: value for name, value in metadata.configuration.items() if not name.lower().startswith(CONSTRAINT_PREFIX)}
    return replace(metadata, configuration=properties | _constraints(checks))


def _constraints(checks: Mapping[str, str]) -> dict[str, str]:
    """Return the table properties that define CHECK constraints, with the names in lower case."""
    return {f"{CONSTRAINT_PREFIX}{name.lower()}": expression for name, expression in checks.items()}
