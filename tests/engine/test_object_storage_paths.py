"""Data files at hashed paths (`write.object-storage.*`), and in the folders that older properties name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import rowmerge
from rowmerge.errors import ConfigurationError
from tests.support.readers import newest_metadata

HASH = r"[01]{4}/[01]{4}/[01]{4}/[01]{8}"
ENABLED = "'write.object-storage.enabled' = 'true'"


def data_files(session: rowmerge.Session) -> list[str]:
    """Return the paths of the data files of `t`, as pyiceberg lists them."""
    files = StaticTable.from_metadata(newest_metadata(session.describe("default", "t").location)).inspect.files().to_pylist()
    return [str(file["file_path"]).removeprefix("file://") for file in files if file["content"] == 0]


def assert_paths_match(session: rowmerge.Session, pattern: str) -> None:
    paths = data_files(session)
    assert paths
    for path in paths:
        assert re.fullmatch(pattern, path), path
        assert Path(path).exists()


def folder_of(session: rowmerge.Session) -> str:
    return session.describe("default", "t").location.removeprefix("file://")


def test_paths_begin_with_a_hash_on_the_driver_and_on_executors(session: rowmerge.Session) -> None:
    session.sql(f"create table t (id bigint, p string) using iceberg partitioned by (p) tblproperties ({ENABLED})")
    session.sql("insert into t values (-1, 'a b')")
    session.sql("insert into t select id, concat('p', id % 2) from range(0, 20000, 1, 3)")
    assert_paths_match(session, rf"{folder_of(session)}/data/{HASH}/p=(a\+b|p0|p1)/part-[^/]*\.parquet")
    assert len({path.split("/data/")[1][:19] for path in data_files(session)}) > 1
    session.sql("update t set p = 'p3' where id = 7")
    session.sql("optimize t")
    assert_paths_match(session, rf"{folder_of(session)}/data/{HASH}/p=(a\+b|p0|p1|p3)/part-[^/]*\.parquet")
    assert session.sql("select count(*), sum(id) from t").collect() == [(20001, 199989999)]


def test_paths_can_leave_out_partitions(session: rowmerge.Session) -> None:
    listed = f"{ENABLED}, 'write.object-storage.partitioned-paths' = 'false', 'rowmerge.write.mode' = 'merge-on-read'"
    session.sql(f"create table t (id bigint, p string) using iceberg partitioned by (p) tblproperties ({listed})")
    session.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'b')")
    session.sql("delete from t where id = 2")
    assert_paths_match(session, rf"{folder_of(session)}/data/[01]{{4}}/[01]{{4}}/[01]{{4}}/[01]{{8}}-part-[^/]*\.parquet")
    assert sorted(session.sql("select * from t").collect()) == [(1, "a"), (3, "b")]


@pytest.mark.parametrize(
    ("listed", "folder"),
    [
        ("'write.object-storage.path' = '{root}/old', 'write.folder-storage.path' = '{root}/older'", "old"),
        ("'write.folder-storage.path' = '{root}/older'", "older"),
        ("'write.data.path' = '{root}/new', 'write.object-storage.path' = '{root}/old'", "new"),
    ],
)
def test_files_in_a_shared_folder_are_below_the_name_of_the_table(
    session: rowmerge.Session, tmp_path: Path, listed: str, folder: str
) -> None:
    session.sql(f"create table t (id int) using iceberg tblproperties ({ENABLED}, {listed.format(root=tmp_path)})")
    session.sql("insert into t values (1)")
    assert_paths_match(session, rf"{tmp_path}/{folder}/{HASH}/default/t/part-[^/]*\.parquet")


def test_the_older_name_of_the_data_folder_applies_without_hashes(session: rowmerge.Session, tmp_path: Path) -> None:
    listed = f"'write.object-storage.path' = '{tmp_path}/unused', 'write.folder-storage.path' = '{tmp_path}/older'"
    session.sql(f"create table t (id int) using iceberg tblproperties ({listed})")
    session.sql("insert into t values (1)")
    assert_paths_match(session, rf"{tmp_path}/older/part-[^/]*\.parquet")


@pytest.mark.parametrize("outside", [False, True])
def test_vacuum_and_drop_delete_the_files_of_the_table_and_no_others(bare_session: rowmerge.Session, tmp_path: Path, outside: bool) -> None:
    session, shared = bare_session, tmp_path / "shared"
    listed = f"{ENABLED}, 'write.data.path' = '{shared}'" if outside else ENABLED
    session.sql(f"create table t (id int) using iceberg tblproperties ({listed})")
    session.sql("insert into t values (1)")
    (first,) = data_files(session)
    neighbour = shared / "0000/0000/0000/00000000/default/other/part-1.parquet"
    neighbour.parent.mkdir(parents=True)
    neighbour.touch()
    session.sql("update t set id = 2")
    (second,) = data_files(session)
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    session.sql("vacuum t retain 0 hours")
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = true")
    assert not Path(first).exists() and Path(second).exists() and session.sql("select id from t").collect() == [(2,)]
    session.sql("drop table t")
    assert not Path(second).exists() and neighbour.exists()


def test_dropping_a_clone_keeps_the_files_of_its_source(session: rowmerge.Session, tmp_path: Path) -> None:
    location = f"'write.data.path' = '{tmp_path}/shared'"
    session.sql(f"create table t (id int) using iceberg tblproperties ({ENABLED}, {location})")
    session.sql("insert into t values (1)")
    session.sql(f"create table copy shallow clone t tblproperties ({location})")
    session.sql("drop table copy")
    assert session.sql("select id from t").collect() == [(1,)]


@pytest.mark.parametrize("name", ["write.object-storage.enabled", "write.object-storage.partitioned-paths"])
def test_a_flag_must_be_true_or_false(bare_session: rowmerge.Session, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is 'yes'. Set it to true or false"):
        bare_session.sql(f"create table t (id int) using iceberg tblproperties ('{name}' = 'yes')")


def test_drop_of_a_replaced_clone_or_a_copied_table_keeps_the_files_of_the_original(session: rowmerge.Session, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    properties = f"tblproperties ('write.data.path' = '{elsewhere}')"
    session.sql(f"create table source (id bigint) using iceberg {properties}")
    session.sql("insert into source values (1)")
    session.sql("create table clone_of_it shallow clone source")
    with pytest.raises(ConfigurationError, match="gc.enabled of default.clone_of_it is false"):
        session.sql("create or replace table clone_of_it (id int) using iceberg tblproperties ('gc.enabled' = 'true')")
    session.sql(f"create or replace table clone_of_it using iceberg {properties} as select 9L as id")
    session.sql("drop table clone_of_it")
    assert session.sql("select * from source").collect() == [(1,)]
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    rowmerge.connect(str(tmp_path / "copy"), spark=session.spark).sql("drop table source")
    assert session.sql("select * from source").collect() == [(1,)]
