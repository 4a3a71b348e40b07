"""Iceberg's partition transforms over Arrow arrays (Iceberg spec, Partition Transforms and Appendix B), and the folders of their values.

Runs on executors too, sent there by value (see spark/writing/executors.py), so nothing here may import rowmerge. A transform is given by
the spec's text (`bucket[16]`); null becomes null.
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
    """The partition values: int32 for buckets and times (counted since 1970), the type of the values for the others.

    `values` are integers, decimals, strings, binaries, dates, times and timestamps in microseconds, where the transform takes them.
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
    """A partition value as the name of a folder gives it, as Iceberg's Java writes it; only a habit, manifests hold the value."""
    if value is None:
        text = "null"
    elif transform == "year":
        text = f"{1970 + value:04d}"
    elif transform == "month":
        text = f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
    elif transform == "day":
        text = str(np.datetime64(value, "D"))
    elif transform == "hour":
        text = str(np.datetime64(value, "h")).replace("T", "-")
    elif isinstance(value, bytes):
        text = base64.b64encode(value).decode()
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, datetime.datetime):
        text = value.isoformat().replace("+00:00", "Z")
    else:
        text = str(value)
    return urllib.parse.quote_plus(text)


# ------------------------------------------------------------------ times and widths


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
    # In 64 bits and cut to the type: what falls below its least number comes out at the top, as in Java.
    return _with_nulls((numbers - numbers.astype(np.int64) % width).astype(numbers.dtype), values)


def _truncated_decimals(values: pa.Array, width: int) -> pa.Array:
    """The unscaled values less what is left over by the width: 128-bit numbers in four limbs, the least significant one first."""
    limbs = _wide(values).view("<u4").astype(np.int64)
    limbs[:, 3] = limbs[:, 3].astype(np.int32)
    left = np.zeros(len(limbs), dtype=np.int64)
    for place in (3, 2, 1, 0):
        left = ((left << 32) + limbs[:, place]) % width
    for place in (0, 1, 2, 3):
        limbs[:, place] -= left
        left = (limbs[:, place] < 0).astype(np.int64)
    data = pa.py_buffer(limbs.astype("<u4").tobytes())
    return pa.Array.from_buffers(values.type, len(values), [values.is_valid().buffers()[1], data])


def _wide(values: pa.Array) -> Numbers:
    """The unscaled values of decimals: 16 bytes a row, little-endian two's complement."""
    values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    whole: Numbers = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, 16)
    found = whole[values.offset : values.offset + len(values)].copy()
    found[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def _numbers(values: pa.Array) -> Numbers:
    numbers: Numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _with_nulls(numbers: Numbers, values: pa.Array) -> pa.Array:
    return pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)


# ------------------------------------------------------------------ Murmur3, x86, 32 bits, seed 0


def hashes(values: pa.Array) -> Numbers:
    """The hash of every value as the spec's Appendix B has it, as unsigned 32-bit numbers; that of a null means nothing."""
    type_ = values.type
    if pa.types.is_integer(type_):
        return _hashed_longs(_numbers(values.cast(pa.int64())))
    if pa.types.is_date(type_):
        return _hashed_longs(_numbers(values.cast(pa.date32()).view(pa.int32())))
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return _hashed_longs(_numbers(values.view(pa.int64())))
    if pa.types.is_decimal(type_):
        return _hashed_decimals(_wide(values))
    if pa.types.is_fixed_size_binary(type_):
        values = values.cast(pa.binary())
    encoded = values.dictionary_encode(null_encoding="encode")
    unique = encoded.dictionary.fill_null("" if pa.types.is_string(type_) or pa.types.is_large_string(type_) else b"")
    unique = unique.cast(pa.large_binary())
    _, offsets, data = unique.buffers()
    bounds = np.frombuffer(offsets, np.int64)[unique.offset : unique.offset + len(unique) + 1]
    octets = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    found: Numbers = _hashed_bytes(octets, bounds[:-1], np.diff(bounds))[encoded.indices.to_numpy(zero_copy_only=False)]
    return found


def _hashed_longs(numbers: Numbers) -> Numbers:
    words = np.ascontiguousarray(numbers.astype("<i8")).view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), np.uint32)
    for place in (0, 1):
        state = _stirred(state, _mixed(words[:, place]))
    return _final(state, np.uint32(8))


def _hashed_decimals(unscaled: Numbers) -> Numbers:
    """Of the fewest bytes that hold the number in big-endian two's complement."""
    octets = unscaled[:, ::-1]
    fill = np.where(octets[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte says nothing when it repeats the sign that the next one begins with.
    idle = (octets[:, :-1] == fill) & ((octets[:, 1:] >= 0x80) == (fill == 0xFF))
    spare = np.cumprod(idle, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(len(octets), dtype=np.int64) * 16 + spare
    return _hashed_bytes(np.ascontiguousarray(octets).reshape(-1), starts, 16 - spare)


def _hashed_bytes(octets: Numbers, starts: Numbers, lengths: Numbers) -> Numbers:
    """The hashes of slices of bytes: the first block of all, then the second one of those that have it, and so on."""
    # The longest first: those that still have a block are then always at the front.
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order].astype(np.int64), lengths[order].astype(np.int64)
    octets = np.concatenate([octets, np.zeros(4, np.uint8)])
    blocks = lengths // 4
    alive = np.searchsorted(-blocks, -np.arange(int(blocks.max(initial=0))), side="left")
    state = np.zeros(len(starts), np.uint32)
    for place, count in enumerate(alive.tolist()):
        state[:count] = _stirred(state[:count], _mixed(_words(octets, starts[:count] + 4 * place)))
    tail = (lengths % 4).astype(np.uint32)
    last = _words(octets, starts + 4 * blocks) & ((np.uint32(1) << (8 * tail)) - np.uint32(1))
    state ^= np.where(tail > 0, _mixed(last), 0).astype(np.uint32)
    found = np.empty_like(state)
    found[order] = _final(state, lengths.astype(np.uint32))
    return found


def _words(octets: Numbers, starts: Numbers) -> Numbers:
    """The four bytes from each of these places on, as a little-endian number."""
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
