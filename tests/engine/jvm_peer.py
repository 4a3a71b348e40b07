"""Delta Lake's and Iceberg's JVM engines on a Spark in another process, so that the Spark of the tests has no jars.

As a script, it reads one statement per line as JSON, and writes one line of JSON for each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MARK = "answer: "


ICEBERG_JAR = os.environ.get("ROWMERGE_ICEBERG_JAR", "")
DELTA_JARS = os.environ.get("ROWMERGE_DELTA_JARS", "")


class JvmPeer:
    """A Spark with a JVM engine in another process."""

    def __init__(self, jars: str, settings: Mapping[str, str], python: str) -> None:
        """Start Spark. `jars` are separated by commas, and `python` is a Python whose PySpark they are for."""
        command = [python, __file__, jars, json.dumps(settings)]
        # PySpark sets SPARK_REMOTE in a process that uses Spark Connect. The other Spark is an embedded one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )

    def sql(self, statement: str) -> list[str]:
        """Run a statement and return its rows as JSON strings in order. Raises AssertionError with the engine's message if it fails."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(MARK):
                answer: dict[str, Any] = json.loads(line[len(MARK) :])
                assert "error" not in answer, f"{statement}\n{answer.get('error')}"
                rows: list[str] = answer["rows"]
                return rows
        raise AssertionError(f"The other Spark ended at: {statement}")

    def close(self) -> None:
        self._process.communicate("")


def iceberg_on_spark(warehouse: Path) -> JvmPeer:
    """Start Iceberg on Spark with a Hadoop catalog of a warehouse folder. `ROWMERGE_ICEBERG_PYTHON` names its Python."""
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.w": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.w.type": "hadoop",
        "spark.sql.catalog.w.warehouse": str(warehouse),
        "spark.sql.catalog.w.cache-enabled": "false",
        "spark.sql.defaultCatalog": "w",
    }
    return JvmPeer(ICEBERG_JAR, settings, os.environ.get("ROWMERGE_ICEBERG_PYTHON", sys.executable))


def iceberg_with_hive_on_spark(uri: str, warehouse: str) -> JvmPeer:
    """Start Iceberg on Spark with a catalog of a Hive metastore.

    Args:
        uri: The address of the metastore.
        warehouse: The URL of the folder of new databases.
    """
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.h.type": "hive",
        "spark.sql.catalog.h.uri": uri,
        "spark.sql.catalog.h.warehouse": warehouse,
        "spark.sql.catalog.h.cache-enabled": "false",
        "spark.sql.defaultCatalog": "h",
    }
    return JvmPeer(ICEBERG_JAR, settings, os.environ.get("ROWMERGE_ICEBERG_PYTHON", sys.executable))


def delta_on_spark() -> JvmPeer:
    """Start Delta Lake on Spark, which compares checksums. `ROWMERGE_DELTA_PYTHON` names its Python."""
    jars = ",".join(str(jar) for jar in sorted(Path(DELTA_JARS).glob("delta-*.jar")))
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.checksum.mismatch.fatal": "true",
        "spark.databricks.delta.incrementalCommit.verify": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    return JvmPeer(jars, settings, os.environ.get("ROWMERGE_DELTA_PYTHON", sys.executable))


def serve(jars: str, engine_settings: Mapping[str, str]) -> None:
    """Answer each line of standard input."""
    from pyspark.sql import SparkSession

    settings = {
        **engine_settings,
        "spark.jars": jars,
        "spark.driver.extraClassPath": jars.replace(",", ":"),
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
    serve(sys.argv[1], json.loads(sys.argv[2]))
