"""The golden Iceberg tables are complete after unpacking: independent readers read the rows that Iceberg on Spark wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.iceberg.tables import NAMES, comparable, copied, expected
from tests.support.readers import read_with_duckdb_iceberg, read_with_pyiceberg

EQUALITY_DELETES = {name for name in NAMES if name.startswith("equality_")}
EMPTY_FOR_NULL = {"name_mapped": {"l"}, "schema_evolution": {"l", "m"}}
"""Lists and maps that pyiceberg reads as empty instead of NULL: their elements changed, or have other ids than in the file."""


def without(columns: set[str], rows: list[str]) -> list[dict[str, object]]:
    return sorted(({name: value for name, value in json.loads(row).items() if name not in columns} for row in rows), key=str)


@pytest.mark.parametrize("name", NAMES)
def test_pyiceberg_reads_the_rows(tmp_path: Path, name: str) -> None:
    metadata = copied(name, tmp_path / "table")
    if name in EQUALITY_DELETES:
        with pytest.raises(ValueError, match="does not yet support equality deletes"):
            read_with_pyiceberg(metadata)
        return
    rows, unlike = comparable(read_with_pyiceberg(metadata)), EMPTY_FOR_NULL.get(name, set())
    assert without(unlike, rows) == without(unlike, expected(name)["rows"])


# With equality deletes, DuckDB fails on a NULL partition, and crashes on a widened column.
@pytest.mark.parametrize("name", [name for name in NAMES if name not in EQUALITY_DELETES or name == "equality_global"])
def test_duckdb_reads_the_rows(tmp_path: Path, name: str) -> None:
    assert comparable(read_with_duckdb_iceberg(copied(name, tmp_path / "table"))) == expected(name)["rows"]
