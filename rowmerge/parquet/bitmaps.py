"""Sets of positions in files, and their serialized form: 64-bit roaring bitmaps, written and read with NumPy alone.

Executors have NumPy, but no library for roaring bitmaps. The driver reads and writes the same form with pyroaring. The form is described in
"Roaring Format Specification" (https://github.com/RoaringBitmap/RoaringFormatSpec), with the extension for 64-bit values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Positions = np.ndarray[Any, np.dtype[np.uint64]]

_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
"""A bitmap with runs has no list of offsets if it has fewer containers."""
_MAX_ARRAY = 4096
"""The maximum number of values in a container that is an array. A container with more values is a set of 65,536 bits."""
_CONTAINER_BYTES = 1 << 13
_END_OF_BITS = 1 << 32
"""The end of the positions that a set may store as bits. Larger numbers have a part that identifies a task, so they are not dense."""
_GROWTH = 2


class PositionSet:
    """A set of positions that batches are added to.

    Few positions are stored in sorted arrays without common elements. Each array is at least twice as long as the next one, so there are
    few, and each position is merged a few times. Once bits take less memory than the arrays, each position below 2**32 is a bit. Larger
    numbers, such as ordinals of source rows, stay in arrays.
    """

    def __init__(self) -> None:
        self._runs: list[Positions] = []
        self._bits = np.empty(0, np.uint8)
        self._low_count = self._low_end = 0  # of the positions below 2**32, until they are bits

    def add(self, positions: Positions) -> np.ndarray[Any, Any]:
        """Add positions. Return the index in `positions` of one occurrence of each position that is new."""
        distinct = _sorted_distinct(positions)
        if not len(distinct):
            return np.empty(0, np.int64)
        is_new = self._are_new(distinct)
        new = distinct if is_new.all() else distinct[is_new]
        if len(new):
            self._insert(new)
        if len(new) == len(positions):
            return np.arange(len(positions))  # usually, each position occurs once
        indexes: np.ndarray[Any, Any] = np.unique(positions, return_index=True)[1][is_new]
        return indexes

    def _are_new(self, positions: Positions) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each of sorted positions whether the set lacks it."""
        are_new = np.ones(len(positions), dtype=bool)
        if self._bits[int(positions[0]) // 8 : int(positions[-1]) // 8 + 1].any():
            covered = positions[: np.searchsorted(positions, np.uint64(8 * len(self._bits)))]  # those that have a bit
            are_new[: len(covered)] = self._bits[covered >> np.uint64(3)] & _bit(covered) == 0
        for run in self._runs:
            if positions[0] <= run[-1] and positions[-1] >= run[0]:
                indexes = np.searchsorted(run, positions)
                indexes[indexes == len(run)] = 0
                are_new &= run[indexes] != positions
        return are_new

    def _insert(self, new: Positions) -> None:
        """Insert sorted positions that the set lacks."""
        low_count = _count_below(new, _END_OF_BITS)
        if len(self._bits):
            self._set_bits(new[:low_count])
            new = new[low_count:]
        elif low_count:
            self._low_count += low_count
            self._low_end = max(self._low_end, int(new[low_count - 1]) + 1)
        if len(new):
            while self._runs and len(self._runs[-1]) < _GROWTH * len(new):
                new = np.concatenate([self._runs.pop(), new])
                new.sort(kind="stable")  # which merges sorted arrays
            self._runs.append(new)
        if not len(self._bits) and self._low_end // 8 < new.itemsize * self._low_count:
            runs, self._runs = self._runs, []
            for run in runs:
                count = _count_below(run, _END_OF_BITS)
                self._set_bits(run[:count])
                self._runs += [run[count:]] if count < len(run) else []

    def _set_bits(self, positions: Positions) -> None:
        """Set the bits of sorted positions below 2**32."""
        if not len(positions):
            return
        first, end = int(positions[0]) // 8, int(positions[-1]) // 8 + 1
        if end > len(self._bits):
            self._bits = np.concatenate([self._bits, np.zeros(end + end // 2 - len(self._bits), np.uint8)])
        if end - first > positions.itemsize * len(positions):
            np.bitwise_or.at(self._bits, positions >> np.uint64(3), _bit(positions))
            return
        flags = np.zeros(8 * (end - first), dtype=bool)
        flags[positions - np.uint64(8 * first)] = True
        self._bits[first:end] |= np.packbits(flags, bitorder="little")

    def serialize(self) -> bytes:
        """Return the positions as a serialized roaring bitmap."""
        positions = np.concatenate([np.empty(0, np.uint64), *self._runs])
        positions.sort(kind="stable")
        if not len(self._bits):
            return serialize(positions)
        (high_count,) = struct.unpack_from("<Q", high_groups := serialize(positions))
        return struct.pack("<QI", high_count + 1, 0) + _serialize_bits(self._bits) + high_groups[8:]


def _sorted_distinct(positions: Positions) -> Positions:
    if (positions[1:] > positions[:-1]).all():
        return positions
    in_order = np.sort(positions)
    distinct: Positions = in_order[np.append(True, in_order[1:] != in_order[:-1])]
    return distinct


def _count_below(positions: Positions, end: int) -> int:
    return int(np.searchsorted(positions, np.uint64(end)))


def _bit(positions: Positions) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return for each position the byte in which its bit is set."""
    return np.left_shift(np.uint8(1), (positions & np.uint64(7)).astype(np.uint8))


def serialize(positions: Positions) -> bytes:
    """Return sorted, distinct positions as a serialized 64-bit roaring bitmap."""
    high, low = positions >> np.uint64(32), positions.astype(np.uint32)
    starts = _starts(high)
    groups = [struct.pack("<Q", len(starts))]
    for start, end in _ranges(starts, len(positions)):
        groups += [struct.pack("<I", int(high[start])), _serialize_32_bits(low[start:end])]
    return b"".join(groups)


def _serialize_32_bits(values: np.ndarray[Any, np.dtype[np.uint32]]) -> bytes:
    keys, low = values >> np.uint32(16), values.astype(np.uint16)
    starts = _starts(keys)
    return _join_containers([(int(keys[start]), end - start, _container(low[start:end])) for start, end in _ranges(starts, len(values))])


def _serialize_bits(bits: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    """Return a set of bits as a serialized 32-bit bitmap."""
    containers = []
    for key in range(-(-len(bits) // _CONTAINER_BYTES)):
        part = bits[key * _CONTAINER_BYTES : (key + 1) * _CONTAINER_BYTES]
        values = np.flatnonzero(np.unpackbits(part, bitorder="little"))
        if len(values) > _MAX_ARRAY:
            containers.append((key, len(values), part.tobytes().ljust(_CONTAINER_BYTES, b"\0")))
        elif len(values):
            containers.append((key, len(values), values.astype("<u2").tobytes()))
    return _join_containers(containers)


def _join_containers(containers: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Return a 32-bit bitmap of containers. Each has a key, the number of its values, and its content."""
    descriptions = np.array([(key, size - 1) for key, size, _ in containers], "<u2")
    contents = [content for _, _, content in containers]
    offsets = 8 + 8 * len(containers) + np.cumsum([0, *map(len, contents[:-1])])
    return b"".join([struct.pack("<II", _COOKIE, len(containers)), descriptions.tobytes(), offsets.astype("<u4").tobytes(), *contents])


def _container(values: np.ndarray[Any, np.dtype[np.uint16]]) -> bytes:
    if len(values) <= _MAX_ARRAY:
        return values.astype("<u2").tobytes()
    flags = np.zeros(8 * _CONTAINER_BYTES, dtype=bool)
    flags[values] = True
    return np.packbits(flags, bitorder="little").tobytes()


def _starts(keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the index at which each range of equal keys begins."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)


def _ranges(starts: np.ndarray[Any, Any], end: int) -> list[tuple[int, int]]:
    return list(pairwise([*starts.tolist(), end]))


def deserialize(data: bytes) -> Positions:
    """Return the sorted positions of a serialized 64-bit roaring bitmap. The bitmap comes from the driver and is valid."""
    (group_count,) = struct.unpack_from("<Q", data)
    offset, groups = 8, [np.empty(0, np.uint64)]
    for _ in range(group_count):
        (high,) = struct.unpack_from("<I", data, offset)
        values, offset = _deserialize_32_bits(data, offset + 4)
        groups.append(values | np.uint64(high << 32))
    return np.concatenate(groups)


def _deserialize_32_bits(data: bytes, offset: int) -> tuple[Positions, int]:
    """Return the values of a 32-bit bitmap, and the offset after it."""
    (cookie,) = struct.unpack_from("<I", data, offset)
    if cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", data, offset + 4)
        are_runs, offset, has_offsets = np.zeros(count, dtype=bool), offset + 8, True
    else:
        assert cookie & 0xFFFF == _COOKIE_WITH_RUNS
        count = (cookie >> 16) + 1
        flag_bytes = np.frombuffer(data, np.uint8, (count + 7) // 8, offset + 4)
        are_runs, has_offsets = np.unpackbits(flag_bytes, bitorder="little")[:count].astype(bool), count >= _NO_OFFSETS_BELOW
        offset += 4 + len(flag_bytes)
    descriptions = np.frombuffer(data, "<u2", 2 * count, offset).reshape(count, 2)
    offset += descriptions.nbytes + (4 * count if has_offsets else 0)
    containers = [np.empty(0, np.uint64)]
    for (key, last), is_run in zip(descriptions.tolist(), are_runs, strict=True):
        low, offset = _container_values(data, offset, last + 1, is_run=bool(is_run))
        containers.append(low.astype(np.uint64) | np.uint64(key << 16))
    return np.concatenate(containers), offset


def _container_values(data: bytes, offset: int, size: int, *, is_run: bool) -> tuple[np.ndarray[Any, Any], int]:
    """Return the low 16 bits of the values in a container, and the offset after it."""
    if is_run:
        (run_count,) = struct.unpack_from("<H", data, offset)
        runs = np.frombuffer(data, "<u2", 2 * run_count, offset + 2).reshape(run_count, 2).tolist()
        return np.concatenate([np.arange(first, first + length + 1) for first, length in runs]), offset + 2 + 4 * run_count
    if size <= _MAX_ARRAY:
        return np.frombuffer(data, "<u2", size, offset), offset + 2 * size
    bits = np.unpackbits(np.frombuffer(data, np.uint8, _CONTAINER_BYTES, offset), bitorder="little")
    return np.flatnonzero(bits), offset + _CONTAINER_BYTES
