"""Masks compared with DuckDB: no file with a matching row is pruned, for any files and conditions."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from rowmerge.plan.pruning.file_pruning import KeyRange, all_of, exact_partition_mask, file_mask, key_mask, range_mask
from rowmerge.table.metadata.schema import arrow_type
from rowmerge.table.snapshots.files import FileListing
from tests.support.suites import examples
from tests.unit.plan.random_files import PARTITION_COLUMNS, SCHEMA, SIDE, VALUES, Files, conditions, duck, files

ZONES = ["UTC", "America/New_York", "Pacific/Kiritimati"]


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def matching(database: duckdb.DuckDBPyConnection, data: Files, condition: str) -> dict[int, tuple[bool, bool]]:
    """Return for each file with rows whether the condition is true for any of them, and for all of them."""
    database.register("data", data.table())
    result = database.execute(
        f"select file, bool_or(coalesce({condition}, false)), bool_and(coalesce({condition}, false)) from data t group by 1"
    )
    return {file: (some, every) for file, some, every in result.fetchall()}


@settings(max_examples=examples(gate=60, full=200), deadline=None)
@given(data=files(), parts=st.lists(conditions(), min_size=1, max_size=2), zone=st.sampled_from(ZONES))
def test_no_file_with_a_matching_row_is_pruned(database: duckdb.DuckDBPyConnection, data: Files, parts: list[str], zone: str) -> None:
    database.execute(f"set TimeZone = '{zone}'")
    truth = matching(database, data, " AND ".join(f"({duck(part)})" for part in parts))
    for time_zone in (zone, None):
        mask, needs = file_mask(parts, SIDE, SCHEMA, PARTITION_COLUMNS, time_zone=time_zone)
        is_selected = mask(only(data.listing, needs)).to_pylist()
        assert len(is_selected) == len(data.listing)
        assert not [file for file, (some, _) in truth.items() if some and not is_selected[file]]


@settings(max_examples=examples(gate=60, full=200), deadline=None)
@given(data=files(), condition=conditions(PARTITION_COLUMNS))
def test_conditions_on_partitions_divide_files_exactly(database: duckdb.DuckDBPyConnection, data: Files, condition: str) -> None:
    truth = matching(database, data, duck(condition))
    is_selected = file_mask([condition], SIDE, SCHEMA, PARTITION_COLUMNS)[0](data.listing).to_pylist()
    whole = exact_partition_mask([condition], SIDE, SCHEMA, PARTITION_COLUMNS)
    for file, (some, every) in truth.items():
        assert some == every
        if whole is not None:
            assert whole(data.listing)[file].as_py() == is_selected[file] == some


@settings(max_examples=examples(gate=50, full=150), deadline=None)
@given(
    data=files(),
    column=st.sampled_from(SCHEMA.names),
    op=st.sampled_from(["=", "<=>", "<", "<=", ">", ">="]),
    drawn=st.data(),
)
def test_no_file_with_a_row_that_joins_is_pruned(
    database: duckdb.DuckDBPyConnection, data: Files, column: str, op: str, drawn: Any
) -> None:
    field = SCHEMA.find(column)
    assert field is not None
    given_values = drawn.draw(st.lists(st.sampled_from([*VALUES[column], None]), max_size=3))
    source = pa.table({"v": pa.array(given_values, arrow_type(field.type))})
    database.register("source", source)
    database.register("data", data.table())
    ends = database.execute("select min(v), max(v), bool_or(v is null) from source").fetchall()[0]
    ordered = database.execute("select distinct v from source where v is not null order by v").to_arrow_table()["v"]
    truth = {file for (file,) in database.execute(f"select distinct file from data, source where {duck(f'{column} {op} v')}").fetchall()}
    low, high = (pa.scalar(end, ordered.type) for end in ends[:2])
    for mask, needs in (
        key_mask((column,), op, ordered, bool(ends[2]), SCHEMA, PARTITION_COLUMNS),
        range_mask((column,), op, KeyRange(low, high, has_null=bool(ends[2])), SCHEMA, PARTITION_COLUMNS),
    ):
        is_selected = all_of([mask])(only(data.listing, needs)).to_pylist()
        assert not [file for file in truth if not is_selected[file]]


def only(listing: FileListing, columns: tuple[str, ...]) -> FileListing:
    """Return the listing as a snapshot returns it: only the bounds of the requested columns."""
    rows = listing.rows
    for which in ("lower", "upper", "nulls"):
        whole = rows[which].combine_chunks()
        fields = [whole.type.field(name) for name in columns]
        arrays = [whole.field(name) for name in columns]
        struct = pa.StructArray.from_arrays(arrays, fields=fields) if columns else pa.array([{}] * len(whole), pa.struct([]))
        rows = rows.set_column(rows.column_names.index(which), which, struct)
    return FileListing(rows)
