"""Delta Lake on Spark, with and without deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyspark

from benchmarks.engines.spark_sql import SparkSqlEngine, start

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class DeltaSpark(SparkSqlEngine):
    """Delta Lake on Spark. `vectors`: whether the tables use deletion vectors."""

    format = "delta"

    def __init__(self, jars: list[Path], *, vectors: bool) -> None:
        self._vectors = vectors
        self._version = next(jar.stem.rsplit("-", 1)[1] for jar in jars if jar.name.startswith("delta-spark"))
        self.spark = start(SETTINGS, jars)

    @property
    def versions(self) -> Mapping[str, str]:
        return {"Delta Lake on Spark": self._version, "its PySpark": pyspark.__version__}

    def prepare(self, place: Path, layout: str) -> None:
        self.table = f"delta.`{place}`"
        if self._vectors:
            self.spark.sql(f"alter table {self.table} set tblproperties ('delta.enableDeletionVectors' = 'true')")

    def open(self, place: Path, *, preload: bool) -> None:
        self.table, self.compaction = f"delta.`{place}`", f"optimize delta.`{place}`"
        if preload:
            self.spark.sql(f"select count(*) from {self.table}").collect()
