"""Which table features are honoured: everything else is refused by its name, before anything is read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rowmerge.delta.metadata.actions import Metadata, Protocol
from rowmerge.delta.metadata.column_mapping import ID, MODE, PHYSICAL_NAME
from rowmerge.delta.metadata.properties import CHANGE_DATA_FEED, is_true
from rowmerge.errors import UnsupportedTableFeature
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Primitive, Struct, UnknownType

READABLE = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)

HONOURED = READABLE | frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "domainMetadata",
        "generatedColumns",
        "inCommitTimestamp",
        "rowTracking",
    }
)
"""Writer features that every commit honours. `checkpointProtection` restricts cleanups of the log (`log_cleanup.py`)."""

_ANOTHER_ENGINE = "Read it with an engine that supports it."
_UPGRADE = "Use an engine that supports it, or drop the feature there with ALTER TABLE … DROP FEATURE."


def check_readable(table: str, protocol: Protocol, metadata: Metadata) -> None:
    """Raises UnsupportedTableFeature when reading the table needs what is not honoured."""
    if protocol.min_reader > 3:
        raise UnsupportedTableFeature(table, f"reader version {protocol.min_reader}", action="read", advice=_ANOTHER_ENGINE)
    for feature in sorted((protocol.reader_features or frozenset()) - READABLE):
        raise UnsupportedTableFeature(table, feature, action="read", advice=_UPGRADE)
    if metadata.provider != "parquet":
        raise UnsupportedTableFeature(table, f"data files of format {metadata.provider}", action="read", advice=_ANOTHER_ENGINE)
    try:
        schema = metadata.schema
    except UnknownType as error:
        raise UnsupportedTableFeature(table, str(error), action="read", advice=_ANOTHER_ENGINE) from error
    for field in fields_of(schema):
        if field.type == Primitive("variant"):
            raise UnsupportedTableFeature(table, "variantType", action="read", advice=_ANOTHER_ENGINE)
    if metadata.mapping_mode != "none":
        _check_mapping(table, metadata)


def check_writable(table: str, protocol: Protocol, metadata: Metadata, *, action: str = "write to") -> None:
    """Raises UnsupportedTableFeature when a commit would have to honour what is not.

    A feature that the protocol supports and the table does not use is no reason to refuse.
    """
    check_readable(table, protocol, metadata)
    if protocol.min_writer > 7:
        raise UnsupportedTableFeature(table, f"writer version {protocol.min_writer}", action=action, advice=_ANOTHER_ENGINE)
    for feature in sorted(protocol.features - HONOURED):
        if feature not in _USE:
            raise UnsupportedTableFeature(table, feature, action=action, advice=_UPGRADE)
        if advice := _USE[feature](metadata):
            raise UnsupportedTableFeature(table, feature, action=action, advice=advice)
    for field in fields_of(metadata.schema):
        if field.type == Primitive("void"):
            advice = f"Give the column {field.name} a type, or leave it out."
            raise UnsupportedTableFeature(table, "void", action=action, advice=advice)


def _check_mapping(table: str, metadata: Metadata) -> None:
    mode = metadata.mapping_mode
    if mode not in ("name", "id"):
        raise UnsupportedTableFeature(table, f"{MODE} = {mode}", action="read", advice=_ANOTHER_ENGINE)
    for field in fields_of(metadata.schema, named=True):
        if not isinstance(field.metadata.get(PHYSICAL_NAME), str) or not isinstance(field.metadata.get(ID), int):
            advice = f"The field {field.name} lacks {PHYSICAL_NAME} or {ID}: restore an older version in the engine that wrote this one."
            raise UnsupportedTableFeature(table, "columnMapping", action="read", advice=advice)


def fields_of(type_: DataType, *, named: bool = False) -> Iterator[Field]:
    """All fields of a type, nested ones too. Elements, keys and values count as fields, but not for `named`."""
    match type_:
        case Struct(fields):
            for field in fields:
                yield field
                yield from fields_of(field.type, named=named)
        case Array(element, _):
            yield from fields_of(element if named else Struct((Field("element", element),)), named=named)
        case Map(key, value, _) if named:
            yield from fields_of(key, named=True)
            yield from fields_of(value, named=True)
        case Map(key, value, _):
            yield from fields_of(Struct((Field("key", key), Field("value", value))))


def is_on(metadata: Metadata, name: str) -> bool:
    """Whether a property is set to true."""
    return is_true(metadata.configuration, name)


def keeps_change_rows(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether commits must write the rows that they change (PROTOCOL.md, Writer Requirements for AddCDCFile)."""
    return protocol.supports("changeDataFeed") and is_on(metadata, CHANGE_DATA_FEED)


def _property(name: str) -> Callable[[Metadata], str]:
    def use(metadata: Metadata) -> str:
        return f"Unset it first: ALTER TABLE … SET TBLPROPERTIES ('{name}' = 'false')." if is_on(metadata, name) else ""

    return use


def _column(keys: tuple[str, ...], what: str) -> Callable[[Metadata], str]:
    def use(metadata: Metadata) -> str:
        for field in fields_of(metadata.schema):
            if any(name == key or (key.endswith(".") and name.startswith(key)) for name in field.metadata for key in keys):
                return f"The column {field.name} has {what}: write with an engine that supports it, or copy the rows into a table without."
        return ""

    return use


def _invariants(metadata: Metadata) -> str:
    """Those of columns and fields of structs are kept; inside arrays and maps there is no row to hold them against."""
    for name in _in_collections(metadata.schema):
        return f"The field {name} inside an array or a map has an invariant: copy the rows into a table without."
    return ""


def _in_collections(type_: DataType) -> Iterator[str]:
    match type_:
        case Struct(fields):
            for field in fields:
                yield from _in_collections(field.type)
        case Array() | Map():
            yield from (field.name for field in fields_of(type_) if "delta.invariants" in field.metadata)


_USE: dict[str, Callable[[Metadata], str]] = {
    "invariants": _invariants,
    "identityColumns": _column(("delta.identity.",), "identity values"),
    "icebergCompatV1": _property("delta.enableIcebergCompatV1"),
    "icebergCompatV2": _property("delta.enableIcebergCompatV2"),
}
"""Features that matter only where a table uses them: what to do about it, or nothing."""
