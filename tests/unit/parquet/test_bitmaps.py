"""Sets of positions in NumPy have the serialized form that pyroaring reads and writes."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap64

from rowmerge.parquet.bitmaps import PositionSet, deserialize, serialize

RANDOM = np.random.default_rng(7)
CASES = {
    "none": [],
    "one": [0],
    "the largest": [2**64 - 1, 2**63],
    "an array of the largest size": range(0, 8192, 2),
    "bits": range(0, 8194, 2),
    "several containers": RANDOM.integers(0, 1 << 20, 100_000),
    "several groups": RANDOM.integers(0, 1 << 40, 10_000),
    "ordinals of tasks": [task << 33 | row for task in (0, 1, 7) for row in range(5000)],
}


@pytest.mark.parametrize("name", CASES)
def test_pyroaring_reads_serialized_positions(name: str) -> None:
    expected = BitMap64(int(position) for position in CASES[name])
    assert BitMap64.deserialize(serialize(np.unique(np.array(list(CASES[name]), np.uint64)))) == expected


@pytest.mark.parametrize("has_runs", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_positions_that_pyroaring_serialized_are_read(name: str, has_runs: bool) -> None:
    bitmap = BitMap64(int(position) for position in CASES[name])
    if has_runs:
        for first in (3, 70_000, 1 << 20, 5 << 20, 1 << 34):
            bitmap |= BitMap64(range(first, first + 30_000))
        bitmap.run_optimize()
    assert deserialize(bitmap.serialize()).tolist() == list(bitmap)


@pytest.mark.parametrize("highest", [300, 40_000, 1 << 30, 1 << 45])
def test_a_set_reports_each_new_position_once(highest: int) -> None:
    positions, expected = PositionSet(), set()
    for size in (1, 1000, 3, 0, 700, 700, 5000, 1):
        batch = RANDOM.integers(0, highest, size).astype(np.uint64)
        added = [int(position) for position in batch[positions.add(batch)]]
        assert sorted(added) == sorted(set(batch.tolist()) - expected)
        expected |= set(batch.tolist())
    assert list(BitMap64.deserialize(positions.serialize())) == sorted(expected)


def test_ordinals_of_several_tasks_take_little_memory() -> None:
    positions = PositionSet()
    expected = np.concatenate([np.arange(20_000, dtype=np.uint64) + np.uint64(task << 33) for task in range(4)])
    for batch in np.array_split(RANDOM.permutation(expected), 9):
        positions.add(batch)
    assert list(BitMap64.deserialize(positions.serialize())) == expected.tolist()
    assert len(positions._bits) < 10_000
