"""A warehouse of release 0.1.0 opens with all rows, accepts every statement and VACUUM, and its killed drops are finished."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import TableNotFound
from tests.engine.conftest import assert_independent_readers_agree
from tests.golden.iceberg.tables import comparable
from tests.golden.release_0_1_0.process import OldProcess, check_out
from tests.golden.release_0_1_0.warehouse import TABLES, expected, unpack

DROPPED = ["gone_marked", "gone_data", "gone_log", "ice_gone_marked", "ice_gone_data", "ice_gone_log"]
"""Tables whose DROP was killed after the marker, in the middle of the data files, and in the middle of the log."""
LEFT_BY_KILLS = {
    "interrupted": ["_delta_log/00000000000000000005.json#1"],
    "ice_interrupted": ["metadata/v6.metadata.json#1"],
}
NEVER_COMMITTED = 99
"""The id in the file of an INSERT that was killed before its commit."""


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> rowmerge.Session:
    return rowmerge.connect(unpack(tmp_path), spark=spark, schema="shop")


@pytest.fixture(scope="module")
def readers_session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> rowmerge.Session:
    """Yield a session on one copy of the warehouse, for tests that only read."""
    return rowmerge.connect(unpack(tmp_path_factory.mktemp("release")), spark=spark, schema="shop")


def folder_of(session: rowmerge.Session, table: str) -> Path:
    return Path(session.describe("shop", table).location.removeprefix("file://"))


def data_files(folder: Path) -> list[Path]:
    """Return the data files and delete files below a folder."""
    return [path for path in folder.rglob("*.parquet") if path.parent.name != "_delta_log"]


def rows(session: rowmerge.Session, query: str) -> list[str]:
    return comparable(session.sql(query).toArrow())


@pytest.mark.one_of("table", keep=4)
@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_rows_that_0_1_0_read(readers_session: rowmerge.Session, table: str) -> None:
    expected_table = expected()["tables"][table]
    frame = readers_session.table(table)
    assert frame.columns == expected_table["columns"]
    assert comparable(frame.toArrow()) == expected_table["rows"]
    oldest = expected_table["oldest"]
    assert rows(readers_session, f"select * from {table} version as of {oldest['version']}") == oldest["rows"]


def test_other_readers_read_the_same_rows(readers_session: rowmerge.Session) -> None:
    assert_independent_readers_agree(readers_session)


@pytest.mark.parametrize("query", expected()["queries"])
def test_views_functions_changes_and_branches_have_the_rows_that_0_1_0_read(readers_session: rowmerge.Session, query: str) -> None:
    assert rows(readers_session, query) == expected()["queries"][query]


def test_the_catalog_lists_what_0_1_0_created(readers_session: rowmerge.Session) -> None:
    assert {"default", "shop", "reports"} == set(readers_session.schemas())
    relations = {f"shop.{relation.name}": relation for relation in readers_session.relations("shop")}
    assert {name for name, relation in relations.items() if relation.kind == "table"} == set(TABLES)
    assert {name for name, relation in relations.items() if relation.kind == "view"} == {"shop.both"}
    assert {relation.format for name, relation in relations.items() if "ice_" in name} == {"iceberg"}
    assert sorted(readers_session.functions("shop")) == ["cents", "initials"]


@pytest.mark.one_of("table", keep=3)
@pytest.mark.parametrize("table", [name.removeprefix("shop.") for name in TABLES])
def test_a_table_accepts_every_statement_and_can_be_dropped(session: rowmerge.Session, table: str) -> None:
    ids = {row["id"] for row in session.table(table).toArrow().to_pylist()}
    extra = {"id": [1000, 1001], "day": ["2026-02-01", "2026-02-02"], "amount": [1, 2]}
    columns = [name for name in extra if name in session.table(table).columns]
    values = ", ".join(f"({', '.join(_literal(name, extra[name][row]) for name in columns)})" for row in range(2))
    session.sql(f"insert into {table} ({', '.join(columns)}) values {values}")
    merged = session.execute(
        f"merge into {table} t using (select id + 1 as id from {table} where id >= 1000) s on t.id = s.id "
        f"when matched then update set day = date '2026-03-01' when not matched then insert (id, {', '.join(columns[1:])}) "
        f"values (s.id, {', '.join(_literal(name, extra[name][0]) for name in columns[1:])})"
    )
    assert (merged.changes.updated, merged.changes.inserted) == (1, 1)  # type: ignore[union-attr]
    session.sql(f"update {table} set day = date '2026-04-01' where id = 1002")
    assert session.execute(f"delete from {table} where id = 1000").changes.deleted == 1  # type: ignore[union-attr]
    session.sql(f"alter table {table} add column note string")
    session.sql(f"alter table {table} set tblproperties ('owner' = 'tests')")
    ids |= {1001, 1002}
    assert_ids(session, table, ids)
    session.sql(f"optimize {table}")
    if "cloned" not in table:  # an Iceberg clone shares its files, so VACUUM rejects it
        vacuum(session, table)
    assert_ids(session, table, ids)
    assert_independent_readers_agree(session, table)
    folder = folder_of(session, table)
    session.sql(f"drop table {table}")
    if "elsewhere" in table:
        assert data_files(folder), "DROP of an external table deletes the name only"
        return
    assert data_files(folder) == []
    session.sql(f"create table {table} (id bigint) using {'iceberg' if 'ice_' in table else 'delta'}")
    session.sql(f"insert into {table} values (5)")
    assert_ids(session, table, {5})
    assert_independent_readers_agree(session, table)


def _literal(column: str, value: object) -> str:
    return f"date '{value}'" if column == "day" else str(value)


def assert_ids(session: rowmerge.Session, table: str, ids: set[int]) -> None:
    table_ids = session.table(table).toArrow()["id"].to_pylist()
    assert sorted(table_ids) == sorted(ids)


def vacuum(session: rowmerge.Session, table: str) -> None:
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    session.sql(f"vacuum {table} retain 0 hours")
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = true")


@pytest.mark.parametrize("table", ["keyed", "ice_keyed"])
def test_a_statement_that_0_1_0_ran_with_an_idempotency_key_is_not_run_again(session: rowmerge.Session, table: str) -> None:
    old_rows = rows(session, f"select * from {table}")
    session.sql(f"insert into {table} values (7, 'twice', 7.00, date '2026-01-07')", idempotency_key="load-7")
    assert rows(session, f"select * from {table}") == old_rows


@pytest.mark.parametrize("table", sorted(LEFT_BY_KILLS))
def test_vacuum_deletes_files_of_a_killed_insert(session: rowmerge.Session, table: str) -> None:
    folder = folder_of(session, table)
    leftover_files = [folder / path for path in LEFT_BY_KILLS[table]]
    assert [path for path in leftover_files if not path.exists()] == []
    data = [path for path in data_files(folder) if not path.name.endswith("-deletes.parquet")]
    orphans = [path for path in data if pq.read_table(path)["id"].to_pylist() == [NEVER_COMMITTED]]
    assert len(orphans) == 1
    old_rows = rows(session, f"select * from {table}")
    session.sql(f"insert into {table} values (8, 'h', 8.00, date '2026-01-08')")
    vacuum(session, table)
    assert not orphans[0].exists()
    assert [row for row in rows(session, f"select * from {table}") if '"id": 8,' not in row] == old_rows


@pytest.mark.one_of("table", keep=2)
@pytest.mark.parametrize("table", DROPPED)
def test_the_next_table_of_the_name_finishes_a_killed_drop(session: rowmerge.Session, table: str) -> None:
    folder = Path(session.describe("shop", "plain").location.removeprefix("file://")).parent / table
    assert list(folder.rglob("_dropped.json"))
    with pytest.raises(TableNotFound):
        session.table(table)
    format_ = "iceberg" if table.startswith("ice_") else "delta"
    session.sql(f"create table {table} (id bigint, word string) using {format_}")
    assert session.table(table).toArrow().num_rows == 0
    session.sql(f"insert into {table} values (1, 'new')")
    session.sql(f"merge into {table} t using (select 1 as id, 'newer' as word) s on t.id = s.id when matched then update set *")
    assert session.table(table).toArrow().to_pylist() == [{"id": 1, "word": "newer"}]
    assert_independent_readers_agree(session, table)
    session.sql(f"drop table {table}")
    session.sql(f"create view {table} as select 1 as one")
    assert session.table(table).toArrow().to_pylist() == [{"one": 1}]


def test_drop_schema_finishes_killed_drops_of_its_tables(session: rowmerge.Session, tmp_path: Path) -> None:
    session.sql("use default")
    session.sql("drop schema shop cascade")
    assert "shop" not in session.schemas()
    assert data_files(tmp_path / "warehouse/shop") == []
    assert not list((tmp_path / "warehouse/shop").rglob("_dropped.json"))
    assert len(data_files(tmp_path / "elsewhere")) > 2


def test_a_view_of_0_1_0_is_replaced_and_dropped(session: rowmerge.Session) -> None:
    session.sql("create or replace view both as select 7 as seven")
    assert session.table("both").toArrow().to_pylist() == [{"seven": 7}]
    session.sql("drop view both")
    session.sql("create table both (id bigint) using iceberg")
    assert session.table("both").toArrow().num_rows == 0


@pytest.fixture(scope="module")
def old_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldProcess]:
    process = OldProcess(check_out(tmp_path_factory.mktemp("release")))
    yield process
    process.kill()


@pytest.mark.full_suite("it starts a second Spark")
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_statements_of_0_1_0_fail_on_a_table_that_this_release_dropped(
    old_process: OldProcess, spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    """0.1.0 reads an empty table with another column. ALTER and CREATE OR REPLACE create a table there."""
    old, session = old_process.open(str(tmp_path)), rowmerge.connect(str(tmp_path), spark=spark, schema="s")
    for table in ("t", "u"):
        session.sql(f"create table {table} (id bigint, name string) using {format_}")
        session.sql(f"insert into {table} values (1, 'a')")
        session.sql(f"drop table {table}")
    assert old.run("sql", "insert into t values (2, 'b')") == "PlanError"
    source = "(select 2 as id, 'b' as name) s on t.id = s.id"
    assert old.run("sql", f"merge into t using {source} when not matched then insert *") == "UnknownColumn"
    assert old.run("sql", "update t set name = 'c' where id = 1") == "UnknownColumn"
    assert old.run("sql", "delete from t where id = 1") == "UnknownColumn"
    assert old.run("sql", "alter table t add column more string") == []
    assert old.run("sql", "create table t (id bigint)") == "AlreadyExists"
    # A table is dropped only while its newest commit is that of the drop, so 0.1.0's ALTER restores the table.
    assert session.relation("s", "t") is not None
    old.run("sql", f"create or replace table t using {format_} as select 3L as id, 'c' as name")
    assert session.table("t").toArrow().to_pylist() == [{"id": 3, "name": "c"}]
    assert old.run("sql", "drop table u") == []
    session.sql(f"create table u (id bigint) using {format_}")
    session.sql("insert into u values (4)")
    assert old.run("sql", "select * from u") == [["4"]]
    assert_independent_readers_agree(session)
