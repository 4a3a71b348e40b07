"""Iceberg's own runtime on a Spark of its own, in another process: statements on a warehouse folder, as a Hadoop catalog sees it.

The tests' own Spark stays free of the jar. Run as a script, it takes a statement a line as JSON, and answers each with a line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MARK = "answer: "


class IcebergOnSpark:
    """The other process. `sql` raises AssertionError with Spark's message when a statement fails."""

    def __init__(self, jar: str, warehouse: Path) -> None:
        """`ROWMERGE_ICEBERG_PYTHON` names a Python whose PySpark the jar is for, when it is not the one of the tests."""
        python = os.environ.get("ROWMERGE_ICEBERG_PYTHON", sys.executable)
        command = [python, __file__, jar, str(warehouse)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def sql(self, statement: str) -> list[str]:
        """The rows of a statement as JSON, sorted; none for what is no query."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(MARK):
                answer: dict[str, Any] = json.loads(line[len(MARK) :])
                assert "error" not in answer, f"{statement}\n{answer.get('error')}"
                rows: list[str] = answer["rows"]
                return rows
        raise AssertionError(f"Iceberg on Spark ended at: {statement}")

    def close(self) -> None:
        self._process.communicate("")


def serve(jar: str, warehouse: str) -> None:
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": jar,
        "spark.driver.extraClassPath": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.w": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.w.type": "hadoop",
        "spark.sql.catalog.w.warehouse": warehouse,
        "spark.sql.catalog.w.cache-enabled": "false",
        "spark.sql.defaultCatalog": "w",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            frame = spark.sql(json.loads(line))
            answer = {"rows": sorted(row[0] for row in frame.selectExpr("to_json(struct(*))").collect()) if frame.columns else []}
        except Exception as error:  # noqa: BLE001 - whatever it is, the test hears of it
            answer = {"error": str(error)[:2000]}
        sys.stdout.write(f"{MARK}{json.dumps(answer)}\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    serve(*sys.argv[1:])
