"""Encoding and decoding of paths and partition values follow Delta's protocol."""

from __future__ import annotations

import datetime
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rowmerge.delta.files.paths import absolute_path, absolute_paths, log_path
from rowmerge.delta.files.text_values import from_text, partition_text
from rowmerge.errors import CorruptLog, TypeMismatch
from rowmerge.table.metadata.schema import DataType, Decimal, Field, Primitive, Struct, arrow_type
from tests.support.delta_tables import Lake, committed

UTC = datetime.timezone.utc
RELATIVE_PATHS = ["x=A%2FA/p.parquet", "a b/ü?#[].parquet", "100%/+&=@:.parquet", "a:/b.parquet", "~tilde'(1)!.parquet"]


def test_an_encoded_folder_name_is_encoded_again_in_the_log() -> None:
    assert log_path("file:///t", "file:///t/x=A%2FA/p") == "x=A%252FA/p"


@pytest.mark.parametrize("path", RELATIVE_PATHS)
def test_relative_paths_round_trip(path: str) -> None:
    spelled = log_path("file:///t", f"file:///t/{path}")
    assert not set(spelled) & set(' #?[]"<>^`{|}')
    assert absolute_paths("file:///t", pa.chunked_array([[spelled]])).to_pylist() == [f"file:///t/{path}"]


def test_paths_outside_the_table_stay_absolute() -> None:
    spelled = log_path("s3://b/t", "s3://other/a b.parquet")
    assert spelled == "s3://other/a%20b.parquet"
    assert absolute_paths("s3://b/t", pa.chunked_array([[spelled, "p"]])).to_pylist() == ["s3://other/a b.parquet", "s3://b/t/p"]


@pytest.mark.parametrize(
    ("location", "path", "expected"),
    [
        ("file:///t", "/x/y%20z", "file:///x/y z"),
        ("file:///t", "file:/x/y", "file:///x/y"),
        ("file:///t", "file:///x/y", "file:///x/y"),
        ("s3://b/t", "/x/y", "s3://b/x/y"),
        ("s3://b/t", "s3a://c/x", "s3a://c/x"),
    ],
)
def test_absolute_paths_get_their_scheme(location: str, path: str, expected: str) -> None:
    assert absolute_path(location, path) == expected


def test_a_folder_with_the_table_name_as_prefix_is_outside_the_table() -> None:
    assert log_path("file:///t", "file:///t2/p") == "file:///t2/p"


MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("string", "A/A", "A/A"),
        ("long", -5, "-5"),
        ("byte", 1, "1"),
        ("boolean", True, "true"),
        ("boolean", False, "false"),
        ("date", datetime.date(24, 1, 2), "0024-01-02"),
        ("timestamp", MOMENT, "2024-01-02T03:04:05.123456Z"),
        ("timestamp_ntz", MOMENT.replace(tzinfo=None), "2024-01-02 03:04:05.123456"),
        ("timestamp_ntz", datetime.datetime(1970, 1, 1), "1970-01-01 00:00:00"),
        ("double", 1.5, "1.5"),
        ("double", float("inf"), "Infinity"),
        (Decimal(10, 3), Number("0.000"), "0.000"),
        (Decimal(38, 0), Number("12345678901234567890123456789012345678"), "12345678901234567890123456789012345678"),
        ("binary", b"abc", "abc"),
        ("string", None, None),
    ],
)
def test_partition_values_round_trip(type_: str | DataType, value: Any, text: str | None) -> None:
    type_ = Primitive(type_) if isinstance(type_, str) else type_
    assert partition_text(value, type_) == text
    assert from_text(pa.array([text], pa.string()), arrow_type(type_)).to_pylist() == [value]


def test_an_empty_partition_value_is_null() -> None:
    assert partition_text("", Primitive("string")) is None
    assert partition_text(b"", Primitive("binary")) is None


@pytest.mark.parametrize("text", ["2024-01-02 03:04:05.123456", "2024-01-02T03:04:05.123456Z", "2024-01-02T05:04:05.123456+02:00"])
def test_all_timestamp_formats_give_the_same_instant(text: str) -> None:
    assert from_text(pa.array([text]), arrow_type(Primitive("timestamp"))).to_pylist() == [MOMENT]


def test_a_date_without_time_is_midnight_utc() -> None:
    assert from_text(pa.array(["2024-01-02"]), arrow_type(Primitive("timestamp"))).to_pylist() == [
        datetime.datetime(2024, 1, 2, tzinfo=UTC)
    ]


PARTITIONED = Struct(
    (Field("id", Primitive("long")), Field("name", Primitive("string")), Field("x", Primitive("string")), Field("n", Primitive("integer")))
)


def test_a_listing_has_typed_partition_values_and_decoded_paths(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "a table", PARTITIONED, ("x", "n"))
    file = lake.file([1], "x=A%2FA/n=1", {"x": "A/A", "n": 1})
    file_of_null_partition = lake.file([2], "x=__HIVE_DEFAULT_PARTITION__/n=__HIVE_DEFAULT_PARTITION__", {"x": "", "n": None})
    committed(lake.create(file, file_of_null_partition))
    rows = lake.table.snapshot().files().rows.sort_by("path").to_pylist()
    assert {row["path"]: row["partition"] for row in rows} == {
        file.path: {"x": "A/A", "n": 1},
        file_of_null_partition.path: {"x": None, "n": None},
    }


def test_a_partition_value_of_a_wrong_type_is_a_corrupt_log(tmp_path: Path) -> None:
    lake = Lake(tmp_path, PARTITIONED, ("n",))
    committed(lake.create(lake.file([1], "", {"n": 1})))
    commit = lake.log / f"{0:020d}.json"
    commit.write_text(commit.read_text().replace('"partitionValues":{"n":"1"}', '"partitionValues":{"n":"one"}'))
    with pytest.raises(CorruptLog, match="partition column n"):
        lake.table.snapshot().files()


def test_partition_values_with_invalid_utf8_are_refused(tmp_path: Path) -> None:
    schema = Struct((Field("id", Primitive("long")), Field("b", Primitive("binary"))))
    lake = Lake(tmp_path, schema, ("b",))
    with pytest.raises(TypeMismatch, match="partition column b"):
        lake.create(lake.file([1], "", {"b": b"\xff"}))
    assert not lake.table.exists()
