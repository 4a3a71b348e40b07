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
from rowmerge.delta.files.paths import absolute_path, absolute_paths, log_path
from rowmerge.errors import CorruptLog
from rowmerge.parquet.partitions import random_prefix
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage, locate
from rowmerge.table.snapshots.deleted_rows import (
    FRAME_BYTES,
    deserialize_deletion_vector,
    frame_deletion_vector,
    serialize,
    unframe_deletion_vector,
)
from rowmerge.table.snapshots.files import Positions

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: digit for digit, character in enumerate(_Z85)}
_FORMAT_VERSION = b"\x01"
_MAX_FILE_BYTES = 2 * 1024 * 1024
_ENCODED_UUID_LENGTH = 20
"""The number of characters of a UUID (16 bytes) in Z85."""
_MAX_CACHED_BYTES = 32 * 1024 * 1024

_cache: Cache[bytes] = Cache(_MAX_CACHED_BYTES)
"""A cache of serialized vectors by file and offset. Vectors are immutable, and the next statement often reads the newest ones again."""


@dataclass(frozen=True)
class VectorFiles:
    """New deletion vectors: descriptors by the path of the data file, and the paths of the vector files, relative to the table's folder."""

    descriptors: Mapping[str, Mapping[str, Any]]
    paths: tuple[str, ...]


def read_vector(storage: Storage, descriptor: Mapping[str, Any]) -> Positions:
    """Return the deleted rows of a deletion vector.

    Args:
        storage: The storage of the table's folder.
        descriptor: The descriptor from the log (PROTOCOL.md, Deletion Vector Descriptor Schema).

    Raises:
        CorruptLog: The vector is missing or invalid.
        StorageError: The store failed.
    """
    if descriptor["storageType"] == "i":
        return _decode_inline(f"{storage.location}/_delta_log", descriptor)
    path, offset = vector_path(storage.location, descriptor), descriptor["offset"] or 0
    data = _cache.get((path, offset))
    if data is None:
        data = _read_serialized(storage, path, offset, descriptor["sizeInBytes"])
        _cache.put((path, offset), data, len(data))
    return deserialize_deletion_vector(data, path, descriptor["cardinality"])


def _decode_inline(log: str, descriptor: Mapping[str, Any]) -> Positions:
    """Decode a vector that is stored in its descriptor, in Z85. Raises CorruptLog if it is invalid. `log` is the path in the error."""
    try:
        data = z85_decode(descriptor["pathOrInlineDv"])[: descriptor["sizeInBytes"]]
        return deserialize_deletion_vector(data, log, descriptor["cardinality"])
    except ValueError as error:
        raise CorruptLog(log, f"an inline deletion vector is not valid Z85 ({error})") from error


def _read_serialized(storage: Storage, path: str, offset: int, size: int) -> bytes:
    """Read the serialized vector of `size` bytes at an offset in a file. Raises CorruptLog if it is missing or invalid, StorageError."""
    file_storage, name = locate(storage, path)
    try:
        return unframe_deletion_vector(file_storage.get_range(name, offset, size + FRAME_BYTES), size, path, offset)
    except FileNotFoundError as error:
        raise CorruptLog(path, "the file of the deletion vector is missing") from error


def vector_path(location: str, descriptor: Mapping[str, Any]) -> str:
    """Return the absolute, percent-decoded path of the file with a vector (PROTOCOL.md, Deletion Vector Descriptor Schema).

    With the storage type `p`, the descriptor contains the path. With `u`, it contains an optional subfolder of the table, followed
    by 20 characters. These encode the UUID in the file name in base 85.

    Args:
        location: The absolute path of the table's folder.
        descriptor: The descriptor of a vector that is stored in a file.

    Raises:
        CorruptLog: The storage type of the descriptor is not `u` or `p`, or its path is invalid.
    """
    storage_type, encoded_path = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if storage_type == "p":
        return absolute_path(location, encoded_path)
    if storage_type != "u" or len(encoded_path) < _ENCODED_UUID_LENGTH:
        raise _invalid_descriptor(location, f"storage type {storage_type!r}")
    subfolder, encoded_id = encoded_path[:-_ENCODED_UUID_LENGTH], encoded_path[-_ENCODED_UUID_LENGTH:]
    try:
        file_id = uuid.UUID(bytes=z85_decode(encoded_id))
    except ValueError as error:
        raise _invalid_descriptor(location, str(error)) from error
    return "/".join(segment for segment in (location, subfolder, _file_name(file_id)) if segment)


def _invalid_descriptor(location: str, reason: str) -> CorruptLog:
    return CorruptLog(f"{location}/_delta_log", f"the descriptor of a deletion vector does not identify a file ({reason})")


def file_and_vector_paths(location: str, paths: pa.ChunkedArray, descriptors: pa.ChunkedArray) -> list[str]:
    """Return the absolute paths of data files and of the files that contain their deletion vectors.

    Args:
        location: The absolute path of the table's folder.
        paths: The paths of the data files in the form of the log, relative or absolute and percent-encoded.
        descriptors: The descriptors of deletion vectors (`rowmerge.delta.files.columns.VECTOR`), null for a file without one.

    Raises:
        CorruptLog: A descriptor is invalid.
    """
    # An inline deletion vector ("i") has no file.
    stored_vectors = (descriptor for descriptor in descriptors.drop_null().to_pylist() if descriptor["storageType"] != "i")
    vector_paths = [vector_path(location, descriptor) for descriptor in stored_vectors]
    return [*absolute_paths(location, paths).to_pylist(), *vector_paths]


def vector_paths_to_protect(tombstones: pa.Table, location: str) -> list[str]:
    """Return the files of deletion vectors of removed files that have no tombstone of their own, as paths for the log.

    Args:
        tombstones: The removed files of a version.
        location: The absolute path of the table's folder. Vectors outside it belong to other tables.

    Raises:
        CorruptLog: A descriptor is invalid.
    """
    descriptors = tombstones["deletionVector"].combine_chunks().drop_null().to_pylist()
    paths = {log_path(location, vector_path(location, each)) for each in descriptors if each["storageType"] == "u"}
    return sorted(paths.difference(tombstones["path"].to_pylist()))


class _VectorFile:
    """A new file of deletion vectors, which is built in memory."""

    def __init__(self, prefix: str) -> None:
        """Begin a file in the subfolder `prefix` of the table, or in the table's folder if `prefix` is empty."""
        self._id, self._prefix = uuid.uuid4(), prefix
        self.path = f"{prefix}/{_file_name(self._id)}" if prefix else _file_name(self._id)
        self.content, self.payload_bytes = bytearray(_FORMAT_VERSION), 0

    def append(self, payload: bytes, cardinality: int) -> dict[str, Any]:
        """Append a serialized vector with `cardinality` deleted rows, and return its descriptor."""
        location = {"storageType": "u", "pathOrInlineDv": self._prefix + z85_encode(self._id.bytes), "offset": len(self.content)}
        self.content += frame_deletion_vector(payload)
        self.payload_bytes += len(payload)
        return {**location, "sizeInBytes": len(payload), "cardinality": cardinality}


def write_vectors(storage: Storage, deleted_rows: Mapping[str, Positions], *, prefix_length: int | None = None) -> VectorFiles:
    """Write deletion vectors. Each new file contains many vectors, up to 2 MiB.

    Args:
        storage: The storage of the table's folder.
        deleted_rows: The deleted rows of each data file, by the path of the data file.
        prefix_length: The length of the random folder name of each new file; None for files in the table's folder.

    Raises:
        StorageError: The store failed. Some of the vector files may exist.
    """
    descriptors: dict[str, Mapping[str, Any]] = {}
    files: list[_VectorFile] = []
    for path, positions in deleted_rows.items():
        payload = serialize(positions)
        if not files or files[-1].payload_bytes + len(payload) > _MAX_FILE_BYTES:
            files.append(_VectorFile(random_prefix(prefix_length or 0)))
        descriptor = files[-1].append(payload, cardinality=len(positions))
        descriptors[path] = descriptor
        # The next statement on the file often reads its deletion vector.
        _cache.put((f"{storage.location}/{files[-1].path}", descriptor["offset"]), payload, len(payload))
    run_concurrently([partial(storage.put, file.path, bytes(file.content)) for file in files])
    return VectorFiles(descriptors, tuple(file.path for file in files))


def relative_vector(location: str, path: str) -> dict[str, str]:
    """Return the fields of a descriptor that name the file of a deletion vector relative to its table.

    Args:
        location: The absolute path of the table's folder.
        path: The absolute path of the file, whose name ends with `deletion_vector_<uuid>.bin`.
    """
    prefix = path[len(location) + 1 :].rpartition("/")[0]
    file_id = uuid.UUID(path.removesuffix(".bin").rpartition("deletion_vector_")[2])
    return {"storageType": "u", "pathOrInlineDv": prefix + z85_encode(file_id.bytes)}


def _file_name(file_id: uuid.UUID) -> str:
    return f"deletion_vector_{file_id}.bin"


def z85_encode(data: bytes) -> str:
    """Encode bytes in ZeroMQ's base 85 (RFC 32), as deletion vectors require. The number of bytes must be a multiple of 4."""
    return "".join(_Z85[word // 85**power % 85] for (word,) in struct.iter_unpack(">I", data) for power in (4, 3, 2, 1, 0))


def z85_decode(text: str) -> bytes:
    """Decode a string in ZeroMQ's base 85 (RFC 32).

    Raises:
        ValueError: The string is not valid Z85.
    """
    if len(text) % 5:
        raise ValueError("its length is not a multiple of 5")
    return b"".join(_decode_word(text[start : start + 5]) for start in range(0, len(text), 5))


def _decode_word(text: str) -> bytes:
    """Decode five Z85 characters to four bytes. Raises ValueError if a character or the value is invalid."""
    word = 0
    for character in text:
        if character not in _DIGITS:
            raise ValueError(f"{character!r} is not a Z85 character")
        word = word * 85 + _DIGITS[character]
    if word >= 1 << 32:
        raise ValueError(f"{text!r} is out of range")
    return struct.pack(">I", word)
