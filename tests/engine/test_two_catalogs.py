"""Statements of one session on several catalogs: a warehouse folder, a catalog of pyiceberg, and a second folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import (
    ConfigurationError,
    PlanError,
    RowmergeError,
    SchemaNotFound,
    TableError,
    TableNotFound,
    UnsupportedStatement,
    VersionNotFound,
)
from tests.support.rest_catalog import serving

FULL = pytest.mark.full_suite("other catalogs take the same way through the engine")


@pytest.fixture(params=["sql", pytest.param("rest", marks=FULL), pytest.param("two_sql", marks=FULL)])
def session(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[rowmerge.Session]:
    """Yield a session with a default catalog, the catalog `lake` of Iceberg tables, and the folder `cold`."""
    sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/lake"}
    cold = {"name": "cold", "warehouse": str(tmp_path / "cold")}
    if request.param == "rest":
        with serving(sql) as uri:
            yield open_session(spark, str(tmp_path / "warehouse"), catalogs=[{"name": "lake", "type": "rest", "uri": uri}, cold])
        return
    main = {"name": "main", "type": "sql", "uri": f"sqlite:///{tmp_path}/main.db", "warehouse": f"file://{tmp_path}/main"}
    default: dict[str, Any] = {"catalog": main} if request.param == "two_sql" else {"location": str(tmp_path / "warehouse")}
    yield open_session(spark, **default, catalogs=[{**sql, "name": "lake"}, cold])


def open_session(spark: SparkSession, location: str | None = None, **arguments: Any) -> rowmerge.Session:
    session = rowmerge.connect(location, spark=spark, **arguments)
    for statement in (
        "create schema analytics",
        "create schema lake.raw",
        "create schema cold.raw",
        "create table analytics.orders as select 1L as id, 'new' as name",
        "create table lake.raw.orders as select 1L as id, 'old' as name union all select 2L, 'two'",
        "create table cold.raw.orders as select 3L as id, 'three' as name",
    ):
        session.sql(statement)
    return session


def rows(session: rowmerge.Session, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.sql(query).collect())


def lake_rows(session: rowmerge.Session) -> list[dict[str, Any]]:
    """Return the rows of the table in `lake`, as pyiceberg reads them from the catalog."""
    table = session._catalog.catalog_of("lake.raw")._client.catalog.load_table("raw.orders")
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_each_table_is_in_its_catalog_in_the_format_of_the_catalog(session: rowmerge.Session, tmp_path: Path) -> None:
    formats = {schema: session.describe(schema, "orders").relation.format for schema in ("lake.raw", "cold.raw")}
    assert formats == {"lake.raw": "iceberg", "cold.raw": "delta"}
    assert lake_rows(session) == [{"id": 1, "name": "old"}, {"id": 2, "name": "two"}]
    (cold_file,) = DeltaTable(str(tmp_path / "cold/raw/orders")).file_uris()
    assert pq.read_table(cold_file).to_pylist() == [{"id": 3, "name": "three"}]
    assert session.schemas("lake") == ["raw"]
    assert {"analytics", "lake.raw", "cold.raw", "cold.default"} <= {*session.schemas()}
    with pytest.raises(ConfigurationError, match="no catalog 'pond'. The catalogs are (rowmerge|main), lake, cold"):
        session.schemas("pond")


def test_merge_and_other_statements_change_a_table_by_rows_of_another_catalog(session: rowmerge.Session) -> None:
    session.sql(
        "merge into lake.raw.orders using cold.raw.orders on lake.raw.orders.id = cold.raw.orders.id "
        "when matched then update set * when not matched then insert *"
    )
    session.sql("merge into lake.raw.orders as t using analytics.orders as s on t.id = s.id when matched then update set name = s.name")
    assert [row["name"] for row in lake_rows(session)] == ["new", "two", "three"]
    session.sql("update lake.raw.orders set name = 'II' where lake.raw.orders.id in (select id + 1 from analytics.orders)")
    session.sql("delete from lake.raw.orders where id = 3")
    session.sql("insert into cold.raw.orders select * from lake.raw.orders")
    assert lake_rows(session) == [{"id": 1, "name": "new"}, {"id": 2, "name": "II"}]
    assert rows(session, "select c.name, lake.raw.orders.name from cold.raw.orders c join lake.raw.orders using (id)") == [
        ("II", "II"),
        ("new", "new"),
    ]


def test_metadata_tables_branches_and_versions_have_names_of_four_parts(session: rowmerge.Session) -> None:
    session.sql("alter table lake.raw.orders create branch audit")
    session.sql("insert into lake.raw.orders.branch_audit values (9, 'nine')")
    session.sql("insert into lake.raw.orders values (8, 'eight')")
    assert rows(session, "select count(*) from lake.raw.orders.branch_audit where id = 9") == [(1,)]
    assert rows(session, "select count(*) from lake.raw.orders.files") == [(3,)]
    assert rows(session, "select count(*) from cold.raw.orders.files") == [(1,)]
    assert rows(session, "select count(*) from cold.raw.orders version as of 0") == [(1,)]
    session.sql("comment on column lake.raw.orders.name is 'who'")
    assert session.describe("lake.raw", "orders").columns[1].comment == "who"


def test_views_read_other_catalogs_and_resolve_names_in_the_catalog_of_their_session(session: rowmerge.Session, tmp_path: Path) -> None:
    session.sql("create view analytics.from_lake as select * from lake.raw.orders")
    session.sql("create view lake.raw.from_default as select * from analytics.orders")
    session.sql("use lake.raw")
    session.sql("create view own as select o.id from orders o join raw.orders using (id)")
    session.sql("create view analytics_view_is_absent as select 1 as x")
    with pytest.raises(RowmergeError):
        session.sql("create view rowmerge.analytics.wrong as select * from analytics.orders").collect()
    session.sql("create view rowmerge.analytics.of_lake as select id from orders where id > 1")
    assert rows(session, "select * from rowmerge.analytics.from_lake") == [(1, "old"), (2, "two")]
    session.sql("use rowmerge.analytics")
    assert rows(session, "select * from lake.raw.from_default") == [(1, "new")]
    assert rows(session, "select * from lake.raw.own") == [(1,), (2,)]
    assert rows(session, "select * from of_lake") == [(2,)]
    session.sql("comment on table analytics.of_lake is 'ids'")
    assert rows(session, "select * from of_lake") == [(2,)]
    alone = rowmerge.connect(spark=session.spark, catalog=lake_settings(session, tmp_path))
    assert rows(alone, "select * from raw.own") == [(1,), (2,)]


def lake_settings(session: rowmerge.Session, tmp_path: Path) -> dict[str, Any]:
    client = session._catalog.catalog_of("lake.raw")._client
    return {"name": "lake", **client._settings}


def test_use_changes_the_catalog_of_names_without_one(session: rowmerge.Session) -> None:
    session.sql("create table lake.raw.lines as select 5 as id")
    session.sql("create schema lake.other")
    session.sql("use lake.raw")
    assert rows(session, "select * from orders") == rows(session, "select * from raw.orders") == [(1, "old"), (2, "two")]
    assert rows(session, "select count(*) from orders.files") == rows(session, "select count(*) from raw.orders.files") == [(2,)]
    assert rows(session, "select * from rowmerge.analytics.orders") == [(1, "new")]
    session.sql("merge into orders using rowmerge.analytics.orders s on orders.id = s.id when matched then delete")
    assert rows(session, "select id from lake.raw.orders") == [(2,)]
    assert rows(session, "show schemas") == [("other",), ("raw",)]
    session.sql("drop schema other")
    session.sql("alter table lines rename to raw.items")
    assert [relation.name for relation in session.relations("lake.raw")] == ["items", "orders"]
    assert session.describe("analytics", "orders").relation.schema == "analytics"
    for statement, error in (("use lake", PlanError), ("use catalog lake", UnsupportedStatement), ("use pond.raw", UnsupportedStatement)):
        with pytest.raises(error, match=r"USE lake.default|There is no catalog `pond`"):
            session.sql(statement)


def test_listings_name_the_catalog_apart_from_the_schema(session: rowmerge.Session) -> None:
    assert [name for (name,) in map(tuple, session.sql("show catalogs").collect())][1:] == ["lake", "cold"]
    assert rows(session, "show catalogs like 'c*'") == [("cold",)]
    assert rows(session, "show schemas in lake") == [("raw",)]
    assert rows(session, "show tables in lake.raw") == [("raw", "orders", False)]
    facts = {row[0]: row[1] for row in session.sql("describe extended lake.raw.orders").collect()}
    assert (facts["Catalog"], facts["Schema"], facts["Name"]) == ("lake", "raw", "raw.orders")
    assert "CREATE TABLE `lake`.`raw`.`orders`" in rows(session, "show create table lake.raw.orders")[0][0]
    tables = "select table_catalog, table_schema, table_name from {}information_schema.tables"
    assert rows(session, tables.format("lake.")) == [("lake", "raw", "orders")]
    assert [row[1:] for row in rows(session, tables.format(""))] == [("analytics", "orders")]
    assert rows(session, "select table_catalog, column_name from cold.information_schema.columns") == [("cold", "id"), ("cold", "name")]


def test_procedures_of_a_catalog_find_its_tables(session: rowmerge.Session, request: pytest.FixtureRequest) -> None:
    session.sql("insert into lake.raw.orders values (4, 'four')")
    (counts,) = rows(session, "call lake.system.rewrite_data_files(table => 'raw.orders', options => map('rewrite-all', 'true'))")
    assert counts[:2] == (3, 1)
    first = rows(session, "select min_by(snapshot_id, committed_at) from lake.raw.orders.snapshots")[0][0]
    session.sql(f"call lake.system.rollback_to_snapshot('lake.raw.orders', {first})")
    assert rows(session, "select id from lake.raw.orders") == [(1,), (2,)]
    if "[rest]" not in request.node.name:  # the server of the tests cannot register tables
        metadata_file = rows(session, "select max_by(file, timestamp) from lake.raw.orders.metadata_log_entries")[0][0]
        session.sql(f"call lake.system.register_table('raw.again', '{metadata_file}')")
        assert rows(session, "select id from lake.raw.again") == [(1,), (2,)]
    with pytest.raises(TableNotFound):
        session.sql("call system.rollback_to_snapshot('analytics.missing', 1)")


def test_functions_of_a_second_folder_keep_the_schema_of_their_names(session: rowmerge.Session, tmp_path: Path) -> None:
    session.sql("create function cold.raw.next(x bigint) returns bigint return x + 1")
    assert rows(session, "select cold.raw.next(id) from lake.raw.orders") == [(2,), (3,)]
    session.sql("use cold.raw")
    session.sql("create function newest() returns bigint return (select max(id) from orders)")
    assert rows(session, "select newest(), next(1)") == [(3, 2)]
    assert session.functions("cold.raw") == ["newest", "next"]
    alone = rowmerge.connect(str(tmp_path / "cold"), spark=session.spark, schema="raw")
    assert rows(alone, "select newest()") == [(3,)]
    with pytest.raises(TableError, match=r"In the catalog lake: .* does not support functions"):
        session.sql("create function lake.raw.f() returns int return 1")


def test_statements_that_cannot_cross_catalogs_are_rejected_by_name(session: rowmerge.Session) -> None:
    with pytest.raises(
        PlanError, match=r"lake.raw.orders cannot be renamed to analytics.moved, which is in another catalog. Create it there"
    ):
        session.sql("alter table lake.raw.orders rename to rowmerge.analytics.moved")
    with pytest.raises(ConfigurationError, match="In the catalog lake: .* supports only Iceberg tables"):
        session.sql("create table lake.raw.delta_table using delta as select 1 as x")
    with pytest.raises(UnsupportedStatement, match="There is no catalog `pond`. The catalogs are"):
        session.sql("create schema pond.raw")
    with pytest.raises(PlanError, match="There is no catalog pond for pond.raw.orders"):
        session.sql("insert into pond.raw.orders values (1, 'x')")
    with pytest.raises(TableNotFound, match="There is no table or view pond.raw.orders"):
        session.sql("select * from pond.raw.orders")
    with pytest.raises(SchemaNotFound, match="In the catalog lake: There is no schema missing"):
        session.sql("create table lake.missing.t (id int)")
    with pytest.raises(VersionNotFound, match="lake.raw.orders has no snapshot 7"):
        session.sql("select * from lake.raw.orders version as of 7")
    with pytest.raises(VersionNotFound, match="cold.raw.orders"):
        session.sql("select * from cold.raw.orders version as of 7")
    with pytest.raises(TableNotFound, match="In the catalog lake"):
        session.sql("drop table lake.raw.missing")


def test_a_clone_in_another_catalog_has_the_rows_of_its_source(session: rowmerge.Session) -> None:
    session.sql("create table cold.raw.copy shallow clone cold.raw.orders")
    session.sql("create table lake.raw.copy like lake.raw.orders")
    session.sql("insert into lake.raw.copy select * from cold.raw.copy")
    assert rows(session, "select * from lake.raw.copy") == [(3, "three")]
    session.sql("drop schema cold.raw cascade")
    assert session.schemas("cold") == ["default"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"warehouse": "/x"}, "needs a name"),
        ({"name": "a.b", "warehouse": "/x"}, "needs a name without a dot"),
        ({"name": "rowmerge", "warehouse": "/x"}, "another catalog has it"),
        ({"name": "Delta", "warehouse": "/x"}, "these are reserved"),
        ({"name": "lake"}, "has neither a warehouse nor a type"),
        ({"name": "lake", "warehouse": "/x", "passwrd": "hush"}, "has the key 'passwrd'"),
        ({"name": "lake", "warehouse": "/x", "file_format": "orc"}, "is not one of delta, iceberg"),
        ({"name": "lake", "type": "sql", "file_format": "delta"}, "is not one of iceberg"),
    ],
)
def test_a_wrong_entry_of_catalogs_is_rejected_before_spark_starts(tmp_path: Path, entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        rowmerge.connect(str(tmp_path), catalogs=[entry])
    assert "hush" not in str(caught.value)


def test_the_environment_of_each_catalog_is_checked(tmp_path: Path) -> None:
    sql = {"name": "lake", "type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/lake"}
    catalogs = [sql, {"name": "cold", "warehouse": str(tmp_path / "cold")}]
    checks = {check.name: check.status for check in rowmerge.check_environment(str(tmp_path / "main"), catalogs=catalogs)}
    assert {"catalog lake", "store write lake", "store delete lake", "store write cold", "conditional puts cold", "store write"} <= {
        *checks
    }
    assert "conditional puts lake" not in checks
    assert {checks[name] for name in checks if name.endswith(("lake", "cold"))} == {"OK"}
