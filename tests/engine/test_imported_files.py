"""Existing Parquet files become files of tables: add_files, snapshot, migrate and register_table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import (
    AlreadyExists,
    ConstraintViolated,
    FilesNotFound,
    PlanError,
    TableNotFound,
    TypeMismatch,
    UnsupportedTableFeature,
)
from tests.support.readers import read_with_delta_rs, read_with_pyiceberg

ROOT = Path(__file__).parents[2]
FORMATS = ("delta", "iceberg")


def rows(session: rowmerge.Session, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(text).collect()]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    """Write a Hive-style folder with a partition name that is escaped, a NULL partition, and old INT96 times."""
    folder = tmp_path / "a folder"
    columns = ("id", "cast(id / 2 as double) x", "timestamp_seconds(id) ts", "array(id) list", "if(id < 4, 'a b', if(id < 8, '1', null)) p")
    spark.range(10).selectExpr(*columns).repartition(1).write.partitionBy("p").parquet(str(folder))
    return folder


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", FORMATS)
def test_add_files_of_partitions(bare_session: rowmerge.Session, folder: Path, format_: str) -> None:
    columns = "id bigint, x double, ts timestamp, list array<bigint>, p string"
    bare_session.sql(f"create table t ({columns}) using {format_} partitioned by (p)")
    call = f"call system.add_files(table => 't', source_table => 'parquet.`{folder}`'"
    assert rows(bare_session, f"{call}, partition_filter => map('p', 'a b'), parallelism => 2)") == [(1, 1)]
    assert rows(bare_session, "select count(*), min(p), sum(list[0]) from t where id < 3") == [(3, "a b", 3)]
    with pytest.raises(PlanError, match="already contains"):
        bare_session.sql(f"{call})")
    assert rows(bare_session, f"{call}, check_duplicate_files => false)") == [(2, 2)], "one is there already"
    expected = [(None, 2, 17), ("1", 4, 22), ("a b", 4, 6)]
    assert rows(bare_session, "select p, count(*), sum(id) from t group by p order by p nulls first") == expected
    bare_session.sql("delete from t where id = 8")
    assert rows(bare_session, "select id, unix_seconds(ts), x from t where p is null") == [(9, 9, 4.5)]
    read = read_with_pyiceberg if format_ == "iceberg" else read_with_delta_rs
    assert read(bare_session.describe("default", "t").location).num_rows == 9
    with pytest.raises(FilesNotFound):
        bare_session.sql(f"{call}, partition_filter => map('p', 'z'))")
    with pytest.raises(PlanError, match="no column `q`"):
        bare_session.sql(f"{call}, partition_filter => map('q', 'z'))")
    bare_session.sql(f"create table u (id bigint) using {format_}")
    with pytest.raises(PlanError, match="is partitioned by p, and the table by no column"):
        bare_session.sql(f"call system.add_files('u', 'parquet.`{folder}`')")


def test_a_table_like_another_one_finds_the_columns_of_added_files(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    """The new table has other field ids, because a column of the old one was dropped."""
    files = tmp_path / "files"
    files.mkdir()
    pq.write_table(pa.table({"b": [1], "c": [2]}), files / "x.parquet")
    bare_session.sql("create table t (a bigint, b bigint, c bigint) using iceberg")
    bare_session.sql("alter table t drop column a")
    bare_session.sql(f"call system.add_files('t', 'parquet.`{files}`')")
    bare_session.sql(f"copy into t from '{files}' fileformat = parquet")
    bare_session.sql("create table c like t")
    created = bare_session.sql("show create table t").collect()[0][0].replace("`t`", "`d`")
    bare_session.sql(created)
    for table in ("c", "d"):
        bare_session.sql(f"call system.add_files('{table}', 'parquet.`{files}`')")
        assert rows(bare_session, f"copy into {table} from '{files}' fileformat = parquet") == [(1, 1, 0)]
        assert rows(bare_session, f"select b, c from {table}") == [(1, 2)] * 2


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", FORMATS)
def test_files_that_a_table_cannot_read_are_rejected(bare_session: rowmerge.Session, tmp_path: Path, format_: str) -> None:
    bare_session.sql(f"create table t (id bigint not null, s string) using {format_}")

    def add(**columns: pa.Array) -> list[tuple[Any, ...]]:
        path = tmp_path / f"f{len(list(tmp_path.iterdir()))}"
        path.mkdir()
        pq.write_table(pa.table(columns), path / "x.parquet")
        return rows(bare_session, f"call system.add_files('t', 'parquet.`{path}`')")

    texts = pa.array(["a"])
    with pytest.raises(TypeMismatch, match="the column s of the type int64, and the table needs string"):
        add(id=pa.array([1]), s=pa.array([1]))
    with pytest.raises(TypeMismatch, match="the column S, and the table spells it s"):
        add(id=pa.array([1]), S=texts)
    with pytest.raises(TypeMismatch, match="lacks the column id, which must not be NULL"):
        add(s=texts)
    with pytest.raises(ConstraintViolated, match="NOT NULL of column `id`"):
        add(id=pa.array([None], pa.int64()), s=texts)
    assert rows(bare_session, "select count(*) from t") == [(0,)]
    assert add(id=pa.array([1]), other=texts) == [(1, 1)]
    assert rows(bare_session, "select * from t") == [(1, None)]
    if format_ == "iceberg":
        assert add(id=pa.array([2], pa.int32()), s=texts) == [(1, 1)], "an older, narrower type"
        assert rows(bare_session, "select * from t where id > 1") == [(2, "a")]
        field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "7"})
        path = tmp_path / "foreign"
        path.mkdir()
        pq.write_table(pa.table({"id": [1]}, schema=pa.schema([field])), path / "x.parquet")
        with pytest.raises(TypeMismatch, match="the field id 7 of another table"):
            bare_session.sql(f"call system.add_files('t', 'parquet.`{path}`')")
    else:
        bare_session.sql("alter table t add constraint positive check (id > 0)")
        with pytest.raises(UnsupportedTableFeature, match="positive CHECK"):
            add(id=pa.array([1]), s=texts)
    with pytest.raises(PlanError, match="reads only Parquet files"):
        bare_session.sql("call system.add_files('t', 'orc.`/x`')")


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", FORMATS)
def test_snapshot_and_migrate_of_a_session_table(bare_session: rowmerge.Session, spark: SparkSession, folder: Path, format_: str) -> None:
    source, provider = f"source_{format_}", f"map('provider', '{format_}', 'k', 'v')"
    spark.sql(f"create table default.{source} using parquet location '{folder}'")
    try:
        spark.catalog.recoverPartitions(f"default.{source}")
        assert rows(bare_session, f"call system.snapshot('{source}', 'copy', null, {provider})") == [(3,)]
        assert rows(bare_session, "select count(*), sum(id) from copy") == [(10, 45)]
        bare_session.sql("delete from copy where id = 0")
        bare_session.sql("drop table copy")
        assert spark.table(f"default.{source}").count() == 10, "the files of the source stay"
        with pytest.raises(PlanError, match="Set it to one of delta, iceberg"):
            bare_session.sql(f"call system.migrate('{source}', map('provider', 'hudi'))")
        with pytest.raises(TableNotFound):
            bare_session.sql("call system.migrate('no_such_table')")
        assert rows(bare_session, f"call system.migrate(table => '{source}', properties => {provider}, backup_table_name => 'old')") == [
            (3,)
        ]
        assert rows(bare_session, f"select count(*), sum(id) from {source} where p = 'a b'") == [(4, 6)]
        assert bare_session.describe("default", source).properties["k"] == "v"
        assert spark.table("default.old").count() == 10
        with pytest.raises((AlreadyExists, TableNotFound)):
            bare_session.sql(f"call system.migrate('{source}')")
    finally:
        for name in (source, "old"):
            spark.sql(f"drop table if exists spark_catalog.default.{name}")


def test_a_table_whose_files_spark_owns_is_not_migrated(bare_session: rowmerge.Session, spark: SparkSession) -> None:
    spark.sql("create table default.managed_source (id bigint) using parquet")
    try:
        with pytest.raises(PlanError, match="Spark owns the files"):
            bare_session.sql("call system.migrate('managed_source')")
    finally:
        spark.sql("drop table default.managed_source")
    with pytest.raises(PlanError, match="is a folder"):
        bare_session.sql("call system.migrate('parquet.`/x`')")


DYING = """
import sys
from rowmerge.catalog import DirectoryCatalog
from rowmerge.session.session import Session
from rowmerge.session.startup.embedded import start_spark
from tests.support.faulty_storage import Fault, FaultyStorage, Kind
from tests.support.jvm import SPARK_SETTINGS
fault = Fault(Kind.KILLED)
session = Session(DirectoryCatalog(FaultyStorage(sys.argv[1], fault)), start_spark(SPARK_SETTINGS), "default", sys.argv[3], owns_spark=True)
session.spark.sql(f"create table default.source using parquet location '{sys.argv[2]}'")
session.spark.catalog.recoverPartitions("default.source")
fault.calls.clear()
point = int(sys.argv[4])
fault.at = point if point else 0
session.sql("call system.migrate('source')")
print(len(fault.calls), flush=True)
"""


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", FORMATS)
def test_a_killed_migration_leaves_the_old_table_or_the_new_one(spark: SparkSession, tmp_path: Path, folder: Path, format_: str) -> None:
    def migrate(warehouse: Path, point: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", DYING, str(warehouse), str(folder), format_, str(point)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    process = migrate(tmp_path / "killed", 6)
    assert process.returncode != 0, process.stdout
    session = rowmerge.connect(str(tmp_path / "killed"), spark=spark, default_format=format_)
    names = [relation.name for relation in session.relations("default")]
    assert names in ([], ["source"])
    if names:
        assert rows(session, "select count(*), sum(id) from source") == [(10, 45)]
    assert spark.read.parquet(str(folder)).count() == 10, "the old files stay readable"


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", FORMATS)
def test_register_a_table_by_its_newest_metadata(bare_session: rowmerge.Session, tmp_path: Path, format_: str) -> None:
    location = tmp_path / "elsewhere"
    bare_session.sql(f"create table t (id int) using {format_} location '{location}'")
    bare_session.sql("insert into t values (1)")
    bare_session.sql("drop table t")
    names = ("_delta_log/00000000000000000000.json", "_delta_log/00000000000000000001.json")
    old, newest = names if format_ == "delta" else ("metadata/v1.metadata.json", "metadata/v2.metadata.json")
    with pytest.raises(PlanError, match="whose newest version is"):
        bare_session.sql(f"call system.register_table('t', '{location}/{old}')")
    missing = newest.replace("1.json", "7.json").replace("v2", "v7")
    with pytest.raises(FilesNotFound):
        bare_session.sql(f"call system.register_table('t', '{location}/{missing}')")
    with pytest.raises(PlanError, match="is not a metadata file"):
        bare_session.sql(f"call system.register_table('t', '{location}/x.json')")
    ((version, records, files),) = rows(bare_session, f"call system.register_table('t', '{location}/{newest}')")
    assert (version == 1 or format_ == "iceberg", records, files) == (True, 1, 1)
    assert rows(bare_session, "select * from t") == [(1,)]
    with pytest.raises(AlreadyExists):
        bare_session.sql(f"call system.register_table('t', '{location}/{newest}')")
