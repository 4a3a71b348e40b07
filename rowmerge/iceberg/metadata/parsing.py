"""Parse metadata files of Iceberg tables, and reject what cannot be read or written."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import zstandard
from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.metadata.checks import check_metadata, check_required_fields
from rowmerge.table.metadata.json_objects import parse_object
from rowmerge.table.metadata.schema import below

NEWEST_FORMAT = 3
"""The highest format version that is read and written."""
_INVALID_METADATA_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, ValidationError)
"""What pyiceberg raises when metadata is not what the specification says."""
_ADVICE = "Read it in an engine that knows it."
_UNREAD_TYPES = ("variant", "geometry", "geography")
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def check_format_version(table: str, version: int, newest: int) -> None:
    """Raise UnsupportedTableFeature if a format version is above the highest that a catalog can keep."""
    if version > newest:
        advice = f"Its catalog keeps tables of format version {newest} and below: copy it into one, or keep the table in a folder."
        raise UnsupportedTableFeature(table, f"format-version {version}", action="write", advice=advice)


def parse_metadata(data: bytes, path: str, table: str) -> TableMetadata:
    """Parse the bytes of a metadata file, which may be compressed.

    Raises CorruptLog, and UnsupportedTableFeature for a format version above 3 or a feature that cannot be read.
    """
    text = _decompress(data, path)
    content = parse_object(text, path)
    _check_table_features(content, table)
    try:
        check_required_fields(content)
        metadata = TableMetadataUtil.parse_raw(text.decode())
        check_metadata(metadata)
    except _INVALID_METADATA_ERRORS as error:
        unread_feature = next(_unread_features(content), None)
        if unread_feature is not None:
            raise UnsupportedTableFeature(table, unread_feature, action="read", advice=_ADVICE) from error
        raise CorruptLog(path, f"it is no table metadata ({_shorten(error)})") from error
    return metadata


def _check_table_features(content: Mapping[str, Any], table: str) -> None:
    version = content.get("format-version")
    if isinstance(version, int) and version > NEWEST_FORMAT:
        raise UnsupportedTableFeature(table, f"format-version {version}", action="read", advice=_ADVICE)
    if content.get("encryption-keys"):
        raise UnsupportedTableFeature(table, "encryption", action="read", advice=_ADVICE)


def _decompress(data: bytes, path: str) -> bytes:
    try:
        if data.startswith(_GZIP_MAGIC):
            return gzip.decompress(data)
        if data.startswith(_ZSTD_MAGIC):
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise CorruptLog(path, f"it cannot be decompressed ({error})") from error
    return data


def _shorten(error: Exception) -> str:
    """Return the text of an error in one line: pydantic writes a line for each field, and a link."""
    text = "; ".join(line.strip() for line in str(error).splitlines() if "errors.pydantic.dev" not in line)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _unread_features(content: Mapping[str, Any]) -> Iterator[str]:
    """Describe columns of types that pyiceberg or the engine cannot read, and transforms of several columns in specs and sort orders."""
    for schema in _objects(content, "schemas"):
        for column, type_name in _types(schema, ""):
            if type_name.startswith(_UNREAD_TYPES):
                yield f"type {type_name} of the column {column}"
    for spec in (*_objects(content, "partition-specs"), *_objects(content, "sort-orders")):
        for field in _objects(spec, "fields"):
            source_ids = field.get("source-ids")
            if isinstance(source_ids, list) and len(source_ids) > 1:
                yield f"the transform {field.get('transform')} of several columns"


def _objects(parent: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list. The value of `key` may be anything: the metadata is invalid."""
    items = parent.get(key)
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, Mapping))


def _types(type_: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each column and nested field, and the name of its type."""
    if isinstance(type_, str):
        yield path, type_
    elif isinstance(type_, Mapping):
        for field in _objects(type_, "fields"):
            yield from _types(field.get("type"), below(path, str(field.get("name"))))
        for key in ("element", "key", "value"):
            yield from _types(type_.get(key), f"{path}.{key}")
