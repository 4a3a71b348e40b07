"""Metadata in the folder of `write.metadata.path`: catalogs honour the property, and a table in a folder rejects it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import ConfigurationError, UnsupportedTableFeature
from tests.engine.test_property_checks import files_of, set_as_another_engine
from tests.support.readers import read_with_duckdb_iceberg, rows_of
from tests.support.rest_catalog import serving

PATH = "write.metadata.path"
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
MONTH = 30 * 24 * 3600


@pytest.fixture(params=["sql", "rest"])
def configuration(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/w"}
    if request.param == "sql":
        yield sql
        return
    with serving(sql) as uri:
        yield {"type": "rest", "uri": uri}


@pytest.fixture
def catalog(configuration: dict[str, Any]) -> Catalog:
    return load_catalog("default", **configuration)


@pytest.fixture
def session(spark: SparkSession, configuration: dict[str, Any]) -> Iterator[rowmerge.Session]:
    session = rowmerge.connect(catalog=configuration, spark=spark, schema="raw")
    session.sql("create schema raw")
    session.sql(f"set {RETENTION_CHECK} = false")
    yield session
    session.sql(f"set {RETENTION_CHECK} = true")


def names_in(folder: Path) -> list[str]:
    """Return the kinds of the metadata files in a folder, sorted."""
    kinds = {".json": "metadata", "snap-": "list"}
    return sorted(kinds.get(path.suffix) or kinds.get(path.name[:5], "manifest") for path in folder.glob("*") if path.is_file())


def referenced_files(catalog: Catalog) -> set[Path]:
    """Return the metadata files, manifest lists and manifests to which the newest metadata of `raw.t` refers."""
    table = catalog.load_table("raw.t")
    paths = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
    for snapshot in table.metadata.snapshots:
        paths += [snapshot.manifest_list, *(manifest.manifest_path for manifest in snapshot.manifests(table.io))]
    return {Path("/" + path.removeprefix("file:").lstrip("/")) for path in paths}


def ids(session: rowmerge.Session, catalog: Catalog) -> list[int]:
    """Return the ids of `raw.t`, after a comparison of the rows with those of pyiceberg and DuckDB."""
    table = catalog.load_table("raw.t")
    rows = sorted(tuple(row) for row in session.sql("select id from t").collect())
    assert sorted(rows_of(table.scan().to_arrow())) == rows_of(read_with_duckdb_iceberg(table.metadata_location, "id")) == rows
    return [row[0] for row in rows]


@pytest.mark.parametrize("spelling", ["{}/meta data", "{}/meta data/", "file:{}/meta data", "file://{}/meta data//"])
def test_new_metadata_is_in_the_folder(session: rowmerge.Session, catalog: Catalog, tmp_path: Path, spelling: str) -> None:
    path = spelling.format(tmp_path)
    session.sql(f"create table t (id bigint) tblproperties ('{PATH}' = '{path}', 'rowmerge.write.mode' = 'merge-on-read')")
    session.sql("insert into t select /*+ repartition(1) */ id from range(5)")
    session.sql("delete from t where id = 1")
    assert names_in(tmp_path / "meta data") == ["list"] * 2 + ["manifest"] * 2 + ["metadata"] * 3
    assert {file.parent for file in referenced_files(catalog)} == {tmp_path / "meta data"}
    assert not (tmp_path / "w/raw/t/metadata").exists()
    assert ids(session, catalog) == [0, 2, 3, 4]


def test_each_statement_uses_the_folder_that_it_defines(session: rowmerge.Session, catalog: Catalog, tmp_path: Path) -> None:
    first, second, default = tmp_path / "first", tmp_path / "second", tmp_path / "w/raw/t/metadata"
    session.sql(f"create table t tblproperties ('{PATH}' = '{first}') as select 1L as id")
    version = session.describe("raw", "t").version
    session.sql(f"alter table t set tblproperties ('{PATH}' = '{second}')")
    assert (names_in(first), names_in(second)) == (["list", "manifest", "metadata"], ["metadata"])
    session.sql("insert into t values (2)")
    assert (names_in(first), names_in(second)) == (["list", "manifest", "metadata"], ["list", "manifest", "metadata", "metadata"])
    assert ids(session, catalog) == [1, 2]
    session.sql(f"call system.rollback_to_snapshot('t', {version})")
    assert ids(session, catalog) == [1]
    session.sql("create or replace table t as select 3L as id")
    assert names_in(default) == ["list", "manifest", "metadata"] and ids(session, catalog) == [3]
    session.sql(f"create or replace table t tblproperties ('{PATH}' = '{second}') as select 4L as id")
    session.sql("insert into t values (5)")
    session.sql("call system.rewrite_manifests('t')")
    assert names_in(default) == ["list", "manifest", "metadata"] and ids(session, catalog) == [4, 5]


def test_expiry_deletes_files_in_the_current_and_in_the_default_folder(session: rowmerge.Session, catalog: Catalog, tmp_path: Path) -> None:
    meta, default = tmp_path / "meta", tmp_path / "w/raw/t/metadata"
    session.sql("create table t as select 1L as id")
    session.sql(f"alter table t set tblproperties ('{PATH}' = '{meta}')")
    session.sql("insert overwrite t values (2)")
    session.sql("insert overwrite t values (3)")
    foreign = meta / "snap-of-another-table.avro"
    foreign.touch()
    session.sql("call system.expire_snapshots(table => 't', older_than => timestamp'2100-01-01', retain_last => 1)")
    assert names_in(default) == ["metadata"] and foreign.exists()
    assert set(meta.glob("*.avro")) - {foreign} == {file for file in referenced_files(catalog) if file.suffix == ".avro"}
    assert ids(session, catalog) == [3]


def test_orphan_files_are_deleted_in_the_folder_of_the_table_only(session: rowmerge.Session, catalog: Catalog, tmp_path: Path) -> None:
    folder, outside = tmp_path / "w/raw/t", tmp_path / "outside"
    session.sql(f"create table t tblproperties ('{PATH}' = '{outside}') as select 1L as id")
    session.sql(f"alter table t set tblproperties ('{PATH}' = '{folder}/inner')")
    session.sql("insert into t values (2)")
    orphans = [folder / "inner/orphan.avro", folder / "inner/00009-x.metadata.json", outside / "orphan.avro"]
    for path in orphans:
        path.touch()
    for path in (*tmp_path.rglob("*.avro"), *tmp_path.rglob("*.json"), *tmp_path.rglob("*.parquet")):
        os.utime(path, (time.time() - MONTH,) * 2)
    session.sql("vacuum t retain 0 hours")
    assert [path.exists() for path in orphans] == [False, False, True]
    assert all(path.exists() for path in referenced_files(catalog)) and ids(session, catalog) == [1, 2]


def test_drop_deletes_the_metadata_of_the_table_and_no_other_files(session: rowmerge.Session, catalog: Catalog, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    for name in ("t", "other"):
        session.sql(f"create table {name} tblproperties ('{PATH}' = '{shared}') as select 1L as id")
        session.sql(f"insert into {name} values (2)")
    files = referenced_files(catalog)
    session.sql("drop table t purge")
    assert not [path for path in files if path.exists()] and not (tmp_path / "w/raw/t").exists()
    session.sql("insert into other values (3)")
    assert len(rows_of(catalog.load_table("raw.other").scan().to_arrow())) == 3


@pytest.mark.parametrize("has_path", [False, True])
@pytest.mark.parametrize("configuration", ["sql"], indirect=True)
def test_metadata_files_that_leave_the_log_are_deleted(session: rowmerge.Session, catalog: Catalog, tmp_path: Path, has_path: bool) -> None:
    folder = tmp_path / ("meta" if has_path else "w/raw/t/metadata")
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    properties |= {PATH: str(folder)} if has_path else {}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    session.sql(f"create table t (id bigint) tblproperties ({listed})")
    for id_ in range(5):
        session.sql(f"insert into t values ({id_})")
    assert set(folder.glob("*.json")) == {file for file in referenced_files(catalog) if file.suffix == ".json"}
    assert len(list(folder.glob("*.json"))) == 3 and ids(session, catalog) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("configuration", ["sql"], indirect=True)
def test_metadata_of_a_table_that_was_renamed_after_the_commit_stays(
    session: rowmerge.Session, catalog: Catalog, spark: SparkSession, configuration: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = "'write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '3'"
    session.sql(f"create table t (id bigint) tblproperties ({properties})")
    for id_ in range(3):
        session.sql(f"insert into t values ({id_})")
    other, location = rowmerge.connect(catalog=configuration, spark=spark, schema="raw"), session.describe("raw", "t").location
    commit_table = SqlCatalog.commit_table

    def commit_and_rename(*arguments: Any) -> Any:
        response = commit_table(*arguments)
        monkeypatch.undo()
        catalog.rename_table("raw.t", "raw.renamed")
        other.sql(f"create table t (id bigint) location '{location}' tblproperties ({properties})")
        return response

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_and_rename)
    session.sql("insert into t values (3)")
    log = catalog.load_table("raw.renamed").metadata.metadata_log
    assert len(log) == 3 and all(Path(entry.metadata_file.removeprefix("file://")).exists() for entry in log)


@pytest.mark.parametrize("name", [PATH, "write.data.path", "write.object-storage.path", "write.folder-storage.path"])
@pytest.mark.parametrize(
    "path", ["meta", "./meta", "~/meta", " ", "s3:/b/x", "s3://", "s3://b/x/../t", "s3://b/./x", "s3://b//x", "S3://b/x"]
)
def test_a_path_must_be_absolute(bare_session: rowmerge.Session, name: str, path: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is '{path}'. Set it to an absolute path"):
        bare_session.sql(f"create table t (id int) using iceberg tblproperties ('{name}' = '{path}')")


def test_a_table_in_a_folder_rejects_the_property(bare_session: rowmerge.Session, tmp_path: Path) -> None:
    session, message = bare_session, rf"{PATH} is '/elsewhere', but .*t is not in a catalog"
    properties = f"tblproperties ('{PATH}' = '/elsewhere')"
    for statement in ("create table t (id int) using iceberg {}", "create table t using iceberg {} as select 1 as id"):
        with pytest.raises(ConfigurationError, match=message):
            session.sql(statement.format(properties))
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".parquet", ".json") and "/t/" in str(path)]
    session.sql("create table t using iceberg as select 1 as id")
    for statement in (f"alter table t set {properties}", f"create or replace table t using iceberg {properties} as select 2 as id"):
        with pytest.raises(ConfigurationError, match=message):
            session.sql(statement)
    session.sql("insert into t values (3)")
    assert sorted(session.sql("select id from t").collect()) == [(1,), (3,)]


def test_a_table_in_a_folder_with_the_property_is_read_and_not_written(bare_session: rowmerge.Session) -> None:
    session = bare_session
    session.sql("create table t using iceberg as select 1 as id")
    set_as_another_engine(session, {PATH: "/elsewhere"})
    files_before = files_of(session)
    statements = ("insert into t values (2)", "delete from t where id = 1", "call system.rewrite_manifests('t')", "optimize t")
    for statement in statements:
        with pytest.raises(UnsupportedTableFeature, match=f"{PATH} = /elsewhere"):
            session.sql(statement)
    assert files_of(session) == files_before and session.sql("select id from t").collect() == [(1,)]
    session.sql("alter table t set tblproperties ('owner' = 'ann')")
    session.sql(f"alter table t unset tblproperties ('{PATH}')")
    session.sql("insert into t values (2)")
    newest = max((path for path in files_of(session) if path.name.endswith(".metadata.json")), key=lambda path: path.stat().st_mtime_ns)
    assert PATH not in json.loads(newest.read_text())["properties"]
    assert session.sql("select count(*) from t").collect() == [(2,)]
