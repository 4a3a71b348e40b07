"""Sets of positions in files, and their serialized form: 64-bit roaring bitmaps, written and read with NumPy alone.

Executors have NumPy, but no library for roaring bitmaps. The driver reads and writes the same form with pyroaring. The form is described in
"Roaring Format Specification" (https://github.com/RoaringBitmap/RoaringFormatSpec), with the extension for 64-bit values.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np

Positions = np.ndarray[Any, np.dtype[np.uint64]]

_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
"""A bitmap with runs has no list of offsets if it has fewer containers."""
_MAX_ARRAY = 4096
"""The maximum number of values in a container that is an array. A container with more values is a set of 65,536 bits."""
_GROWTH = 2


class PositionSet:
    """A set of positions that batches are added to.

    Few positions are stored in sorted arrays without common elements. Each array is at least twice as long as the next one, so there are
    few, and each position is merged a few times. Once bits take less memory than the arrays, the set has one bit for each position.
    """

    def __init__(self) -> None:
        self._runs: list[Positions] = []
        self._count = 0
        self._bits = np.empty(0, np.uint8)

    def add(self, positions: Positions) -> np.ndarray[Any, Any]:
        """Add positions. Return the index in `positions` of one occurrence of each position that is new."""
        distinct = np.unique(positions)
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
        if len(self._bits):
            covered = positions[: np.searchsorted(positions, np.uint64(8 * len(self._bits)))]  # those that have a bit
            are_new[: len(covered)] = self._bits[covered >> np.uint64(3)] & _bit(covered) == 0
        for run in self._runs:
            if positions[0] <= run[-1] and positions[-1] >= run[0]:
                indexes = np.searchsorted(run, positions)
                indexes[indexes == len(run)] = 0
                are_new &= run[indexes] != positions
        return are_new

    def _insert(self, run: Positions) -> None:
        """Insert sorted positions that the set lacks."""
        self._count += len(run)
        size = max(int(run[-1]) // 8 + 1, len(self._bits), *(int(other[-1]) // 8 + 1 for other in self._runs), 0)
        if len(self._bits) or size < run.itemsize * self._count:
            if size > len(self._bits):
                self._bits = np.concatenate([self._bits, np.zeros(size + size // 2 - len(self._bits), np.uint8)])
            for positions in (*self._runs, run):
                np.bitwise_or.at(self._bits, positions >> np.uint64(3), _bit(positions))
            self._runs = []
            return
        while self._runs and len(self._runs[-1]) < _GROWTH * len(run):
            run = np.concatenate([self._runs.pop(), run])
            run.sort(kind="stable")  # which merges sorted arrays
        self._runs.append(run)

    def serialize(self) -> bytes:
        """Return the positions as a serialized roaring bitmap."""
        if len(self._bits):
            return serialize(np.flatnonzero(np.unpackbits(self._bits, bitorder="little")).astype(np.uint64))
        positions = np.concatenate([np.empty(0, np.uint64), *self._runs])
        positions.sort(kind="stable")
        return serialize(positions)


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
    keys, low = (values >> np.uint32(16)).astype(np.uint16), values.astype(np.uint16)
    starts = _starts(keys)
    containers = [_container(low[start:end]) for start, end in _ranges(starts, len(values))]
    sizes = np.diff(np.append(starts, len(values)))
    descriptions = np.column_stack([keys[starts], (sizes - 1).astype(np.uint16)]).astype("<u2")
    first_offset = 8 + 8 * len(starts)
    offsets = first_offset + np.cumsum([0, *(len(container) for container in containers[:-1])])
    return b"".join([struct.pack("<II", _COOKIE, len(starts)), descriptions.tobytes(), offsets.astype("<u4").tobytes(), *containers])


def _container(values: np.ndarray[Any, np.dtype[np.uint16]]) -> bytes:
    if len(values) <= _MAX_ARRAY:
        return values.astype("<u2").tobytes()
    bits = np.zeros(1 << 16, dtype=bool)
    bits[values] = True
    return np.packbits(bits, bitorder="little").tobytes()


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
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 1 << 13, offset), bitorder="little")
    return np.flatnonzero(bits), offset + (1 << 13)
