"""One engine in its own process: it reads a statement per line of standard input, and writes its rows and seconds as JSON.

The first line is the job: the engine, the warehouse of its tables, and where the peers' jars are.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from benchmarks.engines.spark_sql import SETTINGS, start

MARK = "answer: "
SCHEMA = "bench"
_SETTINGS = {**SETTINGS, "spark.sql.session.timeZone": "UTC"}


class Reader(Protocol):
    """An engine that runs SQL on the tables of a warehouse."""

    @property
    def versions(self) -> dict[str, str]:
        """The names and versions of the engine's packages."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement to its end, and return its rows."""


class SparkReader:
    """A Spark session with the jars of a peer, or without any."""

    def __init__(self, name: str, settings: dict[str, str], jars: list[Path]) -> None:
        self._name = name
        self._jars = jars
        self.spark = start({**_SETTINGS, **settings}, jars)

    @property
    def versions(self) -> dict[str, str]:
        jar_versions = [jar.stem.rsplit("-", 1)[1] for jar in self._jars if "spark" in jar.name]
        return {self._name: jar_versions[0] if jar_versions else self.spark.version, f"Spark of {self._name}": self.spark.version}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(statement).collect()]


class Rowmerge:
    def __init__(self, warehouse: Path) -> None:
        import rowmerge

        self._version = rowmerge.__version__
        self._session = rowmerge.connect(str(warehouse), spark_config=_SETTINGS)

    @property
    def versions(self) -> dict[str, str]:
        return {"rowmerge": self._version, "Spark of rowmerge": self._session.spark.version}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._session.sql(statement).collect()]


class DeltaRs:
    """delta-rs, with DataFusion. Its tables have no schema: `bench.events` is `events`."""

    def __init__(self, warehouse: Path) -> None:
        import deltalake

        self._version = deltalake.__version__
        self._tables = _tables(warehouse)

    @property
    def versions(self) -> dict[str, str]:
        return {"delta-rs": self._version}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        import pyarrow as pa
        from deltalake import DeltaTable, QueryBuilder

        query = QueryBuilder()
        for table in self._tables:
            if f"{SCHEMA}.{table.name}" in statement:
                query = query.register(table.name, DeltaTable(str(table)))
        batches = pa.table(query.execute(statement.replace(f"{SCHEMA}.", "")).read_all())
        return [tuple(row.values()) for row in batches.to_pylist()]


class DuckDb:
    """DuckDB on Delta tables, Iceberg tables, or the Parquet files of tables without their logs."""

    def __init__(self, warehouse: Path, format_: str) -> None:
        import duckdb

        from benchmarks.agreement import load_extensions, table_function

        self._version = duckdb.__version__
        self._connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        load_extensions(self._connection)
        self._connection.execute(f"set timezone = 'UTC'; create schema {SCHEMA}")
        for table in _tables(warehouse):
            self._connection.execute(f"create view {SCHEMA}.{table.name} as from {table_function(table, format_)}")

    @property
    def versions(self) -> dict[str, str]:
        return {"DuckDB": self._version}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement).fetchall()


def _tables(warehouse: Path) -> list[Path]:
    """Return the folders of the tables in a warehouse."""
    return sorted(path for path in (warehouse / SCHEMA).iterdir() if path.is_dir())


def _delta_spark(warehouse: Path, jars: list[Path]) -> SparkReader:
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(warehouse.parent / "peer-warehouse"),
        # The default of 50 tasks for each log is slow on few cores.
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    reader = SparkReader("Delta on Spark", settings, jars)
    reader.rows(f"create schema {SCHEMA}")
    for table in _tables(warehouse):
        reader.rows(f"create table {SCHEMA}.{table.name} using delta location '{table}'")
    return reader


def _iceberg_spark(warehouse: Path, jars: list[Path]) -> SparkReader:
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.w": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.w.type": "hadoop",
        "spark.sql.catalog.w.warehouse": str(warehouse),
        "spark.sql.defaultCatalog": "w",
    }
    return SparkReader("Iceberg on Spark", settings, jars)


def _parquet(files: dict[str, list[str]]) -> SparkReader:
    """Return a Spark with the files of tables as views. Their names have no schema, because a temporary view has none."""
    reader = SparkReader("Spark on Parquet", {}, [])
    for table, paths in files.items():
        reader.spark.read.parquet(*paths).createOrReplaceTempView(table)
    return reader


def reader_of(job: dict[str, Any]) -> Reader:
    """Return the engine of a job."""
    warehouse, jars = Path(job["warehouse"]), sorted((Path(job["peers"]) / "jars").glob("*.jar"))
    match job["engine"]:
        case "delta-spark":
            return _delta_spark(warehouse, [jar for jar in jars if jar.name.startswith("delta-")])
        case "iceberg-spark":
            return _iceberg_spark(warehouse, [jar for jar in jars if jar.name.startswith("iceberg-")])
        case "parquet":
            return _parquet(job["files"])
        case "delta-rs":
            return DeltaRs(warehouse)
        case "duckdb":
            return DuckDb(warehouse, job["format"])
        case _:
            return Rowmerge(warehouse)


def answer(reader: Reader, statement: str) -> dict[str, Any]:
    """Return the seconds of a statement, and the number and the digest of its rows."""
    begun = time.perf_counter()
    try:
        rows = reader.rows(statement)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the engine's result
        return {"error": f"{type(error).__name__}: {error}"[:600]}
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "rows": len(rows), "digest": digest(rows), "first": [str(value) for value in rows[0]] if rows else []}


def digest(rows: list[tuple[Any, ...]]) -> str:
    """Return a hash of rows in any order. Fractions have five significant digits, because sums of doubles depend on their order."""
    texts = sorted(json.dumps([_text(value) for value in row]) for row in rows)
    return hashlib.md5("\n".join(texts).encode(), usedforsecurity=False).hexdigest()[:12]


def _text(value: Any) -> str:
    return f"{float(value):.5g}" if isinstance(value, float | Decimal) else str(value).strip()


def tell(**fields: Any) -> None:
    sys.stdout.write(f"{MARK}{json.dumps(fields)}\n")
    sys.stdout.flush()


def main() -> None:
    reader = reader_of(json.loads(sys.stdin.readline()))
    tell(versions=reader.versions)
    for line in sys.stdin:
        tell(**answer(reader, json.loads(line)))


if __name__ == "__main__":
    main()
