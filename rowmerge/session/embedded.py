"""The Spark that runs inside this process when the user brings none."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import __version__ as pyspark_version
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rowmerge.errors import ConfigurationError

OLDEST_SPARK = (3, 5)


def start_spark(config: Mapping[str, object] | None = None) -> SparkSession:
    """The process's Spark session, made when there is none: local[*], no user interface, no Hive, quiet.

    `config` is Spark configuration and wins over our defaults. Raises ConfigurationError when there is no Java, or PySpark is too old.
    """
    check_pyspark(pyspark_version)
    given = {key: _text(value) for key, value in (config or {}).items()}
    for key in given:
        if not key.startswith("spark."):
            raise ConfigurationError(
                f"spark_config has the key {key!r}, but Spark's keys begin with 'spark.'. Write 'spark.{key}' if that is meant."
            )
    if not given.get("spark.remote"):
        _check_java()
    # Workers run the interpreter that runs us, not whatever python3 the PATH has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not logging.getLogger("SQLQueryContextLogger").handlers:
        # PySpark prints each SQL error as a JSON line before it raises it: the error itself is enough.
        logging.getLogger("SQLQueryContextLogger").disabled = True
    builder = SparkSession.builder.appName("rowmerge")
    for key, value in ({} if given.get("spark.remote") else _defaults(given)).items():
        builder = builder.config(key, value)
    for key, value in given.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise ConfigurationError(
            f"Spark did not start: {str(error).splitlines()[0]}. Check Java (17 or newer) with `java -version`, and spark_config."
        ) from error


def check_pyspark(version: str) -> None:
    """Raises ConfigurationError for a PySpark that has no row indexes in its Parquet reader."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < OLDEST_SPARK:
        raise ConfigurationError(
            f"PySpark {version} is too old: rowmerge needs 3.5 or newer. Install it with pip install 'pyspark>=3.5,<5'."
        )


def _defaults(given: Mapping[str, str]) -> dict[str, str]:
    cores = os.cpu_count() or 2
    log4j = Path(__file__).with_name("log4j2.properties")
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()} {given.get('spark.driver.extraJavaOptions', '')}".strip()
    return {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": _memory(),
        "spark.driver.extraJavaOptions": options,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "rowmerge-spark-warehouse"),
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # Four calls to the JVM for each DataFrame call, to note a line of ours that no error of ours shows: a third of a small merge.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Listing a few thousand files is quicker here than as a Spark job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    }


def _memory() -> str:
    """Half of the machine's memory for the JVM, between 1 and 8 GB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(1, min(8, total // 2**30 // 2))}g"


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").is_file():
        raise ConfigurationError(f"JAVA_HOME is {home}, but there is no bin/java in it. Point it to a Java 17 (or newer), or unset it.")
    if not home and shutil.which("java") is None:
        raise ConfigurationError(
            "There is no Java: Spark needs one. Install Java 17 or newer (for example openjdk-17-jre-headless) or set JAVA_HOME."
        )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
