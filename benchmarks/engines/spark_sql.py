"""The shared parts of all engines on Spark: session settings, sources as views, statements as SQL."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engines.sql import text_of
from benchmarks.scenarios import DELETE, DeleteInsert, Merge, Query, Scenario, Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = os.cpu_count() or 2
SETTINGS = {
    "spark.master": f"local[{CORES}]",
    "spark.driver.memory": os.environ.get("ROWMERGE_BENCH_MEMORY", "8g"),
    "spark.sql.shuffle.partitions": str(2 * CORES),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}
"""The same for every engine on Spark; what else there is are Spark's defaults, or the engine's own."""
WORKERS = 2


def use_workers() -> None:
    """Start a standalone cluster that ends with this process, and change SETTINGS so that it runs the tasks of the engine.

    Each of its workers has one core. A driver has 2 GB, and an executor has 4 GB, or the memory that ROWMERGE_BENCH_DRIVER_MEMORY and
    ROWMERGE_BENCH_EXECUTOR_MEMORY state. The workers have no package of an engine, but only what `pip install 'pyspark[sql]'` installs.
    """
    from tests.support.standalone import StandaloneCluster, worker_python

    cluster = StandaloneCluster(Path(tempfile.mkdtemp()), workers=WORKERS, memory="5g")
    atexit.register(cluster.close)
    SETTINGS.update(
        {
            "spark.master": cluster.master,
            "spark.driver.memory": os.environ.get("ROWMERGE_BENCH_DRIVER_MEMORY", "2g"),
            "spark.executor.memory": os.environ.get("ROWMERGE_BENCH_EXECUTOR_MEMORY", "4g"),
            "spark.pyspark.python": worker_python(),
        }
    )


def start(settings: Mapping[str, str], jars: list[Path]) -> SparkSession:
    """Start a Spark with jars on its class path."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("benchmark")
    classpath = ":".join(str(jar) for jar in jars)
    for key, value in {**SETTINGS, "spark.driver.extraClassPath": classpath, "spark.jars": classpath.replace(":", ","), **settings}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class SparkSqlEngine:
    """An engine that runs SQL on one table of a Spark session. `table`: its name in SQL; `compaction`: the statement that compacts it."""

    ends = True
    spark: SparkSession
    table: str
    compaction: str

    def source(self, name: str, path: Path) -> None:
        self.spark.read.parquet(str(path)).createOrReplaceTempView(name)

    def run(self, step: Step, scenario: Scenario) -> str | None:
        if isinstance(step, DeleteInsert):  # two statements, because Spark has no REPLACE USING
            self.run(Merge(step.source, (DELETE,), step.on), scenario)
            text = f"insert into {self.table} select {', '.join(scenario.columns)} from {step.source}"
        else:
            text = text_of(step, scenario, self.table, self.compaction)
        rows: list[Any] = self.spark.sql(text).collect()
        return _text(rows) if isinstance(step, Query) else None

    def plan(self, step: Step, scenario: Scenario) -> None:
        pass

    def stages(self) -> Mapping[str, float]:
        return {}


def _text(rows: list[Any]) -> str:
    return " | ".join(str(value) for value in rows[0])
