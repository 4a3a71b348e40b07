"""DESCRIBE EXTENDED, DESCRIBE … PARTITION, DESCRIBE … AS JSON and DESCRIBE DETAIL."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import agate
import pytest
from dbt.adapters.spark.impl import SparkAdapter
from dbt.adapters.spark.relation import SparkRelation
from deltalake import DeltaTable as DeltaRsTable
from pyiceberg.table import StaticTable

import rowmerge
from tests.support.readers import newest_metadata

pytestmark = pytest.mark.one_of("format_")


@pytest.fixture
def table(bare_session: rowmerge.Session, format_: str) -> rowmerge.Session:
    bare_session.sql(
        f"create table t (id bigint not null comment 'key', v string, p int) using {format_} partitioned by (p) "
        "comment 'words' tblproperties ('team' = 'x', 'owner' = 'me')"
    )
    bare_session.sql("insert into t values (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)")
    bare_session.sql("delete from t where id = 2")
    return bare_session


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_extended_has_the_headings_of_spark(table: rowmerge.Session, format_: str) -> None:
    rows = [tuple(row) for row in table.sql("describe table formatted t").collect()]
    assert rows[:6] == [
        ("id", "bigint", "key"),
        ("v", "string", None),
        ("p", "int", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "int", None),
    ]
    facts = {name: value for name, value, _ in rows[rows.index(("# Detailed Table Information", "", "")) :]}
    described = table.describe("default", "t")
    expected = {"Catalog": "rowmerge", "Schema": "default", "Name": "default.t", "Type": "MANAGED", "Provider": format_, "Owner": "me"}
    expected |= {"Comment": "words", "Location": described.location, "Statistics": f"{described.size} bytes, 2 rows"}
    assert expected.items() <= facts.items()
    assert "team=x" in facts["Table Properties"]
    # Only Delta's metadata contain the time of creation.
    assert ("Created Time" in facts) == (format_ == "delta")


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_partition_has_the_counts_of_its_files(table: rowmerge.Session, format_: str) -> None:
    facts = {row["col_name"]: row["data_type"] for row in table.sql("describe extended t partition (p = 1)").collect()}
    ((files, size),) = table.sql("select file_count, total_data_file_size_in_bytes from t.partitions where partition.p = 1").collect()
    assert facts["Partition Values"] == "[p=1]"
    assert facts["Number of Files"] == str(files) == "1"
    assert facts["Partition Statistics"] == f"{size} bytes, 1 rows"
    if format_ == "iceberg":
        modified = datetime.fromisoformat(facts["Last Updated"])
        assert abs(modified.timestamp() * 1000 - table.describe("default", "t").modified) < timedelta(hours=1).total_seconds() * 1000
    (row,) = table.sql("show table extended like 't' partition (p = '2')").collect()
    assert row["information"].startswith("Partition Values: [p=2]\nNumber of Files: 1\n")


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_json_has_the_keys_of_spark(table: rowmerge.Session, format_: str) -> None:
    table.sql("alter table t add columns (s struct<a: array<decimal(5, 2)>, m: map<string, timestamp>>)")
    (row,) = table.sql("describe table extended t as json").collect()
    value = json.loads(row["json_metadata"])
    described = table.describe("default", "t")
    assert value["table_name"] == "t"
    assert value["namespace"] == ["default"]
    assert value["partition_columns"] == ["p"]
    assert value["provider"] == format_
    assert value["statistics"] == {"size_in_bytes": described.size, "num_rows": 2}
    assert value["columns"][0] == {"name": "id", "type": {"name": "bigint"}, "nullable": False, "comment": "key"}
    (array, map_) = value["columns"][3]["type"]["fields"]
    assert array["type"] == {"name": "array", "element_type": {"name": "decimal", "precision": 5, "scale": 2}, "element_nullable": True}
    assert map_["type"]["value_type"] == {"name": "timestamp_ltz"}


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_detail_has_the_id_and_the_protocol_that_other_readers_find(table: rowmerge.Session, format_: str) -> None:
    (row,) = table.sql("describe detail t").collect()
    location = table.describe("default", "t").location
    assert row["format"] == format_
    assert row["partitionColumns"] == ["p"]
    assert row["clusteringColumns"] == []
    assert row["numFiles"] == 2
    if format_ == "delta":
        other = DeltaRsTable(location)
        protocol = other.protocol()
        assert row["id"] == other.metadata().id
        assert row["createdAt"].timestamp() * 1000 == pytest.approx(other.metadata().created_time, abs=1)
        assert (row["minReaderVersion"], row["minWriterVersion"]) == (protocol.min_reader_version, protocol.min_writer_version)
        assert set(row["tableFeatures"]) == {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    else:
        metadata = StaticTable.from_metadata(newest_metadata(location)).metadata
        assert row["id"] == str(metadata.table_uuid)
        assert (row["createdAt"], row["minReaderVersion"], row["tableFeatures"]) == (None, None, [])


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_dbt_spark_parses_the_rows_of_extended(table: rowmerge.Session, format_: str) -> None:
    rows = [agate.Row(tuple(row), ("col_name", "data_type", "comment")) for row in table.sql("describe extended t").collect()]
    relation = SparkRelation.create(schema="default", identifier="t", type="table")
    columns = SparkAdapter.parse_describe_extended(SparkAdapter, relation, rows)
    size = table.describe("default", "t").size
    assert [(column.column, column.dtype) for column in columns] == [("id", "bigint"), ("v", "string"), ("p", "int")]
    assert {column.table_owner for column in columns} == {"me"}
    assert columns[0].table_stats["stats:bytes:value"] == size
    assert columns[0].table_stats["stats:rows:value"] == 2
