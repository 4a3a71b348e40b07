"""Parse metadata files of Iceberg tables, and reject what cannot be read or written."""

from __future__ import annotations

import gzip
import zlib

import zstandard
from pyiceberg.exceptions import ValidationError
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.metadata_checks import check_metadata, check_required_fields
from rowmerge.iceberg.unread_features import encryption, unread_feature
from rowmerge.table.metadata_json import parse_object

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
