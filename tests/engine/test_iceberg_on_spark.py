"""Iceberg on Spark and rowmerge read and change the tables of each other in one folder, and give properties the same meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import ConfigurationError, UnsupportedTableFeature
from rowmerge.table.snapshots.metadata_tables import OF_ALL_VERSIONS, OF_ONE_VERSION
from tests.engine.jvm_peer import ICEBERG_JAR, JvmPeer, iceberg_on_spark
from tests.golden.iceberg.tables import copied

MODES = ("copy-on-write", "merge-on-read")
MERGE = (
    "merge into {t} t using (select * from values (2, 'p', 'merged'), (3, 'q', 'moved'), (30, 'r', 'new') as s (id, p, v)) s "
    "on t.id = s.id "
    "when matched then update set p = s.p, v = s.v when not matched then insert (id, p, v) values (s.id, s.p, s.v)"
)

MERGE_ON_READ = {f"write.{operation}.mode": "merge-on-read" for operation in ("delete", "update", "merge")}

pytestmark = pytest.mark.skipif(not ICEBERG_JAR, reason="ROWMERGE_ICEBERG_JAR names no jar of Iceberg's Spark runtime")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interop") / "warehouse"


@pytest.fixture(scope="module")
def iceberg_spark(warehouse: Path) -> Iterator[JvmPeer]:
    iceberg = iceberg_on_spark(warehouse)
    yield iceberg
    iceberg.close()


@pytest.fixture
def ours(spark: SparkSession, warehouse: Path) -> rowmerge.Session:
    return rowmerge.connect(str(warehouse), spark=spark, default_format="iceberg")


def modes(mode: str) -> str:
    return ", ".join(f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update", "merge"))


def rows(session: rowmerge.Session, query: str) -> list[str]:
    return sorted(row[0] for row in session.sql(f"select to_json(struct(q.*)) from ({query}) q").collect())


def assert_same(ours: rowmerge.Session, iceberg_spark: JvmPeer, name: str) -> list[str]:
    our_rows = rows(ours, f"select * from {name}")
    assert iceberg_spark.sql(f"select * from default.{name}") == our_rows
    return our_rows


@pytest.mark.parametrize("mode", MODES)
def test_iceberg_on_spark_reads_and_maintains_our_tables(ours: rowmerge.Session, iceberg_spark: JvmPeer, mode: str) -> None:
    name = f"ours_{mode.replace('-', '_')}"
    ours.sql(
        f"create table {name} (id bigint, p string, v string, ts timestamp, s struct<a: int, l: array<int>>, m map<string, double>) "
        f"using iceberg partitioned by (p, bucket(4, id), days(ts)) tblproperties ({modes(mode)})"
    )
    ours.sql(
        f"insert into {name} select id, if(id % 3 = 0, null, concat('p', id % 3)), concat('v', id), timestamp'2024-01-01 00:00:00' + "
        "make_dt_interval(cast(id as int)), named_struct('a', cast(id as int), 'l', array(1, null)), map('k', double(id)) from range(12)"
    )
    assert len(assert_same(ours, iceberg_spark, name)) == 12
    ours.sql(f"update {name} set v = 'updated' where id in (1, 5)")
    ours.sql(f"delete from {name} where id in (0, 7)")
    ours.sql(MERGE.format(t=name))
    ours.sql(f"alter table {name} add column more int")
    ours.sql(f"alter table {name} rename column v to renamed")
    ours.sql(f"insert into {name} (id, renamed, more) values (40, 'after', 4)")
    old_rows = assert_same(ours, iceberg_spark, name)
    assert len(old_rows) == 12
    for metadata in ("files", "entries", "manifests", "partitions", "history", "position_deletes"):
        iceberg_spark.sql(f"select * from default.{name}.{metadata}")
    operations = iceberg_spark.sql(f"select operation from default.{name}.snapshots")
    assert operations.count('{"operation":"append"}') == 2 and len(operations) == 5
    iceberg_spark.sql(f"call w.system.rewrite_manifests('default.{name}')")
    iceberg_spark.sql(f"call w.system.rewrite_position_delete_files(table => 'default.{name}', options => map('rewrite-all', 'true'))")
    iceberg_spark.sql(f"call w.system.rewrite_data_files(table => 'default.{name}', options => map('rewrite-all', 'true'))")
    iceberg_spark.sql(
        f"call w.system.expire_snapshots(table => 'default.{name}', older_than => timestamp'2100-01-01 00:00:00', retain_last => 1)"
    )
    assert assert_same(ours, iceberg_spark, name) == old_rows
    ours.sql(f"delete from {name} where id = 40")
    assert len(assert_same(ours, iceberg_spark, name)) == 11


@pytest.mark.parametrize("mode", MODES)
def test_tables_of_iceberg_on_spark_are_read_and_merged_into(ours: rowmerge.Session, iceberg_spark: JvmPeer, mode: str) -> None:
    name = f"theirs_{mode.replace('-', '_')}"
    iceberg_spark.sql(
        f"create table default.{name} (id bigint, p string, v string) using iceberg partitioned by (truncate(1, p)) "
        f"tblproperties ({modes(mode)}, 'format-version' = '2')"
    )
    iceberg_spark.sql(f"insert into default.{name} select id, if(id % 2 = 0, 'p', 'q'), concat('v', id) from range(10)")
    iceberg_spark.sql(f"delete from default.{name} where id = 4")
    assert len(assert_same(ours, iceberg_spark, name)) == 9
    ours.sql(MERGE.format(t=name))
    assert len(assert_same(ours, iceberg_spark, name)) == 10
    iceberg_spark.sql(f"alter table default.{name} add partition field bucket(2, id)")
    iceberg_spark.sql(f"update default.{name} set v = 'theirs' where id in (3, 5)")
    ours.sql(f"update {name} set v = 'ours' where id in (5, 6, 30)")
    ours.sql(f"delete from {name} where p = 'p' and id > 6")
    iceberg_spark.sql(MERGE.format(t=f"default.{name}").replace("(30, 'r'", "(31, 'r'"))
    shared_rows = assert_same(ours, iceberg_spark, name)
    assert len(shared_rows) == 10 and '{"id":5,"p":"q","v":"ours"}' in shared_rows and '{"id":31,"p":"r","v":"new"}' in shared_rows


@pytest.mark.parametrize("mode", MODES)
def test_iceberg_on_spark_reads_our_uuid_and_fixed_columns(
    ours: rowmerge.Session, iceberg_spark: JvmPeer, warehouse: Path, mode: str
) -> None:
    name = f"fixed_{mode.replace('-', '_')}"
    copied("uuid_and_fixed", warehouse / "default" / name)
    ours.sql(f"alter table {name} set tblproperties ({modes(mode)})")
    assert len(assert_same(ours, iceberg_spark, name)) == 2
    key = "123e4567-e89b-12d3-a456-426614174000"
    ours.sql(f"insert into {name} values (4, upper('{key}'), X'01020304')")
    ours.sql(f"alter table {name} add partition field bucket(4, u)")
    ours.sql(f"merge into {name} t using (select 1 as id, '{key}' as u) s on t.id = s.id when matched then update set u = s.u, fx = null")
    assert len(assert_same(ours, iceberg_spark, name)) == 3
    assert iceberg_spark.sql(f"select id from default.{name} where u = '{key}'") == ['{"id":1}', '{"id":4}']
    iceberg_spark.sql(f"update default.{name} set fx = X'ffffffff' where u = '{key}'")
    ours.sql(f"delete from {name} where id = 3")
    assert len(assert_same(ours, iceberg_spark, name)) == 2


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_version_3_keep_their_ids_with_both_writers(ours: rowmerge.Session, iceberg_spark: JvmPeer, mode: str) -> None:
    name = f"lineage_{mode.replace('-', '_')}"

    def lineage() -> list[str]:
        assert_same(ours, iceberg_spark, name)
        return iceberg_spark.sql(f"select id, _row_id as row, _last_updated_sequence_number as age from default.{name}")

    ours.sql(f"create table {name} (id bigint, v string) using iceberg tblproperties ('format-version' = '3', {modes(mode)})")
    ours.sql(f"insert into {name} select /*+ repartition(1) */ id, 'v' from range(6)")
    assert lineage() == [f'{{"id":{id_},"row":{id_},"age":1}}' for id_ in range(6)]
    ours.sql(f"delete from {name} where id = 1")
    ours.sql(
        f"merge into {name} t using (values (2)) s (id) on t.id = s.id when matched then update set v = 'u' "
        "when not matched by source and t.id = 0 then delete"
    )
    iceberg_spark.sql(f"update default.{name} set v = 'theirs' where id = 3")
    iceberg_spark.sql(f"delete from default.{name} where id = 5")
    expected = [f'{{"id":{id_},"row":{id_},"age":{age}}}' for id_, age in ((2, 3), (3, 4), (4, 1))]
    assert lineage() == expected
    ours.sql(f"call system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    assert lineage() == expected
    iceberg_spark.sql(f"call w.system.rewrite_data_files(table => 'default.{name}', options => map('rewrite-all', 'true'))")
    ours.sql(f"delete from {name} where id = 3")
    assert lineage() == [expected[0], expected[2]]
    ours.sql(f"alter table {name} add columns (n int default 7, d date default date'2020-02-03', x decimal(9, 2) default 1.5)")
    ours.sql(f"alter table {name} alter column n set default 8")
    ours.sql(f"insert into {name} (id, v, d) values (7, 'w', date'2021-01-01')")
    shared_rows = assert_same(ours, iceberg_spark, name)
    assert (
        '{"id":4,"v":"v","n":7,"d":"2020-02-03","x":1.50}' in shared_rows
        and '{"id":7,"v":"w","n":8,"d":"2021-01-01","x":1.50}' in shared_rows
    )


def test_both_engines_read_the_same_rows_of_a_shared_branch(ours: rowmerge.Session, iceberg_spark: JvmPeer) -> None:
    ours.sql(f"create table branched using iceberg tblproperties ({modes('merge-on-read')}) as select id, 'v' as v from range(5)")
    ours.sql("alter table branched create branch audit")
    ours.sql("update branched.branch_audit set v = 'ours' where id < 2")
    iceberg_spark.sql("insert into default.branched.branch_audit values (7, 'theirs')")
    ours.sql("delete from branched.branch_audit where id = 4")
    shared_rows = rows(ours, "select * from default.branched.branch_audit")
    assert iceberg_spark.sql("select * from default.branched.branch_audit") == shared_rows and len(shared_rows) == 5
    assert len(assert_same(ours, iceberg_spark, "branched")) == 5
    ours.sql("call system.fast_forward('branched', 'main', 'audit')")
    assert assert_same(ours, iceberg_spark, "branched") == shared_rows


@pytest.mark.parametrize("creation", [["drop table {} purge", "create table {}"], ["create or replace table {}"]], ids=["drop", "replace"])
def test_each_engine_drops_and_recreates_tables_of_the_other(ours: rowmerge.Session, iceberg_spark: JvmPeer, creation: list[str]) -> None:
    name = f"passing_{len(creation)}"
    ours.sql(f"create table {name} using iceberg as select 1 as id")
    iceberg_spark.sql(f"drop table default.{name} purge")
    assert ours.relation("default", name) is None
    iceberg_spark.sql(f"create table default.{name} (a string) using iceberg")
    ours.sql(f"insert into {name} values ('x')")
    assert assert_same(ours, iceberg_spark, name) == ['{"a":"x"}']
    ours.sql(f"drop table {name}")
    # The version that records the drop is an empty table for other engines.
    assert iceberg_spark.sql(f"select * from default.{name}") == []
    *drops, create = (statement.format(f"default.{name}") for statement in creation)
    for drop in drops:
        iceberg_spark.sql(drop)
    iceberg_spark.sql(f"{create} using iceberg as select 2 as b")
    assert assert_same(ours, iceberg_spark, name) == ['{"b":2}']
    assert ours.relation("default", name) is not None


def properties(values: dict[str, str]) -> str:
    return "tblproperties (" + ", ".join(f"'{name}' = '{value}'" for name, value in values.items()) + ")"


def summaries(iceberg_spark: JvmPeer, name: str) -> list[dict[str, str]]:
    """Return the parts of the summaries of snapshots that describe partitions, oldest first, without sizes of files."""
    listed = [json.loads(row) for row in iceberg_spark.sql(f"select committed_at, summary from default.{name}.snapshots")]
    relevant = []
    for snapshot in sorted(listed, key=lambda row: str(row["committed_at"])):
        summary = {key: re.sub(r"(added|removed)-files-size=\d+", r"\1-files-size", value) for key, value in snapshot["summary"].items()}
        relevant.append({key: value for key, value in summary.items() if "partition" in key})
    return relevant


@pytest.mark.parametrize("format_version", ["2", "3"])
def test_summaries_list_the_same_counts_of_partitions(ours: rowmerge.Session, iceberg_spark: JvmPeer, format_version: str) -> None:
    values = {**MERGE_ON_READ, "write.summary.partition-limit": "3", "format-version": format_version}
    for run, name in ((ours.sql, f"ours_{format_version}"), (iceberg_spark.sql, f"default.theirs_{format_version}")):
        run(
            f"create table {name} (id bigint, place string, day date, at timestamp) using iceberg "
            f"partitioned by (place, day, hours(at), bucket(4, id)) {properties(values)}"
        )
        row = "{}, 'a b:c/ä', date'2024-02-{:02d}', timestamp'2024-02-03 04:05:06Z'"
        run(f"insert into {name} values ({row.format(1, 1)}), ({row.format(1, 1)}), (2, null, null, null)")
        run(f"insert into {name} values {', '.join('(' + row.format(1, day) + ')' for day in range(1, 5))}")
        run(f"insert into {name} values ({row.format(9, 9)}), ({row.format(10, 9)})")
        run(f"delete from {name} where id = 9")
        run(f"delete from {name} where day = date'2024-02-01'")
    expected = summaries(iceberg_spark, f"theirs_{format_version}")
    assert summaries(iceberg_spark, f"ours_{format_version}") == expected
    assert [summary.get("partition-summaries-included") for summary in expected] == ["true", None, "true", "true", "true"]
    assert sum(key.startswith("partitions.") for summary in expected for key in summary) > 4


def test_a_table_without_partitions_has_no_counts_of_partitions(ours: rowmerge.Session, iceberg_spark: JvmPeer) -> None:
    for run, name in ((ours.sql, "ours_flat"), (iceberg_spark.sql, "default.theirs_flat")):
        run(f"create table {name} (id bigint) using iceberg {properties({'write.summary.partition-limit': '3'})}")
        run(f"insert into {name} values (1)")
    assert summaries(iceberg_spark, "ours_flat") == summaries(iceberg_spark, "theirs_flat")


def test_iceberg_on_spark_reads_our_pages_and_bloom_filters(ours: rowmerge.Session, iceberg_spark: JvmPeer) -> None:
    columns = ("id", "v", "d", "s.a", "l.element")
    values = {f"write.parquet.bloom-filter-enabled.column.{column}": "true" for column in columns}
    values |= {"write.parquet.stats-enabled.column.v": "false", "write.parquet.dict-encoding-enabled.column.v": "false"}
    values |= {"write.parquet.page-version": "v2", "write.parquet.page-row-limit": "100", "write.parquet.page-size-bytes": "1000"}
    ours.sql(
        "create table shaped (id bigint, v string, d decimal(20, 2), s struct<a: int>, l array<string>, f double) using iceberg "
        + properties(values)
    )
    ours.sql("insert into shaped select id, concat('v', id), id, named_struct('a', id), array('x', concat('l', id)), -0.0 from range(5000)")
    conditions = ("id = 4321", "v = 'v4321'", "d = 4321", "s.a = 4321", "id in (7, 99999)", "v = 'v99999'", "f = 0.0 and id = 3")
    for condition in conditions:
        query = f"select count(*) as n, max(id) as id from {{}} where {condition}"
        rows = [row[0] for row in ours.sql(f"select to_json(struct(q.*)) from ({query.format('shaped')}) q").collect()]
        assert iceberg_spark.sql(query.format("default.shaped")) == rows, condition


def test_both_engines_delete_rows_of_partitions_in_turn(ours: rowmerge.Session, iceberg_spark: JvmPeer) -> None:
    values = {**MERGE_ON_READ, "write.delete.granularity": "partition", "write.delete.parquet.page-version": "v2", "format-version": "2"}
    ours.sql(f"create table coarse (id bigint, p string) using iceberg partitioned by (p) {properties(values)}")
    for start in (0, 100, 200):
        ours.sql(f"insert into coarse select /*+ repartition(1) */ id, if(id % 2 = 0, 'even', 'odd') from range({start}, {start + 100})")
    ours.sql("delete from coarse where id % 10 in (1, 2)")
    files = [json.loads(row) for row in iceberg_spark.sql("select record_count from default.coarse.delete_files")]
    assert [file["record_count"] for file in files] == [30, 30]
    iceberg_spark.sql("delete from default.coarse where id % 10 = 3")
    ours.sql("update coarse set p = 'other' where id % 100 = 4")
    expected = [f'{{"id":{id_}}}' for id_ in range(300) if id_ % 10 not in (1, 2, 3)]
    assert iceberg_spark.sql("select id from default.coarse") == sorted(expected)
    assert sorted(row[0] for row in ours.sql("select id from coarse").collect()) == [id_ for id_ in range(300) if id_ % 10 not in (1, 2, 3)]


def test_compressed_metadata_of_iceberg_on_spark_is_read_and_continued(
    ours: rowmerge.Session, iceberg_spark: JvmPeer, warehouse: Path
) -> None:
    values = {"write.metadata.compression-codec": "gzip", "write.delete.mode": "merge-on-read"}
    iceberg_spark.sql(f"create table default.small (id bigint) using iceberg {properties(values)}")
    iceberg_spark.sql("insert into default.small values (1), (2)")
    assert (warehouse / "default/small/metadata/v2.gz.metadata.json").exists()
    assert sorted(ours.sql("select id from small").collect()) == [(1,), (2,)]
    ours.sql("insert into small values (3)")
    iceberg_spark.sql("delete from default.small where id = 1")
    ours.sql("update small set id = 20 where id = 2")
    assert iceberg_spark.sql("select id from default.small") == ['{"id":20}', '{"id":3}']
    assert sorted(ours.sql("select id from small").collect()) == [(3,), (20,)]
    ours.sql("vacuum small")
    assert iceberg_spark.sql("select id from default.small") == ['{"id":20}', '{"id":3}']
    ours.sql("drop table small")
    assert not list((warehouse / "default/small").rglob("*.gz.metadata.json")) and ours.relation("default", "small") is None


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("partitioned_paths", ["true", "false"])
def test_both_engines_write_files_to_paths_of_the_same_form(
    ours: rowmerge.Session, iceberg_spark: JvmPeer, tmp_path: Path, outside: bool, partitioned_paths: str
) -> None:
    name = f"hashed_{partitioned_paths}_{'outside' if outside else 'inside'}"
    values = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": partitioned_paths}
    values |= {"write.data.path": f"{tmp_path}/shared"} if outside else {}
    ours.sql(f"create table {name} (id int, p string) using iceberg partitioned by (p) {properties(values)}")
    forms = []
    for run, table in ((ours.sql, name), (iceberg_spark.sql, f"default.{name}")):
        earlier = set(iceberg_spark.sql(f"select file_path from default.{name}.files"))
        run(f"insert into {table} values (1, 'a b')")
        (path,) = set(iceberg_spark.sql(f"select file_path from default.{name}.files")) - earlier
        path = re.sub("file:/+", "/", json.loads(path)["file_path"])
        path = re.sub(r"([01]{4}/){3}[01]{8}", "HASH", path)
        forms.append(re.sub(r"(?<=HASH-)[^/]*$|(?<=/)(?!HASH-)[^/]*$", "FILE", path))
    assert forms[0] == forms[1]
    assert forms[0].endswith({"true": "/p=a+b/FILE", "false": "/FILE" if outside else "/HASH-FILE"}[partitioned_paths])
    assert sorted(ours.sql(f"select id from {name} where p = 'a b'").collect()) == [(1,), (1,)]


@pytest.mark.parametrize("format_", ["orc", "avro"])
def test_statements_name_the_path_of_a_data_file_in_another_format(ours: rowmerge.Session, iceberg_spark: JvmPeer, format_: str) -> None:
    iceberg_spark.sql(f"create table default.{format_}_files using iceberg as select 1 as id")
    for statement in (f"set tblproperties ('write.format.default' = '{format_}')", "unset tblproperties ('write.format.default')"):
        iceberg_spark.sql(f"alter table default.{format_}_files {statement}")
        iceberg_spark.sql(f"insert into default.{format_}_files values (2)")
    for statement in ("select * from {}", "update {} set id = 3", "delete from {} where id = 2", "optimize {}"):
        with pytest.raises(
            UnsupportedTableFeature, match=rf"format {format_.upper()} of the data file .*/{format_}_files/data/\S*\.{format_}'"
        ):
            ours.sql(statement.format(f"{format_}_files")).collect()
    assert iceberg_spark.sql(f"select count(*) as n from default.{format_}_files") == ['{"n":3}']


def test_the_rows_of_a_new_audited_table_are_on_the_branch_in_both_engines(ours: rowmerge.Session, iceberg_spark: JvmPeer) -> None:
    create = f"create table {{}} using iceberg {properties({'write.wap.enabled': 'true'})} as select 1 as id"
    iceberg_spark.sql("set spark.wap.branch = audit")
    iceberg_spark.sql(create.format("default.theirs_audited"))
    iceberg_spark.sql("reset spark.wap.branch")
    ours.execute(create.format("ours_audited"), wap_branch="audit")
    for name in ("theirs_audited", "ours_audited"):
        assert iceberg_spark.sql(f"select name from default.{name}.refs") == ['{"name":"audit"}']
        for query, rows in ((f"select id from {name}", []), (f"select id from {name} version as of 'audit'", [(1,)])):
            assert ours.sql(query).collect() == rows, query
            assert len(iceberg_spark.sql(query.replace(name, f"default.{name}"))) == len(rows), query


@pytest.mark.parametrize(
    ("name", "message"),
    [("write.metadata.path", "cannot relocate metadata"), ("write.metadata.metrics.column.nope", "could not find column nope")],
)
def test_both_engines_refuse_the_same_properties(ours: rowmerge.Session, iceberg_spark: JvmPeer, name: str, message: str) -> None:
    create = f"create table {{}} (id bigint) using iceberg {properties({name: '/elsewhere' if name.endswith('path') else 'counts'})}"
    with pytest.raises(AssertionError, match=message):
        iceberg_spark.sql(create.format("default.theirs_refused"))
    with pytest.raises(ConfigurationError, match=name):
        ours.sql(create.format("ours_refused"))


def test_snapshot_properties_and_codecs_of_the_session_are_the_same(ours: rowmerge.Session, iceberg_spark: JvmPeer) -> None:
    settings = {"spark.sql.iceberg.snapshot-property.run": "7", "spark.sql.iceberg.compression-codec": "snappy"}
    for run, name in ((ours.sql, "ours_set"), (iceberg_spark.sql, "default.theirs_set")):
        run(f"create table {name} (id bigint) using iceberg {properties({'write.parquet.compression-codec': 'gzip'})}")
        for setting, value in settings.items():
            run(f"set `{setting}` = {value}")
        run(f"insert into {name} values (1)")
        for setting in settings:
            run(f"reset `{setting}`")
    for name in ("ours_set", "theirs_set"):
        assert iceberg_spark.sql(f"select summary['run'] as run from default.{name}.snapshots") == ['{"run":"7"}']
        (path,) = (json.loads(row)["file_path"] for row in iceberg_spark.sql(f"select file_path from default.{name}.files"))
        assert pq.read_metadata(path.removeprefix("file:").replace("//", "/")).row_group(0).column(0).compression == "SNAPPY"


@pytest.mark.parametrize("format_version", ["2", "3"])
def test_metadata_tables_have_the_same_columns_and_rows(ours: rowmerge.Session, iceberg_spark: JvmPeer, format_version: str) -> None:
    name = f"inspected_{format_version}"
    ours.sql(
        f"create table {name} (id int, place string, at timestamp, s struct<x:double,tags:array<int>>) using iceberg "
        f"partitioned by (days(at), bucket(4, id), truncate(1, place)) {properties({**MERGE_ON_READ, 'format-version': format_version})}"
    )
    row = "({0}, 'p{0}', timestamp'2024-01-0{0} 04:05:06Z', named_struct('x', {0}.5D, 'tags', array({0})))"
    ours.sql(f"insert into {name} values {', '.join(row.format(number) for number in range(1, 6))}, (null, null, null, null)")
    ours.sql(f"insert into {name} values (1, 'p1', timestamp'2024-01-01 05:05:06Z', null)")
    iceberg_spark.sql(f"delete from default.{name} where id = 1 and s is null")
    ours.sql(f"alter table {name} drop partition field place_trunc")
    nan = "named_struct('x', double('NaN'), 'tags', null)"
    iceberg_spark.sql(f"insert into default.{name} values (9, 'q', timestamp'2024-02-01 00:00:00Z', {nan})")
    ours.sql(f"delete from {name} where id = 2")
    ours.sql(f"update {name} set place = 'z' where id = 9")
    for table in (*OF_ONE_VERSION, *OF_ALL_VERSIONS):
        query = f"select * from {name}.{table}"
        iceberg_rows = [json.loads(row) for row in iceberg_spark.sql(query.replace(name, f"default.{name}"))]
        described = [json.loads(row) for row in iceberg_spark.sql(f"describe default.{name}.{table}")]
        types = {column["col_name"]: column["data_type"] for column in described}
        our_types = {field.name: field.dataType.simpleString() for field in ours.sql(query).schema}
        assert our_types == {column: type_ for column, type_ in types.items() if column.isidentifier() and column[0] != "_"}, table
        our_rows = [json.loads(row) for row in rows(ours, query)]
        assert sorted(repr(row).replace("file://", "") for row in our_rows) == sorted(
            repr(row).replace("file://", "") for row in iceberg_rows
        ), table


def test_the_metadata_table_of_changes_has_the_rows_of_iceberg_on_spark(ours: rowmerge.Session, iceberg_spark: JvmPeer) -> None:
    ours.sql(f"create table file_changes (id int, v string, p string) using iceberg partitioned by (p) tblproperties ({modes(MODES[0])})")
    ours.sql("insert into file_changes values (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', null), (3, 'c', null)")
    iceberg_spark.sql("delete from default.file_changes where id = 2")
    ours.sql("update file_changes set v = 'A' where id = 1")
    ours.sql("alter table file_changes add column w int")
    iceberg_spark.sql("insert overwrite default.file_changes values (5, 'e', 'y', 6)")
    ours.sql("optimize file_changes")
    our_rows = rows(ours, "select * from file_changes.changes")
    assert iceberg_spark.sql("select * from default.file_changes.changes") == our_rows
    assert len(our_rows) == 13


METADATA_COLUMNS = "_file, _pos, _deleted, _spec_id, _partition"
LINEAGE = ", _row_id, _last_updated_sequence_number"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("writer", ["ours", "iceberg"])
def test_metadata_columns_have_the_values_of_iceberg_on_spark(
    ours: rowmerge.Session, iceberg_spark: JvmPeer, writer: str, version: int
) -> None:
    name = f"metadata_columns_{writer}_{version}"
    table, write = (name, ours.sql) if writer == "ours" else (f"default.{name}", iceberg_spark.sql)
    properties = f"{modes('merge-on-read')}, 'format-version' = '{version}'"
    write(f"create table {table} (id bigint, p string, d date) using iceberg partitioned by (p) tblproperties ({properties})")
    write(f"insert into {table} select id, if(id % 2 = 0, 'a b%1', null), date'2024-01-01' from range(6)")
    write(f"delete from {table} where id in (0, 3)")
    write(f"alter table {table} add partition field days(d)")
    write(f"alter table {table} rename column id to renamed")
    write(f"insert into {table} select id, 'c', date'2024-02-01' from range(6, 8)")
    write(f"update {table} set d = date'2024-03-01' where renamed in (1, 7)")
    ours.sql(f"delete from {name} where renamed = 6")
    columns = METADATA_COLUMNS + (LINEAGE if version == 3 else "")
    queries = [
        f"select *, {columns} from {{}}",
        f"select {columns.replace('_deleted', 'renamed')} from {{}} where _pos >= 0",
        "select t.*, t._pos from {} t where _deleted",
        "select _spec_id, _partition.p, _partition.d_day, count(*) as n from {} group by all",
        "select renamed from {} where _spec_id = 1 and _partition.d_day > date'2024-01-15'",
        "select struct(*) as s, count(*) over () as n from {} where not _deleted",
        "select a.*, b._file from {} a join (select *, _file from {}) b using (renamed)",
    ]
    for query in queries:
        assert rows(ours, query.format(name, name)) == iceberg_spark.sql(query.format(f"default.{name}", f"default.{name}")), query
    assert rows(ours, f"select count(*) as n from {name} where _deleted") == ['{"n":3}']
