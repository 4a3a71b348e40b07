"""Parse metadata files of Iceberg tables, and reject metadata that is invalid or has unsupported features.

This module adds checks that pyiceberg lacks: required fields are present, numbers are in range, and ids are unique.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import zstandard
from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DateType, IcebergType, StructType, TimestampNanoType, TimestampType

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.metadata.defaults import default_sql
from rowmerge.iceberg.metadata.locations import is_absolute
from rowmerge.iceberg.metadata.types import nested_fields
from rowmerge.table.metadata.json_objects import parse_object
from rowmerge.table.metadata.schema import nested_path

NEWEST_FORMAT = 3
"""The highest format version that rowmerge reads and writes."""
_INVALID_METADATA_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, ValidationError)
"""The errors that pyiceberg raises for metadata that violates the specification."""
_ADVICE = "Read it with an engine that supports it."
_UNREAD_TYPES = ("variant", "geometry", "geography")
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LONG_RANGE = range(-(2**63), 2**63)
_FIELD_IDS = range(1, 2**31)
_REQUIRED = (
    "table-uuid location last-sequence-number last-updated-ms last-column-id schemas current-schema-id partition-specs "
    "default-spec-id last-partition-id sort-orders default-sort-order-id".split()
)
"""The fields that the specification requires since format version 2. pyiceberg fills in some missing fields, even the table's UUID."""


def check_format_version(table: str, version: int, highest: int) -> None:
    """Check that a catalog supports a format version.

    Args:
        table: The name of the table in messages.
        version: The format version of the table.
        highest: The highest format version that the catalog supports.

    Raises:
        UnsupportedTableFeature: `version` is above `highest`.
    """
    if version > highest:
        advice = f"Its catalog supports format versions up to {highest}. Copy its rows into such a table, or use a table without a catalog."
        raise UnsupportedTableFeature(table, f"format-version {version}", action="write", advice=advice)


def parse_metadata(data: bytes, path: str, table: str) -> TableMetadata:
    """Parse and validate a metadata file ("Table Metadata" in the Iceberg specification).

    Args:
        data: The bytes of the file: JSON, which may be compressed with gzip or zstd.
        path: The path of the file in messages.
        table: The name of the table in messages.

    Raises:
        CorruptLog: The file does not contain valid table metadata.
        UnsupportedTableFeature: The metadata has a format version above 3, encryption, or an unsupported type or transform.
    """
    text = _decompress(data, path)
    content = parse_object(text, path)
    _check_table_features(content, table)
    try:
        _check_required_fields(content)
        metadata = TableMetadataUtil.parse_raw(text.decode())
        _check_metadata(metadata)
    except _INVALID_METADATA_ERRORS as error:
        raise _invalid_metadata_error(error, content, path, table) from error
    _check_partition_columns(metadata, table)
    return metadata


def _invalid_metadata_error(error: Exception, content: Mapping[str, Any], path: str, table: str) -> UnsupportedTableFeature | CorruptLog:
    """Return the exception for metadata that pyiceberg cannot parse: UnsupportedTableFeature or CorruptLog."""
    unread_feature = next(_unread_features(content), None)
    if unread_feature is not None:
        return UnsupportedTableFeature(table, unread_feature, action="read", advice=_ADVICE)
    return CorruptLog(path, f"it is not valid table metadata ({_shorten(error)})")


def _check_table_features(content: Mapping[str, Any], table: str) -> None:
    """Raise UnsupportedTableFeature for a format version above NEWEST_FORMAT, and for an encrypted table."""
    version = content.get("format-version")
    if isinstance(version, int) and version > NEWEST_FORMAT:
        raise UnsupportedTableFeature(table, f"format-version {version}", action="read", advice=_ADVICE)
    if content.get("encryption-keys"):
        raise UnsupportedTableFeature(table, "encryption", action="read", advice=_ADVICE)


def _check_partition_columns(metadata: TableMetadata, table: str) -> None:
    """Raise UnsupportedTableFeature if the type of an identity or bucket partition column was changed from date to timestamp.

    Manifests then contain partition values of both types. So the specification forbids this promotion ("Schema Evolution").
    """
    schema = metadata.schema()
    fields = (field for spec in metadata.specs().values() for field in spec.fields)
    for id_ in {field.source_id for field in fields if isinstance(field.transform, IdentityTransform | BucketTransform)}:
        name = schema.find_column_name(id_)
        if name is None or not isinstance(schema.find_type(id_), TimestampType | TimestampNanoType):
            continue
        if any(old.find_column_name(id_) is not None and isinstance(old.find_type(id_), DateType) for old in metadata.schemas):
            raise UnsupportedTableFeature(table, f"promotion of the partition column {name} from date", action="read", advice=_ADVICE)


def _decompress(data: bytes, path: str) -> bytes:
    """Return the content of a file, decompressed if its first bytes are those of gzip or zstd. Raises CorruptLog."""
    try:
        if data.startswith(_GZIP_MAGIC):
            return gzip.decompress(data)
        if data.startswith(_ZSTD_MAGIC):
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise CorruptLog(path, f"it cannot be decompressed ({error})") from error
    return data


def _check_required_fields(content: Mapping[str, Any]) -> None:
    """Raise ValueError if metadata of format version 2 or above lacks a required field."""
    missing_fields = [name for name in _REQUIRED if content.get(name) is None]
    if missing_fields and content.get("format-version") != 1:
        raise ValueError(f"it has no {missing_fields[0]}")


def _check_metadata(metadata: TableMetadata) -> None:
    """Check that numbers are in range, that ids are unique and known, and that each default has the type of its column.

    Raises ValueError. A value of a wrong Python type may raise another exception in _INVALID_METADATA_ERRORS.
    """
    for name, number in _numbers(metadata):
        if number is not None and number not in _LONG_RANGE:
            raise ValueError(f"{name} does not fit in 64 bits")
    _check_snapshots(metadata)
    _check_current_ids(metadata)
    for schema in metadata.schemas:
        _check_field_ids(schema.as_struct(), seen_ids=set())
        _check_defaults(schema)


def _numbers(metadata: TableMetadata) -> Iterator[tuple[str, int | None]]:
    """Yield the name and the value of each 64-bit number in the metadata."""
    yield "last-updated-ms", metadata.last_updated_ms
    yield "last-sequence-number", getattr(metadata, "last_sequence_number", None)  # Format version 1 does not have this field.
    for snapshot in metadata.snapshots:
        yield "snapshot-id", snapshot.snapshot_id
        yield "parent-snapshot-id", snapshot.parent_snapshot_id
        yield "sequence-number", snapshot.sequence_number
        yield "timestamp-ms", snapshot.timestamp_ms
    for entry in metadata.snapshot_log:
        yield "timestamp-ms of the snapshot log", entry.timestamp_ms


def _check_snapshots(metadata: TableMetadata) -> None:
    """Raise ValueError for a reference to an unknown snapshot, and for a manifest list without an absolute path."""
    snapshot_ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    for name, reference in metadata.refs.items():
        if reference.snapshot_id not in snapshot_ids:
            raise ValueError(f"the reference {name} refers to the snapshot {reference.snapshot_id}, which does not exist")
    for snapshot in metadata.snapshots:
        if not is_absolute(snapshot.manifest_list):
            raise ValueError(f"the manifest list {snapshot.manifest_list!r:.80} of the snapshot {snapshot.snapshot_id} is not absolute")


def _check_current_ids(metadata: TableMetadata) -> None:
    """Raise ValueError if the id of the current schema, spec or sort order is unknown."""
    getters = {"current-schema-id": metadata.schema, "default-spec-id": metadata.spec, "default-sort-order-id": metadata.sort_order}
    for name, get_current in getters.items():
        try:
            get_current()
        except StopIteration:  # pyiceberg looks up the id with next().
            raise ValueError(f"{name} names nothing") from None


def _check_field_ids(type_: IcebergType, seen_ids: set[int]) -> None:
    """Raise ValueError for a field id or field name that is used twice, at any depth. Add the field ids in the type to `seen_ids`."""
    if isinstance(type_, StructType):
        names = [field.name for field in type_.fields]
        if len(set(names)) < len(names):
            raise ValueError(f"a schema has two fields with the same name in {names!r:.80}")
    for field in nested_fields(type_):
        if field.field_id in seen_ids or field.field_id not in _FIELD_IDS:
            raise ValueError(f"a schema has a duplicate field id {field.field_id}, or one that is out of range")
        seen_ids.add(field.field_id)
        _check_field_ids(field.field_type, seen_ids)


def _check_defaults(schema: Schema) -> None:
    """Raise ValueError, or another exception of `default_sql`, for a default that does not have the type of its column."""
    for field in schema.fields:
        defaults = [default for default in (field.initial_default, field.write_default) if default is not None]
        for default in defaults:
            default_sql(default, field.field_type)


def _shorten(error: Exception) -> str:
    """Return the message of an error in one line of at most 300 characters, without the links that pydantic adds."""
    text = "; ".join(line.strip() for line in str(error).splitlines() if "errors.pydantic.dev" not in line)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _unread_features(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield a description of each column with an unsupported type, and of each partition or sort transform of several columns."""
    for column, type_name in chain.from_iterable(_types(schema, "") for schema in _objects(content, "schemas")):
        if type_name.startswith(_UNREAD_TYPES):
            yield f"type {type_name} of the column {column}"
    specs_and_orders = (*_objects(content, "partition-specs"), *_objects(content, "sort-orders"))
    for field in chain.from_iterable(_objects(spec_or_order, "fields") for spec_or_order in specs_and_orders):
        source_ids = field.get("source-ids")
        if isinstance(source_ids, list) and len(source_ids) > 1:
            yield f"the transform {field.get('transform')} of several columns"


def _objects(parent: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in the list under a key. Invalid metadata may have a value of any type there."""
    items = parent.get(key)
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, Mapping))


def _types(type_: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the type name of each column and nested field, from a type in JSON."""
    if isinstance(type_, str):
        yield path, type_
    elif isinstance(type_, Mapping):
        for field in _objects(type_, "fields"):
            yield from _types(field.get("type"), nested_path(path, str(field.get("name"))))
        for key in ("element", "key", "value"):
            yield from _types(type_.get(key), f"{path}.{key}")
