"""Avro records are encoded with the same bytes as in fastavro."""

from __future__ import annotations

import io
import random
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from rowmerge.iceberg.avro.encoding import build_encoder
from rowmerge.iceberg.avro.files import read_avro, write_avro
from tests.unit.iceberg.test_avro_blocks import MAPS, SCHEMA, TYPES, record_of, with_dicts

PAIRS = ("pairs", *MAPS)
DECIMAL = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}


def encode_with_fastavro(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def encode(schema: Any, value: Any) -> bytes:
    parts: list[bytes] = []
    build_encoder(schema)(value, parts.append)
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(10))
def test_encoded_records_equal_those_of_fastavro(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        record = record_of(draw)
        assert encode(SCHEMA, with_dicts(record, PAIRS)) == encode_with_fastavro(SCHEMA, record)


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, -65, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_integers_are_encoded_with_variable_length(number: int) -> None:
    assert encode("long", number) == encode_with_fastavro("long", number)
    assert encode(["null", "long"], number) == b"\2" + encode_with_fastavro("long", number)


def test_logical_types_are_encoded_from_their_stored_form() -> None:
    assert encode(["null", DECIMAL], Decimal("-12.34")) == b"\2" + struct.pack(">i", -1234)
    assert encode({"type": "int", "logicalType": "date"}, 20_000) == encode_with_fastavro("int", 20_000)
    assert encode({"type": "long", "logicalType": "timestamp-micros"}, -1) == b"\1"
    assert encode({"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}, bytes(range(16))) == bytes(range(16))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", None),
        ("long", 2**63),
        ("long", "1"),
        ("string", None),
        ("string", b"bytes"),
        ("double", "x"),
        (TYPES["fixed"], b"12"),
        (DECIMAL, Decimal("12345678901")),
        (["null", "long"], "1"),
    ],
)
def test_values_of_wrong_types_are_refused(type_: Any, value: Any) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, OverflowError, struct.error)):
        encode(type_, value)


@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_written_files_are_read_by_fastavro_and_rowmerge(count: int) -> None:
    draw = random.Random(count)
    records = [record_of(draw) for _ in range(count)]
    data = write_avro(SCHEMA, [with_dicts(record, PAIRS) for record in records], {"of": "ours"})
    reader = fastavro.reader(io.BytesIO(data))
    assert [record["fixed"] for record in reader] == [record["fixed"] for record in records]
    assert reader.metadata["of"] == "ours"
    read = read_avro(data, "m.avro", {})
    assert read.metadata["of"] == "ours"
    assert [(r["long"], r["text"]) for r in read.records] == [(r["long"], r["text"]) for r in records]
