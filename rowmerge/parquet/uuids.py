"""Convert UUIDs in Arrow arrays between canonical text, which users see, and 16 bytes, which data files hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CANONICAL = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGIT_PLACES = [place for place in range(36) if place not in (8, 13, 18, 23)]


def uuid_bytes(texts: pa.Array) -> pa.Array:
    """Return the 16 bytes of canonical texts. Raises ValueError for a text that is no UUID."""
    if not len(texts):
        return pa.array([], pa.binary(16))
    digits = pc.replace_substring(texts, "-", "").fill_null("0" * 32).cast(pa.binary(32))
    octets = np.frombuffer(digits.buffers()[1], np.uint8)[digits.offset * 32 :][: len(digits) * 32]
    nibbles = _VALUES_OF_DIGITS[octets]
    if (nibbles > 15).any():
        raise ValueError("a text is no UUID")
    packed = (nibbles[0::2] << 4) | nibbles[1::2]
    return pa.Array.from_buffers(pa.binary(16), len(texts), [_validity(texts), pa.py_buffer(packed.tobytes())])


def uuid_texts(values: pa.Array) -> pa.Array:
    """Return the canonical texts, in small letters, of 16 bytes each."""
    if not len(values):
        return pa.array([], pa.string())
    octets = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 :][: len(values) * 16].reshape(-1, 16)
    texts = np.full((len(values), 36), ord("-"), np.uint8)
    texts[:, _DIGIT_PLACES] = _DIGITS[np.stack([octets >> 4, octets & 15], axis=2).reshape(-1, 32)]
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 36
    buffers = [_validity(values), pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts.tobytes())]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _validity(values: pa.Array) -> pa.Buffer | None:
    return values.is_valid().buffers()[1] if values.null_count else None


def _values_of_digits() -> np.ndarray[Any, Any]:
    """Return the value of each byte as a hexadecimal digit, 255 for a byte that is no digit."""
    values = np.full(256, 255, np.uint8)
    for digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
        values[np.frombuffer(digits, np.uint8)] = np.arange(16)
    return values


_VALUES_OF_DIGITS = _values_of_digits()
