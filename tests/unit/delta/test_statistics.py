"""File statistics: bounds of strings, timestamps, decimals and nested columns follow Delta's definitions."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal as Number
from typing import Any

import pyarrow as pa
import pytest

from rowmerge.delta.files.statistics import indexed_leaves, lower_bound, parsed_text, statistics_json, upper_bound, with_wide_bounds
from rowmerge.delta.files.statistics_reading import FileStatistics, read_statistics
from rowmerge.delta.metadata.column_mapping import physical_indexed_leaves
from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.schema import Array, DataType, Decimal, Field, Primitive, Struct
from rowmerge.table.snapshots.files import AddedFile

UTC = datetime.timezone.utc
ID = Field("id", Primitive("long"))


def column(type_: str | DataType, name: str = "c") -> Field:
    return Field(name, Primitive(type_) if isinstance(type_, str) else type_)


def read(stats: Any, *fields: Field, as_written: bool = False) -> FileStatistics:
    text = stats if isinstance(stats, str | None) else json.dumps(stats)
    batch = pa.RecordBatch.from_pydict({"stats": pa.array([text], pa.string())})
    return read_statistics(batch, fields, as_written=as_written)


def bounds(type_: str | DataType, low: Any, high: Any) -> tuple[Any, Any]:
    statistics = read({"numRecords": 2, "minValues": {"c": low}, "maxValues": {"c": high}}, column(type_))
    return statistics.lower.to_pylist()[0]["c"], statistics.upper.to_pylist()[0]["c"]


def write_statistics(type_: str | DataType, low: Any, high: Any) -> Any:
    file = AddedFile("file:///p", 1, 2, lower={"c": low}, upper={"c": high}, nulls={"c": 0})
    return json.loads(statistics_json(file, frozenset({("c",)})))


# ------------------------------------------------------------------ writing


def test_bounds_of_short_strings_are_exact() -> None:
    assert lower_bound("a" * 32) == "a" * 32 == upper_bound("a" * 32)


def test_long_string_bounds_are_truncated_and_the_maximum_is_raised() -> None:
    assert lower_bound("a" * 40) == "a" * 32
    assert upper_bound("a" * 40) == "a" * 32 + "\x7f"


def test_a_maximum_truncated_before_non_ascii_ends_with_the_highest_character() -> None:
    assert upper_bound("a" * 32 + "é") == "a" * 32 + "\U0010ffff"
    assert upper_bound("a" * 32 + "\x7f") == "a" * 32 + "\U0010ffff"


def test_a_maximum_without_a_larger_string_is_omitted() -> None:
    assert upper_bound("a" * 32 + "\U0010ffff") is None


def test_truncation_does_not_split_surrogate_pairs() -> None:
    text = "a" * 31 + "😀" + "b"
    assert lower_bound(text) == "a" * 31
    assert upper_bound(text) == "a" * 31 + "\U0010ffff"
    assert lower_bound("a" * 30 + "😀" + "b") == "a" * 30 + "😀"


@pytest.mark.parametrize("length", [1, 2, 3, 31, 100])
@pytest.mark.parametrize("text", ["", "a", "ab", "a\x7fb", "é" * 101, "😀" * 60, "a😀b", "\U0010ffff" * 9, "z" * 101])
def test_bounds_of_any_length_enclose_the_string(text: str, length: int) -> None:
    low, high = lower_bound(text, length), upper_bound(text, length)
    assert low <= text and (high is None or text <= high)
    assert len(low.encode("utf-16-le")) <= 2 * length
    assert (low == high == text) is (len(text.encode("utf-16-le")) <= 2 * length)


def test_strings_have_no_bounds_with_the_length_zero() -> None:
    file = AddedFile("file:///p", 1, 2, lower={"c": "", "n": 1}, upper={"c": "b", "n": 2}, nulls={"c": 0, "n": 0})
    statistics = json.loads(statistics_json(file, frozenset({("c",), ("n",)}), 0))
    assert (statistics["minValues"], statistics["maxValues"]) == ({"n": 1}, {"n": 2})
    assert statistics["nullCount"] == {"c": 0, "n": 0}


@pytest.mark.parametrize("text", ["x" * 33, "x" * 32 + "\x7e", "é" * 50, "😀" * 20, "a" * 31 + "😀z"])
def test_truncated_bounds_enclose_the_string(text: str) -> None:
    high = upper_bound(text)
    assert lower_bound(text).encode() <= text.encode() <= high.encode()


def test_timestamp_bounds_are_truncated_to_milliseconds() -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678999, tzinfo=UTC)
    assert write_statistics("timestamp", moment, moment)["maxValues"]["c"] == "2024-01-02T03:04:05.678Z"
    assert write_statistics("timestamp_ntz", moment.replace(tzinfo=None), None)["minValues"]["c"] == "2024-01-02T03:04:05.678"


def test_timestamps_of_other_time_zones_are_written_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moment = datetime.datetime(2024, 1, 1, 1, 0, tzinfo=zone)
    assert write_statistics("timestamp", moment, moment)["minValues"]["c"] == "2023-12-31T23:00:00.000Z"


def test_decimal_bounds_are_written_with_all_digits() -> None:
    low = Number("1234567890123456789012345678.9012345678")
    file = AddedFile("file:///p", 1, 2, lower={"c": low}, upper={"c": low})
    text = statistics_json(file, frozenset({("c",)}))
    assert '"minValues":{"c":1234567890123456789012345678.9012345678}' in text


def test_nan_or_infinite_bounds_are_omitted() -> None:
    assert write_statistics("double", 1.0, float("nan"))["minValues"] == {}
    assert write_statistics("double", float("-inf"), 2.0)["minValues"] == {}
    assert write_statistics("double", float("-inf"), 2.0)["maxValues"] == {"c": 2.0}


def test_boolean_and_binary_columns_have_no_bounds() -> None:
    assert write_statistics("boolean", False, True)["minValues"] == {}
    assert write_statistics("binary", b"a", b"b")["maxValues"] == {}


def test_statistics_of_struct_fields_are_nested() -> None:
    file = AddedFile("file:///p", 1, 2, lower={"s": {"a": 1, "b": 2}}, upper={"s": {"a": 3}}, nulls={"s": {"a": 0, "b": 1}})
    stats = json.loads(statistics_json(file, frozenset({("s", "a")})))
    assert (stats["minValues"], stats["maxValues"], stats["nullCount"]) == ({"s": {"a": 1}}, {"s": {"a": 3}}, {"s": {"a": 0}})


def test_setting_wide_bounds_leaves_other_numbers_unchanged() -> None:
    stats = '{"numRecords":5,"tightBounds":true,"minValues":{"d":0.10000000000000000001,"tightBounds":true}}'
    assert with_wide_bounds(stats, 5) == '{"numRecords":5,"tightBounds":false,"minValues":{"d":0.10000000000000000001,"tightBounds":true}}'


def test_wide_bounds_without_statistics_contain_the_row_count() -> None:
    assert json.loads(with_wide_bounds(None, 7)) == {"numRecords": 7, "tightBounds": False}


def test_parsed_statistics_are_converted_to_json() -> None:
    moment = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    parsed = {"numRecords": 2, "tightBounds": True, "minValues": {"a": "x" * 33, "b": None, "t": moment}, "nullCount": {"a": 0}}
    assert json.loads(parsed_text(parsed)) == {
        "numRecords": 2,
        "tightBounds": True,
        "minValues": {"a": "x" * 33, "t": "2024-01-01T00:00:00.000Z"},
        "nullCount": {"a": 0},
    }


# ------------------------------------------------------------------ which columns


MANY = Struct((*(column("long", f"c{n}") for n in range(40)),))


def test_the_first_32_leaves_are_indexed_without_partition_columns() -> None:
    nested = Struct((column("long", "p"), column(Struct((column("long", "a"), column("long", "b"))), "s"), *MANY.fields))
    leaves = indexed_leaves(nested, ("p",), {})
    assert len(leaves) == 32
    assert ("s", "a") in leaves
    assert ("c29",) in leaves
    assert not {("p",), ("c30",)} & leaves


@pytest.mark.parametrize(("count", "expected"), [("0", 0), ("3", 3), ("-1", 40)])
def test_the_number_of_indexed_columns_is_configurable(count: str, expected: int) -> None:
    assert len(indexed_leaves(MANY, (), {"delta.dataSkippingNumIndexedCols": count})) == expected


def test_a_non_numeric_number_of_indexed_columns_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="dataSkippingNumIndexedCols"):
        indexed_leaves(MANY, (), {"delta.dataSkippingNumIndexedCols": "many"})


def test_indexed_columns_may_have_quoted_names() -> None:
    inner = Struct((column("long", "x"), column("long", "y")))
    schema = Struct((column("long", "a"), column(inner, "s"), column("long", "d,e"), column("long", "f.g"), column("long", "h")))
    properties = {"delta.dataSkippingStatsColumns": "a, s.x, `d,e`,`f.g`"}
    assert indexed_leaves(schema, (), properties) == {("a",), ("s", "x"), ("d,e",), ("f.g",)}
    assert indexed_leaves(schema, (), {"delta.dataSkippingStatsColumns": "s"}) == {("s", "x"), ("s", "y")}


def test_clustering_columns_are_always_indexed() -> None:
    assert ("c39",) in physical_indexed_leaves(MANY, MANY, (), {}, [("c39",)])


# ------------------------------------------------------------------ reading


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("long", 2**62, 2**62),
        ("byte", 5, 5),
        ("double", 1.5, 1.5),
        ("string", "é", "é"),
        ("boolean", True, True),
        ("date", "2024-02-29", datetime.date(2024, 2, 29)),
        (Decimal(10, 2), 1.5, Number("1.50")),
    ],
)
def test_bounds_of_a_type_are_read(type_: str | DataType, text: Any, value: Any) -> None:
    assert bounds(type_, text, text) == (value, value)


@pytest.mark.parametrize(
    "text", ["2024-01-01T00:00:00.123Z", "2023-12-31T16:00:00.123-08:00", "2024-01-01 00:00:00.123", "2024-01-01T00:00:00.123000999Z"]
)
def test_a_maximum_timestamp_is_raised_by_one_millisecond(text: str) -> None:
    low = datetime.datetime(2024, 1, 1, 0, 0, 0, 123000, tzinfo=UTC)
    assert bounds("timestamp", text, text) == (low, low + datetime.timedelta(milliseconds=1))


@pytest.mark.parametrize(("text", "seconds"), [("1880-01-01T00:00:00.000+08:05", -43), ("1880-01-01T00:00:00.000-04:56", 2)])
def test_bounds_enclose_old_times_whose_offset_has_seconds(text: str, seconds: int) -> None:
    """Spark 3 writes the offset +08:05:43 of Shanghai until 1900 as +08:05, and -04:56:02 of New York until 1883 as -04:56."""
    low, high = bounds("timestamp", text, text)
    assert low < datetime.datetime.fromisoformat(text) + datetime.timedelta(seconds=seconds) < high


def test_timestamp_ntz_bounds_are_read_without_time_zone() -> None:
    low = datetime.datetime(2024, 1, 1, 0, 0, 0, 5000)
    assert bounds("timestamp_ntz", "2024-01-01T00:00:00.005", "2024-01-01T00:00:00.005Z") == (low, low + datetime.timedelta(milliseconds=1))


def test_bounds_as_written_are_not_raised() -> None:
    text = "2024-01-01T00:00:00.000Z"
    statistics = read({"minValues": {"c": text}, "maxValues": {"c": text}}, column("timestamp"), as_written=True)
    assert statistics.upper.to_pylist()[0]["c"] == datetime.datetime(2024, 1, 1, tzinfo=UTC)


def test_decimals_with_more_digits_than_a_double_are_widened() -> None:
    """delta-rs computes the bounds of decimals as doubles: 9007199254740993 becomes 9007199254740992."""
    low, high = bounds(Decimal(20, 0), 9007199254740992, 9007199254740992)
    assert low < 9007199254740992 < 9007199254740993 < high
    low, high = bounds(Decimal(38, 18), 3.0, 1234567890.123457)
    assert low <= Number("2.999999999999999999") and Number("1234567890.123456789012345678") <= high
    assert bounds(Decimal(38, 0), -(10**38) + 1, 10**38 - 1) == (None, None)
    assert bounds(Decimal(18, 2), -9999999999999.99, 9999999999999.99) == (Number("-9999999999999.99"), Number("9999999999999.99"))


@pytest.mark.parametrize("text", ["a" * 32 + "😀", "a" * 31 + "😀z"])
def test_a_maximum_that_an_old_writer_truncated_before_a_surrogate_pair_is_raised(text: str) -> None:
    """Up to version 3.1, delta-spark appended U+FFFD to 32 UTF-16 code units, and Java writes half of a surrogate pair as `?`."""
    units = text.encode("utf-16-le")[:64].decode("utf-16-le", errors="replace").replace("\ufffd", "?")
    assert (units + "\ufffd").encode() < text.encode()
    _, high = bounds("string", "a", units + "\ufffd")
    assert text.encode() <= high.encode()


@pytest.mark.parametrize(("low", "high"), [(1.0, "NaN"), ("NaN", "NaN"), ("-Infinity", 1.0), (1.0, "Infinity")])
def test_a_non_finite_bound_makes_both_bounds_unknown(low: Any, high: Any) -> None:
    assert bounds("double", low, high) == (None, None)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("byte", 300),
        ("long", 2**70),
        ("long", "7"),
        ("long", {"a": 1}),
        ("date", "12024-01-01"),
        ("date", 19000),
        ("timestamp", "yesterday"),
        ("string", 5),
        (Decimal(4, 2), 12345.67),
        ("double", [1]),
    ],
)
def test_an_invalid_bound_does_not_affect_other_columns(type_: str | DataType, value: Any) -> None:
    stats = {"numRecords": 3, "minValues": {"c": value, "id": 1}, "maxValues": {"c": value, "id": 9}, "nullCount": {"id": 0}}
    statistics = read(stats, column(type_), ID)
    assert statistics.records.to_pylist() == [3]
    assert statistics.lower.to_pylist() == [{"c": None, "id": 1}]
    assert statistics.upper.to_pylist() == [{"c": None, "id": 9}]


@pytest.mark.parametrize("stats", [None, "", " ", "{", "[]", "null", '{"numRecords":null}', '"x"'])
def test_missing_or_invalid_statistics_give_unknown_bounds(stats: str | None) -> None:
    statistics = read(stats, ID)
    assert (statistics.records.to_pylist(), statistics.lower.to_pylist(), statistics.nulls.to_pylist()) == (
        [None],
        [{"id": None}],
        [{"id": None}],
    )


def test_statistics_with_line_breaks_are_read() -> None:
    assert read('{\n "numRecords": 3,\r\n "minValues": {"id": 4}\n}', ID).lower.to_pylist() == [{"id": 4}]


def test_invalid_statistics_do_not_affect_other_files() -> None:
    texts = ['{"numRecords":1,"minValues":{"id":1}}', "{broken", None, '{"numRecords":2,"minValues":{"id":7}}']
    batch = pa.RecordBatch.from_pydict({"stats": pa.array(texts, pa.string())})
    assert read_statistics(batch, [ID]).lower.to_pylist() == [{"id": 1}, {"id": None}, {"id": None}, {"id": 7}]


def test_a_sliced_batch_of_statistics_is_read_correctly() -> None:
    batch = pa.RecordBatch.from_pydict({"stats": pa.array([json.dumps({"numRecords": n}) for n in range(10)], pa.string())}).slice(4, 3)
    assert read_statistics(batch, []).records.to_pylist() == [4, 5, 6]


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (10, 10), (4, None)])
def test_null_counts_with_wide_bounds_are_known_only_for_zero_or_all(count: int, expected: int | None) -> None:
    statistics = read({"numRecords": 10, "tightBounds": False, "nullCount": {"id": count}}, ID)
    assert statistics.nulls.to_pylist() == [{"id": expected}]


def test_nested_bounds_are_read_and_lists_have_only_null_counts() -> None:
    inner = Struct((column("long", "a"), column(Array(Primitive("long")), "l")))
    fields = (column(inner, "s"), column(Array(Primitive("long")), "list"))
    stats = {
        "numRecords": 2,
        "minValues": {"s": {"a": 1}},
        "maxValues": {"s": {"a": 2}},
        "nullCount": {"s": {"a": 0, "l": 1}, "list": 2},
    }
    statistics = read(stats, *fields)
    assert statistics.lower.to_pylist() == [{"s": {"a": 1}}]
    assert statistics.upper.to_pylist() == [{"s": {"a": 2}}]
    assert statistics.nulls.to_pylist() == [{"s": {"a": 0, "l": 1}, "list": 2}]


def test_parsed_statistics_are_used_for_files_without_json_statistics() -> None:
    day = datetime.date(2024, 1, 1)
    parsed = pa.array([None, {"numRecords": 5, "minValues": {"c": day}, "maxValues": {"c": day}, "nullCount": {"c": 1}}])
    texts = pa.array(['{"numRecords":3,"minValues":{"c":"2020-01-01"}}', None], pa.string())
    statistics = read_statistics(pa.RecordBatch.from_arrays([texts, parsed], names=["stats", "parsed"]), [column("date")])
    assert statistics.records.to_pylist() == [3, 5]
    assert statistics.lower.to_pylist() == [{"c": datetime.date(2020, 1, 1)}, {"c": day}]
    assert statistics.nulls.to_pylist() == [{"c": None}, {"c": 1}]
