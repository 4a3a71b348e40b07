"""Theta sketches, which estimate the number of distinct values of a column (Apache DataSketches, `apache-datasketches-theta-v1` in Puffin).

A sketch contains the smallest hashes of the values. Iceberg hashes the bytes of a value in its single-value serialization (Iceberg spec,
Appendix D) with MurmurHash3 of 128 bits, of which the sketch uses 63 bits. If a column has at most NOMINAL distinct values, the sketch has
the hash of each. Otherwise, the hashes below a threshold, theta, are a random sample.

Executors run these functions, so this module imports only NumPy, PyArrow and the standard library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]
NOMINAL = 4096
"""The maximum number of hashes in a sketch, the default of Apache DataSketches."""
NO_THETA = (1 << 63) - 1
"""The threshold of a sketch that has the hashes of all values."""
_SEED, _SEED_HASH = 9001, 0x93CC
"""The default seed of Apache DataSketches, and the hash of it that a serialized sketch contains."""
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32
"""Flags in a serialized sketch."""
_SERIAL_VERSION, _FAMILY = 3, 3


def hashes_of(values: pa.Array) -> Hashes:
    """Return the distinct hashes of the values, in ascending order. NULL and empty values have no hash, as in Iceberg on Spark.

    Args:
        values: Booleans, numbers, dates, times, strings or binary values.
    """
    values = values.drop_null()
    hashes = [_hash_rows(rows) for rows in _rows_of_bytes(values)] if len(values) else []
    distinct = np.unique(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)
    return distinct[distinct != 0]


def smallest(hashes: Hashes, theta: int = NO_THETA) -> tuple[Hashes, int]:
    """Return the at most NOMINAL smallest hashes of a sketch, and its new threshold.

    Args:
        hashes: Hashes of values, which can repeat.
        theta: The threshold of the sketches from which the hashes come. Hashes from there on are ignored.
    """
    distinct = np.unique(hashes)
    distinct = distinct[distinct < np.uint64(theta)]
    if len(distinct) <= NOMINAL:
        return distinct, theta
    return distinct[:NOMINAL], int(distinct[NOMINAL])


def sketch_columns(column_count: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `DataFrame.mapInArrow` that yields a row with the sketch of each column, from the rows of one task.

    `column_count`: the number of columns of the rows.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sketches = [(np.empty(0, np.uint64), NO_THETA)] * column_count
        for batch in batches:
            for index in range(column_count):
                hashes, theta = sketches[index]
                sketches[index] = smallest(np.concatenate([hashes, hashes_of(batch.column(index))]), theta)
        positions = pa.array(range(column_count), pa.int32())
        thetas = pa.array([theta for _, theta in sketches], pa.int64())
        data = pa.array([hashes.tobytes() for hashes, _ in sketches], pa.binary())
        yield pa.RecordBatch.from_arrays([positions, thetas, data], names=["position", "theta", "hashes"])

    return run


def estimate(hashes: Hashes, theta: int) -> int:
    """Return the estimated number of distinct values.

    Args:
        hashes: The hashes of the sketch.
        theta: The threshold of the sketch.
    """
    return len(hashes) if theta == NO_THETA else int(len(hashes) / (theta / NO_THETA))


def serialize(hashes: Hashes, theta: int) -> bytes:
    """Return a sketch in the compact and ordered form of Apache DataSketches.

    Args:
        hashes: The hashes of the sketch in ascending order.
        theta: The threshold of the sketch.
    """
    flags = _READ_ONLY | _COMPACT | _ORDERED
    data = hashes.astype("<u8").tobytes()
    if theta != NO_THETA:
        return _preamble(3, flags) + struct.pack("<ifq", len(hashes), 1.0, theta) + data
    if len(hashes) > 1:
        return _preamble(2, flags) + struct.pack("<if", len(hashes), 1.0) + data
    return _preamble(1, flags | (_SINGLE if len(hashes) else _EMPTY)) + data


def _preamble(longs: int, flags: int) -> bytes:
    return struct.pack("<BBBBBBH", longs, _SERIAL_VERSION, _FAMILY, 0, 0, flags, _SEED_HASH)


def _rows_of_bytes(values: pa.Array) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the serialized values as matrices with one value in each row, one matrix for each length in bytes."""
    type_ = values.type
    if pa.types.is_boolean(type_):
        yield values.cast(pa.uint8()).to_numpy(zero_copy_only=False).reshape(-1, 1)
    elif pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        yield from _variable_rows(values.cast(pa.large_binary()))
    elif pa.types.is_fixed_size_binary(type_):
        yield from _variable_rows(values.cast(pa.binary()).cast(pa.large_binary()))
    elif pa.types.is_decimal(type_):
        yield from _decimal_rows(values)
    else:
        yield _number_rows(values)


def _number_rows(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Return numbers, dates and times as rows of 4 or 8 bytes, the least significant byte first."""
    type_ = values.type
    if pa.types.is_timestamp(type_):
        numbers: npt.NDArray[Any] = values.cast(pa.timestamp("us", type_.tz)).cast(pa.int64()).to_numpy()
    elif pa.types.is_date(type_) or pa.types.is_int8(type_) or pa.types.is_int16(type_):
        numbers = values.cast(pa.int32()).to_numpy()
    else:
        numbers = values.to_numpy()
    little_endian = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<")))
    return little_endian.view(np.uint8).reshape(len(numbers), -1)


def _variable_rows(values: pa.Array) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the values of a large binary array by their lengths, without the empty ones."""
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    for length in np.unique(lengths[lengths > 0]):
        starts = offsets[:-1][lengths == length]
        yield data[starts[:, None] + np.arange(length)]


def _decimal_rows(values: pa.Array) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield decimals as the fewest bytes of the two's complement of their unscaled values, the most significant byte first."""
    wide = values.cast(pa.decimal128(38, values.type.scale))
    start, data = wide.offset * 16, np.frombuffer(wide.buffers()[1], np.uint8)
    big_endian = data[start : start + len(wide) * 16].reshape(-1, 16)[:, ::-1]
    # A leading byte is superfluous if it and the sign bit of the next byte are all zeros or all ones.
    sign = np.where(big_endian[:, :1] >= 128, np.uint8(255), np.uint8(0))
    is_sign, sign_of_next = big_endian[:, :-1] == sign, (big_endian[:, 1:] >= 128) == (sign == 255)
    superfluous = np.cumprod(is_sign & sign_of_next, axis=1).sum(axis=1)
    for count in np.unique(superfluous):
        yield big_endian[superfluous == count][:, count:]


def _hash_rows(rows: npt.NDArray[np.uint8]) -> Hashes:
    """Return the hash of each row: the upper 63 of the first 64 bits of MurmurHash3 (x64, 128 bits)."""
    count, length = rows.shape
    padded = np.zeros((count, -(-length // 16) * 16), np.uint8)
    padded[:, :length] = rows
    words = padded.view("<u8").astype(np.uint64)
    first = np.full(count, _SEED, np.uint64)
    second = first.copy()
    with np.errstate(over="ignore"):
        for block in range(length // 16):
            first ^= _rotated(words[:, 2 * block] * _C1, 31) * _C2
            first = (_rotated(first, 27) + second) * np.uint64(5) + np.uint64(0x52DCE729)
            second ^= _rotated(words[:, 2 * block + 1] * _C2, 33) * _C1
            second = (_rotated(second, 31) + first) * np.uint64(5) + np.uint64(0x38495AB5)
        if length % 16:  # the last bytes, padded with zeros
            second ^= _rotated(words[:, -1] * _C2, 33) * _C1
            first ^= _rotated(words[:, -2] * _C1, 31) * _C2
        first, second = first ^ np.uint64(length), second ^ np.uint64(length)
        first = first + second
        second = second + first
        first, second = _mixed(first), _mixed(second)
        return (first + second) >> np.uint64(1)


def _rotated(words: Hashes, bits: int) -> Hashes:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _mixed(words: Hashes) -> Hashes:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))
