"""Read and write Avro container files of Iceberg (Avro spec, Object Container Files).

fastavro converts logical types to Python values. Its conversion of dates fails for years beyond 9999, and it scales decimals in a context
that threads share. So records are decoded with a schema without logical types.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import fastavro
import zstandard
from fastavro.schema import SchemaParseException

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.avro.blocks import UnknownType, decode_blocks, has_enough_blocks, parse_blocks
from rowmerge.iceberg.avro.encoding import Encode, build_encoder
from rowmerge.table.metadata.json_objects import decode_json

_HEADER_SCHEMA = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
_MAGIC = b"Obj\x01"
_SCHEMA_KEYS = ("type", "items", "values", "fields")
"""The keys of an Avro schema whose values are schemas, or lists of fields (in the key `fields`)."""
_MIN_BLOCK_BYTES = 16_000
"""The smallest size of a block before compression, in bytes. It gives large manifests the many blocks that `decode_blocks` needs."""
_PYTHON_ERRORS = (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RecursionError, TypeError, ValueError)
_DECODE_ERRORS = (*_PYTHON_ERRORS, SchemaParseException, lzma.LZMAError, struct.error, zlib.error, zstandard.ZstdError)
"""The errors that fastavro and the codecs raise if bytes are not an Avro file, or do not match the schema of their header."""

_encode_long = build_encoder("long")


@dataclass(frozen=True)
class AvroFile:
    """The records of a file, and the schema and key-value metadata of its header.

    Dates, times, timestamps, decimals and uuids have their physical values. An array of key-value records may be a mapping.

    `records` is lazy: all records of a large manifest would take many times as much memory as the file. The iterator raises CorruptLog for
    a record that cannot be decoded.
    """

    records: Iterator[dict[str, Any]]
    schema: Mapping[str, Any]
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class _Header:
    """The header of a file: its key-value metadata, the sync marker that ends each block, and the offset of the first block."""

    metadata: dict[str, bytes]
    sync_marker: bytes
    end: int

    @classmethod
    def parse(cls, data: bytes, path: str) -> _Header:
        stream = io.BytesIO(data)
        header = fastavro.schemaless_reader(stream, _HEADER_SCHEMA, None)
        if not isinstance(header, dict) or header["magic"] != _MAGIC:
            raise CorruptLog(path, "it is not an Avro file")
        return cls(header["meta"], header["sync"], stream.tell())


def read_avro(data: bytes, path: str, names: Mapping[int, str]) -> AvroFile:
    """Decode the bytes of an Avro file.

    Args:
        data: The bytes of the file.
        path: The path of the file in error messages.
        names: The names of fields in the decoded records, by field id. Other fields keep their names from the file.

    Raises:
        CorruptLog: The bytes are not an Avro file. Iterating over the records also raises this error if a record cannot be decoded.
    """
    try:
        header = _Header.parse(data, path)
        schema = decode_json(header.metadata["avro.schema"])
        records = _decode_records(data, header, _schema_for_decoding(schema, names))
    except _DECODE_ERRORS as error:
        raise _corrupt_log(path, error) from error
    metadata = {key: value.decode(errors="replace") for key, value in header.metadata.items()}
    return AvroFile(_checked_records(records, path), schema, metadata)


def _schema_for_decoding(schema: Any, names: Mapping[int, str]) -> Any:
    """Return an Avro schema for decoding: without logical types and defaults, and with the field names in `names`, by field id.

    Without logical types, fastavro returns physical values. Its conversion of dates beyond the year 9999 fails. A schema is a type name, a
    list of the branches of a union, or a dict. This function also converts each nested field and list of fields.
    """
    if isinstance(schema, list):
        return [_schema_for_decoding(branch_or_field, names) for branch_or_field in schema]
    if not isinstance(schema, dict):
        return schema
    physical: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SCHEMA_KEYS:
            physical[key] = _schema_for_decoding(value, names)
        elif key not in ("logicalType", "default"):
            physical[key] = value
    if schema.get("field-id") in names:
        physical["name"] = names[schema["field-id"]]
    return physical


def _decode_records(data: bytes, header: _Header, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Return an iterator over the records of a file. `decode_blocks` decodes files with many blocks, and fastavro decodes all others."""
    blocks = parse_blocks(data, header.end, header.sync_marker)
    if has_enough_blocks(blocks):
        codec = header.metadata.get("avro.codec", b"null").decode()
        with suppress(UnknownType):  # fastavro decodes the types and codecs that manifests do not have
            return decode_blocks(data, blocks, codec, schema)
    return _decode_with_fastavro(data, header, schema)


def _decode_with_fastavro(data: bytes, header: _Header, schema: Mapping[str, Any]) -> Iterator[Any]:
    """Return fastavro's iterator over the records of a file. fastavro takes the schema from the header, so the file gets a new header."""
    stream = io.BytesIO()
    _write_header(stream, {**header.metadata, "avro.schema": json.dumps(schema).encode()}, header.sync_marker)
    stream.write(data[header.end :])
    stream.seek(0)
    return fastavro.reader(stream)


def _checked_records(records: Iterator[Any], path: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a file. Raises CorruptLog if a record cannot be decoded."""
    try:
        yield from (record for record in records if isinstance(record, dict))
    except _DECODE_ERRORS as error:
        raise _corrupt_log(path, error) from error


def _corrupt_log(path: str, error: Exception) -> CorruptLog:
    return CorruptLog(path, f"it cannot be decoded as an Avro file with its schema ({type(error).__name__}: {error})")


def write_avro(schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of an Avro file with deflate compression.

    Args:
        schema: The Avro schema of the records.
        records: The records. Dates, times, timestamps and uuids have their physical values.
        metadata: Key-value metadata for the header, in addition to the schema and the codec.
    """
    header_metadata = {"avro.codec": "deflate", "avro.schema": json.dumps(schema), **metadata}
    sync_marker = os.urandom(16)
    stream = io.BytesIO()
    _write_header(stream, {key: value.encode() for key, value in header_metadata.items()}, sync_marker)
    for block_records in _encode_blocks(schema, records):
        _write_block(stream, block_records, sync_marker)
    return stream.getvalue()


def _encode_blocks(schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Iterator[list[bytes]]:
    """Yield the encoded records of each block. Only the last block may be smaller than `_MIN_BLOCK_BYTES`."""
    encode = build_encoder(schema)
    block: list[bytes] = []
    block_size = 0
    for record in records:
        encoded_record = _encode_record(encode, record)
        block.append(encoded_record)
        block_size += len(encoded_record)
        if block_size >= _MIN_BLOCK_BYTES:
            yield block
            block, block_size = [], 0
    if block:
        yield block


def _encode_record(encode: Encode, record: Mapping[str, Any]) -> bytes:
    encoded_values: list[bytes] = []
    encode(record, encoded_values.append)
    return b"".join(encoded_values)


def _write_header(stream: io.BytesIO, metadata: Mapping[str, bytes], sync_marker: bytes) -> None:
    fastavro.schemaless_writer(stream, _HEADER_SCHEMA, {"magic": _MAGIC, "meta": metadata, "sync": sync_marker})


def _write_block(stream: io.BytesIO, records: Sequence[bytes], sync_marker: bytes) -> None:
    """Write encoded records as one block: the number of records, the compressed size, the data, the sync marker."""
    deflate = zlib.compressobj(wbits=-15)
    data = deflate.compress(b"".join(records)) + deflate.flush()
    _encode_long(len(records), stream.write)
    _encode_long(len(data), stream.write)
    stream.write(data + sync_marker)
