"""Read and write deletion vectors (PROTOCOL.md, Deletion Vectors and Deletion Vector Format)."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from rowmerge.concurrency import run_concurrently
from rowmerge.delta.files.paths import absolute_path, absolute_paths
from rowmerge.errors import CorruptLog
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage, locate
from rowmerge.table.snapshots.deleted_rows import FRAME, deserialize, framed, serialize, unframed
from rowmerge.table.snapshots.files import Positions

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: digit for digit, character in enumerate(_Z85)}
_FORMAT_VERSION = b"\x01"
_MOST_FILE_BYTES = 2 * 1024 * 1024
_UUID_LENGTH = 20
_MOST_CACHED_BYTES = 32 * 1024 * 1024

_cache: Cache[bytes] = Cache(_MOST_CACHED_BYTES)
"""Serialized vectors by file and offset. A vector never changes once it is written, and the next statement reads it again."""


@dataclass(frozen=True)
class VectorFiles:
    """Vectors that were just written: a descriptor for each data file's path, and the vectors' files, relative to the table."""

    descriptors: Mapping[str, Mapping[str, Any]]
    paths: tuple[str, ...]


def read_vector(storage: Storage, descriptor: Mapping[str, Any]) -> Positions:
    """Return the deleted rows of a deletion vector. Raises CorruptLog, StorageError."""
    if descriptor["storageType"] == "i":
        return _decode_inline(f"{storage.location}/_delta_log", descriptor)
    path, offset = vector_path(storage.location, descriptor), descriptor["offset"] or 0
    data = _cache.get((path, offset))
    if data is None:
        data = _read_serialized(storage, path, offset, descriptor["sizeInBytes"])
        _cache.put((path, offset), data, len(data))
    return deserialize(data, path, descriptor["cardinality"])


def _decode_inline(log: str, descriptor: Mapping[str, Any]) -> Positions:
    try:
        return deserialize(z85_decode(descriptor["pathOrInlineDv"])[: descriptor["sizeInBytes"]], log, descriptor["cardinality"])
    except ValueError as error:
        raise CorruptLog(log, f"an inline deletion vector is no Z85 text ({error})") from error


def _read_serialized(storage: Storage, path: str, offset: int, size: int) -> bytes:
    """Read a vector of `size` bytes at an offset of a file, without its frame. Raises CorruptLog, StorageError."""
    file_storage, name = locate(storage, path)
    try:
        return unframed(file_storage.get_range(name, offset, size + FRAME), size, path, offset)
    except FileNotFoundError as error:
        raise CorruptLog(path, "the deletion vector's file is missing") from error


def vector_path(location: str, descriptor: Mapping[str, Any]) -> str:
    """Return the absolute, percent-decoded path of a vector's file. Raises CorruptLog for a descriptor that names no file."""
    storage_type, encoded_path = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if storage_type == "p":
        return absolute_path(location, encoded_path)
    try:
        if storage_type != "u" or len(encoded_path) < _UUID_LENGTH:
            raise ValueError(f"storage type {storage_type!r}")
        prefix, encoded_id = encoded_path[:-_UUID_LENGTH], encoded_path[-_UUID_LENGTH:]
        file_id = uuid.UUID(bytes=z85_decode(encoded_id))
    except ValueError as error:
        raise CorruptLog(f"{location}/_delta_log", f"a deletion vector's descriptor names no file ({error})") from error
    return "/".join(part for part in (location, prefix, _file_name(file_id)) if part)


def file_and_vector_paths(location: str, paths: pa.ChunkedArray, descriptors: pa.ChunkedArray) -> list[str]:
    """Return the absolute paths of data files and of the files with their deletion vectors. Raises CorruptLog."""
    stored_vectors = (descriptor for descriptor in descriptors.drop_null().to_pylist() if descriptor["storageType"] != "i")
    vector_paths = [vector_path(location, descriptor) for descriptor in stored_vectors]
    return [*absolute_paths(location, paths).to_pylist(), *vector_paths]


def write_vectors(storage: Storage, deleted: Mapping[str, Positions]) -> VectorFiles:
    """Write the deleted rows of data files, many vectors to a file of up to 2 MiB. Raises StorageError."""
    descriptors: dict[str, Mapping[str, Any]] = {}
    files: dict[str, bytearray] = {}
    payload_bytes = 0
    for path, positions in deleted.items():
        payload = serialize(positions)
        payload_bytes += len(payload)
        if not files or payload_bytes > _MOST_FILE_BYTES:
            file_id, content, payload_bytes = uuid.uuid4(), bytearray(_FORMAT_VERSION), len(payload)
            files[_file_name(file_id)] = content
        offset = len(content)
        content += framed(payload)
        location = {"storageType": "u", "pathOrInlineDv": z85_encode(file_id.bytes), "offset": offset}
        descriptors[path] = {**location, "sizeInBytes": len(payload), "cardinality": len(positions)}
        _cache.put((f"{storage.location}/{_file_name(file_id)}", offset), payload, len(payload))
    run_concurrently([partial(storage.put, name, bytes(content)) for name, content in files.items()])
    return VectorFiles(descriptors, tuple(files))


def _file_name(file_id: uuid.UUID) -> str:
    return f"deletion_vector_{file_id}.bin"


def z85_encode(data: bytes) -> str:
    """Encode bytes in ZeroMQ's base 85 (RFC 32). Their number must be a multiple of 4."""
    return "".join(_Z85[word // 85**power % 85] for (word,) in struct.iter_unpack(">I", data) for power in (4, 3, 2, 1, 0))


def z85_decode(text: str) -> bytes:
    """Decode the result of `z85_encode`. Raises ValueError."""
    if len(text) % 5:
        raise ValueError("its length is not a multiple of 5")
    return b"".join(_decode_word(text[start : start + 5]) for start in range(0, len(text), 5))


def _decode_word(text: str) -> bytes:
    word = 0
    for character in text:
        if character not in _DIGITS:
            raise ValueError(f"{character!r} is not one of its characters")
        word = word * 85 + _DIGITS[character]
    if word >= 1 << 32:
        raise ValueError(f"{text!r} is out of range")
    return struct.pack(">I", word)
