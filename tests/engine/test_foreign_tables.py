"""Tables of other writers, some written by hand because the writer is not available, are read and changed in both write modes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import rowmerge
from rowmerge.delta.metadata.column_mapping import ID, MAPPING_MODE, PHYSICAL_NAME
from rowmerge.delta.snapshots.deletion_vectors import z85_encode
from rowmerge.errors import UnreadableDataFile, UnsupportedTableFeature
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.deleted_rows import serialize
from rowmerge.table.snapshots.files import Positions
from tests.support.iceberg_tables import SCHEMA, data_file, table_of
from tests.support.readers import read_with_delta_rs

pytestmark = pytest.mark.one_of("mode")

MODES = ("copy-on-write", "merge-on-read")


def field(name: str, type_: Any, number: int | None = None) -> dict[str, Any]:
    """Return a schema field. With a number, it is mapped to the physical name `p<number>`."""
    metadata = {} if number is None else {ID: number, PHYSICAL_NAME: f"p{number}"}
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def numbered(name: str, type_: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})


def log(folder: Path, *commits: Sequence[dict[str, Any]]) -> None:
    (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
    for version, actions in enumerate(commits):
        (folder / "_delta_log" / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def definition(schema: dict[str, Any], partition: Sequence[str] = (), **configuration: str) -> list[dict[str, Any]]:
    metadata = {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    return [
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {"metaData": {**metadata, "partitionColumns": list(partition), "configuration": configuration}},
    ]


def add(path: str, file: Path, partition: dict[str, str | None] | None = None, **more: Any) -> dict[str, Any]:
    stats = json.dumps({"numRecords": pq.read_metadata(file).num_rows, **more})
    size = file.stat().st_size
    return {
        "add": {"path": path, "partitionValues": partition or {}, "size": size, "modificationTime": 1, "dataChange": True, "stats": stats}
    }


def registered(session: rowmerge.Session, folder: Path, mode: str) -> None:
    session.sql(f"create table t using delta location '{folder}'")
    session.sql(f"alter table t set tblproperties ('rowmerge.write.mode' = '{mode}')")


def rows(session: rowmerge.Session, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(query).collect()]


@pytest.mark.parametrize("mode", MODES)
def test_columns_are_read_by_field_id(session: rowmerge.Session, tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    inner = pa.struct([numbered("inner of old", pa.int32(), 4), numbered("dropped long ago", pa.string(), 5)])
    old = pa.schema(
        [
            numbered("dropped", pa.string(), 2),
            numbered("something", pa.int64(), 1),
            numbered("list", pa.list_(pa.field("element", inner)), 3),
            numbered("p7", pa.string(), 9),
        ]
    )
    values = [{"inner of old": 10, "dropped long ago": "x"}, None]
    columns = [pa.array(["d", "d"]), pa.array([1, 2]), pa.array([values, None], old.field("list").type), pa.array(["no", "no"])]
    pq.write_table(pa.Table.from_arrays(columns, schema=old), folder / "old.parquet", store_schema=False)
    new = pa.schema([numbered("p1", pa.int64(), 1), numbered("p7", pa.string(), 7)])
    pq.write_table(pa.Table.from_arrays([pa.array([3, 4]), pa.array(["c", "d"])], schema=new), folder / "new.parquet", store_schema=False)
    list_ = {"type": "array", "elementType": struct(field("x", "integer", 4), field("y", "string", 6)), "containsNull": True}
    schema = struct(field("the id", "long", 1), field("l", list_, 3), field("v", "string", 7))
    adds = [add(name, folder / name) for name in ("old.parquet", "new.parquet")]
    log(folder, [*definition(schema, **{MAPPING_MODE: "id", "delta.columnMapping.maxColumnId": "9"}), *adds])
    registered(session, folder, mode)
    query = "select `the id`, l[0].x, l[0].y, size(l), v from t order by 1"
    assert rows(session, query) == [
        (1, 10, None, 2, None),
        (2, None, None, None, None),
        (3, None, None, None, "c"),
        (4, None, None, None, "d"),
    ]
    session.sql("delete from t where `the id` = 2")
    session.sql("update t set v = 'C' where `the id` = 3")
    session.sql(
        "merge into t using (values (1, 'a'), (5, 'e')) s (id, v) on t.`the id` = s.id when matched then update set v = s.v "
        "when not matched then insert (`the id`, v, l) values (s.id, s.v, array(named_struct('x', 50, 'y', 'new')))"
    )
    session.sql("alter table t drop column l.element.y")
    query = "select `the id`, l[0].x, v from t order by 1"
    assert rows(session, query) == [(1, 10, "a"), (3, None, "C"), (4, None, "d"), (5, 50, "e")]


@pytest.mark.parametrize("name", ["_a.parquet", "_metadata", ".a.parquet", "a.parquet._COPYING_"])
def test_a_data_file_that_spark_would_skip_is_an_error(bare_session: rowmerge.Session, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    names = (name, "_a=1.parquet", "a._copy")
    for index, file_name in enumerate(names):
        pq.write_table(pa.table({"id": [index]}), folder / file_name)
    log(folder, [*definition(struct(field("id", "long"))), *(add(file_name, folder / file_name) for file_name in names)])
    bare_session.sql(f"create table t using delta location '{folder}'")
    with pytest.raises(UnsupportedTableFeature, match=name):
        bare_session.sql("select * from t")
    log(folder, [*definition(struct(field("id", "long"))), *(add(file_name, folder / file_name) for file_name in names[1:])])
    bare_session.sql(f"create table u using delta location '{folder}'")
    assert sorted(rows(bare_session, "select id from u")) == [(1,), (2,)]


@pytest.mark.parametrize("mode", MODES)
def test_writes_to_a_shallow_clone_leave_the_original_unchanged(bare_session: rowmerge.Session, tmp_path: Path, mode: str) -> None:
    """Only delta-rs verifies the rows: DuckDB takes an absolute path for a path below the table."""
    session = bare_session
    session.sql("create table origin using delta as select id, concat('v', id) as v from range(10)")
    origin = Path(session.describe("default", "origin").location.removeprefix("file://"))
    files = list(origin.glob("*.parquet"))
    folder = tmp_path / "clone"
    schema = struct(field("id", "long"), field("v", "string"))
    misleading = folder / "id=77" / "x.parquet"
    misleading.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([20], pa.int64()), "v": ["v20"]}), misleading)
    log(folder, [*definition(schema), *(add(file.as_uri(), file) for file in files), add("id=77/x.parquet", misleading)])
    registered(session, folder, mode)
    session.sql("delete from t where id = 3")
    session.sql("update t set v = 'new' where id = 4")
    session.sql(
        "merge into t using (values (5, 'five'), (11, 'eleven')) s (id, v) on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    assert rows(session, "select count(*), sum(id), max(case when id = 5 then v end) from t") == [(11, 73, "five")]
    assert rows(session, "select count(*), sum(id) from origin") == [(10, 45)]
    assert read_with_delta_rs(str(folder)).num_rows == 11
    assert all(file.exists() for file in files)


@pytest.mark.parametrize("mode", MODES)
def test_partition_values_come_from_the_log_and_not_from_the_path(session: rowmerge.Session, tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "t"
    places = {"p=a%2Fb/x.parquet": "a/b", "p=wrong/y.parquet": "right", "flat.parquet": None, "p=%C3%A4/z.parquet": "ä"}
    adds = []
    for number, (place, value) in enumerate(places.items()):
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array([number, number + 10], pa.int64())}), file)
        adds.append(add(place.replace("%", "%25"), file, {"p": value}))
    log(folder, [*definition(struct(field("id", "long"), field("p", "string")), ["p"]), *adds])
    registered(session, folder, mode)
    assert rows(session, "select id, p from t order by id") == [
        (0, "a/b"), (1, "right"), (2, None), (3, "ä"), (10, "a/b"), (11, "right"), (12, None), (13, "ä")
    ]  # fmt: skip
    session.sql("delete from t where p = 'right' and id > 5")
    session.sql("update t set id = id + 100 where p is null or p = 'ä'")
    session.sql("merge into t using (select 'a/b' as p, 0 as id) s on t.p = s.p and t.id = s.id when matched then update set p = 'moved'")
    expected = [(0, "moved"), (1, "right"), (10, "a/b"), (102, None), (103, "ä"), (112, None), (113, "ä")]
    assert rows(session, "select id, p from t order by id") == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_table_with_every_operation_of_delta_rs_is_writable(session: rowmerge.Session, tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "t"
    kinds = pa.schema([("id", pa.int64()), ("p", pa.string()), ("at", pa.timestamp("us", "UTC")), ("s", pa.struct([("x", pa.int32())]))])

    def create_rows(ids: range) -> pa.Table:
        columns = [list(ids), [f"p{i % 2}" for i in ids], [i * 1_000_000 for i in ids], [{"x": i} for i in ids]]
        return pa.Table.from_arrays([pa.array(values, f.type) for values, f in zip(columns, kinds, strict=True)], schema=kinds)

    for ids in (range(10), range(10, 20)):
        deltalake.write_deltalake(
            folder, create_rows(ids), mode="append", partition_by=["p"], configuration={"delta.enableChangeDataFeed": "true"}
        )
    table = deltalake.DeltaTable(folder)
    table.merge(
        create_rows(range(18, 22)), "t.id = s.id", source_alias="s", target_alias="t"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    table.delete("id = 7")
    table.optimize.z_order(["id"])
    table.create_checkpoint()
    table.delete("id = 9")
    registered(session, folder, mode)
    session.sql("delete from t where id in (1, 21)")
    session.sql("update t set s.x = -1, at = timestamp'2024-01-01 00:00:00' where id = 2")
    session.sql(
        "merge into t using (select * from t where id < 4) s on t.id = s.id and s.id <> 2 "
        "when matched then update set id = s.id + 100, p = 'new'"
    )
    assert rows(session, "select count(*), sum(id), sum(s.x), count(distinct p) from t") == [(18, 393, 190, 3)]


@pytest.mark.parametrize("mode", MODES)
def test_names_in_files_can_differ_in_case(session: rowmerge.Session, tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for name in ("1", "2"):
        pq.write_table(pa.table({"ID": [1, 2, 3], "S": pa.array([{"V": "a"}, {"V": "b"}, {"V": "c"}])}), folder / f"{name}.parquet")
    schema = struct(field("id", "long"), field("s", struct(field("v", "string"))))
    log(folder, [*definition(schema), add("1.parquet", folder / "1.parquet")])
    registered(session, folder, mode)
    session.sql("delete from t where id = 2")
    session.sql(
        "merge into t using (select 1L as id, named_struct('v', 'z') as s union all select 4L, null) s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    session.sql("optimize t")
    assert rows(session, "select id, s.v from t order by id") == [(1, "z"), (3, "c"), (4, None)]


def test_a_deletion_vector_can_be_empty(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    folder, actions = tmp_path / "t", definition(struct(field("id", "long")))
    folder.mkdir()
    features = ["deletionVectors"]
    actions[0] = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}}
    for path, ids, deleted in (("1.parquet", range(10_000), [7]), ("2.parquet", range(3), [])):
        pq.write_table(pa.table({"id": ids}), folder / path)
        data = serialize(Positions(deleted))
        vector = {"storageType": "i", "pathOrInlineDv": z85_encode(data + bytes(-len(data) % 4)), "sizeInBytes": len(data)}
        action = add(path, folder / path)
        action["add"]["deletionVector"] = vector | {"cardinality": len(deleted)}
        actions.append(action)
    log(folder, actions)
    bare_session.sql(f"create table t using delta location '{folder}'")
    assert rows(bare_session, "select count(*), sum(id) from t where id >= 0") == [(10_002, sum(range(10_000)) - 7 + 3)]


def files_as_of_spark_2(frame: DataFrame, folder: Path) -> list[dict[str, Any]]:
    """Write two Parquet files with old dates and times in the Julian calendar, as Spark 2 did. Return their `add` actions."""
    spark = frame.sparkSession
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        frame.repartition(2).write.parquet(str(folder))
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    return [add(file.name, file) for file in folder.glob("*.parquet")]


@pytest.mark.parametrize("mode", MODES)
def test_old_dates_of_spark_2_stay_the_same_in_rewrites(session: rowmerge.Session, tmp_path: Path, mode: str) -> None:
    """Spark writes the dates as Spark 2 did, and reads them as a second opinion."""
    folder = tmp_path / "t"
    every_month = "sequence(date'0001-01-01', date'1600-12-01', interval 1 month)"
    days = session.spark.sql(f"select explode({every_month}) as first").selectExpr("first as d", "last_day(first) as l")
    expected = sorted(map(tuple, days.collect()))
    adds = files_as_of_spark_2(days, folder)
    log(folder, [*definition(struct(field("d", "date"), field("l", "date"))), *adds])
    registered(session, folder, mode)
    session.sql("merge into t using (select date'0001-01-01' as d) s on t.d = s.d when matched then delete")
    session.sql("delete from t where d = date'1582-10-01'")
    session.sql("optimize t")
    assert len(session.sql("select d from t").inputFiles()) == 1 < len(adds)
    remaining = [row for row in expected if str(row[0]) not in ("0001-01-01", "1582-10-01")]
    assert rows(session, "select d, l from t order by 1") == remaining


def test_old_timestamps_of_spark_2_are_an_error_whose_advice_works(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    session, folder = bare_session, tmp_path / "t"
    times = session.spark.sql("select timestamp'1500-03-01 12:00:00' as at union all select timestamp'2024-01-01 00:00:00'")
    adds = files_as_of_spark_2(times, folder)
    log(folder, [*definition(struct(field("at", "timestamp"))), *adds])
    session.sql(f"create table t using delta location '{folder}'")
    with pytest.raises(UnreadableDataFile, match=r"Julian calendar of Spark 2.*CREATE OR REPLACE TABLE"):
        session.sql("optimize t")
    session.sql("create or replace table t using delta as select * from t")
    session.sql("optimize t")
    assert rows(session, "select string(at) from t order by 1") == [("1500-03-01 12:00:00",), ("2024-01-01 00:00:00",)]


@pytest.mark.parametrize("format_", ["ORC", "AVRO"])
def test_statements_name_the_path_of_a_data_file_in_another_format(bare_session: rowmerge.Session, tmp_path: Path, format_: str) -> None:
    folder = tmp_path / "warehouse/default/t"
    storage = Storage(str(folder))
    file = data_file(storage, 0, 3)
    other = replace(file, path=f"{file.path}.{format_.lower()}", format=format_)
    table_of(storage, [file, other])
    files_before = set(tmp_path.rglob("*"))
    column = SCHEMA.fields[0].name
    for statement in (
        "select * from t",
        f"update t set {column} = null",
        f"delete from t where {column} = 1",
        f"merge into t using (select 1 as k) s on t.{column} = s.k when matched then delete",
        "optimize t",
        "insert overwrite t select * from t",
        "create or replace table t using iceberg as select * from t",
        "create table u using iceberg as select * from t",
    ):
        with pytest.raises(UnsupportedTableFeature, match=f"format {format_} of the data file {re.escape(other.path)}"):
            bare_session.sql(statement).collect()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} <= files_before
