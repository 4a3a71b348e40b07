"""Table features: those that we honour, a refusal by name of all others, and those that a table definition requires."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from rowmerge.delta.files.statistics import indexed_leaves
from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.column_mapping import ID, MAPPING_MODE, PHYSICAL_NAME, all_fields, named_fields
from rowmerge.delta.metadata.properties import (
    APPEND_ONLY,
    CHANGE_DATA_FEED,
    CONSTRAINT_PREFIX,
    DELETION_VECTORS,
    FEATURE_PREFIX,
    IN_COMMIT_TIMESTAMPS,
    MIN_READER,
    MIN_WRITER,
    ROW_TRACKING,
    TYPE_WIDENING,
    is_true,
)
from rowmerge.errors import ConfigurationError, PlanError, UnsupportedTableFeature
from rowmerge.table.metadata.schema import Array, Map, Primitive, Struct, UnknownType

READABLE = frozenset(
    "columnMapping deletionVectors timestampNtz typeWidening typeWidening-preview v2Checkpoint vacuumProtocolCheck".split()
)
HONOURED = READABLE.union(
    "allowColumnDefaults appendOnly changeDataFeed checkConstraints checkpointProtection clustering domainMetadata".split(),
    "generatedColumns inCommitTimestamp rowTracking".split(),
)
"""Writer features that every commit honours. `checkpointProtection` restricts cleanups of the log (`log_cleanup.py`)."""

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""The columns that change rows add to those of the table (PROTOCOL.md, Reader Requirements for AddCDCFile)."""
GENERATION_EXPRESSION = "delta.generationExpression"
INVARIANT = "delta.invariants"
_FEATURES_OF_SWITCHES = {
    DELETION_VECTORS: "deletionVectors",
    IN_COMMIT_TIMESTAMPS: "inCommitTimestamp",
    APPEND_ONLY: "appendOnly",
    CHANGE_DATA_FEED: "changeDataFeed",
    ROW_TRACKING: "rowTracking",
    TYPE_WIDENING: "typeWidening",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
}
_FEATURES_OF_COLUMN_METADATA = {
    "CURRENT_DEFAULT": "allowColumnDefaults",
    GENERATION_EXPRESSION: "generatedColumns",
    "delta.identity.start": "identityColumns",
    INVARIANT: "invariants",
}
_ANOTHER_ENGINE = "Read it with an engine that supports it."
_UPGRADE = "Use an engine that supports it, or drop the feature there with ALTER TABLE … DROP FEATURE."


def check_readable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Raise UnsupportedTableFeature if reading the table requires a feature that we do not honour."""
    if protocol.min_reader > 3:
        raise UnsupportedTableFeature(table, f"reader version {protocol.min_reader}", action="read", advice=_ANOTHER_ENGINE)
    unsupported_features = sorted((protocol.reader_features or frozenset()) - READABLE)
    if unsupported_features:
        raise UnsupportedTableFeature(table, unsupported_features[0], action="read", advice=_UPGRADE)
    if metadata.provider != "parquet":
        raise UnsupportedTableFeature(table, f"data files of format {metadata.provider}", action="read", advice=_ANOTHER_ENGINE)
    try:
        schema = metadata.schema
    except UnknownType as error:
        raise UnsupportedTableFeature(table, str(error), action="read", advice=_ANOTHER_ENGINE) from error
    if any(field.type == Primitive("variant") for field in all_fields(schema)):
        raise UnsupportedTableFeature(table, "variantType", action="read", advice=_ANOTHER_ENGINE)
    if metadata.mapping_mode != "none":
        _check_mapping(table, metadata)


def check_writable(table: str, protocol: Protocol, metadata: Metadata, *, action: str = "write to") -> None:
    """Raise UnsupportedTableFeature if the table uses a feature that we do not honour. Unused features of the protocol are accepted."""
    check_readable(table, protocol, metadata)
    if protocol.min_writer > 7:
        raise UnsupportedTableFeature(table, f"writer version {protocol.min_writer}", action=action, advice=_ANOTHER_ENGINE)
    for feature in sorted(protocol.features - HONOURED):
        # Without advice, the table supports the feature but does not use it.
        advice = _ADVICE_IF_USED[feature](metadata) if feature in _ADVICE_IF_USED else _UPGRADE
        if advice:
            raise UnsupportedTableFeature(table, feature, action=action, advice=advice)
    for field in all_fields(metadata.schema):
        if field.type == Primitive("void"):
            raise UnsupportedTableFeature(table, "void", action=action, advice=f"Give the column {field.name} a type, or leave it out.")


def _check_mapping(table: str, metadata: Metadata) -> None:
    """Raise UnsupportedTableFeature for an unknown mapping mode, and for a field without an id or a physical name."""
    mode = metadata.mapping_mode
    if mode not in ("name", "id"):
        raise UnsupportedTableFeature(table, f"{MAPPING_MODE} = {mode}", action="read", advice=_ANOTHER_ENGINE)
    for field in named_fields(metadata.schema):
        if not isinstance(field.metadata.get(PHYSICAL_NAME), str) or not isinstance(field.metadata.get(ID), int):
            advice = f"The field {field.name} lacks {PHYSICAL_NAME} or {ID}: restore an older version in the engine that wrote this one."
            raise UnsupportedTableFeature(table, "columnMapping", action="read", advice=advice)


def is_enabled(protocol: Protocol, metadata: Metadata, switch: str) -> bool:
    """Return whether a property that switches a feature on is true, and the protocol supports the feature."""
    return protocol.supports(_FEATURES_OF_SWITCHES[switch]) and is_true(metadata.configuration, switch)


def _property_advice(name: str, metadata: Metadata) -> str:
    return f"Unset it first: ALTER TABLE … SET TBLPROPERTIES ('{name}' = 'false')." if is_true(metadata.configuration, name) else ""


def _identity_column_advice(metadata: Metadata) -> str:
    names = (field.name for field in all_fields(metadata.schema) if any(key.startswith("delta.identity.") for key in field.metadata))
    advice = "write with an engine that supports it, or copy the rows into a table without."
    return next((f"The column {name} has identity values: {advice}" for name in names), "")


def _nested_invariant_advice(metadata: Metadata) -> str:
    """Advise against invariants inside arrays and maps. `shape.py` enforces those of columns and of fields of structs."""
    collections = (field.type for field in all_fields(metadata.schema) if isinstance(field.type, Array | Map))
    names = (field.name for collection in collections for field in all_fields(collection) if INVARIANT in field.metadata)
    return next((f"The field {name} inside an array or a map has an invariant: copy the rows into a table without." for name in names), "")


_ADVICE_IF_USED: dict[str, Callable[[Metadata], str]] = {
    "invariants": _nested_invariant_advice,
    "identityColumns": _identity_column_advice,
    "icebergCompatV1": partial(_property_advice, "delta.enableIcebergCompatV1"),
    "icebergCompatV2": partial(_property_advice, "delta.enableIcebergCompatV2"),
}
"""Features that prevent writes only to a table that uses them. Each function returns advice, an empty string if it is not used."""


def required_protocol(table: str, protocol: Protocol, metadata: Metadata, properties: Mapping[str, str], *, action: str) -> Protocol:
    """Return the protocol, raised to the features and versions that the new metadata and the statement's properties require.

    Raises PlanError, ConfigurationError or UnsupportedTableFeature if we could not write a table with this protocol and metadata.
    """
    features = _required_features(table, protocol, metadata, properties)
    new_protocol = _with_requested_versions(protocol, properties).with_features(features)
    _check_definition(table, new_protocol, metadata, action)
    return new_protocol


def _required_features(table: str, protocol: Protocol, metadata: Metadata, properties: Mapping[str, str]) -> set[str]:
    """Return the features that the metadata uses or the properties request, with those that these depend on."""
    features = {*_property_features(metadata.configuration), *_column_features(metadata.schema), *_requested_features(table, properties)}
    if protocol.supports("typeWidening-preview"):
        # A table with the preview does not get the stable feature too: readers that know only the preview could not read it.
        features.discard("typeWidening")
    if "rowTracking" in features:
        # A domain stores the highest row id.
        features.add("domainMetadata")
    return features


def _check_definition(table: str, protocol: Protocol, metadata: Metadata, action: str) -> None:
    """Raise an error if the change feed, a feature or the list of indexed columns makes a table impossible to write."""
    if is_enabled(protocol, metadata, CHANGE_DATA_FEED):
        _check_change_columns(table, metadata.schema)
    check_writable(table, protocol, metadata, action=action)
    # An invalid list of columns fails here rather than in the first write.
    indexed_leaves(metadata.schema, metadata.partition_columns, metadata.configuration)


def _property_features(configuration: Mapping[str, str]) -> Iterator[str]:
    """Yield the features that the table's properties use."""
    for name, value in configuration.items():
        if name in _FEATURES_OF_SWITCHES and value.lower() == "true":
            yield _FEATURES_OF_SWITCHES[name]
        if name.lower().startswith(CONSTRAINT_PREFIX):
            yield "checkConstraints"
        if name == MAPPING_MODE and value.strip().lower() != "none":
            yield "columnMapping"
        if name == "delta.checkpointPolicy" and value == "v2":
            yield "v2Checkpoint"


def _column_features(schema: Struct) -> Iterator[str]:
    """Yield the features that the columns and their nested fields use."""
    for field in all_fields(schema):
        if field.type == Primitive("timestamp_ntz"):
            yield "timestampNtz"
        if not field.nullable:
            yield "invariants"
        yield from (_FEATURES_OF_COLUMN_METADATA[key] for key in field.metadata if key in _FEATURES_OF_COLUMN_METADATA)


def _requested_features(table: str, properties: Mapping[str, str]) -> Iterator[str]:
    """Yield the features of `delta.feature.<name>` = supported. Raises ConfigurationError, UnsupportedTableFeature."""
    for name, value in properties.items():
        if not name.startswith(FEATURE_PREFIX):
            continue
        if value not in ("supported", "enabled"):
            raise ConfigurationError(f"The table property {name} is {value!r}. Set it to supported, or leave it out.")
        feature = name[len(FEATURE_PREFIX) :]
        if feature not in HONOURED:
            raise UnsupportedTableFeature(table, feature, action="create", advice=f"Leave the table property {name} out.")
        yield feature


def _check_change_columns(table: str, schema: Struct) -> None:
    """Raise PlanError for a column with the name of a column that change rows add."""
    for name in CHANGE_COLUMNS:
        if field := schema.find(name):
            raise PlanError(
                f"{table} cannot have the column {field.name} with {CHANGE_DATA_FEED} = true: change rows have a column of that name. "
                f"Rename the column, or set {CHANGE_DATA_FEED} to false."
            )


def _with_requested_versions(protocol: Protocol, properties: Mapping[str, str]) -> Protocol:
    """Return the protocol, raised to `delta.minReaderVersion` and `delta.minWriterVersion`. Raises ConfigurationError."""
    reader = max(protocol.min_reader, _requested_version(properties, MIN_READER, highest=3))
    writer = max(protocol.min_writer, _requested_version(properties, MIN_WRITER, highest=7))
    if reader == protocol.min_reader and writer == protocol.min_writer:
        return protocol
    if reader == 3 and writer < 7:
        raise ConfigurationError(f"{MIN_READER} = 3 goes only with {MIN_WRITER} = 7. Set both, or neither.")
    if writer < 7:
        return Protocol(reader, writer)
    reader_features = (protocol.reader_features or frozenset()) if reader == 3 else None
    return Protocol(reader, 7, reader_features, protocol.features)


def _requested_version(properties: Mapping[str, str], name: str, *, highest: int) -> int:
    value = properties.get(name, "1")
    if not (value.strip().isdecimal() and 1 <= int(value) <= highest):
        raise ConfigurationError(f"The table property {name} is {value!r}. Leave it out, or set it to a version from 1 to {highest}.")
    return int(value)
