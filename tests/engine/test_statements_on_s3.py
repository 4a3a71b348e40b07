"""Statements on S3 that need no data files, or read and write them with Arrow. Spark itself comes without a connector for S3."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.parquet.filesystems import filesystem_of
from rowmerge.storage.configuration import StorageConfiguration
from tests.support.faulty_s3 import FaultyS3, needs_moto
from tests.support.jvm import connectors_of_stores

pytestmark = needs_moto
DELTA_RS = """
import json, sys, deltalake, pyarrow
table = deltalake.DeltaTable(sys.argv[1], storage_options=json.loads(sys.argv[2]))
rows = pyarrow.table(deltalake.QueryBuilder().register("t", table).execute("select id, p from t").read_all())
print(json.dumps(list(zip(rows["id"].to_pylist(), rows["p"].to_pylist()))))
"""


@pytest.fixture
def options(s3: FaultyS3) -> dict[str, str]:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "aws_region": "us-east-1"}
    return {**keys, "aws_endpoint": s3.address, "aws_allow_http": "true"}  # delta-rs needs the last one


@pytest.fixture
def connect(spark: SparkSession, options: dict[str, str]) -> Iterator[Callable[..., rowmerge.Session]]:
    """Yield a function that connects with the storage options, and remove their settings from Spark afterwards."""
    with connectors_of_stores(spark):
        yield lambda location, **arguments: rowmerge.connect(location, spark=spark, storage_options=options, **arguments)


@pytest.fixture
def warehouse(s3: FaultyS3, tmp_path: Path) -> str:
    return f"{s3.location}/{tmp_path.name}"


@pytest.fixture(params=["delta", "iceberg", "sql catalog"])
def session(
    request: pytest.FixtureRequest, connect: Callable[..., rowmerge.Session], s3: FaultyS3, warehouse: str, tmp_path: Path
) -> rowmerge.Session:
    """Return a session with an empty table of two columns, partitioned by the second one."""
    arguments: dict[str, Any] = {"default_format": request.param}
    if request.param == "sql catalog":
        arguments = {"catalog": {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **iceberg_options(s3)}}
    session = connect(warehouse, **arguments)
    session.sql("create schema if not exists default")
    session.sql("create table t (id bigint, p string) partitioned by (p)")
    return session


def iceberg_options(s3: FaultyS3) -> dict[str, str]:
    return {"s3.endpoint": s3.address, "s3.access-key-id": "testing", "s3.secret-access-key": "testing", "s3.region": "us-east-1"}


@pytest.fixture
def landing(s3: FaultyS3, options: dict[str, str], warehouse: str) -> str:
    """Write a Hive-style folder with two partitions to S3, and return its location."""
    location, arguments = f"{warehouse}-landing", StorageConfiguration.parse(options).filesystem_options()
    for id_, partition in ((1, "a b"), (2, "c")):
        filesystem, path = filesystem_of(f"{location}/p={partition.replace(' ', '%20')}/x.parquet", arguments)
        pq.write_table(pa.table({"id": pa.array([id_], pa.int64())}), path, filesystem=filesystem)
    return location


def rows(session: rowmerge.Session, s3: FaultyS3, options: dict[str, str], name: str) -> list[tuple[int, str]]:
    """Return the rows that delta-rs or pyiceberg reads in a table."""
    location = session.describe("default", name).location
    if session.sql(f"describe detail {name}").collect()[0].format == "delta":
        # In another process, because delta-rs holds the interpreter's lock, which the server in this process needs.
        command = [sys.executable, "-c", DELTA_RS, location, json.dumps(options)]
        read = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return sorted(map(tuple, read))
    metadata = session.sql(f"select file from {name}.metadata_log_entries order by timestamp desc, latest_sequence_number desc limit 1")
    read = StaticTable.from_metadata(metadata.collect()[0][0], iceberg_options(s3)).scan().to_arrow()
    return sorted(zip(read["id"].to_pylist(), read["p"].to_pylist(), strict=True))


def test_files_are_added_listed_and_deleted(
    session: rowmerge.Session, s3: FaultyS3, options: dict[str, str], landing: str, tmp_path: Path
) -> None:
    session.sql(f"call system.add_files('t', 'parquet.`{landing}`')")
    with pytest.raises(PlanError, match="already contains"):
        session.sql(f"call system.add_files('t', 'parquet.`{landing}`', map('p', 'c'))")
    (tmp_path / "x.csv").write_text("id,p\n3,d\n")
    copy = f"copy into t from '{tmp_path}' fileformat = csv pattern = '*.csv' format_options ('header' = 'true')"
    assert [session.sql(copy).collect()[0][0] for _ in range(2)] == [1, 0]
    assert rows(session, s3, options, "t") == [(1, "a b"), (2, "c"), (3, "d")]
    partitions = [row.partition for row in session.sql("show partitions t").collect()]
    assert len(partitions) == 3 and partitions[1:] == ["p=c", "p=d"]
    session.sql("alter table t drop partition (p = 'c')")
    session.sql("alter table t rename to renamed")
    session.sql("create table t like renamed")
    session.sql("insert into t values (7, 'e')")
    assert rows(session, s3, options, "renamed") == [(1, "a b"), (3, "d")] and rows(session, s3, options, "t") == [(7, "e")]
    session.sql("vacuum renamed lite")
    assert session.sql("fsck repair table renamed").collect() == []
    assert "PARTITIONED BY (`p`)" in session.sql("show create table renamed").collect()[0][0]
    (counts,) = session.sql("select sum(record_count), count(*) from renamed.files").collect()
    assert tuple(counts) == (2, 2)


def test_copies_and_new_names_of_a_table(
    session: rowmerge.Session, s3: FaultyS3, options: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """A catalog has no clones, and a folder has no table of the same metadata file under two names."""
    rowmerge.Table.for_name(session, "t").append(pa.table({"id": [1, 2], "p": ["a/b", None]}))
    expected, location = [(1, "a/b"), (2, None)], session.describe("default", "t").location
    if "sql" in request.node.callspec.id:
        (metadata,) = session.sql("select file from t.metadata_log_entries order by timestamp desc, file desc limit 1").collect()
        session.sql(f"call system.register_table('again', '{metadata.file}')")
        assert rows(session, s3, options, "again") == expected
    else:
        for _ in range(2):
            session.sql("create or replace table copied deep clone t")
        assert rows(session, s3, options, "copied") == expected
        format_ = request.node.callspec.id
        session.sql(f"insert into {format_}.`{location}` values (3, 'x')")
        assert session.sql(f"select count(*) from {format_}.`{location}`").collect() == [(3,)]
        assert rows(session, s3, options, "t") == [*expected, (3, "x")]
    if "delta" not in request.node.callspec.id:
        (paths,) = session.sql(f"call system.rewrite_table_path('t', '{location}', 's3://lake/moved')").collect()
        assert paths.file_list_location.startswith(location)
        session.sql("call system.rewrite_manifests('t')")
        session.sql("call system.compute_partition_stats('t')")
    session.sql("drop table t")
    assert [table.name for table in session.relations("default")] == ["again" if "sql" in request.node.callspec.id else "copied"]


@pytest.mark.parametrize("is_further", [False, True])
def test_a_session_without_the_connector_is_an_error_that_names_it(
    spark: SparkSession, s3: FaultyS3, warehouse: str, tmp_path: Path, is_further: bool
) -> None:
    warehouse = warehouse.replace("s3://", "s3a://")  # the file system that other tests have opened for s3:// stays open
    location, further = (str(tmp_path), [{"name": "archive", "warehouse": warehouse}]) if is_further else (warehouse, [])
    with pytest.raises(ConfigurationError, match=r"no connector .* s3a://lake.*spark.jars.packages = org.apache.hadoop:hadoop-aws:3"):
        rowmerge.connect(location, spark=spark.newSession(), catalogs=further, storage_options=s3.options())
