"""Seeds: the conversion of dbt's values to Arrow."""

from __future__ import annotations

from datetime import date, datetime, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from dbt_common.clients.agate_helper import from_csv
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.rowmerge import RowmergeAdapter
from dbt.adapters.rowmerge.frames.seeds import arrow_table, rows_of_file

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def seed(tmp_path):
    def read(text, text_columns=()):
        path = tmp_path / "seed.csv"
        path.write_text(text)
        rows = from_csv(str(path), text_columns)
        types = [RowmergeAdapter.convert_type(rows, index) for index in range(len(rows.column_names))]
        values = [column.values() for column in rows.columns]
        return arrow_table(list(zip(rows.column_names, types, values, strict=True)), BERLIN)

    return read


def test_types_are_inferred_and_empty_values_are_null(seed):
    table = seed("id,price,ok,day,name\n1,1.5,true,2024-01-01,a\n2,,,,\n")
    assert table.schema.types == [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.string()]
    assert table.to_pylist() == [
        {"id": 1, "price": 1.5, "ok": True, "day": date(2024, 1, 1), "name": "a"},
        {"id": 2, "price": None, "ok": None, "day": None, "name": None},
    ]


def test_quotes_and_line_feeds_are_preserved(seed):
    assert seed('name\n"it\'s ""quoted"""\n"two\nlines"\n').column("name").to_pylist() == ['it\'s "quoted"', "two\nlines"]


def test_a_timestamp_without_a_zone_is_in_the_session_zone(seed):
    table = seed("at\n2024-07-01 12:00:00\n")
    assert table.column("at").to_pylist() == [datetime(2024, 7, 1, 10, 0, tzinfo=timezone.utc)]


def test_a_timestamp_with_a_zone_keeps_its_instant(seed):
    assert seed("at\n2024-07-01T12:00:00Z\n").column("at").to_pylist() == [datetime(2024, 7, 1, 12, 0, tzinfo=timezone.utc)]


def test_string_columns_keep_leading_zeros(seed):
    assert seed("code\n007\n", ["code"]).column("code").to_pylist() == ["007"]


def test_a_number_out_of_range_is_reported_with_its_column(seed):
    with pytest.raises(DbtRuntimeError, match="The column 'big' of the seed does not fit the type bigint"):
        seed("big\n12345678901234567890\n")


def test_a_seed_without_rows_has_columns(seed):
    table = seed("a,b\n")
    assert (table.num_rows, table.column_names) == (0, ["a", "b"])


def test_a_seed_without_rows_has_the_column_types_of_its_file(tmp_path):
    """`dbt seed --empty` reads the file and drops its rows."""
    path = tmp_path / "prices.csv"
    path.write_text("id;price;name\n1;1.50;a\n2;2.25;b\n")
    empty = from_csv(str(path), text_columns=(), delimiter=";").limit(0)
    empty.original_abspath = str(path)
    rows = rows_of_file(empty, (), ";")
    assert [RowmergeAdapter.convert_type(rows, index) for index in range(3)] == ["bigint", "double", "string"]
    rows = rows_of_file(empty, ("id",), ";")
    assert RowmergeAdapter.convert_type(rows, 0) == "string"
