"""Delta Lake on Spark reads, verifies and writes tables of rowmerge, and rowmerge verifies what Delta Lake on Spark wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.delta.log.checksums import check_state, read_checksum
from rowmerge.delta.log.log_files import checksum_path, commit_path, list_log
from rowmerge.delta.log.versions import read_state
from rowmerge.errors import RowmergeError
from rowmerge.storage.store import Storage
from tests.engine.jvm_peer import DELTA_JARS, JvmPeer, delta_on_spark

pytestmark = pytest.mark.skipif(not DELTA_JARS, reason="ROWMERGE_DELTA_JARS names no folder with the jars of Delta Lake on Spark")
PROPERTIES = {
    "plain": "",
    "deletion vectors": "'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '4'",
    "timestamps in commits": "'delta.enableInCommitTimestamps' = 'true'",
    "column mapping": "'delta.columnMapping.mode' = 'name'",
    "change data feed": "'delta.enableChangeDataFeed' = 'true'",
    "V2 checkpoints": "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '4'",
    "sizes of files": "'delta.autoOptimize.autoCompact' = 'true', 'delta.autoOptimize.optimizeWrite' = 'true', "
    "'delta.dataSkippingStringPrefixLength' = '2'",
    "random prefixes": "'delta.randomizeFilePrefixes' = 'true', 'delta.parquet.format.version' = '2.12.0'",
}


@pytest.fixture(scope="module")
def delta() -> Iterator[JvmPeer]:
    peer = delta_on_spark()
    yield peer
    peer.close()


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> rowmerge.Session:
    return rowmerge.connect(str(tmp_path / "w"), spark=spark)


def folder_of(session: rowmerge.Session, name: str) -> Path:
    return Path(session.sql(f"describe detail {name}").collect()[0]["location"].removeprefix("file://"))


def rows(session: rowmerge.Session, name: str) -> list[str]:
    return sorted(row[0] for row in session.sql(f"select to_json(struct(*)) from {name}").collect())


def change_everything(session: rowmerge.Session, name: str) -> None:
    session.sql(f"insert into {name} select id, concat('v', id) from range(20)")
    session.sql(f"update {name} set v = 'updated' where id in (1, 5)")
    session.sql(f"delete from {name} where id in (0, 7)")
    session.sql(
        f"merge into {name} t using (select 3L as id, 'merged' as v union all select 30L, 'new') s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    session.sql(f"alter table {name} add column more int")


def test_each_engine_compacts_a_table_after_statements_of_the_other(session: rowmerge.Session, delta: JvmPeer) -> None:
    session.sql(
        "create table t (id bigint, v string) using delta "
        "tblproperties ('delta.autoOptimize.autoCompact' = 'true', 'rowmerge.write.mode' = 'merge-on-read')"
    )
    folder = folder_of(session, "t")
    session.spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "3")
    change_everything(session, "t")
    session.spark.conf.unset("spark.databricks.delta.autoCompact.minNumFiles")
    assert delta.sql(f"select * from delta.`{folder}`") == rows(session, "t")
    delta.sql("set spark.databricks.delta.autoCompact.minNumFiles = 2")
    delta.sql(f"insert into delta.`{folder}` values (40, 'theirs', 4)")
    delta.sql(f"insert into delta.`{folder}` values (41, 'theirs', 4)")
    history = session.sql("describe history t").collect()
    compactions = [row for row in history if row.operation == "OPTIMIZE"]
    assert {row.operationParameters["auto"] for row in compactions} == {"true"}
    assert {row.engineInfo.split("/")[0] for row in compactions} == {"rowmerge", "Apache-Spark"}
    assert {tuple(sorted(row.operationParameters)) for row in compactions} == {("auto", "clusterBy", "predicate", "zOrderBy")}
    assert delta.sql(f"select * from delta.`{folder}`") == rows(session, "t")


@pytest.mark.parametrize("properties", PROPERTIES.values(), ids=PROPERTIES)
def test_each_engine_verifies_the_checksums_of_the_other(session: rowmerge.Session, delta: JvmPeer, properties: str) -> None:
    session.sql(f"create table t (id bigint, v string) using delta {f'tblproperties ({properties})' if properties else ''}")
    change_everything(session, "t")
    folder = folder_of(session, "t")
    assert delta.sql(f"select * from delta.`{folder}`") == rows(session, "t")
    delta.sql(f"insert into delta.`{folder}` values (40, 'theirs', 4)")
    delta.sql(f"update delta.`{folder}` set v = 'theirs' where id = 2")
    session.sql("delete from t where id = 3")
    assert delta.sql(f"select * from delta.`{folder}`") == rows(session, "t")
    storage = Storage(str(folder))
    listing = list_log(storage)
    assert listing.checksums == set(listing.commits)
    for version in listing.commits:
        checksum = read_checksum(storage, version)
        assert checksum is not None
        check_state(storage, read_state(storage, listing, version), checksum, lambda: True)


def test_delta_on_spark_computes_its_next_checksum_from_ours(session: rowmerge.Session, delta: JvmPeer) -> None:
    session.sql("create table t (id bigint, v string) using delta")
    change_everything(session, "t")
    folder = folder_of(session, "t")
    (path := folder / checksum_path(5)).write_text(json.dumps(json.loads(path.read_text()) | {"numFiles": 100}))
    delta.sql(f"insert into delta.`{folder}` values (40, 'theirs', 4)")
    assert json.loads((folder / checksum_path(6)).read_text())["numFiles"] == 101


def test_delta_on_spark_reads_and_writes_a_table_created_after_a_drop(session: rowmerge.Session, delta: JvmPeer) -> None:
    session.sql("create table t (id bigint, v string) using delta")
    change_everything(session, "t")
    folder = folder_of(session, "t")
    session.sql("drop table t")
    assert delta.sql(f"select * from delta.`{folder}`") == []
    session.sql("create table t (id bigint) using delta")
    session.sql("insert into t values (100)")
    assert delta.sql(f"select * from delta.`{folder}`") == rows(session, "t") == ['{"id":100}']
    delta.sql(f"insert into delta.`{folder}` values (101)")
    assert rows(session, "t") == ['{"id":100}', '{"id":101}']
    assert not (folder / commit_path(0)).exists()


def test_each_engine_reads_a_table_from_the_v2_checkpoint_of_the_other_alone(session: rowmerge.Session, delta: JvmPeer) -> None:
    policy = "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '4'"
    session.sql(f"create table t (id bigint, v string) using delta tblproperties ({policy})")
    change_everything(session, "t")
    folder = folder_of(session, "t")
    expected = rows(session, "t")
    assert delete_entries_before_checkpoint(folder, 4)
    assert delta.sql(f"select * from delta.`{folder}`") == expected
    for number in range(50, 53):
        delta.sql(f"insert into delta.`{folder}` values ({number}, 'theirs', 4)")
    assert delete_entries_before_checkpoint(folder, 8)
    assert rows(session, "t") == delta.sql(f"select * from delta.`{folder}`") == sorted([*expected, *map(their_row, range(50, 53))])


def their_row(number: int) -> str:
    return f'{{"id":{number},"v":"theirs","more":4}}'


def delete_entries_before_checkpoint(folder: Path, version: int) -> list[Path]:
    """Delete all log entries and sidecars that a V2 checkpoint in JSON replaces, and return the sidecars that it needs."""
    (checkpoint,) = folder.glob(f"_delta_log/{version:020d}.checkpoint.*.json")
    needed = [line["sidecar"]["path"] for line in map(json.loads, checkpoint.read_text().splitlines()) if "sidecar" in line]
    for path in folder.glob("_delta_log/*"):
        if path.name[:20].isdigit() and int(path.name[:20]) < version:
            path.unlink()
    for path in folder.glob("_delta_log/_sidecars/*.parquet"):
        if path.name not in needed:
            path.unlink()
    return [folder / "_delta_log/_sidecars" / name for name in needed]


def test_both_engines_write_the_same_symlink_manifests(session: rowmerge.Session, delta: JvmPeer) -> None:
    session.sql(
        "create table t (id bigint, p string, d date) using delta partitioned by (p, d) "
        "tblproperties ('rowmerge.write.mode' = 'copy-on-write')"
    )
    session.sql("insert into t values (1, 'a/b c', date'2024-01-01'), (2, null, null), (3, 'é', date'2024-01-02')")
    folder = folder_of(session, "t")
    delta.sql(f"generate symlink_format_manifest for table delta.`{folder}`")
    expected = manifests(folder)
    assert len(expected) == 3
    session.sql("generate symlink_format_manifest for table t")
    assert manifests(folder) == expected


def test_both_engines_update_the_manifests_of_the_other(session: rowmerge.Session, delta: JvmPeer) -> None:
    session.sql(
        "create table t (id bigint, p string) using delta partitioned by (p) "
        "tblproperties ('delta.compatibility.symlinkFormatManifest.enabled' = 'true')"
    )
    session.sql("insert into t values (1, 'a'), (2, 'b')")
    folder = folder_of(session, "t")
    delta.sql(f"insert into delta.`{folder}` values (3, 'a'), (4, 'c')")
    delta.sql(f"delete from delta.`{folder}` where id = 2")
    session.sql("insert into t values (5, 'd')")
    our_manifests = manifests(folder)
    delta.sql(f"generate symlink_format_manifest for table delta.`{folder}`")
    assert our_manifests == manifests(folder)
    assert sorted(our_manifests) == ["p=a", "p=c", "p=d"]


def test_both_engines_reject_manifests_together_with_deletion_vectors(session: rowmerge.Session, delta: JvmPeer) -> None:
    session.sql("create table t (id bigint) using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    session.sql("insert into t select /*+ coalesce(1) */ id from range(100)")
    session.sql("delete from t where id = 1")
    folder = folder_of(session, "t")
    enable = "set tblproperties ('delta.compatibility.symlinkFormatManifest.enabled' = 'true'"
    disable = "'rowmerge.write.mode' = 'auto', 'delta.enableDeletionVectors' = 'false'"
    for statement in (
        "generate symlink_format_manifest for table {}",
        f"alter table {{}} {enable})",
        f"alter table {{}} {enable}, {disable})",
    ):
        with pytest.raises(AssertionError, match="(?i)deletion vectors"):
            delta.sql(statement.format(f"delta.`{folder}`"))
        with pytest.raises(RowmergeError, match="(?i)deletion ?vectors"):
            session.sql(statement.format("t"))


def manifests(folder: Path) -> dict[str, list[str]]:
    """Return the paths in each manifest, by the manifest's folder. Hadoop's `file:/` becomes `file:///`."""
    root = folder / "_symlink_format_manifest"
    lines = {path.parent.relative_to(root).as_posix(): path.read_text().splitlines() for path in root.rglob("manifest")}
    return {name: sorted(re.sub("^file:/+", "file:///", path) for path in paths) for name, paths in lines.items()}


@pytest.mark.parametrize(
    "properties",
    [
        "'delta.enableDeletionVectors' = 'true'",
        "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true'",
        "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'id'",
        "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'",
    ],
)
def test_metadata_columns_have_the_values_of_delta_lake_on_spark(session: rowmerge.Session, delta: JvmPeer, properties: str) -> None:
    session.sql(f"create table t (id bigint, p string) using delta partitioned by (p) tblproperties ({properties})")
    table = f"delta.`{folder_of(session, 't')}`"
    session.sql("insert into t select id, if(id % 2 = 0, 'a b%1', null) from range(8)")
    session.sql("delete from t where id = 1")
    delta.sql(f"update {table} set id = id + 100 where id in (2, 3)")
    delta.sql(f"insert into {table} values (50, 'c')")
    queries = ["select id, _metadata from {}", "select *, _metadata.file_name from {} where _metadata.row_index > 0"]
    if "Tracking" in properties:
        session.sql("delete from t where id = 4")
        delta.sql(f"optimize {table}")
        queries.append("select id, _metadata.row_id as r, _metadata.row_commit_version as v from {} where _metadata.row_id >= 2")
    for query in queries:
        our_rows = sorted(row[0] for row in session.sql(f"select to_json(struct(q.*)) from ({query.format('t')}) q").collect())
        assert our_rows == delta.sql(query.format(table)), query


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "typeWidening", "rowTracking", "v2Checkpoint"])
def test_delta_on_spark_reads_and_writes_a_table_without_a_feature(session: rowmerge.Session, delta: JvmPeer, feature: str) -> None:
    properties = {
        "columnMapping": "'delta.columnMapping.mode' = 'name'",
        "typeWidening": "'delta.enableTypeWidening' = 'true'",
        "rowTracking": "'delta.enableRowTracking' = 'true'",
        "v2Checkpoint": "'delta.checkpointPolicy' = 'v2'",
    }.get(feature, "'rowmerge.write.mode' = 'merge-on-read'")
    session.sql(f"create table t (id int, v string) using delta tblproperties ({properties})")
    session.sql("insert into t select id, concat('v', id) from range(20)")
    if feature == "typeWidening":
        session.sql("alter table t alter column id type bigint")
    if feature != "rowTracking":
        session.sql("delete from t where id in (0, 7)")
    session.sql(f"alter table t drop feature {feature}")
    folder = folder_of(session, "t")
    (detail,) = delta.sql(f"describe detail delta.`{folder}`")
    assert feature not in json.loads(detail)["tableFeatures"]
    assert delta.sql(f"select * from delta.`{folder}`") == rows(session, "t")
    if feature != "rowTracking":
        assert delta.sql(f"select count(*) as c from delta.`{folder}` version as of 1") == ['{"c":20}']
    delta.sql(f"update delta.`{folder}` set v = 'changed' where id = 3")
    assert delta.sql(f"select * from delta.`{folder}`") == rows(session, "t")


def test_the_log_after_drop_feature_is_that_of_delta_on_spark(session: rowmerge.Session, delta: JvmPeer, tmp_path: Path) -> None:
    delta.sql(f"create table delta.`{tmp_path}/d` (id int) using delta tblproperties ('delta.enableDeletionVectors' = 'true')")
    delta.sql(f"insert into delta.`{tmp_path}/d` select id from range(20)")
    delta.sql(f"delete from delta.`{tmp_path}/d` where id = 3")
    session.sql("create table t (id int) using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read')")
    session.sql("insert into t select id from range(20)")
    session.sql("delete from t where id = 3")
    delta.sql(f"alter table delta.`{tmp_path}/d` drop feature deletionVectors")
    session.sql("alter table t drop feature deletionVectors")
    logs = [sorted((tmp_path / "d/_delta_log").glob("*.json")), sorted((folder_of(session, "t") / "_delta_log").glob("*.json"))]
    protocols = [
        [json.loads(line)["protocol"] for line in log[-1].read_text().splitlines() if "protocol" in json.loads(line)] for log in logs
    ]
    features = [sorted(protocol["writerFeatures"]) for (protocol,) in protocols]
    assert features[0] == features[1]
    operations = [
        [
            next(json.loads(line)["commitInfo"]["operation"] for line in path.read_text().splitlines() if "commitInfo" in line)
            for path in log
        ]
        for log in logs
    ]
    assert operations[1][-6:] == operations[0][-6:]


def test_delta_on_spark_reads_and_writes_a_converted_iceberg_table(session: rowmerge.Session, delta: JvmPeer, tmp_path: Path) -> None:
    """Columns have exchanged their names, the partition column has a new one, and a file has deleted rows."""
    properties = "tblproperties ('rowmerge.write.mode' = 'merge-on-read')"
    session.sql(f"create table i (id int, v string, w string, p int) using iceberg partitioned by (p) location '{tmp_path}/i' {properties}")
    session.sql("insert into i select id, concat('v', id), concat('w', id), id % 2 from range(10)")
    session.sql("delete from i where id = 3")
    for old, new in (("v", "other"), ("w", "v"), ("other", "w"), ("p", "q")):
        session.sql(f"alter table i rename column {old} to {new}")
    expected = rows(session, "i")
    session.sql(f"create table c shallow clone iceberg.`{tmp_path}/i`")
    session.sql(f"convert to delta iceberg.`{tmp_path}/i`")
    for folder in (folder_of(session, "c"), tmp_path / "i"):
        table = f"delta.`{folder}`"
        assert delta.sql(f"select * from {table}") == expected == rows(session, table)
        assert delta.sql(f"select id from {table} where v = 'w4' and w = 'v4' and q = 0") == ['{"id":4}']
    # When Delta on Spark writes deletion vectors, it does not find local files by absolute paths again. So it does not change the clone.
    delta.sql(f"update {table} set v = 'new' where id = 4")
    assert session.sql(f"select id from {table} where v = 'new'").collect() == [(4,)]
