"""Properties cannot put files of an Iceberg table into the folder of another table, whose DROP and VACUUM would delete them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import ConfigurationError

DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
STATEMENTS = {
    "create": "create table u (id int) using iceberg {}",
    "create as": "create table u using iceberg {} as select 1 as id",
    "replace": "create or replace table t using iceberg {} as select 1 as id",
    "alter": "alter table t set {}",
    "clone": "create table u shallow clone t {}",
}


@pytest.fixture(params=["delta", "iceberg"])
def session(request: pytest.FixtureRequest, bare_session: rowmerge.Session) -> rowmerge.Session:
    bare_session.sql(f"create table other using {request.param} as select 1 as id")
    bare_session.sql("create table t using iceberg as select 2 as id")
    return bare_session


def other(session: rowmerge.Session) -> str:
    return session.describe("default", "other").location.removeprefix("file://")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_reject_a_folder_in_another_table(session: rowmerge.Session, statement: str) -> None:
    files_before = set(Path(other(session)).parent.rglob("*"))
    for name in DATA_PATHS:
        properties = f"tblproperties ('{name}' = '{other(session)}/data/deeper')"
        with pytest.raises(ConfigurationError, match=f"{name} of .* is in the folder of another table, file://{other(session)}. DROP"):
            session.sql(STATEMENTS[statement].format(properties))
    assert set(Path(other(session)).parent.rglob("*")) == files_before


@pytest.mark.parametrize("spelling", ["{}", "{}/", "file:{}/x", "file://{}/x y", "{}/../other/x", "{root}/link/x"])
def test_all_spellings_of_the_folder_are_rejected(session: rowmerge.Session, tmp_path: Path, spelling: str) -> None:
    (tmp_path / "link").symlink_to(other(session))
    path = spelling.format(other(session), root=tmp_path)
    with pytest.raises(ConfigurationError, match="is in the folder of another table"):
        session.write(session.sql("select 1 as id"), "u", mode="replace", format="iceberg", properties={"write.data.path": path})


@pytest.mark.parametrize("path", ["{t}", "{t}/data/new", "{root}/elsewhere", "{root}/warehouse/default", "{root}/warehouse/no_schema/x"])
def test_folders_outside_other_tables_are_accepted(session: rowmerge.Session, tmp_path: Path, path: str) -> None:
    location = other(session)
    path = path.format(t=location.replace("other", "t"), other=location, root=tmp_path)
    session.sql(f"alter table t set tblproperties ('write.data.path' = '{path}')")
    session.sql("insert into t values (3)")
    assert list(Path(path).glob("*.parquet")) and sorted(session.sql("select id from t").collect()) == [(2,), (3,)]


@pytest.mark.parametrize("name", ["later", "v", "other"])
def test_the_folder_of_a_name_is_rejected_because_a_table_can_get_it(session: rowmerge.Session, name: str) -> None:
    session.sql("create view v as select 1 as id")
    folder = other(session).replace("other", name)
    session.sql("drop table other")
    with pytest.raises(ConfigurationError, match=f"is in the folder of the name default.{name}, which another table can get. DROP"):
        session.sql(f"alter table t set tblproperties ('write.data.path' = '{folder}/data')")


def test_catalogs_reject_the_folder_of_another_table(spark: SparkSession, tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/w"}
    session = rowmerge.connect(catalog=catalog, spark=spark, schema="raw")
    session.sql("create schema raw")
    session.sql("create table other (id int) tblproperties ('write.metadata.compression-codec' = 'gzip')")
    session.sql("insert into other values (1)")
    for name in ("write.metadata.path", "write.data.path"):
        with pytest.raises(
            ConfigurationError, match=f"{name} of raw.t is .* in the folder of another table, file://{tmp_path}/w/raw/other"
        ):
            session.sql(f"create table t (id int) tblproperties ('{name}' = '{tmp_path}/w/raw/other/metadata')")
    with pytest.raises(ConfigurationError, match="write.data.path of raw.t is .* in the folder of the name raw.later"):
        session.sql(f"create table t (id int) tblproperties ('write.data.path' = '{tmp_path}/w/raw/later/data')")
    # A folder `metadata` is not in the folder of a table if the table is elsewhere.
    session.sql(f"create table t (id int) tblproperties ('write.metadata.path' = '{tmp_path}/shared/metadata')")
    session.sql(f"create table u (id int) tblproperties ('write.metadata.path' = '{tmp_path}/shared/metadata')")
    session.sql(f"alter table t set tblproperties ('write.data.path' = '{tmp_path}/shared/data')")
    session.sql("insert into t values (1)")
    assert list((tmp_path / "shared/data").glob("*.parquet")) and session.sql("select id from t").collect() == [(1,)]
