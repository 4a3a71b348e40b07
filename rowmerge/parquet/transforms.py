"""Apply Iceberg's partition transforms to Arrow arrays (Iceberg spec, Partition Transforms and Appendix B), and name folders of values.

A transform is the spec's text, such as `bucket[16]`. NULL becomes NULL.
"""

from __future__ import annotations

import base64
import datetime
import urllib.parse
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = np.ndarray[Any, Any]

_MICROS = {"day": 86_400_000_000, "hour": 3_600_000_000}
_UNITS = {"year": "Y", "month": "M"}


def transformed(values: pa.Array, transform: str) -> pa.Array:
    """Return the partition values: int32 for buckets and times (since 1970), the type of the values for the others.

    `values` are integers, decimals, strings, binaries, dates, times and timestamps in microseconds, as the transform allows.
    """
    name, _, parameter = transform.rstrip("]").partition("[")
    match name:
        case "identity":
            return values
        case "void":
            return pa.nulls(len(values), values.type)
        case "bucket":
            buckets = (hashes(values) & 0x7FFFFFFF) % int(parameter)
            return _with_nulls(buckets.astype(np.int32), values)
        case "truncate":
            return _truncated(values, int(parameter))
    return _with_nulls(_since_1970(values, name).astype(np.int32), values)


def folder_text(value: Any, transform: str) -> str:
    """Return a partition value as Iceberg's Java writes it in the name of a folder. The name has no meaning: manifests hold the value."""
    return urllib.parse.quote_plus("null" if value is None else _value_text(value, transform))


def _value_text(value: Any, transform: str) -> str:
    """Return a partition value other than NULL as text."""
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


def _since_1970(values: pa.Array, unit: str) -> Numbers:
    if pa.types.is_date(values.type):
        days = _numbers(values.cast(pa.date32()).view(pa.int32()))
        return days if unit == "day" else days.astype("datetime64[D]").astype(f"datetime64[{_UNITS[unit]}]").astype(np.int64)
    micros = _numbers(values.view(pa.int64()))
    if unit in _MICROS:
        return micros // _MICROS[unit]
    return micros.astype("datetime64[us]").astype(f"datetime64[{_UNITS[unit]}]").astype(np.int64)


def _truncated(values: pa.Array, width: int) -> pa.Array:
    type_ = values.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return pc.utf8_slice_codeunits(values, 0, width)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_decimal(type_):
        return _truncated_decimals(values, width)
    numbers = _numbers(values)
    # Computed in 64 bits and cut to the type: a result below the type's minimum wraps around to its maximum, as in Java.
    return _with_nulls((numbers - numbers.astype(np.int64) % width).astype(numbers.dtype), values)


def _truncated_decimals(values: pa.Array, width: int) -> pa.Array:
    """Subtract the remainder of the division by the width from the unscaled values, which are 128-bit numbers.

    A number has four limbs of 32 bits, the least significant limb first. The last limb has the sign.
    """
    limbs = _unscaled_bytes(values).view("<u4").astype(np.int64)
    limbs[:, 3] = limbs[:, 3].astype(np.int32)
    remainder = np.zeros(len(limbs), dtype=np.int64)
    for limb in (3, 2, 1, 0):
        remainder = ((remainder << 32) + limbs[:, limb]) % width
    borrow = remainder
    for limb in (0, 1, 2, 3):
        limbs[:, limb] -= borrow
        borrow = (limbs[:, limb] < 0).astype(np.int64)
    data = pa.py_buffer(limbs.astype("<u4").tobytes())
    return pa.Array.from_buffers(values.type, len(values), [values.is_valid().buffers()[1], data])


def _unscaled_bytes(values: pa.Array) -> Numbers:
    """Return the unscaled values of decimals: 16 bytes a row, little-endian two's complement, 0 for NULL."""
    values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    buffer: Numbers = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, 16)
    unscaled = buffer[values.offset : values.offset + len(values)].copy()
    unscaled[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return unscaled


def _numbers(values: pa.Array) -> Numbers:
    numbers: Numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _with_nulls(numbers: Numbers, values: pa.Array) -> pa.Array:
    return pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)


def hashes(values: pa.Array) -> Numbers:
    """Return Murmur3 hashes (x86, 32 bits, seed 0; Iceberg spec, Appendix B) as unsigned numbers. The hash of a NULL means nothing."""
    type_ = values.type
    if pa.types.is_integer(type_):
        return _hashed_longs(_numbers(values.cast(pa.int64())))
    if pa.types.is_date(type_):
        return _hashed_longs(_numbers(values.cast(pa.date32()).view(pa.int32())))
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return _hashed_longs(_numbers(values.view(pa.int64())))
    if pa.types.is_decimal(type_):
        return _hashed_decimals(_unscaled_bytes(values))
    return _hashed_texts(values.cast(pa.binary()) if pa.types.is_fixed_size_binary(type_) else values)


def _hashed_texts(values: pa.Array) -> Numbers:
    """Return the hashes of strings or binaries. Each distinct value is hashed once."""
    is_string = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    encoded = values.dictionary_encode(null_encoding="encode")
    distinct = encoded.dictionary.fill_null("" if is_string else b"").cast(pa.large_binary())
    _, offsets, data = distinct.buffers()
    bounds = np.frombuffer(offsets, np.int64)[distinct.offset : distinct.offset + len(distinct) + 1]
    octets = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    distinct_hashes = _hashed_bytes(octets, bounds[:-1], np.diff(bounds))
    value_hashes: Numbers = distinct_hashes[encoded.indices.to_numpy(zero_copy_only=False)]
    return value_hashes


def _hashed_longs(numbers: Numbers) -> Numbers:
    """Return the hashes of 8 bytes each: two blocks and no tail."""
    blocks = np.ascontiguousarray(numbers.astype("<i8")).view("<u4").reshape(-1, 2)
    state = np.zeros(len(blocks), np.uint32)
    for index in (0, 1):
        state = _stirred(state, _mixed(blocks[:, index]))
    return _final(state, np.uint32(8))


def _hashed_decimals(unscaled: Numbers) -> Numbers:
    """Return the hashes of the fewest bytes that hold each number in big-endian two's complement."""
    octets = unscaled[:, ::-1]
    sign_byte = np.where(octets[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte is redundant if it repeats the sign and the next byte begins with the sign, too.
    is_redundant = (octets[:, :-1] == sign_byte) & ((octets[:, 1:] >= 0x80) == (sign_byte == 0xFF))
    redundant_count = np.cumprod(is_redundant, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(len(octets), dtype=np.int64) * 16 + redundant_count
    return _hashed_bytes(np.ascontiguousarray(octets).reshape(-1), starts, 16 - redundant_count)


def _hashed_bytes(octets: Numbers, starts: Numbers, lengths: Numbers) -> Numbers:
    """Return the hashes of slices of bytes: the first block of all slices, then the second block of those that have it, and so on."""
    # The longest slices come first, so that the slices which still have a block are always at the front.
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order].astype(np.int64), lengths[order].astype(np.int64)
    octets = np.concatenate([octets, np.zeros(4, np.uint8)])  # a block is read as a whole, also at the end of the last slice
    block_counts = lengths // 4
    slices_with_block = np.searchsorted(-block_counts, -np.arange(int(block_counts.max(initial=0))), side="left")
    state = np.zeros(len(starts), np.uint32)
    for block, count in enumerate(slices_with_block.tolist()):
        state[:count] = _stirred(state[:count], _mixed(_words(octets, starts[:count] + 4 * block)))
    tail_lengths = (lengths % 4).astype(np.uint32)
    tails = _words(octets, starts + 4 * block_counts) & ((np.uint32(1) << (8 * tail_lengths)) - np.uint32(1))
    state ^= np.where(tail_lengths > 0, _mixed(tails), 0).astype(np.uint32)
    hashes_in_order = np.empty_like(state)
    hashes_in_order[order] = _final(state, lengths.astype(np.uint32))
    return hashes_in_order


def _words(octets: Numbers, starts: Numbers) -> Numbers:
    """Return the four bytes from each of these indexes on, as a little-endian number."""
    overlapping: Numbers = np.ndarray((octets.size - 3,), "<u4", octets.data, strides=(1,))
    return overlapping[starts]


def _mixed(words: Numbers) -> Numbers:
    return _rotated(words.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _stirred(state: Numbers, mixed: Numbers) -> Numbers:
    return _rotated(state ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _final(state: Numbers, lengths: Numbers | np.uint32) -> Numbers:
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state


def _rotated(words: Numbers, bits: int) -> Numbers:
    rotated: Numbers = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return rotated
