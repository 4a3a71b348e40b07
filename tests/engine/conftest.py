"""One Spark session for all engine tests of a process, one warehouse for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.session.embedded import start_spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    yield start_spark({"spark.sql.shuffle.partitions": "2"})


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> rowmerge.Session:
    return rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
