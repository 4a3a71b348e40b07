"""Apply Iceberg's partition transforms to Arrow arrays ("Partition Transforms" and Appendix B of the Iceberg specification).

A transform is a string of the specification, such as `bucket[16]`. The transformed value of NULL is NULL.
"""

from __future__ import annotations

import base64
import datetime
import urllib.parse
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NumpyArray = np.ndarray[Any, Any]

_MICROS = {"day": 86_400_000_000, "hour": 3_600_000_000}
_UNITS = {"year": "Y", "month": "M"}


def transformed(values: pa.Array, transform: str) -> pa.Array:
    """Apply a partition transform ("Partition Transforms" in the Iceberg specification).

    Args:
        values: Integers, decimals, strings, binary values, dates, or times and timestamps in microseconds. The transform must support them.
        transform: The transform as a string, such as `bucket[16]`.

    Returns:
        The transformed values. Buckets, and years, months, days and hours since 1970, have the type int32. Other results have the type of
        `values`.
    """
    name, _, parameter = transform.rstrip("]").partition("[")
    match name:
        case "identity":
            return values
        case "void":
            return pa.nulls(len(values), values.type)
        case "bucket":
            # The mask keeps all bits of a hash except the sign, so that the number of a bucket is not negative.
            buckets = (bucket_hashes(values) & 0x7FFFFFFF) % int(parameter)
            return _with_nulls(buckets.astype(np.int32), values)
        case "truncate":
            return _truncated(values, int(parameter))
        case unit:  # year, month, day or hour
            return _with_nulls(_since_1970(values, unit).astype(np.int32), values)


def folder_text(value: Any, transform: str) -> str:
    """Return a partition value as the Java implementation of Iceberg writes it in a folder name. Readers take it from manifests instead.

    Args:
        value: The partition value, None for NULL. Years, months, days and hours are integers counted from 1970.
        transform: The transform of the partition field as a string.
    """
    return urllib.parse.quote_plus("null" if value is None else value_text(value, transform))


def value_text(value: Any, transform: str) -> str:
    """Return a partition value other than NULL as a string, for example for a folder name.

    Values of the time transforms are integers: the years, months, days or hours since 1970. For example, the month 649 becomes `2024-02`.
    """
    match transform:
        case "year":
            return f"{1970 + value:04d}"
        case "month":
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        case "day":
            return str(np.datetime64(value, "D"))
        case "hour":
            return str(np.datetime64(value, "h")).replace("T", "-")
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.isoformat().replace("+00:00", "Z")
    return str(value)


def _since_1970(values: pa.Array, unit: str) -> NumpyArray:
    """Return the number of years, months, days or hours from 1970-01-01 to each date or timestamp."""
    if pa.types.is_date(values.type):
        days = _to_numpy(values.cast(pa.date32()).view(pa.int32()))
        return days if unit == "day" else days.astype("datetime64[D]").astype(f"datetime64[{_UNITS[unit]}]").astype(np.int64)
    micros = _to_numpy(values.view(pa.int64()))
    if unit in _MICROS:
        return micros // _MICROS[unit]
    return micros.astype("datetime64[us]").astype(f"datetime64[{_UNITS[unit]}]").astype(np.int64)


def _truncated(values: pa.Array, width: int) -> pa.Array:
    """Truncate strings and binary values to the width, and round numbers down to a multiple of the width."""
    type_ = values.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return pc.utf8_slice_codeunits(values, 0, width)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_decimal(type_):
        return _truncated_decimals(values, width)
    numbers = _to_numpy(values)
    remainders = numbers.astype(np.int64) % width  # as int64, because the width may exceed a smaller type
    # The cast wraps a result below the type's minimum around to its maximum, as in Java.
    return _with_nulls((numbers - remainders).astype(numbers.dtype), values)


def _truncated_decimals(values: pa.Array, width: int) -> pa.Array:
    """Truncate decimals to multiples of the width: subtract the remainder from the unscaled value ("Truncate Transform Details").

    NumPy has no 128-bit integers, so an unscaled value is represented by four limbs. These are its digits in base 2**32, one in each column
    of an int64 array. The first limb is the least significant one, and the last limb contains the sign.

    For example, 2**32 + 3 has the limbs 3, 1, 0 and 0. With the width 10, its remainder is 9. The first limb becomes 3 - 9 = -6. It borrows
    2**32 from the second limb, so the result has the limbs 2**32 - 6, 0, 0 and 0.
    """
    limbs = _unscaled_bytes(values).view("<u4").astype(np.int64)
    limbs[:, 3] = limbs[:, 3].astype(np.int32)  # a last limb from 2**31 on is negative
    _subtract(limbs, _remainders(limbs, width))
    data = pa.py_buffer(limbs.astype("<u4").tobytes())  # the cast adds the borrowed 2**32 to a negative limb
    # The first buffer of an array is its validity bitmap, which marks NULLs. The data buffer of the booleans `is_valid` is such a bitmap.
    return pa.Array.from_buffers(values.type, len(values), [values.is_valid().buffers()[1], data])


def _subtract(limbs: NumpyArray, subtrahends: NumpyArray) -> None:
    """Subtract a number of 32 bits from each row of limbs, in place. A limb that borrows stays negative (see `_truncated_decimals`)."""
    for index in range(4):  # from the least significant limb
        limbs[:, index] -= subtrahends
        subtrahends = (limbs[:, index] < 0).astype(np.int64)  # a negative limb borrows 1 from the next limb


def _remainders(limbs: NumpyArray, width: int) -> NumpyArray:
    """Return the remainders of a long division by the width, from the most significant limb (see `_truncated_decimals`).

    The width has 32 bits, so each step of the division fits into an int64. Remainders are never negative (NumPy's `%`), so negative values
    are rounded down, as the specification requires.
    """
    remainders = np.zeros(len(limbs), dtype=np.int64)
    for index in (3, 2, 1, 0):
        remainders = ((remainders << 32) + limbs[:, index]) % width
    return remainders


def _unscaled_bytes(values: pa.Array) -> NumpyArray:
    """Return the unscaled values of decimals, 0 for NULL. Each row contains an integer of 16 bytes in little-endian two's complement."""
    values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    buffer: NumpyArray = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, 16)
    unscaled = buffer[values.offset : values.offset + len(values)].copy()
    unscaled[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return unscaled


def _to_numpy(values: pa.Array) -> NumpyArray:
    """Return integers as a NumPy array, with 0 for NULL."""
    numbers: NumpyArray = values.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _with_nulls(numbers: NumpyArray, values: pa.Array) -> pa.Array:
    """Return numbers as an Arrow array that is NULL wherever `values` is NULL."""
    return pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)


def bucket_hashes(values: pa.Array) -> NumpyArray:
    """Return the hashes for the bucket transform: MurmurHash3 (x86, 32 bits, seed 0; Appendix B of the Iceberg specification).

    The hashes are unsigned. The hash of a NULL is arbitrary.
    """
    type_ = values.type
    if pa.types.is_integer(type_):
        return _hash_longs(_to_numpy(values.cast(pa.int64())))
    # Dates are hashed as days since 1970, and times and timestamps as microseconds. These are the integers that Arrow stores.
    if pa.types.is_date(type_):
        return _hash_longs(_to_numpy(values.cast(pa.date32()).view(pa.int32())))
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return _hash_longs(_to_numpy(values.view(pa.int64())))
    if pa.types.is_decimal(type_):
        return _hash_decimals(_unscaled_bytes(values))
    return _hash_bytes(values.cast(pa.binary()) if pa.types.is_fixed_size_binary(type_) else values)


def _hash_bytes(values: pa.Array) -> NumpyArray:
    """Return the MurmurHash3 hashes of strings or binary values. Each distinct value is hashed once."""
    is_string = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    encoded = values.dictionary_encode(null_encoding="encode")
    distinct = encoded.dictionary.fill_null("" if is_string else b"").cast(pa.large_binary())
    _, offsets, data = distinct.buffers()
    bounds = np.frombuffer(offsets, np.int64)[distinct.offset : distinct.offset + len(distinct) + 1]
    bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    distinct_hashes = _hash_slices(bytes_, bounds[:-1], np.diff(bounds))
    value_hashes: NumpyArray = distinct_hashes[encoded.indices.to_numpy(zero_copy_only=False)]
    return value_hashes


def _hash_longs(numbers: NumpyArray) -> NumpyArray:
    """Return the MurmurHash3 hashes of 64-bit integers. Each has two blocks of 4 bytes and no tail."""
    low_blocks, high_blocks = np.ascontiguousarray(numbers.astype("<i8")).view("<u4").reshape(-1, 2).T
    state = _add_block(np.zeros(len(numbers), np.uint32), _mix_block(low_blocks))
    return _finalize(_add_block(state, _mix_block(high_blocks)), np.uint32(8))


def _hash_decimals(unscaled: NumpyArray) -> NumpyArray:
    """Return the MurmurHash3 hashes of unscaled values, each as the shortest big-endian two's complement that represents the value."""
    big_endian = unscaled[:, ::-1]
    sign_byte = np.where(big_endian[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte is redundant if it only repeats the sign and the next byte also begins with the sign.
    is_redundant = (big_endian[:, :-1] == sign_byte) & ((big_endian[:, 1:] >= 0x80) == (sign_byte == 0xFF))
    redundant_count = np.cumprod(is_redundant, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(len(big_endian), dtype=np.int64) * 16 + redundant_count
    return _hash_slices(np.ascontiguousarray(big_endian).reshape(-1), starts, 16 - redundant_count)


def _hash_slices(bytes_: NumpyArray, starts: NumpyArray, lengths: NumpyArray) -> NumpyArray:
    """Return the MurmurHash3 hashes (x86, 32 bits) of slices of a byte array.

    MurmurHash3 processes the blocks of 4 bytes, then the tail of up to 3 bytes, and then the length. Each step hashes one block of every
    slice that is long enough: first the first blocks, then the second blocks, and so on.

    Args:
        bytes_: The byte array that contains all slices.
        starts: The index of the first byte of each slice.
        lengths: The length of each slice in bytes.
    """
    # The longest slices come first, so the slices that have a block are always at the front.
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order].astype(np.int64), lengths[order].astype(np.int64)
    bytes_ = np.concatenate([bytes_, np.zeros(4, np.uint8)])  # a tail is read as a whole block, even at the end of the last slice
    state = np.zeros(len(starts), np.uint32)
    for block_index, slice_count in enumerate(_slices_with_block(lengths).tolist()):
        blocks = _blocks_at(bytes_, starts[:slice_count] + 4 * block_index)
        state[:slice_count] = _add_block(state[:slice_count], _mix_block(blocks))
    state ^= _mixed_tails(bytes_, starts, lengths)
    hashes = np.empty_like(state)
    hashes[order] = _finalize(state, lengths.astype(np.uint32))  # back to the order of the arguments
    return hashes


def _slices_with_block(lengths: NumpyArray) -> NumpyArray:
    """Return, by index of a block of 4 bytes, how many slices have this block. Lengths descend: [9, 8, 5] results in [3, 2]."""
    block_counts = lengths // 4
    # searchsorted requires ascending numbers, so the counts are negated.
    return np.searchsorted(-block_counts, -np.arange(int(block_counts.max(initial=0))), side="left")


def _mixed_tails(bytes_: NumpyArray, starts: NumpyArray, lengths: NumpyArray) -> NumpyArray:
    """Return the mixed last 1 to 3 bytes of each slice, or 0 if its length is a multiple of 4."""
    tail_lengths = (lengths % 4).astype(np.uint32)
    tail_masks = (np.uint32(1) << (8 * tail_lengths)) - np.uint32(1)  # of a block, only the bytes of the tail count
    tails = _blocks_at(bytes_, starts + lengths - lengths % 4) & tail_masks
    return np.where(tail_lengths > 0, _mix_block(tails), 0).astype(np.uint32)


def _blocks_at(bytes_: NumpyArray, starts: NumpyArray) -> NumpyArray:
    """Return the four bytes that begin at each of these indexes, as a little-endian number."""
    overlapping_blocks: NumpyArray = np.ndarray((bytes_.size - 3,), "<u4", bytes_.data, strides=(1,))
    return overlapping_blocks[starts]


def _mix_block(blocks: NumpyArray) -> NumpyArray:
    """Return the mixed blocks, which MurmurHash3 adds to its state."""
    return _rotate_left(blocks.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _add_block(state: NumpyArray, mixed: NumpyArray) -> NumpyArray:
    """Return the state of MurmurHash3 after a mixed block has been added."""
    return _rotate_left(state ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finalize(state: NumpyArray, lengths: NumpyArray | np.uint32) -> NumpyArray:
    """Return the hashes, computed from the final state of MurmurHash3 and the number of hashed bytes (`fmix32`)."""
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state


def _rotate_left(words: NumpyArray, bits: int) -> NumpyArray:
    rotated: NumpyArray = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return rotated
