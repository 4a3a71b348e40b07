"""Values of fixed length between statements and files: UUIDs are strings and 16 bytes, at any depth, also in slices and with NULL."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rowmerge.parquet.fitting import to_file_type, to_table_type, uuid_bytes, uuid_texts
from rowmerge.parquet.partitions import PartitionKey, split_by_partition
from rowmerge.parquet.transforms import bucket_hashes, transformed

KEYS = [uuid.UUID(int=0), None, uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), uuid.UUID(int=2**128 - 1), None, uuid.uuid4()]
TEXTS = pa.array([None if key is None else str(key) for key in KEYS], pa.string())
BYTES = pa.array([None if key is None else key.bytes for key in KEYS], pa.binary(16))


@pytest.mark.parametrize(("start", "length"), [(0, 6), (1, 3), (2, 0), (4, 1)])
def test_uuid_strings_and_bytes_convert_both_ways(start: int, length: int) -> None:
    texts, octets = TEXTS.slice(start, length), BYTES.slice(start, length)
    assert uuid_bytes(texts).equals(octets) and uuid_bytes(pc.utf8_upper(texts)).equals(octets)
    assert uuid_texts(octets).equals(texts)


@pytest.mark.parametrize("text", ["", "f79c3e09", "g79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e70"])
def test_an_invalid_uuid_string_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        uuid_bytes(pa.array([text]))


@pytest.mark.parametrize(
    ("values", "table_type", "file_type"),
    [
        (TEXTS.to_pylist(), pa.string(), pa.uuid()),
        ([b"ab", None], pa.binary(), pa.binary(2)),
        ([[TEXTS[0].as_py(), None], None, []], pa.list_(pa.string()), pa.list_(pa.field("element", pa.uuid()))),
        (
            [{"a": TEXTS[2].as_py(), "b": b"x"}, None],
            pa.struct({"a": pa.string(), "b": pa.binary()}),
            pa.struct({"p": pa.uuid(), "q": pa.binary(1)}),
        ),
        ([[("k", TEXTS[0].as_py())], None, []], pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.uuid())),
    ],
)
def test_fixed_length_values_round_trip_through_files(values: list[object], table_type: pa.DataType, file_type: pa.DataType) -> None:
    file_values = to_file_type(pa.array(values, table_type), file_type)
    assert file_values.type == file_type
    assert to_table_type(file_values, table_type, file_type).to_pylist() == values
    assert to_table_type(file_values.slice(1), table_type, file_type).to_pylist() == values[1:]


def test_buckets_hash_the_bytes_of_the_specification() -> None:
    """Iceberg spec, Appendix B."""
    assert bucket_hashes(BYTES.slice(2, 1)).astype("int32").tolist() == [1488055340]
    assert bucket_hashes(pa.array([bytes([0, 1, 2, 3])], pa.binary(4))).astype("int32").tolist() == [-188683207]
    key = PartitionKey("p", "p", ("u",), pa.binary(16), "bucket[16]")
    parts = list(split_by_partition(pa.table({"u": TEXTS}), (key,), empty_is_null=False))
    assert {partition["p"] for partition, _ in parts} == set(transformed(BYTES, "bucket[16]").to_pylist())
    assert sum(rows.num_rows for _, rows in parts) == len(TEXTS)
