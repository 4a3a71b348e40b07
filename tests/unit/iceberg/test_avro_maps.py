"""Maps of manifests as arrays have the values of the same maps as dicts."""

from __future__ import annotations

import gc
import io
import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.avro import blocks as avro_blocks
from rowmerge.iceberg.avro.blocks import without_garbage_collection
from rowmerge.iceberg.avro.files import read_avro, write_avro
from rowmerge.iceberg.avro.maps import MapSequence, MapView

PAIR: dict[str, Any] = {"type": "record", "name": "k1_v2", "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}]}
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
    arrays = MapSequence(decoded(maps), pa.binary())
    for key in range(-4, 5):
        assert arrays.values_of(key).to_pylist() == [None if map_ is None else map_.get(key) for map_ in maps]


@settings(deadline=None)
@given(MAPS)
def test_arrow_maps_equal_dicts(maps: list[dict[int, bytes] | None]) -> None:
    array = MapSequence(decoded(maps), pa.binary()).as_array()
    array.validate(full=True)
    assert array.to_pylist() == [list(map_.items()) if map_ else None for map_ in maps]


@settings(deadline=None)
@given(MAPS)
def test_a_decoded_map_behaves_as_a_dict(maps: list[dict[int, bytes] | None]) -> None:
    for map_, expected in zip(decoded(maps), maps, strict=True):
        assert isinstance(map_, MapView) == (expected is not None)
        assert map_ == (expected or {})
        assert len(map_) == len(expected or {})
        assert list(map_) == list(expected or {})
        assert list(map_.values()) == list((expected or {}).values())
        assert map_.get(7) is None


def test_some_maps_of_a_column_and_dicts_are_read_together() -> None:
    maps: list[Any] = [{1: b"a"}, {1: b"b", 2: b"c"}, {2: b"d"}, {}, {1: b"e"}]
    from_file = decoded(maps)
    mixed = [from_file[4], from_file[1], maps[2], from_file[0]]
    assert MapSequence(mixed, pa.binary()).values_of(1).to_pylist() == [b"e", b"b", None, b"a"]
    assert MapSequence(mixed, pa.binary()).as_array().to_pylist() == [[(1, b"e")], [(1, b"b"), (2, b"c")], [(2, b"d")], [(1, b"a")]]
    assert MapSequence([], pa.int64()).values_of(1).to_pylist() == []


def with_pairs(pairs: list[list[tuple[int, bytes]]]) -> bytes:
    """Return the bytes of a file with these entries of maps, in blocks of one record."""
    stream = io.BytesIO()
    records = [{"bounds": [{"key": key, "value": value} for key, value in record]} for record in pairs]
    fastavro.writer(stream, SCHEMA, records, sync_interval=1)
    return stream.getvalue()


def test_the_last_value_of_a_repeated_key_counts() -> None:
    maps = [record["bounds"] for record in read_avro(with_pairs([[(1, b"a"), (2, b"b"), (1, b"c")], [(2, b"d")]]), "m.avro", {}).records]
    assert maps == [{1: b"c", 2: b"b"}, {2: b"d"}]
    assert MapSequence(maps, pa.binary()).values_of(1).to_pylist() == [b"c", None]
    assert MapSequence(maps, pa.binary()).as_array().to_pylist() == [[(2, b"b"), (1, b"c")], [(2, b"d")]]
    rewritten = fastavro.reader(io.BytesIO(write_avro(SCHEMA, [{"bounds": map_} for map_ in maps], {})))
    assert [len(record["bounds"]) for record in rewritten] == [2, 1]


def test_a_decoded_map_is_only_written_as_a_map_of_its_type() -> None:
    """The bytes of a map of bytes are no map of numbers."""
    (map_,) = decoded([{1: b"a"}])
    counts = {"type": "array", "items": {**PAIR, "fields": [PAIR["fields"][0], {"name": "value", "type": "long"}]}}
    schema = {**SCHEMA, "fields": [{"name": "bounds", "type": counts}]}
    with pytest.raises(TypeError):
        write_avro(schema, [{"bounds": map_}], {})


def test_a_key_beyond_32_bits_is_an_error() -> None:
    wide = {**PAIR, "fields": [{"name": "key", "type": "long"}, PAIR["fields"][1]]}
    schema = {**SCHEMA, "fields": [{"name": "bounds", "type": {"type": "array", "items": wide}}]}
    data = write_avro(schema, [{"bounds": {2**31: b"a"}}], {})
    with pytest.raises(CorruptLog, match="the key of a map has more than 32 bits"):
        list(read_avro(data, "m.avro", {}).records)


def test_a_pickled_map_is_a_dict() -> None:
    (map_, _) = decoded([{1: b"a"}, {2: b"b"}])
    assert type(pickle.loads(pickle.dumps(map_))) is dict
    assert pickle.loads(pickle.dumps(map_)) == {1: b"a"}


def test_the_garbage_collector_is_enabled_after_decoding_and_in_forked_processes() -> None:
    with without_garbage_collection():
        assert not gc.isenabled()
        process = os.fork()
        if not process:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert gc.isenabled()
    with suppress(ValueError), without_garbage_collection():
        raise ValueError
    assert gc.isenabled()
