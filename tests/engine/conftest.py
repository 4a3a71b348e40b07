"""One Spark session for all engine tests of a process, one warehouse for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.session.embedded import start_spark


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return start_spark({"spark.sql.shuffle.partitions": "2"})


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[rowmerge.Session]:
    yield rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)
