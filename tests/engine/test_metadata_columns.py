"""Metadata columns, next to what pyiceberg and delta-rs say about the files of the same tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import rowmerge
from rowmerge.spark.reading import small_files
from tests.golden.iceberg.tables import comparable, copied, expected
from tests.support.readers import newest_metadata

MERGE_ON_READ = ", ".join(f"'write.{operation}.mode' = 'merge-on-read'" for operation in ("delete", "update", "merge"))
MERGE_ON_READ += ", 'format-version' = '3'"
GOLDEN = (
    *("equality_evolved", "equality_global", "equality_partitioned", "mor_file", "name_mapped_partitioned", "odd_paths"),
    *("partition_evolution", "v1", "v3", "v3_upgraded"),
)


def files_read(session: rowmerge.Session, query: str) -> list[int]:
    return [scan.files for scan in session.execute(query).scans]


def first(session: rowmerge.Session, query: str) -> Any:
    return session.sql(query).collect()[0][0]


@pytest.fixture
def iceberg(session: rowmerge.Session, tmp_path: Path) -> StaticTable:
    """Return a table with two partition specs, spaces in paths, deleted rows, and rows that moved, as pyiceberg reads it."""
    session.sql(f"create table t (id int, p string) using iceberg partitioned by (p) tblproperties ({MERGE_ON_READ})")
    session.sql("insert into t select id, if(id % 2 = 0, 'a b%', null) from range(6)")
    session.sql("delete from t where id = 2")
    session.sql("alter table t add partition field bucket(4, id) as shard")
    session.sql("insert into t values (6, 'a b%'), (7, 'c')")
    session.sql("update t set p = 'c' where id = 1")
    return StaticTable.from_metadata(newest_metadata(str(tmp_path / "warehouse" / "default" / "t")))


def test_columns_of_iceberg_equal_the_files_of_pyiceberg(session: rowmerge.Session, iceberg: StaticTable) -> None:
    rows = session.sql("select *, _file, _pos, _spec_id, _partition, _row_id, _deleted, _metadata from t").toArrow().to_pylist()
    files = {file["file_path"]: file for file in iceberg.inspect.data_files().to_pylist()}
    assert {row["_file"] for row in rows} == set(files)
    for row in rows:
        file, metadata = files[row["_file"]], row["_metadata"]
        assert row["_partition"] == {"p": file["partition"].get("p"), "shard": file["partition"].get("shard")}
        assert (row["_spec_id"], metadata["file_size"]) == (file["spec_id"], file["file_size_in_bytes"])
        path = row["_file"].removeprefix("file://")
        assert pq.read_table(path)["id"][row["_pos"]].as_py() == row["id"]
        assert (metadata["file_name"], metadata["row_index"], metadata["row_id"]) == (Path(path).name, row["_pos"], row["_row_id"])
        assert abs(metadata["file_modification_time"].timestamp() - Path(path).stat().st_mtime) < 0.002
    assert sorted((row["id"], row["_deleted"]) for row in rows if row["_deleted"]) == [(1, True), (2, True)]


def test_rows_keep_their_ids_when_they_move(session: rowmerge.Session, iceberg: StaticTable) -> None:
    ids = "select id, _row_id, _last_updated_sequence_number from t {} order by id"
    old = {
        row["id"]: row["_row_id"] for row in session.sql(ids.format(f"version as of {iceberg.metadata.snapshots[0].snapshot_id}")).collect()
    }
    new = {row["id"]: row for row in session.sql(ids.format("")).collect()}
    assert {id_: row["_row_id"] for id_, row in new.items() if id_ in old} == {id_: old[id_] for id_ in new if id_ in old}
    assert {id_: row["_last_updated_sequence_number"] for id_, row in new.items()} == {0: 1, 1: 4, 3: 1, 4: 1, 5: 1, 6: 3, 7: 3}


def test_types_and_nullability_are_those_of_iceberg_on_spark(session: rowmerge.Session, iceberg: StaticTable) -> None:
    query = "select _file, _pos, _deleted, _spec_id, _partition, _row_id, _last_updated_sequence_number, _metadata from t"
    for condition in ("", " where id = 100"):  # the second query reads no file
        schema = session.sql(query + condition).schema
        assert [field.nullable for field in schema] == [False, False, False, True, True, True, True, False]
        types = "struct<_file:string,_pos:bigint,_deleted:boolean,_spec_id:int,_partition:struct<p:string,shard:int>,_row_id:bigint,"
        assert schema.simpleString().startswith(f"{types}_last_updated_sequence_number:bigint,_metadata:struct<file_path:string,")
    session.sql("create table plain (id int) using iceberg")
    session.sql("insert into plain values (1)")
    frame = session.sql("select _partition, _spec_id from plain")
    assert (frame.schema[0].dataType.simpleString(), frame.collect()) == ("struct<>", [(None, 0)])


def test_conditions_on_columns_of_iceberg_exclude_files(session: rowmerge.Session, iceberg: StaticTable) -> None:
    path = first(session, "select _file from t where id = 6")
    name = first(session, "select _metadata.file_name from t where id = 6")
    size = first(session, "select max(_metadata.file_size) from t")
    conditions = {
        f"_file = '{path}'": 1,
        f"_metadata.file_path = '{first(session, 'select _metadata.file_path from t where id = 6')}'": 1,
        f"x._metadata.file_name in ('{name}', 'other')": 1,
        "_spec_id = 0": 2,
        "_spec_id > 0 and id < 7": 2,
        "_partition.p = 'c'": 2,
        "_partition.shard is not null and _partition.p = 'a b%'": 1,
        "_pos > 0": 2,
        "_deleted": 2,
        "not _deleted": 5,
        "_last_updated_sequence_number >= 4": 1,
        f"_metadata.file_size > {size}": 0,
        "_metadata.row_commit_version > 2": 3,
        "_file in (select _file from t where id = 7)": 5,
    }
    expected_counts = dict(conditions)
    live = len(iceberg.inspect.data_files())
    assert live == 5
    assert {condition: files_read(session, f"select id from t x where {condition}")[0] for condition in conditions} == expected_counts
    for condition in (each for each in conditions if "select" not in each):
        everything = session.sql(f"select id from (select id, {condition.replace('x.', '')} as met from t x) where met").collect()
        assert sorted(session.sql(f"select id from t x where {condition}").collect()) == sorted(everything), condition


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_tables_have_positions_and_the_rows_that_deletes_hide(bare_session: rowmerge.Session, tmp_path: Path, name: str) -> None:
    copied(name, tmp_path / "warehouse" / "default" / name)
    rows = bare_session.sql(f"select *, _file as __file, _pos as __n, _deleted as __gone from {name}").toArrow()
    live = rows.filter(pc.invert(rows["__gone"]))
    assert comparable(live.drop_columns(["__file", "__n", "__gone"])) == expected(name)["rows"]
    sizes = {path: pq.read_metadata(path.removeprefix("file:").replace("//", "/")).num_rows for path in set(rows["__file"].to_pylist())}
    groups = rows.group_by("__file").aggregate([("__n", "count"), ("__n", "max")]).to_pylist()
    counts = {row["__file"]: (row["__n_count"], row["__n_max"]) for row in groups}
    assert counts == {path: (count, count - 1) for path, count in sizes.items()}
    assert bare_session.sql(f"select count(*) from {name} where _pos >= 0").collect() == [(live.num_rows,)]


@pytest.mark.parametrize("properties", ["", "'delta.enableDeletionVectors' = 'true'", "'delta.columnMapping.mode' = 'id'"])
def test_columns_of_delta_equal_the_files_of_delta_rs(session: rowmerge.Session, tmp_path: Path, properties: str) -> None:
    options = f"tblproperties ({properties})" if properties else ""
    session.sql(f"create table t (id int, p string) using delta partitioned by (p) {options}")
    session.sql("insert into t select id, if(id % 2 = 0, 'a b%', 'c') from range(8)")
    session.sql("delete from t where id = 2")
    session.sql("create table copy shallow clone t")
    actions = pa.table(deltalake.DeltaTable(str(tmp_path / "warehouse" / "default" / "t")).get_add_actions()).to_pylist()
    for table in ("t", "copy"):
        rows = session.sql(f"select *, _metadata from {table}").toArrow().to_pylist()
        assert sorted(row["id"] for row in rows) == [0, 1, 3, 4, 5, 6, 7]
        files = {Path(action["path"]).name: action for action in actions}
        for row in rows:
            metadata = row["_metadata"]
            file = files[metadata["file_name"]]
            sizes = [metadata[f"file_{field}"] for field in ("size", "block_start", "block_length")]
            assert sizes == [file["size_bytes"], 0, file["size_bytes"]]
            assert metadata["file_path"].startswith("file:/") and metadata["file_path"].endswith(f"/{metadata['file_name']}")
            if table == "t":
                assert metadata["file_modification_time"].timestamp() * 1000 == file["modification_time"]
    path = first(session, "select _metadata.file_path from t where id = 4")
    assert "p=a%20b%2525" in path or properties.endswith("'id'")
    assert files_read(session, f"select id from t where _metadata.file_path = '{path}'") == [1]
    assert files_read(session, "select id from t where _metadata.file_modification_time > timestamp'2100-01-01'") == [0]


def test_ids_of_tracked_rows_are_those_in_the_log(session: rowmerge.Session) -> None:
    session.sql(
        "create table t (id int) using delta tblproperties ('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    session.sql("insert into t values (1), (2), (3)")
    session.sql("insert into t values (4)")
    session.sql("delete from t where id = 1")
    fields = ("row_id", "base_row_id", "default_row_commit_version", "row_commit_version")
    rows = session.sql(f"select id, {', '.join(f'_metadata.{name}' for name in fields)} from t order by id").collect()
    assert rows == [(2, 1, 0, 1, 1), (3, 2, 0, 1, 1), (4, 3, 3, 2, 2)]
    assert files_read(session, "select id from t where _metadata.base_row_id = 3") == [1]
    assert files_read(session, "select id from t where _metadata.row_commit_version > 1") == [1]


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_tables_of_many_small_files_have_metadata_columns(session: rowmerge.Session, format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "MIN_FILES", 1)
    session.sql(f"create table t (id int, `_metadata_` string) using {format_}")
    session.sql("insert into t values (1, 'a'), (2, 'b')")
    session.sql("insert into t values (3, 'c')")
    assert session.sql("select *, _metadata.row_index from t order by id").collect() == [(1, "a", 0), (2, "b", 1), (3, "c", 0)]


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_rows_are_deleted_by_position_in_a_table_with_a_column_of_the_name(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id int, _metadata string) using {format_} tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    if format_ == "delta":
        session.sql("alter table t set tblproperties ('delta.enableDeletionVectors' = 'true')")
    session.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
    session.sql("delete from t where id = 2")
    assert session.sql("select * from t order by id").collect() == [(1, "a"), (3, "c")]
    if format_ == "iceberg":
        assert session.sql("select _metadata, _pos, _deleted from t order by _pos").collect() == [
            ("a", 0, False),
            ("b", 1, True),
            ("c", 2, False),
        ]
