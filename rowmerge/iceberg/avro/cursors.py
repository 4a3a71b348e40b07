"""Read the next values of several data blocks of an Avro file at once (Avro spec, Binary Encoding)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmerge.iceberg.avro.maps import Integers, MapColumnBuilder

MAX_INTEGER_BYTES = 10
"""The maximum number of bytes of an integer."""
_BYTE_INDEXES = np.arange(MAX_INTEGER_BYTES)
"""The indexes of the bytes of the longest integer."""
_BIT_SHIFTS = (7 * _BYTE_INDEXES).astype(np.uint64)


def _decode_zigzag(encoded: NDArray[Any]) -> Integers:
    one = encoded.dtype.type(1)
    integers: Integers = (encoded >> one).astype(np.int64) ^ -(encoded & one).astype(np.int64)
    return integers


def _parse_varints(windows: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], Integers]:
    """Return the unsigned integer at the start of each row, and its length in bytes. All of its bytes except the last are above 127."""
    last_bytes = np.argmax(windows < 128, axis=1)
    if (windows[np.arange(len(windows)), last_bytes] > 127).any():
        raise ValueError("an integer has more than 10 bytes")
    width = int(last_bytes.max()) + 1
    is_used = _BYTE_INDEXES[:width] <= last_bytes[:, None]
    septets = np.where(is_used, windows[:, :width] & 127, 0).astype(np.uint64)
    return np.bitwise_or.reduce(septets << _BIT_SHIFTS[:width], axis=1), last_bytes + 1


class BlockCursors:
    """The decompressed contents of blocks, and a cursor for each block: the offset of its next value.

    Each method reads one value from each block in an array of block numbers, and moves the cursors of these blocks to their next value.
    """

    def __init__(self, contents: Sequence[bytes]) -> None:
        self._bytes = b"".join([*contents, bytes(MAX_INTEGER_BYTES)])  # padded: a window of integers reaches beyond the last block
        self._data = np.frombuffer(self._bytes, np.uint8)
        sizes = np.array([len(content) for content in contents], dtype=np.int64)
        self._ends = np.cumsum(sizes, dtype=np.int64)
        self._offsets = self._ends - sizes
        self._maps: list[MapColumnBuilder] = []

    @property
    def has_ended(self) -> bool:
        """Whether all values of all blocks have been read."""
        return bool((self._offsets == self._ends).all())

    def read_integers(self, block_numbers: Integers) -> Integers:
        """Return the next integer of each block."""
        starts = self._offsets[block_numbers]
        first_bytes = self._data[starts]
        if first_bytes.max(initial=0) < 128:  # one byte each: the most frequent case, without windows
            self._offsets[block_numbers] = starts + 1
            return _decode_zigzag(first_bytes)
        encoded, lengths = _parse_varints(self._data[starts[:, None] + _BYTE_INDEXES])
        self._offsets[block_numbers] = starts + lengths
        return _decode_zigzag(encoded)

    def offsets(self, block_numbers: Integers) -> Integers:
        """Return the offset of the next value of each block in the contents of all blocks."""
        return self._offsets[block_numbers]

    def new_maps(self, *, has_bytes: bool) -> MapColumnBuilder:
        """Return a builder of maps whose values are bytes or integers, which `finish_maps` finishes."""
        maps = MapColumnBuilder(self._bytes, has_bytes=has_bytes)
        self._maps.append(maps)
        return maps

    def finish_maps(self) -> None:
        """Fill the columns of the maps that were read."""
        for maps in self._maps:
            maps.finish()

    def read_entries(self, block_numbers: Integers, *, has_bytes: bool) -> tuple[Integers, ...]:
        """Return the key and the value of the next map entry of each block, in the form of `MapColumnBuilder.add_entries`."""
        keys, numbers_or_sizes = self.read_integers(block_numbers), self.read_integers(block_numbers)
        return (keys, *self._skip(block_numbers, numbers_or_sizes)) if has_bytes else (keys, numbers_or_sizes)

    def _skip(self, block_numbers: Integers, sizes: Integers | int) -> tuple[Integers, Integers]:
        """Move the cursors by `sizes` bytes. Return the offsets at which these bytes start and end."""
        starts = self._offsets[block_numbers]
        ends = starts + sizes
        if ((ends < starts) | (ends > self._ends[block_numbers])).any():
            raise ValueError("a value extends beyond its block")
        self._offsets[block_numbers] = ends
        return starts, ends

    def read_spans(self, block_numbers: Integers, sizes: Integers | int) -> list[bytes]:
        """Return the next `sizes` bytes of each block."""
        starts, ends = self._skip(block_numbers, sizes)
        return [self._bytes[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def read_item_counts(self, block_numbers: Integers) -> Integers:
        """Return the number of items in the next chunk of each array. After a negative count, Avro stores the chunk's size in bytes.

        Args:
            block_numbers: The numbers of the blocks.

        Raises:
            ValueError: An array extends beyond its block.
        """
        counts = self.read_integers(block_numbers)
        if (counts < 0).any():
            self.read_integers(block_numbers[counts < 0])
            counts = np.abs(counts)
        if ((counts < 0) | (counts > self._ends[block_numbers] - self._offsets[block_numbers])).any():
            raise ValueError("an array extends beyond its block")
        return counts

    def read_bytes(self, block_numbers: Integers) -> list[bytes]:
        """Return the next value of the type `bytes` of each block, which follows its size."""
        return self.read_spans(block_numbers, self.read_integers(block_numbers))

    def read_floats(self, dtype: str, block_numbers: Integers) -> list[float]:
        """Return the next floating-point number of each block. `dtype`: its type as NumPy spells it, such as `<f4`."""
        values: list[float] = np.frombuffer(b"".join(self.read_spans(block_numbers, np.dtype(dtype).itemsize)), dtype).tolist()
        return values
