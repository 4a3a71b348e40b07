"""An upsert whose keys are too many for the driver, in a process whose Spark has little memory for results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.standalone import Driver

ROWS = 3_000_000
MERGE = "merge into t using s on t.id = s.id when matched then update set * when not matched then insert *"


@pytest.mark.one_of("format_")
@pytest.mark.full_suite("it upserts millions of rows")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_an_upsert_of_millions_of_rows_needs_little_memory_of_the_driver(tmp_path: Path, format_: str) -> None:
    settings = {"spark.master": "local[2]", "spark.driver.memory": "512m", "spark.driver.maxResultSize": "256m"}
    driver = Driver(str(tmp_path / "warehouse"), settings)
    try:
        keys = "select concat('key ', string(id)) as id, {} as v from range({}, {})"
        driver.sql(f"create table t using {format_} as {keys.format(0, 0, ROWS)}")
        driver.sql(f"create table s using {format_} as {keys.format(1, ROWS // 2, ROWS // 2 + ROWS)}")
        driver.sql(MERGE)
        (counts,) = driver.sql("select count(*) as n, count(distinct id) as ids, sum(v) as changed from t")
    finally:
        driver.close()
    assert json.loads(counts) == {"n": ROWS // 2 + ROWS, "ids": ROWS // 2 + ROWS, "changed": ROWS}
