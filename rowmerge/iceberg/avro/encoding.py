"""Records as Avro's bytes (Avro spec, Binary Encoding), by functions that are put together once for a schema.

fastavro looks at the schema again for each value, and in each union for the branch that a value fits: for an entry of a manifest, which has
two hundred values where a table has 16 columns, that takes ten times as long. A file that leaves a table has its manifest written again,
with twenty thousand entries or so. fastavro takes 160 µs for an entry, and these functions a fifth of it.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any

import fastavro

Put = Callable[[bytes], object]
Encode = Callable[[Any, Put], object]
"""Gives the bytes of a value, part by part."""

_KEPT = 100_000


class _Numbers(dict[int, bytes]):
    """The bytes of numbers, zig-zag and seven bits a byte; those of the first ones are kept, for the same come again and again."""

    def __missing__(self, number: int) -> bytes:
        if not -(1 << 63) <= number < 1 << 63:
            raise OverflowError(f"{number} is no long")
        left, encoded = (number << 1) ^ (number >> 63), bytearray()
        while left > 127:
            encoded.append(left & 127 | 128)
            left >>= 7
        encoded.append(left)
        if len(self) < _KEPT:
            self[number] = bytes(encoded)
        return bytes(encoded)


_numbers = _Numbers()


def encoder_of(schema: Any) -> Encode:
    """What encodes values of a type: as fastavro does, but dicts for arrays of records of a key and a value, and dates, times and uuids as
    they are stored. It raises TypeError, ValueError, OverflowError or struct.error for what is no value of the type.
    """
    if isinstance(schema, list):
        return _optional(encoder_of(schema[1])) if schema[:1] == ["null"] and len(schema) == 2 else _by_fastavro(schema)
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
        return _by_fastavro(schema)
    match schema["type"] if isinstance(schema, dict) else schema:
        case "null":
            return lambda value, put: None
        case "boolean":
            return lambda value, put: put(b"\1" if value else b"\0")
        case "int" | "long":
            return lambda value, put: put(_numbers[value])
        case "float":
            return lambda value, put: put(struct.pack("<f", value))
        case "double":
            return lambda value, put: put(struct.pack("<d", value))
        case "bytes":
            return _octets
        case "string":
            return lambda value, put: _octets(value.encode(), put)
        case "fixed":
            return _fixed(schema["size"])
        case "record":
            return _record([(field["name"], encoder_of(field["type"])) for field in schema["fields"]])
        case "array":
            return _array(schema["items"])
    return _by_fastavro(schema)


def _octets(value: bytes, put: Put) -> None:
    put(_numbers[len(value)])
    put(value)


def _fixed(size: int) -> Encode:
    def encode(value: bytes, put: Put) -> None:
        if len(value) != size:
            raise ValueError(f"{len(value)} bytes are no {size}")
        put(value)

    return encode


def _optional(branch: Encode) -> Encode:
    def encode(value: Any, put: Put) -> None:
        if value is None:
            put(b"\0")
        else:
            put(b"\2")
            branch(value, put)

    return encode


def _record(fields: list[tuple[str, Encode]]) -> Encode:
    def encode(value: Mapping[str, Any], put: Put) -> None:
        for name, each in fields:
            each(value.get(name), put)

    return encode


def _array(items: Any) -> Encode:
    fields = items.get("fields", ()) if isinstance(items, dict) else ()
    if [field["name"] for field in fields] == ["key", "value"]:
        return _pairs(*(encoder_of(field["type"]) for field in fields))
    item = encoder_of(items)

    def encode(value: Any, put: Put) -> None:
        if value:
            put(_numbers[len(value)])
            for each in value:
                item(each, put)
        put(b"\0")

    return encode


def _pairs(key: Encode, value: Encode) -> Encode:
    def encode(pairs: Mapping[Any, Any], put: Put) -> None:
        if pairs:
            put(_numbers[len(pairs)])
            for each, held in pairs.items():
                key(each, put)
                value(held, put)
        put(b"\0")

    return encode


def _by_fastavro(schema: Any) -> Encode:
    parsed = fastavro.parse_schema(schema)

    def encode(value: Any, put: Put) -> None:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        put(stream.getvalue())

    return encode
