"""Tables that Delta's own JVM implementation wrote are read equal to their expected rows, through Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowmerge

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "delta"
TABLES = sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir()) if GOLDEN.is_dir() else []

pytestmark = pytest.mark.skipif(not TABLES, reason="the golden tables beside the repository are not here")


@pytest.mark.parametrize("name", TABLES)
def test_a_golden_table_has_its_expected_rows(bare_session: rowmerge.Session, name: str) -> None:
    session = bare_session
    statement = f"create table golden using delta location '{GOLDEN / name / 'delta'}'"
    session.sql(statement)
    found = session.table("golden")
    expected = session.spark.read.parquet(str(GOLDEN / name / "expected"))
    names = sorted(expected.columns)
    assert sorted(found.columns) == names
    quoted = [f"to_json(struct(`{column}`)) as `{column}`" for column in names]
    rows = [sorted(map(repr, frame.selectExpr(*quoted).collect())) for frame in (found, expected)]
    assert rows[0] == rows[1]
