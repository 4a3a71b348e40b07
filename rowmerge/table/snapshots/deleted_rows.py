"""Deleted rows as bytes: the form that the deletion vectors of Delta Lake and of Iceberg share.

Big-endian size of the data, the data, big-endian CRC-32 of the data; the data is a magic number and the portable 64-bit roaring form
(PROTOCOL.md, Deletion Vector Format; Puffin spec, deletion-vector-v1).
"""

from __future__ import annotations

import struct
import zlib

from pyroaring import BitMap64

from rowmerge.errors import CorruptLog
from rowmerge.table.snapshots.files import Positions

_MAGIC = struct.pack("<i", 1681511377)
FRAME = 8
"""Bytes before and after the data: its size and its checksum."""


def serialize(positions: Positions) -> bytes:
    """The data of a vector: the magic number and the bitmap."""
    compact = BitMap64(positions)
    compact.run_optimize()
    return bytes(_MAGIC + compact.serialize())


def deserialize(data: bytes, where: str, cardinality: int) -> Positions:
    """The rows that the data of a vector stands for. Raises CorruptLog naming the file `where` when it is none of so many rows."""
    if len(data) < 12 or not data.startswith(_MAGIC):
        raise CorruptLog(where, "a deletion vector does not begin with its magic number")
    try:
        bitmap = BitMap64.deserialize(data[4:])
    except (ValueError, MemoryError) as error:
        raise CorruptLog(where, f"a deletion vector is no roaring bitmap ({error})") from error
    if len(bitmap) != cardinality:
        raise CorruptLog(where, f"a deletion vector holds {len(bitmap)} rows, and the table's metadata says {cardinality}")
    return bitmap


def framed(data: bytes) -> bytes:
    """The data of a vector as a file holds it, between its size and its checksum."""
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def unframed(stored: bytes, size: int, where: str, offset: int) -> bytes:
    """The data, of so many bytes, from what a file holds at an offset. Raises CorruptLog."""
    if len(stored) < size + FRAME or struct.unpack(">i", stored[:4])[0] != size:
        raise CorruptLog(where, f"there is no deletion vector of {size} bytes at offset {offset}")
    data, checksum = stored[4 : 4 + size], struct.unpack(">I", stored[4 + size : FRAME + size])[0]
    if zlib.crc32(data) != checksum:
        raise CorruptLog(where, "a deletion vector does not have its checksum")
    return data
