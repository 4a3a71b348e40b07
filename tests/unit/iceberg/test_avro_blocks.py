"""Decoding many Avro blocks together gives the same records as fastavro's decoding of single values."""

from __future__ import annotations

import io
import random
from collections.abc import Collection
from typing import Any

import fastavro
import pytest

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.avro import blocks as avro_blocks, files as avro_files
from rowmerge.iceberg.avro.files import read_avro


def map_entry(name: str, value: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": value}]}


PAIR = {
    "type": "record",
    "name": "k1_v2",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", "bytes"]}],
}
TYPES: dict[str, Any] = {
    "flag": "boolean",
    "number": "int",
    "long": ["null", "long"],
    "odd": ["string", "null", "double"],
    "float": "float",
    "double": "double",
    "text": "string",
    "octets": "bytes",
    "fixed": {"type": "fixed", "name": "fixed_3", "size": 3},
    "list": {"type": "array", "items": "long"},
    "nested": ["null", {"type": "array", "items": {"type": "array", "items": "string"}}],
    "pairs": ["null", {"type": "array", "items": PAIR}],
    "counts": ["null", {"type": "array", "items": map_entry("k3_v4", "long")}],
    "bounds": {"type": "array", "items": map_entry("k5_v6", "bytes")},
    "empty": {"type": "record", "name": "r0", "fields": []},
    "inner": {"type": "record", "name": "r1", "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": ["null", "int"]}]},
}
MAPS = ("counts", "bounds")
"""The columns that block decoding reads as maps, unlike fastavro."""
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": name, "type": type_} for name, type_ in TYPES.items()]}


def record_of(draw: random.Random) -> dict[str, Any]:
    int_values = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31)]
    long_values = [*int_values, 2**62, 2**63 - 1, -(2**63)]
    texts = ["", "a", "ä€", "x" * 200]
    return {
        "flag": draw.choice([True, False]),
        "number": draw.choice(int_values),
        "long": draw.choice([None, *long_values]),
        "odd": draw.choice(["text", None, 2.5]),
        "float": draw.choice([0.0, -1.5, float("inf")]),
        "double": draw.choice([0.0, -1.1, 1e300]),
        "text": draw.choice(texts),
        "octets": draw.choice([b"", b"\xff" * 9, b"Obj\x01"]),
        "fixed": draw.randbytes(3),
        "list": draw.choices(long_values, k=draw.choice([0, 0, 1, 2, 2, 100])),
        "nested": draw.choice([None, [], [[], ["a", "b"]], [["ä"]]]),
        "pairs": draw.choice([None, [], [{"key": n, "value": draw.choice([None, b"v" * n])} for n in range(draw.choice([1, 2, 70]))]]),
        "counts": draw.choice([None, [], [{"key": n, "value": draw.choice(long_values)} for n in range(draw.choice([1, 2, 70]))]]),
        "bounds": [{"key": -n, "value": draw.choice([b"", b"v" * n])} for n in range(draw.choice([0, 1, 2, 70]))],
        "empty": {},
        "inner": {"a": draw.choice(texts), "b": draw.choice([None, 7])},
    }


def write_avro(records: list[dict[str, Any]], codec: str, sync_interval: int, schema: Any = SCHEMA) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, records, codec=codec, sync_interval=sync_interval)
    return stream.getvalue()


def read(data: bytes, monkeypatch: pytest.MonkeyPatch, *, together: bool) -> list[dict[str, Any]]:
    monkeypatch.setattr(avro_blocks, "_MIN_RECORDS_PER_STEP", 1 if together else 2**62)
    return list(read_avro(data, "m.avro", {}).records)


def with_dicts(record: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a record with dicts instead of the arrays of key-value records in the columns `names`."""
    pairs_by_name = {name: record[name] for name in names}
    return record | {
        name: None if pairs is None else {pair["key"]: pair["value"] for pair in pairs} for name, pairs in pairs_by_name.items()
    }


@pytest.mark.parametrize("seed", range(20))
def test_block_decoding_matches_fastavro(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    records = [record_of(draw) for _ in range(draw.choice([1, 50, 300]))]
    data = write_avro(records, draw.choice(["null", "deflate"]), draw.choice([1, 500, 20_000]))
    monkeypatch.setattr(avro_blocks, "_BLOCKS_PER_BATCH", draw.choice([1, 7, 1_000]))
    monkeypatch.setattr(avro_blocks, "_BYTES_PER_BATCH", draw.choice([1, 3_000, 1 << 29]))
    expected = [with_dicts(record, MAPS) for record in read(data, monkeypatch, together=False)]
    assert [record["number"] for record in expected] == [record["number"] for record in records]
    decoded = read(data, monkeypatch, together=True)
    assert decoded == expected
    assert written_again(decoded) == expected


def written_again(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return decoded records after `rowmerge` has written them, and fastavro has read them."""
    data = avro_files.write_avro(SCHEMA, [with_dicts(record, ["pairs"]) for record in records], {})
    return [with_dicts(record, MAPS) for record in fastavro.reader(io.BytesIO(data))]


def test_only_files_with_many_blocks_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    decode_blocks = avro_blocks.decode_blocks
    monkeypatch.setattr(
        "rowmerge.iceberg.avro.files.decode_blocks", lambda *arguments: calls.append(arguments) or decode_blocks(*arguments)
    )
    draw = random.Random(1)
    records = [record_of(draw) for _ in range(100)]
    for sync_interval, expected in ((1, 1), (10**6, 0)):
        calls.clear()
        assert len(list(read_avro(write_avro(records, "null", sync_interval), "m.avro", {}).records)) == 100
        assert len(calls) == expected


def test_other_codecs_and_types_use_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]}
    records = [{"m": {"a": 1}}, {"m": {}}]
    assert read(write_avro(records, "null", 1, schema), monkeypatch, together=True) == records
    simple = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}
    assert read(write_avro([{"n": 1}, {"n": 2}], "bzip2", 1, simple), monkeypatch, together=True) == [{"n": 1}, {"n": 2}]


def test_arrays_with_block_sizes_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative count precedes the size in bytes of its items (Avro spec, Arrays)."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "list", "type": {"type": "array", "items": "int"}}]}
    data = write_avro([{"list": [1, 2]}], "null", 1, schema)
    counted_block, sized_block = b"\x04\x02\x04\x00", b"\x03\x04\x02\x04\x02\x06\x00"
    sync = data[-16:]
    header = data[: data.index(sync) + 16]
    blocks = [bytes([2, 2 * len(part)]) + part + sync for part in (counted_block, sized_block, b"\x00", sized_block)]
    changed_file = header + b"".join(blocks)
    expected = [{"list": [1, 2]}, {"list": [1, 2, 3]}, {"list": []}, {"list": [1, 2, 3]}]
    assert read(changed_file, monkeypatch, together=False) == expected
    assert read(changed_file, monkeypatch, together=True) == expected


@pytest.mark.parametrize("seed", range(200))
def test_damaged_avro_gives_corrupt_log_or_records(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    data = bytearray(write_avro([record_of(draw) for _ in range(40)], draw.choice(["null", "deflate"]), 400))
    if seed % 4 == 0:
        del data[draw.randrange(len(data)) :]
    for _ in range(draw.choice([1, 5])):
        if data:
            data[draw.randrange(len(data))] = draw.choice([0, 1, 127, 128, 255])
    try:
        records = read(bytes(data), monkeypatch, together=True)
    except CorruptLog as error:
        records = []
        message = str(error)
    else:
        message = "m.avro"
    assert "m.avro" in message
    assert all(isinstance(record, dict) for record in records)
