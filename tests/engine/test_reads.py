"""Queries open only the files that can contain a row of the result."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge

pytestmark = pytest.mark.one_of("warehouse")


@pytest.fixture(params=["delta", "iceberg"])
def warehouse(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> rowmerge.Session:
    """Return a session with a table `t` of four files: (k, v, s) = (n, 10 * n, 's<n>') in each."""
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, default_format=request.param)
    session.sql("create table t (k int, v int, s string)")
    for number in range(4):
        session.sql(f"insert into t values ({number}, {number * 10}, 's{number}')")
    return session


def files_read(session: rowmerge.Session, query: str) -> list[tuple[int, int]]:
    """Return the files read of all files, for each scan with conditions."""
    return [(scan.files, scan.total_files) for scan in session.execute(query).scans]


def test_a_query_without_a_file_does_not_change_later_queries(warehouse: rowmerge.Session) -> None:
    assert files_read(warehouse, "select * from t where k = 77") == [(0, 4)]
    assert warehouse.sql("select count(*), sum(v) from t where k = 77").collect() == [(0, None)]
    assert warehouse.sql("select count(v) from t").collect() == [(4,)]
