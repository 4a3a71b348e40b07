"""One Spark session for all engine tests of a process, and one warehouse for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.session.startup.embedded import start_spark
from rowmerge.table.metadata.schema import backquote
from tests.support import suites
from tests.support.faulty_s3 import FaultyS3
from tests.support.jvm import SPARK_SETTINGS, connectors_of_stores, remember_java_classes
from tests.support.readers import read_with_delta_rs, read_with_duckdb, read_with_duckdb_iceberg, read_with_pyiceberg
from tests.support.s3_session import S3_JARS, S3Session
from tests.support.store_fault_tables import SHORT_WAITS, Connect, options_of

remember_java_classes()


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    if remote := os.environ.get("ROWMERGE_REMOTE"):
        return SparkSession.builder.remote(remote).getOrCreate()
    # Python workers of Spark get the path, on which PySpark also finds `pyspark_rowmerge`.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    return start_spark(SPARK_SETTINGS)


@pytest.fixture
def session(request: pytest.FixtureRequest, bare_session: rowmerge.Session) -> Iterator[rowmerge.Session]:
    """Yield a session. After the test, other readers read its tables and must return equal rows.

    In the gate, they read the tables of one test in five, because reading takes a seventh of a test's time.
    """
    yield bare_session
    if suites.chosen_suite != "gate" or suites.stable_hash(request.node.nodeid) % 5 == 0:
        assert_independent_readers_agree(bare_session)


@pytest.fixture
def bare_session(spark: SparkSession, tmp_path: Path) -> Iterator[rowmerge.Session]:
    """Yield a session for tests whose tables cannot be read at the end."""
    yield rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    # SHOW VIEWS, because `spark.catalog.listTables` analyses each view before it names it.
    for view in spark.sql("show views").collect():
        if view["isTemporary"]:
            spark.catalog.dropTempView(view["viewName"])


@pytest.fixture
def s3_warehouse(s3: FaultyS3, tmp_path: Path) -> str:
    """Return the location of the test's warehouse on S3."""
    return f"{s3.location}/{tmp_path.name}"


@pytest.fixture
def connect_to_s3(spark: SparkSession, s3: FaultyS3, s3_warehouse: str) -> Iterator[Connect]:
    """Yield a function that opens a session on the warehouse on S3, with a default format and with storage options."""

    def connect(format_: str, options: Mapping[str, Any] = SHORT_WAITS) -> rowmerge.Session:
        return rowmerge.connect(s3_warehouse, spark=spark, storage_options=options_of(s3, options), default_format=format_)

    with connectors_of_stores(spark):
        yield connect


@pytest.fixture(scope="module")
def session_with_connector() -> Iterator[S3Session]:
    """Yield a session in another process, whose Spark has the connector for S3."""
    if not S3_JARS:
        pytest.skip("ROWMERGE_S3_JARS names no folder with the jars of hadoop-aws")
    session = S3Session()
    yield session
    session.close()


def assert_independent_readers_agree(session: rowmerge.Session, only: str | None = None) -> None:
    """Verify that we, delta-rs or pyiceberg, and DuckDB read equal rows of every table, or of the tables named `only`."""
    for schema in session.schemas():
        for relation in session.relations(schema):
            if relation.kind == "table" and only in (None, relation.name):
                described = session.describe(schema, relation.name)
                name = f"{backquote(schema)}.{backquote(relation.name)}"
                our_rows = session.table(name).toArrow()
                if relation.format == "iceberg":
                    reader_rows = read_with_duckdb_iceberg(described.location)
                    assert _comparable(reader_rows) == _comparable(our_rows), f"DuckDB reads other rows in {name}"
                    # pyiceberg may read a NULL list or map as an empty one.
                    lists = [field.name for field in our_rows.schema if "map<" in str(field.type) or "list<" in str(field.type)]
                    reader_rows = read_with_pyiceberg(described.location).drop_columns(lists)
                    assert _comparable(reader_rows) == _comparable(our_rows.drop_columns(lists)), f"pyiceberg reads other rows in {name}"
                    continue
                if described.properties.get("delta.enableTypeWidening", "false") != "true":
                    # delta-rs refuses tables with this feature.
                    assert _comparable(read_with_delta_rs(described.location)) == _comparable(our_rows), (
                        f"delta-rs reads other rows in {name}"
                    )
                if _has_absolute_paths(described.location):
                    # DuckDB takes absolute paths for relative ones.
                    continue
                reader_rows = read_with_duckdb(described.location)
                if described.properties.get("delta.columnMapping.mode", "none") != "none":
                    # DuckDB looks up partition values by the column's name, so it finds none if the physical name differs.
                    our_rows, reader_rows = (rows.drop_columns(list(described.partition_columns)) for rows in (our_rows, reader_rows))
                assert _comparable(reader_rows) == _comparable(our_rows), f"DuckDB reads other rows in {name}"


def _has_absolute_paths(location: str) -> bool:
    """Return whether a Delta table in a folder has, or had, files outside the folder: of a clone, or added without a copy."""
    commits = Path(location.removeprefix("file://"), "_delta_log").glob("*.json")
    contents = [commit.read_bytes() for commit in commits]
    return any(b'"operation":"CLONE"' in content or b'"path":"file:' in content for content in contents)


def _comparable(rows: pa.Table) -> list[str]:
    """Return sorted rows as strings with columns by name, and timestamps in UTC, because readers attach different time zones."""
    return sorted(repr({name: _to_comparable(row[name]) for name in sorted(row)}) for row in rows.to_pylist())


def _to_comparable(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat() + "Z"
    return value
