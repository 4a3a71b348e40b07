"""Maps of manifests as arrays have the values of the same maps as dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from rowmerge.iceberg.avro import blocks as avro_blocks
from rowmerge.iceberg.avro.files import read_avro, write_avro
from rowmerge.iceberg.avro.maps import MapOfColumn, Maps

PAIR = {"type": "record", "name": "k1_v2", "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}]}
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "bounds", "type": ["null", {"type": "array", "items": PAIR}]}]}
MAPS = st.lists(st.none() | st.dictionaries(st.integers(-3, 3), st.binary(max_size=20), max_size=5), max_size=60)


@pytest.fixture(autouse=True)
def decode_small_files_by_block() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_blocks, "_MIN_RECORDS_PER_STEP", 1)
        patch.setattr("rowmerge.iceberg.avro.files._MIN_BLOCK_BYTES", 100)
        patch.setattr(avro_blocks, "_BLOCKS_PER_BATCH", 3)
        yield


def decoded(maps: list[dict[int, bytes] | None]) -> list[Mapping[int, bytes]]:
    """Return maps after they were written to a file and read from it. Those that were None are empty dicts."""
    data = write_avro(SCHEMA, [{"bounds": map_} for map_ in maps], {})
    return [{} if record["bounds"] is None else record["bounds"] for record in read_avro(data, "m.avro", {}).records]


@settings(deadline=None)
@given(MAPS)
def test_values_of_each_key_equal_those_of_dicts(maps: list[dict[int, bytes] | None]) -> None:
    arrays = Maps.of(decoded(maps), pa.binary())
    for key in range(-4, 5):
        assert arrays.values_of(key).to_pylist() == [None if map_ is None else map_.get(key) for map_ in maps]


@settings(deadline=None)
@given(MAPS)
def test_arrow_maps_equal_dicts(maps: list[dict[int, bytes] | None]) -> None:
    array = Maps.of(decoded(maps), pa.binary()).as_array()
    array.validate(full=True)
    assert array.to_pylist() == [list(map_.items()) if map_ else None for map_ in maps]


@settings(deadline=None)
@given(MAPS)
def test_a_decoded_map_behaves_as_a_dict(maps: list[dict[int, bytes] | None]) -> None:
    for map_, expected in zip(decoded(maps), maps, strict=True):
        assert isinstance(map_, MapOfColumn) == (expected is not None)
        assert map_ == (expected or {})
        assert len(map_) == len(expected or {})
        assert list(map_) == list(expected or {})
        assert list(map_.values()) == list((expected or {}).values())
        assert map_.get(7) is None


def test_some_maps_of_a_column_and_dicts_are_read_together() -> None:
    maps: list[Any] = [{1: b"a"}, {1: b"b", 2: b"c"}, {2: b"d"}, {}, {1: b"e"}]
    from_file = decoded(maps)
    mixed = [from_file[4], from_file[1], maps[2], from_file[0]]
    assert Maps.of(mixed, pa.binary()).values_of(1).to_pylist() == [b"e", b"b", None, b"a"]
    assert Maps.of(mixed, pa.binary()).as_array().to_pylist() == [[(1, b"e")], [(1, b"b"), (2, b"c")], [(2, b"d")], [(1, b"a")]]
    assert Maps.of([], pa.int64()).values_of(1).to_pylist() == []
