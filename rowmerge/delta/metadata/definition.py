"""From what a user wants a table to be to the protocol and metadata actions that say so."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rowmerge.delta.files.statistics import INDEXED_COLUMNS, Leaf, indexed_leaves, named_leaves
from rowmerge.delta.metadata.actions import Metadata, Protocol, schema_text
from rowmerge.delta.metadata.column_mapping import MAX_ID, MODE, assigned, highest_id, unmapped
from rowmerge.delta.metadata.features import HONOURED, check_writable, fields_of, keeps_change_rows
from rowmerge.delta.metadata.properties import (
    CHANGE_DATA_FEED,
    CONSTRAINT_PREFIX,
    DELETION_VECTORS,
    FEATURE_PREFIX,
    IN_COMMIT_TIMESTAMPS,
    LOG_PROPERTIES,
    MIN_READER,
    MIN_WRITER,
    PROTECTED_BEFORE,
    ROW_TRACKING,
    check_properties,
    highest_column_id,
    is_true,
)
from rowmerge.delta.metadata.row_tracking import COLUMN_NAMES, with_column_names
from rowmerge.delta.metadata.rules import GENERATION_EXPRESSION
from rowmerge.delta.metadata.schema_changes import SchemaChange, check_schema, renamed_leaf
from rowmerge.errors import ConfigurationError, PlanError, UnsupportedTableFeature
from rowmerge.table.metadata.partitioning import IDENTITY, PartitionField
from rowmerge.table.metadata.rules import GENERATED
from rowmerge.table.metadata.schema import Field, Primitive, Struct, backquote, quote
from rowmerge.table.metadata.settings import WRITE_MODE, WriteMode, parse_write_mode
from rowmerge.table.metadata.shape import TableDefinition

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""What change rows have besides the table's columns (PROTOCOL.md, Reader Requirements for AddCDCFile)."""
_LEAST = Protocol(1, 2)
_SWITCHES = {
    DELETION_VECTORS: "deletionVectors",
    IN_COMMIT_TIMESTAMPS: "inCommitTimestamp",
    "delta.appendOnly": "appendOnly",
    CHANGE_DATA_FEED: "changeDataFeed",
    ROW_TRACKING: "rowTracking",
    "delta.enableTypeWidening": "typeWidening",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
}
_COLUMN_METADATA = {
    "CURRENT_DEFAULT": "allowColumnDefaults",
    GENERATION_EXPRESSION: "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
}


def new_table(table: str, definition: TableDefinition, now: int) -> tuple[Protocol, Metadata]:
    """The first actions of a table. Raises PlanError, ConfigurationError, UnsupportedTableFeature.

    Deletion vectors are on unless `rowmerge.write.mode` is copy-on-write or `delta.enableDeletionVectors` is false.
    """
    empty = Metadata(id=str(uuid.uuid4()), schema_string="", created=now)
    return _complete(table, _LEAST, empty, definition)


def timestamps_from(version: int, now: int) -> dict[str, str]:
    """Return the properties of a table whose in-commit timestamps begin at a version above 0 (PROTOCOL.md, In-Commit Timestamps)."""
    return dict(zip(LOG_PROPERTIES[2:], (str(version), str(now)), strict=True))


def replaced_table(table: str, protocol: Protocol, metadata: Metadata, definition: TableDefinition) -> tuple[Protocol, Metadata]:
    """The actions of CREATE OR REPLACE: everything anew but the table's id and its protocol, which never shrinks, and what is the log's."""
    kept = {name: metadata.configuration[name] for name in LOG_PROPERTIES if name in metadata.configuration}
    if definition.properties is None or definition.properties.get(IN_COMMIT_TIMESTAMPS, "true") != "true":
        kept = {name: value for name, value in kept.items() if name == PROTECTED_BEFORE}
    definition = replace(definition, properties={**(definition.properties or {}), **kept})
    _refuse_late_timestamps(table, metadata.configuration, definition.properties or {})
    return _complete(table, protocol, metadata, definition)


def cloned_table(
    table: str, source: tuple[Protocol, Metadata], base: tuple[Protocol, Metadata] | None, definition: TableDefinition, now: int
) -> tuple[Protocol, Metadata]:
    """The protocol and metadata of a shallow clone: those of `source`, with the definition's properties above them.

    `base`: of the table that is replaced. As in Delta's CloneTableBase, the name and the description are not cloned. What the log keeps for
    its own sake is its own: how commits are timed, and where rows keep their ids, which are new. Raises as `changed_table`.
    """
    protocol, metadata = source
    old = Metadata(id=str(uuid.uuid4()), schema_string="", created=now) if base is None else base[1]
    asked = definition.properties or {}
    check_properties(asked, metadata.configuration)
    _refuse_new_constraints(table, metadata.configuration, asked)
    if PROTECTED_BEFORE in asked:
        _refuse_protection(table, old.configuration, asked)
    own = tuple(name for name in LOG_PROPERTIES if base is not None or name != IN_COMMIT_TIMESTAMPS)
    kept = {name: value for name, value in metadata.configuration.items() if name not in own and name not in COLUMN_NAMES}
    if base is not None:
        _refuse_late_timestamps(table, old.configuration, asked)
        kept |= {name: value for name, value in old.configuration.items() if name in LOG_PROPERTIES}
    if metadata.mapping_mode == "none":
        kept.pop(MODE, None)
    marks = WRITE_MODE in asked and parse_write_mode(asked, WRITE_MODE) is WriteMode.MERGE_ON_READ
    changed = replace(
        metadata,
        id=old.id,
        name=old.name,
        description=old.description,
        created=old.created,
        configuration=kept | _stored(asked, marks=marks),
        mapping_supported=True,
    )
    _check_mapping_change(table, metadata, changed)
    if is_true(changed.configuration, ROW_TRACKING):
        changed = replace(changed, configuration=with_column_names(changed.configuration, old.configuration))
    changed = _mapped(changed, keep_names=metadata.mapping_mode == "none", last=highest_column_id(old.configuration))
    if base is not None:
        protocol = base[0].with_features(protocol.features)
    return _with_protocol(table, protocol, changed, asked, action="create")


def changed_table(
    table: str, protocol: Protocol, metadata: Metadata, definition: TableDefinition, clustering: tuple[Leaf, ...] = ()
) -> tuple[Protocol, Metadata]:
    """The protocol and metadata after ALTER TABLE; what the definition leaves out stays.

    `clustering`: the clustering columns, as they are stored. Raises PlanError for a schema that the table cannot get in place,
    ConfigurationError, UnsupportedTableFeature.
    """
    _refuse_order(table, definition)
    if definition.partitioning is not None and _partition_columns(table, definition.partitioning) != metadata.partition_columns:
        raise PlanError(f"The partitioning of {table} cannot be changed in place. Use CREATE OR REPLACE TABLE … PARTITIONED BY.")
    changed = metadata
    if definition.schema is not None:
        changed = _with_schema(table, metadata, definition.schema, clustering)
    if definition.description is not None:
        changed = replace(changed, description=definition.description or None)
    asked: Mapping[str, str] = {}
    if definition.properties is not None:
        asked = definition.properties
        check_properties(asked, metadata.configuration)
        _refuse_late_timestamps(table, metadata.configuration, asked)
        _refuse_late_row_tracking(table, metadata.configuration, asked)
        _refuse_protection(table, metadata.configuration, asked)
        _refuse_new_constraints(table, metadata.configuration, asked)
        marks = WRITE_MODE in asked and parse_write_mode(asked, WRITE_MODE) is WriteMode.MERGE_ON_READ
        changed = replace(changed, configuration=_stored(asked, marks=marks), mapping_supported=True)
        _check_mapping_change(table, metadata, changed)
    if definition.checks is not None:
        changed = replace(changed, configuration=_with_checks(changed.configuration, definition.checks))
    return _with_protocol(table, protocol, _mapped(changed, keep_names=metadata.mapping_mode == "none"), asked, action="change")


def _partition_columns(table: str, partitioning: tuple[PartitionField, ...]) -> tuple[str, ...]:
    """The names of partition columns. Raises PlanError for what is not a column as it is."""
    for field in partitioning:
        if field.transform.name != IDENTITY:
            raise PlanError(
                f"{table} cannot be PARTITIONED BY {field.told}: Delta tables are partitioned by columns, not by transforms. "
                f"Add a column with that value and name it."
            )
        if not field.identity:
            raise PlanError(
                f"{table} cannot be PARTITIONED BY {field.told}: a field of a struct cannot partition a Delta table. "
                f"Make it a column of its own."
            )
    return tuple(field.column[0] for field in partitioning)


def _refuse_order(table: str, definition: TableDefinition) -> None:
    if definition.ordering is not None or definition.distribution is not None:
        told = f" ORDERED BY {', '.join(field.told for field in definition.ordering)}" if definition.ordering else ""
        raise PlanError(f"ALTER TABLE {table} WRITE{told}: Delta tables keep no order of writing. Write the rows with ORDER BY.")


def _with_schema(table: str, metadata: Metadata, schema: Struct, clustering: tuple[Leaf, ...]) -> Metadata:
    """The metadata with another schema, and with what names columns elsewhere following it."""
    change = SchemaChange(table, metadata, clustering)
    schema = change.checked(schema)
    partition, configuration = change.partition_columns(schema), dict(metadata.configuration)
    check_schema(table, schema, partition, mapped=change.mapped, old=metadata.schema)
    if change.mapped and INDEXED_COLUMNS in configuration:
        leaves = [renamed_leaf(leaf, metadata.schema, schema) for leaf in named_leaves(configuration[INDEXED_COLUMNS])]
        configuration[INDEXED_COLUMNS] = ",".join(".".join(map(backquote, leaf)) for leaf in leaves if leaf is not None)
    return replace(metadata, schema_string=schema_text(schema), partition_columns=partition, configuration=configuration)


def _check_mapping_change(table: str, old: Metadata, new: Metadata) -> None:
    before, after = old.mapping_mode, new.mapping_mode
    if before != after and (before, after) != ("none", "name"):
        advice = (
            f"A table that is there can only be changed from none to name. Leave {MODE} as it is, or write the table anew with "
            f"CREATE OR REPLACE TABLE {table} … TBLPROPERTIES ('{MODE}' = '{after}') AS SELECT."
        )
        raise ConfigurationError(f"The table property {MODE} of {table} cannot be changed from {before} to {after}. {advice}")
    if old.configuration.get(MAX_ID) != new.configuration.get(MAX_ID):
        raise ConfigurationError(f"The table property {MAX_ID} of {table} is kept by the table itself. Leave it out.")


def _mapped(metadata: Metadata, *, keep_names: bool, last: int = 0) -> Metadata:
    """The metadata with an id and a physical name for every column that has none yet, if its columns are mapped."""
    if metadata.mapping_mode == "none":
        return metadata
    # Where columns were not mapped before, what their metadata says of it means nothing.
    schema = unmapped(metadata.schema) if keep_names else metadata.schema
    last = max(last, highest_column_id(metadata.configuration), highest_id(schema))
    schema, last = assigned(schema, last, keep_names=keep_names)
    return replace(metadata, schema_string=schema_text(schema), configuration={**metadata.configuration, MAX_ID: str(last)})


def _complete(table: str, protocol: Protocol, old: Metadata, definition: TableDefinition) -> tuple[Protocol, Metadata]:
    if definition.schema is None:
        raise PlanError(f"{table} needs columns. List them, or create it AS SELECT.")
    _refuse_order(table, definition)
    partition = _partition_columns(table, definition.partitioning or ())
    asked = definition.properties or {}
    check_properties(asked)
    if MAX_ID in asked:
        raise ConfigurationError(f"The table property {MAX_ID} is kept by the table itself. Leave it out.")
    if PROTECTED_BEFORE in asked:
        _refuse_protection(table, old.configuration, asked)
    stored = _stored(asked, marks=parse_write_mode(asked, WRITE_MODE) is not WriteMode.COPY_ON_WRITE)
    if is_true(stored, ROW_TRACKING):
        stored = with_column_names(stored, old.configuration)
    metadata = replace(
        old,
        schema_string=schema_text(_stored_schema(definition.schema)),
        partition_columns=partition,
        configuration={**stored, **_constraints(definition.checks or {})},
        description=definition.description or None,
        mapping_supported=True,
    )
    mapped = metadata.mapping_mode != "none"
    check_schema(table, definition.schema, partition, mapped=mapped)
    if mapped:
        # Ids are never given twice, not even after a replacement.
        metadata = _mapped(metadata, keep_names=False, last=highest_column_id(old.configuration))
    return _with_protocol(table, protocol, metadata, asked, action="create")


def _with_protocol(
    table: str, protocol: Protocol, metadata: Metadata, asked: Mapping[str, str], *, action: str
) -> tuple[Protocol, Metadata]:
    needed = set(_needed(table, metadata, asked))
    if protocol.supports("typeWidening-preview"):
        needed.discard("typeWidening")
    if "rowTracking" in needed:
        needed.add("domainMetadata")
    protocol = _at_least(protocol, asked).with_features(needed)
    if keeps_change_rows(protocol, metadata):
        _check_change_columns(table, metadata.schema)
    check_writable(table, protocol, metadata, action=action)
    # A list of columns that cannot be read is better refused now than by the first write.
    indexed_leaves(metadata.schema, metadata.partition_columns, metadata.configuration)
    return protocol, metadata


def _stored(asked: Mapping[str, str], *, marks: bool) -> dict[str, str]:
    """The properties that the metadata keeps: settings of the protocol are none of them."""
    stored = {name: value for name, value in asked.items() if name not in (MIN_READER, MIN_WRITER) and not name.startswith(FEATURE_PREFIX)}
    explicit = stored.get(DELETION_VECTORS)
    if marks and explicit is None:
        stored[DELETION_VECTORS] = "true"
    if explicit == "false" and WRITE_MODE in asked and parse_write_mode(asked, WRITE_MODE) is WriteMode.MERGE_ON_READ:
        raise ConfigurationError(
            f"{WRITE_MODE} = merge-on-read needs deletion vectors, and {DELETION_VECTORS} is false. "
            f"Leave {DELETION_VECTORS} out, or set {WRITE_MODE} to copy-on-write."
        )
    return stored


def _stored_schema(schema: Struct) -> Struct:
    """The columns with generation expressions where Delta keeps them."""

    def stored(field: Field) -> Field:
        if GENERATED not in field.metadata:
            return field
        others = {key: value for key, value in field.metadata.items() if key != GENERATED}
        return replace(field, metadata={**others, GENERATION_EXPRESSION: field.metadata[GENERATED]})

    return Struct(tuple(map(stored, schema)))


def _refuse_late_row_tracking(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Rows that are there would have to get ids first."""
    if is_true(new, ROW_TRACKING) and not is_true(old, ROW_TRACKING):
        advice = f"Set {ROW_TRACKING} when a table is created, or write the table anew with CREATE OR REPLACE TABLE."
        raise UnsupportedTableFeature(table, "rowTracking", action="change", advice=advice)


def _with_checks(configuration: Mapping[str, str], checks: Mapping[str, str]) -> dict[str, str]:
    """The properties with these CHECK constraints and no others; names of constraints are in lower case there."""
    others = {name: value for name, value in configuration.items() if not name.lower().startswith(CONSTRAINT_PREFIX)}
    return others | _constraints(checks)


def _constraints(checks: Mapping[str, str]) -> dict[str, str]:
    return {f"{CONSTRAINT_PREFIX}{name.lower()}": expression for name, expression in checks.items()}


def _refuse_new_constraints(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """A constraint that is set as a property would not be checked against the rows that are there."""
    for name, expression in new.items():
        if name.lower().startswith(CONSTRAINT_PREFIX) and old.get(name) != expression:
            raise ConfigurationError(
                f"{name} is no property to set. Use ALTER TABLE {table} ADD CONSTRAINT {quote(name[len(CONSTRAINT_PREFIX) :])} "
                f"CHECK ({expression}), which looks at the rows that are there."
            )


def _needed(table: str, metadata: Metadata, asked: Mapping[str, str]) -> Iterator[str]:
    """The features that the schema and the properties ask for."""
    for name, value in metadata.configuration.items():
        if name in _SWITCHES and value.lower() == "true":
            yield _SWITCHES[name]
        if name.lower().startswith(CONSTRAINT_PREFIX):
            yield "checkConstraints"
        if name == MODE and value.strip().lower() != "none":
            yield "columnMapping"
        if name == "delta.checkpointPolicy" and value == "v2":
            yield "v2Checkpoint"
    for field in fields_of(metadata.schema):
        if field.type == Primitive("timestamp_ntz"):
            yield "timestampNtz"
        if not field.nullable:
            yield "invariants"
        yield from (_COLUMN_METADATA[key] for key in field.metadata if key in _COLUMN_METADATA)
    for name, value in asked.items():
        if name.startswith(FEATURE_PREFIX):
            feature = name[len(FEATURE_PREFIX) :]
            if value not in ("supported", "enabled"):
                raise ConfigurationError(f"The table property {name} is {value!r}. Set it to supported, or leave it out.")
            if feature not in HONOURED:
                raise UnsupportedTableFeature(table, feature, action="create", advice=f"Leave the table property {name} out.")
            yield feature


def _check_change_columns(table: str, schema: Struct) -> None:
    for name in CHANGE_COLUMNS:
        if field := schema.find(name):
            raise PlanError(
                f"{table} cannot have the column {field.name} with {CHANGE_DATA_FEED} = true: change rows have a column of that name. "
                f"Rename the column, or set {CHANGE_DATA_FEED} to false."
            )


def _at_least(protocol: Protocol, asked: Mapping[str, str]) -> Protocol:
    """The protocol with the versions that `delta.minReaderVersion` and `delta.minWriterVersion` ask for."""
    reader = max(protocol.min_reader, _version(asked, MIN_READER, 3))
    writer = max(protocol.min_writer, _version(asked, MIN_WRITER, 7))
    if (reader, writer) == (protocol.min_reader, protocol.min_writer):
        return protocol
    if reader == 3 and writer < 7:
        raise ConfigurationError(f"{MIN_READER} = 3 goes only with {MIN_WRITER} = 7. Set both, or neither.")
    if writer < 7:
        return Protocol(reader, writer)
    features = protocol.features
    return Protocol(reader, 7, (protocol.reader_features or frozenset()) if reader == 3 else None, features)


def _version(asked: Mapping[str, str], name: str, highest: int) -> int:
    value = asked.get(name, "1")
    if not (value.strip().isdecimal() and 1 <= int(value) <= highest):
        raise ConfigurationError(f"The table property {name} is {value!r}. Leave it out, or set it to a version from 1 to {highest}.")
    return int(value)


def _refuse_protection(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise ConfigurationError if the new properties change which checkpoints are protected: only an engine that drops a feature does."""
    if new.get(PROTECTED_BEFORE) != old.get(PROTECTED_BEFORE):
        raise ConfigurationError(f"The table property {PROTECTED_BEFORE} of {table} is kept by the log itself. Leave it as it is.")


def _refuse_late_timestamps(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Switching in-commit timestamps on later needs its own bookkeeping, which is not done here."""
    if new.get(IN_COMMIT_TIMESTAMPS, "false").lower() == "true" and old.get(IN_COMMIT_TIMESTAMPS, "false").lower() != "true":
        advice = f"Set {IN_COMMIT_TIMESTAMPS} when a table is created, not later."
        raise UnsupportedTableFeature(table, "inCommitTimestamp", action="change", advice=advice)
