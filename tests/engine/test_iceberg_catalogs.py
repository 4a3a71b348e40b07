"""Statements on tables in pyiceberg's catalogs (SQL, REST servers, Glue, Hive); pyiceberg reads them from the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import LongType
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.catalog.paths import without_paths
from rowmerge.errors import AlreadyExists, ConfigurationError, PlanError, TableNotFound, UnsupportedTableFeature
from tests.support.glue import needs_moto, serving_glue
from tests.support.hive_metastore import emptied_hive, needs_hive
from tests.support.iceberg_rest_server import needs_jars, serving_with_java
from tests.support.postgresql import needs_postgresql, new_database
from tests.support.readers import read_lineage_with_duckdb, read_with_duckdb_iceberg, rows_of
from tests.support.rest_catalog import serving

pytestmark = pytest.mark.one_of("mode")
FULL = pytest.mark.full_suite("other catalogs of pyiceberg take the same way through the engine")


@pytest.fixture(
    params=[
        "sql",
        "rest",
        pytest.param("java", marks=needs_jars),
        pytest.param("postgresql", marks=[needs_postgresql, FULL]),
        pytest.param("glue", marks=[needs_moto, FULL]),
        pytest.param("hive", marks=[needs_hive, FULL]),
    ]
)
def configuration(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/w"}
    if request.param == "sql":
        yield sql
        return
    if request.param == "postgresql":
        with new_database(request.getfixturevalue("postgresql")) as uri:
            yield {**sql, "uri": uri}
        return
    if request.param == "glue":
        with serving_glue() as glue:
            yield {**glue, "warehouse": f"file://{tmp_path}/w"}
        return
    if request.param == "hive":
        with emptied_hive(request.getfixturevalue("hive_metastore"), f"file://{tmp_path}/w") as hive:
            yield hive
        return
    with serving_with_java(tmp_path) if request.param == "java" else serving(sql) as uri:
        yield {"type": "rest", "uri": uri}


@pytest.fixture
def pyiceberg_catalog(configuration: dict[str, Any]) -> Catalog:
    return load_catalog("default", **configuration)


@pytest.fixture
def session(spark: SparkSession, configuration: dict[str, Any]) -> rowmerge.Session:
    session = rowmerge.connect(catalog=configuration, spark=spark, schema="raw")
    session.sql("create schema raw")
    return session


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_other_readers_read_the_changed_rows(session: rowmerge.Session, pyiceberg_catalog: Catalog, mode: str) -> None:
    modes = ", ".join(f"'write.{what}.mode' = '{mode}'" for what in ("delete", "update", "merge"))
    session.sql(f"create table t using iceberg tblproperties ({modes}) as select id, concat('v', id) as v from range(1, 9)")
    version = session.describe("raw", "t").version
    session.sql("insert into t values (9, 'v9')")
    session.sql("delete from t where id = 1")
    session.sql("update t set v = 'updated' where id in (2, 9)")
    session.sql(
        "merge into t using (select * from values (3, 'merged'), (20, 'new') as s (id, v)) s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    session.sql("alter table t add column n int")
    expected = [(2, "updated"), (3, "merged"), *((id_, f"v{id_}") for id_ in range(4, 9)), (9, "updated"), (20, "new")]
    assert session.sql("select id, v from t order by id").collect() == expected
    assert session.sql(f"select count(*) from t version as of {version}").collect() == [(8,)]
    table = pyiceberg_catalog.load_table("raw.t")
    assert sorted(rows_of(table.scan().to_arrow())) == [(*row, None) for row in expected]
    assert rows_of(read_with_duckdb_iceberg(table.metadata_location, "id")) == [(*row, None) for row in expected]


def test_commits_of_other_writers_are_read_and_merged_into(session: rowmerge.Session, pyiceberg_catalog: Catalog) -> None:
    session.sql("create table t (id bigint, v string)")
    table = pyiceberg_catalog.load_table("raw.t")
    table.append(session.sql("select id, cast(null as string) as v from range(3)").toArrow())
    session.sql("update t set v = 'ours' where id = 1")
    table.refresh()
    table.delete("id = 0")
    assert session.sql("select * from t order by id").collect() == [(1, "ours"), (2, None)]
    session.sql("create or replace table t as select 'x' as a")
    assert pyiceberg_catalog.load_table("raw.t").scan().to_arrow().to_pylist() == [{"a": "x"}]
    pyiceberg_catalog.drop_table("raw.t")
    with pytest.raises(TableNotFound):
        session.sql("select * from t")
    session.sql("create table t as select 1 as b")
    assert session.table("t").collect() == [(1,)]


def test_properties_are_checked_and_have_their_effect_in_every_catalog(
    session: rowmerge.Session, pyiceberg_catalog: Catalog, configuration: dict[str, Any]
) -> None:
    session.sql("create table t (id bigint) tblproperties ('owner' = 'ann')")
    for name, value, message in (
        ("write.mrege.mode", "auto", r"Did you mean write\.merge\.mode"),
        ("write.metadata.metrics.default", "bogus", "is 'bogus'"),
        ("write.format.default", "orc", "cannot be 'orc'"),
        ("delta.appendOnly", "true", "only to Delta tables"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            session.sql(f"alter table t set tblproperties ('{name}' = '{value}')")
    location = pyiceberg_catalog.load_table("raw.t").location()
    session.sql(
        "alter table t set tblproperties ('write.parquet.compression-codec' = ' GZIP ', 'write.metadata.compression-codec' = 'gzip', "
        f"'write.data.path' = '{location}/elsewhere')"
    )
    session.sql("insert into t values (1)")
    table = pyiceberg_catalog.load_table("raw.t")
    assert table.properties["owner"] == "ann" and table.properties["write.parquet.compression-codec"] == "gzip"
    if configuration["type"] != "rest":  # A REST server writes the metadata files itself.
        assert table.metadata_location.endswith(".gz.metadata.json")
    (file,) = table.inspect.files().to_pylist()
    assert file["file_path"].startswith(f"{location}/elsewhere/")
    assert pq.read_metadata(file["file_path"].removeprefix("file://")).row_group(0).column(0).compression == "GZIP"
    session.sql("alter table t unset tblproperties ('write.metadata.compression-codec')")
    session.sql("insert into t values (2)")
    table.refresh()
    assert not table.metadata_location.endswith(".gz.metadata.json")
    assert sorted(rows_of(table.scan().to_arrow())) == rows_of(read_with_duckdb_iceberg(table.metadata_location, "id")) == [(1,), (2,)]


def test_audited_changes_are_published_in_every_catalog(session: rowmerge.Session, pyiceberg_catalog: Catalog) -> None:
    def published() -> list[int]:
        return sorted(pyiceberg_catalog.load_table("raw.t").scan().to_arrow()["id"].to_pylist())

    session.sql("create table t (id bigint) tblproperties ('write.wap.enabled' = 'true')")
    session.sql("insert into t values (1)")
    session.execute("insert into t values (2)", wap_id="staged")
    session.execute("delete from t where id = 1", wap_branch="audit")
    session.execute("insert into t values (3)", wap_branch="audit")
    assert published() == [1]
    assert [row.id for row in session.execute("select id from t", wap_branch="audit").frame.collect()] == [3]
    session.sql("call system.fast_forward('t', 'main', 'audit')")
    assert published() == [3]
    session.sql("call system.publish_changes('t', 'staged')")
    assert published() == [2, 3]
    with pytest.raises(PlanError, match="published already"):
        session.sql("call system.publish_changes('t', 'staged')")
    session.sql("vacuum t")
    assert published() == [2, 3]


def test_files_and_tables_are_imported_into_every_catalog(
    session: rowmerge.Session, pyiceberg_catalog: Catalog, configuration: dict[str, Any], tmp_path: Path
) -> None:
    def ids(name: str) -> list[int]:
        return sorted(pyiceberg_catalog.load_table(f"raw.{name}").scan().to_arrow()["id"].to_pylist())

    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), folder / "x.parquet")
    session.sql("create table t (id bigint)")
    session.sql(f"call system.add_files('t', 'parquet.`{folder}`')")
    session.sql(f"call system.snapshot('parquet.`{folder}`', 'copied')")
    session.sql("insert into copied values (3)")
    session.sql("alter table copied rename to renamed")
    assert (ids("t"), ids("renamed")) == ([1, 2], [1, 2, 3])
    if configuration["type"] != "rest":  # The test server has no endpoint for it.
        metadata = pyiceberg_catalog.load_table("raw.t").metadata_location
        session.sql(f"call system.register_table('again', '{metadata}')")
        assert ids("again") == [row.id for row in session.sql("select id from again order by id").collect()] == [1, 2]


def test_views_are_defined_read_renamed_and_replaced_by_tables(session: rowmerge.Session, pyiceberg_catalog: Catalog) -> None:
    session.sql("create table t as select 1 as id")
    session.sql("create view v (id comment 'key') comment 'words' as select id from t")
    session.sql("create or replace view v as select id + 1 as id from t")
    assert session.table("v").collect() == [(2,)]
    assert [(row.viewName, row.isTemporary) for row in session.sql("show views").collect()] == [("v", False)]
    (statement,) = session.sql("show create table v").collect()[0]
    session.sql("alter view v rename to w")
    assert session.table("w").collect() == [(2,)] and "CREATE VIEW" in statement
    with pytest.raises(AlreadyExists):
        session.sql("create table w (id int)")
    with pytest.raises(AlreadyExists):
        session.sql("alter view w rename to t")
    session.sql("drop view w")
    session.sql("create table w as select 3 as id")
    session.sql("drop table w")
    session.sql("create view w as select 4 as id")
    assert session.table("w").collect() == [(4,)]
    assert [identifier[-1] for identifier in pyiceberg_catalog.list_tables("raw")] == ["t"]


def test_a_statement_follows_commits_of_pyiceberg(session: rowmerge.Session, pyiceberg_catalog: Catalog) -> None:
    """Each of our statements follows a commit of another kind, with a session that has read the table before."""
    session.sql("create table t as select id, concat('v', id) as v from range(4)")
    table = pyiceberg_catalog.load_table("raw.t")
    table.append(pa.table({"id": [10, 11], "v": ["x", "y"]}))
    session.sql("update t set v = 'ours' where id in (1, 10)")
    table.refresh().delete("id = 2")
    session.sql("delete from t where id = 3")
    with table.refresh().update_schema() as change:
        change.add_column("n", LongType())
        change.rename_column("v", "w")
    session.sql("insert into t values (20, 'new', 7)")
    table.refresh().transaction().set_properties({"owner": "ann", "write.delete.mode": "merge-on-read"}).commit_transaction()
    session.sql("merge into t using (select 0 as id) s on t.id = s.id when matched then update set w = 'merged', n = 1")
    session.sql("alter table t set tblproperties ('comment' = 'words')")
    rows = [(0, "merged", 1), (1, "ours", None), (10, "ours", None), (11, "y", None), (20, "new", 7)]
    assert session.sql("select id, w, n from t order by id").collect() == rows
    table.refresh()
    assert sorted(rows_of(table.scan().to_arrow())) == rows
    assert table.properties["owner"] == "ann" and table.properties["comment"] == "words"


def test_a_commit_of_pyiceberg_during_a_statement_conflicts_and_the_statement_runs_again(
    session: rowmerge.Session, pyiceberg_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("create table t as select id, 0L as n from range(4)")
    client = without_paths(session._catalog)._client.catalog  # type: ignore[attr-defined]
    commit_table, turns = client.commit_table, iter(range(3))

    def overtake(*arguments: Any) -> Any:
        turn = next(turns, None)
        if turn == 0:
            pyiceberg_catalog.load_table("raw.t").overwrite(pa.table({"id": [1], "n": [100]}), "id = 1")
        elif turn == 1:
            pyiceberg_catalog.load_table("raw.t").append(pa.table({"id": [9], "n": [5]}))
        return commit_table(*arguments)

    monkeypatch.setattr(client, "commit_table", overtake)
    session.sql("update t set n = n + 1 where id < 10")
    assert session.sql("select id, n from t order by id").collect() == [(0, 1), (1, 101), (2, 1), (3, 1), (9, 6)]


def test_unsupported_operations_of_a_catalog_are_rejected(
    session: rowmerge.Session, configuration: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="supports only Iceberg tables"):
        session.sql("create table t (id int) using delta")
    with pytest.raises(PlanError, match="no columns"):
        session.sql(f"create table t location '{tmp_path}/elsewhere'")
    with pytest.raises(ConfigurationError, match="Omit it, or use 'iceberg'"):
        rowmerge.connect(catalog=configuration, spark=spark, default_format="delta")
    with pytest.raises(ConfigurationError, match="Neither a location nor a catalog is specified"):
        rowmerge.connect(spark=spark)
    session.sql(f"create table t (id int) location '{tmp_path}/elsewhere'")
    session.sql("insert into t values (1)")
    assert session.describe("raw", "t").location == f"file://{tmp_path}/elsewhere"
    session.sql("drop schema raw cascade")
    assert "raw" not in session.schemas() and list((tmp_path / "elsewhere/data").iterdir())


def test_format_version_3_requires_a_server_that_writes_it(
    session: rowmerge.Session, pyiceberg_catalog: Catalog, configuration: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """pyiceberg's own catalogs write at most version 2, and so does the test server, which uses one of them."""
    create = (
        "create table t (id bigint, v string) using iceberg tblproperties ('format-version' = '3', 'rowmerge.write.mode' = 'merge-on-read')"
    )
    if configuration["type"] != "rest":
        with pytest.raises(UnsupportedTableFeature, match="format-version 3.*supports format versions up to 2"):
            session.sql(create)
        session.sql("create table t using iceberg as select 1 as id")
        with pytest.raises(UnsupportedTableFeature, match="format-version 3"):
            session.sql("alter table t set tblproperties ('format-version' = '3')")
        return
    if "java" not in request.node.callspec.id:
        pytest.skip("the server is made of a catalog of pyiceberg's")
    session.sql(create)
    session.sql("insert into t select /*+ repartition(1) */ id, 'v' from range(4)")
    session.sql("delete from t where id = 1")
    session.sql("update t set v = 'u' where id = 2")
    session.sql("alter table t add column n int default 7")
    session.sql("create table raised using iceberg as select 1 as id")
    session.sql("alter table raised set tblproperties ('format-version' = '3')")
    session.sql("insert into raised values (2)")
    table = pyiceberg_catalog.load_table("raw.t")
    assert sorted(rows_of(table.scan().to_arrow())) == [(0, "v", 7), (2, "u", 7), (3, "v", 7)]
    lineage_rows = read_lineage_with_duckdb(table.metadata_location).to_pylist()
    assert {row["id"]: row["_row_id"] for row in lineage_rows} == {0: 0, 2: 2, 3: 3}
    assert pyiceberg_catalog.load_table("raw.raised").metadata.next_row_id == 2  # type: ignore[union-attr]


def test_queries_read_files_by_their_path(session: rowmerge.Session, tmp_path: Path) -> None:
    (tmp_path / "lines.csv").write_text("a\nb\n")
    rows = session.sql(f"select value from text.`{tmp_path}/lines.csv` order by value").collect()
    assert [row.value for row in rows] == ["a", "b"]
