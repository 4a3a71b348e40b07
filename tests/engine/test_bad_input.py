"""Damaged tables and invalid paths raise one clear error that names the cause, and lose no rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.delta.snapshots import deletion_vectors
from rowmerge.errors import (
    ChecksumMismatch,
    ConfigurationError,
    CorruptLog,
    MissingDataFile,
    PlanError,
    StorageError,
    UnreadableDataFile,
    UnsupportedTableFeature,
)
from rowmerge.spark.reading import scan
from rowmerge.storage.cache import Cache


@pytest.fixture
def orders(bare_session: rowmerge.Session) -> Path:
    """Create a table with two versions, and return its folder."""
    session = bare_session
    session.sql("create table orders (id int, v string) using delta tblproperties ('rowmerge.write.mode' = 'copy-on-write')")
    session.sql("insert into orders values (1, 'a')")
    session.sql("insert into orders values (2, 'b')")
    return Path(session.describe("default", "orders").location.removeprefix("file://"))


def reopened(spark: SparkSession, folder: Path) -> rowmerge.Session:
    return rowmerge.connect(str(folder.parent.parent), spark=spark)


def test_a_truncated_log_file_is_reported_by_name(spark: SparkSession, orders: Path) -> None:
    commit = orders / "_delta_log" / f"{2:020d}.json"
    commit.write_bytes(commit.read_bytes()[:-40])
    with pytest.raises(CorruptLog, match=f"{2:020d}.json"):
        reopened(spark, orders).sql("select * from orders")
    assert reopened(spark, orders).sql("select id from orders version as of 1").collect() == [(1,)]


def test_a_gap_in_the_log_is_reported(spark: SparkSession, orders: Path) -> None:
    (orders / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(CorruptLog, match=f"{1:020d}"):
        reopened(spark, orders).sql("select * from orders")


def test_a_log_without_an_action_is_an_error_or_a_warning(spark: SparkSession, orders: Path, caplog: pytest.LogCaptureFixture) -> None:
    commit = orders / "_delta_log" / f"{2:020d}.json"
    commit.write_text("".join(line + "\n" for line in commit.read_text().splitlines() if '"add"' not in line))
    session = reopened(spark, orders)
    with pytest.raises(ChecksumMismatch, match=f"{2:020d}.crc does not match version 2"):
        session.sql("select * from orders")
    with pytest.raises(CorruptLog, match="checksum.mismatch.fatal = false"):
        session.sql(f"select * from read_files('{orders}', format => 'delta')")
    session.sql("set spark.databricks.delta.checksum.mismatch.fatal = false")
    try:
        assert session.sql("select id from orders").collect() == [(1,)]
        assert session.sql(f"select id from read_files('{orders}', format => 'delta')").collect() == [(1,)]
        assert sum("does not match version 2" in record.getMessage() for record in caplog.records) == 2
    finally:
        session.sql("reset spark.databricks.delta.checksum.mismatch.fatal")
    assert reopened(spark, orders).sql("select id from orders version as of 1").collect() == [(1,)]


def test_a_missing_data_file_is_reported_by_name(spark: SparkSession, orders: Path) -> None:
    lost = sorted(orders.glob("*.parquet"))[0]
    lost.unlink()
    session = reopened(spark, orders)
    with pytest.raises(MissingDataFile, match=lost.name):
        session.sql("update orders set v = 'z'")
    with pytest.raises(MissingDataFile, match=lost.name):
        session.sql("select * from orders").collect()


def test_a_data_file_lost_after_planning_fails_the_query(spark: SparkSession, orders: Path) -> None:
    session = reopened(spark, orders)
    assert session.table("orders").count() == 2
    for file in orders.glob("*.parquet"):
        file.unlink()
    with pytest.raises(MissingDataFile):
        session.sql("merge into orders t using (select 1 as id, 'x' as v) s on t.id = s.id when matched then update set *")


def damage_the_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def damage_the_middle(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:8] + bytes(60) + content[68:])


@pytest.mark.parametrize("damage", [damage_the_end, damage_the_middle])
def test_a_damaged_data_file_is_reported_and_no_version_is_written(
    spark: SparkSession, orders: Path, damage: Callable[[Path], None]
) -> None:
    damaged = sorted(orders.glob("*.parquet"))[0]
    damage(damaged)
    old_sizes = {path: path.stat().st_size for path in orders.rglob("*")}
    session = reopened(spark, orders)
    for statement in (
        "update orders set v = 'z'",
        "merge into orders t using (values (1, 'x'), (2, 'y')) s (id, v) on t.id = s.id when matched then update set *",
        "optimize orders",
    ):
        with pytest.raises(UnreadableDataFile, match=damaged.name):
            session.sql(statement)
    assert {path: path.stat().st_size for path in orders.rglob("*")} == old_sizes


def test_a_file_of_another_size_than_in_the_log_hides_its_deleted_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    session.sql("create table t using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read') as select id from range(0, 1000, 1, 1)")
    session.sql("delete from t where id < 10")
    place = tmp_path / "warehouse" / "default" / "t"
    (exchanged,) = place.glob("*.parquet")
    pq.write_table(pq.read_table(exchanged), exchanged, compression="none")
    with pytest.raises(UnreadableDataFile, match=f"{exchanged.name} of .*its size differs from the size that the table records"):
        reopened(spark, place).sql("delete from t where id = 20")
    with pytest.raises(PySparkException, match=f"{exchanged.name}.*its size differs from the size that the table records"):
        reopened(spark, place).sql("select sum(id) from t").collect()
    monkeypatch.setattr(scan, "_MIN_BYTES_CHECKED_ONCE", 0)  # as for files with many bytes
    with pytest.raises(UnreadableDataFile, match=f"{exchanged.name} of .*its size differs from the size that the table records"):
        reopened(spark, place).sql("select sum(id) from t")


def test_deleted_rows_stay_deleted_if_spark_spells_the_path_of_a_file_differently(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark)
    session.sql("create table t (id int) using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    for number in range(2):  # rows of files with the same size are identified by path
        session.sql(f"insert into t select /*+ coalesce(1) */ int(id) from range({number * 10}, {number * 10 + 10})")
    session.sql("delete from t where id % 10 = 3")
    assert len({path.stat().st_size for path in (tmp_path / "warehouse" / "default" / "t").glob("part-*.parquet")}) == 1
    assert session.sql("select count(*), sum(id) from t").collect() == [(18, 174)]
    monkeypatch.setattr(scan, "spark_path", lambda path: f"{path}?")
    place = tmp_path / "warehouse" / "default" / "t"
    with pytest.raises(PySparkException, match="its path differs from the path that the table records"):
        reopened(spark, place).sql("select id from t").collect()
    monkeypatch.setattr(scan, "_MIN_BYTES_CHECKED_ONCE", 0)
    with pytest.raises(UnreadableDataFile, match="its path differs from the path that the table records"):
        reopened(spark, place).sql("select id from t")


@pytest.mark.one_of("format_")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_deleted_rows_are_assigned_to_their_files_at_equal_sizes(session: rowmerge.Session, format_: str) -> None:
    codec_property = {"delta": "delta.parquet.compression.codec", "iceberg": "write.parquet.compression-codec"}[format_]
    properties = f"'rowmerge.write.mode' = 'merge-on-read', '{codec_property}' = 'uncompressed'"
    session.sql(f"create table t (id bigint, v string) using {format_} tblproperties ({properties})")
    for first in (0, 100, 200, 300):
        texts = "'same'" if first < 300 else "repeat(cast(id as string), 20)"
        session.sql(f"insert into t select id, {texts} from range({first}, {first + 100}, 1, 1)")
    session.sql("delete from t where id in (1, 102, 203, 304)")
    place = Path(session.describe("default", "t").location.removeprefix("file://"))
    sizes = [path.stat().st_size for path in place.rglob("*.parquet") if "delete" not in path.name]
    assert len(sizes) == 4 and 1 < len(set(sizes)) < 4
    remaining_ids = [row["id"] for row in session.sql("select id from t order by id").collect()]
    assert remaining_ids == [id for id in range(400) if id not in (1, 102, 203, 304)]


@pytest.mark.one_of("format_", "copies")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
@pytest.mark.parametrize("copies", [1, 2])
def test_small_files_are_read_with_large_files_that_have_deleted_rows(session: rowmerge.Session, format_: str, copies: int) -> None:
    properties = "'rowmerge.write.mode' = 'merge-on-read'"
    session.sql(f"create table t using {format_} tblproperties ({properties}) as select id from range(0, 99999, 1, 1)")
    for _ in range(copies):
        session.sql("insert into t select id from range(-9, 0, 1, 1)")
    session.sql("delete from t where id in (0, 7, 99998)")
    totals = session.sql("select count(*), count_if(id < 0), min(if(id >= 0, id, null)), max(id), count_if(id = 7) from t").collect()[0]
    assert tuple(totals) == (99996 + 9 * copies, 9 * copies, 1, 99997, 0)


@pytest.mark.parametrize("missing", [False, True])
def test_a_bad_deletion_vector_is_reported_and_no_version_is_written(
    spark: SparkSession, orders: Path, missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = reopened(spark, orders)
    session.sql("alter table orders set tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    session.sql("insert into orders select /*+ coalesce(1) */ id, 'a' from range(10, 20)")
    session.sql("delete from orders where id = 13")
    (vector,) = orders.glob("deletion_vector_*.bin")
    content = vector.read_bytes()
    vector.unlink() if missing else vector.write_bytes(content[:-6] + bytes([content[-6] ^ 1]) + content[-5:])
    old_sizes = {path: path.stat().st_size for path in orders.rglob("*")}
    session = reopened(spark, orders)
    monkeypatch.setattr(deletion_vectors, "_cache", Cache(0))  # as in a process that has not read the vector
    for statement in ("select * from orders", "update orders set v = 'z' where id = 14", "optimize orders"):
        with pytest.raises(CorruptLog, match=f"{vector.name} .*{'missing' if missing else 'checksum'}"):
            session.sql(statement)
    assert {path: path.stat().st_size for path in orders.rglob("*")} == old_sizes


def test_unreferenced_files_in_the_table_folder_are_ignored(spark: SparkSession, orders: Path) -> None:
    for name in (
        "junk.parquet",
        "p=1/part-0.parquet",
        ".hidden",
        "_SUCCESS",
        "_delta_log/junk.json",
        "_delta_log/.tmp",
        "deletion_vector_x.bin",
    ):
        (orders / name).parent.mkdir(exist_ok=True)
        (orders / name).write_bytes(b"PAR1 of nobody")
    session = reopened(spark, orders)
    assert session.execute("update orders set v = 'z' where id = 2").changes.updated == 1  # type: ignore[union-attr]
    assert sorted(session.sql("select * from orders").collect()) == [(1, "a"), (2, "z")]


@pytest.mark.parametrize("kind", ["reader", "writer"])
def test_an_unknown_table_feature_is_rejected_by_name(spark: SparkSession, orders: Path, kind: str) -> None:
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["telepathy"]}
    if kind == "reader":
        features["readerFeatures"] = ["telepathy"]
    (orders / "_delta_log" / f"{3:020d}.json").write_text(json.dumps({"protocol": features}) + "\n")
    session = reopened(spark, orders)
    if kind == "reader":
        with pytest.raises(UnsupportedTableFeature, match="telepathy"):
            session.sql("select * from orders")
    else:
        assert session.sql("select count(*) from orders").collect() == [(2,)]
        with pytest.raises(UnsupportedTableFeature, match="telepathy"):
            session.sql("delete from orders where id = 1")
        assert session.sql("select count(*) from orders").collect() == [(2,)]


def test_a_warehouse_that_is_a_file_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "warehouse"
    place.write_text("not a folder")
    with pytest.raises(StorageError, match="it is a file"):
        rowmerge.connect(str(place), spark=spark)


def test_a_warehouse_below_a_file_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StorageError, match="warehouse"):
        rowmerge.connect(str(tmp_path / "file" / "warehouse"), spark=spark)


@pytest.mark.one_of("name", keep=4)
@pytest.mark.parametrize(
    "name", ["..", ".", "../escape", "a/b", "a\\b", "it's", 'say "so"', "a.b", "a b", "%2e%2e", "_x", "Ünï", "`tick`", "*?[x]"]
)
def test_odd_identifiers_stay_inside_the_warehouse(session: rowmerge.Session, tmp_path: Path, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    column = quoted if not set(' "') & set(name) else "x"
    old_paths = set(tmp_path.rglob("*"))
    session.sql(f"create schema {quoted}")
    session.sql(f"create table {quoted}.{quoted} ({column} int, p string) using delta partitioned by (p)")
    session.sql(f"insert into {quoted}.{quoted} values (1, 'x/../y'), (2, 'p=1')")
    session.sql(f"update {quoted}.{quoted} set {column} = 3 where p = 'p=1'")
    assert [row[0] for row in session.sql(f"select {column} from {quoted}.{quoted} order by 1").collect()] == [1, 3]
    new_paths = set(tmp_path.rglob("*")) - old_paths
    assert new_paths and all((tmp_path / "warehouse") in path.parents for path in new_paths)


def test_a_column_name_that_parquet_readers_cannot_read_is_rejected(session: rowmerge.Session) -> None:
    with pytest.raises(PlanError, match="'a b'"):
        session.sql("create table t (`a b` int) using delta")


def test_a_missing_java_is_reported(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PATH")}
    environment |= {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    code = f"import rowmerge; rowmerge.connect({str(tmp_path / 'w')!r})"
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "ConfigurationError: Spark needs Java, but Java is not installed" in process.stderr


def test_an_unknown_spark_config_key_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="driver.memory"):
        rowmerge.connect(str(tmp_path), spark_config={"driver.memory": "1g"})


def test_an_unknown_default_format_is_rejected_with_the_valid_formats(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'hudi' is unknown. Use one of delta, iceberg"):
        rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, default_format="hudi")


def test_a_failed_statement_leaves_no_files_behind(bare_session: rowmerge.Session, orders: Path) -> None:
    old_paths = sorted(orders.rglob("*"))
    with pytest.raises(rowmerge.errors.MultipleSourceRowsMatch):
        bare_session.sql("merge into orders t using (values (1, 'x'), (1, 'y')) s (id, v) on t.id = s.id when matched then update set *")
    assert sorted(orders.rglob("*")) == old_paths


@pytest.mark.parametrize(("mode", "format_"), [("replace", "parquet"), ("append", "iceberg")])
def test_an_unknown_or_read_only_format_is_rejected(bare_session: rowmerge.Session, mode: str, format_: str) -> None:
    with pytest.raises(ConfigurationError, match=f"format is '{format_}'. Use one of delta, iceberg, and only with mode 'replace'"):
        bare_session.write(pa.table({"id": [1]}), "t", mode=mode, format=format_)  # type: ignore[arg-type]
    bare_session.write(pa.table({"id": [1]}), "t", mode="replace", format="iceberg")
    assert [relation.format for relation in bare_session.relations("default")] == ["iceberg"]
