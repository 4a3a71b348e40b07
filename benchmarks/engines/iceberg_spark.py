"""Iceberg on Spark in both write modes, with its default, format version 2 and position deletes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyspark

from benchmarks.engines.spark_sql import SparkSqlEngine, start


class IcebergSpark(SparkSqlEngine):
    """Iceberg on Spark. `mode`: copy-on-write or merge-on-read."""

    format = "iceberg"

    def __init__(self, jars: list[Path], warehouse: Path, mode: str) -> None:
        self._mode = mode
        self._version = next(jar.stem.rsplit("-", 1)[1] for jar in jars if jar.name.startswith("iceberg-spark"))
        settings = {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.w": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.w.type": "hadoop",
            "spark.sql.catalog.w.warehouse": str(warehouse),
            "spark.sql.catalog.w.cache-enabled": "false",
        }
        self.spark = start(settings, jars)

    @property
    def versions(self) -> Mapping[str, str]:
        return {"Iceberg on Spark": self._version, "its PySpark": pyspark.__version__}

    def prepare(self, place: Path, layout: str) -> None:
        self._name(place)
        modes = ", ".join(f"'write.{operation}.mode' = '{self._mode}'" for operation in ("merge", "update", "delete"))
        self.spark.sql(f"alter table {self.table} set tblproperties ({modes})")

    def open(self, place: Path, *, preload: bool) -> None:
        self._name(place)
        if preload:
            self.spark.sql(f"select count(*) from {self.table}").collect()

    def _name(self, place: Path) -> None:
        name = f"{place.parent.name}.{place.name}"
        self.table = f"w.{name}"
        # Also rewrite files that have the target size and deleted rows.
        options = "options => map('delete-file-threshold', '1')" if self._mode == "merge-on-read" else ""
        self.compaction = f"call w.system.rewrite_data_files(table => '{name}'{', ' if options else ''}{options})"
