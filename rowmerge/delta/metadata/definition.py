"""The protocol and metadata of a table after CREATE, REPLACE, ALTER, RESTORE or CLONE."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace

from rowmerge.delta.files.statistics import INDEXED_COLUMNS, ColumnPath
from rowmerge.delta.metadata.actions import LOWEST_PROTOCOL, Metadata, Protocol, schema_text
from rowmerge.delta.metadata.column_mapping import MAPPING_MODE, MAX_COLUMN_ID, assign_ids, highest_id, without_mapping
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
    ROW_TRACKING,
    check_properties,
    highest_column_id,
    is_true,
)
from rowmerge.delta.metadata.row_tracking import ROW_TRACKING_COLUMNS, with_row_tracking_columns
from rowmerge.delta.metadata.schema_changes import SchemaChange, check_schema, rename_indexed_columns
from rowmerge.errors import ConfigurationError, PlanError, UnsupportedTableFeature
from rowmerge.table.metadata.partitioning import IDENTITY, PartitionField
from rowmerge.table.metadata.rules import GENERATED
from rowmerge.table.metadata.schema import Field, Struct, quote
from rowmerge.table.metadata.settings import WRITE_MODE, WriteMode, parse_write_mode
from rowmerge.table.metadata.shape import TableDefinition

_TRANSFORM = "Delta tables are partitioned by columns, not by transforms. Add a column with that value and name it."
_STRUCT_FIELD = "a field of a struct cannot partition a Delta table. Make it a column of its own."


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

    The table keeps its id, and its protocol is not lowered. In-commit timestamps are disabled if the properties in the definition are None.
    Otherwise, they are kept unless the definition sets `delta.enableInCommitTimestamps` to a value other than true.

    Args:
        table: The name of the table, for errors.
        protocol: The protocol of the replaced table.
        metadata: The metadata of the replaced table.
        definition: The table definition in the statement.

    Raises:
        PlanError, ConfigurationError, UnsupportedTableFeature: Under the same conditions as in `metadata_after_create`.
    """
    # Properties that do not name the timestamps do not disable them, hence the default.
    keeps_timestamps = definition.properties is not None and definition.properties.get(IN_COMMIT_TIMESTAMPS, "true") == "true"
    # The checkpoint protection of the log always stays. The other properties of the log describe its in-commit timestamps.
    log_properties = _select(metadata.configuration, LOG_PROPERTIES if keeps_timestamps else (CHECKPOINT_PROTECTION,))
    properties = {**(definition.properties or {}), **log_properties}
    _refuse_enabling_timestamps(table, metadata.configuration, properties)
    return _metadata_after_definition(table, protocol, metadata, replace(definition, properties=properties))


def metadata_after_restore(
    protocol: Protocol, metadata: Metadata, restored_protocol: Protocol, restored_metadata: Metadata
) -> tuple[Protocol, Metadata]:
    """Return the protocol and metadata of a table after RESTORE.

    The schema and the properties are those of the older version, but LOG_PROPERTIES keep their values. Neither the protocol nor the highest
    column id is lowered, because newer data files may use the ids.

    Args:
        protocol: The protocol before RESTORE.
        metadata: The metadata before RESTORE.
        restored_protocol: The protocol of the older version.
        restored_metadata: The metadata of the older version.
    """
    restored_properties = restored_metadata.configuration
    configuration = {name: value for name, value in restored_properties.items() if name not in LOG_PROPERTIES}
    configuration |= _select(metadata.configuration, LOG_PROPERTIES)
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
    old_protocol, old = replaced or (source_protocol, _empty_metadata(now))
    properties = definition.properties or {}
    _check_clone_properties(table, source_metadata, old, properties, is_new_table=replaced is None)
    configuration = _clone_properties(source_metadata, old, properties, is_new_table=replaced is None)
    # `required_protocol` adds the feature columnMapping if the properties enable it.
    table_metadata = replace(source_metadata, configuration=configuration, mapping_supported=True)
    _check_mapping_change(table, source_metadata, table_metadata)
    metadata = replace(table_metadata, id=old.id, name=old.name, description=old.description, created=old.created)
    # If the clone enables column mapping, the columns of the source's data files keep their names as physical names.
    keep_names = source_metadata.mapping_mode == "none"
    metadata = _with_column_ids(metadata, keep_names=keep_names, last_id=highest_column_id(old.configuration))
    protocol = old_protocol.with_features(source_protocol.features)
    return required_protocol(table, protocol, metadata, properties, action="create"), metadata


def _check_clone_properties(table: str, source: Metadata, old: Metadata, properties: Mapping[str, str], *, is_new_table: bool) -> None:
    """Raise ConfigurationError or UnsupportedTableFeature for a property that CLONE cannot set. `old`: the replaced table's metadata."""
    check_properties(properties, source.configuration)
    _refuse_new_constraints(table, source.configuration, properties)
    if CHECKPOINT_PROTECTION in properties:
        _refuse_protection_change(table, old.configuration, properties)
    if not is_new_table:
        _refuse_enabling_timestamps(table, old.configuration, properties)


def _clone_properties(source: Metadata, old: Metadata, properties: Mapping[str, str], *, is_new_table: bool) -> dict[str, str]:
    """Return the properties of a clone. Those in the statement override those of the log, which override those of the source.

    `old`: the metadata of the replaced table, which has no properties for a new table. With row tracking, its hidden columns for row
    ids and commit versions keep their names. Raises ConfigurationError if a property is invalid.
    """
    excluded_names = {*LOG_PROPERTIES, *ROW_TRACKING_COLUMNS}
    if is_new_table:
        excluded_names.remove(IN_COMMIT_TIMESTAMPS)  # a new log can have in-commit timestamps from its first version on
    if source.mapping_mode == "none":
        # The source can have the property without the feature: it then has no effect, and must not have one in the clone.
        excluded_names.add(MAPPING_MODE)
    inherited_properties = {name: value for name, value in source.configuration.items() if name not in excluded_names}
    log_properties = _select(old.configuration, LOG_PROPERTIES)
    return with_row_tracking_columns(inherited_properties | log_properties | _stored_properties(properties), old.configuration)


def _select(properties: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
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
    _refuse_repartitioning(table, metadata, definition)
    new_metadata = _changed_metadata(table, metadata, definition, clustering)
    # When column mapping is enabled, the columns of existing data files keep their names as physical names.
    new_metadata = _with_column_ids(new_metadata, keep_names=metadata.mapping_mode == "none")
    return required_protocol(table, protocol, new_metadata, definition.properties or {}, action="change"), new_metadata


def _changed_metadata(table: str, metadata: Metadata, definition: TableDefinition, clustering: tuple[ColumnPath, ...]) -> Metadata:
    """Return the metadata with the changes of ALTER TABLE. An empty description removes the table's description."""
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
    _refuse_enabling_timestamps(table, old_properties, properties)
    _refuse_enabling_row_tracking(table, old_properties, properties)
    _refuse_protection_change(table, old_properties, properties)
    _refuse_new_constraints(table, old_properties, properties)
    # If the properties enable column mapping, the new protocol supports it.
    new_metadata = replace(metadata, configuration=_stored_properties(properties), mapping_supported=True)
    _check_mapping_change(table, old_metadata, new_metadata)
    return new_metadata


def _partition_columns(table: str, partitioning: tuple[PartitionField, ...]) -> tuple[str, ...]:
    """Return the names of the partition columns. Raises PlanError for a transform and for a field of a struct."""
    for field in partitioning:
        if not field.identity:
            reason = _STRUCT_FIELD if field.transform.name == IDENTITY else _TRANSFORM
            raise PlanError(f"{table} cannot be PARTITIONED BY {field.text}: {reason}")
    return tuple(field.column[0] for field in partitioning)


def _refuse_repartitioning(table: str, metadata: Metadata, definition: TableDefinition) -> None:
    """Raise PlanError if a definition changes the partition columns."""
    if definition.partitioning is not None and _partition_columns(table, definition.partitioning) != metadata.partition_columns:
        raise PlanError(f"The partitioning of {table} cannot be changed in place. Use CREATE OR REPLACE TABLE … PARTITIONED BY.")


def _refuse_write_order(table: str, definition: TableDefinition) -> None:
    """Raise PlanError if a definition has a write order or a distribution, which Delta tables cannot store."""
    if definition.ordering is not None or definition.distribution is not None:
        clause = f" ORDERED BY {', '.join(field.text for field in definition.ordering)}" if definition.ordering else ""
        raise PlanError(f"ALTER TABLE {table} WRITE{clause}: Delta tables keep no order of writing. Write the rows with ORDER BY.")


def _with_schema(table: str, metadata: Metadata, schema: Struct, clustering: tuple[ColumnPath, ...]) -> Metadata:
    """Return the metadata with a new schema. Renamed columns are also renamed in the partitioning and in the statistics property."""
    change = SchemaChange(table, metadata, clustering)
    new_schema = change.apply(schema)
    partition_columns = change.partition_columns(new_schema)
    check_schema(table, new_schema, partition_columns, has_column_mapping=change.mapped, old_schema=metadata.schema)
    configuration = dict(metadata.configuration)
    if change.mapped and INDEXED_COLUMNS in configuration:
        configuration[INDEXED_COLUMNS] = rename_indexed_columns(configuration[INDEXED_COLUMNS], metadata.schema, new_schema)
    return replace(metadata, schema_string=schema_text(new_schema), partition_columns=partition_columns, configuration=configuration)


def _check_mapping_change(table: str, old: Metadata, new: Metadata) -> None:
    """Raise ConfigurationError if the highest column id changes, or the column mapping mode except from `none` to `name`."""
    old_mode, new_mode = old.mapping_mode, new.mapping_mode
    if old_mode != new_mode and (old_mode, new_mode) != ("none", "name"):
        advice = (
            f"A table that is there can only be changed from none to name. Leave {MAPPING_MODE} as it is, or write the table anew with "
            f"CREATE OR REPLACE TABLE {table} … TBLPROPERTIES ('{MAPPING_MODE}' = '{new_mode}') AS SELECT."
        )
        raise ConfigurationError(f"The table property {MAPPING_MODE} of {table} cannot be changed from {old_mode} to {new_mode}. {advice}")
    if old.configuration.get(MAX_COLUMN_ID) != new.configuration.get(MAX_COLUMN_ID):
        raise ConfigurationError(f"The table property {MAX_COLUMN_ID} of {table} is kept by the table itself. Leave it out.")


def _with_column_ids(metadata: Metadata, *, keep_names: bool, last_id: int = 0) -> Metadata:
    """Return the metadata with an id and a physical name for each column, if the table has column mapping.

    `keep_names`: whether the statement enables column mapping, so that the column names in existing data files become physical names.
    Any ids and physical names already in the schema are then meaningless and are replaced. `last_id`: the highest id in use.
    """
    if metadata.mapping_mode == "none":
        return metadata
    schema = without_mapping(metadata.schema) if keep_names else metadata.schema
    used_ids = (last_id, highest_column_id(metadata.configuration), highest_id(schema))
    schema, max_id = assign_ids(schema, max(used_ids), keep_names=keep_names)
    return replace(metadata, schema_string=schema_text(schema), configuration={**metadata.configuration, MAX_COLUMN_ID: str(max_id)})


def _metadata_after_definition(table: str, protocol: Protocol, old: Metadata, definition: TableDefinition) -> tuple[Protocol, Metadata]:
    """Check the definition of CREATE or REPLACE, and return the protocol and metadata of the new table.

    `protocol`, `old`: the protocol and metadata of the replaced table. For a new table, LOWEST_PROTOCOL and metadata without columns.
    """
    if definition.schema is None:
        raise PlanError(f"{table} needs columns. List them, or create it AS SELECT.")
    _refuse_write_order(table, definition)
    partition_columns = _partition_columns(table, definition.partitioning or ())
    properties = definition.properties or {}
    # The mapping mode in the properties counts, because `required_protocol` below adds the feature columnMapping if it is needed.
    metadata = replace(
        old,
        schema_string=schema_text(Struct(tuple(map(_stored_field, definition.schema)))),
        partition_columns=partition_columns,
        configuration=_properties_after_definition(table, old.configuration, properties) | _constraints(definition.checks or {}),
        description=definition.description or None,
        mapping_supported=True,
    )
    has_column_mapping = metadata.mapping_mode != "none"
    check_schema(table, definition.schema, partition_columns, has_column_mapping=has_column_mapping)
    if has_column_mapping:
        # New columns do not get the ids of the replaced table's columns, because older data files use these ids.
        metadata = _with_column_ids(metadata, keep_names=False, last_id=highest_column_id(old.configuration))
    return required_protocol(table, protocol, metadata, properties, action="create"), metadata


def _properties_after_definition(table: str, replaced_properties: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that CREATE or REPLACE stores, with deletion vectors unless the write mode is copy-on-write.

    `replaced_properties`: those of the replaced table, empty for a new table. With row tracking, the new table reuses their names of the
    hidden columns for row ids. `properties`: those in the statement. Raises ConfigurationError if a property is invalid.
    """
    check_properties(properties)
    if MAX_COLUMN_ID in properties:
        raise ConfigurationError(f"The table property {MAX_COLUMN_ID} is kept by the table itself. Leave it out.")
    _refuse_protection_change(table, replaced_properties, properties)
    table_properties = _stored_properties(properties)
    if parse_write_mode(properties, WRITE_MODE) is not WriteMode.COPY_ON_WRITE:
        table_properties.setdefault(DELETION_VECTORS, "true")
    return with_row_tracking_columns(table_properties, replaced_properties)


def _stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties to store, with deletion vectors for merge-on-read. Raises ConfigurationError if they contradict each other."""
    # Properties of protocol versions and features change the protocol and are not stored.
    protocol_names = {name for name in properties if name in (MIN_READER, MIN_WRITER) or name.startswith(FEATURE_PREFIX)}
    table_properties = {name: value for name, value in properties.items() if name not in protocol_names}
    if WRITE_MODE not in properties or parse_write_mode(properties, WRITE_MODE) is not WriteMode.MERGE_ON_READ:
        return table_properties
    if table_properties.setdefault(DELETION_VECTORS, "true") == "false":
        raise ConfigurationError(
            f"{WRITE_MODE} = merge-on-read needs deletion vectors, and {DELETION_VECTORS} is false. "
            f"Leave {DELETION_VECTORS} out, or set {WRITE_MODE} to copy-on-write."
        )
    return table_properties


def _stored_field(field: Field) -> Field:
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


def _refuse_new_constraints(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise ConfigurationError if `new` adds or changes a constraint of `old`, because existing rows would not be checked."""
    for name, expression in new.items():
        if name.lower().startswith(CONSTRAINT_PREFIX) and old.get(name) != expression:
            raise ConfigurationError(
                f"{name} is no property to set. Use ALTER TABLE {table} ADD CONSTRAINT {quote(name[len(CONSTRAINT_PREFIX) :])} "
                f"CHECK ({expression}), which looks at the rows that are there."
            )


def _refuse_protection_change(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise ConfigurationError if `new` changes the checkpoint protection of `old`. Only dropping a feature may change it."""
    if new.get(CHECKPOINT_PROTECTION) != old.get(CHECKPOINT_PROTECTION):
        raise ConfigurationError(f"The table property {CHECKPOINT_PROTECTION} of {table} is kept by the log itself. Leave it as it is.")


def _refuse_enabling_timestamps(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise UnsupportedTableFeature if only `new` enables in-commit timestamps, because the log would not record their first version."""
    if new.get(IN_COMMIT_TIMESTAMPS, "false").lower() == "true" and old.get(IN_COMMIT_TIMESTAMPS, "false").lower() != "true":
        advice = f"Set {IN_COMMIT_TIMESTAMPS} when a table is created, not later."
        raise UnsupportedTableFeature(table, "inCommitTimestamp", action="change", advice=advice)


def _refuse_enabling_row_tracking(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise UnsupportedTableFeature if only `new` enables row tracking, because existing rows have no row ids."""
    if is_true(new, ROW_TRACKING) and not is_true(old, ROW_TRACKING):
        advice = f"Set {ROW_TRACKING} when a table is created, or write the table anew with CREATE OR REPLACE TABLE."
        raise UnsupportedTableFeature(table, "rowTracking", action="change", advice=advice)
