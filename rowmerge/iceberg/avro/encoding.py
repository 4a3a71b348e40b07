"""Encode records as Avro bytes (Avro spec, Binary Encoding), with functions that are composed once per schema.

fastavro interprets the schema again for each value, and searches each union for the branch that fits. A manifest entry with the metrics of
16 columns has two hundred values. Removing a file from a table rewrites its manifest, which may contain twenty thousand entries.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import fastavro

from rowmerge.iceberg.avro.maps import MapView

Write = Callable[[bytes], object]
Encode = Callable[[Any, Write], object]
"""A function that encodes a value, and passes its bytes to a `Write` function in one or more calls."""

_MAX_CACHED_LONGS = 100_000


class _EncodedLongs(dict[int, bytes]):
    """A cache of encoded longs. Manifests repeat the same numbers, so the cache keeps the first ones and never evicts them."""

    def __missing__(self, number: int) -> bytes:
        """Encode a long as a zig-zag varint: seven bits per byte, the lowest first (Avro spec, Binary Encoding). Add it to the cache."""
        if not -(1 << 63) <= number < 1 << 63:
            raise OverflowError(f"{number} is no long")
        zigzag = (number << 1) ^ (number >> 63)  # 0, -1, 1, -2, … become 0, 1, 2, 3, …
        encoded = bytearray()
        while zigzag > 127:
            encoded.append(zigzag & 127 | 128)  # the highest bit: another byte follows
            zigzag >>= 7
        encoded.append(zigzag)
        if len(self) < _MAX_CACHED_LONGS:
            self[number] = bytes(encoded)
        return bytes(encoded)


_encoded_longs = _EncodedLongs()


def is_key_value_record(schema: Any) -> bool:
    """Return whether a schema is that of a record with the fields `key` and `value`.

    Iceberg stores a map as an array of such records (Iceberg spec, Appendix A).
    """
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    return [field["name"] for field in fields] == ["key", "value"]


def build_encoder(schema: Any) -> Encode:
    """Return the function that encodes values of a schema.

    The function accepts the same values as fastavro, with two exceptions. Dates, times and uuids must have the form in which Avro stores
    them. An array of key-value records must be a mapping. It raises TypeError, ValueError, OverflowError or struct.error for a value of
    another type.
    """
    match schema:  # the special cases before the primitive types, because a decimal has a primitive `type`, too
        case ["null", branch]:
            return partial(_encode_optional, build_encoder(branch))
        case {"logicalType": "decimal"}:
            return partial(_encode_with_fastavro, fastavro.parse_schema(schema))
        case {"type": "fixed", "size": size}:
            return partial(_encode_fixed, size)
        case {"type": "record", "fields": fields}:
            return partial(_encode_record, [(field["name"], build_encoder(field["type"])) for field in fields])
        case {"type": "array", "items": items} if is_key_value_record(items):
            encode_key, encode_value = (build_encoder(field["type"]) for field in items["fields"])
            return partial(_encode_map, encode_key, encode_value, items["fields"][1]["type"] == "bytes")
        case {"type": "array", "items": items}:
            return partial(_encode_array, build_encoder(items))
        case {"type": str(name)} | str(name) if name in _PRIMITIVE_ENCODERS:
            return _PRIMITIVE_ENCODERS[name]
    return partial(_encode_with_fastavro, fastavro.parse_schema(schema))


def _encode_long(value: int, write: Write) -> None:
    write(_encoded_longs[value])


def _encode_bytes(value: bytes, write: Write) -> None:
    write(_encoded_longs[len(value)])
    write(value)


_PRIMITIVE_ENCODERS: Mapping[str, Encode] = {
    "null": lambda value, write: None,
    "boolean": lambda value, write: write(b"\1" if value else b"\0"),
    "int": _encode_long,
    "long": _encode_long,
    "float": lambda value, write: write(struct.pack("<f", value)),
    "double": lambda value, write: write(struct.pack("<d", value)),
    "bytes": _encode_bytes,
    "string": lambda value, write: _encode_bytes(value.encode(), write),
}


def _encode_fixed(size: int, value: bytes, write: Write) -> None:
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes instead of {size}")
    write(value)


def _encode_optional(encode_branch: Encode, value: Any, write: Write) -> None:
    """Encode a value of a union of null (branch 0) and another type (branch 1, whose zig-zag number is 2)."""
    if value is None:
        write(b"\0")
    else:
        write(b"\2")
        encode_branch(value, write)


def _encode_record(fields: Sequence[tuple[str, Encode]], record: Mapping[str, Any], write: Write) -> None:
    for name, encode_field in fields:
        encode_field(record.get(name), write)


def _encode_array(encode_item: Encode, items: Any, write: Write) -> None:
    """Encode an array: the number of items, the items, and a zero that ends the array."""
    if items:
        write(_encoded_longs[len(items)])
        for item in items:
            encode_item(item, write)
    write(b"\0")


def _encode_map(encode_key: Encode, encode_value: Encode, has_bytes: bool, pairs: Mapping[Any, Any], write: Write) -> None:
    """Encode a map as an array of key-value records. A map that was decoded from an array of the same types has its bytes already."""
    if isinstance(pairs, MapView) and pairs.column.has_bytes == has_bytes and (encoded := pairs.avro_bytes) is not None:
        write(encoded)
        return
    if pairs:
        write(_encoded_longs[len(pairs)])
        for key, value in pairs.items():
            encode_key(key, write)
            encode_value(value, write)
    write(b"\0")


def _encode_with_fastavro(parsed_schema: Any, value: Any, write: Write) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed_schema, value)
    write(stream.getvalue())
