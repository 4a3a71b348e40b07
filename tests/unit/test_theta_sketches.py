"""Theta sketches hash values as Apache DataSketches does, and estimate the number of distinct values."""

from __future__ import annotations

import struct
from decimal import Decimal

import mmh3
import numpy as np
import pyarrow as pa
import pytest

from rowmerge.parquet.statistics.theta_sketches import NO_THETA, NOMINAL, estimate, hashes_of, serialize, smallest


def hashed(*values: bytes) -> list[int]:
    """Return the hashes that DataSketches computes of bytes, with an independent MurmurHash3."""
    return sorted(mmh3.hash64(value, 9001, x64arch=True, signed=False)[0] >> 1 for value in values)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100])
def test_strings_of_any_length(length: int) -> None:
    texts = [chr(97 + index) * length for index in range(3)]
    assert hashes_of(pa.array([*texts, None, "", texts[0]])).tolist() == hashed(*(text.encode() for text in texts))


def test_single_value_serializations() -> None:
    assert hashes_of(pa.array([-5, 7], pa.int64())).tolist() == hashed(struct.pack("<q", -5), struct.pack("<q", 7))
    assert hashes_of(pa.array([3], pa.int32())).tolist() == hashed(struct.pack("<i", 3))
    assert hashes_of(pa.array([True, False])).tolist() == hashed(b"\1", b"\0")
    assert hashes_of(pa.array([1.5], pa.float64())).tolist() == hashed(struct.pack("<d", 1.5))
    decimals = [Decimal("-1.28"), Decimal("1.28"), Decimal("0.00"), Decimal("-0.01")]
    expected = hashed(b"\x80", b"\x00\x80", b"\x00", b"\xff")
    assert hashes_of(pa.array(decimals, pa.decimal128(9, 2))).tolist() == expected
    sliced = pa.array(["x", "yy", "z"]).slice(1, 1)
    assert hashes_of(sliced).tolist() == hashed(b"yy")


def test_many_values_are_estimated() -> None:
    hashes, theta = smallest(hashes_of(pa.array(range(100_000), pa.int64())))
    assert len(hashes) == NOMINAL
    assert abs(estimate(hashes, theta) - 100_000) < 5_000
    halves = [smallest(hashes_of(pa.array(range(first, first + 50_000), pa.int64()))) for first in (0, 50_000)]
    merged = smallest(np.concatenate([half for half, _ in halves]), min(limit for _, limit in halves))
    assert estimate(*merged) == estimate(hashes, theta), "the order of merging does not matter"


def test_serialized_forms() -> None:
    header = bytes([1, 3, 3, 0, 0])
    assert serialize(np.empty(0, np.uint64), NO_THETA) == header + bytes([30, 0xCC, 0x93])
    assert serialize(np.array([5], np.uint64), NO_THETA) == header + bytes([58, 0xCC, 0x93]) + struct.pack("<Q", 5)
    exact = serialize(np.array([5, 6], np.uint64), NO_THETA)
    assert exact[:1] + exact[8:16] == bytes([2]) + struct.pack("<if", 2, 1.0)
    estimating = serialize(np.array([5, 6], np.uint64), 9)
    assert (estimating[0], struct.unpack("<q", estimating[16:24])) == (3, (9,))
