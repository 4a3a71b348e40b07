"""The files that conditions on a column select by partition columns that are generated from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from rowmerge.delta.snapshots.generated_ranges import generated_ranges
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.pruning.file_pruning import file_mask
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.files import FileListing, listing_schema

UTC = timezone.utc
FEBRUARY = "ts >= TIMESTAMP '2024-02-10 00:00:00Z' AND ts < TIMESTAMP '2024-02-12 00:00:00Z'"
NTZ = "ts >= TIMESTAMP_NTZ '2024-02-10 00:00:00' AND ts < TIMESTAMP_NTZ '2024-02-12 00:00:00'"
DATES = "ts >= DATE '2024-02-10' AND ts < DATE '2024-02-12'"
DAYS = [date(2024, 2, day) for day in (8, 9, 10, 11, 12, 13)]


def select_files(source: str, columns: Mapping[str, tuple[str, str]], partitions: Sequence[Sequence[Any]], condition: str) -> list[int]:
    """Return the indexes of the selected files. `columns`: the type and the expression of each partition column."""
    schema = Struct((Field("ts", Primitive(source)), *(Field(name, Primitive(type_)) for name, (type_, _) in columns.items())))
    types = [arrow_type(Primitive(type_)) for type_, _ in columns.values()]
    values = [pa.array(column, type_) for column, type_ in zip(zip(*partitions, strict=True), types, strict=True)]
    partition = pa.StructArray.from_arrays(values, names=list(columns))
    ranges = generated_ranges(schema, {name: expression for name, (_, expression) in columns.items()}, list(columns), ["ts"])
    files, empty = len(partitions), pa.struct([])
    range_columns = [range_.of([partition.field(name) for name in range_.columns]) for range_ in ranges]
    range_fields = [range_.arrow_field for range_ in ranges]
    no_fields = pa.Array.from_buffers(empty, files, [None], children=[])
    numbers = pa.array(range(files), pa.int64())
    range_column = pa.StructArray.from_arrays(range_columns, fields=range_fields) if ranges else no_fields
    rows = pa.Table.from_arrays(
        [numbers.cast(pa.string()), numbers, numbers, numbers, partition, no_fields, no_fields, no_fields, range_column],
        schema=listing_schema(partition.type, empty, empty, pa.struct(range_fields)),
    )
    mask, _ = file_mask([condition], Side("t", (), schema.names), schema, tuple(columns))
    return [index for index, keep in enumerate(mask(FileListing(rows)).to_pylist()) if keep]


@pytest.mark.parametrize("expression", ["CAST(ts AS DATE)", "date(`ts`)", " to_date( TS ) ", "trunc(ts, 'DD')"])
def test_days_of_times_without_a_zone_and_of_dates_are_exact(expression: str) -> None:
    for source, condition in (("timestamp_ntz", NTZ), ("date", DATES)):
        assert select_files(source, {"p": ("date", expression)}, [[day] for day in DAYS], condition) == [2, 3]


def test_days_of_instants_allow_for_every_time_zone() -> None:
    assert select_files("timestamp", {"p": ("date", "CAST(ts AS DATE)")}, [[day] for day in DAYS], FEBRUARY) == [1, 2, 3, 4]


def test_a_null_partition_value_implies_nothing() -> None:
    for condition in (NTZ, "ts IS NULL", "ts IS NOT NULL"):
        assert select_files("timestamp_ntz", {"p": ("date", "CAST(ts AS DATE)")}, [[None]], condition) == [0]


@pytest.mark.parametrize(
    ("columns", "partitions", "expected"),
    [
        ({"y": ("integer", "YEAR(ts)")}, [[2023], [2024], [2025], [None]], [1, 3]),
        ({"y": ("integer", "year(ts)"), "m": ("integer", "month(ts)")}, [[2024, 1], [2024, 2], [2023, 2], [2024, None]], [1, 3]),
        (
            {"d": ("integer", "day(ts)"), "y": ("integer", "year(ts)"), "m": ("integer", "month(ts)")},
            [[11, 2024, 2], [12, 2024, 2], [11, 2024, 3], [9, 2024, 2], [31, 2024, 13]],
            [0, 4],
        ),
        (
            {name: ("integer", f"{name}(ts)") for name in ("year", "month", "day", "hour")},
            [[2024, 2, 9, 23], [2024, 2, 10, 0], [2024, 2, 11, 23], [2024, 2, 12, 0]],
            [1, 2],
        ),
        ({"m": ("integer", "month(ts)")}, [[1], [2]], [0, 1]),
        ({"f": ("string", "date_format(ts, 'yyyy-MM')")}, [["2024-01"], ["2024-02"], ["2024-2"], [None]], [1, 2, 3]),
        (
            {"f": ("string", "date_format(ts,'yyyy-MM-dd-HH')")},
            [["2024-02-09-23"], ["2024-02-11-23"], ["2024-02-30-00"], ["2024-02-12-23"], ["2024-02-13-00"]],
            [1, 2, 3],  # a local time that never occurs becomes a later one
        ),
        ({"f": ("string", "date_format(ts, 'yyyy-mm')")}, [["2024-01"], ["2024-02"]], [0, 1]),
        ({"t": ("date", "trunc(ts, 'MONTH')")}, [[date(2024, 1, 1)], [date(2024, 2, 1)], [date(2024, 3, 1)]], [1]),
        (
            {"t": ("timestamp_ntz", "date_trunc('HOUR', ts)")},
            [[datetime(2024, 2, 9, 23)], [datetime(2024, 2, 10)], [datetime(2024, 2, 12)], [datetime(2024, 2, 13)]],
            [1, 2],
        ),
        ({"t": ("timestamp_ntz", "ts")}, [[datetime(2024, 2, 9, 23)], [datetime(2024, 2, 10)], [datetime(2024, 2, 12)]], [1]),
        ({"t": ("timestamp", "date_trunc('HOUR', ts)")}, [[datetime(2024, 2, 1, tzinfo=UTC)]], [0]),
        ({"t": ("date", "date_add(ts, 1)")}, [[date(2024, 1, 1)]], [0]),
        ({"t": ("date", "trunc(ts, 'MONTH')")}, [[date(9999, 12, 31)], [date(1, 1, 1)]], []),
    ],
)
def test_conditions_on_a_local_time_select_the_files_of_its_partitions(
    columns: Mapping[str, tuple[str, str]], partitions: Sequence[Sequence[Any]], expected: list[int]
) -> None:
    assert select_files("timestamp_ntz", columns, partitions, NTZ) == expected


def test_hours_of_dates_imply_nothing() -> None:
    parts = {name: ("integer", f"{name}(ts)") for name in ("year", "month", "day", "hour")}
    assert select_files("date", parts, [[2024, 2, 9, 0], [2024, 2, 10, 0]], DATES) == [1]
    assert select_files("date", {"f": ("string", "date_format(ts, 'yyyy-MM-dd-HH')")}, [["2024-02-09-00"]], DATES) == [0]


def test_formatted_days_of_dates_allow_for_a_skipped_day() -> None:
    """A date is formatted as an instant. In Samoa, 2011-12-30 became 2011-12-31."""
    partitions = [["2011-12-30"], ["2011-12-31"], ["2012-01-01"]]
    columns = {"f": ("string", "date_format(ts, 'yyyy-MM-dd')")}
    assert select_files("date", columns, partitions, "ts = DATE '2011-12-30'") == [0, 1]


def test_units_of_instants_allow_for_every_time_zone() -> None:
    starts = [datetime(2024, 1, 8, tzinfo=UTC), datetime(2024, 1, 9, 8, tzinfo=UTC), datetime(2024, 2, 12, 18, 1, tzinfo=UTC)]
    selected = select_files("timestamp", {"t": ("timestamp", "date_trunc('month', ts)")}, [[start] for start in starts], FEBRUARY)
    assert selected == [1]


def test_a_prefix_selects_strings() -> None:
    for expression in ("substring(ts, 0, 2)", "SUBSTR(ts, 1, 2)"):
        partitions = [["ab"], ["b"], [None], ["\U0001f600x"]]
        assert select_files("string", {"p": ("string", expression)}, partitions, "ts = 'abc'") == [0, 2]
        assert select_files("string", {"p": ("string", expression)}, partitions, "ts = 'b'") == [1, 2]
        assert select_files("string", {"p": ("string", expression)}, partitions, "ts > 'ac'") == [1, 2, 3]
    assert select_files("string", {"p": ("string", "substring(ts, 2, 2)")}, [["zz"]], "ts = 'abc'") == [0]


def test_a_padded_prefix_implies_nothing() -> None:
    partition = Field("p", Primitive("string"), metadata={CHAR_VARCHAR: "char(4)"})
    schema = Struct((Field("name", Primitive("string")), partition))
    assert generated_ranges(schema, {"p": "substring(name, 1, 2)"}, ["p"], ["name"]) == []


def test_a_partition_column_of_another_type_implies_nothing() -> None:
    assert select_files("timestamp_ntz", {"p": ("string", "CAST(ts AS DATE)")}, [["2020-01-01"]], NTZ) == [0]
    assert select_files("timestamp_ntz", {"y": ("string", "year(ts)")}, [["2020"]], NTZ) == [0]
