"""Procedures that write files of their own: statistics of columns and partitions, and metadata for a copy of the table."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import PlanError, TypeMismatch, UnknownColumn, VersionNotFound
from tests.engine.jvm_peer import ICEBERG_JAR, iceberg_on_spark


def newest_metadata(folder: Path) -> str:
    files = (folder / "metadata").glob("v*.metadata.json")
    return str(max(files, key=lambda path: int(path.name[1:].partition(".")[0])))


def distinct_counts(folder: Path) -> dict[str, int]:
    """Return the numbers of distinct values that the metadata store, by column."""
    table = StaticTable.from_metadata(newest_metadata(folder))
    blobs = [blob for file in table.metadata.statistics for blob in file.blob_metadata]
    return {table.schema().find_column_name(blob.fields[0]): int((blob.properties or {})["ndv"]) for blob in blobs}


CREATE = (
    "create table t (id bigint, b boolean, x double, d decimal(12, 2), ts timestamp, dt date, s string, st struct<a: int>, "
    "m map<string, int>) using iceberg partitioned by (b) tblproperties ('rowmerge.write.mode' = 'merge-on-read')"
)
INSERT = (
    "insert into t select /*+ coalesce(1) */ id, id % 3 = 0, id / 7, cast(id - 500 as decimal(12, 2)) / 7, timestamp_seconds(id % 97), "
    "date_add(date'2024-01-01', cast(id % 30 as int)), if(id % 10 = 0, '', concat('ä', id % 123)), "
    "named_struct('a', cast(id % 5 as int)), map('a', 1) from range(1000)"
)


def test_statistics_of_columns_and_partitions(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    bare_session.sql(CREATE)
    assert bare_session.sql("call system.compute_table_stats('t')").collect() == []
    bare_session.sql(INSERT)
    bare_session.sql("delete from t where id = 1")
    folder = tmp_path / "warehouse" / "default" / "t"
    (row,) = bare_session.sql("call system.compute_table_stats('t')").collect()
    assert Path(row["statistics_file"].removeprefix("file://")).exists()
    expected = {"id": 999, "b": 2, "x": 999, "d": 999, "ts": 97, "dt": 30, "s": 123}  # an empty string has no hash
    assert distinct_counts(folder) == expected
    bare_session.sql("call system.compute_table_stats(table => 't', columns => array('st.a', 'id'))")
    assert distinct_counts(folder) == {"st.a": 5, "id": 999}
    with pytest.raises(TypeMismatch, match="The column m has the type map"):
        bare_session.sql("call system.compute_table_stats(table => 't', columns => array('m'))")
    with pytest.raises(UnknownColumn):
        bare_session.sql("call system.compute_table_stats(table => 't', columns => array('z'))")
    with pytest.raises(VersionNotFound):
        bare_session.sql("call system.compute_table_stats(table => 't', snapshot_id => 5)")
    (row,) = bare_session.sql("call system.compute_partition_stats('t')").collect()
    partitions = pq.read_table(row[0].removeprefix("file://")).to_pylist()
    counts = [(part["partition"]["b"], part["data_record_count"], part["position_delete_record_count"]) for part in partitions]
    assert counts == [(False, 666, 1), (True, 334, 0)]
    assert bare_session.sql("call system.compute_partition_stats('t')").collect() == [row], "the file exists already"
    bare_session.sql("create table u (id int) using iceberg")
    bare_session.sql("insert into u values (1)")
    with pytest.raises(PlanError, match="is not partitioned"):
        bare_session.sql("call system.compute_partition_stats('u')")
    bare_session.sql("create table d (id int) using delta")
    with pytest.raises(PlanError, match="supports only Iceberg tables"):
        bare_session.sql("call system.compute_table_stats('d')")


@pytest.mark.one_of("version")
@pytest.mark.parametrize("version", [2, 3])
def test_a_copied_table_is_readable(bare_session: rowmerge.Session, tmp_path: Path, version: int) -> None:
    properties = f"'rowmerge.write.mode' = 'merge-on-read', 'format-version' = '{version}'"
    bare_session.sql(f"create table t (id bigint, p int) using iceberg partitioned by (p) tblproperties ({properties})")
    bare_session.sql("insert into t select /*+ coalesce(1) */ id, cast(id % 2 as int) from range(100)")
    bare_session.sql("delete from t where id in (4, 5)")
    folder, target = tmp_path / "warehouse" / "default" / "t", tmp_path / "target"

    def copy(arguments: str) -> str:
        call = f"call system.rewrite_table_path(table => 't', source_prefix => '{folder}', target_prefix => '{target}'{arguments})"
        (row,) = bare_session.sql(call).collect()
        file_list = Path(row["file_list_location"].removeprefix("file://")).read_text().splitlines()
        for source, copied in csv.reader(file_list):
            Path(copied).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.removeprefix("file://"), copied)
        assert row["rewritten_delete_file_paths_count"] == 2
        return str(row["latest_version"])

    latest = copy("")
    shutil.move(folder, tmp_path / "moved")  # so that a path to the source would fail
    bare_session.sql(f"call system.register_table('c', '{target}/metadata/{latest}')")
    assert [tuple(row) for row in bare_session.sql("select count(*), sum(id) from c").collect()] == [(98, 4941)]
    if version == 2:
        assert StaticTable.from_metadata(f"{target}/metadata/{latest}").scan().to_arrow().num_rows == 98
    shutil.move(tmp_path / "moved", folder)
    bare_session.sql("insert into t values (1000, 0)")
    bare_session.sql("delete from t where id in (6, 7)")
    copy(f", start_version => '{latest}', staging_location => '{tmp_path}/staging'")
    assert [tuple(row) for row in bare_session.sql("select count(*), sum(id) from c").collect()] == [(97, 5928)]
    call = f"call system.rewrite_table_path(table => 't', source_prefix => '{folder}', target_prefix => '/q'"
    assert bare_session.sql(f"{call}, create_file_list => false)").collect()[0]["file_list_location"] == "N/A"
    for arguments, message in (
        (", end_version => 'v9'", "is not in the metadata log"),
        (", start_version => 'v5.metadata.json'", "is not before"),
    ):
        with pytest.raises(PlanError, match=message):
            bare_session.sql(f"{call}{arguments})")
    with pytest.raises(PlanError, match="does not begin with the source prefix"):
        bare_session.sql(f"call system.rewrite_table_path('t', '{tmp_path}/x', '/q')")


@pytest.mark.skipif(not ICEBERG_JAR, reason="ROWMERGE_ICEBERG_JAR names no jar of Iceberg's Spark runtime")
def test_iceberg_on_spark_computes_the_same_statistics(spark: SparkSession, tmp_path: Path) -> None:
    session = rowmerge.connect(str(tmp_path / "warehouse"), spark=spark, default_format="iceberg")
    session.sql(CREATE)
    session.sql(INSERT)
    session.sql("delete from t where id = 1")
    folder = tmp_path / "warehouse" / "default" / "t"
    session.sql("call system.compute_table_stats('t')")
    ours = distinct_counts(folder)
    iceberg = iceberg_on_spark(tmp_path / "warehouse")
    iceberg.sql("call w.system.compute_table_stats('default.t')")
    iceberg.close()
    assert distinct_counts(folder) == ours
