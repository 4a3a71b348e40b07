"""Deletion vectors: which rows of a file are gone (PROTOCOL.md, Deletion Vectors and Deletion Vector Format)."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rowmerge.concurrency import run_concurrently
from rowmerge.delta.files.paths import absolute_path
from rowmerge.errors import CorruptLog
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.deleted_rows import FRAME, deserialize, framed, serialize, unframed
from rowmerge.table.snapshots.files import Positions

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: digit for digit, character in enumerate(_Z85)}
_VERSION = b"\x01"
_FILE_SIZE = 2 * 1024 * 1024
_UUID_LENGTH = 20
_CACHED = 32 * 1024 * 1024

_cache: Cache[bytes] = Cache(_CACHED)
"""Vectors, serialized, by the file and the offset: a vector that was written never changes, and the next statement asks for it again."""


@dataclass(frozen=True)
class VectorFiles:
    """Vectors that were just written: a descriptor for each data file's path, and the files that hold them, relative to the table."""

    descriptors: Mapping[str, Mapping[str, Any]]
    paths: tuple[str, ...]


def read_vector(storage: Storage, descriptor: Mapping[str, Any]) -> Positions:
    """The deleted rows that a descriptor stands for. Raises CorruptLog, StorageError."""
    size = descriptor["sizeInBytes"]
    if descriptor["storageType"] == "i":
        where = f"{storage.location}/_delta_log"
        try:
            return deserialize(z85_decode(descriptor["pathOrInlineDv"])[:size], where, descriptor["cardinality"])
        except ValueError as error:
            raise CorruptLog(where, f"an inline deletion vector is no Z85 text ({error})") from error
    where, offset = vector_path(storage.location, descriptor), descriptor["offset"] or 0
    if (known := _cache.get((where, offset))) is not None:
        return deserialize(known, where, descriptor["cardinality"])
    folder, _, name = where.rpartition("/")
    holder, path = (storage, where[len(storage.location) + 1 :]) if where.startswith(f"{storage.location}/") else (storage.at(folder), name)
    try:
        data = unframed(holder.get_range(path, offset, size + FRAME), size, where, offset)
    except FileNotFoundError as error:
        raise CorruptLog(where, "the deletion vector's file is missing") from error
    _cache.put((where, offset), data, len(data))
    return deserialize(data, where, descriptor["cardinality"])


def vector_path(location: str, descriptor: Mapping[str, Any]) -> str:
    """The absolute plain path of the file that holds a vector. Raises CorruptLog for a descriptor that names none."""
    kind, text = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == "p":
        return absolute_path(location, text)
    try:
        if kind != "u" or len(text) < _UUID_LENGTH:
            raise ValueError(f"storage type {kind!r}")
        prefix, name = text[:-_UUID_LENGTH], uuid.UUID(bytes=z85_decode(text[-_UUID_LENGTH:]))
    except ValueError as error:
        raise CorruptLog(f"{location}/_delta_log", f"a deletion vector's descriptor names no file ({error})") from error
    return "/".join(part for part in (location, prefix, _file(name)) if part)


def write_vectors(storage: Storage, deleted: Mapping[str, Positions]) -> VectorFiles:
    """Write the deleted rows of data files, many vectors to a file of up to 2 MiB. Raises StorageError."""
    descriptors: dict[str, Mapping[str, Any]] = {}
    files: dict[str, bytes] = {}
    for batch in _batches(deleted):
        name = uuid.uuid4()
        content = bytearray(_VERSION)
        for path, payload in batch.items():
            descriptors[path] = {
                "storageType": "u",
                "pathOrInlineDv": z85_encode(name.bytes),
                "offset": len(content),
                "sizeInBytes": len(payload),
                "cardinality": len(deleted[path]),
            }
            _cache.put((f"{storage.location}/{_file(name)}", len(content)), payload, len(payload))
            content += framed(payload)
        files[_file(name)] = bytes(content)
    run_concurrently([partial(storage.put, file, data) for file, data in files.items()])
    return VectorFiles(descriptors, tuple(files))


def _file(name: uuid.UUID) -> str:
    return f"deletion_vector_{name}.bin"


def z85_encode(data: bytes) -> str:
    """ZeroMQ's base 85 (RFC 32); the length is a multiple of 4."""
    characters = []
    for (word,) in struct.iter_unpack(">I", data):
        characters += [_Z85[word // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(characters)


def z85_decode(text: str) -> bytes:
    """The inverse of `z85_encode`. Raises ValueError."""
    if len(text) % 5:
        raise ValueError("its length is not a multiple of 5")
    data = bytearray()
    for start in range(0, len(text), 5):
        word = 0
        for character in text[start : start + 5]:
            if character not in _DIGITS:
                raise ValueError(f"{character!r} is not one of its characters")
            word = word * 85 + _DIGITS[character]
        if word >= 1 << 32:
            raise ValueError(f"{text[start : start + 5]!r} is out of range")
        data += struct.pack(">I", word)
    return bytes(data)


def _batches(deleted: Mapping[str, Positions]) -> Iterator[dict[str, bytes]]:
    batch: dict[str, bytes] = {}
    size = 0
    for path, positions in deleted.items():
        payload = serialize(positions)
        if batch and size + len(payload) > _FILE_SIZE:
            yield batch
            batch, size = {}, 0
        batch[path] = payload
        size += len(payload)
    if batch:
        yield batch
