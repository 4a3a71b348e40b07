"""Serialize deleted rows: the bytes that deletion vectors of Delta Lake and of Iceberg share.

The bytes are the big-endian size of the data, the data, and the big-endian CRC-32 of the data. The data is a magic number and the portable
form of a 64-bit roaring bitmap (PROTOCOL.md, Deletion Vector Format; Puffin spec, deletion-vector-v1).
"""

from __future__ import annotations

import struct
import zlib

from pyroaring import BitMap64

from rowmerge.errors import CorruptLog
from rowmerge.table.snapshots.files import Positions

_MAGIC = struct.pack("<i", 1681511377)
FRAME = 8
"""The number of bytes around the data: its size before it, and its checksum after it."""


def serialize(positions: Positions) -> bytes:
    """Return the data of a deletion vector: the magic number and the bitmap."""
    compact = BitMap64(positions)
    compact.run_optimize()
    return bytes(_MAGIC + compact.serialize())


def deserialize(data: bytes, path: str, cardinality: int) -> Positions:
    """Return the deleted rows of a deletion vector.

    Args:
        data: The data of the vector: the magic number and the bitmap.
        path: The path of the file with the vector, for errors.
        cardinality: The number of deleted rows, as the table's metadata has it.

    Raises:
        CorruptLog: The data is invalid, or has another number of rows.
    """
    if len(data) < 12 or not data.startswith(_MAGIC):
        raise CorruptLog(path, "a deletion vector does not begin with its magic number")
    try:
        bitmap = BitMap64.deserialize(data[4:])
    except (ValueError, MemoryError) as error:
        raise CorruptLog(path, f"a deletion vector is no roaring bitmap ({error})") from error
    if len(bitmap) != cardinality:
        raise CorruptLog(path, f"a deletion vector holds {len(bitmap)} rows, and the table's metadata says {cardinality}")
    return bitmap


def frame_vector(data: bytes) -> bytes:
    """Return the data of a deletion vector with its size before it and its checksum after it, as files store it."""
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def unframe_vector(content: bytes, size: int, path: str, offset: int) -> bytes:
    """Return the data of a deletion vector without its size and its checksum, which are verified.

    Args:
        content: The bytes of the file from the offset of the vector on.
        size: The size of the data in bytes, as the table's metadata has it.
        path: The path of the file, for errors.
        offset: The offset of the vector in the file, for errors.

    Raises:
        CorruptLog: The file has another size or checksum.
    """
    if len(content) < size + FRAME or struct.unpack(">i", content[:4])[0] != size:
        raise CorruptLog(path, f"there is no deletion vector of {size} bytes at offset {offset}")
    data, checksum = content[4 : 4 + size], struct.unpack(">I", content[4 + size : FRAME + size])[0]
    if zlib.crc32(data) != checksum:
        raise CorruptLog(path, "a deletion vector does not have its checksum")
    return data
