"""The Spark of the tests: settings with which it is faster, because it runs many queries once, and stand-ins for connectors of stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaPackage, JVMView
from pyspark.sql import SparkSession

from tests.support import suites

JAVA_OPTIONS = (
    # Without the second compiler: to optimize the code of a query takes longer than the query runs. Java would then keep only 48 MB for
    # code, which the classes that Spark generates fill in minutes. From then on Java would only interpret.
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    "-XX:+UseSerialGC -Xmn512m -XX:+UseTransparentHugePages "
    # Spark's generated classes need no verification.
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

SPARK_SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # As many JVMs as processes that run tests.
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "2",
    # Tests repeat the shapes of queries, but more than Spark's 100 of them.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # Spark allocates and zeroes one page for each sort, join and aggregate. By default, a page has 64 MB.
    "spark.buffer.pageSize": "1m",
}

if suites.chosen_suite == "gate":
    # The gate evaluates expressions without generated code, which takes longer to compile than to run. The full suite generates code.
    SPARK_SETTINGS |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def remember_java_classes() -> None:
    """Make py4j ask the JVM once for each class name.

    PySpark uses Java class names in most of its calls (`jvm.functions`, `jvm.PythonUtils`). For each name, py4j searches all 280 jars of
    Spark several times without success, which takes a tenth of the time of a small merge.
    """
    for namespace in (JVMView, JavaPackage):
        if not hasattr(namespace, "_remembers_classes"):
            namespace._remembers_classes = True
            namespace.__getattr__ = _remembering(namespace.__getattr__)


def _remembering(look_up: Any) -> Any:
    """Return a `__getattr__` that calls `look_up` once for each name in a namespace of a JVM."""
    classes: dict[tuple[int, str, str], tuple[Any, Any]] = {}

    def get_attribute(view: Any, name: str) -> Any:
        client = view.__dict__.get("_gateway_client")
        if client is None or name.startswith("_"):
            return look_up(view, name)
        # The client is part of the value, so that its id cannot become another client's.
        key = (id(client), view.__dict__.get("_fqn", ""), name)
        if key not in classes:
            classes[key] = (client, look_up(view, name))
        return classes[key][1]

    return get_attribute


_REDACTION = "spark.sql.redaction.options.regex"
_CONNECTORS = ("fs.s3.impl", "spark.hadoop.fs.s3.impl", "fs.abfss.impl")
"""The settings of connectors, without which connecting fails. A setting of the user takes precedence over that of rowmerge."""


@contextmanager
def connectors_of_stores(spark: SparkSession) -> Iterator[None]:
    """Give Spark a class for object stores, with which it cannot read them, and remove all settings of stores afterwards."""
    redaction = spark.conf.get(_REDACTION)
    for name in _CONNECTORS:
        spark.conf.set(name, "org.apache.hadoop.fs.RawLocalFileSystem")
    try:
        yield
    finally:
        for row in spark.sql("set").collect():
            if row["key"].startswith("fs.") or row["key"] in _CONNECTORS:
                spark.conf.unset(row["key"])
        spark.conf.set(_REDACTION, redaction)
