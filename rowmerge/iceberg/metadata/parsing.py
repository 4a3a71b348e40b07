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

NEWEST_FORMAT = 3
"""The highest format version that is read and written."""
_NO_METADATA = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, ValidationError)
"""What pyiceberg raises when metadata is not what the specification says."""
_ELSEWHERE = "Read it in an engine that knows it."


def check_format_version(table: str, version: int, newest: int) -> None:
    """Raise UnsupportedTableFeature if a format version is above the highest that a catalog can keep."""
    if version > newest:
        advice = f"Its catalog keeps tables of format version {newest} and below: copy it into one, or keep the table in a folder."
        raise UnsupportedTableFeature(table, f"format-version {version}", action="write", advice=advice)


def parse_metadata(data: bytes, path: str, table: str) -> TableMetadata:
    """Parse the bytes of a metadata file, which may be compressed.

    Raises CorruptLog, and UnsupportedTableFeature for a format version above 3 or a feature that cannot be read.
    """
    plain = _plain(data, path)
    content = parse_object(plain, path)
    version = content.get("format-version")
    if isinstance(version, int) and version > NEWEST_FORMAT:
        raise UnsupportedTableFeature(table, f"format-version {version}", action="read", advice=_ELSEWHERE)
    if (feature := encryption(content)) is not None:
        raise UnsupportedTableFeature(table, feature, action="read", advice=_ELSEWHERE)
    try:
        check_required_fields(content)
        metadata = TableMetadataUtil.parse_raw(plain.decode())
        check_metadata(metadata)
    except _NO_METADATA as error:
        if (feature := unread_feature(content)) is not None:
            raise UnsupportedTableFeature(table, feature, action="read", advice=_ELSEWHERE) from error
        raise CorruptLog(path, f"it is no table metadata ({_shortened(error)})") from error
    return metadata


def _plain(data: bytes, path: str) -> bytes:
    try:
        if data[:2] == b"\x1f\x8b":
            return gzip.decompress(data)
        if data[:4] == b"\x28\xb5\x2f\xfd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise CorruptLog(path, f"it cannot be decompressed ({error})") from error
    return data


def _shortened(error: Exception) -> str:
    """The lines of an error, of which pydantic writes one for each field, in one."""
    text = "; ".join(line.strip() for line in str(error).splitlines() if "errors.pydantic.dev" not in line)
    return text if len(text) <= 300 else f"{text[:300]}…"


_TYPES = ("variant", "geometry", "geography")


def encryption(content: Mapping[str, Any]) -> str | None:
    """The feature, when the table's files are encrypted."""
    return "encryption" if content.get("encryption-keys") else None


def unread_feature(content: Mapping[str, Any]) -> str | None:
    """The first feature for which metadata cannot be parsed, as far as it can be told."""
    for schema in _objects(content, "schemas"):
        for column, name in _types(schema, ""):
            if name.startswith(_TYPES):
                return f"type {name} of the column {column}"
    parts = (part for name in ("partition-specs", "sort-orders") for spec in _objects(content, name) for part in _objects(spec, "fields"))
    sources = ((part, part.get("source-ids")) for part in parts)
    return next(
        (f"the transform {part.get('transform')} of several columns" for part, ids in sources if isinstance(ids, list) and len(ids) > 1),
        None,
    )


def _objects(value: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """The objects in a list, which may be anything in metadata that cannot be parsed."""
    items = value.get(key)
    return (item for item in items if isinstance(item, Mapping)) if isinstance(items, list) else iter(())


def _types(type_: Any, path: str) -> Iterator[tuple[str, str]]:
    """The names of types at any depth, with the paths of their columns."""
    if isinstance(type_, str):
        yield path, type_
    elif isinstance(type_, Mapping):
        for field in _objects(type_, "fields"):
            name = str(field.get("name"))
            yield from _types(field.get("type"), f"{path}.{name}" if path else name)
        for part in ("element", "key", "value"):
            yield from _types(type_.get(part), f"{path}.{part}")
