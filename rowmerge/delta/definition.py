"""From what a user wants a table to be to the protocol and metadata actions that say so."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rowmerge.delta.actions import Metadata, Protocol, schema_text
from rowmerge.delta.features import HONOURED, check_writable, fields_of, keeps_change_rows
from rowmerge.delta.properties import (
    CHANGE_DATA_FEED,
    CONSTRAINT_PREFIX,
    DELETION_VECTORS,
    FEATURE_PREFIX,
    IN_COMMIT_TIMESTAMPS,
    MIN_READER,
    MIN_WRITER,
    WRITE_MODE,
    check_properties,
    write_mode,
)
from rowmerge.delta.statistics import indexed_leaves
from rowmerge.errors import ConfigurationError, PlanError, UnknownColumn, UnsupportedTableFeature
from rowmerge.table.schema import Array, DataType, Decimal, Map, Primitive, Struct, arrow_type, sql_name
from rowmerge.table.snapshot import TableDefinition, WriteMode

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""What change rows have besides the table's columns (PROTOCOL.md, Reader Requirements for AddCDCFile)."""
_LEAST = Protocol(1, 2)
_SWITCHES = {
    DELETION_VECTORS: "deletionVectors",
    IN_COMMIT_TIMESTAMPS: "inCommitTimestamp",
    "delta.appendOnly": "appendOnly",
    CHANGE_DATA_FEED: "changeDataFeed",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableTypeWidening": "typeWidening",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
}
_COLUMN_METADATA = {
    "CURRENT_DEFAULT": "allowColumnDefaults",
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
}
# Characters that Delta does not allow in the names of columns without column mapping.
_FORBIDDEN = " ,;{}()\n\t="
_ICT_KEPT = (IN_COMMIT_TIMESTAMPS, "delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")


def new_table(table: str, definition: TableDefinition, now: int) -> tuple[Protocol, Metadata]:
    """The first actions of a table. Raises PlanError, ConfigurationError, UnsupportedTableFeature.

    Deletion vectors are on unless `rowmerge.write.mode` is copy-on-write or `delta.enableDeletionVectors` is false.
    """
    empty = Metadata(id=str(uuid.uuid4()), schema_string="", created=now)
    return _complete(table, _LEAST, empty, definition)


def replaced_table(table: str, protocol: Protocol, metadata: Metadata, definition: TableDefinition) -> tuple[Protocol, Metadata]:
    """The actions of CREATE OR REPLACE: everything anew but the table's id and its protocol, which never shrinks."""
    kept = {name: metadata.configuration[name] for name in _ICT_KEPT if name in metadata.configuration}
    if definition.properties is not None and definition.properties.get(IN_COMMIT_TIMESTAMPS, "true") == "true":
        definition = replace(definition, properties={**definition.properties, **kept})
    _refuse_late_timestamps(table, metadata.configuration, definition.properties or {})
    return _complete(table, protocol, metadata, definition)


def changed_table(table: str, protocol: Protocol, metadata: Metadata, definition: TableDefinition) -> tuple[Protocol, Metadata]:
    """The protocol and metadata after ALTER TABLE; what the definition leaves out stays.

    Raises PlanError for a schema that loses a column or changes its type, ConfigurationError, UnsupportedTableFeature.
    """
    if definition.partition_columns not in (None, metadata.partition_columns):
        raise PlanError(f"The partitioning of {table} cannot be changed in place. Use CREATE OR REPLACE TABLE … PARTITIONED BY.")
    changed = metadata
    if definition.schema is not None:
        _check_evolution(table, metadata.schema, definition.schema)
        _check_schema(table, definition.schema, metadata.partition_columns, old=metadata.schema)
        changed = replace(changed, schema_string=schema_text(definition.schema))
    if definition.description is not None:
        changed = replace(changed, description=definition.description or None)
    asked: Mapping[str, str] = {}
    if definition.properties is not None:
        asked = definition.properties
        check_properties(asked, metadata.configuration)
        _refuse_late_timestamps(table, metadata.configuration, asked)
        marks = WRITE_MODE in asked and write_mode(asked) is WriteMode.MERGE_ON_READ
        changed = replace(changed, configuration=_stored(asked, marks=marks))
    return _with_protocol(table, protocol, changed, asked, action="change")


def _complete(table: str, protocol: Protocol, old: Metadata, definition: TableDefinition) -> tuple[Protocol, Metadata]:
    if definition.schema is None:
        raise PlanError(f"{table} needs columns. List them, or create it AS SELECT.")
    partition = definition.partition_columns or ()
    asked = definition.properties or {}
    check_properties(asked)
    _check_schema(table, definition.schema, partition)
    metadata = replace(
        old,
        schema_string=schema_text(definition.schema),
        partition_columns=tuple(partition),
        configuration=_stored(asked, marks=write_mode(asked) is not WriteMode.COPY_ON_WRITE),
        description=definition.description or None,
    )
    return _with_protocol(table, protocol, metadata, asked, action="create")


def _with_protocol(
    table: str, protocol: Protocol, metadata: Metadata, asked: Mapping[str, str], *, action: str
) -> tuple[Protocol, Metadata]:
    protocol = _at_least(protocol, asked).with_features(_needed(table, metadata, asked))
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
    if explicit == "false" and WRITE_MODE in asked and write_mode(asked) is WriteMode.MERGE_ON_READ:
        raise ConfigurationError(
            f"{WRITE_MODE} = merge-on-read needs deletion vectors, and {DELETION_VECTORS} is false. "
            f"Leave {DELETION_VECTORS} out, or set {WRITE_MODE} to copy-on-write."
        )
    return stored


def _needed(table: str, metadata: Metadata, asked: Mapping[str, str]) -> Iterator[str]:
    """The features that the schema and the properties ask for."""
    for name, value in metadata.configuration.items():
        if name in _SWITCHES and value.lower() == "true":
            yield _SWITCHES[name]
        if name.startswith(CONSTRAINT_PREFIX):
            yield "checkConstraints"
        if name == "delta.columnMapping.mode" and value != "none":
            yield "columnMapping"
        if name == "delta.checkpointPolicy" and value == "v2":
            yield "v2Checkpoint"
    for field in fields_of(metadata.schema):
        if field.type == Primitive("timestamp_ntz"):
            yield "timestampNtz"
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


def _refuse_late_timestamps(table: str, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Switching in-commit timestamps on later needs its own bookkeeping, which is not done here."""
    if new.get(IN_COMMIT_TIMESTAMPS, "false").lower() == "true" and old.get(IN_COMMIT_TIMESTAMPS, "false").lower() != "true":
        advice = f"Set {IN_COMMIT_TIMESTAMPS} when a table is created, not later."
        raise UnsupportedTableFeature(table, "inCommitTimestamp", action="change", advice=advice)


def _check_schema(table: str, schema: Struct, partition: tuple[str, ...], *, old: Struct | None = None) -> None:
    """Raises PlanError, UnknownColumn, UnsupportedTableFeature for a schema that a Delta table cannot have."""
    _check_names(table, schema, frozenset(field.name for field in fields_of(old)) if old is not None else frozenset())
    if not len(schema):
        raise PlanError(f"{table} needs at least one column. List its columns.")
    for name in partition:
        field = schema.find(name, case_sensitive=True)
        if field is None:
            raise UnknownColumn(name, schema.names, where="PARTITIONED BY")
        if not isinstance(field.type, Primitive | Decimal):
            raise PlanError(f"{table} cannot be partitioned by {name}, a {sql_name(field.type)}. Partition by a column of a simple type.")
    if len(set(partition)) < len(partition):
        raise PlanError(f"PARTITIONED BY of {table} names a column twice. Name each once.")
    if partition and len(partition) == len(schema):
        raise PlanError(f"{table} cannot be partitioned by all of its columns. Leave at least one out of PARTITIONED BY.")
    for field in schema:
        for inner in fields_of(Struct((field,))):
            _check_type(table, field.name, inner.type)


def _check_type(table: str, column: str, type_: DataType) -> None:
    if isinstance(type_, Array | Map | Struct):
        return
    try:
        arrow_type(type_)
    except ValueError:
        advice = f"Cast the column {column} to a type that Delta tables can hold, for example to string."
        raise UnsupportedTableFeature(table, sql_name(type_), action="create", advice=advice) from None


def _check_names(table: str, schema: Struct, kept: frozenset[str]) -> None:
    """Names differ in more than case at each level; `kept` are names that the table has anyway."""
    seen: set[str] = set()
    for field in schema:
        if field.name.lower() in seen:
            raise PlanError(f"{table} would have two columns named {field.name}. Rename one of them.")
        seen.add(field.name.lower())
        if field.name not in kept and any(character in field.name for character in _FORBIDDEN):
            raise PlanError(
                f"A Delta table without column mapping cannot have the column name {field.name!r} in {table}: "
                f"spaces and , ; {{ }} ( ) = are not allowed. Rename the column."
            )
        for inner in _structs(field.type):
            _check_names(table, inner, kept)


def _structs(type_: DataType) -> Iterator[Struct]:
    """The structs of a type that are not inside another struct of it."""
    match type_:
        case Struct():
            yield type_
        case Array(element, _):
            yield from _structs(element)
        case Map(key, value, _):
            yield from _structs(key)
            yield from _structs(value)


def _check_evolution(table: str, old: Struct, new: Struct, above: str = "") -> None:
    """Old columns stay, with their types; new ones may be null. Fields of structs likewise."""
    for field in old:
        name = f"{above}{field.name}"
        kept = new.find(field.name, case_sensitive=True)
        if kept is None:
            raise PlanError(f"The column {name} of {table} cannot be dropped or renamed in place. Use CREATE OR REPLACE TABLE … AS SELECT.")
        if field.nullable and not kept.nullable:
            raise PlanError(f"The column {name} of {table} may hold NULL, so it cannot become NOT NULL. Use CREATE OR REPLACE TABLE.")
        _check_type_kept(table, name, field.type, kept.type)
    for field in new:
        if old.find(field.name, case_sensitive=True) is None and not field.nullable:
            name = f"{above}{field.name}"
            raise PlanError(f"The new column {name} of {table} cannot be NOT NULL: older rows have no value. Leave NOT NULL out.")


def _check_type_kept(table: str, name: str, old: DataType, new: DataType) -> None:
    match old, new:
        case Struct(), Struct():
            _check_evolution(table, old, new, f"{name}.")
        case Array(inner, _), Array(other, _):
            _check_type_kept(table, f"{name}.element", inner, other)
        case Map(key, value, _), Map(other_key, other_value, _):
            _check_type_kept(table, f"{name}.key", key, other_key)
            _check_type_kept(table, f"{name}.value", value, other_value)
        case _ if old != new:
            raise PlanError(
                f"The column {name} of {table} is a {sql_name(old)} and cannot become a {sql_name(new)} in place. "
                f"Use CREATE OR REPLACE TABLE … AS SELECT with a cast."
            )
