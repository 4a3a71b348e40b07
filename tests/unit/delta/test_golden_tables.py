"""Tables that Delta's JVM implementation wrote give the rows that it reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmerge.delta import DeltaTable
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.schema import arrow_schema
from tests.support.delta_tables import conformed, file_rows, live_rows

GOLDEN = Path(__file__).parents[4] / "shared" / "golden" / "delta"
NAMES = [
    "basic-with-inserts-merge",
    "basic-with-inserts-updates",
    "corrupted-last-checkpoint-kernel",
    "data-reader-array-complex-objects",
    "data-reader-date-types-utc",
    "data-reader-map",
    "data-reader-nested-struct",
    "data-reader-timestamp_ntz-name-mode",
    "data-skipping-basic-stats-all-types",
    "decimal-various-scale-precision",
    "dv-with-columnmapping",
    "kernel-timestamp-int96",
    "log-replay-special-characters-a",
    "multi-part-checkpoint",
    "only-checkpoint-files",
    "parquet-all-types",
    "snapshot-data3",
    "table-with-columnmapping-mode-id",
    "time-travel-schema-changes-b",
    "v2-checkpoint-json",
]


def open_table(name: str) -> DeltaTable:
    folder = GOLDEN / name / "delta"
    if not folder.is_dir():
        pytest.skip(f"the golden table {name} is not here")
    return DeltaTable(Storage(str(folder)), name)


def expected_rows(name: str, schema: pa.Schema) -> pa.Table:
    files = sorted((GOLDEN / name / "expected").rglob("*.parquet"))
    read = [pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read() for file in files]
    return pa.concat_tables([schema.empty_table(), *(conformed(rows, schema, {}) for rows in read)])


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_table_has_its_expected_rows(name: str) -> None:
    snapshot = open_table(name).snapshot()
    expected = expected_rows(name, arrow_schema(snapshot.schema))
    rows = live_rows(snapshot)
    assert rows.num_rows == expected.num_rows
    assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, expected.to_pylist()))


@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_a_golden_table_enclose_its_rows(name: str) -> None:
    snapshot = open_table(name).snapshot()
    columns = [f.name for f in snapshot.schema if f.name not in snapshot.partition_columns]
    listing = snapshot.files(columns).rows
    for file in listing.to_pylist():
        rows = file_rows(snapshot, file["path"], arrow_schema(snapshot.schema), file["partition"])
        assert file["records"] in (None, rows.num_rows)
        for name_, low in file["lower"].items():
            values = [value for value in rows[name_].to_pylist() if value is not None]
            high = file["upper"][name_]
            if not isinstance(low, dict) and values:
                assert low is None or all(low <= value for value in values), name_
                assert high is None or all(value <= high for value in values), name_


def test_bounds_exist_for_all_types_with_statistics() -> None:
    snapshot = open_table("data-skipping-basic-stats-all-types").snapshot()
    (file,) = snapshot.files(snapshot.schema.names).rows.to_pylist()
    bounded_columns = {name for name, low in file["lower"].items() if low is not None}
    assert bounded_columns >= {
        "as_int",
        "as_long",
        "as_byte",
        "as_short",
        "as_float",
        "as_double",
        "as_string",
        "as_date",
        "as_timestamp",
        "as_big_decimal",
    }


def test_older_versions_of_a_golden_table_are_readable() -> None:
    table = open_table("snapshot-data3")
    counts = [live_rows(table.snapshot_at(version=version)).num_rows for version in range(4)]
    assert counts[3] == 30
    assert table.snapshot_at(version=0).version == 0
    assert counts[0] < 30
