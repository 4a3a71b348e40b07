"""Serialize deleted rows in the binary form that deletion vectors of Delta Lake and Iceberg share.

The form consists of the size of the data, the data, and the CRC-32 of the data, both numbers in big-endian order. The data consists of a
magic number and a 64-bit roaring bitmap in the portable format (PROTOCOL.md, Deletion Vector Format; Puffin spec, deletion-vector-v1).
"""

from __future__ import annotations

import struct
import zlib

from pyroaring import BitMap64

from rowmerge.errors import CorruptLog
from rowmerge.table.snapshots.files import Positions

_MAGIC = struct.pack("<i", 1681511377)
_MIN_BYTES = len(_MAGIC) + 8
"""The size of the data without deleted rows: the magic number, and 8 bytes for the number of 32-bit bitmaps in the 64-bit bitmap."""
FRAME_BYTES = 8
"""The number of bytes around the data: 4 bytes before it for its size, and 4 bytes after it for its CRC-32."""


def serialize(positions: Positions) -> bytes:
    """Return the data of a deletion vector for these deleted rows: a magic number and a bitmap."""
    compact = BitMap64(positions)
    compact.run_optimize()
    return bytes(_MAGIC + compact.serialize())


def deserialize_deletion_vector(data: bytes, path: str, cardinality: int) -> Positions:
    """Return the deleted rows in the data of a deletion vector.

    Args:
        data: The data of the deletion vector: a magic number and a bitmap.
        path: The path of the file with the deletion vector, for errors.
        cardinality: The number of deleted rows according to the table's metadata.

    Raises:
        CorruptLog: The data is invalid, or its number of rows is not `cardinality`.
    """
    if len(data) < _MIN_BYTES or not data.startswith(_MAGIC):
        raise CorruptLog(path, "a deletion vector does not begin with its magic number")
    try:
        bitmap = BitMap64.deserialize(data[len(_MAGIC) :])
    except (ValueError, MemoryError) as error:
        raise CorruptLog(path, f"a deletion vector is not a roaring bitmap ({error})") from error
    if len(bitmap) != cardinality:
        raise CorruptLog(path, f"a deletion vector has {len(bitmap)} rows, but the table's metadata records {cardinality}")
    return bitmap


def frame_deletion_vector(data: bytes) -> bytes:
    """Return the data of a deletion vector in the form that files store: the size, the data and the checksum."""
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def unframe_deletion_vector(content: bytes, size: int, path: str, offset: int) -> bytes:
    """Verify the size and the checksum of a deletion vector, and return the data without them.

    Args:
        content: The bytes of the file from the offset of the deletion vector on.
        size: The size of the data in bytes, according to the table's metadata.
        path: The path of the file, for errors.
        offset: The offset of the deletion vector in the file, for errors.

    Raises:
        CorruptLog: The size in the file is not `size`, or the checksum does not match the data.
    """
    # The file contains the size (4 bytes), the data, and the CRC-32 of the data (4 bytes).
    if len(content) < size + FRAME_BYTES or struct.unpack(">i", content[:4])[0] != size:
        raise CorruptLog(path, f"there is no deletion vector of {size} bytes at offset {offset}")
    data = content[4 : 4 + size]
    checksum = struct.unpack(">I", content[4 + size : size + FRAME_BYTES])[0]
    if zlib.crc32(data) != checksum:
        raise CorruptLog(path, "the checksum of a deletion vector does not match its data")
    return data
