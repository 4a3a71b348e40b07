"""Avro container files as Iceberg uses them: fields go by their ids, values stay as stored (Avro spec, Object Container Files).

fastavro makes Python dates of what is marked as such, which fails for years beyond 9999, and scales decimals in a context that threads
share; so the marks are taken out of the header before it reads the file.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import zstandard
from fastavro.schema import SchemaParseException

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.avro.blocks import UnknownType, blocks_of, decoded, many_at_once
from rowmerge.iceberg.avro.encoding import encoder_of
from rowmerge.table.metadata.json_objects import decode_json

_HEADER = {
    "type": "record",
    "name": "org.apache.avro.file.Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
_MAGIC = b"Obj\x01"
_BLOCK = 16_000
"""Bytes of the records in a block at least, before they are compressed: a large manifest has many, which are decoded side by side."""
_BROKEN = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    SchemaParseException,
    TypeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zlib.error,
    zstandard.ZstdError,
)
"""What fastavro and the codecs raise when the bytes are no Avro file, or not the one that the header says."""


@dataclass(frozen=True)
class AvroFile:
    """The records of a file, with dates, times, timestamps, decimals and uuids as stored; `schema`: as the file has it; `metadata`.

    Records are decoded as they are asked for, once, one by one or those of many blocks together: all of a large manifest's would be many
    times its size. What is broken in them is told then (CorruptLog). An array of records of a key and a value may be a dict.
    """

    records: Iterator[dict[str, Any]]
    schema: Mapping[str, Any]
    metadata: Mapping[str, str]


def read_avro(data: bytes, path: str, names: Mapping[int, str]) -> AvroFile:
    """A file's records, its fields called by `names` where these know the field's id. Raises CorruptLog."""
    try:
        stream = io.BytesIO(data)
        header = fastavro.schemaless_reader(stream, _HEADER, None)
        if not isinstance(header, dict) or header["magic"] != _MAGIC:
            raise CorruptLog(path, "it is no Avro file")
        schema = decode_json(header["meta"]["avro.schema"])
        stored = _as_stored(schema, names)
        metadata = {key: value.decode(errors="replace") for key, value in header["meta"].items()}
        reader: Iterator[Any] | None = _side_by_side(data, stream.tell(), stored, header)
        if reader is None:
            header["meta"]["avro.schema"] = json.dumps(stored).encode()
            plain = io.BytesIO()
            fastavro.schemaless_writer(plain, _HEADER, header)
            plain.write(data[stream.tell() :])
            plain.seek(0)
            reader = fastavro.reader(plain)
    except _BROKEN as error:
        raise _broken(path, error) from error
    return AvroFile(_records(reader, path), schema, metadata)


def _side_by_side(data: bytes, start: int, schema: Mapping[str, Any], header: Mapping[str, Any]) -> Iterator[dict[str, Any]] | None:
    """The records of many blocks; None for fastavro to read few ones, or what manifests do not have."""
    blocks = blocks_of(data, start, header["sync"])
    if not many_at_once(blocks):
        return None
    try:
        return decoded(data, blocks, header["meta"].get("avro.codec", b"null").decode(), schema)
    except UnknownType:
        return None


def _records(reader: Iterator[Any], path: str) -> Iterator[dict[str, Any]]:
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except _BROKEN as error:
            raise _broken(path, error) from error
        if isinstance(record, dict):
            yield record


def _broken(path: str, error: Exception) -> CorruptLog:
    return CorruptLog(path, f"it is no Avro file of its schema ({type(error).__name__}: {error})")


def write_avro(schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]) -> bytes:
    """A whole file, compressed with deflate. Dates, times, timestamps and uuids are given as they are stored."""
    described = {"avro.codec": "deflate", "avro.schema": json.dumps(schema), **metadata}
    sync = os.urandom(16)
    stream = io.BytesIO()
    header = {"magic": _MAGIC, "meta": {key: text.encode() for key, text in described.items()}, "sync": sync}
    fastavro.schemaless_writer(stream, _HEADER, header)
    encode, number = encoder_of(schema), encoder_of("long")
    block: list[bytes] = []
    begun, size = 0, 0
    for count, record in enumerate(records, 1):
        parts: list[bytes] = []
        encode(record, parts.append)
        block.append(b"".join(parts))
        size += len(block[-1])
        if size >= _BLOCK or count == len(records):
            deflate = zlib.compressobj(wbits=-15)
            data = deflate.compress(b"".join(block)) + deflate.flush()
            number(count - begun, stream.write)
            number(len(data), stream.write)
            stream.write(data + sync)
            block, begun, size = [], count, 0
    return stream.getvalue()


def _as_stored(schema: Any, names: Mapping[int, str]) -> Any:
    """The schema without logical types, and with its fields called by their ids."""
    if isinstance(schema, list):
        return [_as_stored(branch, names) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key != "logicalType"}
    for part in ("type", "items", "values"):
        if part in plain:
            plain[part] = _as_stored(plain[part], names)
    if "fields" in plain:
        plain["fields"] = [
            {**field, "name": names.get(field.get("field-id"), field["name"]), "type": _as_stored(field["type"], names)}
            for field in plain["fields"]
        ]
        for field in plain["fields"]:
            field.pop("default", None)
    return plain
