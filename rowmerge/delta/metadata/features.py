"""Table features: which features rowmerge supports, the errors for all others, and the features that a table definition requires."""

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
    SYMLINK_MANIFESTS,
    TYPE_WIDENING,
    checkpoint_policy,
    is_true,
)
from rowmerge.delta.metadata.registry import CHECKPOINT_POLICY
from rowmerge.errors import ConfigurationError, PlanError, UnsupportedTableFeature
from rowmerge.table.metadata.schema import Array, Map, Primitive, Struct, UnknownType
from rowmerge.table.metadata.settings import WRITE_MODE, WriteMode

READABLE_FEATURES = frozenset(
    "columnMapping deletionVectors timestampNtz typeWidening typeWidening-preview v2Checkpoint vacuumProtocolCheck".split()
)
WRITABLE_FEATURES = READABLE_FEATURES.union(
    "allowColumnDefaults appendOnly changeDataFeed checkConstraints checkpointProtection clustering domainMetadata".split(),
    "generatedColumns inCommitTimestamp rowTracking".split(),
)
"""The features of tables that rowmerge can write to. `checkpointProtection` restricts cleanups of the log (`log_cleanup.py`)."""
UNSUPPORTED_FEATURES = {
    "adaptiveMetadata-preview": "its metadata is outside the log",
    "catalogManaged": "a catalog decides which commit comes first",
    "coordinatedCommits-preview": "a coordinator decides which commit comes first",
    "geospatial": "geometries are columns of a type that Spark's reader lacks",
    "geospatial-dev": "geometries are columns of a type that Spark's reader lacks",
    "icebergCompatV1": "the table has Iceberg metadata beside its log",
    "icebergCompatV2": "the table has Iceberg metadata beside its log",
    "icebergCompatV3": "the table has Iceberg metadata beside its log",
    "identityColumns": "a writer must assign the values of a column",
    "invariants": "only invariants of columns and of fields in structs are checked",
    "materializePartitionColumns": "data files contain partition columns",
    "redirectReaderWriter-preview": "statements must read and write another table",
    "redirectWriterOnly-preview": "statements must write another table",
    "variantShredding": "columns have the type VARIANT",
    "variantShredding-preview": "columns have the type VARIANT",
    "variantType": "columns have the type VARIANT",
    "variantType-preview": "columns have the type VARIANT",
}
"""The features of Delta 4.4 that are not supported or only as far as tables use them, each with what it demands from a writer."""
_READER_VERSION_WITH_FEATURES, _WRITER_VERSION_WITH_FEATURES = 3, 7
"""The protocol versions that list their features, which are also the highest versions (PROTOCOL.md, Table Features).

Reader version 3 has the list `readerFeatures`, and writer version 7 has the list `writerFeatures`. Lower versions imply their features.
"""

CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""The columns that change rows have in addition to the table columns (PROTOCOL.md, Reader Requirements for AddCDCFile)."""
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
_UPGRADE = "Use an engine that supports it, or drop the feature in that engine with ALTER TABLE … DROP FEATURE."


def check_readable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Check that rowmerge supports everything that a reader of the table must support.

    Args:
        table: The name of the table, for the error.
        protocol: The protocol of the version that is read.
        metadata: The metadata of that version.

    Raises:
        UnsupportedTableFeature: rowmerge does not support the table's reader version, a reader feature, the data file format, a type
            or the column mapping mode.
    """
    unsupported = partial(UnsupportedTableFeature, table, action="read")
    if protocol.min_reader > _READER_VERSION_WITH_FEATURES:
        raise unsupported(f"reader version {protocol.min_reader}", advice=_ANOTHER_ENGINE)
    unsupported_features = sorted((protocol.reader_features or frozenset()) - READABLE_FEATURES)
    if unsupported_features:
        raise unsupported(unsupported_features[0], advice=_UPGRADE)
    if metadata.provider != "parquet":
        raise unsupported(f"data files of format {metadata.provider}", advice=_ANOTHER_ENGINE)
    try:
        schema = metadata.schema
    except UnknownType as error:
        raise unsupported(str(error), advice=_ANOTHER_ENGINE) from error
    # A column can have this type although the protocol does not list the feature.
    if any(field.type == Primitive("variant") for field in all_fields(schema)):
        raise unsupported("variantType", advice=_ANOTHER_ENGINE)
    if metadata.mapping_mode != "none":
        _check_mapping(table, metadata)


def check_writable(table: str, protocol: Protocol, metadata: Metadata, *, action: str = "write to") -> None:
    """Check that rowmerge supports everything that a reader and a writer of the table must support.

    Args:
        table: The name of the table, for the error.
        protocol: The protocol of the version that the commit changes.
        metadata: The metadata of that version.
        action: What the statement does to the table, as a verb phrase for the error.

    Raises:
        UnsupportedTableFeature: The table requires a version, a feature or a type that rowmerge does not support. Some features
            raise the error only if the table uses them (`_ADVICE_IF_USED`).
    """
    check_readable(table, protocol, metadata)
    if protocol.min_writer > _WRITER_VERSION_WITH_FEATURES:
        raise UnsupportedTableFeature(table, f"writer version {protocol.min_writer}", action=action, advice=_ANOTHER_ENGINE)
    for feature in sorted(protocol.features - WRITABLE_FEATURES):
        advice = _feature_advice(feature, metadata)
        if advice is not None:
            raise UnsupportedTableFeature(table, feature, action=action, advice=advice)
    for field in all_fields(metadata.schema):
        # Parquet files cannot store columns of this type.
        if field.type == Primitive("void"):
            raise UnsupportedTableFeature(table, "void", action=action, advice=f"Cast the column {field.name}, or remove it.")


def _feature_advice(feature: str, metadata: Metadata) -> str | None:
    """Return advice for an unsupported writer feature of a table, or None if the table does not use the feature."""
    if feature in _ADVICE_IF_USED:
        return _ADVICE_IF_USED[feature](metadata)
    return f"With it, {UNSUPPORTED_FEATURES[feature]}. {_UPGRADE}" if feature in UNSUPPORTED_FEATURES else _UPGRADE


def _check_mapping(table: str, metadata: Metadata) -> None:
    """Raise UnsupportedTableFeature for an unknown column mapping mode, and for a field without an id or a physical name."""
    mode = metadata.mapping_mode
    if mode not in ("name", "id"):
        raise UnsupportedTableFeature(table, f"{MAPPING_MODE} = {mode}", action="read", advice=_ANOTHER_ENGINE)
    for field in named_fields(metadata.schema):
        if not isinstance(field.metadata.get(PHYSICAL_NAME), str) or not isinstance(field.metadata.get(ID), int):
            advice = f"The field {field.name} has no {PHYSICAL_NAME} or {ID}. Restore an older version in the engine that wrote this one."
            raise UnsupportedTableFeature(table, "columnMapping", action="read", advice=advice)


def is_enabled(protocol: Protocol, metadata: Metadata, switch: str) -> bool:
    """Return whether a table uses a feature: its protocol supports the feature, and the feature's property is true.

    Args:
        protocol: The protocol of the table.
        metadata: The metadata of the table.
        switch: The property that enables the feature, for example `delta.enableDeletionVectors`.
    """
    return protocol.supports(_FEATURES_OF_SWITCHES[switch]) and is_true(metadata.configuration, switch)


def writes_v2_checkpoints(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether `delta.checkpointPolicy` selects V2 checkpoints, and the protocol allows them.

    Args:
        protocol: The protocol of the table.
        metadata: The metadata of the table.

    Raises:
        ConfigurationError: The property is neither classic nor v2.
    """
    return checkpoint_policy(metadata.configuration) == "v2" and protocol.supports("v2Checkpoint")


def _property_advice(name: str, metadata: Metadata) -> str | None:
    """Return advice if a property is true, or None if it is not."""
    return f"Disable it first: ALTER TABLE … SET TBLPROPERTIES ('{name}' = 'false')." if is_true(metadata.configuration, name) else None


def _identity_column_advice(metadata: Metadata) -> str | None:
    """Return advice for the first identity column, or None if there is none."""
    names = (field.name for field in all_fields(metadata.schema) if any(key.startswith("delta.identity.") for key in field.metadata))
    advice = "Write with an engine that supports it, or copy the rows into a table without identity columns."
    return next((f"The column {name} is an identity column. {advice}" for name in names), None)


def _nested_invariant_advice(metadata: Metadata) -> str | None:
    """Return advice for the first invariant inside an array or a map, or None if there is none. `shape.py` reads all other invariants."""
    collections = (field.type for field in all_fields(metadata.schema) if isinstance(field.type, Array | Map))
    names = (field.name for collection in collections for field in all_fields(collection) if INVARIANT in field.metadata)
    advice = "Copy the rows into a table without the invariant."
    return next((f"The field {name} inside an array or a map has an invariant. {advice}" for name in names), None)


_ADVICE_IF_USED: dict[str, Callable[[Metadata], str | None]] = {
    "invariants": _nested_invariant_advice,
    "identityColumns": _identity_column_advice,
    "icebergCompatV1": partial(_property_advice, "delta.enableIcebergCompatV1"),
    "icebergCompatV2": partial(_property_advice, "delta.enableIcebergCompatV2"),
}
"""Unsupported features that raise an error only if the table uses them.

Each function returns advice for the error, or None if the table does not use the feature.
"""


def required_protocol(table: str, protocol: Protocol, metadata: Metadata, properties: Mapping[str, str], *, action: str) -> Protocol:
    """Return the protocol, raised only as far as the new metadata and the properties of a statement require.

    Args:
        table: The name of the table, for errors.
        protocol: The protocol before the statement.
        metadata: The metadata after the statement.
        properties: The properties in the statement, which can request features and protocol versions.
        action: What the statement does to the table, as a verb phrase for errors.

    Raises:
        PlanError: The change data feed is enabled, and a column has one of the names in CHANGE_COLUMNS.
        ConfigurationError: A property has an invalid value.
        UnsupportedTableFeature: The new table would need a feature, a version or a type that rowmerge does not support.
    """
    features = _required_features(table, protocol, metadata, properties)
    new_protocol = _with_requested_versions(protocol, properties).with_features(features)
    _check_definition(table, new_protocol, metadata, action)
    return new_protocol


def _required_features(table: str, protocol: Protocol, metadata: Metadata, properties: Mapping[str, str]) -> set[str]:
    """Return the features that the metadata uses or the properties request, and the features on which those depend."""
    features = {*_property_features(metadata.configuration), *_column_features(metadata.schema), *_requested_features(table, properties)}
    if protocol.supports("typeWidening-preview"):
        # Readers that support only the preview could not read a table that also has the stable feature.
        features.discard("typeWidening")
    if "rowTracking" in features:
        # A domain stores the highest row id.
        features.add("domainMetadata")
    return features


def _check_definition(table: str, protocol: Protocol, metadata: Metadata, action: str) -> None:
    """Raise an error if a table definition needs an unsupported feature, or has invalid columns for change data or statistics."""
    _check_manifests(metadata)
    if is_enabled(protocol, metadata, CHANGE_DATA_FEED):
        _check_change_columns(table, metadata.schema)
    check_writable(table, protocol, metadata, action=action)
    # This raises ConfigurationError for an invalid `delta.dataSkippingStatsColumns`, which the first write would raise otherwise.
    indexed_leaves(metadata.schema, metadata.partition_columns, metadata.configuration)


def _check_manifests(metadata: Metadata) -> None:
    """Raise ConfigurationError if symlink manifests are enabled together with deletion vectors or with column mapping.

    The error names both properties.
    """
    properties = metadata.configuration
    if not is_true(properties, SYMLINK_MANIFESTS):
        return
    if WRITE_MODE.value(properties) is WriteMode.MERGE_ON_READ:
        problem, advice = f"{WRITE_MODE.name} = merge-on-read", f"Set {WRITE_MODE.name} to copy-on-write, and {DELETION_VECTORS} to false"
    elif is_true(properties, DELETION_VECTORS):
        problem, advice = f"{DELETION_VECTORS} = true", f"Set {DELETION_VECTORS} to false in the same statement"
    elif metadata.mapping_mode != "none":
        problem, advice = f"{MAPPING_MODE} = {metadata.mapping_mode}", f"Remove {SYMLINK_MANIFESTS}"
    else:
        return
    reason = "Engines that read symlink manifests support neither deletion vectors nor column mapping"
    raise ConfigurationError(f"{SYMLINK_MANIFESTS} = true excludes {problem}. {reason}. {advice}.")


def _property_features(configuration: Mapping[str, str]) -> Iterator[str]:
    """Yield the features that the table's properties use."""
    for name, value in configuration.items():
        if name in _FEATURES_OF_SWITCHES and value.strip().lower() == "true":
            yield _FEATURES_OF_SWITCHES[name]
        if name.lower().startswith(CONSTRAINT_PREFIX):
            yield "checkConstraints"
        if name == MAPPING_MODE and value.strip().lower() != "none":
            yield "columnMapping"
    if configuration.get(CHECKPOINT_POLICY.name, "").strip().lower() == "v2":
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
    """Yield the feature names from properties of the form `delta.feature.<name>` = supported (or enabled).

    Raises ConfigurationError for any other value, and UnsupportedTableFeature for an unsupported feature.
    """
    for name, value in properties.items():
        if not name.startswith(FEATURE_PREFIX):
            continue
        if value.strip().lower() not in ("supported", "enabled"):
            raise ConfigurationError(f"The table property {name} is {value!r}. Set it to supported, or remove it.")
        feature = name[len(FEATURE_PREFIX) :]
        if feature not in WRITABLE_FEATURES:
            raise UnsupportedTableFeature(table, feature, action="create", advice=f"Remove the table property {name}.")
        yield feature


def _check_change_columns(table: str, schema: Struct) -> None:
    """Raise PlanError if a column has one of the names in CHANGE_COLUMNS."""
    for name in CHANGE_COLUMNS:
        if field := schema.find(name):
            advice = f"Rename the column, or set {CHANGE_DATA_FEED} to false."
            raise PlanError(f"The change rows of {table} have a column {field.name}, so the table cannot have this column. {advice}")


def _with_requested_versions(protocol: Protocol, properties: Mapping[str, str]) -> Protocol:
    """Return the protocol, raised to `delta.minReaderVersion` and `delta.minWriterVersion`.

    The new protocol lists its features if its versions have such lists. Raises ConfigurationError if a property is not a valid version.
    """
    reader = max(protocol.min_reader, _requested_version(properties, MIN_READER, highest=_READER_VERSION_WITH_FEATURES))
    writer = max(protocol.min_writer, _requested_version(properties, MIN_WRITER, highest=_WRITER_VERSION_WITH_FEATURES))
    if reader == protocol.min_reader and writer == protocol.min_writer:
        return protocol
    # Each feature of readers is also in the list of the writers, which only writer version 7 has.
    if reader == _READER_VERSION_WITH_FEATURES and writer < _WRITER_VERSION_WITH_FEATURES:
        raise ConfigurationError(f"{MIN_READER} = 3 requires {MIN_WRITER} = 7. Set both, or neither.")
    if writer < _WRITER_VERSION_WITH_FEATURES:
        return Protocol(reader, writer)
    # The versions before the upgrade imply features. The new protocol must list them.
    reader_features = (protocol.reader_features or frozenset()) if reader == _READER_VERSION_WITH_FEATURES else None
    return Protocol(reader, _WRITER_VERSION_WITH_FEATURES, reader_features, protocol.features)


def _requested_version(properties: Mapping[str, str], name: str, *, highest: int) -> int:
    """Return the protocol version in a property, or 1 if it is not set. Raises ConfigurationError unless it is from 1 to `highest`."""
    value = properties.get(name, "1")
    if not (value.strip().isdecimal() and 1 <= int(value) <= highest):
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a version from 1 to {highest}, or remove it.")
    return int(value)
